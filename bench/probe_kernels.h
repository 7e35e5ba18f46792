// Loops that reach a limit of the machine, for one thread: multiply-adds from registers, reads,
// copies. The same text for three instruction sets; limits.cpp picks one at run time. Includes
// nothing that could put a function of a wide instruction set into the program twice.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

namespace tenon::bench {

/// Float counts are multiples of kProbeFloats; memory is aligned to 64 bytes. What a function
/// returns depends on all of its work, so that none is dropped.
struct ProbeKernels {
  const char* isa;
  int64_t flops_per_step;
  float (*multiply_add)(int64_t steps);
  float (*read)(const float* x, int64_t count);
  float (*read_streams)(const float* x, int64_t count);  ///< four places at once
  void (*copy)(const float* x, float* y, int64_t count);
  void (*copy_streamed)(const float* x, float* y, int64_t count);  ///< non-temporal stores
  void (*store_streamed)(float* y, int64_t count);
};

inline constexpr int64_t kProbeFloats = 256;

extern const ProbeKernels kBaselineProbes;
extern const ProbeKernels kAvx2Probes;
extern const ProbeKernels kAvx512Probes;

// 12 chains hide the latency of two multiply-adds a cycle at up to 6 cycles each.
inline constexpr int kProbeChains = 12;

/// V: Vector, kFloats, load, store, stream, fill, add, multiply_add, sum; a type of an anonymous
/// namespace, so that each instruction set has functions of its own.
template <typename V>
struct ProbeLoops {
  using Vector = typename V::Vector;

  static float multiply_add(int64_t steps) {
    const Vector scale = V::fill(*V::half());
    const Vector one = V::fill(*V::half() * 2);
    Vector a = one, b = one, c = one, d = one, e = one, f = one;
    Vector g = one, h = one, i = one, j = one, k = one, l = one;
    for (int64_t step = 0; step < steps; ++step) {
      a = V::multiply_add(a, scale, one), b = V::multiply_add(b, scale, one);
      c = V::multiply_add(c, scale, one), d = V::multiply_add(d, scale, one);
      e = V::multiply_add(e, scale, one), f = V::multiply_add(f, scale, one);
      g = V::multiply_add(g, scale, one), h = V::multiply_add(h, scale, one);
      i = V::multiply_add(i, scale, one), j = V::multiply_add(j, scale, one);
      k = V::multiply_add(k, scale, one), l = V::multiply_add(l, scale, one);
      V::keep(a, b, c, d, e, f);  // twelve equal chains would become one
      V::keep(g, h, i, j, k, l);
    }
    const Vector left = V::add(V::add(V::add(a, b), V::add(c, d)), V::add(e, f));
    const Vector right = V::add(V::add(V::add(g, h), V::add(i, j)), V::add(k, l));
    return V::sum(V::add(left, right));
  }

  /// Reads four vectors at a distance of `stride` floats, `count / 4` floats of each.
  static float read_four(const float* x, int64_t count, int64_t stride, int64_t step) {
    Vector a = V::fill(0), b = a, c = a, d = a;
    const float* const end = x + count;
    for (; x < end; x += step) {
      a = V::add(a, V::load(x));
      b = V::add(b, V::load(x + stride));
      c = V::add(c, V::load(x + 2 * stride));
      d = V::add(d, V::load(x + 3 * stride));
    }
    return V::sum(V::add(V::add(a, b), V::add(c, d)));
  }
  static float read(const float* x, int64_t count) {
    return read_four(x, count, V::kFloats, 4 * V::kFloats);
  }
  static float read_streams(const float* x, int64_t count) {
    return read_four(x, count / 4, count / 4, V::kFloats);
  }

  static void copy(const float* x, float* y, int64_t count) {
    for (int64_t i = 0; i < count; i += 2 * V::kFloats) {
      V::store(y + i, V::load(x + i));
      V::store(y + i + V::kFloats, V::load(x + i + V::kFloats));
    }
  }
  static void copy_streamed(const float* x, float* y, int64_t count) {
    for (int64_t i = 0; i < count; i += 2 * V::kFloats) {
      V::stream(y + i, V::load(x + i));
      V::stream(y + i + V::kFloats, V::load(x + i + V::kFloats));
    }
    V::fence();
  }
  static void store_streamed(float* y, int64_t count) {
    const Vector value = V::fill(*V::half());
    for (int64_t i = 0; i < count; i += V::kFloats)
      V::stream(y + i, value);
    V::fence();
  }

  static constexpr ProbeKernels kernels(const char* isa) {
    return {isa,           2 * kProbeChains * V::kFloats,
            multiply_add,  read,
            read_streams,  copy,
            copy_streamed, store_streamed};
  }
};

}  // namespace tenon::bench
