// SPDX-License-Identifier: MIT

#include "bench/host_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "bench/draw.h"
#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t rounded_up(int64_t size_bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  const size_t unit = size < kHugePage ? 64 : kHugePage;
  return (size + unit - 1) / unit * unit;
}

template <typename T>
void put(std::byte* data, int64_t i, T value) {
  std::memcpy(data + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
}

void put_float(std::byte* data, DType dtype, int64_t i, float value) {
  if (dtype == DType::kF32) {
    put(data, i, value);
    return;
  }
  TENON_ASSERT(dtype == DType::kBF16, "host array: no floats of ", dtype_name(dtype));
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put(data, i, static_cast<uint16_t>(bits >> 16));  // cut off: which bf16 it is does not matter
}

}  // namespace

HostArray::HostArray(DType dtype, Shape shape, Fill fill, uint64_t number)
    : dtype_(dtype), shape_(std::move(shape)), size_(num_elements(shape_)) {
  const size_t size = rounded_up(size_bytes());
  data_ = static_cast<std::byte*>(std::aligned_alloc(size < kHugePage ? 64 : kHugePage, size));
  if (data_ == nullptr) throw std::bad_alloc();
  if (size >= kHugePage) ::madvise(data_, size, MADV_HUGEPAGE);  // a hint: failing changes nothing
  poison();
  if (fill == Fill::kPoison) return;
  uint64_t state = number * 0x1000003U + 1;
  for (int64_t i = 0; i < size_; ++i) {
    const uint64_t bits = next_random(state);
    if (fill == Fill::kSixteenths) {
      put_float(data_, dtype, i, static_cast<float>(static_cast<int>(bits % 17) - 8) / 16);
    } else if (dtype == DType::kI8) {
      put(data_, i, static_cast<int8_t>(static_cast<int>(bits % 255) - 127));
    } else {
      const auto uniform = static_cast<float>(bits >> 41) * 0x1p-22F;
      put_float(data_, dtype, i, uniform - 1);
    }
  }
}

HostArray::~HostArray() {
  std::free(data_);
}

double HostArray::element(const std::byte* data, DType dtype, int64_t i) {
  const std::byte* const at = data + i * dtype_size_bytes(dtype);
  if (dtype == DType::kI8) return static_cast<int8_t>(*at);
  if (dtype == DType::kI32) {
    int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint32_t bits = 0;
  if (dtype == DType::kBF16) {
    uint16_t high = 0;
    std::memcpy(&high, at, sizeof high);
    bits = static_cast<uint32_t>(high) << 16;
  } else {
    TENON_ASSERT(dtype == DType::kF32, "host array: no elements of ", dtype_name(dtype));
    std::memcpy(&bits, at, sizeof bits);
  }
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace tenon::bench
