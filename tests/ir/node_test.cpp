// The intern table: sharing, counting, threads, deep graphs. SPDX-License-Identifier: MIT

#include "tenon/ir/node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "tenon/ir/kernel.h"

namespace tenon {
namespace {

Node leaf(int64_t value) {
  return idx_const(value);
}

Node add(const Node& a, const Node& b) {
  return make_expr(Op::kAdd, a, b);
}

TEST(Node, EqualExpressionsShareOneNode) {
  const Node a = add(leaf(101), make_axis(3, 7, AxisKind::kPar));
  const Node b = add(leaf(101), make_axis(3, 7, AxisKind::kPar));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.id(), b.id());
}

TEST(Node, EveryPartOfANodeIsPartOfItsIdentity) {
  const Node a = leaf(1);
  const Node b = leaf(2);
  const std::array<Node, 2> ab{a, b};
  const std::array<Node, 2> ba{b, a};
  const Shape shape{2, 3};
  const Shape other_shape{3, 2};
  const std::array<int64_t, 1> attr{5};
  const Ref<Attachment> attachment(new Attachment);
  const Node base = make_node(Op::kAdd, DType::kF32, shape, ab, attr);
  EXPECT_FALSE(base == make_node(Op::kSub, DType::kF32, shape, ab, attr));
  EXPECT_FALSE(base == make_node(Op::kAdd, DType::kF16, shape, ab, attr));
  EXPECT_FALSE(base == make_node(Op::kAdd, DType::kF32, other_shape, ab, attr));
  EXPECT_FALSE(base == make_node(Op::kAdd, DType::kF32, shape, ba, attr));
  EXPECT_FALSE(base == make_node(Op::kAdd, DType::kF32, shape, ab));
  EXPECT_FALSE(base == make_node(Op::kAdd, DType::kF32, shape, ab, attr, attachment.get()));
  EXPECT_EQ(base, make_node(Op::kAdd, DType::kF32, shape, ab, attr));
}

TEST(Node, PartsReadBackAsGiven) {
  const std::array<Node, 2> srcs{leaf(8), leaf(9)};
  const Shape shape{4, 1, 6};
  const std::array<int64_t, 3> attr{-1, INT64_MAX, INT64_MIN};
  const Node node = make_node(Op::kLoad, DType::kBF16, shape, srcs, attr);
  EXPECT_EQ(node.op(), Op::kLoad);
  EXPECT_EQ(node.dtype(), DType::kBF16);
  EXPECT_TRUE(std::ranges::equal(node.shape(), shape));
  EXPECT_TRUE(std::ranges::equal(node.srcs(), srcs));
  EXPECT_TRUE(std::ranges::equal(node.attr(), attr));
}

TEST(Node, LiveCountReturnsToItsStart) {
  const int64_t before = live_node_count();
  {
    Node sum = leaf(1);
    for (int64_t i = 2; i < 50; ++i)
      sum = add(sum, leaf(i));
    const Node copy = sum;
    EXPECT_EQ(live_node_count(), before + 49 + 48);  // constants and sums
    sum = Node();
    EXPECT_EQ(live_node_count(), before + 49 + 48);
    EXPECT_TRUE(copy);
  }
  EXPECT_EQ(live_node_count(), before);
}

TEST(Node, AMillionNodesDeepAreDroppedWithoutDeepStack) {
  const int64_t before = live_node_count();
  {
    const Node one = leaf(1);
    Node chain = leaf(0);
    for (int i = 0; i < 1'000'000; ++i)
      chain = add(chain, one);
    EXPECT_EQ(live_node_count(), before + 1'000'002);
    EXPECT_EQ(topological_order(std::span(&chain, 1)).size(), 1'000'002U);
  }
  EXPECT_EQ(live_node_count(), before);
}

TEST(Node, ThreadsBuildAndDropEqualNodes) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 300;
  const int64_t before = live_node_count();
  std::array<const void*, kThreads> ids{};
  std::atomic<int> mismatches{0};
  std::barrier sync(kThreads);
  const auto work = [&](size_t self) {
    for (int round = 0; round < kRounds; ++round) {
      Node node = leaf(round % 5);
      for (int64_t i = 0; i < 20; ++i)
        node = add(node, leaf(i % 7));
      ids[self] = node.id();
      sync.arrive_and_wait();
      for (const void* id : ids)
        mismatches += id == node.id() ? 0 : 1;
      sync.arrive_and_wait();  // nobody drops its node before all have compared
      node = Node();           // all drop at once, and the next round revives equal nodes
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back(work, i);
  }
  EXPECT_EQ(mismatches, 0);
  EXPECT_EQ(live_node_count(), before);
}

TEST(Node, TopologicalOrderPutsSourcesFirstAndEachNodeOnce) {
  const Node a = leaf(41);
  const Node b = leaf(42);
  const Node c = add(a, b);
  const Node d = add(c, c);
  const Node e = add(d, a);
  const std::array<Node, 2> roots{e, c};
  const std::vector<Node> order = topological_order(roots);
  EXPECT_EQ(order, (std::vector<Node>{a, b, c, d, e}));
  const std::array<Node, 2> swapped{b, e};
  EXPECT_EQ(topological_order(swapped), (std::vector<Node>{b, a, c, d, e}));
}

TEST(Node, WithSrcsKeepsTheRest) {
  const Node a = leaf(51);
  const Node b = leaf(52);
  const Node sum = add(a, b);
  const std::array<Node, 2> same{a, b};
  const std::array<Node, 2> swapped{b, a};
  EXPECT_EQ(with_srcs(sum, same), sum);
  EXPECT_EQ(with_srcs(sum, swapped), add(b, a));
}

TEST(Node, SerialsGrowFromSourcesToUsers) {
  const Node a = leaf(61);
  const Node b = add(a, leaf(62));
  EXPECT_LT(a.serial(), b.serial());
}

class Counted : public Attachment {
 public:
  explicit Counted(std::atomic<int>& live) : live_(live) { ++live_; }
  ~Counted() override { --live_; }

 private:
  std::atomic<int>& live_;
};

TEST(Node, ReleasesItsAttachmentAndItsValue) {
  std::atomic<int> live{0};
  {
    Node node;
    {
      const Ref<Attachment> attachment(new Counted(live));
      node = make_node(Op::kBuffer, DType::kF32, {}, {}, {}, attachment.get());
    }
    EXPECT_EQ(live, 1);
    EXPECT_FALSE(node.value());
    node.set_value(Ref<Attachment>(new Counted(live)));
    EXPECT_EQ(live, 2);
    const Ref<Attachment> kept = node.value();
    node.set_value(Ref<Attachment>(new Counted(live)));
    EXPECT_EQ(live, 3);
    EXPECT_TRUE(kept);
  }
  EXPECT_EQ(live, 0);
}

TEST(Node, ValueIsNotPartOfTheIdentityAndCanBeCleared) {
  std::atomic<int> live{0};
  const Node node = leaf(71);
  node.set_value(Ref<Attachment>(new Counted(live)));
  EXPECT_TRUE(leaf(71).value());
  node.set_value({});
  EXPECT_FALSE(leaf(71).value());
  EXPECT_EQ(live, 0);
}

TEST(Node, ThreadsSetAndReadOneValue) {
  std::atomic<int> live{0};
  {
    const Node node = leaf(81);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&live, node] {
        for (int round = 0; round < 500; ++round) {
          node.set_value(Ref<Attachment>(new Counted(live)));
          const Ref<Attachment> value = node.value();
          EXPECT_TRUE(value);
        }
      });
    }
  }
  EXPECT_EQ(live, 0);
}

}  // namespace
}  // namespace tenon
