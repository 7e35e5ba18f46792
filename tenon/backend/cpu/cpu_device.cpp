// Launches are synchronous: when launch returns, the kernel is done and its writes are visible.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_device.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/error.h"
#include "tenon/base/hash.h"
#include "tenon/base/host_memory.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"

namespace tenon::cpu {
namespace {

int64_t physical_bytes() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return bytes > 0 ? bytes : int64_t{1} << 40;
}

/// Counts what it has given away, since the system promises more than it has and ends the process
/// when that is touched.
class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(int64_t max_bytes) : max_bytes_(max_bytes) {}

  void* allocate(int64_t size_bytes) override {
    const int64_t taken = taken_bytes(size_bytes);
    const int64_t used = used_bytes_.fetch_add(taken);
    void* address = nullptr;
    const bool is_refused =
        taken > max_bytes_ - used || (taken >= kLargeForHost && taken > available_host_bytes()) ||
        posix_memalign(&address,
                       static_cast<size_t>(is_large(size_bytes) ? kHugePage : kBufferAlignBytes),
                       static_cast<size_t>(taken)) != 0;
    if (is_refused) {
      used_bytes_ -= taken;
      fail(ErrorCode::kOutOfMemory, "CPU: ", format_bytes(static_cast<uint64_t>(size_bytes)),
           " are not to be had; ", format_bytes(static_cast<uint64_t>(used)),
           " are in use or cached, the limit is ", format_bytes(static_cast<uint64_t>(max_bytes_)),
           ", the machine has ", format_bytes(static_cast<uint64_t>(available_host_bytes())),
           " left");
    }
    if (is_large(size_bytes)) {
      madvise(address, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);  // a wish
    }
    return address;
  }
  void free(void* address, int64_t size_bytes) noexcept override {
    std::free(address);
    used_bytes_ -= taken_bytes(size_bytes);
  }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }
  AllocatorFlags flags() const override {
    return {.view_align_bytes = kBufferAlignBytes,
            .can_map = true,
            .can_import = true,
            .can_transfer = true};
  }
  std::byte* map_host(void* address, int64_t) override { return static_cast<std::byte*>(address); }
  void* import_host(std::span<const std::byte> bytes) override {
    return const_cast<std::byte*>(bytes.data());  // programs only read it
  }
  bool transfer(void* dst, Allocator& from, const void* src, int64_t size_bytes) override {
    if (dynamic_cast<HostAllocator*>(&from) == nullptr) return false;
    std::memcpy(dst, src, static_cast<size_t>(size_bytes));
    return true;
  }
  std::optional<int64_t> free_bytes() const override {
    return std::max<int64_t>(0, std::min(max_bytes_ - used_bytes_, available_host_bytes()));
  }
  bool forbid(void* address, int64_t size_bytes) noexcept override {
    ASAN_POISON_MEMORY_REGION(address, static_cast<size_t>(size_bytes));
    return kAddressSanitizer;
  }
  void allow(void* address, int64_t size_bytes) noexcept override {
    ASAN_UNPOISON_MEMORY_REGION(address, static_cast<size_t>(size_bytes));
  }

 private:
  /// From here on it is worth asking what the host still has: it lies beside what others take.
  static constexpr int64_t kLargeForHost = int64_t{256} << 20;
  static constexpr int64_t kHugePage = int64_t{2} << 20;

  static bool is_large(int64_t size_bytes) {
    return size_bytes >= 2 * kHugePage && !kAddressSanitizer;
  }
  static int64_t taken_bytes(int64_t size_bytes) {
    if (kAddressSanitizer) return size_bytes;  // what lies behind the last byte is out of bounds
    return round_up(size_bytes, is_large(size_bytes) ? kHugePage : kBufferAlignBytes);
  }

  const int64_t max_bytes_;
  std::atomic<int64_t> used_bytes_ = 0;
};

/// Group memory of the calling thread, grown and kept. Belongs to the thread and not to a worker
/// number: launches of several threads may run with the same number at once.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { drop(); }

  /// Null if there is no memory.
  void* get(int64_t size_bytes) noexcept {
    if (size_bytes > capacity_) {
      drop();
      const int64_t capacity = round_up(size_bytes, kBufferAlignBytes);
      memory_ = std::aligned_alloc(kBufferAlignBytes, static_cast<size_t>(capacity));
      if (memory_ == nullptr) return nullptr;
      capacity_ = capacity;
    }
    // What a larger kernel used before is out of bounds for this one.
    ASAN_POISON_MEMORY_REGION(memory_, static_cast<size_t>(capacity_));
    ASAN_UNPOISON_MEMORY_REGION(memory_, static_cast<size_t>(size_bytes));
    return memory_;
  }

 private:
  void drop() noexcept {
    if (memory_ != nullptr) ASAN_UNPOISON_MEMORY_REGION(memory_, static_cast<size_t>(capacity_));
    std::free(memory_);
    memory_ = nullptr;
    capacity_ = 0;
  }

  void* memory_ = nullptr;
  int64_t capacity_ = 0;
};

Scratch& thread_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

/// See render/c.h.
using KernelFunction = void(const void* arguments, int64_t group_begin, int64_t group_end,
                            void* scratch);

class CpuProgram final : public LoadedProgram {
 public:
  CpuProgram(std::shared_ptr<const LoadedObject> image, const ProgramObject& object)
      : image_(std::move(image)), scratch_bytes_(object.scratch_bytes) {
    void* const address = image_->find(object.entry);
    TENON_CHECK(address != nullptr, ErrorCode::kInvalidArgument, "the object has no function '",
                object.entry, "'");
    function_ = reinterpret_cast<KernelFunction*>(address);
    for (const int64_t extent : object.grid) {
      const bool overflows = __builtin_mul_overflow(groups_, extent, &groups_);
      TENON_CHECK(!overflows && extent >= 0, ErrorCode::kInvalidArgument, "a grid of ",
                  format_shape(object.grid), " groups is too large");
    }
  }

  void launch(std::span<const std::byte> arguments) override {
    std::atomic<bool> is_out_of_memory = false;
    const auto body = [&](int64_t begin, int64_t end, int) noexcept {
      void* scratch = nullptr;
      if (scratch_bytes_ > 0) {
        scratch = thread_scratch().get(scratch_bytes_);
        if (scratch == nullptr) {
          is_out_of_memory = true;
          return;
        }
      }
      function_(arguments.data(), begin, end, scratch);
    };
    ThreadPool::shared().run(groups_, body);
    TENON_CHECK(!is_out_of_memory, ErrorCode::kOutOfMemory, "CPU: no memory for ", scratch_bytes_,
                " bytes of group memory for each worker");
  }

 private:
  std::shared_ptr<const LoadedObject> image_;
  KernelFunction* function_ = nullptr;
  int64_t groups_ = 1;
  int64_t scratch_bytes_;
};

class CpuDevice final : public DeviceDriver {
 public:
  CpuDevice(int index, Target target, int64_t max_bytes)
      : name_(concat("CPU:", index)), target_(std::move(target)), allocator_(max_bytes) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return allocator_; }
  BufferPoolOptions pool_options() const override {
    if (kAddressSanitizer) return {.max_cached_bytes = 0, .exact_sizes = true};
    return {.max_cached_bytes = physical_bytes() / 4};
  }
  void synchronize() override {}
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<HostQueue>(*this, HostQueue::Mode::kCallers);
  }

  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    TENON_CHECK(object.payload_format == kElfFormat, ErrorCode::kUnsupported,
                "the payload's format is '", object.payload_format, "'; the CPU loads '",
                kElfFormat, "'");
    check_target(object);
    int64_t lanes = 1;
    for (const int64_t extent : object.lanes)
      lanes *= extent;
    TENON_CHECK(lanes == 1, ErrorCode::kUnsupported, "a group has ", lanes,
                " lanes; the CPU runs one");
    return std::make_unique<CpuProgram>(load_image(object), object);
  }

 private:
  static void check_target(const ProgramObject& object) {
    const CpuFeatureSet wanted = features_of(parse_target(object.target));
    const CpuFeatureSet here = host_cpu_features();
    TENON_CHECK(here.has_all(wanted), ErrorCode::kUnsupported, "it needs ",
                join(wanted.missing_in(here), ", "), ", which this CPU lacks. Compile it here");
    TENON_CHECK(!wanted.has(CpuFeature::kAmxTile) || request_tile_permission(),
                ErrorCode::kUnsupported, "it uses AMX tiles, which the kernel refuses");
  }

  /// Programs that were compiled together share one image.
  std::shared_ptr<const LoadedObject> load_image(const ProgramObject& object) {
    const Hash128 key = hash128(std::span<const std::byte>(object.payload));
    const std::lock_guard lock(mutex_);
    if (const auto known = images_.find(key); known != images_.end()) {
      if (std::shared_ptr<const LoadedObject> image = known->second.lock()) return image;
    }
    std::erase_if(images_, [](const auto& item) { return item.second.expired(); });
    auto image = std::make_shared<const LoadedObject>(load_object(object.payload, object.entry));
    images_[key] = image;
    return image;
  }

  const std::string name_;
  const Target target_;
  HostAllocator allocator_;
  std::mutex mutex_;
  std::map<Hash128, std::weak_ptr<const LoadedObject>> images_;
};

}  // namespace

std::unique_ptr<DeviceDriver> open_cpu_device(int index, const Target& target,
                                              std::optional<int64_t> max_bytes) {
  const CpuFeatureSet wanted = features_of(target);
  const CpuFeatureSet here = host_cpu_features();
  TENON_CHECK(here.has_all(wanted), ErrorCode::kUnsupported, "this CPU lacks ",
              join(wanted.missing_in(here), ", "),
              ", so it cannot run such programs. Leave them out of ARCH, or compile with DEV=NULL");
  TENON_CHECK(!wanted.has(CpuFeature::kAmxTile) || request_tile_permission(),
              ErrorCode::kUnsupported, "the kernel refuses the use of AMX tiles. Add -amx-tile to ",
              "ARCH");
  return std::make_unique<CpuDevice>(index, target, max_bytes.value_or(physical_bytes()));
}

}  // namespace tenon::cpu
