// Arrays in host memory: the inputs of a benchmark as peers read them, and peers' outputs. Every
// page is written before anything is timed: pages that were never written all are the kernel's one
// zero page, and reading them never misses a cache. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tenon/ir/node.h"

namespace tenon::bench {

/// Which values an array holds, each by its position and the array's number.
enum class Fill : uint8_t {
  kPoison,   ///< bytes 0xa5: an output that was not written is seen
  kUniform,  ///< floats in [-1,1), 23 random bits; integers over their whole range but the lowest
  kSixteenths,  ///< floats k/16, k in [-8,8]: sums of millions of them are exact
};

/// Owns memory that starts on a huge page where the system has them.
class HostArray {
 public:
  HostArray(DType dtype, Shape shape, Fill fill, uint64_t number = 0);
  ~HostArray();
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return size_; }
  int64_t size_bytes() const { return size_ * dtype_size_bytes(dtype_); }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes())}; }
  /// Element i of f32, bf16, i8 or i32.
  double at(int64_t i) const { return element(data_, dtype_, i); }
  void poison() { std::memset(data_, 0xa5, static_cast<size_t>(size_bytes())); }

  /// Element i of any array of those dtypes.
  static double element(const std::byte* data, DType dtype, int64_t i);

 private:
  DType dtype_;
  Shape shape_;
  int64_t size_;
  std::byte* data_ = nullptr;
};

}  // namespace tenon::bench
