// SPDX-License-Identifier: MIT

#include "tenon/rules/supports.h"

#include <initializer_list>
#include <vector>

#include "tenon/rules/lower_dtypes.h"

namespace tenon {
namespace {

// What an op needs dtypes for, those that the Target lacks in the text's order.
Support with_arithmetic(const Target& target, Op op, DType dtype, std::string_view why,
                        std::initializer_list<DType> needed) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> words;
  bool has_all = true;
  for (const DType each : needed) {
    names.push_back(dtype_name(each));
    words.push_back(dtype_long_name(each));
    has_all = has_all && target.can_compute(each);
  }
  if (has_all) return {};
  return Reason{
      .op = op,
      .dtype = dtype,
      .limit = "arithmetic",
      .wanted = join(names, ","),
      .available = field_text(target, "arithmetic"),
      .text = concat(op_name(op), " on ", dtype_long_name(dtype), ": ", why, join(words, ", "),
                     " arithmetic, which the target lacks (arithmetic)")};
}

// What no decomposition does, whatever the Target.
Reason not_decomposed(Op op, DType dtype, std::string_view available, const std::string& text) {
  return {.op = op,
          .dtype = dtype,
          .limit = {},
          .wanted = std::string(dtype_name(dtype)),
          .available = std::string(available),
          .text = concat(op_name(op), " on ", dtype_long_name(dtype), ": ", text)};
}

Support supports_fma(const Target& target, DType dtype) {
  if (dtype == DType::kF64) {
    Reason reason = has_native(target, Op::kFma, dtype).reason();
    reason.text = concat("fma on float64: the target has no fused multiply-add (native_ops)");
    return reason;
  }
  if (dtype == DType::kF32 || !target.can_compute(dtype)) {
    return with_arithmetic(target, Op::kFma, dtype, "needs ", {DType::kF64});
  }
  return not_decomposed(Op::kFma, dtype, "f32", "only float32 is decomposed");
}

Support supports_bounded(const Target& target, Op op, DType dtype) {
  if (dtype == DType::kF64) {
    return not_decomposed(op, dtype, "f8e4m3,f8e5m2,f16,bf16,f32",
                          "only float32 and narrower are decomposed. Cast to float32");
  }
  Support basic =
      with_arithmetic(target, op, dtype, "needs ", {DType::kF32, DType::kI32, DType::kU32});
  const bool is_trigonometric = op == Op::kSin || op == Op::kCos || op == Op::kTan;
  if (!basic || !is_trigonometric) return basic;
  return with_arithmetic(target, op, dtype, "reducing large angles needs ",
                         {DType::kI64, DType::kU64, DType::kF64});
}

}  // namespace

Support supports(const Target& target, DType dtype) {
  if (dtype == DType::kIdx || target.can_compute(dtype)) return {};
  const bool is_emulated =
      is_narrow_float(dtype) && target.can_compute(DType::kF32) && target.can_compute(DType::kU32);
  if (is_emulated) return {};
  Reason reason = computes(target, dtype).reason();
  reason.text = concat(dtype_long_name(dtype), " is neither computed by target '", target.arch,
                       "' nor emulated (arithmetic). Cast to a dtype that it has");
  return reason;
}

Support supports(const Target& target, Op op, DType dtype) {
  if (Support values = supports(target, dtype); !values || !is_float(dtype)) return values;
  if (target.is_native(op) && target.can_compute(dtype)) return {};
  if (op == Op::kFma) return supports_fma(target, dtype);
  if (op == Op::kMulAcc4) return has_native(target, op, dtype);
  const DType lowered = target.can_compute(dtype) ? dtype : DType::kF32;
  if (op == Op::kSqrt && !(lowered != dtype && target.is_native(op))) {
    return with_arithmetic(target, op, lowered, "needs a square root, or ",
                           {unsigned_of_same_width(lowered)});
  }
  if (!is_bounded_class(op) || (lowered != dtype && target.is_native(op))) return {};
  return supports_bounded(target, op, lowered);
}

}  // namespace tenon
