// Layout, relocation and protection of loaded objects, and the table of what is loaded where.
// The image is one mapping: code sections, call stubs (sanitizer builds), then read-only data.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/object_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/backend/cpu/elf_object.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/sanitizer_report.h"
#include "tenon/base/error.h"
#include "tenon/base/integer.h"

namespace tenon::cpu {

/// The mapping and what is known about it.
struct LoadedObject::Image {
  struct Function {
    std::string name;
    uint64_t offset = 0;  // from the start of the mapping
    uint64_t size = 0;
    bool is_global = false;
  };

  std::string name;
  std::byte* base = nullptr;
  size_t size = 0;
  std::vector<Function> functions;  // sorted by name

  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image();

  std::string describe(uint64_t offset) const;
};

namespace {

constexpr uint64_t kMaxImageBytes = uint64_t{1}
                                    << 30;  // keeps every PC32 inside the image in reach
constexpr uint64_t kStubBytes = 16;

/// Loaded images by start address. Leaked on purpose: objects may be unloaded by destructors of
/// static objects in any order.
struct ImageTable {
  std::mutex mutex;
  std::map<uintptr_t, const void*> images;  // value: Image, which only LoadedObject may name
};

ImageTable& image_table() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* table = new ImageTable;
  return *table;
}

/// Where each part of an object goes, relative to the start of the mapping.
struct Layout {
  std::vector<uint64_t> section_offsets;  // by section index
  std::vector<uint64_t> stub_offsets;     // by symbol index, 0: no stub
  std::vector<void*> stub_targets;        // by symbol index
  uint64_t code_bytes = 0;                // page multiple
  uint64_t total_bytes = 0;               // page multiple
};

bool is_sanitizer_name(std::string_view name) {
  return name.starts_with("__asan_") || name.starts_with("__tsan_") || name.starts_with("__ubsan_");
}

void* resolve_undefined(std::string_view symbol, const std::string& where) {
  if (kSanitizerBuild && is_sanitizer_name(symbol)) {
    if (void* address = dlsym(RTLD_DEFAULT, std::string(symbol).c_str())) return address;
  }
  fail(ErrorCode::kUnsupported, where, ": undefined symbol ", quote_name(symbol),
       ". A kernel may call only functions in its own object");
}

Layout plan_layout(const ElfObject& object, const std::string& where) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Layout layout;
  layout.section_offsets.resize(object.sections.size());
  layout.stub_offsets.resize(object.symbols.size());
  layout.stub_targets.resize(object.symbols.size());
  uint64_t end = 0;
  const auto place = [&](SectionUse use) {
    for (size_t index = 0; index < object.sections.size(); ++index) {
      const ElfSection& section = object.sections[index];
      if (section.use != use) continue;
      end = round_up(end, section.alignment);
      layout.section_offsets[index] = end;
      end += section.bytes.size();  // cannot wrap: checked against the limit at every step
      TENON_CHECK(end <= kMaxImageBytes, ErrorCode::kUnsupported, where, ": image is over ",
                  kMaxImageBytes, " bytes at section ", quote_name(section.name));
    }
  };
  place(SectionUse::kCode);
  end = round_up(end, kStubBytes);
  for (size_t index = 0; index < object.symbols.size(); ++index) {
    if (object.symbols[index].home != SymbolHome::kUndefined) continue;
    layout.stub_targets[index] = resolve_undefined(object.symbols[index].name, where);
    layout.stub_offsets[index] = end;
    end += kStubBytes;
  }
  end = layout.code_bytes = round_up(end, page);
  place(SectionUse::kReadOnlyData);
  layout.total_bytes = round_up(end, page);
  return layout;
}

void fill_image(const ElfObject& object, const Layout& layout, std::byte* base) {
  for (size_t index = 0; index < object.sections.size(); ++index) {
    const ElfSection& section = object.sections[index];
    if (section.use == SectionUse::kDropped) continue;
    std::memcpy(base + layout.section_offsets[index], section.bytes.data(), section.bytes.size());
  }
  for (size_t index = 0; index < object.symbols.size(); ++index) {
    if (layout.stub_targets[index] == nullptr) continue;
    // jmp qword ptr [rip + 0]; the 8-byte target follows.
    constexpr std::array<uint8_t, 6> kJump = {0xff, 0x25, 0, 0, 0, 0};
    std::byte* stub = base + layout.stub_offsets[index];
    std::memcpy(stub, kJump.data(), kJump.size());
    std::memcpy(stub + kJump.size(), &layout.stub_targets[index], sizeof(void*));
  }
}

/// S + A of the psABI, as an offset from the start of the mapping.
uint64_t target_offset(const ElfObject& object, const Layout& layout, const ElfRelocation& item) {
  const ElfSymbol& symbol = object.symbols[item.symbol];
  const uint64_t offset = symbol.home == SymbolHome::kUndefined
                              ? layout.stub_offsets[item.symbol]
                              : layout.section_offsets[symbol.section] + symbol.offset;
  return offset + static_cast<uint64_t>(item.addend);  // unsigned: wraps, as the psABI's sums do
}

void relocate(const ElfObject& object, const Layout& layout, std::byte* base,
              const std::string& where) {
  for (const ElfRelocation& item : object.relocations) {
    const uint64_t place = layout.section_offsets[item.section] + item.offset;
    const uint64_t target = target_offset(object, layout, item);
    if (item.type == R_X86_64_64) {
      const uint64_t value = reinterpret_cast<uintptr_t>(base) + target;
      std::memcpy(base + place, &value, sizeof(value));
      continue;
    }
    const auto distance = static_cast<int64_t>(target - place);
    TENON_CHECK(distance >= std::numeric_limits<int32_t>::min() &&
                    distance <= std::numeric_limits<int32_t>::max(),
                ErrorCode::kUnsupported, where, ": relocation at ", item.offset, " of section ",
                quote_name(object.sections[item.section].name), " to symbol ",
                quote_name(object.symbols[item.symbol].name), " does not reach; distance ",
                distance, " needs more than 32 bits");
    const auto value = static_cast<int32_t>(distance);
    std::memcpy(base + place, &value, sizeof(value));
  }
}

void protect(std::byte* base, const Layout& layout, const std::string& where) {
  const uint64_t data_bytes = layout.total_bytes - layout.code_bytes;
  const bool ok =
      (layout.code_bytes == 0 || mprotect(base, layout.code_bytes, PROT_READ | PROT_EXEC) == 0) &&
      (data_bytes == 0 || mprotect(base + layout.code_bytes, data_bytes, PROT_READ) == 0);
  TENON_CHECK(ok, ErrorCode::kDeviceFailed, where,
              ": making the code executable failed: ", std::strerror(errno),
              ". The system may forbid executable memory");
}

}  // namespace

LoadedObject::Image::~Image() {
  if (base == nullptr) return;
  {
    ImageTable& table = image_table();
    const std::lock_guard lock(table.mutex);
    table.images.erase(reinterpret_cast<uintptr_t>(base));
  }
  munmap(base, size);
}

std::string LoadedObject::Image::describe(uint64_t offset) const {
  const Function* best = nullptr;
  for (const Function& function : functions) {
    const bool covers = offset >= function.offset &&
                        offset - function.offset < std::max<uint64_t>(function.size, 1);
    if (covers && (best == nullptr || function.is_global)) best = &function;
  }
  const auto hex = [](uint64_t value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    do {
      text.insert(text.begin(), kDigits[value % 16]);
      value /= 16;
    } while (value != 0);
    return "+0x" + text;
  };
  if (best == nullptr) return name + hex(offset);
  return name + ":" + best->name + hex(offset - best->offset);
}

LoadedObject::LoadedObject(std::unique_ptr<Image> image) : image_(std::move(image)) {}
LoadedObject::LoadedObject(LoadedObject&& other) noexcept = default;
LoadedObject& LoadedObject::operator=(LoadedObject&& other) noexcept = default;
LoadedObject::~LoadedObject() = default;

void* LoadedObject::find(std::string_view symbol) const {
  TENON_ASSERT(image_ != nullptr, "find: the object was moved away");
  const auto& functions = image_->functions;
  auto it = std::lower_bound(functions.begin(), functions.end(), symbol,
                             [](const auto& f, std::string_view name) { return f.name < name; });
  for (; it != functions.end() && it->name == symbol; ++it) {
    if (it->is_global) return image_->base + it->offset;
  }
  return nullptr;
}

size_t LoadedObject::size_bytes() const {
  return image_ == nullptr ? 0 : image_->size;
}

LoadedObject load_object(std::span<const std::byte> bytes, std::string_view name) {
  const std::string where = "load_object: " + quote_name(name);
  const ElfObject object = parse_elf_object(bytes, name);
  const Layout layout = plan_layout(object, where);

  auto image = std::make_unique<LoadedObject::Image>();
  image->name = name;
  for (const ElfSymbol& symbol : object.symbols) {
    if (symbol.home != SymbolHome::kSection || !symbol.is_function) continue;
    if (object.sections[symbol.section].use != SectionUse::kCode) continue;
    image->functions.push_back({.name = std::string(symbol.name),
                                .offset = layout.section_offsets[symbol.section] + symbol.offset,
                                .size = symbol.size,
                                .is_global = symbol.is_global});
  }
  std::stable_sort(image->functions.begin(), image->functions.end(),
                   [](const auto& a, const auto& b) {
                     return a.name != b.name ? a.name < b.name : a.is_global > b.is_global;
                   });
  for (size_t i = 1; i < image->functions.size(); ++i) {
    const auto& previous = image->functions[i - 1];
    const auto& function = image->functions[i];
    TENON_CHECK(!(previous.is_global && function.is_global && previous.name == function.name),
                ErrorCode::kInvalidArgument, where, ": two global functions are named ",
                quote_name(function.name));
  }
  if (layout.total_bytes == 0) return LoadedObject(std::move(image));
  name_kernels_in_reports();

  void* memory =
      mmap(nullptr, layout.total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TENON_CHECK(memory != MAP_FAILED, ErrorCode::kOutOfMemory, where, ": mapping ",
              layout.total_bytes, " bytes failed: ", std::strerror(errno));
  image->base = static_cast<std::byte*>(memory);
  image->size = layout.total_bytes;
  fill_image(object, layout, image->base);
  relocate(object, layout, image->base, where);
  protect(image->base, layout, where);
  {
    ImageTable& table = image_table();
    const std::lock_guard lock(table.mutex);
    table.images[reinterpret_cast<uintptr_t>(image->base)] = image.get();
  }
  return LoadedObject(std::move(image));
}

std::optional<std::string> symbol_at(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  ImageTable& table = image_table();
  const std::lock_guard lock(table.mutex);
  auto it = table.images.upper_bound(value);
  if (it == table.images.begin()) return std::nullopt;
  --it;
  const auto* image = static_cast<const LoadedObject::Image*>(it->second);
  if (value - it->first >= image->size) return std::nullopt;
  return image->describe(value - it->first);
}

}  // namespace tenon::cpu
