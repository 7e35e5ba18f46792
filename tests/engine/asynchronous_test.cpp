// Realising on a device with a queue of its own (INTERP): nobody waits who need not, and failures
// come out where a value is read. Gates hold the device. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tenon/base/timing.h"
#include "tenon/engine/events.h"
#include "tenon/engine/storage.h"
#include "tests/device/queue_support.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::EngineTest;
using testing::Gate;
using testing::hold;
using Values = std::vector<int32_t>;
constexpr auto kFailed = ErrorCode::kDeviceFailed;

/// The CPU with little memory and a thread for its jobs.
class TightDriver final : public DeviceDriver {
 public:
  TightDriver(std::unique_ptr<DeviceDriver> inner, int64_t most_bytes)
      : inner_(std::move(inner)), memory_(inner_->allocator(), most_bytes) {}
  const std::string& name() const override { return inner_->name(); }
  const Target& target() const override { return inner_->target(); }
  Allocator& allocator() override { return memory_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    return inner_->load(object);
  }
  void synchronize() override { inner_->synchronize(); }
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<HostQueue>(*this, HostQueue::Mode::kThread);
  }
  int num_refused() const { return memory_.num_refused; }

 private:
  struct Memory final : Allocator {
    Memory(Allocator& other, int64_t most) : inner(other), most_bytes(most) {}
    void* allocate(int64_t size_bytes) override {
      if (used_bytes + size_bytes > most_bytes) {
        ++num_refused;
        fail(ErrorCode::kOutOfMemory, "that is too much");
      }
      used_bytes += size_bytes;
      return inner.allocate(size_bytes);
    }
    void free(void* address, int64_t size_bytes) noexcept override {
      used_bytes -= size_bytes;
      inner.free(address, size_bytes);
    }
    void copy_in(void* dst, std::span<const std::byte> src) override { inner.copy_in(dst, src); }
    void copy_out(std::span<std::byte> dst, const void* src) override { inner.copy_out(dst, src); }
    Allocator& inner;
    const int64_t most_bytes;
    std::atomic<int64_t> used_bytes = 0;
    std::atomic<int> num_refused = 0;
  };

  std::unique_ptr<DeviceDriver> inner_;
  Memory memory_;
};

class Asynchronous : public EngineTest {
 protected:
  Node given(const Values& values) {
    return testing::buffer_of(values, {std::ssize(values)}, interp_);
  }
  /// Memory that nobody has written: kernels that read it are stopped.
  Node never_written(int64_t size) {
    return tensor_buffer(DType::kI32, Shape{size},
                         Ref<Attachment>(new Storage(interp_, interp_.pool().allocate(size * 4))));
  }
  static Node sum(const Node& a, const Node& b) { return tensor_binary(Op::kAdd, a, b); }
  static Values read(const Node& node) { return testing::values_of<int32_t>(node); }
  static void realize_one(const Node& node) { realize(std::span(&node, 1)); }

  EngineDevice& interp_ = engine_device(Device::get("INTERP"));
  EngineDevice& cpu_ = engine_device(Device::get("CPU"));
};

TEST_F(Asynchronous, RealizeReturnsBeforeTheWorkIsDone) {
  const Node x = given({1, 2, 3});
  realize_one(sum(x, x));  // the program is there from now on
  Gate gate;
  hold(interp_.queue(), gate);
  const Node y = sum(x, x);
  const Node z = sum(y, x);
  realize_one(y);
  realize_one(z);
  EXPECT_TRUE(y.value());
  EXPECT_FALSE(interp_.queue().last().is_done());
  gate.open();
  EXPECT_EQ(read(z), (Values{3, 6, 9}));
  EXPECT_EQ(read(y), (Values{2, 4, 6}));
  synchronize(interp_);
  EXPECT_TRUE(interp_.queue().last().is_done());
}

TEST_F(Asynchronous, StatsWaitAndAddUp) {
  const Node x = given(Values(5000, 3));
  RealizeStats stats;
  const Node y = sum(x, x);
  const int64_t start_ns = now_ns();
  realize(std::span(&y, 1), nullptr, &stats);
  const int64_t wall_ns = now_ns() - start_ns;
  EXPECT_TRUE(interp_.queue().last().is_done());
  EXPECT_EQ(stats.kernels, 1);
  EXPECT_GT(stats.kernel_ns, 0);
  const int64_t sum_ns = stats.schedule_ns + stats.lower_ns + stats.compile_ns + stats.load_ns +
                         stats.copy_in_ns + stats.launch_ns + stats.kernel_ns + stats.copy_out_ns;
  EXPECT_LE(sum_ns, wall_ns);
  EXPECT_EQ(stats.copy_out_ns, 0);
  read_bytes(y, &stats);
  EXPECT_GT(stats.copy_out_ns, 0);
}

TEST_F(Asynchronous, SourceArraysAreFreeWhenTheCallReturns) {
  Gate gate;
  hold(interp_.queue(), gate);
  Values source{1, 2, 3};
  const Node x = given(source);
  source = {-1, -1, -1};
  const Node y = sum(x, x);
  realize_one(y);
  source = {-2, -2, -2};
  gate.open();
  EXPECT_EQ(read(y), (Values{2, 4, 6}));
}

TEST_F(Asynchronous, IntermediatesLiveUntilTheirKernelsRan) {
  const ScopedMemoryChecks none(MemoryChecks{});
  const Node x = given(Values(1000, 1));
  Gate gate;
  hold(interp_.queue(), gate);
  Node value = x;
  for (int i = 0; i < 20; ++i) {
    value = tensor_contiguous(sum(value, x));
    realize_one(value);
    value = realized_leaf(value);  // the one before goes, its kernels have not run
    given(Values(1000, -5));       // takes and gives back memory of the same size
  }
  gate.open();
  EXPECT_EQ(read(value), Values(1000, 21));
}

// Jobs under way hold memory, which comes back.
TEST_F(Asynchronous, WithoutMemoryTheHostWaitsForJobsFirst) {
  const ScopedMemoryChecks none(MemoryChecks{});
  auto driver = std::make_unique<TightDriver>(find_backend("CPU")->open(0, cpu_.target()), 20'000);
  const TightDriver& tight = *driver;
  EngineDevice device("tight", 96, cpu_.renderer(), cpu_.lowering_rules(), cpu_.target(),
                      cpu_.renderer().make_compiler(cpu_.target()), std::move(driver));
  const Node x = testing::buffer_of(Values(1000, 1), {1000}, device);
  realize_one(sum(x, x));
  synchronize(device);
  Gate gate;
  hold(device.queue(), gate);
  std::thread opener([&] {
    while (tight.num_refused() == 0)
      std::this_thread::yield();
    gate.open();
  });
  Node value = x;
  for (int i = 0; i < 10; ++i) {
    value = tensor_contiguous(sum(value, x));
    realize_one(value);
    value = realized_leaf(value);
  }
  opener.join();
  EXPECT_EQ(read(value), Values(1000, 11));
  const Node too_large = testing::buffer_of(Values(2000, 1), {2000}, device);
  EXPECT_ERROR(realize_one(tensor_contiguous(sum(too_large, too_large))), ErrorCode::kOutOfMemory,
               "too much");
}

TEST_F(Asynchronous, AnotherDeviceWaitsForItsInputsAlone) {
  const Node x = given({1, 2, 3});
  const Node before = testing::buffer_of<int32_t>({7, 7, 7}, {3}, cpu_);
  realize_one(sum(before, before));
  Gate gate;
  hold(interp_.queue(), gate);
  const Node there = sum(x, x);
  const Node here = sum(tensor_copy(there, cpu_.number()), before);
  const Node back = sum(tensor_copy(here, interp_.number()), x);
  realize_one(back);  // three devices' turns, and nobody waits
  realize_one(here);
  EXPECT_FALSE(cpu_.queue().last().is_done());
  gate.open();
  EXPECT_EQ(read(back), (Values{10, 13, 16}));
  EXPECT_EQ(read(here), (Values{9, 11, 13}));
}

TEST_F(Asynchronous, AssignsKeepTheirOrder) {
  Gate gate;
  hold(interp_.queue(), gate);
  const Node x = given({1, 2});
  const Node old = sum(x, x);
  realize_one(old);
  for (const int32_t step : {10, 20, 30})
    realize_one(tensor_assign(x, sum(x, given({step, -step}))));
  gate.open();
  EXPECT_EQ(read(x), (Values{61, -58}));
  EXPECT_EQ(read(old), (Values{2, 4}));
}

TEST_F(Asynchronous, AFailureIsThrownByReadsOfWhatDependsOnIt) {
  const Node bad = never_written(3);
  const Node x = given({1, 2, 3});
  const Node y = sum(bad, x);
  const Node z = sum(y, y);
  const Node copy =
      sum(tensor_copy(z, cpu_.number()), testing::buffer_of<int32_t>({1, 1, 1}, {3}, cpu_));
  const Node good = sum(x, x);
  ASSERT_NO_THROW(realize_one(y));
  ASSERT_NO_THROW(realize_one(z));
  ASSERT_NO_THROW(realize_one(good));
  ASSERT_NO_THROW(realize_one(copy));
  EXPECT_EQ(read(good), (Values{2, 4, 6}));
  for (const Node* node : {&copy, &z, &y, &z}) {
    EXPECT_ERROR(read(*node), kFailed, "INTERP:0", "kernel 'e_3'", "never written",
                 "while realising add of shape (3) (int32), kernel 'e_3'");
  }
  EXPECT_NO_THROW(synchronize(interp_));  // told already
  const Node later = sum(y, x);
  realize_one(later);
  EXPECT_ERROR(read(later), kFailed, "kernel 'e_3'");
  EXPECT_EQ(testing::realized<int32_t>(sum(good, x)), (Values{3, 6, 9}));
}

TEST_F(Asynchronous, AFailureThatNobodyReadsIsThrownBySynchronize) {
  {
    const Node y = sum(never_written(5), given({1, 2, 3, 4, 5}));
    realize_one(y);
  }
  EXPECT_ERROR(synchronize(interp_), kFailed, "kernel 'e_5'", "never written");
  EXPECT_NO_THROW(synchronize(interp_));
}

TEST_F(Asynchronous, WhoWaitsGetsTheFailureAndNoValue) {
  const Node y = sum(never_written(3), given({1, 2, 3}));
  RealizeStats stats;
  EXPECT_ERROR(realize(std::span(&y, 1), nullptr, &stats), kFailed, "kernel 'e_3'");
  EXPECT_FALSE(y.value());
  EXPECT_NO_THROW(synchronize(interp_));
}

TEST_F(Asynchronous, KernelsAreToldWhenTheyAreDone) {
  const Node x = given({1, 2, 3});
  std::atomic<int> launched = 0;
  set_event_hook(
      [&](const EngineEvent& event) { launched += event.kind == EngineEvent::Kind::kLaunched; });
  Gate gate;
  hold(interp_.queue(), gate);
  realize_one(sum(x, sum(x, x)));
  EXPECT_EQ(launched, 0);
  gate.open();
  synchronize(interp_);
  set_event_hook({});
  EXPECT_EQ(launched, 1);
}

TEST_F(Asynchronous, AForkedChildGetsAnErrorNotAHang) {
  Gate gate;
  hold(interp_.queue(), gate);
  const Node x = given({1, 2, 3});
  auto y = std::make_unique<Node>(sum(x, x));
  realize_one(*y);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    int status = 0;
    const auto expect = [&](int bit, auto&& body) {
      if (!testing::throws_error(body, kFailed, {"forked"})) status |= bit;
    };
    expect(1, [&] { read_bytes(*y); });
    expect(2, [&] { realize_one(sum(*y, x)); });
    expect(4, [&] { synchronize(interp_); });
    expect(8, [&] { storage_of(*y)->buffer().wait(); });
    y.reset();
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate.open();
  EXPECT_EQ(read(*y), (Values{2, 4, 6}));
}

}  // namespace
}  // namespace tenon
