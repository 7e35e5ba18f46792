// The JSON of the WebNN tests. SPDX-License-Identifier: MIT

#include "tests/webnn/webnn_case.h"

#include <nlohmann/json.hpp>

#include "tenon/base/error.h"

namespace tenon::webnn {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
using Json = nlohmann::json;

Operand operand_of(const Json& json) {
  const Json& descriptor = json.at("descriptor");
  const auto name = descriptor.at("dataType").get<std::string>();
  const std::optional<DType> dtype = find_dtype(name);
  TENON_CHECK(dtype.has_value(), kInvalid, "unknown dataType '", name, "'");
  Operand operand{.dtype = *dtype,
                  .shape = descriptor.at("shape").get<Shape>(),
                  .data = {},
                  .is_constant = json.value("constant", false)};
  const Json& data = json.at("data");  // one number stands for a tensor without axes
  operand.data =
      data.is_array() ? data.get<std::vector<double>>() : std::vector<double>{data.get<double>()};
  return operand;
}

Argument argument_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return json.get<std::vector<int64_t>>();
}

void add_arguments(const Json& object, Case& out) {
  for (const auto& [name, value] : object.items()) {
    if (name != "options") out.arguments[name] = argument_of(value);
  }
}

Case case_of(const Json& json) {
  Case out;
  out.name = json.at("name").get<std::string>();
  const Json& graph = json.at("graph");
  TENON_CHECK(graph.at("operators").size() == 1 && graph.at("expectedOutputs").size() == 1,
              kInvalid, "more than one operator or output");
  for (const auto& [name, operand] : graph.at("inputs").items())
    out.operands[name] = operand_of(operand);
  const Json& op = graph.at("operators").at(0);
  out.op = op.at("name").get<std::string>();
  for (const Json& argument : op.at("arguments")) {
    add_arguments(argument, out);
    if (argument.contains("options")) add_arguments(argument.at("options"), out);
  }
  out.expected = operand_of(graph.at("expectedOutputs").at(op.at("outputs").get<std::string>()));
  return out;
}

}  // namespace

std::vector<Case> parse_cases(std::string_view text) {
  std::vector<Case> cases;
  std::string name = "(first)";
  try {
    const Json file = Json::parse(text);
    for (const Json& item : file.at("tests")) {
      name = item.value("name", "(without name)");
      cases.push_back(case_of(item));
    }
  } catch (const Json::exception& error) {
    fail(kInvalid, "test '", name, "': ", error.what());
  }
  return cases;
}

}  // namespace tenon::webnn
