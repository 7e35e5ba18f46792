// The largest rates of multiply-adds on narrow types: AVX-512's dot products and AMX's tiles. One
// thread each. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

namespace tenon::bench {

struct UnitProbe {
  const char* unit = nullptr;  ///< null: this CPU has none for the dtype
  int64_t ops_per_step = 0;
  int64_t (*run)(int64_t steps) = nullptr;
};

/// Whether the CPU has AMX and the kernel grants it.
bool has_tiles();

/// The fastest unit of this CPU for bf16 products summed in f32. Asks the kernel for AMX's tiles
/// where the CPU has them.
UnitProbe bf16_unit_probe();
/// The same for int8 products summed in int32.
UnitProbe i8_unit_probe();

}  // namespace tenon::bench
