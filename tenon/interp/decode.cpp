// Places of values and memory, and the codes. SPDX-License-Identifier: MIT

#include "tenon/interp/decode.h"

#include <algorithm>
#include <optional>

#include "tenon/base/error.h"
#include "tenon/ir/linear_unit.h"

namespace tenon {

using interp::Code;
using interp::kNone;
using interp::MemoryPlan;
using interp::Range;

namespace {

/// Nothing is left to do when the groups run.
bool is_done(const Inst& inst) {
  constexpr std::array kOps{Op::kAlloc, Op::kYield, Op::kPrefetch, Op::kUnitSetup};
  return inst.type.kind == TypeKind::kPointer || std::ranges::find(kOps, inst.op) != kOps.end();
}

class Decoder {
 public:
  Decoder(LinearProgram program, const InterpOptions& options)
      : fuses_mulacc_(options.fuses_mulacc) {
    out_.program = std::move(program);
    out_.units.assign(options.units.begin(), options.units.end());
    const int64_t lanes = num_lanes(program_);
    out_.num_lanes = static_cast<uint32_t>(std::min<int64_t>(lanes, kNone));
  }

  interp::Decoded run() {
    const std::vector<InstId> order = program_order(program_);
    place_values(order);
    place_memory(order);
    for (const InstId id : order)
      check_unit(program_.insts[id]);
    out_.body = add_region(0);
    return std::move(out_);
  }

 private:
  // The result of a loop lies where the carried value does: that one is not changed any more.
  void place_values(const std::vector<InstId>& order) {
    places_.assign(program_.values.size(), kNone);
    constexpr uint64_t kMaxWords = uint64_t{1} << 27;
    uint64_t words = 0;
    const auto place = [&](ValueId value) {
      const LinearType& type = program_.type_of(value);
      if (type.kind != TypeKind::kValue && type.kind != TypeKind::kTile) return;
      places_[value] = static_cast<uint32_t>(words);
      words += uint64_t{type.lanes} * out_.num_lanes;
      TENON_CHECK(words <= kMaxWords, ErrorCode::kUnsupported, "interp: ", program_.name,
                  " needs more than ", kMaxWords, " words for the values of ", num_lanes(program_),
                  " lanes");
    };
    for (const InstId id : order) {
      const Inst& inst = program_.insts[id];
      for (size_t i = 0; i < inst.num_regions; ++i)
        std::ranges::for_each(program_.regions[inst.regions[i]].args, place);
      for (uint32_t i = 0; i < inst.num_results; ++i) {
        const ValueId result = inst.first_result + i;
        if (inst.op == Op::kFor) {
          places_[result] = places_[program_.regions[inst.regions[0]].args[i + 1]];
        } else {
          place(result);
        }
      }
    }
    out_.num_words = static_cast<uint32_t>(words);
  }

  void place_memory(const std::vector<InstId>& order) {
    memory_of_.assign(program_.values.size(), kNone);
    const ScratchLayout scratch = layout_scratch(program_);
    constexpr int64_t kMaxBytes = int64_t{1} << 31;
    int64_t bytes = scratch.size_bytes;
    for (const InstId id : order) {
      const Inst& inst = program_.insts[id];
      if (inst.type.kind != TypeKind::kPointer || inst.num_results == 0) continue;
      MemoryPlan memory{.pointer = inst.first_result,
                        .scope = inst.type.scope,
                        .dtype = inst.type.dtype,
                        .num_elements = inst.imm};
      if (inst.op == Op::kParam) {
        const Argument& argument = program_.signature.arguments[static_cast<size_t>(inst.imm)];
        memory.num_elements = argument.num_elements;
        memory.argument = inst.imm;
        const auto known = std::ranges::find(out_.memories, inst.imm, &MemoryPlan::argument);
        memory_of_[inst.first_result] = static_cast<uint32_t>(known - out_.memories.begin());
        if (known != out_.memories.end()) continue;  // pointers to one argument share its memory
      } else if (inst.type.scope == Scope::kReg) {
        const int64_t align = std::max<int64_t>(effective_align(inst), 1);
        const int64_t step = inst.imm * dtype_size_bytes(inst.type.dtype);
        memory.lane_step = (step + align - 1) / align * align;
        memory.offset = (bytes + align - 1) / align * align;
        const bool is_small = memory.lane_step <= (kMaxBytes - memory.offset) / out_.num_lanes;
        bytes = is_small ? memory.offset + memory.lane_step * out_.num_lanes : kMaxBytes + 1;
      } else {
        memory.offset = scratch.offsets[id];
      }
      TENON_CHECK(bytes <= kMaxBytes, ErrorCode::kUnsupported, "interp: ", program_.name,
                  " allocates more than ", kMaxBytes, " bytes");
      memory_of_[inst.first_result] = static_cast<uint32_t>(out_.memories.size());
      out_.memories.push_back(memory);
    }
    out_.local_bytes = bytes;
  }

  void check_unit(const Inst& inst) const {
    if (op_info(inst.op).op_class != OpClass::kUnit) return;
    const auto reason = why_not_unit(program_, inst, out_.units);
    TENON_CHECK(!reason, ErrorCode::kUnsupported, "interp: ", program_.name,
                " uses a matrix unit (", op_name(inst.op), "): ", *reason);
  }

  // The verifier bounds the depth.
  Range add_region(RegionId region) {  // NOLINT(misc-no-recursion)
    Range range{.begin = static_cast<uint32_t>(out_.codes.size()), .end = 0};
    for (const InstId id : program_.regions[region].insts) {
      if (!is_done(program_.insts[id])) out_.codes.push_back(decode(id));
    }
    range.end = static_cast<uint32_t>(out_.codes.size());
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Inst& inst = program_.insts[out_.codes[i].id];
      for (size_t k = 0; k < inst.num_regions; ++k) {
        const Range body = add_region(inst.regions[k]);
        out_.codes[i].bodies[k] = body;
      }
    }
    return range;
  }

  Code decode(InstId id) {
    const Inst& inst = program_.insts[id];
    const auto operands = program_.operands_of(inst);
    Code code{.op = inst.op, .width = inst.type.lanes, .imm = inst.imm, .id = id};
    if (inst.num_results > 0) code.dst = places_[inst.first_result];
    for (size_t i = 0; i < operands.size() && i < code.src.size(); ++i)
      code.src[i] = places_[operands[i]] == kNone ? 0 : places_[operands[i]];
    if (!operands.empty()) code.src_width = program_.type_of(operands[0]).lanes;
    if (is_elementwise(inst.op)) decode_row(inst, code);
    if (inst.op == Op::kFor) decode_for(inst, code);
    if (inst.op == Op::kIf) decode_if(inst, code);
    if (!operands.empty() && memory_of_[operands[0]] != kNone) decode_access(inst, code);
    return code;
  }

  void decode_row(const Inst& inst, Code& code) const {
    const size_t typed = inst.op == Op::kWhere ? 1 : 0;
    code.row_op = {.op = inst.op,
                   .dtype = program_.type_of(program_.operands_of(inst)[typed]).dtype,
                   .result = inst.type.dtype,
                   .num_args = static_cast<uint8_t>(inst.num_operands),
                   .fuses_mulacc = fuses_mulacc_};
    code.row = find_row_function(code.row_op);
  }

  void decode_access(const Inst& inst, Code& code) const {
    const auto operands = program_.operands_of(inst);
    code.memory = memory_of_[operands[0]];
    code.elements = find_element_moves(inst.type.dtype);
    code.has_lane_indices = program_.type_of(operands[1]).lanes > 1;
    code.align_mask = static_cast<uint64_t>(std::max<int64_t>(effective_align(inst), 1)) - 1;
    if (inst.op == Op::kAtomic) {
      code.row_op = {.op = static_cast<Op>(inst.imm), .dtype = inst.type.dtype};
      code.imm = 0;
    }
    if (const ValueId gate = gate_of(program_, inst); gate != kNoId) {
      code.gate = places_[gate];
      code.has_lane_gates = program_.type_of(gate).lanes > 1;
    }
    if (const ValueId alt = alt_of(program_, inst); alt != kNoId) code.alt = places_[alt];
  }

  void add_move(ValueId to, ValueId from) {
    if (places_[to] == places_[from]) return;
    out_.moves.push_back({places_[to], places_[from], program_.type_of(from).lanes});
  }

  Range moves_since(size_t begin) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(out_.moves.size())};
  }

  std::span<const ValueId> yields_of(RegionId region) const {
    return program_.operands_of(program_.insts[program_.regions[region].insts.back()]);
  }

  void decode_for(const Inst& inst, Code& code) {
    const auto operands = program_.operands_of(inst);
    const auto& args = program_.regions[inst.regions[0]].args;
    const auto yields = yields_of(inst.regions[0]);
    code.loop_index = places_[args[0]];
    size_t begin = out_.moves.size();
    for (size_t i = 1; i < args.size(); ++i)
      add_move(args[i], operands[i + 1]);
    code.moves[0] = moves_since(begin);
    begin = out_.moves.size();
    for (size_t i = 1; i < args.size(); ++i)
      add_move(args[i], yields[i - 1]);
    code.moves[1] = moves_since(begin);
  }

  void decode_if(const Inst& inst, Code& code) {
    for (size_t k = 0; k < 2; ++k) {
      const auto yields = yields_of(inst.regions[k]);
      const size_t begin = out_.moves.size();
      for (uint32_t i = 0; i < inst.num_results; ++i)
        add_move(inst.first_result + i, yields[i]);
      code.moves[k] = moves_since(begin);
    }
  }

  interp::Decoded out_;
  const LinearProgram& program_ = out_.program;
  const bool fuses_mulacc_;
  std::vector<uint32_t> places_;     ///< by ValueId
  std::vector<uint32_t> memory_of_;  ///< by ValueId of a pointer
};

}  // namespace

CheckedProgram::CheckedProgram(LinearProgram program, const InterpOptions& options)
    : decoded_(
          std::make_unique<const interp::Decoded>(Decoder(std::move(program), options).run())) {}
CheckedProgram::CheckedProgram(CheckedProgram&&) noexcept = default;
CheckedProgram::~CheckedProgram() = default;

const LinearProgram& CheckedProgram::program() const {
  return decoded_->program;
}

}  // namespace tenon
