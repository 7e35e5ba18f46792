// The checked ELF reader. All numbers from the file are compared with what the file really holds
// before use, and nothing is allocated whose size the file does not pay for byte by byte.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/elf_object.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/base/error.h"

namespace tenon::cpu {
namespace {

// Absent from older <elf.h>; x86-64 psABI 1.0, section 4.2.2.
constexpr uint32_t kSectionTypeUnwind = 0x70000001;
// Thousands of symbols may share one string: without a limit a small file costs much memory.
constexpr size_t kMaxNameLength = 1024;

/// Everything that the steps of one parse share.
struct Parse {
  std::span<const std::byte> file;
  std::string where;  // "load_object: 'name'"
  std::vector<Elf64_Shdr> headers;
  ElfObject object;
};

template <typename Record>
Record read_record(std::span<const std::byte> bytes, size_t offset) {
  static_assert(std::is_trivially_copyable_v<Record>);
  TENON_ASSERT(offset <= bytes.size() && sizeof(Record) <= bytes.size() - offset,
               "elf: unchecked read at ", offset);
  Record record;
  std::memcpy(&record, bytes.data() + offset, sizeof(Record));
  return record;
}

bool is_inside(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

/// The NUL-terminated string at `offset` of a string table.
std::string_view read_string(const Parse& parse, std::span<const std::byte> table, uint64_t offset,
                             std::string_view what) {
  TENON_CHECK(offset < table.size(), ErrorCode::kInvalidArgument, parse.where, ": name of ", what,
              " is outside its string table; offset ", offset, ", table has ", table.size(),
              " bytes. The object file is damaged");
  const char* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const uint64_t limit = std::min<uint64_t>(table.size() - offset, kMaxNameLength + 1);
  const size_t length = strnlen(begin, limit);
  TENON_CHECK(length < limit, ErrorCode::kInvalidArgument, parse.where, ": name of ", what,
              " has no end in its string table, or is over ", kMaxNameLength,
              " bytes long. The object file is damaged");
  return {begin, length};
}

Elf64_Ehdr read_file_header(const Parse& parse) {
  TENON_CHECK(parse.file.size() >= sizeof(Elf64_Ehdr), ErrorCode::kInvalidArgument, parse.where,
              ": too short for an ELF header; ", parse.file.size(), " bytes, expected at least ",
              sizeof(Elf64_Ehdr));
  const auto header = read_record<Elf64_Ehdr>(parse.file, 0);
  TENON_CHECK(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0, ErrorCode::kInvalidArgument,
              parse.where, ": not an ELF file (wrong magic)");
  TENON_CHECK(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
                  header.e_ident[EI_VERSION] == EV_CURRENT && header.e_version == EV_CURRENT,
              ErrorCode::kInvalidArgument, parse.where,
              ": not a 64-bit little-endian ELF file of version 1");
  TENON_CHECK(header.e_machine == EM_X86_64, ErrorCode::kUnsupported, parse.where, ": machine is ",
              header.e_machine, ", expected x86-64 (", int{EM_X86_64}, ")");
  TENON_CHECK(header.e_type == ET_REL, ErrorCode::kUnsupported, parse.where, ": ELF type is ",
              header.e_type, ", expected a relocatable object (", int{ET_REL},
              "). Compile with -c and do not link");
  TENON_CHECK(header.e_shnum != 0 && header.e_shentsize == sizeof(Elf64_Shdr),
              ErrorCode::kInvalidArgument, parse.where, ": no usable section table; ",
              header.e_shnum, " entries of ", header.e_shentsize, " bytes, expected entries of ",
              sizeof(Elf64_Shdr));
  const uint64_t table_bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  TENON_CHECK(is_inside(header.e_shoff, table_bytes, parse.file.size()),
              ErrorCode::kInvalidArgument, parse.where, ": section table is outside the file; ",
              table_bytes, " bytes at ", header.e_shoff, ", file has ", parse.file.size());
  TENON_CHECK(header.e_shstrndx < header.e_shnum, ErrorCode::kInvalidArgument, parse.where,
              ": section name table ", header.e_shstrndx, " of ", header.e_shnum,
              " sections does not exist");
  return header;
}

bool is_init_or_fini(const Elf64_Shdr& header, std::string_view name) {
  return header.sh_type == SHT_INIT_ARRAY || header.sh_type == SHT_FINI_ARRAY ||
         header.sh_type == SHT_PREINIT_ARRAY || name == ".init" || name == ".fini" ||
         name.starts_with(".ctors") || name.starts_with(".dtors");
}

/// Decides what an allocated section is for; refuses what the loader cannot do.
SectionUse classify_section(const Parse& parse, const Elf64_Shdr& header, std::string_view name) {
  if ((header.sh_flags & SHF_ALLOC) == 0 || header.sh_type == SHT_NULL) return SectionUse::kDropped;
  if (name == ".eh_frame" || header.sh_type == kSectionTypeUnwind || header.sh_type == SHT_NOTE) {
    return SectionUse::kDropped;
  }
  const auto refuse = [&](bool ok, std::string_view why) {
    TENON_CHECK(ok, ErrorCode::kUnsupported, parse.where, ": section ", quote_name(name), " ", why);
  };
  if (is_init_or_fini(header, name)) {
    // The sanitizers' constructors only start a runtime that the host process already runs.
    refuse(kSanitizerBuild, "runs code at load time (init/fini); kernels have no constructors");
    return SectionUse::kDropped;
  }
  refuse((header.sh_flags & SHF_TLS) == 0, "is thread-local (TLS); kernels have no variables");
  if (header.sh_type == SHT_NOBITS) {
    refuse(header.sh_size == 0, "is zero-initialised data (.bss); kernels have no variables");
    return SectionUse::kDropped;
  }
  if (header.sh_size == 0) return SectionUse::kDropped;
  refuse((header.sh_flags & SHF_WRITE) == 0, "is writable data; kernels have no variables");
  refuse((header.sh_flags & SHF_COMPRESSED) == 0, "is compressed");
  TENON_CHECK(header.sh_type == SHT_PROGBITS, ErrorCode::kUnsupported, parse.where, ": section ",
              quote_name(name), " has type ", header.sh_type, ", expected program bits (",
              int{SHT_PROGBITS}, ")");
  return (header.sh_flags & SHF_EXECINSTR) != 0 ? SectionUse::kCode : SectionUse::kReadOnlyData;
}

void read_sections(Parse& parse) {
  const Elf64_Ehdr file_header = read_file_header(parse);
  parse.headers.reserve(file_header.e_shnum);
  for (size_t index = 0; index < file_header.e_shnum; ++index) {
    const auto header = read_record<Elf64_Shdr>(
        parse.file, static_cast<size_t>(file_header.e_shoff) + index * sizeof(Elf64_Shdr));
    TENON_CHECK(header.sh_type == SHT_NOBITS || header.sh_type == SHT_NULL ||
                    is_inside(header.sh_offset, header.sh_size, parse.file.size()),
                ErrorCode::kInvalidArgument, parse.where, ": section ", index,
                " is outside the file; ", header.sh_size, " bytes at ", header.sh_offset,
                ", file has ", parse.file.size());
    parse.headers.push_back(header);
  }
  const auto contents = [&](const Elf64_Shdr& header) -> std::span<const std::byte> {
    if (header.sh_type == SHT_NOBITS || header.sh_type == SHT_NULL) return {};
    return parse.file.subspan(static_cast<size_t>(header.sh_offset),
                              static_cast<size_t>(header.sh_size));
  };
  const std::span<const std::byte> names = contents(parse.headers[file_header.e_shstrndx]);
  uint64_t loaded_bytes = 0;
  for (const Elf64_Shdr& header : parse.headers) {
    ElfSection section;
    section.name = read_string(parse, names, header.sh_name, "a section");
    section.use = classify_section(parse, header, section.name);
    section.bytes = contents(header);
    if (section.use != SectionUse::kDropped) {
      const uint64_t alignment = header.sh_addralign == 0 ? 1 : header.sh_addralign;
      TENON_CHECK(std::has_single_bit(alignment) && alignment <= kMaxSectionAlignment,
                  ErrorCode::kInvalidArgument, parse.where, ": section ", quote_name(section.name),
                  " has alignment ", alignment, ", expected a power of two up to ",
                  kMaxSectionAlignment);
      section.alignment = alignment;
      // Each section is inside the file, so the sum cannot wrap.
      loaded_bytes += section.bytes.size();
      TENON_CHECK(loaded_bytes <= parse.file.size(), ErrorCode::kInvalidArgument, parse.where,
                  ": sections overlap at ", quote_name(section.name),
                  "; together they are larger than the file");
    }
    parse.object.sections.push_back(section);
  }
}

ElfSymbol read_symbol(const Parse& parse, const Elf64_Sym& raw, std::string_view name) {
  const unsigned type = ELF64_ST_TYPE(raw.st_info);
  const unsigned binding = ELF64_ST_BIND(raw.st_info);
  const auto refuse = [&](bool ok, std::string_view why) {
    TENON_CHECK(ok, ErrorCode::kUnsupported, parse.where, ": symbol ", quote_name(name), " ", why);
  };
  refuse(type != STT_GNU_IFUNC, "is an IFUNC; kernels are not resolved at load time");
  refuse(type != STT_TLS, "is thread-local (TLS); kernels have no variables");
  refuse(raw.st_shndx != SHN_COMMON && type != STT_COMMON,
         "is a COMMON variable; kernels have no variables");
  refuse(raw.st_shndx != SHN_XINDEX, "uses an extended section index");
  ElfSymbol symbol;
  symbol.name = name;
  symbol.is_function = type == STT_FUNC;
  symbol.is_global = binding == STB_GLOBAL;
  if (type == STT_FILE || raw.st_shndx == SHN_ABS) return symbol;
  if (raw.st_shndx == SHN_UNDEF) {
    symbol.home = name.empty() ? SymbolHome::kNowhere : SymbolHome::kUndefined;
    return symbol;
  }
  TENON_CHECK(raw.st_shndx < parse.object.sections.size(), ErrorCode::kInvalidArgument, parse.where,
              ": symbol ", quote_name(name), " is in section ", raw.st_shndx, " of ",
              parse.object.sections.size(), ". The object file is damaged");
  const ElfSection& section = parse.object.sections[raw.st_shndx];
  if (section.use == SectionUse::kDropped) return symbol;
  TENON_CHECK(is_inside(raw.st_value, raw.st_size, section.bytes.size()),
              ErrorCode::kInvalidArgument, parse.where, ": symbol ", quote_name(name),
              " is outside section ", quote_name(section.name), "; ", raw.st_size, " bytes at ",
              raw.st_value, ", section has ", section.bytes.size());
  symbol.home = SymbolHome::kSection;
  symbol.section = raw.st_shndx;
  symbol.offset = raw.st_value;
  symbol.size = raw.st_size;
  return symbol;
}

/// Reads the one symbol table; returns its section index (0: the file has none).
uint32_t read_symbols(Parse& parse) {
  uint32_t table_index = 0;
  for (uint32_t index = 0; index < parse.headers.size(); ++index) {
    if (parse.headers[index].sh_type != SHT_SYMTAB) continue;
    TENON_CHECK(table_index == 0, ErrorCode::kInvalidArgument, parse.where,
                ": two symbol tables, sections ", table_index, " and ", index, "; expected one");
    table_index = index;
  }
  if (table_index == 0) return 0;
  const Elf64_Shdr& header = parse.headers[table_index];
  const std::span<const std::byte> table = parse.object.sections[table_index].bytes;
  TENON_CHECK(header.sh_entsize == sizeof(Elf64_Sym) && table.size() % sizeof(Elf64_Sym) == 0,
              ErrorCode::kInvalidArgument, parse.where, ": symbol table of ", table.size(),
              " bytes has entries of ", header.sh_entsize, " bytes, expected ", sizeof(Elf64_Sym));
  TENON_CHECK(header.sh_link < parse.headers.size(), ErrorCode::kInvalidArgument, parse.where,
              ": string table ", header.sh_link, " of the symbols does not exist; the file has ",
              parse.headers.size(), " sections");
  const std::span<const std::byte> names = parse.object.sections[header.sh_link].bytes;
  const size_t count = table.size() / sizeof(Elf64_Sym);
  parse.object.symbols.reserve(count);
  for (size_t index = 0; index < count; ++index) {
    const auto raw = read_record<Elf64_Sym>(table, index * sizeof(Elf64_Sym));
    const std::string_view name =
        raw.st_name == 0 ? std::string_view() : read_string(parse, names, raw.st_name, "a symbol");
    parse.object.symbols.push_back(read_symbol(parse, raw, name));
  }
  return table_index;
}

void read_relocation_table(Parse& parse, const Elf64_Shdr& header,
                           std::span<const std::byte> table) {
  const ElfSection& target = parse.object.sections[header.sh_info];
  TENON_CHECK(header.sh_entsize == sizeof(Elf64_Rela) && table.size() % sizeof(Elf64_Rela) == 0,
              ErrorCode::kInvalidArgument, parse.where, ": relocations of section ",
              quote_name(target.name), ", ", table.size(), " bytes, have entries of ",
              header.sh_entsize, " bytes, expected ", sizeof(Elf64_Rela));
  for (size_t offset = 0; offset < table.size(); offset += sizeof(Elf64_Rela)) {
    const auto raw = read_record<Elf64_Rela>(table, offset);
    const uint64_t type = ELF64_R_TYPE(raw.r_info);
    if (type == R_X86_64_NONE) continue;
    TENON_CHECK(type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_64,
                ErrorCode::kUnsupported, parse.where, ": relocation type ", type, " in section ",
                quote_name(target.name),
                "; only R_X86_64_PC32 (2), PLT32 (4) and 64 (1) are known");
    const uint64_t width = type == R_X86_64_64 ? 8 : 4;
    TENON_CHECK(is_inside(raw.r_offset, width, target.bytes.size()), ErrorCode::kInvalidArgument,
                parse.where, ": relocation at ", raw.r_offset, " is outside section ",
                quote_name(target.name), " of ", target.bytes.size(), " bytes");
    const uint64_t symbol = ELF64_R_SYM(raw.r_info);
    TENON_CHECK(symbol < parse.object.symbols.size(), ErrorCode::kInvalidArgument, parse.where,
                ": relocation in section ", quote_name(target.name), " names symbol ", symbol,
                " of ", parse.object.symbols.size());
    const ElfSymbol& to = parse.object.symbols[symbol];
    TENON_CHECK(to.home != SymbolHome::kNowhere, ErrorCode::kUnsupported, parse.where,
                ": relocation in section ", quote_name(target.name), " needs symbol ",
                quote_name(to.name), ", which is in no loaded section");
    parse.object.relocations.push_back({.section = header.sh_info,
                                        .type = static_cast<uint32_t>(type),
                                        .offset = raw.r_offset,
                                        .symbol = static_cast<uint32_t>(symbol),
                                        .addend = raw.r_addend});
  }
}

void read_relocations(Parse& parse, uint32_t symbol_table) {
  for (size_t index = 0; index < parse.headers.size(); ++index) {
    const Elf64_Shdr& header = parse.headers[index];
    if (header.sh_type != SHT_RELA && header.sh_type != SHT_REL) continue;
    TENON_CHECK(header.sh_info < parse.headers.size(), ErrorCode::kInvalidArgument, parse.where,
                ": relocations for section ", header.sh_info,
                ", which does not exist; the file has ", parse.headers.size(), " sections");
    const ElfSection& target = parse.object.sections[header.sh_info];
    if (target.use == SectionUse::kDropped) continue;
    TENON_CHECK(header.sh_type == SHT_RELA, ErrorCode::kUnsupported, parse.where,
                ": relocations of section ", quote_name(target.name),
                " have no addends (REL), expected RELA");
    TENON_CHECK(symbol_table != 0 && header.sh_link == symbol_table, ErrorCode::kInvalidArgument,
                parse.where, ": relocations of section ", quote_name(target.name),
                " use symbol table ", header.sh_link, ", the file's is ", symbol_table);
    read_relocation_table(parse, header, parse.object.sections[index].bytes);
  }
}

}  // namespace

ElfObject parse_elf_object(std::span<const std::byte> bytes, std::string_view name) {
  Parse parse;
  parse.file = bytes;
  parse.where = "load_object: " + quote_name(name);
  read_sections(parse);
  const uint32_t symbol_table = read_symbols(parse);
  read_relocations(parse, symbol_table);
  return std::move(parse.object);
}

std::string quote_name(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMaxShown))
    quoted += (c >= ' ' && c <= '~') ? c : '?';
  quoted += text.size() > kMaxShown ? "...'" : "'";
  return quoted;
}

}  // namespace tenon::cpu
