// Source of the tile configuration: Intel SDM vol. 2A, LDTILECFG; of the permission: Linux,
// Documentation/arch/x86/xstate.rst. SPDX-License-Identifier: MIT

#include "bench/probe_units.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenon::bench {
namespace {

// Twelve chains, as in probe_kernels.h.

__attribute__((target("avx512f,avx512bf16"))) int64_t bf16_dots(int64_t steps) {
  const __m512bh x = (__m512bh)_mm512_set1_epi32(static_cast<int>(steps));
  __m512 a = _mm512_setzero_ps(), b = _mm512_setzero_ps(), c = _mm512_setzero_ps(),
         d = _mm512_setzero_ps(), e = _mm512_setzero_ps(), f = _mm512_setzero_ps();
  __m512 g = _mm512_setzero_ps(), h = _mm512_setzero_ps(), i = _mm512_setzero_ps(),
         j = _mm512_setzero_ps(), k = _mm512_setzero_ps(), l = _mm512_setzero_ps();
  for (int64_t i_step = 0; i_step < steps; ++i_step) {
    a = _mm512_dpbf16_ps(a, x, x), b = _mm512_dpbf16_ps(b, x, x);
    c = _mm512_dpbf16_ps(c, x, x), d = _mm512_dpbf16_ps(d, x, x);
    e = _mm512_dpbf16_ps(e, x, x), f = _mm512_dpbf16_ps(f, x, x);
    g = _mm512_dpbf16_ps(g, x, x), h = _mm512_dpbf16_ps(h, x, x);
    i = _mm512_dpbf16_ps(i, x, x), j = _mm512_dpbf16_ps(j, x, x);
    k = _mm512_dpbf16_ps(k, x, x), l = _mm512_dpbf16_ps(l, x, x);
    asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));
    asm volatile("" : "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));
  }
  const __m512 sum = a + b + c + d + e + f + g + h + i + j + k + l;
  return static_cast<int64_t>(_mm512_cvtss_f32(sum));
}

__attribute__((target("avx512f,avx512vnni"))) int64_t i8_dots(int64_t steps) {
  const __m512i x = _mm512_set1_epi32(static_cast<int>(steps));
  __m512i a = _mm512_setzero_si512(), b = _mm512_setzero_si512(), c = _mm512_setzero_si512(),
          d = _mm512_setzero_si512(), e = _mm512_setzero_si512(), f = _mm512_setzero_si512();
  __m512i g = _mm512_setzero_si512(), h = _mm512_setzero_si512(), i = _mm512_setzero_si512(),
          j = _mm512_setzero_si512(), k = _mm512_setzero_si512(), l = _mm512_setzero_si512();
  for (int64_t i_step = 0; i_step < steps; ++i_step) {
    a = _mm512_dpbusd_epi32(a, x, x), b = _mm512_dpbusd_epi32(b, x, x);
    c = _mm512_dpbusd_epi32(c, x, x), d = _mm512_dpbusd_epi32(d, x, x);
    e = _mm512_dpbusd_epi32(e, x, x), f = _mm512_dpbusd_epi32(f, x, x);
    g = _mm512_dpbusd_epi32(g, x, x), h = _mm512_dpbusd_epi32(h, x, x);
    i = _mm512_dpbusd_epi32(i, x, x), j = _mm512_dpbusd_epi32(j, x, x);
    k = _mm512_dpbusd_epi32(k, x, x), l = _mm512_dpbusd_epi32(l, x, x);
    asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));
    asm volatile("" : "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));
  }
  const __m512i sum = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;
  return _mm512_cvtsi512_si32(sum);
}

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((target("amx-tile"))) void start_tiles() {
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

// Four sums over two tiles of each side: the largest block that eight tiles hold.
__attribute__((target("amx-tile,amx-bf16"))) int64_t bf16_tiles(int64_t steps) {
  start_tiles();
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return steps;
}

__attribute__((target("amx-tile,amx-int8"))) int64_t i8_tiles(int64_t steps) {
  start_tiles();
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return steps;
}

}  // namespace

bool has_tiles() {
  // Tile instructions raise SIGILL until the process has asked for them.
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  static const bool is_granted = __builtin_cpu_supports("amx-tile") != 0 &&
                                 ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_granted;
}

UnitProbe bf16_unit_probe() {
  if (has_tiles() && __builtin_cpu_supports("amx-bf16")) {
    return {"AMX bf16", int64_t{4} * 16 * 16 * 32 * 2, bf16_tiles};
  }
  if (__builtin_cpu_supports("avx512bf16"))
    return {"vdpbf16ps", int64_t{12} * 16 * 2 * 2, bf16_dots};
  return {};
}

UnitProbe i8_unit_probe() {
  if (has_tiles() && __builtin_cpu_supports("amx-int8")) {
    return {"AMX int8", int64_t{4} * 16 * 16 * 64 * 2, i8_tiles};
  }
  if (__builtin_cpu_supports("avx512vnni")) return {"vpdpbusd", int64_t{12} * 16 * 4 * 2, i8_dots};
  return {};
}

}  // namespace tenon::bench
