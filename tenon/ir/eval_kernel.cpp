// Statements of eval_kernel: a compiled copy of the tree, and its execution over lanes.
// SPDX-License-Identifier: MIT

#include "tenon/ir/eval_kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/ir/eval_program.h"

namespace tenon {

namespace {

using detail::EvalBuffer;
using detail::EvalProgram;
using detail::EvalState;
using detail::read_element;
using detail::write_element;

constexpr int64_t kMaxTmpBytes = int64_t{1} << 32;

// A loop of a statement: a slot that counts to an extent.
struct EvalAxis {
  uint32_t slot = 0;
  int64_t extent = 1;
};

// An axis of a Comp that is a lane number.
struct LaneAxis {
  uint32_t slot = 0;
  int64_t extent = 1;
  size_t dim = 0;
};

struct EvalStmt;
using EvalBody = std::vector<EvalStmt>;

struct EvalComp {
  const Comp* comp = nullptr;
  EvalProgram program;  // roots: index, value
  std::vector<EvalAxis> axes;
  std::vector<LaneAxis> lane_axes;
  size_t num_outer = 0;  // of a scan with start: axes before the scan axes
  bool is_scan = false;
  EvalProgram init;  // with start: roots: index
  std::vector<EvalAxis> init_axes;
};

struct EvalCombine {
  const Combine* combine = nullptr;
  EvalProgram dst_index;
  EvalProgram src_index;
  std::vector<EvalAxis> kept;
  std::vector<EvalAxis> items;  // unroll axes, then vec axes
  int64_t num_unroll = 1;
  int64_t num_vec = 1;
  std::vector<size_t> lane_dims;  // folded, outer to inner
};

struct EvalStmt {
  enum class Kind { kComp, kFor, kIf, kAlloc, kCombine, kBarrier };
  Kind kind = Kind::kBarrier;
  EvalComp comp;
  EvalCombine combine;
  EvalProgram program;  // of a For: its extent; of an If: its condition
  EvalAxis axis;
  int buffer = 0;
  EvalBody body;
  EvalBody else_body;
};

bool uses_axis(std::span<const Node> exprs, const Node& axis) {
  const std::vector<Node> order = topological_order(exprs);
  return std::find(order.begin(), order.end(), axis) != order.end();
}

// Sets axes to their first point; false if there is none.
void reset(EvalState& state, std::span<const EvalAxis> axes) {
  for (const EvalAxis& axis : axes)
    state.slots[axis.slot] = 0;
}

constexpr size_t kNoMorePoints = SIZE_MAX;

// The next point in row-major order; the outermost axis that moved, or kNoMorePoints.
size_t next_point(EvalState& state, std::span<const EvalAxis> axes) {
  for (size_t i = axes.size(); i-- > 0;) {
    ScalarBits& value = state.slots[axes[i].slot];
    if (static_cast<int64_t>(++value) < axes[i].extent) return i;
    value = 0;
  }
  return kNoMorePoints;
}

// The tree that docs/ir.md fixes: h = ceil(n/2), item i takes item i + h, repeat.
ScalarBits fold_tree(Op op, DType dtype, std::span<ScalarBits> items) {
  for (size_t n = items.size(); n > 1;) {
    const size_t half = (n + 1) / 2;
    for (size_t i = 0; i < n - half; ++i) {
      const ScalarBits args[2] = {items[i], items[i + half]};
      items[i] = eval_op(op, dtype, args);
    }
    n = half;
  }
  return items[0];
}

class Evaluator {
 public:
  Evaluator(const Kernel& kernel, std::span<const KernelArgument> arguments) : kernel_(kernel) {
    state_.kernel = &kernel;
    bind_arguments(arguments);
    for (const AxisUse& use : kernel.grid)
      grid_.push_back({state_.axis_slot(use.axis), axis_extent(use.axis)});
    for (const AxisUse& use : kernel.lanes) {
      lane_axes_.push_back({state_.axis_slot(use.axis), axis_extent(use.axis)});
      num_lanes_ *= axis_extent(use.axis);
    }
    allocate();
    body_ = compile(kernel.body);
  }

  void run(uint64_t order_seed) {
    int64_t num_groups = 1;
    for (const EvalAxis& axis : grid_)
      num_groups *= axis.extent;
    std::vector<int64_t> order(static_cast<size_t>(num_groups));
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<int64_t>(i);
    uint64_t random = order_seed;
    for (size_t i = order.size(); order_seed != 0 && i > 1; --i) {
      random = random * 6364136223846793005U + 1442695040888963407U;  // Knuth, MMIX
      std::swap(order[i - 1], order[(random >> 33) % i]);
    }
    std::vector<int64_t> lanes(static_cast<size_t>(num_lanes_));
    for (size_t i = 0; i < lanes.size(); ++i)
      lanes[i] = static_cast<int64_t>(i);
    for (const int64_t group : order) {
      int64_t rest = group;
      for (size_t i = grid_.size(); i-- > 0;) {
        state_.slots[grid_[i].slot] = static_cast<ScalarBits>(rest % grid_[i].extent);
        rest /= grid_[i].extent;
      }
      for (size_t buffer = 0; buffer < state_.buffers.size(); ++buffer) {
        const Scope scope = kernel_.buffers[buffer].scope;
        if (scope == Scope::kGroup || scope == Scope::kReg) poison(buffer);
      }
      run_body(body_, lanes);
    }
  }

 private:
  // --- set-up ---

  void bind_arguments(std::span<const KernelArgument> arguments) {
    const auto num_buffers = static_cast<size_t>(kernel_.num_parameters());
    const size_t expected = num_buffers + kernel_.scalars.size();
    TENON_CHECK(arguments.size() == expected, ErrorCode::kInvalidArgument, "eval of kernel '",
                kernel_.name, "': got ", arguments.size(), " arguments, expected ", expected);
    size_t next = 0;
    for (const BufferDecl& decl : kernel_.buffers) {
      const LayoutTerms layout = layout_terms(decl);
      EvalBuffer buffer;
      buffer.decl = &decl;
      buffer.terms = layout.terms;
      TENON_ASSERT(layout.num_elements <= (int64_t{1} << 56), "buffer ", decl.name, ": too large");
      buffer.size_bytes = layout.num_elements * dtype_size_bytes(decl.dtype);
      if (decl.access != BufferAccess::kTmp) {
        const KernelArgument& argument = arguments[next++];
        TENON_CHECK(argument.data != nullptr && argument.size_bytes >= buffer.size_bytes,
                    ErrorCode::kInvalidArgument, "eval of kernel '", kernel_.name, "': buffer '",
                    decl.name, "' has ", argument.size_bytes, " bytes, expected at least ",
                    buffer.size_bytes);
        buffer.storage = buffer.data = argument.data;
      }
      state_.buffers.push_back(std::move(buffer));
    }
    for (const ScalarDecl& decl : kernel_.scalars) {
      const int64_t value = arguments[next++].value;
      TENON_CHECK(value >= decl.min && value <= decl.max, ErrorCode::kInvalidArgument,
                  "eval of kernel '", kernel_.name, "': scalar '", decl.name, "' is ", value,
                  ", expected ", decl.min, "..", decl.max);
      state_.scalar_slots.push_back(state_.add_slot(static_cast<ScalarBits>(value)));
    }
  }

  void allocate() {
    int64_t total = 0;
    for (EvalBuffer& buffer : state_.buffers) {
      if (buffer.decl->access != BufferAccess::kTmp) continue;
      const int64_t copies = buffer.decl->scope == Scope::kReg ? num_lanes_ : 1;
      TENON_CHECK(buffer.size_bytes <= kMaxTmpBytes / copies &&
                      (total += buffer.size_bytes * copies) <= kMaxTmpBytes,
                  ErrorCode::kOutOfMemory, "eval of kernel '", kernel_.name, "': tmp '",
                  buffer.decl->name, "' has ", buffer.size_bytes, " bytes; at most ", kMaxTmpBytes,
                  " are given to all");
      buffer.lane_bytes = buffer.decl->scope == Scope::kReg ? buffer.size_bytes : 0;
      memory_.emplace_back(static_cast<size_t>(buffer.size_bytes * copies), kEvalPoison);
      buffer.storage = buffer.data = memory_.back().data();
    }
  }

  // --- compiling ---

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  EvalBody compile(const Body& body) {
    EvalBody result;
    for (const Stmt& stmt : body)
      result.push_back(compile_stmt(stmt));
    return result;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  EvalStmt compile_stmt(const Stmt& stmt) {
    using Kind = EvalStmt::Kind;
    EvalStmt result;
    if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
      result.kind = Kind::kComp;
      compile_comp(*comp, result.comp);
    } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
      result.kind = Kind::kFor;
      result.axis = {state_.axis_slot(loop->axis.axis), axis_extent(loop->axis.axis)};
      result.program = EvalProgram(state_, {}, std::span(&loop->extent, 1), {});
      result.body = compile(loop->body);
    } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
      result.kind = Kind::kIf;
      result.program = EvalProgram(state_, {}, std::span(&branch->condition, 1), {});
      result.body = compile(branch->then_body);
      result.else_body = compile(branch->else_body);
    } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      result.kind = Kind::kAlloc;
      result.buffer = alloc->buffer;
    } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
      result.kind = Kind::kCombine;
      compile_combine(*combine, result.combine);
    }
    return result;
  }

  void check_dst(int dst, size_t rank) const {
    TENON_ASSERT(static_cast<size_t>(dst) < kernel_.buffers.size(), "eval: no buffer ", dst);
    const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(dst)];
    TENON_ASSERT(decl.dims.size() == rank, "eval: ", rank, " indices of ", decl.name);
    TENON_ASSERT(decl.access != BufferAccess::kIn, "eval: a write of the input ", decl.name);
  }

  void compile_comp(const Comp& comp, EvalComp& result) {
    check_dst(comp.dst, comp.index.size());
    result.comp = &comp;
    std::vector<Node> loops;
    const auto add_loops = [&](bool scan) {
      for (const AxisUse& use : comp.axes) {
        if (use.role == Role::kLane && !scan) {
          TENON_ASSERT(static_cast<size_t>(use.dim) < lane_axes_.size(), "eval: no lane dim ",
                       use.dim);
          result.lane_axes.push_back(
              {state_.axis_slot(use.axis), axis_extent(use.axis), static_cast<size_t>(use.dim)});
        } else if (use.role != Role::kLane &&
                   scan == (result.is_scan && axis_kind(use.axis) == AxisKind::kScan)) {
          loops.push_back(use.axis);
          result.axes.push_back({state_.axis_slot(use.axis), axis_extent(use.axis)});
        }
      }
    };
    result.is_scan = comp.combine && comp.start &&
                     std::any_of(comp.axes.begin(), comp.axes.end(), [](const AxisUse& use) {
                       return axis_kind(use.axis) == AxisKind::kScan;
                     });
    add_loops(false);
    result.num_outer = result.axes.size();
    if (result.is_scan) add_loops(true);
    std::vector<Node> roots = comp.index;
    roots.push_back(comp.value);
    result.program = EvalProgram(state_, comp.guard, roots, loops);
    if (comp.combine && comp.start && !result.is_scan) compile_init(comp, result);
  }

  // Start values are stored at all points of the axes that the index uses.
  void compile_init(const Comp& comp, EvalComp& result) {
    std::vector<Node> loops;
    std::vector<Node> guards = comp.guard;
    for (const AxisUse& use : comp.axes) {
      if (use.role == Role::kLane) continue;
      if (uses_axis(comp.index, use.axis)) {
        loops.push_back(use.axis);
        result.init_axes.push_back({state_.axis_slot(use.axis), axis_extent(use.axis)});
      } else {
        std::erase_if(guards, [&](const Node& guard) { return uses_axis({&guard, 1}, use.axis); });
      }
    }
    result.init = EvalProgram(state_, guards, comp.index, loops);
  }

  void compile_combine(const Combine& combine, EvalCombine& result) {
    check_dst(combine.dst, combine.dst_index.size());
    TENON_ASSERT(static_cast<size_t>(combine.src) < kernel_.buffers.size() &&
                     kernel_.buffers[static_cast<size_t>(combine.src)].dims.size() ==
                         combine.src_index.size(),
                 "eval: the source of a fold does not fit its declaration");
    result.combine = &combine;
    std::vector<EvalAxis> vec;
    for (const AxisUse& use : combine.axes) {
      const EvalAxis axis{state_.axis_slot(use.axis), axis_extent(use.axis)};
      if (use.role == Role::kLane) {
        const auto dim = static_cast<size_t>(use.dim);
        TENON_ASSERT(dim < lane_axes_.size() && lane_axes_[dim].slot == axis.slot,
                     "eval: a fold over a lane axis that is not the kernel's");
        result.lane_dims.push_back(dim);
      } else if (uses_axis(combine.dst_index, use.axis)) {
        result.kept.push_back(axis);
      } else if (use.role == Role::kVec) {
        vec.push_back(axis);
        result.num_vec *= axis.extent;
      } else {
        result.items.push_back(axis);
        result.num_unroll *= axis.extent;
      }
    }
    result.items.insert(result.items.end(), vec.begin(), vec.end());
    result.dst_index = EvalProgram(state_, {}, combine.dst_index, {});
    result.src_index = EvalProgram(state_, {}, combine.src_index, {});
  }

  // --- running ---

  void poison(size_t number) {
    const EvalBuffer& buffer = state_.buffers[number];
    if (buffer.decl->access != BufferAccess::kTmp) return;
    const int64_t copies = buffer.lane_bytes != 0 ? num_lanes_ : 1;
    std::memset(buffer.storage, static_cast<int>(kEvalPoison),
                static_cast<size_t>(buffer.size_bytes * copies));
  }

  void set_lane(int64_t lane) {
    int64_t rest = lane;
    for (size_t i = lane_axes_.size(); i-- > 0;) {
      state_.slots[lane_axes_[i].slot] = static_cast<ScalarBits>(rest % lane_axes_[i].extent);
      rest /= lane_axes_[i].extent;
    }
    for (EvalBuffer& buffer : state_.buffers)
      buffer.data = buffer.storage + lane * buffer.lane_bytes;
  }

  // NOLINTBEGIN(misc-no-recursion): statement depth is at most 64
  void run_body(const EvalBody& body, std::span<const int64_t> lanes) {
    for (const EvalStmt& stmt : body)
      run_stmt(stmt, lanes);
  }

  void run_stmt(const EvalStmt& stmt, std::span<const int64_t> lanes) {
    if (lanes.empty()) return;
    switch (stmt.kind) {
      case EvalStmt::Kind::kComp: return run_comp(stmt.comp, lanes);
      case EvalStmt::Kind::kFor: return run_for(stmt, lanes);
      case EvalStmt::Kind::kIf: return run_if(stmt, lanes);
      case EvalStmt::Kind::kAlloc: return poison(static_cast<size_t>(stmt.buffer));
      case EvalStmt::Kind::kCombine: return run_combine(stmt.combine, lanes);
      case EvalStmt::Kind::kBarrier:
        if (static_cast<int64_t>(lanes.size()) != num_lanes_) {
          state_.fail_eval(
              concat("a barrier is reached by ", lanes.size(), " lanes of ", num_lanes_));
        }
        return;
    }
  }

  void run_for(const EvalStmt& stmt, std::span<const int64_t> lanes) {
    set_lane(lanes[0]);
    stmt.program.run(state_, 0);
    const auto extent = static_cast<int64_t>(state_.slots[stmt.program.slot(0)]);
    if (extent > stmt.axis.extent) {
      state_.fail_eval(concat("a loop runs ", extent, " times, its axis has ", stmt.axis.extent));
    }
    for (int64_t i = 0; i < extent; ++i) {
      state_.slots[stmt.axis.slot] = static_cast<ScalarBits>(i);
      run_body(stmt.body, lanes);
    }
  }

  void run_if(const EvalStmt& stmt, std::span<const int64_t> lanes) {
    std::vector<int64_t> yes;
    std::vector<int64_t> no;
    for (const int64_t lane : lanes) {
      set_lane(lane);
      stmt.program.run(state_, 0);
      (state_.slots[stmt.program.slot(0)] != 0 ? yes : no).push_back(lane);
    }
    run_body(stmt.body, yes);
    run_body(stmt.else_body, no);
  }
  // NOLINTEND(misc-no-recursion)

  bool set_lane_axes(const EvalComp& comp) {
    for (const LaneAxis& axis : comp.lane_axes) {
      const ScalarBits value = state_.slots[lane_axes_[axis.dim].slot];
      if (static_cast<int64_t>(value) >= axis.extent) return false;
      state_.slots[axis.slot] = value;
    }
    return true;
  }

  void run_comp(const EvalComp& comp, std::span<const int64_t> lanes) {
    const bool has_init = comp.comp->start && comp.comp->combine && !comp.is_scan;
    for (const int64_t lane : lanes) {
      set_lane(lane);
      if (!set_lane_axes(comp)) continue;
      if (has_init) run_init(comp);
      run_points(comp);
    }
  }

  void run_init(const EvalComp& comp) {
    const int dst = comp.comp->dst;
    const DType dtype = kernel_.buffers[static_cast<size_t>(dst)].dtype;
    const ScalarBits start = const_bits(comp.comp->start);
    reset(state_, comp.init_axes);
    for (size_t moved = 0, from = 0; moved != kNoMorePoints; from = moved + 1) {
      if (comp.init.run(state_, from)) {
        write_element(state_.element(dst, comp.init.slots(), "write of"), dtype, start);
      }
      moved = next_point(state_, comp.init_axes);
    }
  }

  void run_points(const EvalComp& comp) {
    const int dst = comp.comp->dst;
    const DType dtype = kernel_.buffers[static_cast<size_t>(dst)].dtype;
    const std::optional<Op> op = comp.comp->combine;
    const uint32_t value_slot = comp.program.slot(comp.comp->index.size());
    const ScalarBits start = comp.is_scan ? const_bits(comp.comp->start) : 0;
    ScalarBits running = start;
    reset(state_, comp.axes);
    for (size_t moved = 0, from = 0; moved != kNoMorePoints; from = moved + 1) {
      if (comp.program.run(state_, from)) {
        std::byte* place = state_.element(dst, comp.program.slots(), "write of");
        ScalarBits value = state_.slots[value_slot];
        if (op) {
          const ScalarBits args[2] = {comp.is_scan ? running : read_element(place, dtype), value};
          value = eval_op(*op, dtype, args);
        }
        running = value;
        write_element(place, dtype, value);
      }
      moved = next_point(state_, comp.axes);
      if (comp.is_scan && moved < comp.num_outer) running = start;
    }
  }

  // The items of one lane, folded over unroll and then vec axes.
  ScalarBits fold_items(const EvalCombine& fold) {
    const int src = fold.combine->src;
    const DType dtype = kernel_.buffers[static_cast<size_t>(src)].dtype;
    std::vector<ScalarBits> items;
    reset(state_, fold.items);
    do {
      fold.src_index.run(state_, 0);
      items.push_back(read_element(state_.element(src, fold.src_index.slots(), "fold of"), dtype));
    } while (next_point(state_, fold.items) != kNoMorePoints);
    const auto num_vec = static_cast<size_t>(fold.num_vec);
    std::vector<ScalarBits> column(static_cast<size_t>(fold.num_unroll));
    std::vector<ScalarBits> row(num_vec);
    for (size_t v = 0; v < num_vec; ++v) {
      for (size_t u = 0; u < column.size(); ++u)
        column[u] = items[u * num_vec + v];
      row[v] = fold_tree(fold.combine->op, dtype, column);
    }
    return fold_tree(fold.combine->op, dtype, row);
  }

  // Folds over lanes: those that differ only in the folded dims make one list, in their order.
  void fold_lanes(const EvalCombine& fold, DType dtype, std::span<ScalarBits> values) {
    std::vector<int64_t> strides(lane_axes_.size(), 1);
    for (size_t i = lane_axes_.size(); i-- > 1;)
      strides[i - 1] = strides[i] * lane_axes_[i].extent;
    std::vector<int64_t> offsets{0};  // of the lanes of one list from its first
    for (const size_t dim : fold.lane_dims) {
      std::vector<int64_t> longer;
      for (const int64_t offset : offsets) {
        for (int64_t i = 0; i < lane_axes_[dim].extent; ++i)
          longer.push_back(offset + i * strides[dim]);
      }
      offsets = std::move(longer);
    }
    std::vector<ScalarBits> list(offsets.size());
    for (int64_t lane = 0; lane < num_lanes_; ++lane) {
      const bool is_first = std::all_of(
          fold.lane_dims.begin(), fold.lane_dims.end(),
          [&](size_t dim) { return lane / strides[dim] % lane_axes_[dim].extent == 0; });
      if (!is_first) continue;
      for (size_t i = 0; i < list.size(); ++i)
        list[i] = values[static_cast<size_t>(lane + offsets[i])];
      const ScalarBits result = fold_tree(fold.combine->op, dtype, list);
      for (const int64_t offset : offsets)
        values[static_cast<size_t>(lane + offset)] = result;
    }
  }

  void run_combine(const EvalCombine& fold, std::span<const int64_t> lanes) {
    const int dst = fold.combine->dst;
    const DType dtype = kernel_.buffers[static_cast<size_t>(dst)].dtype;
    if (!fold.lane_dims.empty() && static_cast<int64_t>(lanes.size()) != num_lanes_) {
      state_.fail_eval(
          concat("a fold over lanes is reached by ", lanes.size(), " of ", num_lanes_));
    }
    std::vector<ScalarBits> values(lanes.size());
    reset(state_, fold.kept);
    do {
      for (size_t i = 0; i < lanes.size(); ++i) {
        set_lane(lanes[i]);
        values[i] = fold_items(fold);
      }
      if (!fold.lane_dims.empty()) fold_lanes(fold, dtype, values);
      for (size_t i = 0; i < lanes.size(); ++i) {
        set_lane(lanes[i]);
        fold.dst_index.run(state_, 0);
        write_element(state_.element(dst, fold.dst_index.slots(), "write of"), dtype, values[i]);
      }
    } while (next_point(state_, fold.kept) != kNoMorePoints);
  }

  const Kernel& kernel_;
  EvalState state_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<EvalAxis> grid_;
  std::vector<EvalAxis> lane_axes_;
  int64_t num_lanes_ = 1;
  EvalBody body_;
};

}  // namespace

void eval_kernel(const Kernel& kernel, std::span<const KernelArgument> arguments,
                 uint64_t order_seed) {
  Evaluator(kernel, arguments).run(order_seed);
}

}  // namespace tenon
