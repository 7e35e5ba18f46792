// Loads compiled kernels (ELF64 x86-64 relocatable objects) into executable memory. Called by the
// CPU device for fresh and for cached objects, without touching LLVM or the dynamic linker.
// Invariant: no page is ever writable and executable at once.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cpu {

/// One loaded object; owns its memory. Addresses from `find` are valid until it is destroyed.
class LoadedObject {
 public:
  LoadedObject(LoadedObject&& other) noexcept;
  LoadedObject& operator=(LoadedObject&& other) noexcept;
  ~LoadedObject();

  /// Address of the global function `symbol` that the object defines, or null.
  void* find(std::string_view symbol) const;

  /// Bytes of address space that the object takes.
  size_t size_bytes() const;

 private:
  struct Image;
  friend LoadedObject load_object(std::span<const std::byte> bytes, std::string_view name);
  friend std::optional<std::string> symbol_at(const void* address);
  explicit LoadedObject(std::unique_ptr<Image> image);

  std::unique_ptr<Image> image_;  // null only after a move
};

/// Loads an object; `bytes` are untrusted and may be freed afterwards. `name` is for error texts
/// and `symbol_at`. Throws what `parse_elf_object` throws; kUnsupported for an undefined symbol
/// (sanitizer builds find __asan_*, __tsan_* and __ubsan_* in the process), a relocation that does
/// not reach, or an image over 1 GiB; kInvalidArgument for two functions of one name; kOutOfMemory.
LoadedObject load_object(std::span<const std::byte> bytes, std::string_view name);

/// "object:function+0x12" for an address inside a loaded object, else nothing. Safe from any
/// thread; takes a lock, so not from a signal handler.
std::optional<std::string> symbol_at(const void* address);

}  // namespace tenon::cpu
