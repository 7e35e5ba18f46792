// Random kernels whose innermost loops are turned into unroll and vec axes, in order or dealt
// round, with guards for the rest: the value is that of the kernel, evaluated before and after
// emit_linear and compiled. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/ir/eval_linear.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/codegen/nest_runs.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

constexpr int kVectorBytes = 128;  // 16 lanes of any dtype

struct Coverage {
  int comps = 0;
  int folds = 0;
  int squares = 0;  // two loops of one extent around a Comp
};

class Vectoriser {
 public:
  Vectoriser(const Kernel& nest, uint64_t seed, Coverage& coverage)
      : nest_(nest), random_(seed), coverage_(coverage) {}

  Kernel run() {
    Body body = vectorised(nest_.body);
    nest_.body = std::move(body);
    return std::move(nest_);
  }

 private:
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }

  static const Comp* only_comp(const Body& body) {
    return body.size() == 1 ? std::get_if<Comp>(&body[0].node) : nullptr;
  }
  static const For* only_loop(const Body& body) {
    return body.size() == 1 ? std::get_if<For>(&body[0].node) : nullptr;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body vectorised(const Body& body) {
    Body result;
    for (const Stmt& stmt : body) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        add_loop(*loop, result);
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        result.push_back(Stmt{
            If{branch->condition, vectorised(branch->then_body), vectorised(branch->else_body)}});
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  }

  bool is_store(const Comp& comp) const {
    const Scope scope = nest_.buffers[static_cast<size_t>(comp.dst)].scope;
    return comp.axes.empty() && !comp.combine && scope != Scope::kReg;
  }
  // Not in floats that memory holds as integers: lower_dtypes leaves Combines alone.
  bool is_fold(const Comp& comp) const {
    const DType dtype = nest_.buffers[static_cast<size_t>(comp.dst)].dtype;
    if (is_float(dtype) && dtype_bits(dtype) < 32) return false;
    return comp.axes.empty() && comp.combine && !comp.start &&
           nest_.buffers[static_cast<size_t>(comp.dst)].scope == Scope::kReg;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void add_loop(const For& loop, Body& result) {
    const Comp* comp = only_comp(loop.body);
    const For* inner = only_loop(loop.body);
    if (comp != nullptr && is_store(*comp) && below(8) != 0) {
      Comp vector = *comp;
      result.push_back(Stmt{split(loop, vector, lanes(), 1 + below(3), below(4) == 0)});
      std::get<For>(result.back().node).body.push_back(Stmt{std::move(vector)});
      ++coverage_.comps;
    } else if (comp != nullptr && is_fold(*comp) && below(8) != 0) {
      add_fold(loop, *comp, result);
    } else if (inner != nullptr && only_comp(inner->body) != nullptr &&
               is_store(*only_comp(inner->body)) && below(8) != 0) {
      add_square(loop, *inner, *only_comp(inner->body), result);
    } else {
      result.push_back(Stmt{For{loop.axis, loop.extent, vectorised(loop.body)}});
    }
  }

  int64_t lanes() { return int64_t{2} << below(4); }

  // The loop over the outer part; `comp` gets the inner parts as axes, and a guard.
  For split(const For& loop, Comp& comp, int64_t lanes, int64_t unroll, bool is_round) {
    const Node& axis = loop.axis.axis;
    const int64_t step = lanes * unroll;
    const AxisKind kind = axis_kind(axis);
    const int64_t trips = (axis_extent(axis) + step - 1) / step;
    const Node outer = nest_.add_axis(concat("o", count_), trips, kind);
    const Node u = nest_.add_axis(concat("u", count_), unroll, kind);
    const Node v = nest_.add_axis(concat("v", count_++), lanes, kind);
    const auto times = [](const Node& node, int64_t factor) {
      return make_expr(Op::kMul, node, idx_const(factor));
    };
    const Node inner = is_round ? make_expr(Op::kAdd, times(v, unroll), u)
                                : make_expr(Op::kAdd, times(u, lanes), v);
    const Node whole = make_expr(Op::kAdd, times(outer, step), inner);
    const std::vector<std::pair<Node, Node>> replaced{{axis, whole}};
    for (Node& index : comp.index)
      index = substitute(index, replaced);
    comp.value = substitute(comp.value, replaced);
    for (Node& guard : comp.guard)
      guard = substitute(guard, replaced);
    comp.guard.push_back(make_expr(Op::kLt, whole, loop.extent));
    comp.axes.push_back({u, Role::kUnroll, 0});
    comp.axes.push_back({v, lanes > 1 ? Role::kVec : Role::kUnroll, 0});
    return For{{outer, Role::kSeq, 0}, idx_const(trips), {}};
  }

  // Two loops around a store: the outer one unrolled as often as the inner one has lanes.
  void add_square(const For& outer, const For& inner, const Comp& comp, Body& result) {
    Comp vector = comp;
    const int64_t size = lanes();
    const bool outer_is_vec = below(2) == 0;
    For around = split(outer, vector, outer_is_vec ? size : 1, outer_is_vec ? 1 : size, false);
    // The extent of the inner loop may depend on the outer axis; then it is left alone.
    const std::vector<Node> order = topological_order(std::span(&inner.extent, 1));
    if (std::find(order.begin(), order.end(), outer.axis.axis) != order.end()) {
      result.push_back(Stmt{For{outer.axis, outer.extent, vectorised(outer.body)}});
      return;
    }
    For within = split(inner, vector, outer_is_vec ? 1 : size, outer_is_vec ? size : 1, false);
    within.body.push_back(Stmt{std::move(vector)});
    around.body.push_back(Stmt{std::move(within)});
    result.push_back(Stmt{std::move(around)});
    ++coverage_.squares;
  }

  // acc op= value over a loop: partial results in vectors, then a Combine, then into acc.
  void add_fold(const For& loop, const Comp& comp, Body& result) {
    Comp vector = comp;
    const DType dtype = nest_.buffers[static_cast<size_t>(comp.dst)].dtype;
    const int64_t width = lanes();
    const int64_t unroll = 1 + below(3);
    For around = split(loop, vector, width, unroll, below(4) == 0);
    const Node u = vector.axes[0].axis;
    const Node v = vector.axes[1].axis;
    BufferDecl parts{.name = concat("part", count_), .dtype = dtype, .dims = {unroll, width}};
    parts.scope = Scope::kReg;
    BufferDecl sum{.name = concat("sum", count_), .dtype = dtype, .dims = {}};
    sum.scope = Scope::kReg;
    vector.dst = nest_.add_buffer(parts);
    vector.index = {u, v};
    const int total = nest_.add_buffer(sum);
    Comp start;
    start.dst = vector.dst;
    start.index = vector.index;
    start.axes = vector.axes;
    start.value = identity_of(*comp.combine, dtype);
    Combine fold{.dst = total,
                 .dst_index = {},
                 .src = vector.dst,
                 .src_index = vector.index,
                 .op = *comp.combine,
                 .axes = vector.axes,
                 .via = {}};
    Comp last = comp;
    last.value = make_load(total, dtype, {});
    last.guard.clear();  // where it is false the parts hold the identity
    result.push_back(Stmt{Alloc{vector.dst}});
    result.push_back(Stmt{Alloc{total}});
    result.push_back(Stmt{std::move(start)});
    around.body.push_back(Stmt{std::move(vector)});
    result.push_back(Stmt{std::move(around)});
    result.push_back(Stmt{std::move(fold)});
    result.push_back(Stmt{std::move(last)});
    ++coverage_.folds;
  }

  Kernel nest_;
  std::mt19937_64 random_;
  Coverage& coverage_;
  int count_ = 0;
};

struct Case {
  uint64_t seed = 0;
  Kernel kernel;
  Kernel nest;
};

Case make_case(uint64_t seed, Coverage& coverage) {
  Case result;
  result.seed = seed;
  result.kernel = split_root(random_kernel(seed));
  std::mt19937_64 generator(seed + 5);
  const Plan plan = seed % 2 == 0 ? choose_plan(result.kernel, scalar_target())
                                  : random_plan(result.kernel, scalar_target(), generator);
  result.nest = Vectoriser(build_nest(result.kernel, plan), seed, coverage).run();
  return result;
}

std::vector<std::byte> expected_of(const Case& item, KernelMemory& memory) {
  eval_kernel(item.kernel, memory.kernel_arguments());
  return memory.outputs();
}

std::string finding(const KernelMemory& memory, const std::vector<std::byte>& expected) {
  return memory.outputs() == expected ? memory.guard_finding() : "the outputs differ";
}

TEST(RandomVectors, NestAndProgramHaveTheValueOfTheKernel) {
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  for (uint64_t seed = first; seed < first + 600; ++seed) {
    const Case item = make_case(seed, coverage);
    KernelMemory memory(item.kernel, seed);
    const std::vector<std::byte> expected = expected_of(item, memory);
    memory.reset();
    eval_kernel(item.nest, memory.kernel_arguments());
    ASSERT_EQ(finding(memory, expected), "") << seed << ", nest\n" << to_text(item.nest);
    const NestCase lowered = lower_nest(item.nest, scalar_target(), kVectorBytes);
    for (const LinearProgram* program : {&lowered.emitted, &lowered.cleaned}) {
      memory.reset();
      eval_linear(*program, memory.program_arguments(program->signature));
      ASSERT_EQ(finding(memory, expected), "")
          << seed << "\n"
          << to_text(item.nest) << to_text(lowered.flat) << to_text(*program);
    }
  }
  std::printf("random vectors: %d comps, %d folds, %d squares\n", coverage.comps, coverage.folds,
              coverage.squares);
  EXPECT_GE(coverage.comps, 100);
  EXPECT_GE(coverage.folds, 100);
  EXPECT_GE(coverage.squares, 100);
}

TEST(RandomVectors, CompiledProgramsHaveTheValueOfTheKernel) {
  constexpr uint64_t kUnits = 3;
  constexpr uint64_t kUnitKernels = 40;
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  for (uint64_t unit = 0; unit < kUnits; ++unit) {
    for (const testing::RendererCase& with : testing::renderer_cases()) {
      const testing::CpuLevel& level = *with.level;
      if (!level.is_here || testing::why_not_compiled(*with.renderer)) continue;
      std::vector<Case> cases;
      std::vector<LinearProgram> programs;
      std::vector<RenderedSource> sources;
      for (uint64_t i = 0; i < kUnitKernels; ++i) {
        cases.push_back(make_case(first + unit * kUnitKernels + i, coverage));
        programs.push_back(lower_nest(cases.back().nest, level.target, kVectorBytes).cleaned);
        programs.back().name = concat("random_", i);
        sources.push_back(with.renderer->render(programs.back(), level.target));
      }
      const testing::KernelLibrary library(sources, with);
      ASSERT_EQ(library.problems(), "");
      for (size_t i = 0; i < cases.size(); ++i) {
        KernelMemory memory(cases[i].kernel, cases[i].seed);
        const std::vector<std::byte> expected = expected_of(cases[i], memory);
        memory.reset();
        run_kernel(library.kernel(sources[i].entry), programs[i],
                   memory.program_arguments(programs[i].signature));
        ASSERT_EQ(finding(memory, expected), "")
            << cases[i].seed << ", " << with.name << "\n"
            << to_text(cases[i].nest) << to_text(programs[i]) << sources[i].text;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::test
