// A device of host memory without programs, and gates that hold its jobs: for the tests of queues.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "tenon/device/device.h"

namespace tenon::testing {

class HostMemory final : public Allocator {
 public:
  void* allocate(int64_t size_bytes) override {
    return std::aligned_alloc(64, static_cast<size_t>((size_bytes + 63) / 64 * 64));
  }
  void free(void* address, int64_t) noexcept override { std::free(address); }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }
};

class HostDevice final : public DeviceDriver {
 public:
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return memory_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject&) override {
    fail(ErrorCode::kUnsupported, "no programs here");
  }
  void synchronize() override {
    if (late_failure.empty()) return;
    const std::string text = std::exchange(late_failure, "");
    fail(ErrorCode::kDeviceFailed, text);
  }

  std::string late_failure;  ///< thrown by the next synchronize()

 private:
  const std::string name_ = "HOST:0";
  const Target target_;
  HostMemory memory_;
};

/// Holds whoever waits for it until it is opened.
class Gate {
 public:
  void open() { promise_.set_value(); }
  void wait() const { opened_.wait(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

inline std::string no_words() {
  return "testing";
}

/// A job without buffers that ends when the gate is opened.
inline Event hold(Queue& queue, const Gate& gate) {
  return queue.submit(
      {}, [&gate] { gate.wait(); }, no_words);
}

/// A job that does nothing.
inline Event pass(Queue& queue) {
  return queue.submit(
      {}, [] {}, no_words);
}

/// A buffer of int32 and jobs over such buffers.
inline Buffer buffer_of(BufferPool& pool, const std::vector<int32_t>& values) {
  Buffer buffer = pool.allocate(std::ssize(values) * 4);
  buffer.copy_in(std::as_bytes(std::span(values)));
  return buffer;
}
inline std::vector<int32_t> values_of(const Buffer& buffer) {
  std::vector<int32_t> values(static_cast<size_t>(buffer.size_bytes() / 4));
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}
/// to[i] = from[i] + 1, named "adding".
inline Event add_one(Queue& queue, const Buffer& to, const Buffer& from) {
  const BufferUse uses[] = {{&to, ArgumentAccess::kWrite}, {&from, ArgumentAccess::kRead}};
  const auto run = [to = to.address(), from = from.address(), size = from.size_bytes()] {
    for (int64_t i = 0; i < size / 4; ++i)
      static_cast<int32_t*>(to)[i] = static_cast<const int32_t*>(from)[i] + 1;
  };
  return queue.submit(uses, run, [] { return std::string("adding"); });
}
/// Should write `to` and fails.
inline Event fail_to_write(Queue& queue, const Buffer& to, const std::string& kernel) {
  const BufferUse uses[] = {{&to, ArgumentAccess::kWrite}};
  return queue.submit(
      uses, [kernel] { fail(ErrorCode::kDeviceFailed, "kernel '", kernel, "' was lost"); },
      [kernel] { return "running " + kernel; });
}

}  // namespace tenon::testing
