// tenon_prop: random graphs on devices against the oracle, and the proof that planted faults are
// found.
//   tenon_prop --count 2000            the property on every device that computes
//   tenon_prop --seed 17 | FILE.tg...  one random graph; graphs from files
//   tenon_prop --hunt all|NAME,...     plants each fault, in a process of its own for each device
//   tenon_prop --fault NAME --seed 17  plants it and shows what is reported
//   tenon_prop --same-text             two processes make the same texts
// The setting TENON_SEED chooses other graphs. SPDX-License-Identifier: MIT

#include <CLI/CLI.hpp>
#include <iostream>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"
#include "tenon/ir/graph_text.h"
#include "tests/prop/graph_runs.h"
#include "tests/prop/processes.h"

namespace tenon::prop {
namespace {

struct Arguments {
  RunOptions run;
  std::vector<std::string> devices;
  std::vector<std::string> files;
  std::optional<uint64_t> seed;
  std::string fault;
  std::string hunt;
  std::string dump;
  bool same_text = false;
};

// Those that were named, else every one that computes: a backend with a rank above 0, with each of
// its own renderers that is here.
std::vector<std::string> device_names(const Arguments& arguments) {
  if (!arguments.devices.empty()) return arguments.devices;
  std::vector<std::string> names;
  for (const BackendDescriptor* backend : all_backends()) {
    if (backend->default_rank <= 0 || backend->why_absent()) continue;
    for (const RendererDescriptor& renderer : backend->renderers) {
      if (!renderer.why_absent()) names.push_back(concat(backend->name, ":", renderer.name));
    }
  }
  return names;
}

std::vector<PlantedFaultInfo> wanted_faults(const std::string& words) {
  if (words == "all") {
    return {planted_fault_table().begin(), planted_fault_table().end()};
  }
  std::vector<PlantedFaultInfo> faults;
  for (const std::string_view name : split(words, ',')) {
    const auto fault = parse_planted_fault(name);
    TENON_CHECK(fault.has_value(), ErrorCode::kNotFound, "no planted fault is named '", name, "'");
    for (const PlantedFaultInfo& info : planted_fault_table()) {
      if (info.fault == *fault) faults.push_back(info);
    }
  }
  return faults;
}

bool run_on(const std::string& name, const Arguments& arguments) {
  const DevicePair devices{engine_device(Device::get(name)),
                           engine_device(Device::get(arguments.run.second))};
  if (!arguments.dump.empty()) {
    dump_texts(devices, arguments.dump, arguments.run);
    return true;
  }
  auto fault = PlantedFault::kNone;
  if (!arguments.fault.empty()) {
    const auto found = parse_planted_fault(arguments.fault);
    TENON_CHECK(found.has_value(), ErrorCode::kNotFound, "no planted fault is named '",
                arguments.fault, "'");
    fault = *found;
  }
  if (arguments.seed) {
    const ScopedPlantedFault planted(fault);
    const uint64_t seed = *arguments.seed;
    return run_graph(devices, graph_of_seed(seed), seed, arguments.run);
  }
  if (fault != PlantedFault::kNone) return hunt_fault(devices, fault, arguments.run);
  bool is_good = true;
  for (const std::string& file : arguments.files) {
    is_good = run_graph(devices, parse_graph(read_file(file), file), 0, arguments.run) && is_good;
  }
  return arguments.files.empty() ? run_property(devices, arguments.run) : is_good;
}

bool run(const Arguments& arguments) {
  const std::vector<std::string> names = device_names(arguments);
  TENON_CHECK(!names.empty(), ErrorCode::kNotFound, "no device here computes");
  const auto is_right_on = [&](const std::string& name) {
    if (!arguments.hunt.empty()) {
      return hunt_in_processes(wanted_faults(arguments.hunt), name, arguments.run);
    }
    return arguments.same_text ? have_processes_same_text(name, arguments.run)
                               : run_on(name, arguments);
  };
  bool is_good = true;
  for (const std::string& name : names)
    is_good = is_right_on(name) && is_good;
  return is_good;
}

}  // namespace
}  // namespace tenon::prop

int main(int argc, char** argv) {
  using tenon::prop::Arguments;
  Arguments arguments;
  arguments.run.first_seed =
      static_cast<uint64_t>(tenon::setting_int(tenon::Setting::kSeed)) * 1'000'000;
  CLI::App app("Random graphs against the oracle.");
  app.add_option("--count", arguments.run.count, "graphs");
  app.add_option("--batch", arguments.run.batch, "graphs whose kernels are compiled together");
  app.add_option("--first", arguments.run.first_seed, "seed of the first graph");
  app.add_option("--device", arguments.devices, "in place of all that compute");
  app.add_option("--second", arguments.run.second, "device that copies go to");
  app.add_option("--seed", arguments.seed, "the graph of this seed only");
  app.add_option("--hunt", arguments.hunt, "plant these faults: all, or names with commas");
  app.add_option("--fault", arguments.fault, "plant this fault in this process");
  app.add_option("--dump", arguments.dump, "write the text of all kernels to this file");
  app.add_flag("--same-text", arguments.same_text, "compare the dumps of two processes");
  app.add_option("files", arguments.files, "graphs (.tg)");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenon::prop::run(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "tenon_prop: " << error.what() << "\n";
    return 2;
  }
}
