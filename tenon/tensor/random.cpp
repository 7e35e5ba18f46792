// Philox4x32-10 on the host and as graph, uniform and normal tensors. SPDX-License-Identifier: MIT

#include "tenon/tensor/random.h"

#include <cmath>
#include <numbers>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"

namespace tenon {
namespace {

// Random123, philox.h: multipliers and the key's Weyl increments.
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kNumRounds = 10;

struct Product {
  Tensor high, low;
};

// 32 x 32 -> 64 bits.
Product multiply_wide(const Tensor& x, uint32_t factor) {
  const Tensor wide = x.astype(DType::kU64) * uint64_t{factor};
  return {(wide >> 32).astype(DType::kU32), wide.astype(DType::kU32)};
}

uint32_t low_half(uint64_t x) {
  return static_cast<uint32_t>(x);
}

uint32_t high_half(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

// `num_blocks` blocks of one stream: four tensors (num_blocks). Seed and stream number are data, so
// that calls share their kernel.
std::array<Tensor, 4> random_blocks(int64_t num_blocks, const RandomOptions& options) {
  Generator& generator = options.generator != nullptr ? *options.generator : default_generator();
  const auto [seed, number] = generator.next();
  const uint32_t words[] = {low_half(number), high_half(number), low_half(seed), high_half(seed)};
  const Tensor state =
      Tensor::from_data(words, {4}, {.dtype = DType::kU32, .device = options.device});
  const Shape shape{num_blocks};
  const auto word = [&](int64_t i) { return state.shrink({{i, i + 1}}).broadcast_to(shape); };
  const Tensor block(detail::position_node(shape, 0));
  // A block number is below 2^62: its upper half comes from 64 bits only if it can be other than 0.
  const Tensor high = block.dtype() == DType::kI64
                          ? (block.astype(DType::kU64) >> 32).astype(DType::kU32)
                          : Tensor(detail::full_node(DType::kU32, 0, shape));
  return philox4x32_10({block.astype(DType::kU32), high, word(0), word(1)}, {word(2), word(3)});
}

int64_t num_blocks_for(int64_t count, int64_t per_block) {
  return count / per_block + (count % per_block != 0 ? 1 : 0);
}

// Elements k of all blocks, one block after the other, cut to `shape`.
Tensor interleaved(const std::vector<Tensor>& elements, const Shape& shape) {
  return stack(elements, 1).flatten().shrink({{0, num_elements(shape)}}).reshape(shape);
}

// Two words as one, the first below.
Tensor joined(const Tensor& low, const Tensor& high) {
  return low.astype(DType::kU64) | (high.astype(DType::kU64) << 32);
}

// The top `precision` bits of each word as a multiple of 2^-precision.
Tensor uniform(const Tensor& word, int precision, DType dtype) {
  const int width = dtype_bits(word.dtype());
  return (word >> (width - precision)).astype(dtype) * std::ldexp(1.0, -precision);
}

// Box-Muller: two words to two independent normals. The first word keeps all of its bits, so that
// small uniforms, which make the tails, are fine-grained.
std::array<Tensor, 2> normal_pair(const Tensor& first, const Tensor& second, DType dtype) {
  const int width = dtype_bits(first.dtype());
  const int precision = float_format(dtype).mantissa_bits + 1;
  const Tensor above_zero = (first.astype(dtype) + 1) * std::ldexp(1.0, -width);  // (0, 1]
  const Tensor radius = (above_zero.log() * -2.0).sqrt();
  const Tensor angle = uniform(second, precision, dtype) * (2 * std::numbers::pi);
  return {radius * angle.cos(), radius * angle.sin()};
}

void check_float(std::string_view name, DType dtype) {
  TENON_CHECK(is_float(dtype), ErrorCode::kInvalidArgument, name, ": dtype ",
              dtype_long_name(dtype), " is not a float. Scale the result and use astype");
}

}  // namespace

std::array<uint32_t, 4> philox4x32_10(const std::array<uint32_t, 4>& counter,
                                      const std::array<uint32_t, 2>& key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < kNumRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c0;
    const uint64_t p1 = uint64_t{kMultiplier1} * c2;
    c0 = high_half(p1) ^ c1 ^ k0;
    c1 = low_half(p1);
    c2 = high_half(p0) ^ c3 ^ k1;
    c3 = low_half(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

std::array<Tensor, 4> philox4x32_10(const std::array<Tensor, 4>& counter,
                                    const std::array<Tensor, 2>& key) {
  auto [c0, c1, c2, c3] = counter;
  const auto round_key = [&](size_t i, uint32_t weyl, int round) {
    const uint32_t offset = weyl * static_cast<uint32_t>(round);
    return offset == 0 ? key[i] : key[i] + offset;
  };
  for (int round = 0; round < kNumRounds; ++round) {
    const Product p0 = multiply_wide(c0, kMultiplier0);
    const Product p1 = multiply_wide(c2, kMultiplier1);
    c0 = p1.high ^ c1 ^ round_key(0, kWeyl0, round);
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ round_key(1, kWeyl1, round);
    c3 = p0.low;
  }
  return {c0, c1, c2, c3};
}

void Generator::reset(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  next_number_ = 0;
}

Generator::Stream Generator::next() {
  const std::lock_guard lock(mutex_);
  return {seed_, next_number_++};
}

Generator& default_generator() {
  // Leaked on purpose: tensors may be made while other statics are destroyed.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static auto* const generator = new Generator(static_cast<uint64_t>(setting_int(Setting::kSeed)));
  return *generator;
}

Tensor rand(const Shape& shape, const RandomOptions& options) {
  check_float("rand", options.dtype);
  const int precision = float_format(options.dtype).mantissa_bits + 1;
  const bool is_double = options.dtype == DType::kF64;
  const auto w = random_blocks(num_blocks_for(num_elements(shape), is_double ? 2 : 4), options);
  std::vector<Tensor> words(w.begin(), w.end());
  if (is_double) words = {joined(w[0], w[1]), joined(w[2], w[3])};
  return uniform(interleaved(words, shape), precision, options.dtype);
}

Tensor randn(const Shape& shape, const RandomOptions& options) {
  check_float("randn", options.dtype);
  const bool is_double = options.dtype == DType::kF64;
  const auto w = random_blocks(num_blocks_for(num_elements(shape), is_double ? 2 : 4), options);
  std::vector<Tensor> normals;
  if (is_double) {
    const auto [a, b] = normal_pair(joined(w[0], w[1]), joined(w[2], w[3]), DType::kF64);
    normals = {a, b};
  } else {
    const auto [a, b] = normal_pair(w[0], w[1], DType::kF32);
    const auto [c, d] = normal_pair(w[2], w[3], DType::kF32);
    normals = {a, b, c, d};
  }
  return interleaved(normals, shape).astype(options.dtype);
}

}  // namespace tenon
