// Convolutions of random sizes with padding, strides and dilations: every Plan that is a candidate
// for one, staged and crossed tiles among them, keeps its value. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/codegen/candidates.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

using testing::Random;

/// One way of an image: places in and out, the window's, and how it moves.
struct Way {
  int64_t in;
  int64_t out;
  int64_t window;
  int64_t step;
  int64_t dilation;
  int64_t before;

  /// The index of what window place `k` of output `i` reads.
  std::string index(std::string_view i, std::string_view k) const {
    return concat(step, "*", i, " + ", dilation, "*", k, " - ", before);
  }
  /// Where that lies inside.
  std::string gate(std::string_view i, std::string_view k) const {
    const std::string at = concat(step, "*", i, " + ", dilation, "*", k);
    return concat(at, " < ", in + before, " & ", before - 1, " < ", at);
  }
};

Way random_way(Random& random, int64_t most) {
  Way way{.in = 0,
          .out = random.between(1, most),
          .window = random.between(1, 3),
          .step = random.between(1, 2),
          .dilation = random.between(1, 2),
          .before = 0};
  const int64_t padded = (way.out - 1) * way.step + (way.window - 1) * way.dilation + 1;
  way.before = random.between(0, 2);
  way.in = std::max<int64_t>(padded - way.before - random.between(0, 2), 1);
  return way;
}

std::string convolution(Random& random, bool is_depthwise) {
  const std::string_view dtypes[] = {"f32", "f64", "i32"};
  const std::string_view dtype = dtypes[random.below(3)];
  const int64_t batch = random.between(1, 2);
  const int64_t filters = is_depthwise ? random.between(1, 4) : random.between(20, 40);
  const int64_t channels = is_depthwise ? filters : random.between(1, 3);
  const Way rows = random_way(random, 7);
  const Way columns = random_way(random, 40);
  const auto shape = [&](auto... dims) {
    std::string text = concat(dtype, "[");
    (append(text, dims, ","), ...);
    text.back() = ']';
    return text;
  };
  const auto over = [&](std::string_view names) {
    return concat(" over ", names.substr(0, 1), ":", batch, ", ", names.substr(1, 1), ":", filters,
                  ", ", names.substr(2, 1), ":", rows.out, ", ", names.substr(3, 1), ":",
                  columns.out);
  };
  const std::string outputs = shape(batch, filters, rows.out, columns.out);
  const std::string image =
      concat(is_depthwise ? "f" : "c", ",", rows.index("i", "k"), ",", columns.index("j", "l"),
             " if ", rows.gate("i", "k"), " & ", columns.gate("j", "l"), " else 0", dtype);
  return concat("kernel conv {\n  in x: ", shape(batch, channels, rows.in, columns.in),
                "\n  in z: ",
                is_depthwise ? shape(filters, rows.window, columns.window)
                             : shape(filters, channels, rows.window, columns.window),
                "\n  in b: ", shape(filters), "\n  out y: ", outputs, "\n  tmp t: ", outputs,
                "\n  t[n,f,i,j] += x[n,", image, "] * z[", is_depthwise ? "f,k,l" : "f,c,k,l", "]",
                over("nfij"), is_depthwise ? "" : concat(", c:", channels, " red"),
                ", k:", rows.window, " red, l:", columns.window, " red start 0", dtype,
                "\n  y[N,F,I,J] = t[N,F,I,J] + b[F]", over("NFIJ"), "\n}");
}

TEST(WindowKernels, EveryCandidateKeepsTheValue) {
  constexpr int kNumKernels = testing::kIsSanitized ? 18 : 40;
  Random random(13);
  int num_plans = 0;
  int num_crossed = 0;
  int num_staged = 0;
  int num_unrolled = 0;
  for (int number = 0; number < kNumKernels; ++number) {
    const std::string text = convolution(random, number % 3 == 2);
    SCOPED_TRACE(text);
    const Kernel kernel = parse_kernel(text, "conv");
    Target target = vector_target();
    target.vector_registers = random.percent(50) ? 16 : 32;
    const auto seed = static_cast<uint64_t>(number);
    for (const PlanChoice& choice : expect_candidates_keep_value(kernel, target, seed, 100)) {
      ++num_plans;
      const std::vector<Stage>& stages = choice.plan.comps[0].stages;
      num_staged += stages.empty() ? 0 : 1;
      num_crossed += stages.size() == 2 ? 1 : 0;
      const bool is_unrolled = choice.family == "tile" && !choice.plan.comps[0].acc->has_partials;
      num_unrolled += is_unrolled ? 1 : 0;
    }
  }
  std::printf("convolutions: %d; plans %d, with what is read staged %d, crossed %d, unrolled %d\n",
              kNumKernels, num_plans, num_staged, num_crossed, num_unrolled);
  EXPECT_GT(num_staged, kNumKernels);
  EXPECT_GT(num_crossed, kNumKernels / 4);
  EXPECT_GT(num_unrolled, kNumKernels / 8);
}

}  // namespace
}  // namespace tenon::test
