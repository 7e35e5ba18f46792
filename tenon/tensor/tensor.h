// Tensor, the public face of Tenon: a value of a shape and a dtype, computed when it is needed.
// Every method builds graph and checks shapes and dtypes at once; realize() and what reads elements
// compute. A Tensor is a value: copies are cheap and independent of later setitem or assign. Each
// Tensor belongs to one thread at a time; different ones need no lock. SPDX-License-Identifier: MIT
//
// Words are NumPy's and the Array API's. Axes may be negative (from the end). Binary methods
// broadcast by NumPy's rule and promote by tensor/promotion.h; scalars are weak. Everything throws
// kInvalidArgument for shapes and dtypes that do not fit, with both in the text.

#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/node.h"
#include "tenon/tensor/index.h"
#include "tenon/tensor/operand.h"

namespace tenon {

/// How a new tensor is made. No device: that of the calling thread (engine.h).
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  Device* device = nullptr;
};

struct AllAxes {};
inline constexpr AllAxes kAllAxes;

/// The axes of a reduction: `1`, `{0, -1}`, `{}` (none), kAllAxes.
class Axes {
 public:
  // NOLINTBEGIN(google-explicit-constructor): an argument of sum is written as what it is
  Axes(AllAxes /*all*/) : is_all_(true) {}
  Axes(int64_t axis) : list_({axis}) {}
  Axes(std::vector<int64_t> axes) : list_(std::move(axes)) {}
  Axes(std::initializer_list<int64_t> axes) : list_(axes) {}
  // NOLINTEND(google-explicit-constructor)
  bool is_all() const { return is_all_; }
  std::span<const int64_t> list() const { return list_; }

 private:
  std::vector<int64_t> list_;
  bool is_all_ = false;
};

struct ReduceOptions {
  bool keepdims = false;                      ///< reduced axes stay, with size 1
  std::optional<DType> dtype = std::nullopt;  ///< x is cast to it first; argmax: of the result
};

/// Elements before and after each axis.
using Pads = std::vector<std::pair<int64_t, int64_t>>;

class Tensor {
 public:
  /// No value: only assignment and is_null are allowed.
  Tensor() = default;
  explicit Tensor(Node node) : node_(std::move(node)) {}
  /// One and two dimensions from literals: `Tensor x = {1, 2, 3}` is int32.
  template <Element T>
  Tensor(std::initializer_list<T> values, const TensorOptions& options = {})
      : Tensor(from_span<T>({values.begin(), values.size()}, {std::ssize(values)}, options)) {}
  template <Element T>
  Tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& options = {});
  /// Row-major elements, copied to the device at once; another dtype in `options` converts them.
  template <Element T>
  static Tensor from_span(std::span<const T> values, const Shape& shape,
                          const TensorOptions& options = {}) {
    return from_bytes(std::as_bytes(values), dtype_of<T>(), shape, options);
  }
  /// The same for a vector, array or other contiguous range (not std::vector<bool>).
  template <std::ranges::contiguous_range Values>
  static Tensor from_data(const Values& values, const Shape& shape,
                          const TensorOptions& options = {}) {
    return from_span<std::ranges::range_value_t<Values>>(
        {std::ranges::data(values), std::ranges::size(values)}, shape, options);
  }
  /// The same for any dtype: dtype_size_bytes each, bool as 0 or 1.
  static Tensor from_bytes(std::span<const std::byte> bytes, DType dtype, const Shape& shape,
                           const TensorOptions& options = {});

  /// The same for bytes that `host.owner` keeps and nobody changes: a device that can read the
  /// host's memory does so in place if it begins at a multiple of 64 bytes (engine.h).
  static Tensor from_host(const HostBytes& host, DType dtype, const Shape& shape,
                          const TensorOptions& options = {});

  // What it is.
  bool is_null() const { return !node_; }
  /// The graph behind it; throws if null.
  const Node& node() const;
  Shape shape() const;
  int64_t dim(int64_t axis) const;  ///< size along one axis
  int64_t ndim() const;
  int64_t size() const;  ///< number of elements
  DType dtype() const;
  /// Where its value is or will be computed.
  Device& device() const;

  // From graph to values.
  /// Computes the value, now; the graph behind it is let go. A device with a queue of its own may
  /// be at work when it returns; failures are thrown as engine.h says of realize(). Returns this
  /// tensor.
  Tensor& realize();
  /// Computes the value and says that it stays, to be read again and again, as weights are: kernels
  /// of graphs that are built from this tensor afterwards may keep copies of it in the layouts that
  /// they read fastest, one for each layout, as large as the value, until it goes. The order in
  /// which sums are rounded may differ from that without. Returns this tensor.
  Tensor& set_constant();
  /// Elements in row-major order. T must be the C++ type of the dtype; both are named if not.
  template <Element T>
  std::vector<T> to_vector() const;
  /// The only element of a tensor of size 1.
  template <Element T>
  T item() const;
  /// Elements of any dtype, row-major.
  std::vector<std::byte> to_bytes() const;
  Tensor to(Device& device) const;
  Tensor to(std::string_view device) const { return to(Device::get(device)); }
  /// The same value, stored: a kernel boundary. A part of a tensor by index and reshape may share
  /// the whole's memory, and keeps it, once realized; this has memory of its own.
  Tensor contiguous() const;
  Tensor astype(DType dtype) const;   ///< conversions of docs/ir.md: saturating, NaN to 0
  Tensor bitcast(DType dtype) const;  ///< the same bits; widths must be equal

  // Movement: no arithmetic, no copy. Shapes in comments are x -> result.
  Tensor reshape(const Shape& shape) const;  ///< one dim may be -1
  Tensor flatten() const;                    ///< (A,B,...) -> (A*B*...)
  Tensor permute(const std::vector<int64_t>& axes) const;
  Tensor transpose() const;  ///< (A,B,C) -> (C,B,A)
  Tensor swapaxes(int64_t axis1, int64_t axis2) const;
  Tensor matrix_transpose() const;  ///< (...,M,N) -> (...,N,M)
  Tensor squeeze(const Axes& axes = kAllAxes) const;
  Tensor expand_dims(int64_t axis) const;  ///< `axis` counts in the result
  Tensor broadcast_to(const Shape& shape) const;
  Tensor flip(const Axes& axes = kAllAxes) const;
  Tensor pad(const Pads& pads, Scalar value = 0) const;
  Tensor shrink(const std::vector<std::pair<int64_t, int64_t>>& ranges) const;  ///< [begin, end)
  /// Overlapping windows: (..., D, ...) -> (..., positions, ..., size); out[p, w] = x[p * step + w
  /// * dilation] along `axis`.
  Tensor window(int64_t axis, int64_t size, int64_t step = 1, int64_t dilation = 1) const;
  Tensor getitem(const Index& index) const;
  Tensor operator[](int64_t i) const { return getitem({i}); }
  /// This handle becomes x with x[index] replaced by `value` (cast and broadcast), which is read as
  /// it is before. Other handles keep their value.
  Tensor& setitem(const Index& index, const Operand& value);
  /// This handle takes `value`, which must have its shape and dtype.
  Tensor& assign(const Tensor& value);

  // Arithmetic. Integers wrap; add is or and mul is and for bool, which knows no sub, neg,
  // floordiv.
  friend Tensor operator+(const Operand& a, const Operand& b);
  friend Tensor operator-(const Operand& a, const Operand& b);
  friend Tensor operator*(const Operand& a, const Operand& b);
  friend Tensor operator/(const Operand& a, const Operand& b);  ///< true division; ints give f32
  friend Tensor operator%(const Operand& a, const Operand& b);  ///< remainder
  friend Tensor operator&(const Operand& a, const Operand& b);
  friend Tensor operator|(const Operand& a, const Operand& b);
  friend Tensor operator^(const Operand& a, const Operand& b);
  friend Tensor operator<<(const Operand& a, const Operand& b);
  friend Tensor operator>>(const Operand& a, const Operand& b);
  friend Tensor operator==(const Operand& a, const Operand& b);
  friend Tensor operator!=(const Operand& a, const Operand& b);
  friend Tensor operator<(const Operand& a, const Operand& b);
  friend Tensor operator<=(const Operand& a, const Operand& b);
  friend Tensor operator>(const Operand& a, const Operand& b);
  friend Tensor operator>=(const Operand& a, const Operand& b);
  Tensor operator-() const;
  Tensor operator~() const;  ///< bitwise; for bool: not
  // In place on this handle; the dtype must stay.
  Tensor& operator+=(const Operand& other);
  Tensor& operator-=(const Operand& other);
  Tensor& operator*=(const Operand& other);
  Tensor& operator/=(const Operand& other);

  // Integers only. Division by zero gives 0, INT_MIN / -1 gives INT_MIN.
  Tensor floor_divide(const Operand& other) const;
  Tensor remainder(const Operand& other) const;  ///< sign of the divisor
  Tensor trunc_divide(const Operand& other) const;
  Tensor fmod(const Operand& other) const;  ///< sign of the dividend

  Tensor minimum(const Operand& other) const;  ///< NaN wins
  Tensor maximum(const Operand& other) const;
  Tensor clip(const Operand& lo, const Operand& hi) const;  ///< min(max(x, lo), hi)
  Tensor logical_and(const Operand& other) const;
  Tensor logical_or(const Operand& other) const;
  Tensor logical_xor(const Operand& other) const;
  Tensor logical_not() const;

  Tensor abs() const;
  Tensor sign() const;  ///< -1, 0, 1; NaN stays
  Tensor square() const;
  Tensor reciprocal() const;
  Tensor relu() const;
  // Identity on integers.
  Tensor floor() const;
  Tensor ceil() const;
  Tensor trunc() const;
  Tensor round() const;  ///< ties to even
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  // Integers and bool become f32.
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor exp() const;
  Tensor exp2() const;
  Tensor log() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor tanh() const;
  Tensor sigmoid() const;

  // Reductions. f16, bf16 and f8 accumulate in f32 and come back rounded once.
  /// Bool and integers below 64 bits give int64 (unsigned: uint64) unless `dtype` says otherwise.
  Tensor sum(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  Tensor prod(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  /// NaN wins; over no elements there is none: kInvalidArgument.
  Tensor max(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  Tensor min(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  /// Integers and bool give f32. Narrow floats are computed in f32.
  Tensor mean(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  Tensor var(const Axes& axes = kAllAxes, double correction = 0,
             const ReduceOptions& options = {}) const;
  Tensor std(const Axes& axes = kAllAxes, double correction = 0,
             const ReduceOptions& options = {}) const;
  Tensor any(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  Tensor all(const Axes& axes = kAllAxes, const ReduceOptions& options = {}) const;
  /// First position of the largest (smallest) element, NaN counting as such; int64 unless `dtype`
  /// says otherwise. Without an axis: of the flattened tensor.
  Tensor argmax(std::optional<int64_t> axis = {}, const ReduceOptions& options = {}) const;
  Tensor argmin(std::optional<int64_t> axis = {}, const ReduceOptions& options = {}) const;

  /// Running sums along an axis (without one: of the flattened tensor), in the dtype that sum has.
  /// Log2(n) kernels over x: each adds the sums that lie 1, 2, 4, ... positions before.
  Tensor cumsum(std::optional<int64_t> axis = {}, std::optional<DType> dtype = {}) const;

  /// (...,M,K) x (...,K,N) -> (...,M,N), batches broadcast; 1-d sides are a row, a column. Narrow
  /// floats multiply and accumulate in f32. `dtype`: both sides are cast to it first (int8 sides
  /// with int32, say).
  Tensor matmul(const Tensor& other, std::optional<DType> dtype = {}) const;
  /// Of two 1-d tensors of one length.
  Tensor dot(const Tensor& other) const;

  /// NumPy's text of the value: "[1. 2. 3.]", long ones shortened.
  friend std::string to_string(const Tensor& x);
  friend std::ostream& operator<<(std::ostream& out, const Tensor& x);

 private:
  std::vector<std::byte> read_as(DType expected, std::string_view where) const;

  Node node_;
};

/// Elements of a where `condition` (bool) holds, else of b; no arithmetic.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
/// One after the other along an existing axis (other dims equal), along a new axis. Bits are kept.
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// Computes several in one schedule; like realize() on each.
void realize(std::initializer_list<Tensor*> tensors);
void realize(std::span<Tensor> tensors);

template <Element T>
Tensor::Tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& options) {
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  const auto values = std::make_unique<T[]>(rows.size() * columns);  // vector<bool> has no span
  size_t filled = 0;
  for (const auto& row : rows) {
    TENON_CHECK(row.size() == columns, ErrorCode::kInvalidArgument,
                "tensor: rows differ in length; the first has ", columns, ", another ", row.size());
    for (const T value : row)
      values[filled++] = value;
  }
  *this = from_span<T>({values.get(), filled}, {std::ssize(rows), static_cast<int64_t>(columns)},
                       options);
}

template <Element T>
std::vector<T> Tensor::to_vector() const {
  const std::vector<std::byte> bytes = read_as(dtype_of<T>(), "to_vector");
  std::vector<T> out(bytes.size() / sizeof(T));
  if constexpr (std::same_as<T, bool>) {
    for (size_t i = 0; i < bytes.size(); ++i)
      out[i] = bytes[i] != std::byte{0};
  } else if (!bytes.empty()) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  }
  return out;
}

template <Element T>
T Tensor::item() const {
  TENON_CHECK(size() == 1, ErrorCode::kInvalidArgument, "item: the tensor has ", size(),
              " elements, expected 1; its shape is ", shape());
  const std::vector<std::byte> bytes = read_as(dtype_of<T>(), "item");
  T out;
  std::memcpy(&out, bytes.data(), sizeof(T));
  return out;
}

}  // namespace tenon
