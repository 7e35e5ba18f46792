// getitem and setitem against a reference that walks positions one by one, as Python defines
// slices, over all starts, stops and steps. SPDX-License-Identifier: MIT

#include <limits>
#include <optional>

#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::array_of;
using testing::expect_array;
using testing::oracle_of;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

// Python's definition (reference, 3.3.1 "Sequences": s[i:j:k]): the items with index x = i + n*k
// between i and j, where negative i, j count from the end and both are clipped to the sequence.
std::vector<int64_t> positions(const Slice& slice, int64_t dim) {
  const int64_t step = slice.step.value_or(1);
  const auto counted = [&](int64_t x) { return x < 0 ? x + dim : x; };
  std::vector<int64_t> out;
  if (step > 0) {
    const int64_t begin = std::max<int64_t>(counted(slice.start.value_or(0)), 0);
    const int64_t end = std::min(slice.stop ? counted(*slice.stop) : dim, dim);
    for (int64_t x = begin; x < end; x += step)
      out.push_back(x);
  } else {
    const int64_t begin = std::min(slice.start ? counted(*slice.start) : dim - 1, dim - 1);
    const int64_t end = slice.stop ? std::max<int64_t>(counted(*slice.stop), -1) : -1;
    for (int64_t x = begin; x > end; x += step)
      out.push_back(x);
  }
  return out;
}

std::vector<Slice> all_slices() {
  std::vector<std::optional<int64_t>> ends = {std::nullopt};
  for (int64_t i = -5; i <= 5; ++i)
    ends.emplace_back(i);
  std::vector<Slice> slices;
  for (const auto& start : ends) {
    for (const auto& stop : ends) {
      for (const auto& step : ends) {
        if (step != 0) slices.push_back({start, stop, step});
      }
    }
  }
  return slices;
}

std::string text_of(const Slice& slice) {
  const auto word = [](const std::optional<int64_t>& x) { return x ? concat(*x) : ""; };
  return concat(word(slice.start), ":", word(slice.stop), ":", word(slice.step));
}

TEST(Getitem, AgreesWithPythonForAllSlices) {
  for (const int64_t dim : {0, 1, 4, 5}) {
    const Tensor x = arange(10, 10 + dim);
    std::vector<Tensor> cuts;
    const std::vector<Slice> slices = all_slices();
    for (const Slice& slice : slices)
      cuts.push_back(x.getitem({slice}));
    const std::vector<OracleValue> values = oracle_of(cuts);
    for (size_t i = 0; i < slices.size(); ++i) {
      const std::vector<int64_t> expected = positions(slices[i], dim);
      ASSERT_EQ(values[i].bits.size(), expected.size()) << dim << " " << text_of(slices[i]);
      for (size_t k = 0; k < expected.size(); ++k)
        ASSERT_EQ(static_cast<int64_t>(values[i].bits[k]), 10 + expected[k])
            << dim << " " << text_of(slices[i]);
    }
  }
}

TEST(Getitem, TheEngineAgreesOnASample) {
  const std::vector<Slice> slices = all_slices();
  const Tensor x = Tensor::from_data(std::vector<int64_t>{10, 11, 12, 13, 14}, {5});
  std::vector<Tensor> cuts;
  std::vector<size_t> taken;
  for (size_t i = 0; i < slices.size(); i += 83) {
    taken.push_back(i);
    cuts.push_back(x.getitem({slices[i]}));
  }
  realize(cuts);
  for (size_t i = 0; i < cuts.size(); ++i) {
    std::vector<int64_t> expected = positions(slices[taken[i]], 5);
    for (int64_t& position : expected)
      position += 10;
    EXPECT_EQ(cuts[i].to_vector<int64_t>(), expected) << text_of(slices[taken[i]]);
  }
}

TEST(Setitem, WritesWhatGetitemReadsForAllSlices) {
  for (const int64_t dim : {0, 1, 4, 5}) {
    std::vector<Tensor> written;
    const std::vector<Slice> slices = all_slices();
    for (const Slice& slice : slices) {
      Tensor x = arange(10, 10 + dim);
      const int64_t count = x.getitem({slice}).dim(0);
      written.push_back(x.setitem({slice}, arange(100, 100 + count)));
    }
    const std::vector<OracleValue> values = oracle_of(written);
    for (size_t i = 0; i < slices.size(); ++i) {
      std::vector<int64_t> expected;
      for (int64_t k = 0; k < dim; ++k)
        expected.push_back(10 + k);
      int64_t value = 100;
      for (const int64_t position : positions(slices[i], dim))
        expected[static_cast<size_t>(position)] = value++;
      for (size_t k = 0; k < expected.size(); ++k)
        ASSERT_EQ(static_cast<int64_t>(values[i].bits[k]), expected[k])
            << dim << " " << text_of(slices[i]);
    }
  }
}

TEST(Getitem, ExtremeBoundsDoNotOverflow) {
  const Tensor x({1, 2, 3});
  expect_array(x.getitem({Slice{kMin, kMax}}), array_of({3}, {1, 2, 3}));
  expect_array(x.getitem({Slice{kMax, kMin, -1}}), array_of({3}, {3, 2, 1}));
  expect_array(x.getitem({Slice{{}, {}, kMax}}), array_of({1}, {1}));
  expect_array(x.getitem({Slice{{}, {}, kMin}}), array_of({1}, {3}));
}

TEST(Getitem, ItemsOfAllKinds) {
  const Tensor x =
      Tensor::from_data(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2});
  expect_array(x[1], array_of({3, 2}, {6, 7, 8, 9, 10, 11}));
  expect_array(x.getitem({-1, 0}), array_of({2}, {6, 7}));
  expect_array(x.getitem({0, 2, 1}), array_of({}, {5}));
  expect_array(x.getitem({kAll, 1}), array_of({2, 2}, {2, 3, 8, 9}));
  expect_array(x.getitem({kEllipsis, -1}), array_of({2, 3}, {1, 3, 5, 7, 9, 11}));
  expect_array(x.getitem({0, kEllipsis, Slice{.step = -1}}), array_of({3, 2}, {1, 0, 3, 2, 5, 4}));
  expect_array(x.getitem({Slice{0, 1}, kNewAxis, Slice{{}, {}, 2}}),
               array_of({1, 1, 2, 2}, {0, 1, 4, 5}));
  EXPECT_EQ(x.getitem({}).node(), x.node());
  EXPECT_EQ(x.getitem({kAll, kAll}).node(), x.node());
}

TEST(Getitem, ErrorsNameIndexAndShape) {
  const Tensor x = zeros({2, 3});
  EXPECT_ERROR(x[2], kInvalid, "index 2", "(2,3)");
  EXPECT_ERROR(x.getitem({0, -4}), kInvalid, "index -4", "size 3");
  EXPECT_ERROR(x.getitem({0, 0, 0}), kInvalid, "3 axes", "(2,3)");
  EXPECT_ERROR(x.getitem({kEllipsis, kEllipsis}), kInvalid, "kEllipsis", "(2,3)");
  EXPECT_ERROR(x.getitem({Slice{0, 1, 0}}), kInvalid, "step", "(2,3)");
}

TEST(Setitem, ReadsTheRightSideBeforeItWrites) {
  Tensor q = {4.0F, 3.0F, 2.0F, 1.0F, 0.0F};
  const Tensor before = q;
  q.setitem({Slice{1, {}}}, q.getitem({Slice{0, -1}}));
  q.setitem({0}, 9);
  expect_array(q, array_of({5}, {9.0F, 4.0F, 3.0F, 2.0F, 1.0F}));
  expect_array(before, array_of({5}, {4.0F, 3.0F, 2.0F, 1.0F, 0.0F}));
  Tensor x({{1.0F, 2.0F}, {3.0F, 4.0F}});
  x.setitem({kAll, kAll}, x.transpose() + x);
  expect_array(x, array_of({2, 2}, {2.0F, 5.0F, 5.0F, 8.0F}));
}

TEST(Setitem, BroadcastsAndCasts) {
  Tensor x = zeros({2, 3}, {.dtype = DType::kI32, .device = nullptr});
  x.setitem({kAll, 1}, 7);
  x.setitem({1}, Tensor({1.9F, -1.9F, 300.0F}));
  expect_array(x, array_of({2, 3}, {0, 7, 0, 1, -1, 300}));
  x.setitem({kEllipsis, Slice{.step = -2}}, Tensor({{10, 20}}));
  expect_array(x, array_of({2, 3}, {20, 7, 10, 20, -1, 10}));
  x.setitem({kNewAxis, 0, Slice{0, 2}}, Tensor({{5, 6}}));
  expect_array(x, array_of({2, 3}, {5, 6, 10, 20, -1, 10}));
  x.setitem({}, 4);
  expect_array(x, array_of({2, 3}, {4, 4, 4, 4, 4, 4}));
}

TEST(Setitem, KeepsNanAndNegativeZeroBesideIt) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x({nan, -0.0F, 1.0F, -0.0F});
  x.setitem({Slice{2, 3}}, -0.0);
  expect_array(x, array_of({4}, {nan, -0.0F, -0.0F, -0.0F}));
}

TEST(Setitem, ErrorsNameBothShapes) {
  Tensor x = zeros({2, 3});
  EXPECT_ERROR(x.setitem({0}, Tensor({1.0F, 2.0F})), kInvalid, "(2)", "(3)");
  EXPECT_ERROR(x.setitem({0}, zeros({2, 3})), kInvalid, "(2,3)", "(3)");
  EXPECT_ERROR(x.setitem({5}, 1), kInvalid, "index 5", "(2,3)");
  Tensor i({1, 2});
  EXPECT_ERROR(i.setitem({0}, 0.5), kInvalid, "0.5", "int32");
}

}  // namespace
}  // namespace tenon
