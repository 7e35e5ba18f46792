// The table of opened devices: names to EngineDevices, the default device, and what is known about
// them. SPDX-License-Identifier: MIT

#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/threads.h"
#include "tenon/engine/compiler_id.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/ir/linear.h"

namespace tenon {
namespace {

static_assert(kBufferAlignBytes == kBaseAlignBytes, "programs rely on what allocators give");

struct DeviceTable {
  std::mutex mutex;
  std::deque<EngineDevice> devices;              // by number; addresses stay valid
  std::map<std::string, EngineDevice*> by_name;  // canonical names and others once used
  std::atomic<int64_t> forks_at_first_open = -1;
  std::string default_setting;       // of DEV, and TENON_TARGET, that default_device is for
  Device* default_device = nullptr;  // null: not opened yet
};

void finish_jobs();

DeviceTable& table() {
  // Leaked on purpose: buffers in static objects refer to devices.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const instance = [] {
    std::atexit(finish_jobs);
    return new DeviceTable;
  }();
  return *instance;
}

/// At exit, in order of opening: what was submitted is done, and no thread is left inside a job.
/// A failure stays with its buffers.
void finish_jobs() {
  DeviceTable& devices = table();
  if (devices.forks_at_first_open.load() != fork_count()) return;  // a child has no jobs
  for (EngineDevice& device : devices.devices)
    device.queue().last().wait();
}

Device*& thread_default() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one for each thread
  thread_local Device* device = nullptr;
  return device;
}

DeviceNames known_names() {
  DeviceNames names;
  for (const BackendDescriptor* backend : all_backends()) {
    names.devices.push_back(backend->name);
    if (backend->takes_path) names.path_devices.push_back(backend->name);
  }
  return names;
}

/// The named renderer, or the first usable one.
const RendererDescriptor& choose_renderer(const BackendDescriptor& backend,
                                          const std::string& wanted) {
  const std::vector<const RendererDescriptor*> renderers = renderers_of(backend);
  std::vector<std::string> names;
  std::string reasons;
  for (const RendererDescriptor* renderer : renderers) {
    names.push_back(renderer->name);
    if (!wanted.empty() && !equal_ignoring_case(renderer->name, wanted)) continue;
    const std::optional<std::string> reason = renderer->why_absent();
    if (!reason) return *renderer;
    append(reasons, reasons.empty() ? "" : "; ", renderer->name, ": ", *reason);
  }
  TENON_CHECK(!reasons.empty(), ErrorCode::kInvalidArgument, "device '", backend.name,
              "': it has no renderer called '", wanted, "'", suggest_name(wanted, names, "It has"));
  fail(ErrorCode::kNotFound, "device '", backend.name,
       "': ", wanted.empty() ? "none of its renderers can be used" : "this renderer cannot be used",
       "; ", reasons);
}

/// "CPU:0:CLANG", and the instruction sets where they are not this machine's own.
std::string canonical_name(const BackendDescriptor& backend, const DeviceSpec& spec,
                           const RendererDescriptor& renderer, const Target& target) {
  std::string name = concat(backend.name, ":", spec.index, ":", renderer.name);
  if (renderer.arch_is_device && !spec.arch.empty()) return concat(name, ":", to_upper(spec.arch));
  if (target == renderer.make_target("")) return name;
  append(name, ":", target.arch);
  for (const std::string& feature : target.features)
    append(name, ",", feature);
  return name;
}

/// A name and what TENON_TARGET says now: another setting is another device.
std::string with_shrinking(std::string name) {
  const std::string setting = setting_string(Setting::kTarget);
  return setting.empty() ? name : concat(name, " (", setting, ")");
}

EngineDevice* find_opened(const std::string& name) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().by_name.find(name);
  return found == table().by_name.end() ? nullptr : found->second;
}

/// The one that is registered first, of two threads that open the same device.
template <typename... Arguments>
EngineDevice& add_device(const std::string& name, Arguments&&... arguments) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().by_name.find(name);
  if (found != table().by_name.end()) return *found->second;
  EngineDevice& opened = table().devices.emplace_back(
      name, static_cast<int64_t>(table().devices.size()), std::forward<Arguments>(arguments)...);
  table().by_name.emplace(name, &opened);
  return opened;
}

/// One path, one device, whichever way it is written.
EngineDevice& open_file_device(const BackendDescriptor& backend, const std::string& written) {
  TENON_CHECK(!written.empty(), ErrorCode::kInvalidArgument, "device '", backend.name,
              "' is a file: its name needs a path. Write ", backend.name, ":PATH");
  std::error_code error;
  const std::string path = std::filesystem::weakly_canonical(written, error).string();
  TENON_CHECK(!error, ErrorCode::kIo, "device '", backend.name, ":", written,
              "': its path is none: ", error.message());
  const std::string name = concat(backend.name, ":", path);
  if (EngineDevice* const opened = find_opened(name)) return *opened;
  return add_device(name, backend.open_file(path));
}

/// Works without the lock, since backends take their time and may send events; of two threads that
/// open the same device the second's is dropped.
EngineDevice& open_spec(std::string_view text, const DeviceSpec& spec) {
  const BackendDescriptor& backend = *find_backend(spec.device);
  TENON_ASSERT(spec.interfaces.empty(), "no interface is registered");
  if (const std::optional<std::string> reason = backend.why_absent()) {
    fail(ErrorCode::kNotFound, "opening device '", text, "': ", *reason);
  }
  if (backend.takes_path) return open_file_device(backend, spec.path);
  const int num_devices = backend.num_devices();
  TENON_CHECK(spec.index < num_devices, ErrorCode::kNotFound, "opening device '", text,
              "': there is no device ", spec.index, "; ", backend.name, " has ", num_devices,
              ", numbered from 0");
  const RendererDescriptor& renderer = choose_renderer(backend, spec.renderer);
  const auto in_context = [&](auto&& body) {
    return with_context(body, "opening device '", text, "'");
  };
  Target target = in_context([&] { return renderer.make_target(spec.arch); });
  const std::string name = with_shrinking(canonical_name(backend, spec, renderer, target));
  target = in_context([&] { return shrink_target(target, setting_string(Setting::kTarget)); });
  if (EngineDevice* const opened = find_opened(name)) return *opened;
  std::unique_ptr<DeviceDriver> driver =
      in_context([&] { return backend.open(spec.index, target); });
  std::unique_ptr<Compiler> compiler = in_context([&] { return renderer.make_compiler(target); });
  const std::span<const LoweringRule> rules =
      renderer.make_rules ? renderer.make_rules(spec.arch) : std::span<const LoweringRule>();
  return add_device(name, renderer, rules, std::move(target), std::move(compiler),
                    std::move(driver));
}

/// The present device of highest rank.
std::string_view built_in_default() {
  const BackendDescriptor* best = nullptr;
  for (const BackendDescriptor* backend : all_backends()) {
    const int rank = best == nullptr ? 0 : best->default_rank;
    if (backend->default_rank > rank && !backend->why_absent()) best = backend;
  }
  TENON_CHECK(best != nullptr, ErrorCode::kNotFound,
              "default device: no backend that is built has a device here (built: ",
              join(known_names().devices, ", "), "). Link tenon_backends, or set DEV");
  return best->name;
}

Hash128 make_base_key(const RendererDescriptor& renderer, std::span<const LoweringRule> rules,
                      const Target& target, const Compiler& compiler) {
  Hasher hasher;
  hasher.add("tenon program").add(tenon_version()).add(compiler_id());
  hasher.add(kLinearVersion).add(kProgramObjectVersion).add(to_text(target));
  hasher.add(renderer.name).add(compiler.fingerprint());
  for (const LoweringRule& rule : rules)
    hasher.add(rule.name);
  return hasher.hash();
}

}  // namespace

// --- Device --------------------------------------------------------------------------------------

Device::Device(std::string name, std::string renderer_name, Target target, int64_t number)
    : name_(std::move(name)),
      renderer_name_(std::move(renderer_name)),
      target_(std::move(target)),
      number_(number) {}

// --- EngineDevice --------------------------------------------------------------------------------

EngineDevice::EngineDevice(std::string name, int64_t number, const RendererDescriptor& renderer,
                           std::span<const LoweringRule> rules, Target target,
                           std::unique_ptr<Compiler> compiler, std::unique_ptr<DeviceDriver> driver,
                           size_t max_programs)
    : Device(std::move(name), renderer.name, std::move(target), number),
      renderer_(&renderer),
      rules_(rules),
      compiler_(std::move(compiler)),
      driver_(std::move(driver)),
      pool_(driver_->allocator(), this->name(), driver_->pool_options()),
      base_key_(make_base_key(renderer, rules_, this->target(), *compiler_)),
      programs_(max_programs),
      queue_(driver_->make_queue()) {}

EngineDevice::EngineDevice(std::string name, int64_t number, std::unique_ptr<DeviceDriver> driver)
    : Device(std::move(name), "", driver->target(), number),
      renderer_(nullptr),
      driver_(std::move(driver)),
      pool_(driver_->allocator(), this->name(), driver_->pool_options()),
      programs_(0),
      queue_(driver_->make_queue()) {}

const RendererDescriptor& EngineDevice::renderer() const {
  check_runs_programs();
  return *renderer_;
}

const Compiler& EngineDevice::compiler() const {
  check_runs_programs();
  return *compiler_;
}

void EngineDevice::check_runs_programs() const {
  TENON_CHECK(
      runs_programs(), ErrorCode::kUnsupported, "the device '", name(),
      "' holds bytes and runs no programs. Copy its tensors to another one first, with to()");
}

Buffer EngineDevice::allocate(int64_t size_bytes) {
  const int64_t guard_bytes = memory_checks().guard_bytes;
  try {
    return pool_.allocate(size_bytes, guard_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
  queue_->last().wait();
  return pool_.allocate(size_bytes, guard_bytes);
}

// --- the table -----------------------------------------------------------------------------------

void check_not_forked() {
  const int64_t first = table().forks_at_first_open.load(std::memory_order_relaxed);
  TENON_CHECK(first < 0 || first == fork_count(), ErrorCode::kDeviceFailed,
              "this process was forked after a device had been opened; a device does not survive "
              "that. Open devices after fork, or start a new program");
}

Device& Device::get(std::string_view name) {
  check_not_forked();
  const std::string key = with_shrinking(std::string(name));
  if (EngineDevice* const opened = find_opened(key)) return *opened;
  const DeviceSpec spec = parse_device_spec(name, known_names());
  EngineDevice& device = open_spec(name, spec);
  const std::lock_guard lock(table().mutex);
  if (table().forks_at_first_open < 0) table().forks_at_first_open = fork_count();
  // A path may lead elsewhere the next time.
  if (spec.path.empty()) table().by_name.emplace(key, &device);
  return device;
}

Device* Device::find_for_file(const std::string& path) {
  for (const BackendDescriptor* backend : all_backends()) {
    if (backend->takes_path && !backend->why_absent())
      return &get(concat(backend->name, ":", path));
  }
  return nullptr;
}

Device& Device::get_default() {
  if (thread_default() != nullptr) return *thread_default();
  check_not_forked();
  const std::string setting = setting_string(Setting::kDevice);
  const std::string key = with_shrinking(setting);
  {
    const std::lock_guard lock(table().mutex);
    if (table().default_device != nullptr && table().default_setting == key) {
      return *table().default_device;
    }
  }
  // All entries are checked: a misspelt second one is an error too.
  if (!setting.empty()) parse_device_list(setting, known_names());
  const std::string_view first = std::string_view(setting).substr(0, setting.find(';'));
  Device& device = get(setting.empty() ? built_in_default() : trim(first));
  const std::lock_guard lock(table().mutex);
  table().default_setting = key;
  table().default_device = &device;
  return device;
}

ScopedDefaultDevice::ScopedDefaultDevice(Device& device)
    : previous_(std::exchange(thread_default(), &device)) {}

ScopedDefaultDevice::~ScopedDefaultDevice() {
  thread_default() = previous_;
}

void synchronize(Device& device) {
  check_not_forked();
  engine_device(device).queue().synchronize();
}

Device& Device::by_number(int64_t number) {
  const std::lock_guard lock(table().mutex);
  TENON_CHECK(number >= 0 && std::cmp_less(number, table().devices.size()),
              ErrorCode::kInvalidArgument, "device number ", number, ": ", table().devices.size(),
              " devices are open");
  return table().devices[static_cast<size_t>(number)];
}

}  // namespace tenon
