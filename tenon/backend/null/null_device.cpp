// NULL: a device that compiles with any renderer of any backend and never runs. The smallest whole
// backend: copy this folder to begin another one (README.md).
// SPDX-License-Identifier: MIT

#include <cstdlib>
#include <cstring>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"

namespace tenon {
namespace {

// Step 2. Host memory, so that given values can be put on the device and read back.
class NullAllocator final : public Allocator {
 public:
  void* allocate(int64_t size_bytes) override {
    const int64_t rounded =
        (size_bytes + kBufferAlignBytes - 1) / kBufferAlignBytes * kBufferAlignBytes;
    void* const address = std::aligned_alloc(kBufferAlignBytes, static_cast<size_t>(rounded));
    TENON_CHECK(address != nullptr, ErrorCode::kOutOfMemory, "NULL: ", size_bytes,
                " bytes are not to be had");
    return address;
  }
  void free(void* address, int64_t) noexcept override { std::free(address); }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }
};

// Step 3. A real backend finds object.entry in object.payload and keeps what launch needs.
class NullProgram final : public LoadedProgram {
 public:
  NullProgram(std::string entry, std::string device)
      : entry_(std::move(entry)), device_(std::move(device)) {}

  void launch(std::span<const std::byte>) override {
    fail(ErrorCode::kUnsupported, "launch of kernel '", entry_, "' on '", device_,
         "' failed: this device compiles and never runs. Choose another one with DEV");
  }

 private:
  const std::string entry_;
  const std::string device_;
};

// Step 4. Queues, events and counters of a real device live here.
class NullDevice final : public DeviceDriver {
 public:
  NullDevice(int index, Target target)
      : name_(concat("NULL:", index)), target_(std::move(target)) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return allocator_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    return std::make_unique<NullProgram>(object.entry, name_);
  }
  void synchronize() override {}

 private:
  const std::string name_;
  const Target target_;
  NullAllocator allocator_;
};

}  // namespace

void register_null_backend();  // declared by the generated file too

// Steps 1 and 5.
void register_null_backend() {
  BackendDescriptor backend;
  backend.name = "NULL";
  backend.borrows_renderers = true;  // a real backend lists its own in backend.renderers
  backend.why_absent = [] { return std::optional<std::string>(); };
  backend.num_devices = [] { return 1; };
  backend.open = [](int index, const Target& target) -> std::unique_ptr<DeviceDriver> {
    return std::make_unique<NullDevice>(index, target);
  };
  register_backend(std::move(backend));
}

}  // namespace tenon
