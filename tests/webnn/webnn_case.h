// Operator tests of the Web Platform Tests for WebNN as plain data, read from tests/data/webnn.
// Names are WebNN's (https://www.w3.org/TR/webnn/). Used by webnn_test.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon::webnn {

struct Operand {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<double> data;
  bool is_constant = false;
};

/// A flag, a number, a word or the name of an operand, a list of sizes.
using Argument = std::variant<bool, double, std::string, std::vector<int64_t>>;

/// One operator on given operands, and its expected output.
struct Case {
  std::string name;
  std::string op;
  std::map<std::string, Operand> operands;
  std::map<std::string, Argument> arguments;  ///< those in `options` too
  Operand expected;
};

/// Reads the JSON text of one file. Throws kInvalidArgument for what has another form.
std::vector<Case> parse_cases(std::string_view text);

}  // namespace tenon::webnn
