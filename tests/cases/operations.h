// The operations of case files, each one call of the public API. Used by the tenon_cases program.
// SPDX-License-Identifier: MIT

#pragma once

#include <map>
#include <string>

#include "tenon/tensor/tensor.h"
#include "tests/cases/case_file.h"

namespace tenon::cases {

/// What a case has named so far.
struct Environment {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::vector<std::byte>> files;  ///< inputs of dtype "bytes"

  /// Throws kInvalidArgument if there is no such tensor.
  Tensor& get(const std::string& name);
};

/// Each element of the result comes from the elements at its place alone (constants too).
bool is_elementwise(const std::string& op);

/// Adds what `step` makes to `environment`. Throws Inexpressible (values.h), or what the call
/// throws.
void run_step(const Step& step, Environment& environment);

}  // namespace tenon::cases
