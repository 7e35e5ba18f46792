// tenon_cases FILE.json: runs the cases of a file (README.md beside this) through the public API,
// one line a case: pass, fail, inexpressible, error or skipped. SPDX-License-Identifier: MIT
//
// Exit status 1 if a case fails or ends in an error, or fewer pass than --baseline says. What may
// be inexpressible is a list (expectations.cpp); any other refusal fails.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>

#include "tenon/base/error.h"
#include "tenon/engine/events.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/tensor/creation.h"
#include "tests/cases/case_file.h"
#include "tests/cases/expectations.h"
#include "tests/cases/operations.h"
#include "tests/cases/properties.h"
#include "tests/cases/values.h"

namespace tenon::cases {
namespace {

enum class Outcome { kPass, kFail, kInexpressible, kError, kSkipped };

constexpr const char* kOutcomeNames[] = {"pass", "fail", "inexpressible", "error", "skipped"};

struct Result {
  Outcome outcome;
  std::string text;
};

struct Totals {
  int counts[std::size(kOutcomeNames)] = {};
  int constant_inputs = 0;  ///< cases that pass with every input a compile-time constant

  int of(Outcome outcome) const { return counts[static_cast<int>(outcome)]; }
};

bool has_arrays(const Case& item) {
  return std::any_of(item.inputs.begin(), item.inputs.end(),
                     [](const CaseArray& array) { return array.dtype != "bytes"; });
}

// As constant graph, where the API has a word for it: one value, or a range.
std::optional<Tensor> make_constant(const CaseArray& array, DType dtype) {
  const TensorOptions options{.dtype = dtype, .device = nullptr};
  if (array.generated && array.generated->is_range) {
    const int64_t count =
        std::accumulate(array.shape.begin(), array.shape.end(), int64_t{1}, std::multiplies<>());
    const double start = array.generated->start.to_double();
    const double step = array.generated->step.to_double();
    const Scalar stop = start + step * static_cast<double>(count);
    return arange(start, stop, step, options).reshape(array.shape);
  }
  if (array.generated) return full(array.shape, array.generated->start, options);
  if (array.data.size() == 1) return full(array.shape, array.data[0], options);
  return std::nullopt;
}

// Fills the environment; true if every input is a compile-time constant.
bool add_inputs(const Case& item, bool as_constants, Environment& environment) {
  bool is_constant = true;
  for (const CaseArray& array : item.inputs) {
    if (array.dtype == "bytes") {
      environment.files[array.name] = array.file;
      is_constant = false;
      continue;
    }
    const DType dtype = dtype_named(array.dtype);
    std::optional<Tensor> tensor;
    if (as_constants) tensor = make_constant(array, dtype);
    is_constant = is_constant && tensor.has_value();
    environment.tensors[array.name] =
        tensor ? *tensor : Tensor::from_bytes(encode(array, dtype), dtype, array.shape);
  }
  return is_constant;
}

// Element `i` as a constant without axes; nothing if it is a NaN of special bits, which a scalar
// does not carry.
std::optional<Tensor> make_constant_element(const CaseArray& array, DType dtype, size_t i) {
  const TensorOptions options{.dtype = dtype, .device = nullptr};
  if (array.generated) return std::nullopt;
  if (array.bits.empty()) return full({}, array.data[array.data.size() == 1 ? 0 : i], options);
  const uint64_t bits = array.bits[array.bits.size() == 1 ? 0 : i];
  if (!is_float(dtype)) return std::nullopt;
  const double value = decode_float(bits, dtype);
  return std::isnan(value) ? std::nullopt : std::optional(full({}, value, options));
}

// The one shape of all arrays of a case of elementwise steps, apart from those of one element;
// nothing for other cases.
std::optional<Shape> elementwise_shape(const Case& item) {
  if (!item.property.empty() || item.expected.empty()) return std::nullopt;
  for (const Step& step : item.operation) {
    if (!is_elementwise(step.op)) return std::nullopt;
  }
  Shape common = item.expected[0].shape;
  for (const CaseArray& want : item.expected) {
    if (want.shape != common) return std::nullopt;
  }
  for (const CaseArray& array : item.inputs) {
    const bool is_one = array.data.size() == 1 || array.bits.size() == 1;
    if (array.shape != common && !is_one) return std::nullopt;
  }
  return common;
}

// Runs an elementwise case once for each element, on constants alone, and stacks what comes out:
// nothing is left to run time. Nothing if the case has another form.
std::optional<Environment> run_on_constant_elements(const Case& item) {
  const std::optional<Shape> shape = elementwise_shape(item);
  if (!shape) return std::nullopt;
  const auto count = static_cast<size_t>(
      std::accumulate(shape->begin(), shape->end(), int64_t{1}, std::multiplies<>()));
  std::map<std::string, std::vector<Tensor>> elements;
  for (size_t i = 0; i < count; ++i) {
    Environment environment;
    for (const CaseArray& array : item.inputs) {
      const auto element = make_constant_element(array, dtype_named(array.dtype), i);
      if (!element) return std::nullopt;
      environment.tensors[array.name] = *element;
    }
    for (const Step& step : item.operation)
      run_step(step, environment);
    for (const CaseArray& want : item.expected)
      elements[want.name].push_back(environment.get(want.name));
  }
  Environment out;
  for (const auto& [name, tensors] : elements)
    out.tensors[name] = stack(tensors).reshape(*shape);
  return out;
}

std::string check_expected(const Case& item, Environment& environment) {
  std::vector<Tensor> results;
  for (const CaseArray& want : item.expected) {
    (void)dtype_named(want.dtype);
    results.push_back(environment.get(want.name));
  }
  realize(std::span(results));
  for (size_t i = 0; i < results.size(); ++i) {
    std::string text = find_difference(results[i], item.expected[i], item.tolerance);
    if (!text.empty()) return text;
  }
  return "";
}

// What is wrong, empty if nothing is.
std::string run_steps(const Case& item, const PropertyContext& context) {
  for (const Step& step : item.operation)
    run_step(step, context.environment);
  if (item.operation.empty()) return check_property(item.id, context);
  std::string text = check_expected(item, context.environment);
  return text.empty() && !item.property.empty() ? check_property(item.id, context) : text;
}

Result pass_if_empty(std::string text) {
  return {text.empty() ? Outcome::kPass : Outcome::kFail, std::move(text)};
}

// A malformed file, or a wrong call.
constexpr ErrorCode kExpectedCode = ErrorCode::kInvalidArgument;

// Values, or the error of a case that is not refused.
Result run_expressible(const Case& item, bool as_constants, const std::string& device,
                       bool& has_constant_inputs) {
  if (as_constants) {
    if (auto environment = run_on_constant_elements(item)) {
      has_constant_inputs = true;
      return pass_if_empty(check_expected(item, *environment));
    }
  }
  Environment environment;
  has_constant_inputs = add_inputs(item, as_constants, environment);
  const PropertyContext context{environment, device, item.expected_error};
  // A property with an expected error looks for it itself.
  const bool must_fail = !item.expected_error.empty() && !item.operation.empty();
  if (!must_fail) return pass_if_empty(run_steps(item, context));
  try {
    (void)run_steps(item, context);
  } catch (const Error& error) {
    return pass_if_empty(find_error_fault(error, kExpectedCode, item.expected_error));
  }
  return {Outcome::kFail, concat("no error; expected: ", item.expected_error)};
}

// What the API, or an op for a dtype, does not have.
Result refuse(const Case& item, const std::string& text) {
  std::string fault = find_refusal_fault(item.id, text);
  if (!fault.empty()) return {Outcome::kFail, std::move(fault)};
  return {Outcome::kInexpressible,
          concat(text.substr(0, text.find('\n')), " (", find_refusal_reason(item.id), ")")};
}

Result run_case(const Case& item, bool as_constants, const std::string& device,
                bool& has_constant_inputs) {
  try {
    Result result = run_expressible(item, as_constants, device, has_constant_inputs);
    if (result.outcome == Outcome::kPass && find_refusal_reason(item.id) != nullptr) {
      return {Outcome::kFail, "passes: take it off the list of what may be inexpressible"};
    }
    return result;
  } catch (const Inexpressible& reason) {
    if (reason.is_machine) return {Outcome::kSkipped, reason.what};
    return refuse(item, reason.what);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return refuse(item, error.what());
    return {Outcome::kError, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::kError, error.what()};
  }
}

Totals run_cases(const std::vector<Case>& items, bool as_constants, const std::string& device) {
  Totals totals;
  for (const Case& item : items) {
    bool has_constant_inputs = false;
    const Result result = run_case(item, as_constants, device, has_constant_inputs);
    ++totals.counts[static_cast<int>(result.outcome)];
    if (result.outcome == Outcome::kPass && has_constant_inputs) ++totals.constant_inputs;
    std::printf("%s %s%s%s\n", kOutcomeNames[static_cast<int>(result.outcome)], item.id.c_str(),
                result.text.empty() ? "" : ": ", result.text.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed, %d inexpressible", totals.of(Outcome::kPass),
              totals.of(Outcome::kFail), totals.of(Outcome::kInexpressible));
  if (totals.of(Outcome::kError) > 0) std::printf(", %d errors", totals.of(Outcome::kError));
  if (totals.of(Outcome::kSkipped) > 0) std::printf(", %d skipped", totals.of(Outcome::kSkipped));
  if (as_constants) std::printf("; %d with constant inputs alone", totals.constant_inputs);
  std::printf("\n");
  return totals;
}

// Lines "buffer N", "const N" and "constant-inputs N": so many pass at least.
std::map<std::string, int> read_baseline(const std::string& path) {
  std::map<std::string, int> baseline;
  std::ifstream file(path);
  TENON_CHECK(file.is_open(), ErrorCode::kNotFound, path, ": cannot be read");
  std::string way;
  for (int count = 0; file >> way >> count;)
    baseline[way] = count;
  return baseline;
}

// False, with a line, if there are fewer than the baseline says.
bool reaches(const std::map<std::string, int>& baseline, const std::string& what, int count) {
  const auto found = baseline.find(what);
  if (found == baseline.end() || count == found->second) return true;
  std::printf("%s: %d passed, the baseline is %d%s\n", what.c_str(), count, found->second,
              count > found->second ? "; raise it" : "");
  return count > found->second;
}

struct Options {
  std::string file, device, only, baseline;
  bool constants = false, buffers = false, probe = false;
};

int run(const Options& options) {
  std::optional<ScopedDefaultDevice> scope;
  if (!options.device.empty()) scope.emplace(Device::get(options.device));
  if (options.probe) {
    set_event_hook([](const EngineEvent& event) {
      if (event.kind != EngineEvent::Kind::kWarning) return;
      std::fprintf(stderr, "%s\n", std::string(event.text).c_str());
    });
    std::printf("%s\n", run_probe().c_str());
    return 0;
  }
  const ScopedMemoryChecks checks;
  std::vector<Case> items = read_cases(options.file);
  if (!options.only.empty()) {
    std::erase_if(items, [&](const Case& item) { return item.id != options.only; });
    TENON_CHECK(!items.empty(), ErrorCode::kNotFound, options.file, ": has no case ", options.only);
  }
  std::map<std::string, int> baseline;
  if (!options.baseline.empty()) baseline = read_baseline(options.baseline);
  int status = 0;
  for (const bool as_constants : {false, true}) {
    // Without arrays as inputs both ways are one.
    if (as_constants) std::erase_if(items, [](const Case& item) { return !has_arrays(item); });
    const bool is_wanted = as_constants ? options.constants : options.buffers || !options.constants;
    if (!is_wanted) continue;
    const std::string way = as_constants ? "const" : "buffer";
    std::printf("inputs as %s\n", as_constants ? "constants" : "buffers");
    const Totals totals = run_cases(items, as_constants, options.device);
    if (totals.of(Outcome::kFail) + totals.of(Outcome::kError) > 0) status = 1;
    if (!reaches(baseline, way, totals.of(Outcome::kPass))) status = 1;
    if (as_constants && !reaches(baseline, "constant-inputs", totals.constant_inputs)) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace tenon::cases

int main(int argc, char** argv) {
  CLI::App app("Runs case files through Tenon's public API.");
  tenon::cases::Options options;
  app.add_option("file", options.file, "cases as tests/cases/README.md describes them");
  app.add_option("--device", options.device, "as in DEV; without: the default");
  app.add_option("--case", options.only, "only the case of this id");
  app.add_option("--baseline", options.baseline, "file with the numbers that must pass");
  app.add_flag("--const", options.constants, "inputs are compile-time constants where possible");
  app.add_flag("--buffer", options.buffers, "inputs are buffers (the default); with --const: both");
  app.add_flag("--probe", options.probe, "print the result of a fixed computation and end");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenon::cases::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon_cases: %s\n", error.what());
    return 2;
  }
}
