// Keys, disk entries and batches. An entry on disk is a ProgramObject whose payload is the content
// hash of the object it lives in; objects are entries of their own, so that the kernels of a batch
// share one. SPDX-License-Identifier: MIT

#include "tenon/engine/program_store.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/events.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon {
namespace {

constexpr std::string_view kReferenceFormat = "object-in-cache";

/// A kernel on its way to a program.
struct Job {
  const Kernel* kernel = nullptr;
  const GivenPlans* plans = nullptr;
  Hash128 key;
  KernelSource source;
  ProgramObject object;  ///< payload and entry come last
};

Hash128 key_of(const EngineDevice& device, std::string_view text,
               std::optional<std::string_view> plan = std::nullopt) {
  Hasher hasher;
  hasher.add(device.base_key()).add(text).add(has_simple_plans() ? "simple" : "auto");
  if (plan) hasher.add(*plan);
  if (planted_fault() != PlantedFault::kNone) {
    hasher.add(static_cast<uint64_t>(planted_fault()));
  }
  return hasher.hash();
}

std::string symbol_of(const Kernel& kernel, std::string_view text) {
  return concat(kernel.name, "_", to_hex(hash64(text)).substr(0, 8));
}

ProgramObject describe(const LinearProgram& program, const Target& target) {
  return {.entry = program.name,
          .target = to_text(target),
          .signature = program.signature,
          .grid = program.grid,
          .lanes = program.lanes,
          .scratch_bytes = program.scratch_bytes};
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// --- the disk ------------------------------------------------------------------------------------

/// Object bytes that entries of one call share, by key.
using Objects = std::map<std::string, std::vector<std::byte>>;

/// The stored program; nothing if it is not there or damaged.
std::optional<ProgramObject> read_stored(CompileCache& cache, const Hash128& key,
                                         Objects& objects) {
  const auto entry = cache.get(to_string(key));
  if (!entry) return std::nullopt;
  try {
    ProgramObject object = parse_program_object(*entry);
    const std::string_view format = object.payload_format;
    if (!format.starts_with(kReferenceFormat) || object.payload.size() != 32) return std::nullopt;
    const std::string object_key(reinterpret_cast<const char*>(object.payload.data()), 32);
    auto found = objects.find(object_key);
    if (found == objects.end()) {
      auto bytes = cache.get(object_key);
      if (!bytes || to_string(hash128(std::span<const std::byte>(*bytes))) != object_key) {
        return std::nullopt;
      }
      found = objects.emplace(object_key, *std::move(bytes)).first;
    }
    object.payload_format = format.substr(kReferenceFormat.size() + 1);
    object.payload = found->second;
    return object;
  } catch (const Error&) {
    return std::nullopt;  // not what was stored; it is made again
  }
}

void store(CompileCache& cache, const Hash128& key, const ProgramObject& object,
           const std::string& object_key) {
  ProgramObject entry = {.entry = object.entry,
                         .target = object.target,
                         .payload_format = concat(kReferenceFormat, ":", object.payload_format),
                         .signature = object.signature,
                         .grid = object.grid,
                         .lanes = object.lanes,
                         .scratch_bytes = object.scratch_bytes};
  const auto reference = as_bytes(object_key);
  entry.payload.assign(reference.begin(), reference.end());
  cache.put(to_string(key), serialize_program_object(entry));
}

/// Writes a source into a folder of the cache for people to read; empty if that does not work.
std::string keep_source(std::string_view folder, const KernelSource& source) {
  if (!setting_bool(Setting::kCache)) return {};
  try {
    const std::string path = concat(setting_string(Setting::kCacheDir), "/", folder);
    create_folders(path);
    std::string file = concat(path, "/", source.name, ".txt");
    write_file_atomic(file, source.text);
    return file;
  } catch (const Error&) {
    return {};
  }
}

// --- lowering and compiling ----------------------------------------------------------------------

void lower_job(const EngineDevice& device, Job& job) {
  const int64_t start_ns = now_ns();
  CodegenOptions options;
  if (job.plans != nullptr) {
    options.plan = job.plans->plan_for(*job.kernel, device.target());
  }
  const LinearProgram program = lower_for(device, *job.kernel, options);
  RenderedSource rendered = device.renderer().renderer->render(program, device.target());
  job.object = describe(program, device.target());
  job.source = {.name = std::move(rendered.entry), .text = std::move(rendered.text)};
  send_event({.kind = EngineEvent::Kind::kLowered,
              .kernel = job.kernel->name,
              .device = device.name(),
              .time_ns = now_ns() - start_ns,
              .text = job.source.text});
}

/// Compiles a part of the jobs into one object; fills their entries and payloads.
void compile_part(const EngineDevice& device, std::span<Job> jobs) {
  std::vector<KernelSource> sources;
  for (const Job& job : jobs)
    sources.push_back(job.source);
  CompiledObject object = device.compiler().compile(sources);
  TENON_ASSERT(object.symbols.size() == jobs.size(), "compiler gave ", object.symbols.size(),
               " symbols for ", jobs.size(), " kernels");
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].object.entry = object.symbols[i];
    jobs[i].object.payload_format = device.compiler().payload_format();
    jobs[i].object.payload = object.bytes;
  }
}

/// Finds out which kernel of a failed batch the compiler refuses; that one's error is thrown.
void compile_separately(const EngineDevice& device, std::span<Job> jobs) {
  for (Job& job : jobs) {
    with_context(
        [&] {
          compile_part(device, {&job, 1});
        },
        "compiling kernel '", job.kernel->name, "' for '", device.name(), "'",
        [&] {
          const std::string path = keep_source("failed", job.source);
          return path.empty() ? "; its source begins:\n" + job.source.text.substr(0, 400)
                              : concat(". Full source: ", path);
        });
  }
}

void compile_batch(const EngineDevice& device, std::span<Job> jobs) {
  const int64_t start_ns = now_ns();
  try {
    compile_part(device, jobs);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCompileFailed) throw;
    compile_separately(device, jobs);
  }
  const int64_t time_ns = now_ns() - start_ns;
  for (const Job& job : jobs) {
    if (setting_bool(Setting::kKeepSource)) keep_source("source", job.source);
    send_event({.kind = EngineEvent::Kind::kCompiled,
                .kernel = job.kernel->name,
                .device = device.name(),
                .time_ns = time_ns});
  }
}

/// As many compiler calls at once as there are cores, with at least four kernels in each.
void compile_jobs(const EngineDevice& device, std::span<Job> jobs) {
  constexpr size_t kMinKernels = 4;
  const size_t cores = std::max<size_t>(1, std::thread::hardware_concurrency());
  const size_t parts = std::clamp<size_t>(jobs.size() / kMinKernels, 1, cores);
  std::vector<std::exception_ptr> failures(parts);
  std::atomic<size_t> next = 0;
  const auto compile_parts = [&] {
    for (size_t part = next++; part < parts; part = next++) {
      const size_t begin = jobs.size() * part / parts;
      const size_t end = jobs.size() * (part + 1) / parts;
      try {
        compile_batch(device, jobs.subspan(begin, end - begin));
      } catch (...) {
        failures[part] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      while (helpers.size() + 1 < parts)
        helpers.emplace_back(compile_parts);
    } catch (const std::system_error&) {
      // No more threads are to be had: those that run and this one do all parts.
    }
    compile_parts();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// What is found so far, by key.
using Programs = std::unordered_map<Hash128, ProgramPtr>;

void make_programs(EngineDevice& device, std::span<Job> jobs, ProgramTable::Claims& claims,
                   Programs& programs, RealizeStats& stats) {
  if (jobs.empty()) return;
  {
    const ScopedTimer timer(stats.lower_ns);
    for (Job& job : jobs) {
      with_context([&] { lower_job(device, job); }, "lowering kernel '", job.kernel->name,
                   "' for '", device.name(), "'");
    }
  }
  CompileCache& cache = shared_compile_cache();
  {
    const ScopedTimer timer(stats.compile_ns);
    compile_jobs(device, jobs);
    std::string object_key;
    const std::vector<std::byte>* stored = nullptr;
    for (const Job& job : jobs) {
      if (stored == nullptr || *stored != job.object.payload) {
        object_key = to_string(hash128(std::span<const std::byte>(job.object.payload)));
        cache.put(object_key, job.object.payload);
        stored = &job.object.payload;
      }
      store(cache, job.key, job.object, object_key);
    }
  }
  stats.compiled += static_cast<int64_t>(jobs.size());
  const ScopedTimer timer(stats.load_ns);
  for (const Job& job : jobs)
    programs[job.key] = claims.settle(job.key, Program(device.driver(), job.object));
}

/// Loads what the disk has; null if it has nothing of use.
ProgramPtr load_stored(EngineDevice& device, const Job& job, Objects& objects,
                       ProgramTable::Claims& claims) {
  const int64_t start_ns = now_ns();
  const auto object = read_stored(shared_compile_cache(), job.key, objects);
  if (!object) return nullptr;
  std::optional<Program> loaded;
  try {
    loaded.emplace(device.driver(), *object);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return nullptr;  // damaged in a way that its checksum hides; it is made again
  }
  ProgramPtr program = claims.settle(job.key, *std::move(loaded));
  send_event({.kind = EngineEvent::Kind::kFound,
              .kernel = job.kernel->name,
              .device = device.name(),
              .time_ns = now_ns() - start_ns});
  return program;
}

/// One round over `jobs`: what nobody makes is made here, then the others are waited for. Left in
/// `jobs`: what another thread has tried to make and could not.
void find_round(EngineDevice& device, std::vector<Job>& jobs, Programs& programs,
                RealizeStats& stats) {
  std::vector<std::pair<Job, std::shared_future<ProgramPtr>>> others;
  {
    ProgramTable::Claims claims(device.programs());
    std::vector<Job> missing;
    Objects objects;
    for (Job& job : jobs) {
      ProgramTable::Found found = claims.find_or_claim(job.key);
      if (found.program != nullptr) {
        programs[job.key] = std::move(found.program);
      } else if (found.pending.valid()) {
        others.emplace_back(std::move(job), std::move(found.pending));
      } else {
        const ScopedTimer timer(stats.load_ns);
        ProgramPtr stored = load_stored(device, job, objects, claims);
        if (stored == nullptr) {
          missing.push_back(std::move(job));
        } else {
          programs[job.key] = std::move(stored);
        }
      }
    }
    make_programs(device, missing, claims, programs, stats);
  }
  jobs.clear();
  const ScopedTimer timer(stats.compile_ns);
  for (auto& [job, pending] : others) {
    const ProgramPtr& program = pending.get();
    if (program == nullptr) {
      jobs.push_back(std::move(job));
    } else {
      programs[job.key] = program;
    }
  }
}

}  // namespace

CompileCache& shared_compile_cache() {
  struct Caches {
    std::mutex mutex;
    std::map<std::pair<std::string, int64_t>, CompileCache> by_setting;
  };
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const caches = new Caches;
  CompileCacheOptions options = cache_options_from_settings();
  options.on_warning = [](const std::string& text) {
    send_event({.kind = EngineEvent::Kind::kWarning, .kernel = {}, .device = {}, .text = text});
  };
  const std::string folder = setting_string(Setting::kCacheDir);
  const std::lock_guard lock(caches->mutex);
  return caches->by_setting.try_emplace({folder, options.max_bytes}, folder, options).first->second;
}

std::string kernel_symbol(const Kernel& kernel) {
  return symbol_of(kernel, to_text(kernel));
}

Hash128 program_key(const EngineDevice& device, const Kernel& kernel) {
  return key_of(device, to_text(kernel));
}

bool has_simple_plans() {
  const std::string plan = setting_string(Setting::kPlan);
  TENON_CHECK(plan == "auto" || plan == "simple", ErrorCode::kInvalidArgument,
              "setting TENON_PLAN=", plan, ": expected auto or simple");
  return plan == "simple";
}

LinearProgram lower_for(const EngineDevice& device, const Kernel& kernel, CodegenOptions options) {
  options.verify = options.verify || setting_bool(Setting::kVerifyIr);
  options.rules = device.lowering_rules();
  options.is_simple = options.is_simple || has_simple_plans();
  LinearProgram program = lower_kernel(kernel, device.target(), options);
  program.name = kernel_symbol(kernel);
  return program;
}

ProgramObject compile_linear(const EngineDevice& device, const LinearProgram& program) {
  check_linear(program, &device.target(), ErrorCode::kUnsupported);
  const RenderedSource rendered = device.renderer().renderer->render(program, device.target());
  const KernelSource source = {.name = rendered.entry, .text = rendered.text};
  CompiledObject compiled = with_context(
      [&] {
        return device.compiler().compile({&source, 1});
      },
      "compiling program '", program.name, "' for '", device.name(), "'");
  ProgramObject object = describe(program, device.target());
  object.entry = compiled.symbols.at(0);
  object.payload_format = device.compiler().payload_format();
  object.payload = std::move(compiled.bytes);
  return object;
}

std::vector<ProgramPtr> find_programs(EngineDevice& device, std::span<const Kernel* const> kernels,
                                      RealizeStats& stats, const GivenPlans* plans) {
  std::vector<Hash128> keys;
  Programs programs;
  std::vector<Job> jobs;  // one for each key
  for (const Kernel* kernel : kernels) {
    const auto plan = plans != nullptr ? plans->find(*kernel) : std::nullopt;
    keys.push_back(key_of(device, to_text(*kernel), plan));
    const bool is_new = programs.emplace(keys.back(), nullptr).second;
    if (is_new) jobs.push_back({.kernel = kernel, .plans = plans, .key = keys.back()});
  }
  while (!jobs.empty())
    find_round(device, jobs, programs, stats);
  std::vector<ProgramPtr> result;
  for (const Hash128& key : keys)
    result.push_back(programs.at(key));
  return result;
}

}  // namespace tenon
