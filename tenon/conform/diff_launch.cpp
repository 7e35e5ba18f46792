// SPDX-License-Identifier: MIT

#include "tenon/conform/diff_launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/conform/launch_record.h"
#include "tenon/engine/memory_checks.h"

namespace tenon::detail {
namespace {

constexpr int64_t kGuardBytes = 256;

bool is_read(const Argument& argument) {
  return argument.access != ArgumentAccess::kWrite;
}
bool is_written(const Argument& argument) {
  return argument.is_buffer && argument.access != ArgumentAccess::kRead;
}

/// Before the launch: what is given, else a pattern, the same on all sides.
std::vector<std::byte> bytes_before(const Argument& argument, const DiffArray& value) {
  if (!argument.is_buffer || is_read(argument)) return value.bytes;
  // A pattern that is no bool would count as a difference.
  const std::byte poison = argument.dtype == DType::kBool ? std::byte{0} : kPoisonByte;
  const auto size = static_cast<size_t>(argument.num_elements * dtype_size_bytes(argument.dtype));
  return std::vector<std::byte>(size, poison);
}

uint64_t scalar_bits(const DiffArray& value) {
  uint64_t bits = 0;
  std::memcpy(&bits, value.bytes.data(), std::min(value.bytes.size(), sizeof bits));
  return bits;
}

struct InterpretedLaunch {
  std::vector<std::vector<std::byte>> values;
  std::string fault;  ///< what a check has found
  bool is_complete = false;
};

InterpretedLaunch interpreted(const DiffLaunch& launch, uint64_t max_lane_operations) {
  const std::vector<Argument>& arguments = launch.shadow.program().program().signature.arguments;
  InterpretedLaunch result;
  std::vector<std::vector<uint8_t>> written(arguments.size());
  std::vector<CheckedArgument> values(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    result.values.push_back(bytes_before(arguments[i], launch.arguments[i]));
    if (!arguments[i].is_buffer) values[i].bits = scalar_bits(launch.arguments[i]);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_buffer) continue;
    if (!is_read(arguments[i])) written[i].resize(result.values[i].size());
    values[i].bytes = result.values[i];
    values[i].written = written[i];
  }
  try {
    const CheckedRun run = launch.shadow.program().run(values, max_lane_operations);
    if (run.fault) result.fault = run.fault->text;
    result.is_complete = run.is_complete;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;  // it needs too much memory
  }
  return result;
}

struct DeviceLaunch {
  std::vector<std::vector<std::byte>> values;
  std::string failure;  ///< what was thrown
  std::string record;
};

/// Nothing was under way: each launch is waited for before the next one's inputs are copied.
std::string events_line(const Event& done) {
  return concat("  events: waited for none, ",
                done.timeline() == nullptr ? std::string("was done when submit() returned")
                                           : concat("signals ", done.value(), " of its queue"),
                "\n");
}

/// Without `is_run` only the record is made: a program that breaks a rule may write anywhere.
DeviceLaunch launched(EngineDevice& device, const DiffLaunch& launch, bool is_run) {
  const LinearProgram& program = launch.shadow.program().program();
  const std::vector<Argument>& arguments = program.signature.arguments;
  DeviceLaunch result;
  std::vector<ArgumentValue> values;
  std::vector<Buffer> buffers(arguments.size());
  try {
    for (size_t i = 0; i < arguments.size(); ++i) {
      result.values.push_back(bytes_before(arguments[i], launch.arguments[i]));
      ArgumentValue value{.is_buffer = arguments[i].is_buffer, .dtype = arguments[i].dtype};
      if (value.is_buffer) {
        buffers[i] = device.pool().allocate(std::ssize(result.values[i]), kGuardBytes);
        buffers[i].copy_in(result.values[i]);
        value.address = buffers[i].address();
        value.size_bytes = buffers[i].size_bytes();
      } else {
        value.bits = scalar_bits(launch.arguments[i]);
      }
      values.push_back(value);
    }
    result.record = launch_record(program, values, device.target());
    if (!is_run) {
      result.record += "  it was not launched: a wrong program may write anywhere\n";
      return result;
    }
    std::vector<BufferUse> uses;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].is_buffer) uses.push_back({&buffers[i], arguments[i].access});
    const Event done = device.queue().submit(
        uses, [&] { launch.loaded->launch(values); },
        [&] { return concat("running kernel '", program.name, "'"); });
    result.record += events_line(done);
    device.queue().wait(done);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].is_buffer) continue;
      if (const auto reason = buffers[i].why_guard_broken()) {
        result.failure = concat("argument ", i, " '", arguments[i].name, "': ", *reason);
      }
      if (is_written(arguments[i])) buffers[i].copy_out(result.values[i]);
    }
  } catch (const Error& error) {
    if (is_refusal(error)) throw;
    result.failure = error.what();
  }
  return result;
}

/// Nothing where the graph is too large for it.
std::optional<OracleValue> asked_oracle(const EngineDevice& device, const DiffLaunch& launch) {
  if (launch.expected != nullptr) return *launch.expected;
  if (launch.graph == nullptr) return std::nullopt;
  try {
    const TensorGraph& graph = *launch.graph;
    return std::move(evaluate_oracle(graph.outputs, bind_inputs(graph.inputs, launch.data,
                                                                deviations_of(device.target())))
                         .at(0));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

std::optional<Difference> compared(DiffVerdict verdict, const OracleValue& expected,
                                   const std::vector<std::byte>& got) {
  const Comparison comparison = compare(expected, got);
  if (comparison.failed == 0) return std::nullopt;
  Difference difference{.verdict = verdict};
  add_comparison(difference, expected, got, comparison);
  return difference;
}

std::optional<Difference> judge_interpreted(const InterpretedLaunch& interp,
                                            const std::optional<OracleValue>& oracle,
                                            DiffReport& report) {
  if (!interp.fault.empty()) {
    return Difference{.verdict = DiffVerdict::kSharedKernel,
                      .text = concat("the interpreter's checks found: ", interp.fault)};
  }
  if (!oracle) return std::nullopt;
  report.excluded += std::ranges::count_if(oracle->excluded, [](uint8_t is) { return is != 0; });
  if (!interp.is_complete) return std::nullopt;
  return compared(DiffVerdict::kSharedKernel, *oracle, interp.values[0]);
}

std::optional<Difference> judge_device(const DiffLaunch& launch, const InterpretedLaunch& interp,
                                       const std::optional<OracleValue>& oracle,
                                       const DeviceLaunch& device, DiffReport& report) {
  const auto verdict = interp.is_complete ? DiffVerdict::kDevice : DiffVerdict::kUndecided;
  if (!device.failure.empty()) return Difference{.verdict = verdict, .text = device.failure};
  const bool is_by_bits = interp.is_complete && launch.shadow.is_exact();
  if (!launch.shadow.is_exact()) ++report.bounded;
  if (!is_by_bits) {
    if (oracle) return compared(verdict, *oracle, device.values[0]);
    ++report.unjudged;
    return std::nullopt;
  }
  const std::vector<Argument>& arguments = launch.shadow.program().program().signature.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_written(arguments[i])) continue;
    const DiffArray& argument = launch.arguments[i];
    const OracleValue expected = exact_value(argument.dtype, argument.shape, interp.values[i]);
    std::optional<Difference> difference = compared(verdict, expected, device.values[i]);
    if (!difference) continue;
    difference->text.insert(0, concat("argument '", argument.name, "', "));
    return difference;
  }
  return std::nullopt;
}

}  // namespace

bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kOutOfMemory;
}

void add_comparison(Difference& difference, OracleValue expected, std::vector<std::byte> got,
                    const Comparison& comparison) {
  difference.text = comparison.text;
  difference.expected = std::move(expected);
  difference.got = std::move(got);
  difference.num_wrong = comparison.failed;
  difference.elements = comparison.elements;
}

JudgedLaunch judge_launch(EngineDevice& device, const DiffLaunch& launch,
                          const DiffOptions& options, DiffReport& report) {
  ++report.kernels;
  InterpretedLaunch interp = interpreted(launch, options.max_lane_operations);
  const std::optional<OracleValue> oracle = asked_oracle(device, launch);
  JudgedLaunch result{.difference = judge_interpreted(interp, oracle, report)};
  DeviceLaunch device_launch;
  if (launch.loaded != nullptr) device_launch = launched(device, launch, !result.difference);
  if (launch.loaded != nullptr && !result.difference) {
    result.difference = judge_device(launch, interp, oracle, device_launch, report);
  }
  if (result.difference) {
    result.difference->program = launch.shadow.program().program();
    result.difference->arguments.assign(launch.arguments.begin(), launch.arguments.end());
    result.difference->launch = device_launch.record;
  }
  result.values = std::move(launch.loaded != nullptr ? device_launch.values : interp.values);
  return result;
}

}  // namespace tenon::detail
