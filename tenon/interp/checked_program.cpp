// The interpreter: every instruction for all lanes that are in it, then the next one.
// SPDX-License-Identifier: MIT

#include "tenon/interp/checked_program.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstring>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/interp/decode.h"
#include "tenon/interp/marks.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/eval_unit.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"

namespace tenon {

using interp::Code;
using interp::Decoded;
using interp::kNone;
using interp::Mark;
using interp::MemoryPlan;
using interp::Move;
using interp::Range;
using interp::Touch;

namespace {

/// The lanes that execute: those of [begin, end) that are on in the mask.
struct Lanes {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t count = 0;
  const uint8_t* mask = nullptr;  ///< by lane; null: all

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (uint32_t lane = begin; lane < end; ++lane) {
      if (mask == nullptr || mask[lane] != 0) visit(lane);
    }
  }
};

/// Those of `mask`, which outlives the result.
Lanes lanes_of(const std::vector<uint8_t>& mask) {
  Lanes lanes{.mask = mask.data()};
  for (uint32_t lane = 0; lane < mask.size(); ++lane) {
    if (mask[lane] == 0) continue;
    if (lanes.count++ == 0) lanes.begin = lane;
    lanes.end = lane + 1;
  }
  if (lanes.count == lanes.end - lanes.begin) lanes.mask = nullptr;
  return lanes;
}

/// Memory behind a pointer while a program runs.
struct Memory {
  const MemoryPlan* plan = nullptr;
  std::byte* bytes = nullptr;
  uint8_t* written = nullptr;  ///< by byte; null: all is
  std::vector<uint8_t> fresh;  ///< of an argument that is only written: what this launch wrote
  std::vector<Mark> marks;     ///< by element; empty: no other lane can come near
  uint64_t address = 0;
  uint64_t num_elements = 0;
  uint64_t element_bytes = 1;
  bool is_shared_by_groups = false;
};

/// Ordinary rounding, and denormals, while it lives.
class DefaultRounding {
 public:
  DefaultRounding() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultRounding() { std::fesetenv(&before_); }
  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

 private:
  std::fenv_t before_{};
};

class Runner {
 public:
  Runner(const Decoded& decoded, std::span<const CheckedArgument> arguments)
      : decoded_(decoded), program_(decoded.program), arguments_(arguments) {}

  CheckedRun run(uint64_t max_lane_operations) {
    const DefaultRounding rounding;
    try {
      place_memory();
      run_groups(max_lane_operations);
    } catch (const Error&) {
      if (!run_.fault) throw;
    }
    note_written();
    return std::move(run_);
  }

 private:
  // --- before the groups ------------------------------------------------------------------------

  void place_memory() {
    words_.resize(decoded_.num_words);
    local_bytes_.resize(static_cast<size_t>(decoded_.local_bytes));
    local_written_.resize(local_bytes_.size());
    const bool has_lanes = decoded_.num_lanes > 1;
    const bool has_groups = num_groups(program_) > 1;
    memories_.resize(decoded_.memories.size());
    for (size_t i = 0; i < memories_.size(); ++i) {
      const MemoryPlan& plan = decoded_.memories[i];
      Memory& memory = memories_[i];
      memory.plan = &plan;
      memory.num_elements = static_cast<uint64_t>(plan.num_elements);
      memory.element_bytes = static_cast<uint64_t>(dtype_size_bytes(plan.dtype));
      if (plan.argument >= 0) {
        const auto number = static_cast<size_t>(plan.argument);
        const CheckedArgument& given = arguments_[number];
        const ArgumentAccess access = program_.signature.arguments[number].access;
        TENON_ASSERT(given.bytes.size() >= memory.num_elements * memory.element_bytes,
                     "interp: argument ", number, " has ", given.bytes.size(), " bytes");
        memory.bytes = given.bytes.data();
        memory.written = given.written.empty() ? nullptr : given.written.data();
        if (access == ArgumentAccess::kWrite) {
          memory.fresh.resize(memory.num_elements * memory.element_bytes);
          memory.written = memory.fresh.data();
        }
        memory.address = given.address;
        memory.is_shared_by_groups = true;
        const bool is_written = access != ArgumentAccess::kRead;
        if (is_written && (has_lanes || has_groups)) memory.marks.resize(memory.num_elements);
      } else {
        memory.bytes = local_bytes_.data() + plan.offset;
        memory.written = local_written_.data() + plan.offset;
        memory.address = static_cast<uint64_t>(plan.offset);
        const bool is_shared = plan.scope == Scope::kGroup && has_lanes;
        if (is_shared) memory.marks.resize(memory.num_elements);
      }
    }
  }

  void note_written() {
    for (const Memory& memory : memories_) {
      if (memory.fresh.empty()) continue;
      const std::span<uint8_t> written =
          arguments_[static_cast<size_t>(memory.plan->argument)].written;
      for (size_t i = 0; i < memory.fresh.size() && !written.empty(); ++i)
        written[i] |= memory.fresh[i];
    }
  }

  void run_groups(uint64_t max_lane_operations) {
    const Lanes all{.end = decoded_.num_lanes, .count = decoded_.num_lanes};
    const int64_t groups = num_groups(program_);
    for (group_ = 0; group_ < groups; ++group_) {
      next_era();
      group_era_ = era_;
      first_eras_.push_back(era_);
      std::ranges::fill(local_written_, uint8_t{0});
      run_codes(decoded_.body, all);
      if (run_.lane_operations > max_lane_operations && group_ + 1 < groups) return;
    }
    run_.is_complete = true;
  }

  void next_era() {
    TENON_CHECK(++era_ != 0, ErrorCode::kUnsupported, "interp: ", program_.name,
                " meets more than 2^32 barriers");
  }

  // --- control ----------------------------------------------------------------------------------

  void run_codes(Range range, const Lanes& lanes) {  // NOLINT(misc-no-recursion): depth verified
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Code& code = decoded_.codes[i];
      if (code.row != nullptr) {
        run_row(code, lanes);
      } else if (code.op == Op::kLoad || code.op == Op::kStore) {
        access(code, lanes);
      } else if (code.op == Op::kFor) {
        run_for(code, lanes);
      } else if (code.op == Op::kIf) {
        run_if(code, lanes);
      } else if (code.op == Op::kBarrier) {
        barrier(code, lanes);
      } else {
        lanes.for_each([&](uint32_t lane) { run_in_lane(code, lane); });
        const bool is_source = op_info(code.op).op_class == OpClass::kLeaf;
        run_.lane_operations += is_source ? 0 : uint64_t{lanes.count} * code.width;
      }
    }
  }

  void run_if(const Code& code, const Lanes& lanes) {  // NOLINT(misc-no-recursion)
    const uint64_t* const condition = words_.data() + code.src[0];
    uint32_t taken = 0;
    lanes.for_each([&](uint32_t lane) { taken += condition[lane] != 0 ? 1 : 0; });
    if (taken == lanes.count) return run_branch(code, 0, lanes);
    if (taken == 0) return run_branch(code, 1, lanes);
    for (const bool side : {true, false}) {
      std::vector<uint8_t> mask(decoded_.num_lanes, 0);
      lanes.for_each([&](uint32_t lane) { mask[lane] = (condition[lane] != 0) == side ? 1 : 0; });
      run_branch(code, side ? 0 : 1, lanes_of(mask));
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void run_branch(const Code& code, size_t number, const Lanes& lanes) {
    run_codes(code.bodies[number], lanes);
    move(code.moves[number], lanes);
  }

  // Lanes whose loop is shorter wait for the others at its end.
  void run_for(const Code& code, const Lanes& lanes) {  // NOLINT(misc-no-recursion)
    move(code.moves[0], lanes);
    const auto begin_of = [&](uint32_t lane) { return words_[code.src[0] + lane]; };
    const auto trips_of = [&](uint32_t lane) {
      const uint64_t end = words_[code.src[1] + lane];
      const bool runs = static_cast<int64_t>(begin_of(lane)) < static_cast<int64_t>(end);
      return runs ? end - begin_of(lane) : 0;
    };
    uint64_t shortest = ~uint64_t{0};
    uint64_t longest = 0;
    lanes.for_each([&](uint32_t lane) {
      shortest = std::min(shortest, trips_of(lane));
      longest = std::max(longest, trips_of(lane));
    });
    std::vector<uint8_t> mask;
    Lanes inside = lanes;
    for (uint64_t trip = 0; trip < longest; ++trip) {
      if (trip >= shortest) {
        mask.assign(decoded_.num_lanes, 0);
        lanes.for_each([&](uint32_t lane) { mask[lane] = trip < trips_of(lane) ? 1 : 0; });
        inside = lanes_of(mask);
      }
      inside.for_each(
          [&](uint32_t lane) { words_[code.loop_index + lane] = begin_of(lane) + trip; });
      run_codes(code.bodies[0], inside);
      move(code.moves[1], inside);
    }
  }

  // Values may change places, so all are read first.
  void move(Range range, const Lanes& lanes) {
    carried_.clear();
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Move& each = decoded_.moves[i];
      const uint64_t* const from = words_.data() + each.src;
      carried_.insert(carried_.end(), from, from + each.width * decoded_.num_lanes);
    }
    const uint64_t* next = carried_.data();
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Move& each = decoded_.moves[i];
      lanes.for_each([&](uint32_t lane) {
        std::copy_n(next + lane * each.width, each.width,
                    words_.data() + each.dst + lane * each.width);
      });
      next += each.width * decoded_.num_lanes;
    }
  }

  void barrier(const Code& code, const Lanes& lanes) {
    if (lanes.count != decoded_.num_lanes) {
      std::vector<uint8_t> is_here(decoded_.num_lanes, 0);
      lanes.for_each([&](uint32_t lane) { is_here[lane] = 1; });
      const auto missing = std::ranges::find(is_here, 0) - is_here.begin();
      found(FaultKind::kBarrier, place(code), " in group ", group_, ": ", lanes.count, " of ",
            decoded_.num_lanes, " lanes reach it, lane ", lanes.begin, " among them, lane ",
            missing, " not");
    }
    next_era();
  }

  // --- values -----------------------------------------------------------------------------------

  // Lanes that are off compute too: nothing can go wrong, and nobody reads it.
  void run_row(const Code& code, const Lanes& lanes) {
    const size_t first = size_t{lanes.begin} * code.width;
    const size_t count = size_t{lanes.end - lanes.begin} * code.width;
    uint64_t* const words = words_.data() + first;
    std::array<const uint64_t*, kMaxScalarOperands> src;
    for (size_t i = 0; i < code.row_op.num_args; ++i)
      src[i] = words + code.src[i];
    code.row(code.row_op, words + code.dst, src.data(), count);
    run_.lane_operations += uint64_t{lanes.count} * code.width;
  }

  void run_in_lane(const Code& code, uint32_t lane) {
    uint64_t* const words = words_.data();
    uint64_t* const dst = words + code.dst + size_t{lane} * code.width;
    const uint64_t* const a = words + code.src[0] + size_t{lane} * code.src_width;
    const auto number = static_cast<size_t>(code.imm);
    if (code.op == Op::kConst || code.op == Op::kParam) {
      const uint64_t bits =
          code.op == Op::kConst ? static_cast<uint64_t>(code.imm) : arguments_[number].bits;
      std::fill_n(dst, code.width, canonical_bits(program_.insts[code.id].type.dtype, bits));
    } else if (code.op == Op::kGridId) {
      *dst = coordinate(group_, program_.grid, number);
    } else if (code.op == Op::kLaneId) {
      *dst = coordinate(lane, program_.lanes, number);
    } else if (code.op == Op::kSplat) {
      std::fill_n(dst, code.width, *a);
    } else if (code.op == Op::kRamp) {
      const DType dtype = program_.insts[code.id].type.dtype;
      for (uint32_t i = 0; i < code.width; ++i)
        dst[i] = canonical_bits(dtype, *a + i * words[code.src[1] + lane]);
    } else if (code.op == Op::kExtract) {
      *dst = a[number];
    } else if (code.op == Op::kShuffle) {
      shuffle(code, dst, a, lane);
    } else if (code.op == Op::kFirstN) {
      for (uint32_t i = 0; i < code.width; ++i)
        dst[i] = int64_t{i} < static_cast<int64_t>(*a) ? 1 : 0;
    } else if (code.op == Op::kAtomic) {
      atomic(code, lane);
    } else if (code.op == Op::kMma) {
      mma(code, dst, lane);
    } else {
      move_tile(code, lane);
    }
  }

  static uint64_t coordinate(int64_t number, const std::vector<int64_t>& extents, size_t dim) {
    for (size_t i = 0; i < dim; ++i)
      number /= extents[i];
    return static_cast<uint64_t>(number % extents[dim]);
  }

  void shuffle(const Code& code, uint64_t* dst, const uint64_t* a, uint32_t lane) const {
    const auto& table = program_.shuffle_tables[static_cast<size_t>(code.imm)];
    const uint64_t* const b = words_.data() + code.src[1] + size_t{lane} * code.src_width;
    for (uint32_t i = 0; i < code.width; ++i) {
      const auto from = static_cast<uint32_t>(table[i]);
      dst[i] = from < code.src_width ? a[from] : b[from - code.src_width];
    }
  }

  const MatrixUnit& unit_of(const Code& code) const {
    return decoded_.units[static_cast<size_t>(program_.insts[code.id].imm)];
  }

  void mma(const Code& code, uint64_t* dst, uint32_t lane) const {
    const auto operands = program_.operands_of(program_.insts[code.id]);
    const auto elements = [&](size_t i) {
      const size_t width = program_.type_of(operands[i]).lanes;
      return std::span(words_.data() + code.src[i] + lane * width, width);
    };
    std::ranges::copy(elements(2), dst);
    eval_unit(unit_of(code), elements(0), elements(1), {dst, code.width}, fused_f32);
  }

  // --- memory -----------------------------------------------------------------------------------

  void access(const Code& code, const Lanes& lanes) {
    run_.lane_operations += uint64_t{lanes.count} * code.width;
    const uint32_t moved = code.op == Op::kLoad ? code.dst : code.src[2];
    lanes.for_each([&](uint32_t lane) {
      const uint64_t first = uint64_t{lane} * code.width;
      if (code.has_lane_indices) {
        access_elements(code, lane, first, moved + first);
      } else {
        access_runs(code, lane, first, moved + first);
      }
    });
  }

  bool is_on(const Code& code, uint32_t lane, uint64_t first, uint32_t i) const {
    if (code.gate == kNone) return true;
    return words_[code.gate + (code.has_lane_gates ? first + i : lane)] != 0;
  }

  // Elements side by side, in runs of those that are not gated off.
  void access_runs(const Code& code, uint32_t lane, uint64_t first, uint64_t moved) {
    const uint64_t element = words_[code.src[1] + lane] + static_cast<uint64_t>(code.imm);
    bool is_aligned = false;
    for (uint32_t i = 0; i < code.width;) {
      if (!is_on(code, lane, first, i)) {
        take_alt(code, first + i, moved + i);
        ++i;
        continue;
      }
      uint32_t count = code.gate == kNone ? code.width : 1;
      while (i + count < code.width && is_on(code, lane, first, i + count))
        ++count;
      if (!is_aligned) check_align(code, lane, element);
      is_aligned = true;
      touch(code, lane, element + i, count, moved + i);
      i += count;
    }
  }

  void access_elements(const Code& code, uint32_t lane, uint64_t first, uint64_t moved) {
    for (uint32_t i = 0; i < code.width; ++i) {
      if (!is_on(code, lane, first, i)) {
        take_alt(code, first + i, moved + i);
        continue;
      }
      const uint64_t element = words_[code.src[1] + first + i] + static_cast<uint64_t>(code.imm);
      check_align(code, lane, element);
      touch(code, lane, element, 1, moved + i);
    }
  }

  void take_alt(const Code& code, uint64_t word, uint64_t moved) {
    if (code.alt != kNone) words_[moved] = words_[code.alt + word];
  }

  /// Moves elements that lie side by side between memory and the words from `word` on.
  void touch(const Code& code, uint32_t lane, uint64_t element, uint64_t count, uint64_t word) {
    Memory& memory = memories_[code.memory];
    const bool is_write = code.op == Op::kStore || code.op == Op::kTileStore;
    check_bounds(code, memory, lane, element, count);
    if (!memory.marks.empty()) mark(code, memory, lane, element, count, is_write);
    const uint64_t byte = first_byte(memory, lane, element);
    if (is_write) {
      code.elements.store(memory.bytes + byte, words_.data() + word, count);
      if (memory.written == nullptr) return;
      std::memset(memory.written + byte, 1, count * memory.element_bytes);
    } else {
      check_written(code, memory, lane, element, byte, count);
      code.elements.load(words_.data() + word, memory.bytes + byte, count);
    }
  }

  void check_align(const Code& code, uint32_t lane, uint64_t element) {
    const Memory& memory = memories_[code.memory];
    const uint64_t address = memory.address + element * memory.element_bytes;
    if ((address & code.align_mask) == 0) return;
    found(FaultKind::kAlignment, place(code, lane), ": claims align ", code.align_mask + 1,
          ", but element ", static_cast<int64_t>(element), " of ", name_of(memory),
          " lies at byte ", address - memory.address,
          (memory.address & code.align_mask) == 0
              ? std::string()
              : concat(" of a buffer at address ", memory.address));
  }

  void check_bounds(const Code& code, const Memory& memory, uint32_t lane, uint64_t element,
                    uint64_t count) {
    if (element < memory.num_elements && count <= memory.num_elements - element) [[likely]]
      return;
    const bool is_in = element < memory.num_elements;  // the first element that is not
    found(FaultKind::kBounds, place(code, lane), ": index ",
          static_cast<int64_t>(is_in ? memory.num_elements : element), " of ", name_of(memory),
          " with ", memory.num_elements, " elements");
  }

  uint64_t first_byte(const Memory& memory, uint32_t lane, uint64_t element) const {
    return lane * static_cast<uint64_t>(memory.plan->lane_step) + element * memory.element_bytes;
  }

  void check_written(const Code& code, const Memory& memory, uint32_t lane, uint64_t element,
                     uint64_t byte, uint64_t count) {
    if (memory.written == nullptr) return;
    const uint8_t* const written = memory.written + byte;
    const void* const gap = std::memchr(written, 0, count * memory.element_bytes);
    if (gap == nullptr) [[likely]]
      return;
    const auto offset = static_cast<uint64_t>(static_cast<const uint8_t*>(gap) - written);
    found(FaultKind::kNeverWritten, place(code, lane), ": reads element ",
          element + offset / memory.element_bytes, " of ", name_of(memory),
          memory.fresh.empty() ? ", which was never written"
                               : ", which is no input, before this launch has written it");
  }

  void atomic(const Code& code, uint32_t lane) {
    Memory& memory = memories_[code.memory];
    const uint64_t element = words_[code.src[1] + lane];
    check_bounds(code, memory, lane, element, 1);
    check_align(code, lane, element);
    check_written(code, memory, lane, element, first_byte(memory, lane, element), 1);
    if (!memory.marks.empty()) mark(code, memory, lane, element, 1, true);
    std::byte* const place = memory.bytes + first_byte(memory, lane, element);
    std::array<ScalarBits, 2> args{0, words_[code.src[2] + lane]};
    code.elements.load(args.data(), place, 1);
    words_[code.dst + lane] = args[0];
    const ScalarBits sum = eval_op(code.row_op.op, code.row_op.dtype, args);
    code.elements.store(place, &sum, 1);
  }

  void move_tile(const Code& code, uint32_t lane) {
    const Inst& inst = program_.insts[code.id];
    const auto rows = static_cast<uint32_t>(tile_rows(unit_of(code), inst.type));
    const uint32_t columns = code.width / rows;
    const bool is_load = code.op == Op::kTileLoad;
    const uint64_t words = (is_load ? code.dst : code.src[3]) + uint64_t{lane} * code.width;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint64_t element = words_[code.src[1] + lane] + row * words_[code.src[2] + lane];
      touch(code, lane, element, columns, words + row * columns);
    }
  }

  // --- races ------------------------------------------------------------------------------------

  void mark(const Code& code, Memory& memory, uint32_t lane, uint64_t element, uint64_t count,
            bool is_write) {
    const Touch now{.era = era_,
                    .code = static_cast<uint32_t>(&code - decoded_.codes.data()),
                    .lane = lane & 0x3fffffffU,
                    .is_atomic = code.op == Op::kAtomic};
    const uint32_t group_era = memory.is_shared_by_groups ? group_era_ : 0;
    for (uint64_t i = element; i < element + count; ++i) {
      Mark& mark = memory.marks[i];
      const Touch* const other = is_write ? mark.write(now, group_era) : mark.read(now, group_era);
      if (other != nullptr) report_race(*other, now, memory, i);
    }
  }

  void report_race(const Touch& other, const Touch& now, const Memory& memory, uint64_t element) {
    const auto side = [&](const Touch& touch) {
      const Code& code = decoded_.codes[touch.code];
      const bool is_load = code.op == Op::kLoad || code.op == Op::kTileLoad;
      return concat("`", inst_text(program_, code.id), "` in group ", group_of(touch.era),
                    ", lane ", uint32_t{touch.lane}, touch.has_others != 0 ? " and others" : "",
                    is_load                ? " reads it"
                    : touch.is_atomic != 0 ? " updates it"
                                           : " writes it");
    };
    const bool is_in_group = other.era >= group_era_;
    found(FaultKind::kRace, "kernel '", program_.name, "': race on element ", element, " of ",
          name_of(memory), ": ", side(other), ", ", side(now),
          is_in_group ? ", and no barrier stands between them" : ", and nothing orders groups");
  }

  int64_t group_of(uint32_t era) const {
    return std::ranges::upper_bound(first_eras_, era) - first_eras_.begin() - 1;
  }

  // --- reports ----------------------------------------------------------------------------------

  template <typename... Parts>
  [[noreturn]] void found(FaultKind kind, const Parts&... parts) {
    run_.fault = LaunchFault{kind, concat(parts...)};
    fail(ErrorCode::kDeviceFailed, run_.fault->text);
  }

  std::string place(const Code& code) const {
    return concat("kernel '", program_.name, "', `", inst_text(program_, code.id), "`");
  }
  std::string place(const Code& code, uint32_t lane) const {
    return concat(place(code), " in group ", group_, ", lane ", lane);
  }

  std::string name_of(const Memory& memory) const {
    if (memory.plan->argument < 0) {
      return concat("alloc %", printed_names(program_)[memory.plan->pointer]);
    }
    const auto number = static_cast<size_t>(memory.plan->argument);
    return concat("argument '", program_.signature.arguments[number].name, "'");
  }

  const Decoded& decoded_;
  const LinearProgram& program_;
  const std::span<const CheckedArgument> arguments_;

  CheckedRun run_;
  std::vector<uint64_t> words_;
  std::vector<uint64_t> carried_;
  std::vector<Memory> memories_;
  std::vector<std::byte> local_bytes_;
  std::vector<uint8_t> local_written_;
  int64_t group_ = 0;
  uint32_t era_ = 0;
  uint32_t group_era_ = 0;
  std::vector<uint32_t> first_eras_;  ///< by group
};

}  // namespace

CheckedRun CheckedProgram::run(std::span<const CheckedArgument> arguments,
                               uint64_t max_lane_operations) const {
  return Runner(*decoded_, arguments).run(max_lane_operations);
}

}  // namespace tenon
