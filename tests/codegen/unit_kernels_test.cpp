// Sums of narrow products for matrix units: random sizes, orders of the operands' dims, gates and
// dtypes; the value is the same after every pass, and of the linear program by the units' own rule.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/codegen/unit_plans.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/random.h"
#include "tests/support/random_kernel.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

struct Product {
  std::string text;
  std::string a;
  std::string b;
};

// Of the operands, the accumulator and the output.
struct ProductTypes {
  bool is_float;
  std::string a;
  std::string b;
  std::string acc;
  std::string out;
};

ProductTypes random_types(testing::Random& random) {
  const bool is_float = random.between(0, 1) == 0;
  const std::string a = is_float ? "bf16" : random.between(0, 1) == 0 ? "i8" : "u8";
  const std::string acc = is_float ? "f32" : "i32";
  const std::string out = is_float && random.between(0, 1) == 0 ? "bf16" : acc;
  return {is_float, a, is_float ? "bf16" : "i8", acc, out};
}

// t[g, i, j] += a[g, i, k] * b[g, k, j] with dims of a and b in some order, then something
// elementwise.
Product random_product(testing::Random& random) {
  const auto [is_float, a, b, acc, out] = random_types(random);
  const int64_t groups = random.between(1, 2);
  const int64_t m = random.between(1, 20);
  const int64_t n = random.between(1, 40);
  const int64_t k = random.between(1, 20);
  const bool is_a_turned = random.between(0, 2) == 0;
  const bool is_b_turned = random.between(0, 1) == 0;
  const bool is_a_padded = random.between(0, 3) == 0;
  const bool is_flipped = random.between(0, 9) == 0;  // which no unit reads
  const auto dims = [&](int64_t x, int64_t y, bool is_turned) {
    return is_turned ? concat(groups, ",", y, ",", x) : concat(groups, ",", x, ",", y);
  };
  const std::string depth = is_flipped ? concat(k - 1, "-d3") : "d3";
  const std::string read_a =
      concat("b1[d0,", is_a_turned ? "d3,d1" : "d1,d3",
             is_a_padded ? concat(" if d3 < ", k - 1, " else 0", a) : "", "]");
  const bool is_b_padded = random.between(0, 3) == 0;
  const std::string read_b =
      concat("b2[d0,", is_b_turned ? "d2," + depth : depth + ",d2",
             is_b_padded ? concat(" if d2 < ", n - 1, " else 0", b) : "", "]");
  const bool is_b_first = random.between(0, 1) == 0;
  const std::string wide_a = concat(acc, "(", read_a, ")");
  const std::string wide_b = concat(acc, "(", read_b, ")");
  const std::string last =
      out == acc ? concat("max(t0[d4,d5,d6], 3", acc, ")") : "bf16(t0[d4,d5,d6])";
  const std::string box = concat(groups, ",", m, ",", n);
  return {
      concat("kernel mm {\n  out b0: ", out, "[", box, "]\n  in b1: ", a, "[",
             dims(m, k, is_a_turned), "]\n  in b2: ", b, "[", dims(k, n, is_b_turned),
             "]\n  tmp t0: ", acc, "[", box, "]\n  t0[d0,d1,d2] += ", is_b_first ? wide_b : wide_a,
             " * ", is_b_first ? wide_a : wide_b, "  over d0:", groups, ", d1:", m, ", d2:", n,
             ", d3:", k, " red  start 0", acc, "\n  b0[d4,d5,d6] = ", last, "  over d4:", groups,
             ", d5:", m, ", d6:", n, "\n}\n"),
      a, b};
}

// The first pass after which the value differs, or nothing.
std::string first_wrong_pass(const Kernel& kernel, const Target& target,
                             std::optional<Plan> plan = {}) {
  KernelMemory memory(kernel, 5);
  eval_kernel(kernel, memory.kernel_arguments());
  const std::vector<std::byte> expected = memory.outputs();
  std::string wrong;
  const auto judge = [&](std::string_view pass, const std::string& text) {
    const bool is_right = memory.outputs() == expected && memory.guard_finding().empty();
    if (wrong.empty() && !is_right) wrong = concat(pass, ": ", memory.guard_finding(), "\n", text);
  };
  CodegenOptions options{.verify = true, .plan = std::move(plan)};
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    memory.reset();
    eval_kernel(nest, memory.kernel_arguments());
    judge(pass, to_text(nest));
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    memory.reset();
    interpret(program, memory.program_arguments(program.signature), {.units = target.units});
    judge(pass, to_text(program));
  };
  lower_kernel(kernel, target, options);
  return wrong;
}

TEST(UnitKernels, RandomProductsKeepTheirValueThroughEveryPass) {
  const Target target = unit_target();
  testing::Random random(4);
  int num_units = 0;
  int num_offsets = 0;
  constexpr int kNumKernels = 120;
  for (int i = 0; i < kNumKernels; ++i) {
    const Product product = random_product(random);
    const Kernel kernel = parse_kernel(product.text, "product");
    const Kernel prepared = prepare_kernel(kernel, target);
    num_offsets += prepared.body.size() == 3 ? 1 : 0;
    const auto plan = unit_plan(prepared, target);
    if (plan) {
      ++num_units;
      EXPECT_EQ(check_plan(prepared, *plan, target), std::nullopt);
      EXPECT_EQ(parse_plan(to_text(*plan, prepared), prepared), *plan) << to_text(*plan, prepared);
    }
    ASSERT_EQ(first_wrong_pass(kernel, target), "") << product.text;
  }
  EXPECT_GT(num_units, kNumKernels / 3);
  EXPECT_GT(num_offsets, kNumKernels / 20);
}

struct Sizes {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Whole tiles, one tile, tails of each kind, less than a tile, many blocks of the depth.
constexpr Sizes kTileSizes[] = {{32, 32, 64}, {33, 48, 64}, {16, 16, 32},
                                {33, 31, 65}, {21, 40, 19}, {9, 11, 5},
                                {40, 17, 1},  {35, 33, 80}, {17, 16, 150}};

// t[g, i, j] += a[g, i, k] * b[g, k, j] behind views that leave out the ends of dims; then
// something elementwise.
std::string product_for_tiles(testing::Random& random, const Sizes& size) {
  const auto [is_float, a, b, acc, out] = random_types(random);
  const int64_t groups = random.between(1, 2);
  const auto operand = [&](std::string_view name, std::string_view dtype, int64_t side,
                           std::string_view side_axis) {
    const bool is_turned = random.between(0, 1) == 0;
    const int64_t first = random.between(0, 1) * random.between(0, 3);
    const int64_t after = random.between(0, 1) * random.between(0, 40);
    const std::string depth = first == 0 ? "d3" : concat("d3 + ", first);
    const int64_t length = size.k + first + after;
    const auto pair = [&](const auto& x, const auto& y) {
      return is_turned ? concat(y, ",", x) : concat(x, ",", y);
    };
    return std::pair{
        concat("  in ", name, ": ", dtype, "[", groups, ",", pair(side, length), "]\n"),
        concat(acc, "(", name, "[d0,", pair(side_axis, depth), "])")};
  };
  const auto first = operand("b1", a, size.m, "d1");
  const auto second = operand("b2", b, size.n, "d2");
  const std::string box = concat(groups, ",", size.m, ",", size.n);
  const bool is_last_turned = random.between(0, 3) == 0;
  const std::string last_box = is_last_turned ? concat(groups, ",", size.n, ",", size.m) : box;
  const std::string value = concat("max(t0[d4,d5,d6] + ", acc, "(b3[d6]), 3", acc, ")");
  const bool is_second_first = random.between(0, 1) == 0;
  return concat("kernel mm {\n  out b0: ", out, "[", last_box, "]\n", first.first, second.first,
                "  in b3: i8[", size.n, "]\n  tmp t0: ", acc, "[", box,
                "]\n  t0[d0,d1,d2] += ", is_second_first ? second.second : first.second, " * ",
                is_second_first ? first.second : second.second, "  over d0:", groups,
                ", d1:", size.m, ", d2:", size.n, ", d3:", size.k, " red  start 0", acc,
                "\n  b0[d4,", is_last_turned ? "d6,d5" : "d5,d6",
                "] = ", out == acc ? value : concat("bf16(", value, ")"), "  over d4:", groups,
                ", d5:", size.m, ", d6:", size.n, "\n}\n");
}

bool has_tile_part(const Plan& plan, const Kernel& kernel) {
  const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(plan.comps[0].comp)].node);
  return std::ranges::any_of(plan.comps[0].parts, [&](const Part& part) {
    return part.role == Role::kUnit &&
           axis_kind(comp.axes[static_cast<size_t>(part.axis)].axis) == AxisKind::kPar;
  });
}

// All plans fit; of each kernel the first and the last, whose blocks and depths differ.
TEST(UnitKernels, TilesKeepTheirValueThroughEveryPass) {
  Target target = tile_target();
  target.caches[0].bytes = 8 << 10;  // depths of some tiles are cut
  testing::Random random(9);
  int num_plans = 0;
  int num_cut = 0;
  for (int round = 0; round < 2; ++round) {
    for (const Sizes& size : kTileSizes) {
      const std::string text = product_for_tiles(random, size);
      const Kernel kernel = parse_kernel(text, "product");
      std::vector<Candidate> candidates;
      add_unit_plans(kernel, target, candidates);
      ASSERT_FALSE(candidates.empty()) << text;
      for (const Candidate& candidate : candidates) {
        const std::string plan = to_text(candidate.plan, kernel);
        EXPECT_EQ(check_plan(kernel, candidate.plan, target), std::nullopt) << text << plan;
        EXPECT_TRUE(has_tile_part(candidate.plan, kernel)) << plan;
        EXPECT_EQ(parse_plan(plan, kernel), candidate.plan) << plan;
      }
      for (const Candidate* candidate : {&candidates.front(), &candidates.back()}) {
        const Plan& plan = candidate->plan;
        ++num_plans;
        num_cut += plan.comps[1].at.depth < plan.comps[0].acc->depth ? 1 : 0;
        ASSERT_EQ(first_wrong_pass(kernel, target, plan), "") << text << to_text(plan, kernel);
        if (candidates.size() == 1) break;
      }
    }
  }
  EXPECT_GT(num_plans, 25);
  EXPECT_GT(num_cut, 6);
}

struct Image {
  int64_t channels;
  int64_t outputs;
  int64_t width;
  int64_t window;
  int64_t pad;
  std::string_view dtype;
  bool is_last;  // the channels are the innermost dim of image, weights and output
};

// y[n, o, i, j] += x[n, c, i + p, j + q] * w[o, c, p, q], with zeros around x.
std::string convolution(const Image& image) {
  const std::string_view dtype = image.dtype;
  const std::string acc = dtype == "bf16" ? "f32" : "i32";
  const int64_t size = image.width + 2 * image.pad - image.window + 1;
  const auto place = [&](std::string_view x, std::string_view p) {
    return concat(x, "+", p, image.pad == 0 ? "" : concat("-", image.pad));
  };
  const auto inside = [&](std::string_view x, std::string_view p) {
    return concat(image.pad - 1, " < ", x, "+", p, " & ", x, "+", p, " < ",
                  image.width + image.pad);
  };
  const auto dims = [&](const auto& n, const auto& c, const auto& h, const auto& w) {
    return image.is_last ? concat(n, ",", h, ",", w, ",", c) : concat(n, ",", c, ",", h, ",", w);
  };
  const std::string gate = image.pad == 0 ? ""
                                          : concat(" if ", inside("d2", "d5"), " & ",
                                                   inside("d3", "d6"), " else 0", dtype);
  const std::string box = dims(1, image.outputs, size, size);
  return concat("kernel conv {\n  out b0: ", acc, "[", box, "]\n  in b1: ", dtype, "[",
                dims(1, image.channels, image.width, image.width), "]\n  in b2: ", dtype, "[",
                dims(image.outputs, image.channels, image.window, image.window),
                "]\n  tmp t0: ", acc, "[", box, "]\n  t0[", dims("d0", "d1", "d2", "d3"),
                "] += ", acc, "(b1[", dims("d0", "d4", place("d2", "d5"), place("d3", "d6")), gate,
                "]) * ", acc, "(b2[", dims("d1", "d4", "d5", "d6"),
                "])  over d0:1, d1:", image.outputs, ", d2:", size, ", d3:", size,
                ", d4:", image.channels, " red, d5:", image.window, " red, d6:", image.window,
                " red  start 0", acc, "\n  b0[d7,d8,d9,d10] = t0[d7,d8,d9,d10]  over ",
                image.is_last ? concat("d7:1, d8:", size, ", d9:", size, ", d10:", image.outputs)
                              : concat("d7:1, d8:", image.outputs, ", d9:", size, ", d10:", size),
                "\n}\n");
}

// Windows begin at any row or column, and zeros around the image are staged with it.
TEST(UnitKernels, ConvolutionsAreProductsForTiles) {
  const Target target = tile_target();
  constexpr Image kImages[] = {{33, 9, 3, 3, 1, "bf16", false},
                               {5, 8, 18, 2, 0, "bf16", false},
                               {17, 16, 8, 2, 1, "i8", true},
                               {3, 16, 9, 2, 0, "bf16", true}};
  for (const Image& image : kImages) {
    const std::string text = convolution(image);
    const Kernel kernel = parse_kernel(text, "conv");
    const std::optional<Plan> plan = unit_plan(kernel, target);
    ASSERT_TRUE(plan) << text;
    EXPECT_EQ(first_wrong_pass(kernel, target, plan), "") << text << to_text(*plan, kernel);
  }
}

// The layout of a unit's operand for a product that no unit takes: a group of 64-bit elements side
// by side would be wider than the target's vectors.
TEST(UnitKernels, GroupsWithoutAUnitStayWithinVectors) {
  const Kernel kernel = parse_kernel(R"(kernel mm {
  out b0: u64[3,16]
  in b1: u64[3,6]
  in b2: u64[6,16]
  tmp t0: u64[3,16]
  t0[d0,d1] += b1[d0,d2] * b2[d2,d1]  over d0:3, d1:16, d2:6 red  start 0u64
  b0[d3,d4] = t0[d3,d4]  over d3:3, d4:16
}
)",
                                     "product");
  const Plan plan = parse_plan(R"(plan mm {
  0 t0 root d0@grid 3, d0@seq 1, d1@seq 8, d2@seq 1, d1@vec 1; acc 3; stage b2 at 1 layout 0:3 1:16 0:2
  1 b0 after 0 at 3 d4@vec 1
}
)",
                               kernel);
  const Target target = unit_target();
  ASSERT_EQ(check_plan(kernel, plan, target), std::nullopt);
  EXPECT_EQ(first_wrong_pass(kernel, target, plan), "");
}

constexpr std::string_view kProduct = R"(kernel mm {
  out b0: f32[9,20]
  in b1: bf16[9,6]
  in b2: bf16[6,20]
  tmp t0: f32[9,20]
  t0[d0,d1] += f32(b1[d0,d2]) * f32(b2[d2,d1])  over d0:9, d1:20, d2:6 red  start 0f32
  b0[d3,d4] = t0[d3,d4]  over d3:9, d4:20
}
)";

std::string has_words(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos ? "" : text + " has not: " + std::string(words);
}

TEST(UnitKernels, PlansThatNoUnitFitsAreRefused) {
  const Target target = unit_target();
  const Kernel kernel = parse_kernel(kProduct, "product");
  const Plan good = *unit_plan(kernel, target);
  const auto reason_for = [&](auto&& change) {
    Plan plan = good;
    change(plan.comps[0]);
    return check_plan(kernel, plan, target).value_or("");
  };
  EXPECT_EQ(
      has_words(check_plan(kernel, good, vector_target()).value_or(""), "no unit of this shape"),
      "");
  EXPECT_EQ(has_words(reason_for([](CompPlan& plan) { plan.stages.clear(); }), "not staged"), "");
  EXPECT_EQ(has_words(reason_for([](CompPlan& plan) {
                        std::vector<LayoutPart>& layout = plan.stages[0].layout;
                        std::swap(layout[layout.size() - 1], layout[layout.size() - 2]);
                      }),
                      "layout"),
            "");
  EXPECT_EQ(has_words(reason_for([](CompPlan& plan) { plan.parts.back().axis = 0; }), "unit part"),
            "");
  EXPECT_EQ(has_words(reason_for([](CompPlan& plan) {
                        for (Part& part : plan.parts) {
                          if (part.axis == 2 && part.role == Role::kSeq) part.step = 3;
                        }
                      }),
                      "no unit of this shape"),
            "");
}

// Found by random Plans: lowering could not see that the lanes of the last tile stay in a panel.
TEST(UnitKernels, PeeledLoopsOverPanelsAreRefused) {
  const Target target = unit_target();
  const Kernel kernel = parse_kernel(R"(kernel mm {
  out b0: i32[3,100]
  in b1: u8[7,3]
  in b2: i8[100,7]
  tmp t0: i32[3,100]
  t0[d1,d0] += i32(b1[d2,d1]) * i32(b2[d0,d2])  over d0:100, d1:3, d2:7 red  start 0i32
  b0[d3,d4] = t0[d3,d4]  over d3:3, d4:100
}
)",
                                     "product");
  for (const bool is_peeled : {true, false}) {
    for (const std::string_view panels : {"0:9 1:2 0:12 1:4", "1:2 0:100 1:4"}) {
      const Plan plan = parse_plan(
          concat("plan mm {\n  0 t0 root d0@grid 20, d0@seq 4", is_peeled ? " peel" : "",
                 ", d1@seq 1, d2@seq 4, d0@vec 1, d2@unit 1; acc 3; stage b2 at 0 layout ", panels,
                 "\n  1 b0 after 0 at 3 d4@seq 1\n}\n"),
          kernel);
      const std::string reason = check_plan(kernel, plan, target).value_or("");
      const bool is_refused = is_peeled && panels.starts_with("0:9");
      EXPECT_EQ(reason.find("panels of its columns is peeled") != std::string::npos, is_refused)
          << reason;
      if (is_refused) continue;
      EXPECT_EQ(first_wrong_pass(kernel, target, plan), "") << panels;
    }
  }
}

// Each fault of a plan for tiles has a reason of its own.
TEST(UnitKernels, PlansThatNoTilesFitAreRefused) {
  const Target target = tile_target();
  const Kernel kernel = parse_kernel(kProduct, "product");
  const Plan good = *unit_plan(kernel, target);
  ASSERT_TRUE(has_tile_part(good, kernel));
  const auto reason_for = [&](auto&& change, const Target& with) {
    Plan plan = good;
    change(plan.comps[0]);
    return check_plan(kernel, plan, with).value_or("");
  };
  const auto drop_unit_part = [](CompPlan& plan, int axis) {
    std::erase_if(plan.parts, [&](const Part& part) {
      return part.axis == axis && part.role == Role::kUnit && part.step == 1;
    });
    plan.parts.push_back({axis, Role::kUnroll, 1});
  };
  const auto same = [](CompPlan&) {};
  EXPECT_EQ(reason_for(same, target), "");
  Target few = target;
  few.tiles.registers = 3;
  EXPECT_EQ(has_words(reason_for(same, few), "it holds"), "");
  Target narrow = target;
  narrow.max_vector_bytes = 32;
  EXPECT_NE(reason_for(same, narrow), "");
  EXPECT_EQ(has_words(reason_for(same, unit_target()), "no unit of this shape"), "");
  const auto turn = [](CompPlan& plan, size_t stage) {
    std::vector<LayoutPart>& layout = plan.stages[stage].layout;
    std::swap(layout[layout.size() - 1], layout[layout.size() - 2]);
  };
  EXPECT_EQ(has_words(reason_for([&](CompPlan& plan) { turn(plan, 0); }, target), "of rows"), "");
  EXPECT_EQ(has_words(reason_for([&](CompPlan& plan) { turn(plan, 1); }, target), "of columns"),
            "");
  EXPECT_EQ(
      has_words(reason_for([](CompPlan& plan) { plan.stages.pop_back(); }, target), "no stage"),
      "");
  EXPECT_EQ(
      has_words(reason_for([&](CompPlan& plan) { drop_unit_part(plan, 1); }, target), "unit parts"),
      "");
  EXPECT_EQ(has_words(reason_for([](CompPlan& plan) { plan.acc.reset(); }, target), "accumulator"),
            "");
}

// Where a Target has units on vectors and on tiles, the faster are taken, and bytes with a sign
// need no offset for them; what tiles cannot read goes to vectors.
TEST(UnitKernels, TheFasterUnitIsTaken) {
  Target target = unit_target();
  const Target tiles = tile_target();
  target.units.insert(target.units.end(), tiles.units.begin(), tiles.units.end());
  target.tiles = tiles.tiles;
  const auto takes_tiles = [&](std::string_view a, std::string_view b, std::string_view gate,
                               const Target& with) {
    const std::string acc = a == "bf16" ? "f32" : "i32";
    const Kernel kernel = prepare_kernel(
        parse_kernel(concat("kernel mm {\n  out b0: ", acc, "[256,256]\n  in b1: ", a,
                            "[256,256]\n  in b2: ", b, "[256,256]\n  tmp t0: ", acc,
                            "[256,256]\n  t0[d0,d1] += ", acc, "(b1[d0,d2", gate, "]) * ", acc,
                            "(b2[d2,d1])  over d0:256, d1:256, d2:256 red  start 0", acc,
                            "\n  b0[d3,d4] = t0[d3,d4]  over d3:256, d4:256\n}\n"),
                     "product"),
        with);
    const std::vector<PlanChoice> choices = choose_plans(kernel, with, 3);
    EXPECT_EQ(choices.size(), 3U);
    EXPECT_TRUE(std::ranges::is_sorted(
        choices, {}, [](const PlanChoice& choice) { return choice.cost.seconds; }));
    EXPECT_GT(choices[0].cost.seconds, 0);
    const Plan& plan = choices[0].plan;
    EXPECT_TRUE(std::ranges::any_of(plan.comps[0].parts, [](const Part& part) {
      return part.role == Role::kUnit;
    })) << to_text(plan, kernel);
    return has_tile_part(plan, kernel);
  };
  EXPECT_TRUE(takes_tiles("bf16", "bf16", "", target));
  EXPECT_TRUE(takes_tiles("i8", "i8", "", target));
  EXPECT_TRUE(takes_tiles("u8", "i8", "", target));
  EXPECT_TRUE(takes_tiles("u8", "i8", " if d2 < 200 else 0u8", target));
  EXPECT_FALSE(takes_tiles("bf16", "bf16", " if d2 < 200 else 1bf16", target));
  EXPECT_FALSE(takes_tiles("i8", "i8", " if d2 < 200 else 1i8", target));
  Target slow = target;
  slow.tiles.rate = 8;
  EXPECT_FALSE(takes_tiles("bf16", "bf16", "", slow));
}

TEST(UnitKernels, OnlyExactlyWidenedProductsAreTaken) {
  const Target target = unit_target();
  const auto has_plan = [&](std::string_view from, std::string_view to) {
    std::string text(kProduct);
    for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos;) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
    const Kernel kernel = prepare_kernel(parse_kernel(text, "product"), target);
    return unit_plan(kernel, target).has_value();
  };
  EXPECT_TRUE(has_plan("", ""));
  EXPECT_FALSE(has_plan("bf16", "f16"));
  EXPECT_FALSE(
      has_plan("f32(b1[d0,d2]) * f32(b2[d2,d1])", "f32(bf16(f32(b1[d0,d2]) * f32(b2[d2,d1])))"));
  EXPECT_FALSE(has_plan("f32(b1[d0,d2]) *", "f32(b1[d0,d2]) +"));
  EXPECT_FALSE(has_plan("9", "7"));  // too few rows to lay b out for
}

}  // namespace
}  // namespace tenon::test
