// Random tensors from a counter-based generator: Philox4x32-10 over the position, as graph, so that
// any device computes them. Called by programs and nn/. rand is bit-equal on every device; randn is
// within kRandnUlp. SPDX-License-Identifier: MIT
//
// Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011; constants and test vectors of the Random123 library.

#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "tenon/tensor/tensor.h"

namespace tenon {

/// The block function: ten rounds of Philox4x32.
std::array<uint32_t, 4> philox4x32_10(const std::array<uint32_t, 4>& counter,
                                      const std::array<uint32_t, 2>& key);
/// The same as graph, elementwise on uint32 tensors of one shape.
std::array<Tensor, 4> philox4x32_10(const std::array<Tensor, 4>& counter,
                                    const std::array<Tensor, 2>& key);

/// Where streams come from: the key is the seed, and each call takes the next stream number, which
/// is the upper half of the counter. So two calls differ whatever is realised first, and a call's
/// values depend only on the seed and how many calls came before. Any thread may call.
class Generator {
 public:
  struct Stream {
    uint64_t seed;
    uint64_t number;
  };
  explicit Generator(uint64_t seed) : seed_(seed) {}
  /// Starts over with this seed.
  void reset(uint64_t seed);
  Stream next();

 private:
  std::mutex mutex_;
  uint64_t seed_;
  uint64_t next_number_ = 0;
};

/// The process's generator; its first seed is setting TENON_SEED.
Generator& default_generator();

struct RandomOptions {
  DType dtype = DType::kF32;       ///< a float dtype
  Device* device = nullptr;        ///< null: the thread's default
  Generator* generator = nullptr;  ///< null: default_generator()
};

/// Uniform in [0, 1): multiples of 2^-p, p the dtype's precision (24 bits for float32).
Tensor rand(const Shape& shape, const RandomOptions& options = {});

/// How far an element of a float32 randn may be from sqrt(-2 log(u)) * cos(t) or * sin(t), in units
/// in the last place. u in (0, 1] and t in [0, 2 pi) are the float32 numbers made of the random
/// words, bit-equal on every device. The bound follows from those of the parts (docs/ir.md), as
/// relative errors in units of 2^-24: log within 1.5 ulp gives 3, of which the square root leaves
/// half and adds 1 of its own; cos and sin within 2 ulp give 4; 6.5 together are at most 6.5 ulp of
/// the product, whose rounding adds 0.5. The rest is for what these leave out: products of errors,
/// and the wider spacing where the result rounds up to a power of two.
constexpr double kRandnUlp = 8;
/// Standard normal, by Box-Muller in float32 (float64 for float64); |x| <= 6.66 in float32.
/// Narrower dtypes are rounded from float32.
Tensor randn(const Shape& shape, const RandomOptions& options = {});

}  // namespace tenon
