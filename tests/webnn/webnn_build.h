// WebNN operators as calls of the public API, with the defaults that the WebNN specification gives
// their attributes. Used by webnn_test. SPDX-License-Identifier: MIT

#pragma once

#include <string>

#include "tenon/tensor/tensor.h"
#include "tests/webnn/webnn_case.h"

namespace tenon::webnn {

/// Thrown where the public API has no word for an operator or attribute; `what` names it.
struct Inexpressible {
  std::string what;
};

/// The result of a case's operator, not yet computed. `length` becomes the number of elements that
/// one element of the result comes from (K of a matmul): allowed differences grow with it.
Tensor build(const Case& item, int64_t& length);

/// Elements of an operand; a constant of one element is constant graph, all else a buffer.
Tensor make_tensor(const Operand& operand);

}  // namespace tenon::webnn
