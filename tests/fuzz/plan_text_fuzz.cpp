// Fuzz entry of the parser of Plans: any bytes are a plan or a kInvalidArgument; what was read
// prints and reads back, and check_plan judges it without harm. SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/support/test_target.h"

namespace {

// A reduction, its rows read by a producer's reader, and an epilogue: something for every word.
constexpr std::string_view kKernel = R"(kernel k {
  out y: f32[8,12]
  in a: f32[8,10]
  in b: f32[10,12]
  tmp t: f32[8,12]
  tmp m: f32[8]
  m[r] max= a[r,c]  over r:8, c:10 red  start -inf_f32
  t[i,j] += a[i,k] * b[k,j]  over i:8, j:12, k:10 red  start 0f32
  y[p,q] = t[p,q] - m[p]  over p:8, q:12
})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& kernel = *new tenon::Kernel(tenon::parse_kernel(kKernel, "kernel"));
  tenon::Plan plan;
  try {
    plan = tenon::parse_plan({reinterpret_cast<const char*>(data), size}, kernel, "fuzz");
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
    return 0;
  }
  if (!(tenon::parse_plan(tenon::to_text(plan, kernel), kernel, "printed") == plan)) std::abort();
  tenon::check_plan(kernel, plan, tenon::test::vector_target());
  return 0;
}
