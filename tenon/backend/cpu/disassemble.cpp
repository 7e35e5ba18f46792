// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/disassemble.h"

#include <optional>
#include <utility>
#include <vector>

#include "tenon/backend/cpu/spawn.h"
#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"

namespace tenon::cpu {

std::string disassemble_object(std::span<const std::byte> object, std::string_view symbol,
                               int llvm_version) {
  std::optional<std::string> tool = find_program(concat("llvm-objdump-", llvm_version));
  if (!tool) tool = find_program("llvm-objdump");
  TENON_CHECK(tool, ErrorCode::kNotFound, "disassembling '", symbol, "': no llvm-objdump-",
              llvm_version, " on PATH. Install it (apt-get install llvm-", llvm_version, ")");
  const std::vector<std::string> argv = {*tool,
                                         "-d",
                                         "--no-show-raw-insn",
                                         "--x86-asm-syntax=intel",
                                         concat("--disassemble-symbols=", symbol),
                                         "-"};
  const std::string_view input(reinterpret_cast<const char*>(object.data()), object.size());
  SpawnResult result = run_tool(argv, input);
  TENON_CHECK(result.exit_code <= 0, ErrorCode::kCompileFailed, "disassembling '", symbol,
              "' with '", *tool, "' failed (exit ", result.exit_code,
              "): ", trim(std::string_view(result.errors)));
  return std::move(result.output);
}

}  // namespace tenon::cpu
