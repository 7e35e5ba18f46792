// Reads an ELF64 x86-64 relocatable object (what `clang -c` writes) into checked plain records.
// Called by object_loader.cpp. The bytes are untrusted: every offset, size, index and string is
// checked here, so that the loader can use the records without looking at the file's numbers again.
// Source of the format: System V ABI, "ELF-64 Object File Format" 1.5, and the x86-64 psABI 1.0.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cpu {

enum class SectionUse : uint8_t {
  kDropped,  ///< not part of the image: debug, notes, unwind tables, symbol tables
  kCode,
  kReadOnlyData,
};

struct ElfSection {
  std::string_view name;
  SectionUse use = SectionUse::kDropped;
  uint64_t alignment = 1;  ///< a power of two, at most kMaxSectionAlignment
  std::span<const std::byte> bytes;
};

/// Where a symbol's definition is.
enum class SymbolHome : uint8_t {
  kSection,    ///< `section` and `offset` are valid
  kUndefined,  ///< to be resolved by name
  kNowhere,    ///< file names, absolute values: may not be the target of a relocation
};

struct ElfSymbol {
  std::string_view name;
  SymbolHome home = SymbolHome::kNowhere;
  uint32_t section = 0;  ///< index into ElfObject::sections
  uint64_t offset = 0;   ///< in the section; offset + size is inside it
  uint64_t size = 0;
  bool is_function = false;
  bool is_global = false;
};

struct ElfRelocation {
  uint32_t section = 0;  ///< index of the patched section
  uint32_t type = 0;     ///< R_X86_64_PC32, PLT32 or 64
  uint64_t offset = 0;   ///< in the section; the patched bytes are inside it
  uint32_t symbol = 0;   ///< index into ElfObject::symbols
  int64_t addend = 0;
};

struct ElfObject {
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;
  std::vector<ElfRelocation> relocations;  ///< of loaded sections only, in file order
};

inline constexpr uint64_t kMaxSectionAlignment = 4096;

/// Parses `bytes`; the result borrows from them. `name` is used in error texts.
/// Throws kInvalidArgument for a malformed file, kUnsupported (naming the section, symbol or
/// relocation number) for writable data, thread-local storage, .bss, COMMON and IFUNC symbols,
/// init/fini arrays (dropped in sanitizer builds) and relocations other than PC32, PLT32 and 64.
ElfObject parse_elf_object(std::span<const std::byte> bytes, std::string_view name);

/// `text` in quotes, shortened and with unprintable bytes replaced: names in the file are
/// untrusted.
std::string quote_name(std::string_view text);

}  // namespace tenon::cpu
