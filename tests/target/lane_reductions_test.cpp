// Reductions over groups of lanes of any number, by Plans given by hand, on the device that has
// lanes: sums, maxima and positions of maxima, exact, of rows of any length, and sums of fractions
// with equal bits however often they run. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <numeric>

#include "tenon/base/text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/given_plans.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/tensor.h"
#include "tests/support/random.h"

namespace tenon::testing {
namespace {

constexpr int64_t kRows = 3;

/// The rows of the last comp over groups, what walks along a row dealt to `lanes`.
std::string plan_of(const Kernel& kernel, int64_t lanes) {
  const size_t last = kernel.body.size() - 1;
  const auto name_of = [&](const AxisUse& use) {
    return kernel.axis_names[static_cast<size_t>(axis_id(use.axis))];
  };
  const auto comp_at = [&](size_t i) -> const Comp& { return std::get<Comp>(kernel.body[i].node); };
  std::string text = concat("plan ", kernel.name);
  if (lanes > 1) append(text, " lanes ", lanes);
  append(text, " {\n  ", last, " ", kernel.buffers[static_cast<size_t>(comp_at(last).dst)].name,
         " root ");
  const size_t rows = comp_at(last).axes.size();
  for (size_t i = 0; i < rows; ++i)
    append(text, i == 0 ? "" : ", ", name_of(comp_at(last).axes[i]), "@grid 1");
  append(text, "\n");
  for (size_t i = last; i-- > 0;) {
    const Comp& comp = comp_at(i);
    append(text, "  ", i, " ", kernel.buffers[static_cast<size_t>(comp.dst)].name, " before ", last,
           " at ", rows);
    // What walks along the row; with one element nothing does.
    if (comp.axes.size() > rows) {
      const std::string along = name_of(comp.axes.back());
      append(text, " ", along, "@seq ", lanes);
      if (lanes > 1) append(text, ", ", along, "@lane 0 1");
      if (comp.combine) append(text, "; acc 0");
    }
    append(text, "\n");
  }
  return text + "}\n";
}

/// Computes `outputs` with `lanes` lanes in each reduction.
void realize_with(const std::vector<Tensor>& outputs, int64_t lanes) {
  std::vector<Node> nodes;
  for (const Tensor& output : outputs)
    nodes.push_back(output.node());
  const Target& target = Device::get_default().target();
  std::string text;
  for (const ScheduledCall& call : schedule_graph(nodes, schedule_options(target)).calls) {
    const std::string plan = plan_of(prepare_kernel(call.kernel, target), lanes);
    if (text.find(plan) == std::string::npos) text += plan;
  }
  const GivenPlans plans(text, "by hand");
  RealizeStats stats;
  realize(nodes, nullptr, &stats, &plans);
  EXPECT_GE(stats.kernels, 1);
}

TEST(LaneReductions, SumsMaximaAndPositionsAreExact) {
  const ScopedDefaultDevice device(Device::get("INTERP"));
  Random random(11);
  for (const int64_t lanes : {1, 3, 25, 31, 33, 63, 65, 127, 255, 256}) {
    for (const int64_t length : {1, 2, 3, 24, 25, 26, 63, 64, 127, 255, 257, 1000, 1021, 100003}) {
      SCOPED_TRACE(concat(lanes, " lanes, rows of ", length));
      std::vector<int32_t> numbers(static_cast<size_t>(kRows * length));
      for (int32_t& number : numbers)
        number = static_cast<int32_t>(random.between(-1000, 1000));
      std::vector<int32_t> sums(kRows);
      std::vector<int32_t> maxima(kRows);
      std::vector<int64_t> positions(kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        const auto begin = numbers.begin() + row * length;
        // The largest stands at two places, at the end and before: the first one counts.
        const auto place = static_cast<int64_t>(random.between(0, length - 1));
        begin[place] = 1001;
        begin[length - 1] = 1001;
        sums[static_cast<size_t>(row)] = std::accumulate(begin, begin + length, 0);
        maxima[static_cast<size_t>(row)] = 1001;
        positions[static_cast<size_t>(row)] = place;
      }
      const Tensor x = Tensor::from_span<int32_t>(numbers, {kRows, length});
      const std::vector<Tensor> outputs{x.sum(1, {.keepdims = false, .dtype = DType::kI32}),
                                        x.max(1), x.argmax(1)};
      realize_with(outputs, lanes);
      EXPECT_EQ(outputs[0].to_vector<int32_t>(), sums);
      EXPECT_EQ(outputs[1].to_vector<int32_t>(), maxima);
      EXPECT_EQ(outputs[2].to_vector<int64_t>(), positions);
    }
  }
}

TEST(LaneReductions, FractionsHaveTheSameBitsEachTime) {
  const ScopedDefaultDevice device(Device::get("INTERP"));
  Random random(12);
  for (const int64_t lanes : {25, 63, 256}) {
    constexpr int64_t kLength = 1021;
    std::vector<float> numbers(kRows * kLength);
    for (float& number : numbers)
      number = static_cast<float>(random.between(-1000, 1000)) / 7;
    const Tensor x = Tensor::from_span<float>(numbers, {kRows, kLength});
    std::vector<float> first;
    for (int repeat = 0; repeat < 50; ++repeat) {
      const std::vector<Tensor> outputs{x.sum(1)};
      realize_with(outputs, lanes);
      const std::vector<float> sums = outputs[0].to_vector<float>();
      if (repeat == 0) first = sums;
      ASSERT_EQ(sums, first) << lanes << " lanes, repeat " << repeat;
    }
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0;
      double size = 0;
      for (int64_t i = 0; i < kLength; ++i) {
        sum += double{numbers[static_cast<size_t>(row * kLength + i)]};
        size += std::abs(double{numbers[static_cast<size_t>(row * kLength + i)]});
      }
      // N. Higham, "Accuracy and Stability of Numerical Algorithms", (4.4).
      EXPECT_NEAR(first[static_cast<size_t>(row)], sum, kLength * 0x1p-24 * size);
    }
  }
}

}  // namespace
}  // namespace tenon::testing
