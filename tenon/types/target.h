// Target: what codegen and renderers may assume of a device, as plain data. A field is here because
// a pass, a verifier or a renderer reads it. Never a device's name: two devices with equal Targets
// get equal programs. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/types/dtype.h"
#include "tenon/types/matrix_unit.h"
#include "tenon/types/op.h"

namespace tenon {

/// Set of dtypes as a bit mask over their numbers.
struct DTypeSet {
  uint32_t bits = 0;
  bool has(DType dtype) const { return (bits >> static_cast<int>(dtype) & 1U) != 0; }
  void add(DType dtype) { bits |= 1U << static_cast<int>(dtype); }
  friend bool operator==(const DTypeSet&, const DTypeSet&) = default;
};

struct NativeCast {
  DType from;
  DType to;
  friend bool operator==(const NativeCast&, const NativeCast&) = default;
};

/// A data cache of the machine.
struct CacheLevel {
  int64_t bytes = 0;
  int ways = 1;     ///< lines that agree in their address modulo bytes / ways and fit
  int threads = 1;  ///< that share it
  int speed = 1;    ///< bytes a nanosecond that one thread reads from it
  friend bool operator==(const CacheLevel&, const CacheLevel&) = default;
};

/// What the tiles of the units on tiles take.
struct TileFacts {
  int registers = 0;  ///< tiles at once; 0: nothing has tiles
  int rate = 1;       ///< products of tiles that one thread does in a microsecond
  int chains = 1;     ///< that must not depend on each other for that rate
  friend bool operator==(const TileFacts&, const TileFacts&) = default;
};

/// A law that a device does not keep, and by how much it may differ (docs/ir.md, Deviations).
struct Deviation {
  enum class Kind : uint8_t {
    kFlush,      ///< f32 denormals that are read or made may count as zeros of their sign
    kUnitFlush,  ///< the same in sums of products that matrix units take; follows from `units`
    kUlp,        ///< the native `op` is within `ulp` units in the last place, not bounded_ulp
  };
  Kind kind = Kind::kFlush;
  Op op = Op::kExp2;
  int ulp = 0;
  friend bool operator==(const Deviation&, const Deviation&) = default;
};

/// "flush_f32", "flush_units", "exp2:3": as in the Target's text and in reports.
std::string to_text(const Deviation& deviation);

struct Target {
  std::string arch;                   ///< "x86_64", ...
  std::vector<std::string> features;  ///< instruction sets by the field's names, sorted

  DTypeSet arithmetic;  ///< dtypes that programs may compute with (others: lower_dtypes)
  std::vector<NativeCast>
      extra_casts;             ///< casts from or to dtypes outside `arithmetic`, in hardware
  std::vector<Op> native_ops;  ///< those that is_optional(op), done by the device
  bool fuses_mulacc = false;   ///< mulacc is one rounding (else two)

  std::vector<MatrixUnit> units;  ///< the linear level names them by position
  /// What is not as docs/ir.md says, beside what units do: the oracle leaves it open.
  std::vector<Deviation> deviations;

  int max_vector_bytes = 0;               ///< widest vector; 0: scalars only
  int64_t max_local_bytes = 0;            ///< group memory of one group
  int64_t max_lanes = 1;                  ///< lanes of one group
  int64_t max_groups = int64_t{1} << 40;  ///< groups of one launch
  int max_arguments = 0;
  bool has_i64_index = true;  ///< else indices beyond 2^31 are refused
  int threads = 1;            ///< groups that run at once

  // What plans are priced by.
  int vector_registers = 16;
  int scalar_registers = 16;
  int mulacc_rate = 1000;  ///< vectors that one thread multiplies and adds in a microsecond
  int mulacc_chains = 8;   ///< that must not depend on each other for that rate
  TileFacts tiles;
  std::vector<CacheLevel> caches;  ///< innermost first
  int line_bytes = 64;
  int memory_speed = 10;            ///< bytes a nanosecond that one thread reads
  int fork_ns = 1000;               ///< until all threads are at work
  int64_t bypass_bytes = 32 << 20;  ///< written bytes from which stores should pass by the caches

  /// Rows that are worth computing at once, so that a load of what they share serves them all: with
  /// two vectors of each, and a row of operands, they fill the registers.
  int64_t block_rows() const;
  bool can_compute(DType dtype) const { return arithmetic.has(dtype); }
  bool is_native(Op op) const;
  bool has_cast(DType from, DType to) const;
  friend bool operator==(const Target&, const Target&) = default;
};

/// What the Target declares and what its units do.
std::vector<Deviation> deviations_of(const Target& target);

/// One line, all fields in a fixed order: part of cache keys and of ProgramObject.
std::string to_text(const Target& target);
/// The inverse: takes exactly what to_text writes. Throws kInvalidArgument that names the field.
Target parse_target(std::string_view text);

/// Names of all fields, as in the text.
std::vector<std::string_view> target_fields();
/// The value of one of them, as in the text.
std::string field_text(const Target& target, std::string_view name);

/// The target with the fields that `text` names, "max_arguments=4,native_ops=sqrt+fma": numbers no
/// larger, lists without some of their items. Throws kInvalidArgument for what is no field, no
/// value, or more than there is.
Target shrink_target(const Target& target, std::string_view text);

}  // namespace tenon
