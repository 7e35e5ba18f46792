// What stands beside a tensor in an expression: a weak scalar or another tensor. C++ literals
// become Scalars by themselves, so `x + 1` and `where(c, x, 0)` read as in Python; a scalar takes
// the dtype of the tensor it meets. Used by tensor/ and its callers. SPDX-License-Identifier: MIT

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/node.h"

namespace tenon {

class Tensor;

/// The C++ types that hold elements: bool, integers of 8 to 64 bits, float, double.
template <typename T>
concept Element = std::is_arithmetic_v<T> && !std::same_as<T, long double>;

/// The dtype of a C++ element type.
template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::floating_point<T>) {
    return sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  } else if constexpr (std::signed_integral<T>) {
    constexpr DType kBySize[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
    return kBySize[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
  } else {
    constexpr DType kBySize[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
    return kBySize[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
  }
}

/// A number without a dtype of its own; only its kind (bool, integer, float) takes part in
/// promotion.
class Scalar {
 public:
  template <Element T>
  Scalar(T value) {  // NOLINT(google-explicit-constructor): literals are scalars
    if constexpr (std::same_as<T, bool>) {
      value_ = value;
    } else if constexpr (std::floating_point<T>) {
      value_ = static_cast<double>(value);
    } else if constexpr (std::signed_integral<T>) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<uint64_t>(value);
    }
  }

  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_int() const { return !is_bool() && !is_float(); }
  /// The dtype where no tensor gives one: bool, int64 or float32.
  DType default_dtype() const;
  double to_double() const;
  /// The value in `dtype`, rounded once if that is a float. Throws kInvalidArgument, beginning with
  /// `where`, if an integer dtype cannot hold the value exactly.
  ScalarBits bits(std::string_view where, DType dtype) const;
  friend std::string to_string(const Scalar& scalar);

 private:
  std::variant<bool, int64_t, uint64_t, double> value_;
};

/// A tensor or a scalar, as arithmetic takes it.
class Operand {
 public:
  Operand(const Tensor& tensor);               // NOLINT(google-explicit-constructor): see the class
  Operand(Scalar scalar) : scalar_(scalar) {}  // NOLINT(google-explicit-constructor)
  template <Element T>
  Operand(T value) : scalar_(value) {}  // NOLINT(google-explicit-constructor)

  bool is_scalar() const { return !node_; }
  const Scalar& scalar() const { return scalar_; }
  /// Null if this is a scalar.
  const Node& node() const { return node_; }

 private:
  Node node_;
  Scalar scalar_{false};
};

}  // namespace tenon
