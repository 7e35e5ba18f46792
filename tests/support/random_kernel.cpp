// SPDX-License-Identifier: MIT

#include "tests/support/random_kernel.h"

#include <algorithm>
#include <cstring>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear.h"

namespace tenon::test {
namespace {

constexpr int64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xc3};
constexpr std::byte kPoison{0x9d};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 1) {}

  RandomKernel run() {
    const std::vector<DType> dtypes{DType::kF32, DType::kF32, DType::kI32, DType::kF64, DType::kI64,
                                    DType::kU8,  DType::kI8,  DType::kF16, DType::kBF16};
    dtype_ = dtypes[below(dtypes.size())];
    Kernel& kernel = result_.kernel;
    kernel.name = "random";
    const size_t rank = 1 + below(3);
    // Rank 3 stays small: a plan may compute a producer once for each group.
    for (size_t i = 0; i < rank; ++i)
      out_dims_.push_back(rank < 3 ? extent() : 2 + extent() % 3);
    if (rank > 1 && below(8) == 0) out_dims_[below(rank)] = 1;
    BufferDecl out{.name = "b0", .dtype = dtype_, .dims = out_dims_};
    out.access = BufferAccess::kOut;
    out.scope = Scope::kGlobal;
    kernel.add_buffer(out);
    const size_t num_inputs = 1 + below(3);
    for (size_t i = 0; i < num_inputs; ++i)
      add_input(i);
    const size_t num_tmps = below(4);
    for (size_t i = 0; i < num_tmps; ++i)
      add_reduction(i);
    Comp root = open_comp(0);
    if (num_tmps == 0 && below(6) == 0) {
      root.combine = Op::kMax;
      root.start = identity_of(Op::kMax, dtype_);
      red_axes_.push_back(new_axis(2 + static_cast<int64_t>(below(6)), AxisKind::kRed, root.axes));
      result_.has_reduce = true;
    }
    root.value = value(3, true);
    kernel.body.push_back(Stmt{std::move(root)});
    result_.kernel = renumber_axes(kernel);
    for (size_t i = 0; i < result_.kernel.axis_names.size(); ++i) {
      result_.kernel.axis_names[i] = concat("d", i);
    }
    return std::move(result_);
  }

 private:
  struct Input {
    int buffer;
    Shape dims;
  };

  size_t below(size_t bound) { return random_() % bound; }
  int64_t extent() {
    static constexpr int64_t kExtents[] = {1, 2, 3, 5, 7, 8, 11, 13};
    return kExtents[1 + below(std::size(kExtents) - 1)];
  }

  Node new_axis(int64_t size, AxisKind kind, std::vector<AxisUse>& axes) {
    const Node axis = result_.kernel.add_axis("", size, kind);
    axes.push_back({axis, Role::kNone, 0});
    return axis;
  }

  void add_input(size_t number) {
    Input input;
    const size_t rank = 1 + below(3);
    for (size_t i = 0; i < rank; ++i)
      input.dims.push_back(extent());
    BufferDecl decl{.name = concat("b", number + 1), .dtype = dtype_, .dims = input.dims};
    decl.access = BufferAccess::kIn;
    decl.scope = Scope::kGlobal;
    input.buffer = result_.kernel.add_buffer(decl);
    inputs_.push_back(std::move(input));
  }

  // A Comp over fresh par axes, one for each dim of the output.
  Comp open_comp(int dst) {
    Comp comp;
    comp.dst = dst;
    par_axes_.clear();
    red_axes_.clear();
    for (int64_t dim : out_dims_) {
      par_axes_.push_back(dim == 1 ? idx_const(0) : new_axis(dim, AxisKind::kPar, comp.axes));
    }
    comp.index = par_axes_;
    return comp;
  }

  // A tmp with the output's dims, reduced over one or two axes; one in four is a row reduction,
  // whose tmp lacks the last dim of the output and so is read along a whole row.
  void add_reduction(size_t number) {
    BufferDecl tmp{.name = concat("t", number), .dtype = dtype_, .dims = out_dims_};
    const bool is_row = out_dims_.size() > 1 && out_dims_.back() > 1 && below(4) == 0;
    if (is_row) tmp.dims.back() = 1;
    const int buffer = result_.kernel.add_buffer(tmp);
    Comp comp = open_comp(buffer);
    if (is_row) {
      comp.index.back() = idx_const(0);
      comp.axes.pop_back();
      par_axes_.back() = idx_const(0);
      result_.has_row_reduce = true;
    }
    static constexpr Op kOps[] = {Op::kAdd, Op::kAdd, Op::kMax, Op::kMin};
    // Sums in narrow floats round, so their value depends on the order: these take max and min.
    const bool is_narrow = dtype_ == DType::kF16 || dtype_ == DType::kBF16;
    comp.combine = kOps[is_narrow ? 2 + below(2) : below(std::size(kOps))];
    comp.start = identity_of(*comp.combine, dtype_);
    const size_t num_red = 1 + below(2);
    for (size_t i = 0; i < num_red; ++i) {
      red_axes_.push_back(new_axis(2 + extent() % 5, AxisKind::kRed, comp.axes));
    }
    if (below(2) == 0) std::shuffle(comp.axes.begin(), comp.axes.end(), random_);
    comp.value = value(2, false);
    result_.kernel.body.push_back(Stmt{std::move(comp)});
    tmps_.push_back(buffer);
    result_.has_reduce = true;
  }

  // --- values
  // -------------------------------------------------------------------------------------

  // NOLINTNEXTLINE(misc-no-recursion): depth is a small argument
  Node value(int depth, bool with_tmps) {
    if (with_tmps && !tmps_.empty() && below(2) == 0) return read_tmp(tmps_[below(tmps_.size())]);
    if (depth == 0 || below(5) == 0) return leaf();
    const Node a = value(depth - 1, with_tmps);
    const Node b = value(depth - 1, with_tmps);
    switch (below(7)) {
      case 0: return make_expr(Op::kAdd, a, b);
      case 1: return make_expr(Op::kSub, a, b);
      case 2: return make_expr(Op::kMul, leaf(), leaf());
      case 3: return make_expr(Op::kMax, a, b);
      case 4: return make_expr(Op::kMin, a, b);
      case 5: return make_expr(Op::kWhere, make_expr(Op::kLt, a, b), a, leaf());
      default: return make_expr(Op::kWhere, condition(), a, b);
    }
  }

  Node leaf() {
    if (below(6) == 0) return int_const(dtype_, static_cast<int64_t>(below(5)));
    if (below(8) == 0) return make_cast(any_axis(), dtype_);
    return read_input(inputs_[below(inputs_.size())]);
  }

  Node any_axis() {
    std::vector<Node> axes;
    for (const Node& axis : par_axes_) {
      if (!is_const(axis)) axes.push_back(axis);
    }
    for (const Node& axis : red_axes_)
      axes.push_back(axis);
    return axes.empty() ? idx_const(0) : axes[below(axes.size())];
  }

  Node condition() {
    result_.has_gate = true;
    const Node limit = idx_const(static_cast<int64_t>(below(9)));
    return make_expr(below(2) == 0 ? Op::kLt : Op::kLe, any_axis(), limit);
  }

  Node read_tmp(int buffer) {
    const BufferDecl& tmp = result_.kernel.buffers[static_cast<size_t>(buffer)];
    std::vector<Node> index = par_axes_;
    if (tmp.dims.back() == 1) index.back() = idx_const(0);
    return make_load(buffer, dtype_, index);
  }

  // An index of a random form, then wrapped, clamped or gated into its dim.
  Node read_input(const Input& input) {
    std::vector<Node> index;
    Node gate;
    for (int64_t dim : input.dims) {
      Node at = any_axis();
      switch (below(5)) {
        case 0: at = make_expr(Op::kAdd, make_expr(Op::kMul, at, idx_const(2)), any_axis()); break;
        case 1: at = make_expr(Op::kSub, at, idx_const(static_cast<int64_t>(below(3)))); break;
        case 2: at = make_expr(Op::kSub, idx_const(dim - 1), at); break;
        case 3:
          at = make_expr(Op::kFloorDiv, at, idx_const(1 + static_cast<int64_t>(below(3))));
          break;
        default: break;
      }
      if (below(2) == 0) {
        at = make_expr(Op::kFloorMod, at, idx_const(dim));
      } else if (below(2) == 0) {
        at = make_expr(Op::kMax, idx_const(0), make_expr(Op::kMin, at, idx_const(dim - 1)));
      } else {
        const Node inside = make_expr(Op::kAnd, make_expr(Op::kLe, idx_const(0), at),
                                      make_expr(Op::kLt, at, idx_const(dim)));
        gate = gate ? make_expr(Op::kAnd, gate, inside) : inside;
      }
      index.push_back(at);
    }
    if (!gate) return make_load(input.buffer, dtype_, index);
    result_.has_gate = true;
    return make_gated_load(input.buffer, dtype_, index, gate,
                           int_const(dtype_, static_cast<int64_t>(below(3))));
  }

  std::mt19937_64 random_;
  RandomKernel result_;
  DType dtype_ = DType::kF32;
  Shape out_dims_;
  std::vector<Input> inputs_;
  std::vector<int> tmps_;
  std::vector<Node> par_axes_;
  std::vector<Node> red_axes_;
};

}  // namespace

RandomKernel random_kernel(uint64_t seed) {
  return Generator(seed).run();
}

namespace {

class PlanGenerator {
 public:
  PlanGenerator(const Kernel& kernel, const Target& target, std::mt19937_64& random)
      : kernel_(kernel), target_(target), random_(random) {}

  // May fit or not.
  Plan run() {
    const int last = static_cast<int>(kernel_.body.size()) - 1;
    const int reduction = last > 0 && below(2) == 0 ? read_by(last) : -1;
    place_root(reduction >= 0 ? reduction : last);
    if (reduction >= 0) place_at(last, How::kAfter, reduction);
    for (int i = last; i >= 0; --i) {
      if (!is_placed(i)) place_before(i);
    }
    return plan_;
  }

 private:
  const Comp& comp_at(int number) const {
    return std::get<Comp>(kernel_.body[static_cast<size_t>(number)].node);
  }
  size_t below(size_t bound) { return random_() % bound; }
  bool is_placed(int number) const {
    return std::any_of(plan_.comps.begin(), plan_.comps.end(),
                       [&](const CompPlan& entry) { return entry.comp == number; });
  }

  static bool reads(const Comp& comp, int buffer) {
    for (const Node& node : topological_order(std::span(&comp.value, 1))) {
      if (node.op() == Op::kLoad && load_parts(node).buffer == buffer) return true;
    }
    return false;
  }

  // A reduction into a tmp that `reader` reads.
  int read_by(int reader) {
    std::vector<int> found;
    for (int i = 0; i < reader; ++i) {
      if (comp_at(i).combine && reads(comp_at(reader), comp_at(i).dst)) found.push_back(i);
    }
    return found.empty() ? -1 : found[below(found.size())];
  }

  void place_root(int number) {
    const Comp& comp = comp_at(number);
    std::vector<AxisRange> ranges;
    for (const AxisUse& use : comp.axes)
      ranges.push_back({idx_const(0), axis_extent(use.axis), false, true});
    CompPlan entry{.comp = number, .how = How::kRoot};
    entry.parts = parts(comp, ranges, true);
    finish(comp, entry, 0);
    plan_.comps.push_back(std::move(entry));
  }

  void place_before(int number) {
    std::vector<int> readers;
    for (const CompPlan& entry : plan_.comps) {
      if (reads(comp_at(entry.comp), comp_at(number).dst)) readers.push_back(entry.comp);
    }
    // Now and then in the first reader's own loops, else in the root's.
    const int around = !readers.empty() && below(3) == 0 ? readers[below(readers.size())]
                                                         : plan_.comps.front().comp;
    place_at(number, How::kBefore, around);
  }

  void place_at(int number, How how, int around) {
    const Comp& comp = comp_at(number);
    CompPlan entry{.comp = number, .how = how};
    entry.at.comp = around;
    const CompPlan* outer = nullptr;
    for (const CompPlan& placed : plan_.comps) {
      if (placed.comp == around) outer = &placed;
    }
    const size_t num_loops = static_cast<size_t>(outer->num_loops());
    // Above the loops of the grid a producer is computed by each group: now and then only.
    const size_t num_grid = static_cast<size_t>(
        std::count_if(outer->parts.begin(), outer->parts.end(),
                      [](const Part& part) { return part.role == Role::kGrid; }));
    const size_t lowest = below(8) == 0 ? 0 : num_grid;
    entry.at.depth = static_cast<int>(lowest + below(num_loops + 1 - lowest));
    if (how == How::kAfter && outer->acc) {
      entry.at.depth = static_cast<int>(below(3) == 0 ? below(num_loops + 1)
                                                      : static_cast<size_t>(outer->acc->depth));
    }
    const auto ranges = ranges_at(kernel_, plan_, number, how, entry.at);
    if (ranges) entry.parts = parts(comp, *ranges, false);
    finish(comp, entry, 0);
    plan_.comps.push_back(std::move(entry));
  }

  void finish(const Comp& comp, CompPlan& entry, size_t lowest) {
    if (!comp.combine) return;
    size_t after_par = 0;
    const size_t num_loops = static_cast<size_t>(entry.num_loops());
    for (size_t i = 0; i < num_loops; ++i) {
      const int axis = entry.parts[i].axis;
      if (axis_kind(comp.axes[static_cast<size_t>(axis)].axis) == AxisKind::kPar) after_par = i + 1;
    }
    const bool has_vec = std::any_of(entry.parts.begin(), entry.parts.end(),
                                     [](const Part& part) { return part.role == Role::kVec; });
    if (!has_vec && below(3) == 0) return;
    const size_t least = std::max(lowest, after_par);
    Acc acc{.depth = static_cast<int>(least + below(num_loops + 1 - least))};
    acc.has_partials = below(2) == 0;
    for (int i = 0; i < acc.depth; ++i) {
      const int axis = entry.parts[static_cast<size_t>(i)].axis;
      const bool is_red = axis_kind(comp.axes[static_cast<size_t>(axis)].axis) == AxisKind::kRed;
      if (is_red && entry.how == How::kRoot) acc.carry_in = 0;
    }
    entry.acc = acc;
    for (size_t buffer = 1; buffer < kernel_.buffers.size(); ++buffer) {
      if (kernel_.buffers[buffer].access != BufferAccess::kIn || below(4) != 0) continue;
      if (!reads(comp, static_cast<int>(buffer))) continue;
      entry.stages.push_back({.buffer = static_cast<int>(buffer),
                              .depth = static_cast<int>(below(num_loops + 1)),
                              .layout = {}});
    }
  }

  std::vector<Part> parts(const Comp& comp, const std::vector<AxisRange>& ranges, bool has_grid) {
    std::vector<Part> grid;
    std::vector<std::vector<Part>> loops;  // by axis, outer to inner
    std::vector<Part> unrolls;
    std::vector<Part> vec;
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      const AxisRange& range = ranges[i];
      if (range.is_bound && range.length == 1) continue;
      const int axis = static_cast<int>(i);
      const bool is_par = axis_kind(comp.axes[i].axis) == AxisKind::kPar;
      const auto divides = [&](int64_t step) {
        return !range.is_bound || range.length % step == 0;
      };
      int64_t step = 1;
      const int64_t lanes = int64_t{2} << below(2);
      if (vec.empty() && target_.max_vector_bytes > 0 && below(3) == 0 && divides(lanes)) {
        vec.push_back({axis, Role::kVec, 1});
        step = lanes;
      }
      const auto count = static_cast<int64_t>(2 + below(3));
      if (below(4) == 0 && divides(step * count)) {
        unrolls.push_back(
            {axis, Role::kUnroll, step, is_par && below(2) == 0 ? Tail::kClamp : Tail::kNone});
        step *= count;
      }
      std::vector<Part> own{{axis, Role::kSeq, step, below(4) == 0 ? Tail::kPeel : Tail::kNone}};
      const auto tile = static_cast<int64_t>(2 + below(4));
      if (below(2) == 0 && divides(step * tile)) {
        step *= tile;
        own.insert(own.begin(), {axis, Role::kSeq, step, Tail::kNone});
      }
      if (has_grid && is_par && grid.size() < 3 && below(2) == 0) {
        own.front().role = Role::kGrid;
        own.front().tail = Tail::kNone;
        grid.push_back(own.front());
        own.erase(own.begin());
      }
      if (!own.empty()) loops.push_back(std::move(own));
    }
    // A random order that keeps the loops of an axis in theirs.
    std::vector<Part> result;
    while (!loops.empty()) {
      const size_t at = below(loops.size());
      result.push_back(loops[at].front());
      loops[at].erase(loops[at].begin());
      if (loops[at].empty()) loops.erase(loops.begin() + static_cast<ptrdiff_t>(at));
    }
    std::shuffle(grid.begin(), grid.end(), random_);
    result.insert(result.begin(), grid.begin(), grid.end());
    std::shuffle(unrolls.begin(), unrolls.end(), random_);
    result.insert(result.end(), unrolls.begin(), unrolls.end());
    result.insert(result.end(), vec.begin(), vec.end());
    return result;
  }

  const Kernel& kernel_;
  const Target& target_;
  std::mt19937_64& random_;
  Plan plan_;
};

}  // namespace

Plan random_plan(const Kernel& kernel, const Target& target, std::mt19937_64& random) {
  for (int tries = 0; tries < 20; ++tries) {
    Plan plan = PlanGenerator(kernel, target, random).run();
    const auto reason = check_plan(kernel, plan, target);
    if (!reason) return plan;
  }
  return simple_plan(kernel, target);
}

KernelMemory::KernelMemory(const Kernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed + 17);
  for (const BufferDecl& buffer : kernel.buffers) {
    if (buffer.access == BufferAccess::kTmp) continue;
    Block block;
    const int64_t width = dtype_size_bytes(buffer.dtype);
    const int64_t count = layout_num_elements(buffer);
    block.size = count * width;
    block.is_output = buffer.access == BufferAccess::kOut;
    block.bytes.assign(static_cast<size_t>(block.size + 2 * kGuardBytes + kBaseAlignBytes), kGuard);
    const auto address = reinterpret_cast<uintptr_t>(block.bytes.data() + kGuardBytes);
    block.begin = kGuardBytes + static_cast<int64_t>(-address % uintptr_t{kBaseAlignBytes});
    if (!block.is_output) {
      for (int64_t i = 0; i < count; ++i) {
        const auto value =
            static_cast<int64_t>((static_cast<uint64_t>(i) * 7 + random() % 3) % 9) - 4;
        const uint64_t bits = eval_cast(static_cast<uint64_t>(value), DType::kI64, buffer.dtype);
        std::memcpy(block.bytes.data() + block.begin + i * width, &bits,
                    static_cast<size_t>(width));
      }
    }
    blocks_.push_back(std::move(block));
  }
  reset();
}

void KernelMemory::reset() {
  for (Block& block : blocks_) {
    if (!block.is_output) continue;
    std::fill_n(block.bytes.begin() + block.begin, block.size, kPoison);
  }
}

std::vector<KernelArgument> KernelMemory::kernel_arguments() {
  std::vector<KernelArgument> arguments;
  for (Block& block : blocks_) {
    arguments.push_back({.data = block.bytes.data() + block.begin, .size_bytes = block.size});
  }
  return arguments;
}

std::vector<ArgumentValue> KernelMemory::program_arguments(const Signature& signature) {
  TENON_ASSERT(signature.arguments.size() == blocks_.size(),
               "random kernel: ", signature.arguments.size(), " arguments for ", blocks_.size(),
               " buffers");
  std::vector<ArgumentValue> values;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    values.push_back({.is_buffer = true,
                      .dtype = signature.arguments[i].dtype,
                      .address = blocks_[i].bytes.data() + blocks_[i].begin,
                      .size_bytes = blocks_[i].size});
  }
  return values;
}

std::vector<std::byte> KernelMemory::outputs() const {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks_) {
    if (!block.is_output) continue;
    const auto begin = block.bytes.begin() + block.begin;
    bytes.insert(bytes.end(), begin, begin + block.size);
  }
  return bytes;
}

std::string KernelMemory::guard_finding() const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto& bytes = blocks_[i].bytes;
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto begin = bytes.begin() + blocks_[i].begin;
    if (!std::all_of(bytes.begin(), begin, is_guard) ||
        !std::all_of(begin + blocks_[i].size, bytes.end(), is_guard)) {
      return concat("the guard zone of buffer ", i, " was written");
    }
  }
  return "";
}

}  // namespace tenon::test
