// `tenon devices`. SPDX-License-Identifier: MIT

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/launch.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/eval_op.h"
#include "tenon/schedule/schedule.h"

namespace tenon::cli {
namespace {

constexpr int64_t kNumElements = 1000;

/// y = x * 3 + 0.5 over 1000 float32.
Kernel round_trip_kernel() {
  const Shape shape{kNumElements};
  const auto filled = [&](double value) {
    const Node number = tensor_const(DType::kF32, double_to_float(value, DType::kF32));
    return tensor_expand(tensor_reshape(number, Shape{1}), shape);
  };
  const Node x = tensor_buffer(DType::kF32, shape);
  const Node product = tensor_binary(Op::kMul, x, filled(3));
  const Node outputs[] = {tensor_binary(Op::kAdd, product, filled(0.5))};
  return schedule_graph(outputs, {}).calls.at(0).kernel;
}

/// The number of elements that differ from what the host computes.
int64_t count_wrong(const NamedArray& output) {
  const std::vector<std::byte> given = position_coded(DType::kF32, kNumElements, 0);
  int64_t num_wrong = 0;
  for (size_t i = 0; i < given.size(); i += sizeof(float)) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, given.data() + i, sizeof x);
    std::memcpy(&y, output.bytes.data() + i, sizeof y);
    if (y != x * 3 + 0.5F) ++num_wrong;  // exact, so rounding plays no part
  }
  return num_wrong;
}

struct RoundTrip {
  bool is_right = false;
  std::string text;
};

struct FileRemover {
  const std::string& path;
  ~FileRemover() { ::unlink(path.c_str()); }
};

/// Compiles the kernel, without any cache, and runs it. A device that compiles but refuses to run
/// programs is right.
RoundTrip try_device(const std::string& name) {
  try {
    EngineDevice& device = engine_device(Device::get(name));
    const Kernel kernel = round_trip_kernel();
    int64_t compile_ns = 0;
    ProgramObject object;
    {
      const ScopedTimer timer(compile_ns);
      object = compile_linear(device, lower_for(device, kernel));
    }
    std::string text =
        concat(device.name(), ": compiled y = x*3 + 0.5 to ", format_bytes(object.payload.size()),
               " of ", object.payload_format, " in ", format_time(compile_ns));
    const Program program(device.driver(), object);
    try {
      const LaunchResult result = launch_once(device.queue(), device.pool(), program,
                                              parameters_of(kernel), {"--in", {}}, {"--set", {}});
      const int64_t num_wrong = count_wrong(result.outputs.at(0));
      append(text, "; ran it on ", kNumElements, " float32 in ", format_time(result.time_ns));
      if (num_wrong == 0) return {true, text + ": all right"};
      return {false, concat(text, ": ", num_wrong, " of ", kNumElements, " elements are wrong")};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      return {true, concat(text, "; does not run programs")};
    }
  } catch (const Error& error) {
    return {false, concat("failed (", error_code_name(error.code()), "): ", error.what())};
  }
}

/// What no value of the device is held to; empty if it keeps all laws.
std::string deviations_text(const Target& target) {
  std::vector<std::string> names;
  for (const Deviation& deviation : deviations_of(target))
    names.push_back(to_text(deviation));
  return names.empty() ? "" : concat("  deviates: ", join(names, ", "), " (docs/ir.md)\n");
}

/// Writes a file in the folder for temporary ones, opens it anew and reads all of it and a part.
RoundTrip try_files(const BackendDescriptor& backend) {
  try {
    const std::vector<std::byte> given = position_coded(DType::kF32, kNumElements, 0);
    const std::string path = concat(temporary_folder(), "/tenon-devices-", ::getpid());
    RoundTrip result{.text = concat(backend.name, ":", path, ": ")};
    Device& device = Device::get(concat(backend.name, ":", path));
    int64_t time_ns = 0;
    {
      const ScopedTimer timer(time_ns);
      const FileRemover remover{path};
      buffer_from_bytes(device, DType::kF32, Shape{kNumElements}, given);
      const Node content = buffer_of_content(device);
      const Node tail = buffer_view(content, DType::kF32, Shape{kNumElements - 1}, sizeof(float));
      const std::vector<std::byte> rest = read_bytes(tail);
      result.is_right = read_bytes(content) == given &&
                        std::equal(rest.begin(), rest.end(), given.begin() + sizeof(float));
    }
    append(result.text, "wrote ", kNumElements, " float32, read them back in ",
           format_time(time_ns), result.is_right ? ": all right" : ": they differ");
    return result;
  } catch (const Error& error) {
    return {false, concat("failed (", error_code_name(error.code()), "): ", error.what())};
  }
}

/// Prints one backend; false if it is there and does not work.
bool show_backend(const BackendDescriptor& backend) {
  if (const std::optional<std::string> reason = backend.why_absent()) {
    print(concat(backend.name, "  not present: ", *reason, "\n"));
    return true;
  }
  if (backend.takes_path) {
    print(concat(backend.name, "  present, files as memory: ", backend.name,
                 ":PATH\n  runs no programs\n"));
    const RoundTrip result = try_files(backend);
    print(concat("  round trip: ", result.text, "\n"));
    return result.is_right;
  }
  const int num_devices = backend.num_devices();
  print(concat(backend.name, "  present, ", num_devices, num_devices == 1 ? " device" : " devices",
               "\n"));
  bool is_usable = false;
  for (const RendererDescriptor* renderer : renderers_of(backend)) {
    const std::optional<std::string> reason = renderer->why_absent();
    print(concat("  renderer ", renderer->name, ": ",
                 reason ? concat("not present: ", *reason)
                        : std::string(is_usable ? "present" : "present, the default"),
                 "\n"));
    is_usable = is_usable || !reason;
  }
  if (!is_usable) {
    print("  round trip: not possible without a renderer\n");
    return true;
  }
  bool is_right = true;
  for (int index = 0; index < num_devices; ++index) {
    const std::string name = concat(backend.name, ":", index);
    const RoundTrip result = try_device(name);
    print(concat("  round trip: ", result.text, "\n"));
    if (result.is_right) print(deviations_text(Device::get(name).target()));
    is_right = is_right && result.is_right;
  }
  return is_right;
}

}  // namespace

int devices_command() {
  bool is_right = true;
  for (const BackendDescriptor* backend : all_backends())
    is_right = show_backend(*backend) && is_right;
  try {
    print(concat("default: ", Device::get_default().name(), "\n"));
  } catch (const Error& error) {
    print_note(concat("there is no default device: ", error.what()));
    return kExitFailed;
  }
  return is_right ? kExitOk : kExitFailed;
}

}  // namespace tenon::cli
