// SPDX-License-Identifier: MIT

#include "tenon/cli/launch.h"

#include <algorithm>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/memory_checks.h"

namespace tenon::cli {
namespace {

constexpr int64_t kGuardBytes = 256;

bool reads(const Argument& argument) {
  return argument.access != ArgumentAccess::kWrite;
}

bool writes(const Argument& argument) {
  return argument.access != ArgumentAccess::kRead;
}

std::vector<std::string> names_of(const Signature& signature, bool is_scalar) {
  std::vector<std::string> names;
  for (const Argument& argument : signature.arguments) {
    const bool is_wanted = is_scalar ? !argument.is_buffer : argument.is_buffer && reads(argument);
    if (is_wanted) names.push_back(argument.name);
  }
  return names;
}

}  // namespace

std::vector<NamedArray> parameters_of(const Kernel& kernel) {
  std::vector<NamedArray> parameters;
  for (int i = 0; i < kernel.num_parameters(); ++i) {
    const BufferDecl& buffer = kernel.buffers[static_cast<size_t>(i)];
    // With a layout of its own the memory is what can be shown.
    const Shape shape = buffer.layout.empty() ? buffer.dims : Shape{layout_num_elements(buffer)};
    parameters.push_back({.name = buffer.name, .dtype = buffer.dtype, .shape = shape, .bytes = {}});
  }
  return parameters;
}

std::vector<NamedArray> parameters_of(const Signature& signature) {
  std::vector<NamedArray> parameters;
  for (const Argument& argument : signature.arguments) {
    if (!argument.is_buffer) continue;
    parameters.push_back({.name = argument.name,
                          .dtype = argument.dtype,
                          .shape = {argument.num_elements},
                          .bytes = {}});
  }
  return parameters;
}

LaunchResult launch_once(Queue& queue, BufferPool& pool, const Program& program,
                         std::vector<NamedArray> parameters, const NamedWords& files,
                         const NamedWords& scalars) {
  const Signature& signature = program.signature();
  files.check_names(names_of(signature, false));
  scalars.check_names(names_of(signature, true));
  std::vector<ArgumentValue> values;
  std::vector<Buffer> buffers;
  std::vector<const Argument*> arguments;  // of each buffer
  int64_t num_inputs = 0;
  for (const Argument& argument : signature.arguments) {
    if (!argument.is_buffer) {
      values.push_back(scalar_value(argument, scalars));
      continue;
    }
    NamedArray& parameter = parameters.at(buffers.size());
    // What the host has taken for a value is gone by the time the device is asked, which may share
    // its memory: so what is too large for both is found.
    TENON_CHECK(argument.num_elements <= int64_t{1} << 50, ErrorCode::kOutOfMemory, "argument '",
                argument.name, "' has ", argument.num_elements, " elements, more than any memory");
    const int64_t size_bytes = argument.num_elements * dtype_size_bytes(argument.dtype);
    if (reads(argument)) fill_input(parameter, files, num_inputs++);
    const Buffer buffer = pool.allocate(size_bytes, kGuardBytes);
    if (reads(argument)) {
      buffer.copy_in(parameter.bytes);
      // A device that still looks at them computes something else.
      std::ranges::fill(parameter.bytes, kPoisonByte);
    } else {
      buffer.fill(kPoisonByte);
    }
    values.push_back({.is_buffer = true,
                      .dtype = argument.dtype,
                      .address = buffer.address(),
                      .size_bytes = buffer.size_bytes()});
    buffers.push_back(buffer);
    arguments.push_back(&argument);
  }
  std::vector<BufferUse> uses;
  for (size_t i = 0; i < buffers.size(); ++i)
    uses.push_back({&buffers[i], arguments[i]->access});
  LaunchResult result;
  {
    const ScopedTimer timer(result.time_ns);
    queue.wait(queue.submit(
        uses, [&] { program.launch(values); },
        [&] { return concat("running program '", program.name(), "'"); }));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto reason = buffers[i].why_guard_broken();
    TENON_CHECK(!reason, ErrorCode::kDeviceFailed, "program '", program.name(), "', argument '",
                arguments[i]->name, "': ", *reason);
    if (!writes(*arguments[i])) continue;
    parameters[i].bytes.resize(static_cast<size_t>(buffers[i].size_bytes()));
    buffers[i].copy_out(parameters[i].bytes);
    result.outputs.push_back(std::move(parameters[i]));
  }
  return result;
}

}  // namespace tenon::cli
