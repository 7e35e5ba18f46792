// Registers the backend CPU: what it has and how it is opened. Called by the generated file of
// tenon_backends. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_device.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/llvm_unit_compiler.h"
#include "tenon/engine/backend.h"
#include "tenon/render/c.h"
#include "tenon/render/llvm.h"

namespace tenon {

void register_cpu_backend();  // declared by the generated file too

void register_cpu_backend() {
  BackendDescriptor backend;
  backend.name = "CPU";
  backend.default_rank = 10;
  backend.renderers.push_back({.name = "LLVM",
                               .renderer = &llvm_renderer(),
                               .why_absent = cpu::why_no_llvm,
                               .make_target = cpu::target_of_arch,
                               .make_compiler = cpu::make_llvm_compiler});
  backend.renderers.push_back({.name = "CLANG",
                               .renderer = &c_renderer(),
                               .why_absent = cpu::why_no_clang,
                               .make_target = cpu::target_of_arch,
                               .make_compiler = cpu::make_clang_compiler});
  backend.why_absent = [] { return std::optional<std::string>(); };
  backend.num_devices = [] { return 1; };
  backend.open = [](int index, const Target& target) {
    return cpu::open_cpu_device(index, target);
  };
  register_backend(std::move(backend));
}

}  // namespace tenon
