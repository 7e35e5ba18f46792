// The checked builders of tensor-graph nodes: each checks its arguments, works out the shape and
// interns the node as written. SPDX-License-Identifier: MIT

#include "tenon/ir/tensor_ops.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 62;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// The dims must multiply to at most 2^62 with zeros left out, so that strides never overflow.
int64_t checked_count(std::string_view where, ShapeView shape) {
  int64_t product = 1;
  bool has_zero = false;
  for (int64_t dim : shape) {
    TENON_CHECK(dim >= 0, kInvalid, where, ": negative dim ", dim, " in shape ",
                format_shape(shape));
    if (dim == 0) {
      has_zero = true;
      continue;
    }
    TENON_CHECK(dim <= kMaxElements / product, kInvalid, where, ": shape ", format_shape(shape),
                " has more than 2^62 elements");
    product *= dim;
  }
  return has_zero ? 0 : product;
}

int64_t check_shape(std::string_view where, ShapeView shape) {
  TENON_CHECK(shape.size() <= kMaxRank, kInvalid, where, ": rank ", shape.size(),
              " is over the limit of ", kMaxRank);
  return checked_count(where, shape);
}

void check_dtype(std::string_view where, DType dtype) {
  TENON_CHECK(dtype_from_number(static_cast<uint8_t>(dtype)).has_value(), kInvalid, where,
              ": no dtype has number ", static_cast<int>(dtype));
  TENON_CHECK(dtype_kind(dtype) != DTypeKind::kIndex, kInvalid, where,
              ": dtype idx has no storage and does not exist in tensor graphs");
}

void check_source(std::string_view where, const Node& x) {
  TENON_CHECK(x, kInvalid, where, ": a source is null");
  TENON_CHECK(has_level(x.op(), kTensorLevel), kInvalid, where, ": source is a ", op_name(x.op()),
              ", which does not exist in tensor graphs");
}

void check_axis(std::string_view where, int64_t axis, ShapeView shape) {
  TENON_CHECK(axis >= 0 && axis < std::ssize(shape), kInvalid, where, ": axis ", axis,
              " is out of range; x is ", format_shape(shape), " of rank ", shape.size());
}

void check_rank(std::string_view where, std::string_view what, std::span<const int64_t> list,
                ShapeView shape) {
  TENON_CHECK(list.size() == shape.size(), kInvalid, where, ": ", what, " ", format_shape(list),
              " has ", list.size(), " entries; x is ", format_shape(shape), " of rank ",
              shape.size());
}

void check_bits(std::string_view where, DType dtype, uint64_t bits) {
  TENON_CHECK(canonical_bits(dtype, bits) == bits, kInvalid, where, ": bits ", bits,
              " are not the canonical form of a ", dtype_name(dtype));
}

std::vector<int64_t> joined(std::span<const int64_t> a, std::span<const int64_t> b) {
  std::vector<int64_t> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

bool takes_any_dtype_but_bool(Op op) {
  return op == Op::kAdd || op == Op::kSub || op == Op::kMul || op == Op::kDiv || op == Op::kNeg ||
         op == Op::kAbs;
}

// The dtype of the result, after checking those of the sources. Every rule of op.def that an
// elementwise op of the tensor level has.
DType elementwise_dtype(Op op, std::span<const Node> srcs) {
  const std::string_view name = op_name(op);
  const DTypeRule rule = op_info(op).rule;
  const DType first = srcs[0].dtype();
  const size_t first_value = rule == DTypeRule::kWhere ? 1 : 0;
  const DType value = srcs[first_value].dtype();
  for (size_t i = first_value; i < srcs.size(); ++i) {
    TENON_CHECK(srcs[i].dtype() == value, kInvalid, name, ": dtypes differ; ", dtype_name(value),
                " and ", dtype_name(srcs[i].dtype()), ". Cast one of them");
  }
  switch (rule) {
    case DTypeRule::kSame:
      TENON_CHECK(value != DType::kBool || !takes_any_dtype_but_bool(op), kInvalid, name,
                  ": arithmetic on bool. Cast to an integer, or use and, or, xor");
      return value;
    case DTypeRule::kSameFloat:
      TENON_CHECK(is_float(value), kInvalid, name, ": wants a float dtype, got ",
                  dtype_name(value));
      return value;
    case DTypeRule::kSameInt:
      TENON_CHECK(is_int(value), kInvalid, name, ": wants an integer dtype, got ",
                  dtype_name(value));
      return value;
    case DTypeRule::kSameIntOrBool:
      TENON_CHECK(is_int(value) || value == DType::kBool, kInvalid, name,
                  ": wants an integer dtype or bool, got ", dtype_name(value));
      return value;
    case DTypeRule::kCompare: return DType::kBool;
    case DTypeRule::kTest:
      TENON_CHECK(is_float(value), kInvalid, name, ": wants a float dtype, got ",
                  dtype_name(value));
      return DType::kBool;
    case DTypeRule::kWhere:
      TENON_CHECK(first == DType::kBool, kInvalid, name, ": the condition is ", dtype_name(first),
                  ", expected bool");
      return value;
    case DTypeRule::kNone:
    case DTypeRule::kAttr: break;
  }
  fail(kInvalid, name, ": is not an elementwise op with a dtype rule of its own");
}

bool can_accumulate(DType dtype, DType accumulator) {
  if (dtype == accumulator) return true;
  return dtype_kind(dtype) == dtype_kind(accumulator) &&
         dtype_bits(accumulator) > dtype_bits(dtype);
}

}  // namespace

int64_t num_elements(ShapeView shape) {
  return checked_count("num_elements", shape);
}

Node tensor_buffer(DType dtype, ShapeView shape, const Ref<Attachment>& storage) {
  static std::atomic<int64_t> next_identity{1};
  check_dtype("buffer", dtype);
  check_shape("buffer", shape);
  const std::array attr{next_identity.fetch_add(1, std::memory_order_relaxed)};
  return make_node(Op::kBuffer, dtype, shape, {}, attr, storage.get());
}

Node tensor_const(DType dtype, uint64_t bits) {
  check_dtype("const", dtype);
  check_bits("const", dtype, bits);
  const std::array attr{static_cast<int64_t>(bits)};
  return make_node(Op::kConst, dtype, {}, {}, attr);
}

Node tensor_variable(int64_t id, int64_t min, int64_t max) {
  TENON_CHECK(min <= max, kInvalid, "variable: range is empty; min is ", min, ", max is ", max);
  const std::array attr{id, min, max};
  return make_node(Op::kVariable, DType::kI64, {}, {}, attr);
}

Node tensor_index(DType dtype, ShapeView shape, int64_t axis) {
  check_dtype("index", dtype);
  TENON_CHECK(is_int(dtype), kInvalid, "index: wants an integer dtype, got ", dtype_name(dtype));
  check_shape("index", shape);
  TENON_CHECK(axis >= 0 && axis < std::ssize(shape), kInvalid, "index: axis ", axis,
              " is out of range; shape is ", format_shape(shape));
  const int64_t dim = shape[static_cast<size_t>(axis)];
  TENON_CHECK(dim == 0 || static_cast<uint64_t>(dim - 1) <= int_max_bits(dtype), kInvalid,
              "index: position ", dim - 1, " does not fit ", dtype_name(dtype), "; shape is ",
              format_shape(shape), ". Use a wider dtype");
  const std::array attr{axis};
  return make_node(Op::kIndex, dtype, shape, {}, attr);
}

Node tensor_elementwise(Op op, std::span<const Node> srcs) {
  const OpInfo& info = op_info(op);
  TENON_CHECK(is_elementwise(op) && has_level(op, kTensorLevel), kInvalid, info.name,
              ": is not an elementwise op of tensor graphs");
  TENON_CHECK(op != Op::kCast && op != Op::kBitcast, kInvalid, info.name,
              ": needs a dtype. Use tensor_cast or tensor_bitcast");
  TENON_CHECK(std::ssize(srcs) == info.arity, kInvalid, info.name, ": takes ", info.arity,
              " sources, got ", srcs.size());
  for (const Node& src : srcs) {
    check_source(info.name, src);
    TENON_CHECK(std::ranges::equal(src.shape(), srcs[0].shape()), kInvalid, info.name,
                ": shapes differ; ", format_shape(srcs[0].shape()), " and ",
                format_shape(src.shape()), ". Reshape and expand to one shape");
  }
  return make_node(op, elementwise_dtype(op, srcs), srcs[0].shape(), srcs);
}

Node tensor_unary(Op op, const Node& x) {
  return tensor_elementwise(op, {&x, 1});
}

Node tensor_binary(Op op, const Node& a, const Node& b) {
  const std::array srcs{a, b};
  return tensor_elementwise(op, srcs);
}

Node tensor_where(const Node& condition, const Node& a, const Node& b) {
  const std::array srcs{condition, a, b};
  return tensor_elementwise(Op::kWhere, srcs);
}

Node tensor_cast(const Node& x, DType dtype) {
  check_source("cast", x);
  check_dtype("cast", dtype);
  return make_node(Op::kCast, dtype, x.shape(), {&x, 1});
}

Node tensor_bitcast(const Node& x, DType dtype) {
  check_source("bitcast", x);
  check_dtype("bitcast", dtype);
  TENON_CHECK(x.dtype() != DType::kBool && dtype != DType::kBool, kInvalid,
              "bitcast: ", dtype_name(x.dtype()), " to ", dtype_name(dtype),
              ": bool has no bits of its own. ", "Use cast");
  TENON_CHECK(dtype_bits(x.dtype()) == dtype_bits(dtype), kInvalid, "bitcast: widths differ; ",
              dtype_name(x.dtype()), " has ", dtype_bits(x.dtype()), " bits, ", dtype_name(dtype),
              " has ", dtype_bits(dtype));
  return make_node(Op::kBitcast, dtype, x.shape(), {&x, 1});
}

Node tensor_reshape(const Node& x, ShapeView shape) {
  check_source("reshape", x);
  const int64_t count = check_shape("reshape", shape);
  const int64_t source_count = num_elements(x.shape());
  TENON_CHECK(count == source_count, kInvalid, "reshape: element counts differ; x is ",
              format_shape(x.shape()), " with ", source_count, ", new shape is ",
              format_shape(shape), " with ", count);
  return make_node(Op::kReshape, x.dtype(), shape, {&x, 1});
}

Node tensor_permute(const Node& x, std::span<const int64_t> axes) {
  check_source("permute", x);
  check_rank("permute", "axes", axes, x.shape());
  Shape shape;
  std::vector<bool> seen(axes.size());
  for (int64_t axis : axes) {
    check_axis("permute", axis, x.shape());
    TENON_CHECK(!seen[static_cast<size_t>(axis)], kInvalid, "permute: axis ", axis,
                " appears twice in axes ", format_shape(axes), "; x is ", format_shape(x.shape()));
    seen[static_cast<size_t>(axis)] = true;
    shape.push_back(x.shape()[static_cast<size_t>(axis)]);
  }
  return make_node(Op::kPermute, x.dtype(), shape, {&x, 1}, axes);
}

Node tensor_expand(const Node& x, ShapeView shape) {
  check_source("expand", x);
  check_rank("expand", "shape", shape, x.shape());
  check_shape("expand", shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    TENON_CHECK(x.shape()[axis] == shape[axis] || x.shape()[axis] == 1, kInvalid, "expand: axis ",
                axis, " of size ", x.shape()[axis], " cannot become ", shape[axis], "; x is ",
                format_shape(x.shape()), ", new shape is ", format_shape(shape),
                ". Only axes of size 1 expand");
  }
  return make_node(Op::kExpand, x.dtype(), shape, {&x, 1});
}

Node tensor_pad(const Node& x, std::span<const int64_t> before, std::span<const int64_t> after,
                uint64_t fill_bits) {
  check_source("pad", x);
  check_rank("pad", "before", before, x.shape());
  check_rank("pad", "after", after, x.shape());
  check_bits("pad", x.dtype(), fill_bits);
  Shape shape(x.shape().begin(), x.shape().end());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    TENON_CHECK(before[axis] >= 0 && after[axis] >= 0, kInvalid, "pad: negative amount on axis ",
                axis, "; before is ", format_shape(before), ", after is ", format_shape(after),
                ", x is ", format_shape(x.shape()), ". Use shrink to cut");
    TENON_CHECK(before[axis] <= kMaxElements && after[axis] <= kMaxElements, kInvalid, "pad: axis ",
                axis, " would have more than 2^62 elements; before is ", format_shape(before),
                ", after is ", format_shape(after));
    // At most 2^62 each, so only the last sum can leave int64.
    const uint64_t padded = static_cast<uint64_t>(shape[axis]) +
                            static_cast<uint64_t>(before[axis]) +
                            static_cast<uint64_t>(after[axis]);
    TENON_CHECK(padded <= static_cast<uint64_t>(kMaxElements), kInvalid, "pad: axis ", axis,
                " would have more than 2^62 elements; before is ", format_shape(before),
                ", after is ", format_shape(after), ", x is ", format_shape(x.shape()));
    shape[axis] = static_cast<int64_t>(padded);
  }
  check_shape("pad", shape);
  std::vector<int64_t> attr = joined(before, after);
  attr.push_back(static_cast<int64_t>(fill_bits));
  return make_node(Op::kPad, x.dtype(), shape, {&x, 1}, attr);
}

Node tensor_shrink(const Node& x, std::span<const int64_t> begin, std::span<const int64_t> end) {
  check_source("shrink", x);
  check_rank("shrink", "begin", begin, x.shape());
  check_rank("shrink", "end", end, x.shape());
  Shape shape;
  for (size_t axis = 0; axis < begin.size(); ++axis) {
    TENON_CHECK(0 <= begin[axis] && begin[axis] <= end[axis] && end[axis] <= x.shape()[axis],
                kInvalid, "shrink: range ", begin[axis], "..", end[axis], " of axis ", axis,
                " is not inside 0..", x.shape()[axis], "; x is ", format_shape(x.shape()));
    shape.push_back(end[axis] - begin[axis]);
  }
  return make_node(Op::kShrink, x.dtype(), shape, {&x, 1}, joined(begin, end));
}

Node tensor_flip(const Node& x, std::span<const int64_t> flags) {
  check_source("flip", x);
  check_rank("flip", "flags", flags, x.shape());
  std::vector<int64_t> attr(flags.begin(), flags.end());
  for (int64_t& flag : attr)
    flag = flag != 0 ? 1 : 0;
  return make_node(Op::kFlip, x.dtype(), x.shape(), {&x, 1}, attr);
}

Node tensor_window(const Node& x, int64_t axis, int64_t size, int64_t step, int64_t dilation) {
  check_source("window", x);
  check_axis("window", axis, x.shape());
  TENON_CHECK(size >= 1 && step >= 1 && dilation >= 1, kInvalid,
              "window: size, step and dilation must be at least 1; got ", size, ", ", step, ", ",
              dilation, "; x is ", format_shape(x.shape()));
  Shape shape(x.shape().begin(), x.shape().end());
  int64_t& dim = shape[static_cast<size_t>(axis)];
  // size - 1 <= (dim - 1) / dilation says that the window fits, without overflow.
  const bool fits = dim >= 1 && size - 1 <= (dim - 1) / dilation;
  dim = fits ? (dim - dilation * (size - 1) - 1) / step + 1 : 0;
  shape.push_back(size);
  check_shape("window", shape);
  const std::array attr{axis, size, step, dilation};
  return make_node(Op::kWindow, x.dtype(), shape, {&x, 1}, attr);
}

Node tensor_reduce(Op op, const Node& x, std::span<const int64_t> axes, DType accumulator) {
  check_source("reduce", x);
  TENON_CHECK(is_combining(op), kInvalid, "reduce: ", op_name(op),
              " does not combine. Use add, mul, min, max, and, or");
  check_dtype("reduce", accumulator);
  const bool is_bitwise = op == Op::kAnd || op == Op::kOr;
  TENON_CHECK(!is_bitwise || !is_float(x.dtype()), kInvalid, "reduce: ", op_name(op),
              " wants an integer dtype or bool, got ", dtype_name(x.dtype()));
  TENON_CHECK(x.dtype() != DType::kBool || (op != Op::kAdd && op != Op::kMul), kInvalid,
              "reduce: ", op_name(op), " on bool. Cast to an integer, or use and, or");
  TENON_CHECK(can_accumulate(x.dtype(), accumulator), kInvalid, "reduce: accumulator ",
              dtype_name(accumulator), " is not ", dtype_name(x.dtype()),
              " or a wider dtype of its kind");
  Shape shape(x.shape().begin(), x.shape().end());
  std::vector<int64_t> sorted(axes.begin(), axes.end());
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    check_axis("reduce", sorted[i], x.shape());
    TENON_CHECK(i == 0 || sorted[i] != sorted[i - 1], kInvalid, "reduce: axis ", sorted[i],
                " appears twice in axes ", format_shape(axes), "; x is ", format_shape(x.shape()));
    shape[static_cast<size_t>(sorted[i])] = 1;
  }
  check_shape("reduce", shape);
  const std::array head{static_cast<int64_t>(op), static_cast<int64_t>(accumulator)};
  return make_node(Op::kReduce, x.dtype(), shape, {&x, 1}, joined(head, sorted));
}

Node tensor_contiguous(const Node& x) {
  check_source("contiguous", x);
  return make_node(Op::kContiguous, x.dtype(), x.shape(), {&x, 1});
}

Node tensor_copy(const Node& x, int64_t device) {
  check_source("copy", x);
  TENON_CHECK(device >= 0, kInvalid, "copy: device number ", device, " is negative");
  const std::array attr{device};
  return make_node(Op::kCopy, x.dtype(), x.shape(), {&x, 1}, attr);
}

Node tensor_assign(const Node& buffer, const Node& value) {
  check_source("assign", buffer);
  check_source("assign", value);
  TENON_CHECK(buffer.op() == Op::kBuffer, kInvalid, "assign: the target is a ",
              op_name(buffer.op()), ", expected a buffer");
  TENON_CHECK(std::ranges::equal(buffer.shape(), value.shape()), kInvalid,
              "assign: shapes differ; buffer is ", format_shape(buffer.shape()), ", value is ",
              format_shape(value.shape()));
  TENON_CHECK(buffer.dtype() == value.dtype(), kInvalid, "assign: dtypes differ; buffer is ",
              dtype_name(buffer.dtype()), ", value is ", dtype_name(value.dtype()));
  const std::array srcs{buffer, value};
  return make_node(Op::kAssign, buffer.dtype(), buffer.shape(), srcs);
}

}  // namespace tenon
