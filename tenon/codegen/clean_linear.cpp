// One walk builds the program anew (fold, share, hoist); dead instructions are skipped.
// SPDX-License-Identifier: MIT

#include "tenon/codegen/clean_linear.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/codegen/liveness.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

// A function of its operands and fields only, of as many as a Key holds. A tile of zeros is not
// shared: to make one is cheaper than to copy it, which goes through memory.
bool is_pure(const Inst& inst) {
  if (inst.op == Op::kConst && inst.type.kind == TypeKind::kTile) return false;
  if (inst.num_operands > 4) return false;
  const OpClass op_class = op_info(inst.op).op_class;
  return is_elementwise(inst.op) || op_class == OpClass::kVector || inst.op == Op::kConst ||
         inst.op == Op::kGridId || inst.op == Op::kLaneId || inst.op == Op::kMma;
}

/// Equal keys compute equal values: op, type, fields, operands, version of the memory read.
struct Key {
  uint64_t head = 0;
  uint64_t imm = 0;
  uint64_t align_and_version = 0;
  std::array<ValueId, 4> operands{kNoId, kNoId, kNoId, kNoId};
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = key.head;
    const auto mix = [&hash](uint64_t word) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29;
    };
    mix(key.imm);
    mix(key.align_and_version);
    mix(static_cast<uint64_t>(key.operands[0]) << 32 | key.operands[1]);
    mix(static_cast<uint64_t>(key.operands[2]) << 32 | key.operands[3]);
    return hash;
  }
};

class Cleaner {
 public:
  explicit Cleaner(const LinearProgram& program)
      : in_(program), live_(program), builder_(out_), new_value_(program.values.size(), kNoId) {
    out_.name = program.name;
    out_.signature = program.signature;
    out_.grid = program.grid;
    out_.lanes = program.lanes;
    out_.shuffle_tables = program.shuffle_tables;
    note_writes();
  }

  LinearProgram run() {
    frames_.push_back({.region = 0, .is_loop = false, .added = {}});
    copy_region(0);
    builder_.finish();
    return std::move(out_);
  }

 private:
  struct Frame {
    RegionId region = 0;
    bool is_loop = false;
    std::vector<Key> added;  // to known_, by instructions placed in this region
  };

  // --- memory: loads are shared while the version of what they read stays ---

  // Which pointers are written inside each loop and branch; kNoId: any memory.
  void note_writes() {
    for (const InstId id : program_order(in_)) {
      const auto pointer = written_by(in_.insts[id]);
      if (!pointer) continue;
      for (InstId around = live_.around(id); around != kNoId; around = live_.around(around)) {
        std::vector<ValueId>& pointers = writes_[around];
        if (std::ranges::find(pointers, *pointer) == pointers.end()) pointers.push_back(*pointer);
      }
    }
  }

  std::optional<ValueId> written_by(const Inst& inst) const {
    if (inst.op == Op::kStore) return in_.operands_of(inst)[0];
    const bool is_any =
        inst.op == Op::kBarrier || inst.op == Op::kAtomic || inst.op == Op::kTileStore;
    return is_any ? std::optional<ValueId>(kNoId) : std::nullopt;
  }

  void note_write(ValueId pointer) {
    ++num_writes_;
    if (pointer == kNoId) {
      last_any_write_ = num_writes_;
    } else {
      last_write_[pointer] = num_writes_;
    }
  }

  void note_writes_of(InstId loop) {
    const auto found = writes_.find(loop);
    if (found == writes_.end()) return;
    for (const ValueId pointer : found->second)
      note_write(pointer);
  }

  uint64_t version_of(ValueId pointer) const {
    const auto found = last_write_.find(pointer);
    return std::max(last_any_write_, found == last_write_.end() ? 0 : found->second);
  }

  // --- the walk ---

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_region(RegionId region) {
    for (const InstId id : in_.regions[region].insts) {
      const Inst& inst = in_.insts[id];
      if (!live_.has_inst(id) || inst.op == Op::kYield) continue;
      if (inst.op == Op::kFor) {
        copy_for(id);
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

  // Numbers of the results that something needs.
  std::vector<uint32_t> live_results(const Inst& inst) const {
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < inst.num_results; ++i) {
      if (live_.has_value(inst.first_result + i)) numbers.push_back(i);
    }
    return numbers;
  }

  std::vector<ValueId> mapped_yield(RegionId region, const std::vector<uint32_t>& numbers) const {
    const Inst& yield = in_.insts[in_.regions[region].insts.back()];
    TENON_ASSERT(yield.op == Op::kYield, "clean_linear: a region does not end with yield");
    std::vector<ValueId> values;
    for (const uint32_t number : numbers)
      values.push_back(mapped(in_.operands_of(yield)[number]));
    return values;
  }

  // Notes the depth at which values were defined: how many frames were open.
  void note_depth(size_t depth) { depth_.resize(out_.values.size(), depth); }

  void define(ValueId old_value, ValueId value) { new_value_[old_value] = value; }

  void define_results(const Inst& inst, const std::vector<uint32_t>& numbers,
                      const std::vector<ValueId>& results) {
    for (size_t i = 0; i < numbers.size(); ++i)
      define(inst.first_result + numbers[i], results[i]);
  }

  void leave_frame() {
    for (const Key& key : frames_.back().added)
      known_.erase(key);
    frames_.pop_back();
  }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_for(InstId id) {
    const Inst& inst = in_.insts[id];
    const auto operands = in_.operands_of(inst);
    const std::vector<uint32_t> carried = live_results(inst);
    std::vector<ValueId> starts;
    for (const uint32_t number : carried)
      starts.push_back(mapped(operands[2 + number]));
    const LinearBuilder::Loop loop =
        builder_.begin_for(mapped(operands[0]), mapped(operands[1]), starts);
    depth_.resize(out_.values.size() - 1 - carried.size(), frames_.size());  // the results
    frames_.push_back({.region = builder_.region(), .is_loop = true, .added = {}});
    note_depth(frames_.size());
    const Region& body = in_.regions[inst.regions[0]];
    define(body.args[0], loop.index);
    for (size_t i = 0; i < carried.size(); ++i)
      define(body.args[carried[i] + 1], loop.carried[i]);
    note_writes_of(id);  // by iterations before
    copy_region(inst.regions[0]);
    const std::vector<ValueId> yielded = mapped_yield(inst.regions[0], carried);
    leave_frame();
    note_writes_of(id);
    define_results(inst, carried, builder_.end_for(loop, yielded));
  }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_if(const Inst& inst) {
    const std::vector<uint32_t> numbers = live_results(inst);
    std::vector<LinearType> types;
    for (const uint32_t number : numbers)
      types.push_back(in_.type_of(inst.first_result + number));
    const LinearBuilder::Branch branch = builder_.begin_if(mapped(in_.operands_of(inst)[0]), types);
    note_depth(frames_.size());
    copy_branch(inst.regions[0]);
    builder_.begin_else(branch, mapped_yield(inst.regions[0], numbers));
    copy_branch(inst.regions[1]);
    define_results(inst, numbers, builder_.end_if(branch, mapped_yield(inst.regions[1], numbers)));
  }

  // NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
  void copy_branch(RegionId region) {
    frames_.push_back({.region = builder_.region(), .is_loop = false, .added = {}});
    copy_region(region);
    leave_frame();
  }

  void copy_inst(const Inst& inst) {
    std::array<ValueId, kMaxScalarOperands> buffer{};
    TENON_ASSERT(inst.num_operands <= buffer.size(), "clean_linear: ", op_name(inst.op), " has ",
                 inst.num_operands, " operands");
    for (size_t i = 0; i < inst.num_operands; ++i)
      buffer[i] = mapped(in_.operands_of(inst)[i]);
    std::span<const ValueId> operands(buffer.data(), inst.num_operands);
    if (is_pure(inst)) {
      define(inst.first_result, pure_value(inst, operands));
      return;
    }
    if (operands.size() == 4 && (inst.op == Op::kLoad || inst.op == Op::kStore)) {
      ValueId& gate = buffer[inst.op == Op::kLoad ? 2 : 3];
      gate = without_splat(gate);
      if (const auto is_open = constant_bits(gate)) {
        if (*is_open == 0 && inst.op == Op::kStore) return;
        if (*is_open == 0) return define(inst.first_result, operands[3]);
        operands = operands.first(inst.op == Op::kLoad ? 2 : 3);
      }
    }
    if (inst.op == Op::kLoad) {
      const uint64_t version = version_of(in_.operands_of(inst)[0]);
      define(inst.first_result, shared_value(inst, operands, frames_.size(), version));
      return;
    }
    if (const auto pointer = written_by(inst)) note_write(*pointer);
    const ValueId result = append(inst, operands);
    if (inst.num_results == 1) define(inst.first_result, result);
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
      return shared_value(constant, {}, 1, 0);
    }
    // Out of every loop around whose values it does not use, but never out of a branch.
    size_t depth = 1;
    for (const ValueId operand : operands)
      depth = std::max(depth, depth_[operand]);
    size_t place = frames_.size();
    while (place > depth && frames_[place - 1].is_loop)
      --place;
    return shared_value(inst, operands, place, 0);
  }

  // The value of an equal instruction in this or an outer region, or a new one in frame `place`.
  ValueId shared_value(const Inst& inst, std::span<const ValueId> operands, size_t place,
                       uint64_t version) {
    const Key key = key_of(inst, operands, version);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
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
    known_.emplace(key, value);
    frame.added.push_back(key);
    return value;
  }

  // A frame takes an instruction if every frame inside it is a loop (not a branch).
  bool can_place(size_t place) const {
    for (size_t i = place; i < frames_.size(); ++i) {
      if (!frames_[i].is_loop) return false;
    }
    return true;
  }

  static Key key_of(const Inst& inst, std::span<const ValueId> operands, uint64_t version) {
    const bool is_one_id = inst.op == Op::kGridId && is_planted(PlantedFault::kGroupIdsShared);
    const bool is_mixed = inst.op == Op::kMod && is_planted(PlantedFault::kRemainderShared);
    Key key{.head = static_cast<uint64_t>(is_mixed ? Op::kDiv : inst.op) |
                    static_cast<uint64_t>(inst.type.dtype) << 8 |
                    static_cast<uint64_t>(inst.type.lanes) << 16 |
                    static_cast<uint64_t>(inst.nt) << 32 |
                    static_cast<uint64_t>(inst.type.kind) << 40,
            .imm = static_cast<uint64_t>(is_one_id ? 0 : inst.imm),
            .align_and_version = inst.align | version << 16};
    std::ranges::copy(operands, key.operands.begin());
    return key;
  }

  // --- what needs no instruction ---

  const Inst* def_of(ValueId value) const {
    const InstId def = out_.values[value].def;
    return def == kNoId ? nullptr : &out_.insts[def];
  }

  /// Bits of a constant, which all its lanes have.
  std::optional<uint64_t> constant_bits(ValueId value) const {
    const Inst* def = def_of(value);
    if (def == nullptr || def->op != Op::kConst) return std::nullopt;
    return static_cast<uint64_t>(def->imm);
  }

  // A gate that all lanes share is a scalar.
  ValueId without_splat(ValueId value) const {
    const Inst* def = def_of(value);
    return def != nullptr && def->op == Op::kSplat ? out_.operands_of(*def)[0] : value;
  }

  std::optional<uint64_t> folded(const Inst& inst, std::span<const ValueId> operands) const {
    std::array<ScalarBits, 3> bits{};
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto constant = constant_bits(operands[i]);
      if (!constant || i >= bits.size()) return std::nullopt;
      bits[i] = *constant;
    }
    if (inst.op == Op::kSplat || inst.op == Op::kExtract) return bits[0];
    if (inst.op == Op::kFirstN) {
      const auto count = static_cast<int64_t>(bits[0]);
      if (count <= 0) return 0;
      return count >= inst.type.lanes ? std::optional<uint64_t>(1) : std::nullopt;
    }
    if (!is_elementwise(inst.op) || is_bounded_class(inst.op) || inst.op == Op::kMulAcc) {
      return std::nullopt;
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
      if (const auto condition = constant_bits(operands[0]))
        return operands[*condition != 0 ? 1 : 2];
    }
    if (inst.op == Op::kExtract && without_splat(operands[0]) != operands[0]) {
      return without_splat(operands[0]);
    }
    const bool is_logic = inst.type.dtype == DType::kBool;
    if ((!is_int(inst.type.dtype) && !is_logic) || operands.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const auto constant = constant_bits(operands[i]);
      if (!constant || out_.type_of(operands[i]) != inst.type) continue;
      if (is_logic && inst.op == Op::kAnd) return operands[*constant == 0 ? i : 1 - i];
      if (is_logic && inst.op == Op::kOr) return operands[*constant == 0 ? 1 - i : i];
      if (is_logic) continue;
      if (inst.op == Op::kAdd && *constant == 0) return operands[1 - i];
      if (inst.op == Op::kMul && *constant == 1) return operands[1 - i];
      if (inst.op == Op::kMul && *constant == 0) return operands[i];
      if (inst.op == Op::kSub && i == 1 && *constant == 0) return operands[0];
    }
    return std::nullopt;
  }

  const LinearProgram& in_;
  Liveness live_;
  LinearProgram out_;
  LinearBuilder builder_;
  std::vector<ValueId> new_value_;
  std::vector<size_t> depth_;  // by new value: number of frames open where it is defined
  std::vector<Frame> frames_;
  std::unordered_map<Key, ValueId, KeyHash> known_;  // what this and outer regions have computed
  std::unordered_map<InstId, std::vector<ValueId>> writes_;
  std::unordered_map<ValueId, uint64_t> last_write_;  // by pointer (of the old program)
  uint64_t last_any_write_ = 0;
  uint64_t num_writes_ = 0;
};

}  // namespace

LinearProgram clean_linear(const LinearProgram& program) {
  // Folding leaves constants that nothing uses any more; the second walk drops them.
  return Cleaner(Cleaner(program).run()).run();
}

}  // namespace tenon
