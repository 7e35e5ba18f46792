// SPDX-License-Identifier: MIT

#include "tenon/types/support.h"

#include <vector>

namespace tenon {
namespace {

struct LimitInfo {
  std::string_view field;
  std::string_view unit;
  std::string_view advice;
};

LimitInfo info_of(Limit limit) {
  switch (limit) {
    case Limit::kArguments:
      return {"max_arguments", "buffers", ". Call contiguous() on parts of the expression"};
    case Limit::kLanes: return {"max_lanes", "lanes in a group", ""};
    case Limit::kLocalBytes: return {"max_local_bytes", "bytes of group memory", ""};
    case Limit::kVectorBytes: return {"max_vector_bytes", "bytes in a vector", ""};
    case Limit::kGroups: return {"max_groups", "groups", ""};
    case Limit::kIndex: return {"has_i64_index", "as an index", ". Split the tensor"};
  }
  return {};
}

int64_t most_of(const Target& target, Limit limit) {
  switch (limit) {
    case Limit::kArguments: return target.max_arguments == 0 ? INT64_MAX : target.max_arguments;
    case Limit::kLanes: return target.max_lanes;
    case Limit::kLocalBytes: return target.max_local_bytes;
    case Limit::kVectorBytes: return target.max_vector_bytes;
    case Limit::kGroups: return target.max_groups;
    case Limit::kIndex: return target.has_i64_index ? INT64_MAX : INT32_MAX;
  }
  return 0;
}

}  // namespace

std::string to_text(const Reason& reason) {
  if (reason.limit.empty()) return reason.text;
  return concat(reason.text, "\n  field: ", reason.limit, ", wanted: ", reason.wanted,
                ", available: ", reason.available);
}

Support supports(const Target& target, Limit limit, int64_t wanted) {
  const int64_t most = most_of(target, limit);
  if (wanted <= most) return {};
  const LimitInfo info = info_of(limit);
  return Reason{.limit = std::string(info.field),
                .wanted = concat(wanted),
                .available = concat(most),
                .text = concat("needs ", wanted, " ", info.unit, "; the target has at most ", most,
                               " (", info.field, ")", info.advice)};
}

Support computes(const Target& target, DType dtype) {
  if (target.can_compute(dtype)) return {};
  return Reason{
      .dtype = dtype,
      .limit = "arithmetic",
      .wanted = std::string(dtype_name(dtype)),
      .available = field_text(target, "arithmetic"),
      .text = concat("the target does not compute with ", dtype_long_name(dtype), " (arithmetic)")};
}

Support has_native(const Target& target, Op op, DType dtype) {
  if (target.is_native(op)) return {};
  return Reason{.op = op,
                .dtype = dtype,
                .limit = "native_ops",
                .wanted = std::string(op_name(op)),
                .available = field_text(target, "native_ops"),
                .text = concat(op_name(op), " is not native on the target (native_ops)")};
}

}  // namespace tenon
