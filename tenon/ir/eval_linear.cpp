// The evaluator: one slot of 64-bit words per value and lane, instructions decoded once.
// SPDX-License-Identifier: MIT

#include "tenon/ir/eval_linear.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/eval_unit.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/ir/linear_verify.h"

namespace tenon {

namespace {

/// What to do with an instruction; decided once, so that the inner loop switches on few cases.
enum class Action : uint8_t {
  kNothing,  ///< done before the run, or at the end of the region
  kConst,
  kScalarParam,
  kGridId,
  kLaneId,
  kCompute,
  kFusedMulAcc,
  kCast,
  kBitcast,
  kSplat,
  kRamp,
  kExtract,
  kShuffle,
  kFirstN,
  kLoad,
  kStore,
  kAtomic,
  kBarrier,
  kFor,
  kIf,
  kMma,
  kTileLoad,
  kTileStore
};

struct Code {
  Action action = Action::kNothing;
  Op op = Op::kConst;
  DType dtype = DType::kI32;        ///< of the operands (compute, cast) or of memory
  bool is_indexed_by_lane = false;  ///< gather, scatter
  bool is_gated_by_lane = false;
  uint32_t num_args = 0;
  uint32_t lanes = 1;
  uint32_t dst = 0;
  std::array<uint32_t, 4> src{};
  int32_t memory = -1;
  int64_t gate = -1;  ///< word, or -1
  int64_t alt = -1;
  const Inst* inst = nullptr;
  InstId id = 0;
};

/// A region that a lane is in.
struct Frame {
  RegionId region = 0;
  size_t next = 0;              ///< instruction in the region
  const Inst* owner = nullptr;  ///< the for or if; null for the body
  int64_t index = 0;            ///< of a loop
  int64_t end = 0;
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// What a pointer points at.
struct Memory {
  std::byte* base = nullptr;
  int64_t num_elements = 0;
  int64_t size_bytes = 0;       ///< of an element
  int64_t lane_step_bytes = 0;  ///< private memory: one piece per lane
  ValueId pointer = kNoId;
};

uint64_t read_element(const std::byte* address, DType dtype, int64_t size_bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, address, static_cast<size_t>(size_bytes));  // little endian hosts only
  return canonical_bits(dtype, bits);
}

void write_element(std::byte* address, uint64_t bits, int64_t size_bytes) {
  std::memcpy(address, &bits, static_cast<size_t>(size_bytes));
}

Action action_of(Op op, bool is_pointer, bool fused_mulacc) {
  if (op == Op::kParam) return is_pointer ? Action::kNothing : Action::kScalarParam;
  if (op == Op::kMulAcc && fused_mulacc) return Action::kFusedMulAcc;
  struct Row {
    Op op;
    Action action;
  };
  constexpr Row kRows[] = {{Op::kConst, Action::kConst},
                           {Op::kGridId, Action::kGridId},
                           {Op::kLaneId, Action::kLaneId},
                           {Op::kCast, Action::kCast},
                           {Op::kBitcast, Action::kBitcast},
                           {Op::kSplat, Action::kSplat},
                           {Op::kRamp, Action::kRamp},
                           {Op::kExtract, Action::kExtract},
                           {Op::kShuffle, Action::kShuffle},
                           {Op::kFirstN, Action::kFirstN},
                           {Op::kLoad, Action::kLoad},
                           {Op::kStore, Action::kStore},
                           {Op::kAtomic, Action::kAtomic},
                           {Op::kBarrier, Action::kBarrier},
                           {Op::kFor, Action::kFor},
                           {Op::kIf, Action::kIf},
                           {Op::kMma, Action::kMma},
                           {Op::kTileLoad, Action::kTileLoad},
                           {Op::kTileStore, Action::kTileStore}};
  for (const Row& row : kRows) {
    if (row.op == op) return row.action;
  }
  return is_elementwise(op) ? Action::kCompute : Action::kNothing;
}

class Evaluator {
 public:
  Evaluator(const LinearProgram& program, std::span<const ArgumentValue> arguments,
            const EvalLinearOptions& options)
      : program_(program),
        arguments_(arguments),
        options_(options),
        num_lanes_(static_cast<size_t>(num_lanes(program))) {
    place_values();
    place_memory();
    decode();
  }

  void run() {
    const int64_t groups = num_groups(program_);
    for (int64_t i = 0; i < groups; ++i) {
      group_ = options_.reverse_groups ? groups - 1 - i : i;
      std::ranges::fill(local_memory_, std::byte{0xa5});
      run_group();
    }
  }

 private:
  // --- before the run ---------------------------------------------------------------------------

  void place_values() {
    slots_.resize(program_.values.size());
    size_t words = 0;
    for (size_t value = 0; value < slots_.size(); ++value) {
      slots_[value] = static_cast<uint32_t>(words);
      const TypeKind kind = program_.values[value].type.kind;
      if (kind == TypeKind::kValue || kind == TypeKind::kTile) {
        words += program_.values[value].type.lanes;
      }
    }
    constexpr size_t kMaxWords = size_t{1} << 27;
    TENON_CHECK(words <= kMaxWords / num_lanes_, ErrorCode::kUnsupported,
                "eval_linear: ", program_.name, " needs ", words, " words for each of ", num_lanes_,
                " lanes; at most ", kMaxWords, " in all");
    words_per_lane_ = words;
    registers_.resize(words * num_lanes_);
    stacks_.resize(num_lanes_);
  }

  void place_memory() {
    memory_of_.assign(program_.values.size(), -1);
    const ScratchLayout scratch = layout_scratch(program_);
    int64_t size_bytes = scratch.size_bytes;
    const std::vector<InstId> order = program_order(program_);
    std::vector<int64_t> offsets;
    for (const InstId id : order) {
      const Inst& inst = program_.insts[id];
      if (inst.type.kind != TypeKind::kPointer) continue;
      Memory memory{.size_bytes = dtype_size_bytes(inst.type.dtype), .pointer = inst.first_result};
      int64_t offset = -1;
      if (inst.op == Op::kParam) {
        const auto number = static_cast<size_t>(inst.imm);
        memory.base = static_cast<std::byte*>(arguments_[number].address);
        memory.num_elements = program_.signature.arguments[number].num_elements;
      } else {
        memory.num_elements = inst.imm;
        offset = scratch.offsets[id];
        if (inst.type.scope == Scope::kReg) {
          memory.lane_step_bytes = inst.imm * memory.size_bytes;
          offset = size_bytes;
          size_bytes += memory.lane_step_bytes * static_cast<int64_t>(num_lanes_);
        }
      }
      constexpr int64_t kMaxBytes = int64_t{1} << 31;
      TENON_CHECK(size_bytes <= kMaxBytes, ErrorCode::kUnsupported, "eval_linear: ", program_.name,
                  " allocates more than ", kMaxBytes, " bytes");
      memory_of_[inst.first_result] = static_cast<int32_t>(memories_.size());
      memories_.push_back(memory);
      offsets.push_back(offset);
    }
    local_memory_.resize(static_cast<size_t>(size_bytes));
    for (size_t i = 0; i < memories_.size(); ++i) {
      if (offsets[i] >= 0) memories_[i].base = local_memory_.data() + offsets[i];
    }
  }

  void decode() {
    codes_.resize(program_.insts.size());
    const std::vector<InstId> order = program_order(program_);
    for (const InstId id : order)
      codes_[id] = decode(id);
  }

  Code decode(InstId id) const {
    const Inst& inst = program_.insts[id];
    const auto operands = program_.operands_of(inst);
    Code code{.op = inst.op, .inst = &inst, .id = id};
    code.action = action_of(inst.op, inst.type.kind == TypeKind::kPointer, options_.fused_mulacc);
    if (op_info(inst.op).op_class == OpClass::kUnit) {
      const auto reason = why_not_unit(program_, inst, options_.units);
      TENON_CHECK(!reason, ErrorCode::kUnsupported, "eval_linear: ", program_.name, " uses a ",
                  "matrix unit (", op_name(inst.op), "): ", *reason);
    }
    code.lanes = inst.type.lanes;
    code.num_args = inst.num_operands;
    if (inst.num_results > 0) code.dst = slots_[inst.first_result];
    for (size_t i = 0; i < operands.size() && i < code.src.size(); ++i) {
      code.src[i] = slots_[operands[i]];
    }
    if (operands.empty()) return code;
    code.memory = memory_of_[operands[0]];
    const bool is_access = code.memory >= 0;
    const size_t typed = is_access || inst.op != Op::kWhere ? 0 : 1;
    code.dtype = program_.type_of(operands[typed]).dtype;
    if (!is_access) return code;
    code.is_indexed_by_lane = program_.type_of(operands[1]).lanes > 1;
    if (const ValueId gate = gate_of(program_, inst); gate != kNoId) {
      code.gate = slots_[gate];
      code.is_gated_by_lane = program_.type_of(gate).lanes > 1;
    }
    if (const ValueId alt = alt_of(program_, inst); alt != kNoId) code.alt = slots_[alt];
    return code;
  }

  // --- control ----------------------------------------------------------------------------------

  // Each lane has a stack of its own and runs until it meets a barrier; then all must stand there.
  void run_group() {
    for (auto& stack : stacks_)
      stack.assign(1, Frame{});
    bool is_stopped = true;
    while (is_stopped) {
      is_stopped = false;
      for (size_t i = 0; i < num_lanes_; ++i) {
        lane_ = options_.reverse_lanes ? num_lanes_ - 1 - i : i;
        is_stopped = run_to_barrier(stacks_[lane_], words_of(lane_)) || is_stopped;
      }
      if (is_stopped) check_all_stand_together();
    }
  }

  uint64_t* words_of(size_t lane) { return registers_.data() + lane * words_per_lane_; }

  void check_all_stand_together() {
    const auto stands_apart = [&](const auto& stack) { return stack != stacks_[0]; };
    const auto other = std::ranges::find_if(stacks_, stands_apart);
    if (other == stacks_.end()) return;
    const auto& stopped = other->empty() ? stacks_[0] : *other;
    const Frame& frame = stopped.back();
    fail(ErrorCode::kInvalidArgument,
         place(codes_[program_.regions[frame.region].insts[frame.next - 1]]), ": lanes 0 and ",
         other - stacks_.begin(), " part around a barrier");
  }

  /// True at a barrier, false at the end.
  bool run_to_barrier(std::vector<Frame>& stack, uint64_t* words) {
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<InstId>& insts = program_.regions[frame.region].insts;
      if (frame.next == insts.size()) {
        leave(stack, words);
        continue;
      }
      const Code& code = codes_[insts[frame.next++]];
      if (code.action == Action::kBarrier) return true;
      if (code.action == Action::kFor) {
        enter_loop(code, stack, words);
      } else if (code.action == Action::kIf) {
        const RegionId taken = code.inst->regions[words[code.src[0]] != 0 ? 0 : 1];
        stack.push_back({.region = taken, .owner = code.inst});
      } else {
        run_inst(code, words);
      }
    }
    return false;
  }

  void enter_loop(const Code& code, std::vector<Frame>& stack, uint64_t* words) const {
    const Inst& inst = *code.inst;
    const auto begin = static_cast<int64_t>(words[code.src[0]]);
    const auto end = static_cast<int64_t>(words[code.src[1]]);
    start_carried(inst, words);
    if (begin >= end) return finish_carried(inst, words);
    const RegionId body = inst.regions[0];
    words[slots_[program_.regions[body].args[0]]] = static_cast<uint64_t>(begin);
    stack.push_back({.region = body, .owner = &inst, .index = begin, .end = end});
  }

  void leave(std::vector<Frame>& stack, uint64_t* words) {
    Frame& frame = stack.back();
    if (frame.owner == nullptr) return stack.pop_back();
    const Inst& owner = *frame.owner;
    if (owner.op == Op::kIf) {
      yield_results(frame.region, owner, words);
      return stack.pop_back();
    }
    next_carried(frame.region, words);
    if (++frame.index < frame.end) {
      words[slots_[program_.regions[frame.region].args[0]]] = static_cast<uint64_t>(frame.index);
      frame.next = 0;
      return;
    }
    finish_carried(owner, words);
    stack.pop_back();
  }

  void copy(ValueId to, ValueId from, uint64_t* words) const {
    std::copy_n(words + slots_[from], program_.type_of(from).lanes, words + slots_[to]);
  }

  std::span<const ValueId> yields_of(RegionId region) const {
    return program_.operands_of(program_.insts[program_.regions[region].insts.back()]);
  }

  void yield_results(RegionId region, const Inst& inst, uint64_t* words) const {
    const auto yields = yields_of(region);
    for (uint32_t i = 0; i < inst.num_results; ++i)
      copy(inst.first_result + i, yields[i], words);
  }

  void start_carried(const Inst& inst, uint64_t* words) const {
    const auto operands = program_.operands_of(inst);
    const auto& args = program_.regions[inst.regions[0]].args;
    for (size_t i = 1; i < args.size(); ++i)
      copy(args[i], operands[i + 1], words);
  }

  // Yields may be carried values of this very iteration in another order, so all are read first.
  void next_carried(RegionId body, uint64_t* words) {
    const auto yields = yields_of(body);
    const auto& args = program_.regions[body].args;
    carried_.clear();
    for (const ValueId value : yields) {
      const uint64_t* const from = words + slots_[value];
      carried_.insert(carried_.end(), from, from + program_.type_of(value).lanes);
    }
    const uint64_t* next = carried_.data();
    for (size_t i = 0; i < yields.size(); ++i) {
      const size_t count = program_.type_of(yields[i]).lanes;
      std::copy_n(next, count, words + slots_[args[i + 1]]);
      next += count;
    }
  }

  void finish_carried(const Inst& inst, uint64_t* words) const {
    const auto& args = program_.regions[inst.regions[0]].args;
    for (uint32_t i = 0; i < inst.num_results; ++i) {
      copy(inst.first_result + i, args[i + 1], words);
    }
  }

  int64_t coordinate(int64_t number, const std::vector<int64_t>& extents, int64_t dim) const {
    for (int64_t i = 0; i < dim; ++i)
      number /= extents[static_cast<size_t>(i)];
    return number % extents[static_cast<size_t>(dim)];
  }

  void run_inst(const Code& code, uint64_t* words) {
    const Inst& inst = *code.inst;
    uint64_t* const dst = words + code.dst;
    const uint64_t* const a = words + code.src[0];
    const uint64_t* const b = words + code.src[1];
    switch (code.action) {
      case Action::kNothing:
      case Action::kBarrier:
      case Action::kFor:
      case Action::kIf: return;
      case Action::kConst: std::fill_n(dst, code.lanes, static_cast<uint64_t>(inst.imm)); return;
      case Action::kScalarParam:
        *dst = canonical_bits(inst.type.dtype, arguments_[static_cast<size_t>(inst.imm)].bits);
        return;
      case Action::kGridId:
        *dst = static_cast<uint64_t>(coordinate(group_, program_.grid, inst.imm));
        return;
      case Action::kLaneId: {
        const auto lane = static_cast<int64_t>(lane_);
        *dst = static_cast<uint64_t>(coordinate(lane, program_.lanes, inst.imm));
        return;
      }
      case Action::kCompute: return compute(code, words);
      case Action::kFusedMulAcc:
        for (uint32_t i = 0; i < code.lanes; ++i) {
          dst[i] = eval_fused_mulacc(code.dtype, a[i], b[i], words[code.src[2] + i]);
        }
        return;
      case Action::kCast:
        for (uint32_t i = 0; i < code.lanes; ++i) {
          dst[i] = eval_cast(a[i], code.dtype, inst.type.dtype);
        }
        return;
      case Action::kBitcast:
        for (uint32_t i = 0; i < code.lanes; ++i) {
          dst[i] = eval_bitcast(a[i], code.dtype, inst.type.dtype);
        }
        return;
      case Action::kSplat: std::fill_n(dst, code.lanes, *a); return;
      case Action::kRamp:
        for (uint32_t i = 0; i < code.lanes; ++i) {
          dst[i] = canonical_bits(code.dtype, *a + i * *b);
        }
        return;
      case Action::kExtract: *dst = a[inst.imm]; return;
      case Action::kShuffle: return shuffle(code, words);
      case Action::kFirstN:
        for (uint32_t i = 0; i < code.lanes; ++i)
          dst[i] = i < static_cast<int64_t>(*a) ? 1 : 0;
        return;
      case Action::kLoad: return load(code, words);
      case Action::kStore: return store(code, words);
      case Action::kAtomic: return atomic(code, words);
      case Action::kMma: return mma(code, words);
      case Action::kTileLoad: return tile_load(code, words);
      case Action::kTileStore: return tile_store(code, words);
    }
  }

  // --- matrix units -----------------------------------------------------------------------------

  const MatrixUnit& unit_of(const Code& code) const {
    return options_.units[static_cast<size_t>(code.inst->imm)];
  }

  void mma(const Code& code, uint64_t* words) const {
    const auto operands = program_.operands_of(*code.inst);
    const auto elements = [&](size_t i) {
      return std::span(words + code.src[i], program_.type_of(operands[i]).lanes);
    };
    uint64_t* const dst = words + code.dst;
    std::ranges::copy(elements(2), dst);
    eval_unit(unit_of(code), elements(0), elements(1), {dst, code.lanes});
  }

  // Calls move(element of the tile, its place in memory).
  template <typename Move>
  void for_each_in_tile(const Code& code, const uint64_t* words, Move&& move) const {
    const auto stride = static_cast<int64_t>(words[code.src[2]]);
    const auto rows = static_cast<uint32_t>(tile_rows(unit_of(code), code.inst->type));
    const uint32_t columns = code.lanes / rows;
    for (uint32_t i = 0; i < code.lanes; ++i) {
      const int64_t offset = int64_t{i / columns} * stride + int64_t{i % columns};
      move(i, address(code, words, 0, offset));
    }
  }

  void tile_load(const Code& code, uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    for_each_in_tile(code, words, [&](uint32_t i, const std::byte* place) {
      words[code.dst + i] = read_element(place, code.dtype, size);
    });
  }

  void tile_store(const Code& code, uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    for_each_in_tile(code, words, [&](uint32_t i, std::byte* place) {
      write_element(place, words[code.src[3] + i], size);
    });
  }

  void compute(const Code& code, uint64_t* words) const {
    std::array<ScalarBits, 3> args{};
    for (uint32_t i = 0; i < code.lanes; ++i) {
      for (uint32_t k = 0; k < code.num_args; ++k)
        args[k] = words[code.src[k] + i];
      words[code.dst + i] = eval_op(code.op, code.dtype, {args.data(), code.num_args});
    }
  }

  void shuffle(const Code& code, uint64_t* words) const {
    const auto& table = program_.shuffle_tables[static_cast<size_t>(code.inst->imm)];
    const auto width =
        static_cast<uint32_t>(program_.type_of(program_.operands_of(*code.inst)[0]).lanes);
    for (uint32_t i = 0; i < code.lanes; ++i) {
      const auto from = static_cast<uint32_t>(table[i]);
      words[code.dst + i] =
          from < width ? words[code.src[0] + from] : words[code.src[1] + from - width];
    }
  }

  // --- memory -----------------------------------------------------------------------------------

  bool is_on(const Code& code, const uint64_t* words, uint32_t i) const {
    if (code.gate < 0) return true;
    return words[static_cast<uint32_t>(code.gate) + (code.is_gated_by_lane ? i : 0)] != 0;
  }

  std::byte* address(const Code& code, const uint64_t* words, uint32_t i, int64_t offset) const {
    const Memory& memory = memories_[static_cast<size_t>(code.memory)];
    const uint64_t base = words[code.src[1] + (code.is_indexed_by_lane ? i : 0)];
    const uint64_t step = code.is_indexed_by_lane ? 0 : i;
    const auto element = static_cast<int64_t>(base + static_cast<uint64_t>(offset) + step);
    if (element < 0 || element >= memory.num_elements) fail_bounds(code, memory, element);
    return memory.base + static_cast<int64_t>(lane_) * memory.lane_step_bytes +
           element * memory.size_bytes;
  }

  void check_align(const Code& code, const uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    const int64_t align = effective_align(*code.inst);
    if (align == size || code.is_indexed_by_lane) return;
    const uint64_t element = words[code.src[1]] + static_cast<uint64_t>(code.inst->imm);
    const uint64_t byte = element * static_cast<uint64_t>(size);
    TENON_CHECK(byte % static_cast<uint64_t>(align) == 0, ErrorCode::kInvalidArgument, place(code),
                ": claims align ", align, ", but element ", element, " lies at byte ", byte);
  }

  void load(const Code& code, uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    check_align(code, words);
    for (uint32_t i = 0; i < code.lanes; ++i) {
      words[code.dst + i] =
          is_on(code, words, i)
              ? read_element(address(code, words, i, code.inst->imm), code.dtype, size)
              : words[static_cast<uint32_t>(code.alt) + i];
    }
  }

  void store(const Code& code, uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    check_align(code, words);
    for (uint32_t i = 0; i < code.lanes; ++i) {
      if (!is_on(code, words, i)) continue;
      write_element(address(code, words, i, code.inst->imm), words[code.src[2] + i], size);
    }
  }

  void atomic(const Code& code, uint64_t* words) const {
    const int64_t size = memories_[static_cast<size_t>(code.memory)].size_bytes;
    std::byte* const place = address(code, words, 0, 0);
    const std::array<ScalarBits, 2> args{read_element(place, code.dtype, size), words[code.src[2]]};
    words[code.dst] = args[0];
    write_element(place, eval_op(static_cast<Op>(code.inst->imm), code.dtype, args), size);
  }

  // --- errors -----------------------------------------------------------------------------------

  std::string place(const Code& code) const {
    return concat("eval_linear: ", program_.name, ", instruction ", code.id, " (", op_name(code.op),
                  ") in group ", group_, ", lane ", lane_);
  }

  [[noreturn]] void fail_bounds(const Code& code, const Memory& memory, int64_t element) const {
    const Inst& source = program_.insts[program_.values[memory.pointer].def];
    const std::string what =
        source.op == Op::kParam
            ? concat("argument '",
                     program_.signature.arguments[static_cast<size_t>(source.imm)].name, "'")
            : concat("alloc %", printed_names(program_)[memory.pointer]);
    fail(ErrorCode::kInvalidArgument, place(code), ": index ", element, " of ", what, " with ",
         memory.num_elements, " elements");
  }

  const LinearProgram& program_;
  std::span<const ArgumentValue> arguments_;
  const EvalLinearOptions options_;
  const size_t num_lanes_;

  std::vector<uint32_t> slots_;  ///< first word of a value in a lane's registers
  size_t words_per_lane_ = 0;
  std::vector<uint64_t> registers_;
  std::vector<int32_t> memory_of_;  ///< by ValueId of a pointer; else -1
  std::vector<Memory> memories_;
  std::vector<std::byte> local_memory_;  ///< group memory, then private memory
  std::vector<Code> codes_;
  std::vector<std::vector<Frame>> stacks_;  ///< by lane
  std::vector<uint64_t> carried_;
  int64_t group_ = 0;
  size_t lane_ = 0;
};

}  // namespace

void eval_linear(const LinearProgram& program, std::span<const ArgumentValue> arguments,
                 const EvalLinearOptions& options) {
  check_linear(program, nullptr, ErrorCode::kInvalidArgument);
  const std::vector<ArgumentValue> values(arguments.begin(), arguments.end());
  const auto difference = why_arguments_differ(program.signature, values);
  TENON_CHECK(!difference, ErrorCode::kInvalidArgument, "eval_linear: ", program.name, ": ",
              *difference);
  Evaluator(program, values, options).run();
}

}  // namespace tenon
