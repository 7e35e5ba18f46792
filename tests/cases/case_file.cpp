// The JSON of case files. SPDX-License-Identifier: MIT

#include "tests/cases/case_file.h"

#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/base/file.h"

namespace tenon::cases {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
using Json = nlohmann::json;

void check_keys(const Json& object, std::initializer_list<std::string_view> known,
                std::string_view where) {
  TENON_CHECK(object.is_object(), kInvalid, where, ": is no JSON object");
  for (const auto& [key, unused] : object.items()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    TENON_CHECK(is_known, kInvalid, where, ": unknown key '", key, "'");
  }
}

Scalar scalar_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  return json.get<double>();
}

// The nesting of attributes is what a JSON parser accepted: a few levels.
Value value_of(const Json& json) {  // NOLINT(misc-no-recursion)
  if (json.is_null()) return {};
  if (json.is_string()) return Value(json.get<std::string>());
  if (!json.is_array()) return Value(scalar_of(json));
  Value::List list;
  for (const Json& item : json)
    list.push_back(value_of(item));
  return Value(std::move(list));
}

std::vector<std::byte> bytes_of_hex(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]);
    const size_t low = kDigits.find(text[i + 1]);
    TENON_CHECK(high < 16 && low < 16, kInvalid, "hex: '", text.substr(i, 2), "' is no byte");
    bytes.push_back(static_cast<std::byte>(16 * high + low));
  }
  TENON_CHECK(text.size() % 2 == 0, kInvalid, "hex: an odd number of digits, ", text.size());
  return bytes;
}

Generated generated_of(const Json& json) {
  check_keys(json, {"kind", "value", "start", "step"}, "gen");
  const auto number = [&](const char* key, int fallback) {
    return json.contains(key) ? value_of(json.at(key)).number() : Scalar(fallback);
  };
  const auto kind = json.at("kind").get<std::string>();
  TENON_CHECK(kind == "full" || kind == "arange", kInvalid, "gen: unknown kind '", kind, "'");
  if (kind == "full") return {.is_range = false, .start = number("value", 0), .step = 0};
  return {.is_range = true, .start = number("start", 0), .step = number("step", 1)};
}

CaseArray array_of(const Json& json) {
  check_keys(json, {"name", "dtype", "shape", "data", "bits", "gen", "hex"}, "array");
  CaseArray array;
  array.name = json.at("name").get<std::string>();
  array.dtype = json.at("dtype").get<std::string>();
  array.shape = json.at("shape").get<Shape>();
  if (json.contains("hex")) array.file = bytes_of_hex(json.at("hex").get<std::string>());
  if (json.contains("bits")) array.bits = json.at("bits").get<std::vector<uint64_t>>();
  if (json.contains("gen")) array.generated = generated_of(json.at("gen"));
  if (json.contains("data")) {
    for (const Json& item : json.at("data"))
      array.data.push_back(value_of(item).number());
  }
  return array;
}

std::vector<CaseArray> arrays_of(const Json& json) {
  std::vector<CaseArray> arrays;
  for (const Json& item : json)
    arrays.push_back(array_of(item));
  return arrays;
}

Step step_of(const Json& json) {
  check_keys(json, {"op", "in", "attrs", "out"}, "step");
  Step step;
  step.op = json.at("op").get<std::string>();
  step.in = json.at("in").get<std::vector<std::string>>();
  if (json.contains("attrs")) {
    for (const auto& [name, value] : json.at("attrs").items())
      step.attrs.add(name, value_of(value));
  }
  if (json.contains("out")) {
    const Json& out = json.at("out");
    step.out = out.is_array() ? out.get<std::vector<std::string>>()
                              : std::vector<std::string>{out.get<std::string>()};
  }
  return step;
}

std::vector<Step> steps_of(const Json& json) {
  std::vector<Step> steps;
  for (const Json& item : json)
    steps.push_back(step_of(item));
  return steps;
}

Tolerance tolerance_of(const Json& json) {
  check_keys(json, {"exact", "signed_zero", "rtol", "atol"}, "tolerance");
  Tolerance tolerance{.exact = json.value("exact", false),
                      .signed_zero = json.value("signed_zero", false),
                      .rtol = json.value("rtol", 0.0),
                      .atol = json.value("atol", 0.0)};
  TENON_CHECK(tolerance.exact || json.contains("rtol") || json.contains("atol"), kInvalid,
              "tolerance: is neither exact nor rtol or atol");
  return tolerance;
}

Case case_of(const Json& json) {
  check_keys(json,
             {"id", "kind", "description", "inputs", "operation", "expected", "tolerance",
              "functions", "expected_error", "property", "note", "verified"},
             "case");
  Case out;
  out.id = json.at("id").get<std::string>();
  out.inputs = arrays_of(json.at("inputs"));
  out.operation = steps_of(json.at("operation"));
  out.expected = arrays_of(json.at("expected"));
  out.tolerance = tolerance_of(json.at("tolerance"));
  out.expected_error = json.value("expected_error", "");
  out.property = json.value("property", "");
  if (json.contains("functions")) {
    for (const auto& [name, function] : json.at("functions").items()) {
      check_keys(function, {"params", "body", "returns"}, "function");
      out.functions[name] = {.params = function.at("params").get<std::vector<std::string>>(),
                             .body = steps_of(function.at("body")),
                             .returns = function.at("returns").get<std::vector<std::string>>()};
    }
  }
  return out;
}

}  // namespace

Scalar Value::number() const {
  if (const auto* number = std::get_if<Scalar>(&value_)) return *number;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::string& word = text();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return kInf;
  if (word == "-inf") return -kInf;
  TENON_CHECK(word == "-0.0", kInvalid, "case file: '", word, "' is no number");
  return -0.0;
}

int64_t Value::integer() const {
  return static_cast<int64_t>(number().bits("case file", DType::kI64));
}

bool Value::boolean() const {
  const auto* number = std::get_if<Scalar>(&value_);
  TENON_CHECK(number != nullptr && number->is_bool(), kInvalid,
              "case file: true or false expected");
  return number->to_double() != 0;
}

const std::string& Value::text() const {
  const auto* text = std::get_if<std::string>(&value_);
  TENON_CHECK(text != nullptr, kInvalid, "case file: a text expected");
  return *text;
}

const Value::List& Value::list() const {
  const auto* list = std::get_if<List>(&value_);
  TENON_CHECK(list != nullptr, kInvalid, "case file: a list expected");
  return *list;
}

std::vector<int64_t> Value::integers() const {
  std::vector<int64_t> out;
  for (const Value& item : list())
    out.push_back(item.integer());
  return out;
}

const Value* Attributes::find(const std::string& name) const {
  read_.insert(name);
  const auto found = values_.find(name);
  return found == values_.end() || found->second.is_null() ? nullptr : &found->second;
}

const Value& Attributes::get(const std::string& name) const {
  const Value* value = find(name);
  TENON_CHECK(value != nullptr, kInvalid, "case file: attribute '", name, "' is missing");
  return *value;
}

std::vector<std::string> Attributes::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : values_) {
    if (!read_.contains(name)) names.push_back(name);
  }
  return names;
}

std::vector<Case> read_cases(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<Case> out;
  std::string id = "(first)";
  try {
    for (const Json& item : Json::parse(text)) {
      id = item.value("id", "(without id)");
      out.push_back(case_of(item));
    }
  } catch (const Json::exception& error) {
    fail(kInvalid, path, ": case ", id, ": ", error.what());
  }
  return out;
}

}  // namespace tenon::cases
