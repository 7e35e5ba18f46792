// What the loader refuses, each with its code and the name of the culprit in the text.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tests/backend/cpu/compile_for_test.h"
#include "tests/backend/cpu/elf_writer.h"
#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

constexpr uint64_t kCodeFlags = SHF_ALLOC | SHF_EXECINSTR;
const std::vector<uint8_t> kReturn = {0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3};

/// A good object: function `f` in .text (section 4), symbol 1. Each test spoils one thing.
struct Object : ElfWriter {
  uint16_t text = add_section(".text", SHT_PROGBITS, kCodeFlags, kReturn, 16);
  uint32_t f = add_symbol("f", STB_GLOBAL, STT_FUNC, text, 0, 1);
};

#define EXPECT_REFUSED(elf, code, ...) \
  EXPECT_ERROR(load_object((elf).write(), "thing"), code, "load_object: 'thing'", __VA_ARGS__)

TEST(ObjectRefusal, TheGoodObjectLoads) {
  Object elf;
  EXPECT_NE(load_object(elf.write(), "thing").find("f"), nullptr);
}

TEST(ObjectRefusal, WrongFileHeaders) {
  EXPECT_ERROR(load_object({}, "thing"), ErrorCode::kInvalidArgument, "too short", "0 bytes");
  {
    Object elf;
    elf.header.e_ident[1] = 'F';
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "magic");
  }
  {
    Object elf;
    elf.header.e_ident[EI_CLASS] = ELFCLASS32;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "64-bit");
  }
  {
    Object elf;
    elf.header.e_machine = EM_AARCH64;
    EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "machine is 183", "x86-64");
  }
  {
    Object elf;
    elf.header.e_type = ET_DYN;
    EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "relocatable", "type is 3");
  }
  {
    Object elf;
    elf.header.e_shentsize = 40;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section table", "40");
  }
  {
    Object elf;
    elf.header.e_shoff = ~uint64_t{0} - 8;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section table is outside");
  }
  {
    Object elf;
    elf.header.e_shnum = 0xfe00;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section table is outside");
  }
  {
    Object elf;
    elf.header.e_shstrndx = 77;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "name table 77");
  }
}

TEST(ObjectRefusal, SectionsOutsideTheFile) {
  {
    Object elf;
    elf.section(elf.text).sh_size = uint64_t{1} << 60;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section 4", "outside the file");
  }
  {
    Object elf;
    elf.section(elf.text).sh_offset = ~uint64_t{0};
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section 4", "outside the file");
  }
  {
    Object elf;
    elf.section(elf.text).sh_name = 5000;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "name of a section", "5000");
  }
  for (const uint64_t alignment : {uint64_t{3}, uint64_t{8192}, ~uint64_t{0}}) {
    Object elf;
    elf.section(elf.text).sh_addralign = alignment;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "'.text'", "alignment");
  }
}

TEST(ObjectRefusal, OverlappingSectionsCannotMultiplyTheFile) {
  Object elf;
  for (int i = 0; i < 100; ++i) {
    const uint16_t more = elf.add_section(".rodata.x", SHT_PROGBITS, SHF_ALLOC, {});
    elf.section(more).sh_offset = 64;
    elf.section(more).sh_size = 2000;
  }
  EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "overlap", "'.rodata.x'");
}

TEST(ObjectRefusal, NamesWithoutEnd) {
  Object elf;
  elf.add_symbol(std::string(5000, 'n'), STB_LOCAL, STT_FUNC, elf.text, 0, 1);
  EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "name of a symbol", "1024");
}

TEST(ObjectRefusal, SectionsThatKernelsMayNotHave) {
  const auto refuse = [](std::string name, uint32_t type, uint64_t flags, std::string word) {
    Object elf;
    elf.add_section(name, type, flags, {1, 2, 3, 4, 5, 6, 7, 8}, 8);
    EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "'" + name + "'", word);
  };
  refuse(".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, "writable data");
  refuse(".data.rel.ro", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, "writable data");
  refuse(".wx", SHT_PROGBITS, kCodeFlags | SHF_WRITE, "writable data");
  refuse(".tdata", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE | SHF_TLS, "thread-local");
  refuse(".tbss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE | SHF_TLS, "thread-local");
  refuse(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, ".bss");
  refuse(".strange", SHT_DYNAMIC, SHF_ALLOC, "type 6");
  refuse(".packed", SHT_PROGBITS, SHF_ALLOC | SHF_COMPRESSED, "compressed");
  if (kSanitizerBuild) return;
  refuse(".init_array", SHT_INIT_ARRAY, SHF_ALLOC | SHF_WRITE, "load time");
  refuse(".fini_array.5", SHT_FINI_ARRAY, SHF_ALLOC | SHF_WRITE, "load time");
  refuse(".ctors", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, "load time");
  refuse(".init", SHT_PROGBITS, kCodeFlags, "load time");
}

TEST(ObjectRefusal, WhatIsNotLoadedMayBeAnything) {
  Object elf;
  elf.add_section(".comment", SHT_PROGBITS, 0, {1, 2, 3});
  elf.add_section(".eh_frame", SHT_PROGBITS, SHF_ALLOC, {1, 2, 3});
  elf.add_section(".note.gnu.property", SHT_NOTE, SHF_ALLOC, {1, 2, 3});
  elf.add_section(".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, {});
  elf.add_section(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, {});
  const uint16_t debug = elf.add_section(".debug_info", SHT_PROGBITS, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  elf.add_relocation(debug, 0, elf.f, R_X86_64_DTPOFF32, 0);
  EXPECT_NE(load_object(elf.write(), "thing").find("f"), nullptr);
}

TEST(ObjectRefusal, SymbolsThatKernelsMayNotHave) {
  const auto refuse = [](unsigned type, uint16_t section, std::string word) {
    Object elf;
    elf.add_symbol("culprit", STB_GLOBAL, type, section, 0, 1);
    EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "'culprit'", word);
  };
  refuse(STT_GNU_IFUNC, 4, "IFUNC");
  refuse(STT_TLS, 4, "TLS");
  refuse(STT_OBJECT, SHN_COMMON, "COMMON");
  refuse(STT_COMMON, 4, "COMMON");
  refuse(STT_FUNC, SHN_XINDEX, "extended");
  refuse(STT_NOTYPE, SHN_UNDEF, "undefined symbol");
  refuse(STT_FUNC, SHN_UNDEF, "undefined symbol");
}

TEST(ObjectRefusal, UnprintableNamesAreShownSafely) {
  Object elf;
  elf.add_symbol("a\n\x1b[31m\xff", STB_GLOBAL, STT_NOTYPE, SHN_UNDEF, 0, 0);
  EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "'a??[31m?'");
}

TEST(ObjectRefusal, DamagedSymbols) {
  {
    Object elf;
    elf.symbol(elf.f).st_shndx = 99;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "'f'", "section 99");
  }
  {
    Object elf;
    elf.symbol(elf.f).st_value = 9;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "'f'", "outside section '.text'");
  }
  {
    Object elf;
    elf.symbol(elf.f).st_size = ~uint64_t{0};
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "'f'", "outside section '.text'");
  }
  {
    Object elf;
    elf.symbol(elf.f).st_name = 4000;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "name of a symbol", "4000");
  }
  {
    Object elf;
    elf.add_symbol("f", STB_GLOBAL, STT_FUNC, elf.text, 4, 1);
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "two global functions", "'f'");
  }
  {
    Object elf;
    elf.section(elf.add_section(".symtab", SHT_SYMTAB, 0, {})).sh_entsize = 24;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "two symbol tables");
  }
}

TEST(ObjectRefusal, Relocations) {
  const auto refuse = [](uint64_t offset, uint32_t symbol, uint32_t type, int64_t addend,
                         ErrorCode code, std::string word) {
    Object elf;
    elf.add_relocation(elf.text, offset, symbol, type, addend);
    EXPECT_REFUSED(elf, code, word, "'.text'");
  };
  refuse(0, 1, R_X86_64_GOTPCREL, 0, ErrorCode::kUnsupported, "relocation type 9 ");
  refuse(0, 1, R_X86_64_32, 0, ErrorCode::kUnsupported, "relocation type 10 ");
  refuse(0, 1, 0xffffffff, 0, ErrorCode::kUnsupported, "relocation type 4294967295 ");
  refuse(5, 1, R_X86_64_PC32, 0, ErrorCode::kInvalidArgument, "relocation at 5");
  refuse(1, 1, R_X86_64_64, 0, ErrorCode::kInvalidArgument, "relocation at 1");
  refuse(~uint64_t{0}, 1, R_X86_64_64, 0, ErrorCode::kInvalidArgument, "outside section");
  refuse(0, 50, R_X86_64_PC32, 0, ErrorCode::kInvalidArgument, "symbol 50");
  refuse(0, 0, R_X86_64_PC32, 0, ErrorCode::kUnsupported, "in no loaded section");
  refuse(0, 1, R_X86_64_PLT32, int64_t{1} << 40, ErrorCode::kUnsupported, "does not reach");
  refuse(0, 1, R_X86_64_PC32, INT64_MIN, ErrorCode::kUnsupported, "does not reach");
}

TEST(ObjectRefusal, RelocationTables) {
  {
    Object elf;
    elf.section(elf.add_relocation(elf.text, 0, elf.f, R_X86_64_PC32, 0)).sh_type = SHT_REL;
    EXPECT_REFUSED(elf, ErrorCode::kUnsupported, "REL", "'.text'");
  }
  {
    Object elf;
    elf.section(elf.add_relocation(elf.text, 0, elf.f, R_X86_64_PC32, 0)).sh_info = 1000;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "section 1000");
  }
  {
    Object elf;
    elf.section(elf.add_relocation(elf.text, 0, elf.f, R_X86_64_PC32, 0)).sh_link = 1;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "symbol table 1", "'.text'");
  }
  {
    Object elf;
    elf.section(elf.add_relocation(elf.text, 0, elf.f, R_X86_64_PC32, 0)).sh_entsize = 16;
    EXPECT_REFUSED(elf, ErrorCode::kInvalidArgument, "16", "'.text'");
  }
}

TEST(ObjectRefusal, RealCompilerOutputWithVariablesAndOpenCalls) {
  EXPECT_ERROR(load_object(compile_for_test("int counter = 3; int f(void) { return ++counter; }"),
                           "variable"),
               ErrorCode::kUnsupported, "'.data'", "writable");
  EXPECT_ERROR(load_object(compile_for_test("static int n; int f(void) { return ++n; }"), "zeroed"),
               ErrorCode::kUnsupported, "'.bss'");
  EXPECT_ERROR(
      load_object(compile_for_test("double sin(double); double f(double x) { return sin(x); }"),
                  "open"),
      ErrorCode::kUnsupported, "undefined symbol 'sin'");
}

}  // namespace
}  // namespace tenon::cpu
