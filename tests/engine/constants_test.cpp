// Values that stay the same: kernels read copies of them in their own layouts, which are made once
// and go with the value. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tenon/base/error.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::used_bytes_of;
using testing::values_of;

constexpr int64_t kRows = 3;
constexpr int64_t kDepth = 192;
constexpr int64_t kColumns = 512;

/// A driver whose allocations may be bounded from some time on.
class BoundedDriver final : public DeviceDriver {
 public:
  explicit BoundedDriver(std::unique_ptr<DeviceDriver> inner)
      : inner_(std::move(inner)), allocator_(inner_->allocator()) {}
  const std::string& name() const override { return inner_->name(); }
  const Target& target() const override { return inner_->target(); }
  Allocator& allocator() override { return allocator_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    return inner_->load(object);
  }
  void synchronize() override { inner_->synchronize(); }
  void set_most_bytes(int64_t most) { allocator_.most_bytes = most; }

 private:
  struct Bounded final : Allocator {
    explicit Bounded(Allocator& other) : inner(other) {}
    void* allocate(int64_t size_bytes) override {
      if (size_bytes > most_bytes) fail(ErrorCode::kOutOfMemory, size_bytes, " bytes are too many");
      return inner.allocate(size_bytes);
    }
    void free(void* address, int64_t size_bytes) noexcept override {
      inner.free(address, size_bytes);
    }
    void copy_in(void* dst, std::span<const std::byte> src) override { inner.copy_in(dst, src); }
    void copy_out(std::span<std::byte> dst, const void* src) override { inner.copy_out(dst, src); }
    bool forbid(void* address, int64_t size_bytes) noexcept override {
      return inner.forbid(address, size_bytes);
    }
    void allow(void* address, int64_t size_bytes) noexcept override {
      inner.allow(address, size_bytes);
    }
    Allocator& inner;
    std::atomic<int64_t> most_bytes = std::numeric_limits<int64_t>::max();
  };

  std::unique_ptr<DeviceDriver> inner_;
  Bounded allocator_;
};

/// A device whose caches hold nothing, so that reading is what takes the time.
class Constants : public EngineTest {
 protected:
  Constants() {
    EngineDevice& model = engine_device(Device::get("CPU"));
    Target target = model.target();
    target.caches = {{4 << 10, 8, 1, 100}, {16 << 10, 8, 1, 50}};
    target.memory_speed = 1;
    auto driver = std::make_unique<BoundedDriver>(find_backend("CPU")->open(0, target));
    driver_ = driver.get();
    device_ = std::make_unique<EngineDevice>("small", 98, model.renderer(), model.lowering_rules(),
                                             target, model.renderer().make_compiler(target),
                                             std::move(driver), kMaxLoadedPrograms);
  }

  // Whole numbers: sums are exact in any order.
  static std::vector<float> whole_numbers(int64_t count, int64_t step) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = static_cast<float>(i * step % 61 - 30);
    return values;
  }

  static std::vector<float> product_of(const std::vector<float>& x, const std::vector<float>& w) {
    std::vector<float> y(static_cast<size_t>(kRows * kColumns));
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t k = 0; k < kDepth; ++k) {
        for (int64_t j = 0; j < kColumns; ++j) {
          y[static_cast<size_t>(i * kColumns + j)] +=
              x[static_cast<size_t>(i * kDepth + k)] * w[static_cast<size_t>(k * kColumns + j)];
        }
      }
    }
    return y;
  }

  Node weights(const std::vector<float>& values) {
    return buffer_of<float>(values, {kDepth, kColumns}, *device_);
  }

  Node constant_weights(const std::vector<float>& values) {
    const Node node = weights(values);
    set_constant(node);
    return node;
  }

  // x times w: the graph that Tensor::matmul builds.
  Node product(const std::vector<float>& x, const Node& w) {
    const Node rows = buffer_of<float>(x, {kRows, kDepth}, *device_);
    const Node left = tensor_expand(tensor_reshape(rows, Shape{kRows, 1, kDepth}),
                                    Shape{kRows, kColumns, kDepth});
    const Node right = tensor_expand(
        tensor_reshape(tensor_permute(w, std::vector<int64_t>{1, 0}), Shape{1, kColumns, kDepth}),
        Shape{kRows, kColumns, kDepth});
    return tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, left, right), std::vector<int64_t>{2},
                         DType::kF32);
  }

  // Launches that realising the node took.
  int64_t kernels_of(const Node& node) {
    const Node nodes[] = {node};
    RealizeStats stats;
    realize(nodes, device_.get(), &stats);
    return stats.kernels;
  }

  BoundedDriver* driver_ = nullptr;
  std::unique_ptr<EngineDevice> device_;
};

TEST_F(Constants, ACopyIsMadeOnceAndReadAgain) {
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 7);
  const Node matrix = weights(w);
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  const std::vector<float> expected = product_of(x, w);
  const Node plain = product(x, matrix);
  EXPECT_EQ(kernels_of(plain), 1);
  EXPECT_EQ(values_of<float>(plain), expected);
  const int64_t used = used_bytes_of(*device_);

  set_constant(matrix);
  const Node first = product(x, matrix);
  EXPECT_EQ(kernels_of(first), 2);  // and the copy
  EXPECT_EQ(values_of<float>(first), expected);
  EXPECT_GE(used_bytes_of(*device_), used + kDepth * kColumns * 4);
  for (const int64_t step : {13, 17}) {
    const std::vector<float> other = whole_numbers(kRows * kDepth, step);
    const Node again = product(other, matrix);
    EXPECT_EQ(kernels_of(again), 1);
    EXPECT_EQ(values_of<float>(again), product_of(other, w));
  }
}

TEST_F(Constants, CopiesGoWithTheValue) {
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  const int64_t before = used_bytes_of(*device_);
  {
    const Node matrix = constant_weights(whole_numbers(kDepth * kColumns, 7));
    EXPECT_EQ(kernels_of(product(x, matrix)), 2);
  }
  EXPECT_EQ(used_bytes_of(*device_), before);
}

TEST_F(Constants, AnAssignedValueIsCopiedAnew) {
  const Node matrix = constant_weights(whole_numbers(kDepth * kColumns, 7));
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  EXPECT_EQ(kernels_of(product(x, matrix)), 2);
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 23);
  kernels_of(tensor_assign(matrix, weights(w)));
  const Node after = product(x, matrix);
  EXPECT_EQ(kernels_of(after), 2);
  EXPECT_EQ(values_of<float>(after), product_of(x, w));
}

TEST_F(Constants, AGraphMayReadAndAssign) {
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 7);
  const Node matrix = constant_weights(w);
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  const Node sum = product(x, matrix);
  const std::vector<float> next = whole_numbers(kDepth * kColumns, 23);
  const Node nodes[] = {sum, tensor_assign(matrix, weights(next))};
  realize(nodes, device_.get());
  EXPECT_EQ(values_of<float>(sum), product_of(x, w));
  const Node after = product(x, matrix);
  kernels_of(after);
  EXPECT_EQ(values_of<float>(after), product_of(x, next));
}

TEST_F(Constants, SeveralMayBeReadByOneGraph) {
  const std::vector<float> v = whole_numbers(kDepth * kColumns, 7);
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 23);
  const Node first = constant_weights(v);
  const Node second = constant_weights(w);
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  const Node products[] = {product(x, first), product(x, second)};
  realize(products, device_.get());
  EXPECT_EQ(values_of<float>(products[0]), product_of(x, v));
  EXPECT_EQ(values_of<float>(products[1]), product_of(x, w));
}

TEST_F(Constants, WithoutMemoryForACopyTheKernelReadsTheValue) {
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 7);
  const Node matrix = constant_weights(w);
  const std::vector<float> x = whole_numbers(kRows * kDepth, 11);
  const Node bounded = product(x, matrix);
  driver_->set_most_bytes(kDepth * kColumns * 2);
  EXPECT_EQ(kernels_of(bounded), 1);
  EXPECT_EQ(values_of<float>(bounded), product_of(x, w));
  driver_->set_most_bytes(std::numeric_limits<int64_t>::max());
  const Node again = product(x, matrix);
  EXPECT_EQ(kernels_of(again), 2);
  EXPECT_EQ(values_of<float>(again), product_of(x, w));
}

TEST_F(Constants, ThreadsMayMeetBeforeTheCopyIsThere) {
  const std::vector<float> w = whole_numbers(kDepth * kColumns, 7);
  const Node matrix = constant_weights(w);
  const int64_t used = used_bytes_of(*device_);
  std::vector<std::jthread> threads;
  for (int64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int64_t round = 0; round < 3; ++round) {
        const std::vector<float> x = whole_numbers(kRows * kDepth, 11 + 4 * number + round);
        const Node node = product(x, matrix);
        kernels_of(node);
        EXPECT_EQ(values_of<float>(node), product_of(x, w));
      }
    });
  }
  threads.clear();
  EXPECT_GE(used_bytes_of(*device_), used + kDepth * kColumns * 4);
}

TEST_F(Constants, OnlyAValueCanStay) {
  const Node matrix = weights(whole_numbers(kDepth * kColumns, 7));
  const Node sum = tensor_binary(Op::kAdd, matrix, matrix);
  EXPECT_TRUE(testing::throws_error([&] { set_constant(sum); }, ErrorCode::kInvalidArgument,
                                    {"add", "has no value yet"}));
}

}  // namespace
}  // namespace tenon
