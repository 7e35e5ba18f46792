// The probes for SSE2. Compiled with its flags: nothing else belongs into this file.
// SPDX-License-Identifier: MIT

#include <immintrin.h>

#include "bench/probe_kernels.h"

namespace tenon::bench {
namespace {

struct Vectors {
  using Vector = __m128;
  static constexpr int64_t kFloats = 4;
  static Vector load(const float* x) { return _mm_load_ps(x); }
  static void store(float* y, Vector value) { _mm_store_ps(y, value); }
  static void stream(float* y, Vector value) { _mm_stream_ps(y, value); }
  static void fence() { _mm_sfence(); }
  static Vector fill(float value) { return _mm_set1_ps(value); }
  static Vector add(Vector a, Vector b) { return _mm_add_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) {
    return _mm_add_ps(_mm_mul_ps(a, b), c);
  }
  static float sum(Vector value) {
    float lanes[kFloats];
    _mm_storeu_ps(lanes, value);
    float total = 0;
    for (const float lane : lanes)
      total += lane;
    return total;
  }
  static void keep(Vector& a, Vector& b, Vector& c, Vector& d, Vector& e, Vector& f) {
    asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f));
  }
  static const volatile float* half() {
    static const volatile float value = 0.5F;
    return &value;
  }
};

}  // namespace

constexpr ProbeKernels kBaselineProbes = ProbeLoops<Vectors>::kernels("SSE2");

}  // namespace tenon::bench
