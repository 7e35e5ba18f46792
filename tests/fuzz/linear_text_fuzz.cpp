// Fuzz entry of the .tir parser: any bytes are a program or a kInvalidArgument; what was read
// prints, reads back as the same text, and can be verified. SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tenon::LinearProgram program;
  try {
    program = tenon::parse_linear(text, "fuzz");
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
    return 0;
  }
  tenon::verify_linear(program);
  const std::string printed = tenon::to_text(program);
  if (tenon::to_text(tenon::parse_linear(printed, "printed")) != printed) std::abort();
  return 0;
}
