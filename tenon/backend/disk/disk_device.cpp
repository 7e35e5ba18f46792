// DISK: files as memory. A device is one path; what is written to it replaces the file at once or
// not at all, what is read is read at offsets (nothing is mapped), and no programs run.
// SPDX-License-Identifier: MIT

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"

namespace tenon::disk {
namespace {

/// An allocation is a file of its own: the one that is there, or a new one that takes its place
/// when its last byte has been written. Addresses are handles, which no machine can access.
class DiskAllocator final : public Allocator {
 public:
  explicit DiskAllocator(std::string path) : path_(std::move(path)) {}

  void* allocate(int64_t size_bytes) override {
    OpenFile file = OpenFile::create(path_);
    if (size_bytes == 0) file.publish();
    return add(std::move(file), size_bytes);
  }
  AllocatorFlags flags() const override { return {.view_align_bytes = 1, .has_content = true}; }
  DeviceMemory open_content() override {
    OpenFile file = OpenFile::existing(path_);
    const auto size_bytes = static_cast<int64_t>(file.size_bytes());
    return {.address = add(std::move(file), size_bytes), .size_bytes = size_bytes};
  }
  void free(void* address, int64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(number_of(address));
  }

  void copy_in(void* dst, std::span<const std::byte> src) override {
    const auto [block, offset] = find(dst, std::ssize(src));
    block->file.write_at(offset, src);
    if (offset + src.size() == static_cast<uint64_t>(block->size_bytes)) block->file.publish();
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    const auto [block, offset] = find(src, std::ssize(dst));
    block->file.read_at(offset, dst);
  }

 private:
  struct Block {
    OpenFile file;
    int64_t size_bytes;
  };
  struct Place {
    std::shared_ptr<Block> block;  ///< open while it is used, though it may be freed meanwhile
    uint64_t offset;
  };

  static uint64_t number_of(const void* address) { return reinterpret_cast<uint64_t>(address); }

  void* add(OpenFile file, int64_t size_bytes) {
    auto block = std::make_shared<Block>(Block{std::move(file), size_bytes});
    const std::lock_guard lock(mutex_);
    const uint64_t number = next_;
    next_ += static_cast<uint64_t>(round_up(size_bytes + 1, kGapBytes));
    blocks_.emplace(number, std::move(block));
    return reinterpret_cast<void*>(number);
  }

  Place find(const void* address, int64_t size_bytes) const {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(number_of(address));
    TENON_ASSERT(after != blocks_.begin(), "no file is open at ", number_of(address));
    const auto& [begin, block] = *std::prev(after);
    const auto offset = static_cast<int64_t>(number_of(address) - begin);
    TENON_ASSERT(offset <= block->size_bytes - size_bytes, "bytes ", offset, " to ", offset, " + ",
                 size_bytes, " of a file of ", block->size_bytes);
    return {block, static_cast<uint64_t>(offset)};
  }

  static constexpr int64_t kGapBytes = 1 << 12;
  /// Not canonical on x86-64: an access traps whatever is mapped.
  static constexpr uint64_t kFirstAddress = uint64_t{1} << 60;

  const std::string path_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Block>> blocks_;  ///< by first address
  uint64_t next_ = kFirstAddress;
};

class DiskDevice final : public DeviceDriver {
 public:
  explicit DiskDevice(const std::string& path) : name_(concat("DISK:", path)), allocator_(path) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return allocator_; }
  BufferPoolOptions pool_options() const override { return {.are_files = true}; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject&) override {
    fail(ErrorCode::kUnsupported, "'", name_, "' is a file and runs no programs");
  }
  void synchronize() override {}

 private:
  const std::string name_;
  const Target target_{.arch = "disk"};
  DiskAllocator allocator_;
};

}  // namespace
}  // namespace tenon::disk

namespace tenon {

void register_disk_backend();  // declared by the generated file too

void register_disk_backend() {
  BackendDescriptor backend;
  backend.name = "DISK";
  backend.takes_path = true;
  backend.why_absent = [] { return std::optional<std::string>(); };
  backend.open_file = [](const std::string& path) -> std::unique_ptr<DeviceDriver> {
    return std::make_unique<disk::DiskDevice>(path);
  };
  register_backend(std::move(backend));
}

}  // namespace tenon
