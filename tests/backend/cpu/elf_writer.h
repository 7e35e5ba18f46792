// Builds small ELF objects by hand, so that tests can say exactly what is wrong with them.
// Shared by the loader's refusal tests. SPDX-License-Identifier: MIT

#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cpu {

/// Sections and symbols in, bytes out. Section indices: 0 null, 1 names, 2 strings, 3 symbols,
/// then those added, from 4 on.
class ElfWriter {
 public:
  ElfWriter() { symbols_.push_back(Elf64_Sym{}); }

  Elf64_Ehdr header = default_header();

  /// Returns the section's index.
  uint16_t add_section(std::string_view name, uint32_t type, uint64_t flags,
                       std::vector<uint8_t> bytes, uint64_t alignment = 1) {
    Elf64_Shdr section{};
    section.sh_name = add_string(section_names_, name);
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_addralign = alignment;
    section.sh_size = bytes.size();
    sections_.push_back({section, std::move(bytes)});
    return static_cast<uint16_t>(kFirstSection + sections_.size() - 1);
  }

  /// The header of an added section, to be spoilt.
  Elf64_Shdr& section(uint16_t index) { return sections_[index - size_t{kFirstSection}].header; }

  uint32_t add_symbol(std::string_view name, unsigned binding, unsigned type, uint16_t section,
                      uint64_t value, uint64_t size) {
    Elf64_Sym symbol{};
    symbol.st_name = name.empty() ? 0 : add_string(symbol_names_, name);
    symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(binding, type));
    symbol.st_shndx = section;
    symbol.st_value = value;
    symbol.st_size = size;
    symbols_.push_back(symbol);
    return static_cast<uint32_t>(symbols_.size() - 1);
  }
  Elf64_Sym& symbol(uint32_t index) { return symbols_[index]; }

  /// A relocation section with one entry; returns its index.
  uint16_t add_relocation(uint16_t target, uint64_t offset, uint32_t symbol, uint32_t type,
                          int64_t addend) {
    Elf64_Rela rela{};
    rela.r_offset = offset;
    rela.r_info = ELF64_R_INFO(uint64_t{symbol}, uint64_t{type});
    rela.r_addend = addend;
    std::vector<uint8_t> bytes(sizeof(rela));
    std::memcpy(bytes.data(), &rela, sizeof(rela));
    const uint16_t index = add_section(".rela", SHT_RELA, SHF_INFO_LINK, std::move(bytes), 8);
    section(index).sh_entsize = sizeof(rela);
    section(index).sh_link = kSymbols;
    section(index).sh_info = target;
    return index;
  }

  std::vector<std::byte> write() {
    std::vector<Elf64_Shdr> headers(kFirstSection + sections_.size());
    std::vector<std::byte> file(sizeof(Elf64_Ehdr));
    const auto append = [&file](Elf64_Shdr& section, const void* data, size_t size) {
      section.sh_offset = file.size();
      const auto* begin = static_cast<const std::byte*>(data);
      file.insert(file.end(), begin, begin + size);
    };
    headers[kNames].sh_type = SHT_STRTAB;
    headers[kNames].sh_size = section_names_.size();
    append(headers[kNames], section_names_.data(), section_names_.size());
    headers[kStrings].sh_type = SHT_STRTAB;
    headers[kStrings].sh_size = symbol_names_.size();
    append(headers[kStrings], symbol_names_.data(), symbol_names_.size());
    headers[kSymbols].sh_type = SHT_SYMTAB;
    headers[kSymbols].sh_link = kStrings;
    headers[kSymbols].sh_entsize = sizeof(Elf64_Sym);
    headers[kSymbols].sh_size = symbols_.size() * sizeof(Elf64_Sym);
    append(headers[kSymbols], symbols_.data(), symbols_.size() * sizeof(Elf64_Sym));
    for (size_t index = 0; index < sections_.size(); ++index) {
      headers[kFirstSection + index] = sections_[index].header;
      append(headers[kFirstSection + index], sections_[index].bytes.data(),
             sections_[index].bytes.size());
      if (sections_[index].header.sh_offset != 0) {  // spoilt on purpose
        headers[kFirstSection + index].sh_offset = sections_[index].header.sh_offset;
      }
    }
    if (header.e_shoff == 0) header.e_shoff = file.size();
    if (header.e_shnum == 0) header.e_shnum = static_cast<uint16_t>(headers.size());
    const auto* table = reinterpret_cast<const std::byte*>(headers.data());
    file.insert(file.end(), table, table + headers.size() * sizeof(Elf64_Shdr));
    std::memcpy(file.data(), &header, sizeof(header));
    return file;
  }

  static constexpr uint16_t kNames = 1;
  static constexpr uint16_t kStrings = 2;
  static constexpr uint16_t kSymbols = 3;
  static constexpr uint16_t kFirstSection = 4;

 private:
  struct Section {
    Elf64_Shdr header;
    std::vector<uint8_t> bytes;
  };

  static Elf64_Ehdr default_header() {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_version = EV_CURRENT;
    header.e_type = ET_REL;
    header.e_machine = EM_X86_64;
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shstrndx = kNames;
    return header;
  }

  static uint32_t add_string(std::string& table, std::string_view text) {
    const auto offset = static_cast<uint32_t>(table.size());
    table.append(text).push_back('\0');
    return offset;
  }

  std::string section_names_ = std::string(1, '\0');
  std::string symbol_names_ = std::string(1, '\0');
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
};

}  // namespace tenon::cpu
