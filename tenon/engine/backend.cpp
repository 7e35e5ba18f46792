// The registry. SPDX-License-Identifier: MIT

#include "tenon/engine/backend.h"

#include <deque>
#include <mutex>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {

// Weak: an executable without the generated file has an empty registry, not a link error.
[[gnu::weak]] void register_built_backends();

namespace {

struct Registry {
  std::mutex mutex;
  std::deque<BackendDescriptor> backends;  // addresses stay valid
};

Registry& registry() {
  // Leaked on purpose: devices may be asked for in destructors of static objects.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const instance = new Registry;
  return *instance;
}

void register_once() {
  if (register_built_backends != nullptr) register_built_backends();
}

const BackendDescriptor* find_registered(std::string_view name) {
  for (const BackendDescriptor& backend : registry().backends) {
    if (equal_ignoring_case(backend.name, name)) return &backend;
  }
  return nullptr;
}

}  // namespace

void register_backend(BackendDescriptor backend) {
  const std::lock_guard lock(registry().mutex);
  TENON_ASSERT(find_registered(backend.name) == nullptr, "backend '", backend.name,
               "' is registered twice");
  registry().backends.push_back(std::move(backend));
}

std::vector<const BackendDescriptor*> all_backends() {
  register_once();
  const std::lock_guard lock(registry().mutex);
  std::vector<const BackendDescriptor*> backends;
  for (const BackendDescriptor& backend : registry().backends)
    backends.push_back(&backend);
  return backends;
}

const BackendDescriptor* find_backend(std::string_view name) {
  register_once();
  const std::lock_guard lock(registry().mutex);
  return find_registered(name);
}

std::vector<const RendererDescriptor*> renderers_of(const BackendDescriptor& backend) {
  std::vector<const RendererDescriptor*> renderers;
  for (const RendererDescriptor& own : backend.renderers)
    renderers.push_back(&own);
  if (!backend.borrows_renderers) return renderers;
  for (const BackendDescriptor* other : all_backends()) {
    if (other == &backend) continue;
    for (const RendererDescriptor& theirs : other->renderers)
      renderers.push_back(&theirs);
  }
  return renderers;
}

}  // namespace tenon
