// SPDX-License-Identifier: MIT

#include "tenon/render/native_ops.h"

#include "tenon/base/text.h"

namespace tenon::detail {

namespace {

std::optional<std::string> why_no_cast(DType from, DType to, const Target& target) {
  const auto can = [&](DType dtype) { return dtype == DType::kBool || target.can_compute(dtype); };
  if (!(can(from) && can(to)) && !target.has_cast(from, to)) {
    return concat("cast from ", dtype_name(from), " to ", dtype_name(to),
                  " is not native in the Target. Run lower_dtypes before.");
  }
  const auto is_bits_only = [](DType dtype) {
    return is_float(dtype) && dtype_bits(dtype) <= 16 && dtype != DType::kF16;
  };
  if (is_bits_only(from) || is_bits_only(to)) {
    return concat("cast from ", dtype_name(from), " to ", dtype_name(to),
                  " has no exact instruction on this renderer");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_not_native(const LinearProgram& program, const Inst& inst,
                                          const Target& target) {
  if (inst.op == Op::kBitcast || inst.op == Op::kWhere) return std::nullopt;
  const DType dtype = program.type_of(program.operands_of(inst)[0]).dtype;
  if (inst.op == Op::kCast) return why_no_cast(dtype, inst.type.dtype, target);
  if (dtype != DType::kBool && !target.can_compute(dtype)) {
    return concat(op_name(inst.op), " of ", dtype_name(dtype),
                  ", which the Target does not compute with. Run lower_dtypes before.");
  }
  if (is_optional(inst.op) && !target.is_native(inst.op)) {
    return concat(op_name(inst.op), " of ", dtype_name(dtype),
                  " is not native in the Target. Decompose it before.");
  }
  return std::nullopt;
}

bool has_half_type(const Target& target) {
  return target.can_compute(DType::kF16) || target.has_cast(DType::kF16, DType::kF32) ||
         target.has_cast(DType::kF32, DType::kF16);
}

}  // namespace tenon::detail
