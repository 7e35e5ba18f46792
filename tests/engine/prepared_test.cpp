// Graphs of one form share what realising them takes; graphs of different forms do not. Expected
// values are computed here. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/settings.h"
#include "tenon/engine/prepared.h"
#include "tests/engine/engine_support.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::realized;

class PreparedForms : public EngineTest {};

using Values = std::vector<float>;

// Whether realising the node schedules it: its form was not met before.
bool is_new_form(const Node& node) {
  const Node nodes[] = {node};
  PreparedTable& table = engine_device(Device::get_default()).prepared();
  const size_t before = table.size();
  realize(nodes);
  return table.size() != before;
}

TEST_F(PreparedForms, OtherArraysAreTheSameForm) {
  const Node a = buffer_of<float>({1, 2, 3}, {3});
  const Node b = buffer_of<float>({10, 20, 40}, {3});
  const Node first = tensor_binary(Op::kSub, a, b);
  const Node second = tensor_binary(Op::kSub, b, a);
  is_new_form(first);
  EXPECT_FALSE(is_new_form(second));
  EXPECT_EQ(realized<float>(first), (Values{-9, -18, -37}));
  EXPECT_EQ(realized<float>(second), (Values{9, 18, 37}));
  // A value that a realisation has left is an array like any other.
  const Node third = tensor_binary(Op::kSub, second, a);
  EXPECT_FALSE(is_new_form(third));
  EXPECT_EQ(realized<float>(third), (Values{8, 16, 34}));
}

// Each differs from the first in one thing that its value depends on.
TEST_F(PreparedForms, WhatTheValueDependsOnIsPartOfTheForm) {
  const Node a = buffer_of<float>({1, 2, 3, 4}, {4});
  const Node b = buffer_of<float>({10, 20, 40, 80}, {4});
  const Node c = buffer_of<float>({10, 20, 40, 80}, {2, 2});
  const Node d = buffer_of<float>({1, 2, 3, 4}, {2, 2});
  const Node i = buffer_of<int32_t>({1, 2, 3, 4}, {4});
  const Node j = buffer_of<int32_t>({10, 20, 40, 80}, {4});
  EXPECT_EQ(realized<float>(tensor_binary(Op::kSub, a, b)), (Values{-9, -18, -37, -76}));
  EXPECT_EQ(realized<float>(tensor_binary(Op::kMul, a, b)), (Values{10, 40, 120, 320}));
  EXPECT_EQ(realized<float>(tensor_binary(Op::kSub, a, a)), (Values{0, 0, 0, 0}));
  EXPECT_EQ(realized<int32_t>(tensor_binary(Op::kSub, i, j)),
            (std::vector<int32_t>{-9, -18, -37, -76}));
  EXPECT_EQ(realized<float>(tensor_binary(Op::kSub, d, c)), (Values{-9, -18, -37, -76}));
  const Node product = tensor_binary(Op::kMul, a, b);
  const Node sum = tensor_binary(Op::kAdd, product, a);
  EXPECT_EQ(realized<float>(tensor_binary(Op::kSub, sum, product)), (Values{1, 2, 3, 4}));
  EXPECT_EQ(realized<float>(tensor_binary(Op::kSub, product, sum)), (Values{-1, -2, -3, -4}));
  for (const int64_t steps : {1, 2}) {
    EXPECT_EQ(realized<float>(
                  tensor_shrink(b, std::vector<int64_t>{steps}, std::vector<int64_t>{steps + 2})),
              steps == 1 ? (Values{20, 40}) : (Values{40, 80}));
  }
}

TEST_F(PreparedForms, OutputsAreKeptInTheirOrder) {
  const Node a = buffer_of<float>({1, 2, 3}, {3});
  const Node b = buffer_of<float>({5, 7, 9}, {3});
  for (const bool is_swapped : {false, true}) {
    std::vector<Node> nodes{tensor_binary(Op::kAdd, a, b), tensor_binary(Op::kMul, a, b)};
    if (is_swapped) std::swap(nodes[0], nodes[1]);
    realize(nodes);
    EXPECT_EQ(testing::values_of<float>(nodes[is_swapped ? 1 : 0]), (Values{6, 9, 12}));
    EXPECT_EQ(testing::values_of<float>(nodes[is_swapped ? 0 : 1]), (Values{5, 14, 27}));
    for (const Node& node : nodes)
      node.set_value(Ref<Attachment>());
  }
}

TEST_F(PreparedForms, ANodeInsideMayBeAnOutputToo) {
  const Node a = buffer_of<float>({1, 2, 3}, {3});
  for (const bool asks_for_sum : {false, true}) {
    const Node b = buffer_of<float>({5, 7, 9}, {3});
    const Node sum = tensor_binary(Op::kAdd, a, b);
    std::vector<Node> nodes{tensor_binary(Op::kMul, sum, b)};
    if (asks_for_sum) nodes.push_back(sum);
    realize(nodes);
    EXPECT_EQ(testing::values_of<float>(nodes[0]), (Values{30, 63, 108}));
    if (asks_for_sum) {
      EXPECT_EQ(testing::values_of<float>(sum), (Values{6, 9, 12}));
    }
  }
}

TEST_F(PreparedForms, TheOldestAreDropped) {
  PreparedTable table(2);
  const auto key = [](const char* text) { return hash128(text); };
  for (const char* text : {"a", "b"})
    table.keep(key(text), std::make_shared<Prepared>());
  const auto first = table.find(key("a"));
  table.keep(key("c"), std::make_shared<Prepared>());
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.find(key("a")), first);
  EXPECT_EQ(table.find(key("b")), nullptr);
  EXPECT_NE(table.find(key("c")), nullptr);
  table.keep(key("a"), std::make_shared<Prepared>());
  EXPECT_EQ(table.find(key("a")), first);
}

}  // namespace
}  // namespace tenon
