// Registers the backend INTERP. Called by the generated file of tenon_backends.
// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/interp_device.h"
#include "tenon/backend/interp/interp_target.h"
#include "tenon/backend/interp/tir_compiler.h"
#include "tenon/engine/backend.h"

namespace tenon {

void register_interp_backend();  // declared by the generated file too

void register_interp_backend() {
  const auto is_present = [] { return std::optional<std::string>(); };
  BackendDescriptor backend;
  backend.name = "INTERP";
  backend.renderers.push_back({.name = "TIR",
                               .renderer = &interp::tir_renderer(),
                               .why_absent = is_present,
                               .make_target = interp::target_of_device,
                               .make_compiler = interp::make_tir_compiler,
                               .arch_is_device = true});
  backend.why_absent = is_present;
  backend.num_devices = [] { return 1; };
  backend.open = interp::open_interp_device;
  register_backend(std::move(backend));
}

}  // namespace tenon
