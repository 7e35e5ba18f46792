// SMALL: a simulated accelerator with memory of its own that works when it is waited for, and the
// same device with one fault each: KEEPS_POINTER looks at a host array after copy_in returned,
// MISSES_COPY does not bring results back to its memory, MISSES_WAIT does not wait. A test looks at
// what the round trip of `tenon devices` says of them. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"
#include "tenon/interp/checked_program.h"
#include "tenon/ir/linear_text.h"

namespace tenon {
namespace {

enum class Fault : uint8_t { kNone, kKeepsPointer, kMissesCopy, kMissesWait };

/// Its addresses mean nothing to the host. Launches wait in a list until somebody asks for them.
class SmallMemory final : public Allocator {
 public:
  explicit SmallMemory(Fault fault) : fault_(fault) {}

  void* allocate(int64_t size_bytes) override {
    const std::lock_guard lock(mutex_);
    const uint64_t address = next_;
    next_ += static_cast<uint64_t>(size_bytes + 127) / 64 * 64;
    blocks_[address].resize(static_cast<size_t>(size_bytes));
    return reinterpret_cast<void*>(address);
  }
  void free(void* address, int64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(reinterpret_cast<uint64_t>(address));
  }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    finish();
    const std::lock_guard lock(mutex_);
    std::ranges::copy(src, at(reinterpret_cast<uint64_t>(dst), src.size()).begin());
    sources_[reinterpret_cast<uint64_t>(dst)] = src.data();
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    finish();
    const std::lock_guard lock(mutex_);
    std::ranges::copy(at(reinterpret_cast<uint64_t>(src), dst.size()), dst.begin());
  }

  void start(std::function<void()> launch) {
    const std::lock_guard lock(mutex_);
    launches_.push_back(std::move(launch));
  }
  void finish() {
    if (fault_ == Fault::kMissesWait) return;
    const std::lock_guard lock(mutex_);
    for (const std::function<void()>& launch : std::exchange(launches_, {}))
      launch();
  }

  // For launches, which run under the lock.
  std::vector<std::byte> load(uint64_t address, size_t size, bool is_read) {
    const std::span<std::byte> bytes = at(address, size);
    const auto source = sources_.find(address);
    if (fault_ == Fault::kKeepsPointer && is_read && source != sources_.end()) {
      return {source->second, source->second + size};
    }
    return {bytes.begin(), bytes.end()};
  }
  void store(uint64_t address, std::span<const std::byte> bytes) {
    if (fault_ != Fault::kMissesCopy) std::ranges::copy(bytes, at(address, bytes.size()).begin());
  }

 private:
  std::span<std::byte> at(uint64_t address, size_t size) {
    const auto after = blocks_.upper_bound(address);
    TENON_CHECK(after != blocks_.begin(), ErrorCode::kDeviceFailed, "SMALL: nothing is there");
    auto& [begin, bytes] = *std::prev(after);
    const size_t offset = address - begin;
    TENON_CHECK(offset <= bytes.size() && size <= bytes.size() - offset, ErrorCode::kDeviceFailed,
                "SMALL: ", size, " bytes reach beyond a buffer");
    return std::span(bytes).subspan(offset, size);
  }

  const Fault fault_;
  std::mutex mutex_;
  uint64_t next_ = 64;
  std::map<uint64_t, std::vector<std::byte>> blocks_;
  std::map<uint64_t, const std::byte*> sources_;  // of the latest copy to each address
  std::vector<std::function<void()>> launches_;
};

class SmallProgram final : public LoadedProgram {
 public:
  SmallProgram(CheckedProgram program, SmallMemory& memory)
      : program_(std::move(program)),
        layout_(layout_arguments(program_.program().signature)),
        memory_(memory) {}
  ~SmallProgram() override { memory_.finish(); }

  void launch(std::span<const std::byte> block) override {
    memory_.start([this, block = std::vector(block.begin(), block.end())] { run(block); });
  }

 private:
  void run(const std::vector<std::byte>& block) {
    const std::vector<Argument>& arguments = program_.program().signature.arguments;
    std::vector<uint64_t> addresses(arguments.size());
    std::vector<std::vector<std::byte>> inside(arguments.size());
    std::vector<CheckedArgument> values(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto width = static_cast<size_t>(dtype_size_bytes(arguments[i].dtype));
      uint64_t& bits = arguments[i].is_buffer ? addresses[i] : values[i].bits;
      std::memcpy(&bits, block.data() + layout_.offsets[i], arguments[i].is_buffer ? 8 : width);
      if (!arguments[i].is_buffer) continue;
      const size_t size = static_cast<size_t>(arguments[i].num_elements) * width;
      inside[i] = memory_.load(bits, size, is_read(arguments[i].access));
      values[i] = {.bytes = inside[i], .address = bits};
    }
    const CheckedRun done = program_.run(values);
    if (done.fault) fail(ErrorCode::kDeviceFailed, "SMALL: ", done.fault->text);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool is_output = arguments[i].is_buffer && is_written(arguments[i].access);
      if (is_output) memory_.store(addresses[i], inside[i]);
    }
  }

  const CheckedProgram program_;
  const ArgumentLayout layout_;
  SmallMemory& memory_;
};

class SmallDevice final : public DeviceDriver {
 public:
  SmallDevice(std::string name, Target target, Fault fault)
      : name_(std::move(name)), target_(std::move(target)), memory_(fault) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return memory_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    const std::string_view text{reinterpret_cast<const char*>(object.payload.data()),
                                object.payload.size()};
    return std::make_unique<SmallProgram>(CheckedProgram(parse_linear(text, object.entry), {}),
                                          memory_);
  }
  void synchronize() override { memory_.finish(); }

 private:
  const std::string name_;
  const Target target_;
  SmallMemory memory_;
};

}  // namespace

void register_small_backend();  // declared by the generated file too

void register_small_backend() {
  for (const auto& [name, fault] : {std::pair{"SMALL", Fault::kNone},
                                    {"KEEPS_POINTER", Fault::kKeepsPointer},
                                    {"MISSES_COPY", Fault::kMissesCopy},
                                    {"MISSES_WAIT", Fault::kMissesWait}}) {
    BackendDescriptor backend;
    backend.name = name;
    backend.borrows_renderers = true;  // INTERP's, the only ones in that command
    backend.why_absent = [] { return std::optional<std::string>(); };
    backend.num_devices = [] { return 1; };
    backend.open = [name = std::string(name), fault = fault](
                       int, const Target& target) -> std::unique_ptr<DeviceDriver> {
      return std::make_unique<SmallDevice>(name + ":0", target, fault);
    };
    register_backend(std::move(backend));
  }
}

}  // namespace tenon
