// One walk builds the program anew (fold, share, hoist); dead instructions are skipped.
// SPDX-License-Identifier: MIT

#include "tenon/codegen/clean_linear.h"

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

bool is_control(Op op) {
  return op == Op::kFor || op == Op::kIf || op == Op::kYield;
}

bool has_effect(Op op) {
  return is_control(op) || op == Op::kStore || op == Op::kAtomic || op == Op::kPrefetch ||
         op == Op::kBarrier || op == Op::kTileStore || op == Op::kUnitSetup;
}

// A function of its operands and fields only.
bool is_pure(const Inst& inst) {
  const OpClass op_class = op_info(inst.op).op_class;
  return is_elementwise(inst.op) || op_class == OpClass::kVector || inst.op == Op::kConst ||
         inst.op == Op::kGridId || inst.op == Op::kLaneId;
}

// What is reached from instructions with an effect.
std::vector<bool> find_live(const LinearProgram& program) {
  std::vector<bool> live(program.insts.size(), false);
  std::vector<InstId> pending;
  for (const InstId id : program_order(program)) {
    if (has_effect(program.insts[id].op)) pending.push_back(id);
  }
  while (!pending.empty()) {
    const InstId id = pending.back();
    pending.pop_back();
    if (live[id]) continue;
    live[id] = true;
    for (const ValueId operand : program.operands_of(program.insts[id])) {
      const InstId def = program.values[operand].def;
      if (def != kNoId && !live[def]) pending.push_back(def);
    }
  }
  return live;
}

/// Equal keys compute equal values: op, type, fields, operands.
using Key = std::vector<uint64_t>;

class Cleaner {
 public:
  explicit Cleaner(const LinearProgram& program)
      : in_(program),
        live_(find_live(program)),
        builder_(out_),
        new_value_(program.values.size(), kNoId) {
    out_.name = program.name;
    out_.signature = program.signature;
    out_.grid = program.grid;
    out_.lanes = program.lanes;
    out_.shuffle_tables = program.shuffle_tables;
  }

  LinearProgram run() {
    frames_.push_back({.region = 0, .is_loop = false, .known = {}});
    copy_region(0);
    builder_.finish();
    return std::move(out_);
  }

 private:
  struct Frame {
    RegionId region = 0;
    bool is_loop = false;
    std::map<Key, ValueId> known;  // what this region has computed
  };

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_region(RegionId region) {
    for (const InstId id : in_.regions[region].insts) {
      const Inst& inst = in_.insts[id];
      if (!live_[id] || inst.op == Op::kYield) continue;
      if (inst.op == Op::kFor) {
        copy_for(inst);
      } else if (inst.op == Op::kIf) {
        copy_if(inst);
      } else {
        copy_inst(inst);
      }
    }
  }

  ValueId mapped(ValueId value) const {
    TENON_ASSERT(new_value_[value] != kNoId, "clean_linear: value ", value, " is not defined yet");
    return new_value_[value];
  }

  std::vector<ValueId> mapped_operands(const Inst& inst) const {
    std::vector<ValueId> operands;
    for (const ValueId operand : in_.operands_of(inst))
      operands.push_back(mapped(operand));
    return operands;
  }

  std::vector<ValueId> mapped_yield(RegionId region) const {
    const Inst& yield = in_.insts[in_.regions[region].insts.back()];
    TENON_ASSERT(yield.op == Op::kYield, "clean_linear: a region does not end with yield");
    return mapped_operands(yield);
  }

  // Notes the depth at which values were defined: how many frames were open.
  void note_depth(size_t depth) { depth_.resize(out_.values.size(), depth); }

  void define(ValueId old_value, ValueId value) { new_value_[old_value] = value; }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_for(const Inst& inst) {
    const std::vector<ValueId> operands = mapped_operands(inst);
    const LinearBuilder::Loop loop =
        builder_.begin_for(operands[0], operands[1], std::span(operands).subspan(2));
    depth_.resize(out_.values.size() - 1 - loop.carried.size(), frames_.size());  // the results
    frames_.push_back({.region = builder_.region(), .is_loop = true, .known = {}});
    note_depth(frames_.size());
    const Region& body = in_.regions[inst.regions[0]];
    define(body.args[0], loop.index);
    for (size_t i = 0; i < loop.carried.size(); ++i)
      define(body.args[i + 1], loop.carried[i]);
    copy_region(inst.regions[0]);
    const std::vector<ValueId> yielded = mapped_yield(inst.regions[0]);
    frames_.pop_back();
    const std::vector<ValueId> results = builder_.end_for(loop, yielded);
    for (size_t i = 0; i < results.size(); ++i) {
      define(inst.first_result + static_cast<ValueId>(i), results[i]);
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_if(const Inst& inst) {
    std::vector<LinearType> types;
    for (uint32_t i = 0; i < inst.num_results; ++i)
      types.push_back(in_.type_of(inst.first_result + i));
    const LinearBuilder::Branch branch = builder_.begin_if(mapped_operands(inst)[0], types);
    note_depth(frames_.size());
    copy_branch(inst.regions[0]);
    builder_.begin_else(branch, mapped_yield(inst.regions[0]));
    copy_branch(inst.regions[1]);
    const std::vector<ValueId> results = builder_.end_if(branch, mapped_yield(inst.regions[1]));
    for (size_t i = 0; i < results.size(); ++i) {
      define(inst.first_result + static_cast<ValueId>(i), results[i]);
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_branch(RegionId region) {
    frames_.push_back({.region = builder_.region(), .is_loop = false, .known = {}});
    copy_region(region);
    frames_.pop_back();
  }

  void copy_inst(const Inst& inst) {
    const std::vector<ValueId> operands = mapped_operands(inst);
    if (is_pure(inst)) {
      define(inst.first_result, pure_value(inst, operands));
      return;
    }
    if (inst.op == Op::kLoad && reads_constant_memory(operands[0])) {
      define(inst.first_result, shared_value(inst, operands, frames_.size()));
      return;
    }
    const ValueId result = append(inst, operands);
    if (inst.num_results == 1) define(inst.first_result, result);
  }

  bool reads_constant_memory(ValueId pointer) const {
    const Inst& def = out_.insts[out_.values[pointer].def];
    return def.op == Op::kParam &&
           out_.signature.arguments[static_cast<size_t>(def.imm)].access == ArgumentAccess::kRead;
  }

  ValueId append(const Inst& inst, std::span<const ValueId> operands) {
    std::vector<LinearType> types;
    for (uint32_t i = 0; i < inst.num_results; ++i)
      types.push_back(in_.type_of(inst.first_result + i));
    Inst copy = inst;
    const InstId id = builder_.append(copy, operands, types);
    note_depth(frames_.size());
    return out_.insts[id].first_result;
  }

  ValueId pure_value(const Inst& inst, std::span<const ValueId> operands) {
    if (const auto same = simplified(inst, operands)) return *same;
    if (const auto bits = folded(inst, operands)) {
      const Inst constant{.op = Op::kConst,
                          .type = inst.type,
                          .num_results = 1,
                          .imm = static_cast<int64_t>(*bits)};
      return shared_value(constant, {}, 1);
    }
    // Out of every loop around whose values it does not use, but never out of a branch.
    size_t depth = 1;
    for (const ValueId operand : operands)
      depth = std::max(depth, depth_[operand]);
    size_t place = frames_.size();
    while (place > depth && frames_[place - 1].is_loop)
      --place;
    return shared_value(inst, operands, place);
  }

  // The value of an equal instruction in this or an outer region, or a new one in frame `place`.
  ValueId shared_value(const Inst& inst, std::span<const ValueId> operands, size_t place) {
    const Key key = key_of(inst, operands);
    for (size_t i = frames_.size(); i-- > 0;) {
      const auto found = frames_[i].known.find(key);
      if (found != frames_[i].known.end()) return found->second;
    }
    while (place < frames_.size() && !can_place(place))
      ++place;
    Frame& frame = frames_[place - 1];
    const RegionId current = builder_.region();
    builder_.set_region(frame.region);
    const LinearType type = inst.type;
    const InstId id = builder_.append(inst, operands, {&type, 1});
    builder_.set_region(current);
    if (place < frames_.size()) {
      // Before the loop that is open in that region, which is its last instruction.
      std::vector<InstId>& insts = out_.regions[frame.region].insts;
      std::swap(insts[insts.size() - 1], insts[insts.size() - 2]);
    }
    note_depth(place);
    const ValueId value = out_.insts[id].first_result;
    frame.known.emplace(key, value);
    return value;
  }

  // A frame takes an instruction if every frame inside it is a loop (not a branch).
  bool can_place(size_t place) const {
    for (size_t i = place; i < frames_.size(); ++i) {
      if (!frames_[i].is_loop) return false;
    }
    return true;
  }

  static Key key_of(const Inst& inst, std::span<const ValueId> operands) {
    const bool is_one_id = inst.op == Op::kGridId && is_planted(PlantedFault::kGroupIdsShared);
    const bool is_mixed = inst.op == Op::kMod && is_planted(PlantedFault::kRemainderShared);
    Key key{static_cast<uint64_t>(is_mixed ? Op::kDiv : inst.op) |
                static_cast<uint64_t>(inst.type.dtype) << 8 |
                static_cast<uint64_t>(inst.type.lanes) << 16 |
                static_cast<uint64_t>(inst.nt) << 32 | static_cast<uint64_t>(inst.type.kind) << 40,
            static_cast<uint64_t>(is_one_id ? 0 : inst.imm), inst.align};
    for (const ValueId operand : operands)
      key.push_back(operand);
    return key;
  }

  std::optional<uint64_t> scalar_constant(ValueId value) const {
    const LinearValue& what = out_.values[value];
    if (what.def == kNoId || what.type.lanes != 1) return std::nullopt;
    const Inst& def = out_.insts[what.def];
    if (def.op != Op::kConst) return std::nullopt;
    return static_cast<uint64_t>(def.imm);
  }

  std::optional<uint64_t> folded(const Inst& inst, std::span<const ValueId> operands) const {
    if (!is_elementwise(inst.op) || is_bounded_class(inst.op) || inst.op == Op::kMulAcc) {
      return std::nullopt;
    }
    std::array<ScalarBits, 3> bits{};
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto constant = scalar_constant(operands[i]);
      if (!constant) return std::nullopt;
      bits[i] = *constant;
    }
    const DType from = out_.type_of(operands[inst.op == Op::kWhere ? 1 : 0]).dtype;
    if (inst.op == Op::kCast) return eval_cast(bits[0], from, inst.type.dtype);
    if (inst.op == Op::kBitcast) return eval_bitcast(bits[0], from, inst.type.dtype);
    return eval_op(inst.op, from, std::span(bits).first(operands.size()));
  }

  // An operand that the instruction just returns.
  std::optional<ValueId> simplified(const Inst& inst, std::span<const ValueId> operands) const {
    if (inst.op == Op::kWhere) {
      if (operands[1] == operands[2]) return operands[1];
      if (const auto condition = scalar_constant(operands[0]))
        return operands[*condition != 0 ? 1 : 2];
    }
    if (!is_int(inst.type.dtype) || operands.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const auto constant = scalar_constant(operands[i]);
      if (!constant) continue;
      if (inst.op == Op::kAdd && *constant == 0) return operands[1 - i];
      if (inst.op == Op::kMul && *constant == 1) return operands[1 - i];
      if (inst.op == Op::kMul && *constant == 0) return operands[i];
      if (inst.op == Op::kSub && i == 1 && *constant == 0) return operands[0];
    }
    return std::nullopt;
  }

  const LinearProgram& in_;
  std::vector<bool> live_;
  LinearProgram out_;
  LinearBuilder builder_;
  std::vector<ValueId> new_value_;
  std::vector<size_t> depth_;  // by new value: number of frames open where it is defined
  std::vector<Frame> frames_;
};

}  // namespace

LinearProgram clean_linear(const LinearProgram& program) {
  // Folding leaves constants that nothing uses any more; the second walk drops them.
  return Cleaner(Cleaner(program).run()).run();
}

}  // namespace tenon
