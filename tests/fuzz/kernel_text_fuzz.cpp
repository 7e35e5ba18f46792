// Fuzz entry of the .tk parser: any bytes are a kernel or a kInvalidArgument, and what was read
// prints, reads back as the same kernel, can be verified and, where no rule is broken, lowered or
// refused. SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/codegen/codegen.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify.h"
#include "tests/support/test_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tenon::Kernel kernel;
  try {
    kernel = tenon::parse_kernel(text, "fuzz");
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
    return 0;
  }
  const std::string printed = tenon::to_text(kernel);
  const tenon::Kernel again = tenon::parse_kernel(printed, "printed");
  if (tenon::to_text(again) != printed) std::abort();
  if (!tenon::equal_kernels(again, tenon::renumber_axes(kernel))) std::abort();
  const auto stage = kernel.is_nest ? tenon::KernelStage::kNest : tenon::KernelStage::kComps;
  for (const tenon::Finding& finding : tenon::verify_kernel(kernel, stage))
    if (finding.severity == tenon::Severity::kError) return 0;
  try {
    tenon::lower_kernel(kernel, tenon::test::vector_target());
  } catch (const tenon::Error& error) {
    if (error.code() == tenon::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
