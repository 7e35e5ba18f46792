// How a backend makes itself known: descriptor records of plain names and functions, and the
// registry of them. Filled by the generated file that calls register_<name>_backend() of each
// folder in TENON_BACKENDS; read by the engine and by `tenon devices`. Nothing here names a
// backend. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/codegen/lowering_rules.h"
#include "tenon/device/compiler.h"
#include "tenon/device/device.h"
#include "tenon/render/renderer.h"
#include "tenon/types/target.h"

namespace tenon {

/// One way to compile for a backend: a renderer, its Target and its compiler.
struct RendererDescriptor {
  std::string name;  ///< as in DEV, upper case: "CLANG"
  const Renderer* renderer = nullptr;
  /// Why it cannot be used here and what to install; empty: it can.
  std::function<std::optional<std::string>()> why_absent;
  /// The Target of the ARCH field of DEV; empty: this machine's. Throws kInvalidArgument.
  std::function<Target(std::string_view arch)> make_target;
  std::function<std::unique_ptr<Compiler>(const Target&)> make_compiler;
  /// Rules of the backend's own for that ARCH, run at the end of what codegen does with
  /// expressions. Their names are part of cache keys: a rule that changes gets another one. Empty:
  /// there are none.
  std::function<std::span<const LoweringRule>(std::string_view arch)> make_rules;
  bool arch_is_device = false;  ///< ARCH names a device, whose programs this one runs
};

struct BackendDescriptor {
  std::string name;         ///< as in DEV, upper case
  int default_rank = 0;     ///< with an empty DEV the largest present one above 0 is the default
  bool takes_path = false;  ///< what follows `NAME:` is the path of a file; see open_file
  bool borrows_renderers = false;             ///< after its own, those of all other backends
  std::vector<RendererDescriptor> renderers;  ///< the first usable one is the default
  /// Why no device can be opened here; empty: num_devices() are there.
  std::function<std::optional<std::string>()> why_absent;
  std::function<int()> num_devices;
  /// Opens device `index` for programs of `target`. Throws kUnsupported if it cannot run those.
  std::function<std::unique_ptr<DeviceDriver>(int index, const Target& target)> open;
  /// In place of renderers, num_devices and open, for a backend that takes a path: a device whose
  /// memory is that file and that runs no programs. The file need not be there.
  std::function<std::unique_ptr<DeviceDriver>(const std::string& path)> open_file;
};

/// Adds a backend; its name must be new. Descriptors are never removed or moved.
void register_backend(BackendDescriptor backend);

/// In order of registration. The first use registers the built backends, if they are linked.
std::vector<const BackendDescriptor*> all_backends();
/// Case-blind; null if there is none of that name.
const BackendDescriptor* find_backend(std::string_view name);

/// The renderers that a device of `backend` can be opened with, in order.
std::vector<const RendererDescriptor*> renderers_of(const BackendDescriptor& backend);

/// Registers what TENON_BACKENDS lists; once, however often it is called. Generated; executables
/// link the CMake target tenon_backends.
void register_built_backends();

}  // namespace tenon
