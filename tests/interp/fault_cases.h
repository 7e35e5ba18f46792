// Linear programs with one fault each, and their mended twins. For the tests of the interpreter and
// of devices that check. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tenon/interp/checked_program.h"

namespace tenon::testing {

/// In `text`, "<faulty|mended>" is one of the two. Buffers that are read hold 10, 11, 12, ...; the
/// last one, y, is the result.
struct FaultCase {
  std::string name;
  FaultKind kind = FaultKind::kBounds;
  std::string words;  ///< of the report
  std::string text;
  std::vector<int64_t> want;  ///< y after the mended program
  int64_t hole = -1;          ///< element of the first buffer that was never written
};

inline void PrintTo(const FaultCase& item, std::ostream* out) {
  *out << item.name;
}

std::vector<FaultCase> fault_cases();

/// The program's text with one side of each pair.
std::string one_side(const std::string& text, bool is_mended);

}  // namespace tenon::testing
