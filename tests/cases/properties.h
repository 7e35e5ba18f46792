// Cases that are checked by a small program instead of a table of values: which ids have one, and
// the programs. Used by the tenon_cases program. SPDX-License-Identifier: MIT

#pragma once

#include <string>

#include "tests/cases/operations.h"

namespace tenon::cases {

/// What the programs need beside the steps of their case.
struct PropertyContext {
  Environment& environment;         ///< after the steps
  std::string device;               ///< as Device::get takes it; empty: the default
  std::string expected_error = {};  ///< of the case file; empty: none
};

/// Runs the program of `id` and returns what is wrong, empty if nothing is. Throws Inexpressible
/// with the reason if the public API has no way to see the property.
std::string check_property(const std::string& id, const PropertyContext& context);

/// The computation that child processes repeat: several kernels over fixed values, as hexadecimal
/// bytes.
std::string run_probe();

}  // namespace tenon::cases
