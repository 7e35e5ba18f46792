// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/interp_target.h"

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/device_spec.h"

namespace tenon::interp {
namespace {

/// A small machine with short vectors, the same everywhere: nothing here is measured.
Target own_target() {
  Target target;
  target.arch = "interp";
  for (const DType dtype : storage_dtypes()) {
    if (!is_float(dtype) || dtype_bits(dtype) >= 32) target.arithmetic.add(dtype);
  }
  target.native_ops = {Op::kSqrt, Op::kTrunc, Op::kFma};
  target.max_vector_bytes = 16;
  target.max_local_bytes = 64 << 10;
  target.max_lanes = 1;
  target.max_arguments = 4096;
  target.threads = 4;
  target.caches = {{64 << 10, 8, 1, 50}, {1 << 20, 8, 4, 20}};
  return target;
}

/// The named renderer, or the one that the device takes by default.
const RendererDescriptor& renderer_of(const BackendDescriptor& backend, const std::string& wanted) {
  std::vector<std::string> names;
  for (const RendererDescriptor& renderer : backend.renderers) {
    names.push_back(renderer.name);
    if (wanted.empty() ? !renderer.why_absent() : equal_ignoring_case(renderer.name, wanted)) {
      return renderer;
    }
  }
  TENON_CHECK(wanted.empty(), ErrorCode::kInvalidArgument, "device '", backend.name,
              "': it has no renderer called '", wanted, "'", suggest_name(wanted, names, "It has"));
  return backend.renderers.front();  // what it lacks here is not needed for a Target
}

}  // namespace

Target target_of_device(std::string_view device) {
  if (device.empty()) return own_target();
  DeviceNames names;
  for (const BackendDescriptor* backend : all_backends()) {
    const bool has_own = !backend->renderers.empty() && !backend->renderers.front().arch_is_device;
    if (has_own) names.devices.push_back(backend->name);
  }
  const DeviceSpec spec = parse_device_spec(device, names);
  return renderer_of(*find_backend(spec.device), spec.renderer).make_target(spec.arch);
}

}  // namespace tenon::interp
