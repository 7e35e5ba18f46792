// The probes for AVX-512F. Compiled with its flags: nothing else belongs into this file.
// SPDX-License-Identifier: MIT

#include <immintrin.h>

#include "bench/probe_kernels.h"

namespace tenon::bench {
namespace {

struct Vectors {
  using Vector = __m512;
  static constexpr int64_t kFloats = 16;
  static Vector load(const float* x) { return _mm512_load_ps(x); }
  static void store(float* y, Vector value) { _mm512_store_ps(y, value); }
  static void stream(float* y, Vector value) { _mm512_stream_ps(y, value); }
  static void fence() { _mm_sfence(); }
  static Vector fill(float value) { return _mm512_set1_ps(value); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static float sum(Vector value) {
    float lanes[kFloats];
    _mm512_storeu_ps(lanes, value);
    float total = 0;
    for (const float lane : lanes)
      total += lane;
    return total;
  }
  static void keep(Vector& a, Vector& b, Vector& c, Vector& d, Vector& e, Vector& f) {
    asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));
  }
  static const volatile float* half() {
    static const volatile float value = 0.5F;
    return &value;
  }
};

}  // namespace

constexpr ProbeKernels kAvx512Probes = ProbeLoops<Vectors>::kernels("AVX-512F");

}  // namespace tenon::bench
