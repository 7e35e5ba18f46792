// One graph on its way through one or two devices: inputs bound, scheduled, lowered, compiled
// together with others, run into poisoned outputs between guard zones, judged by the oracle. Used
// by the tenon_prop program. SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenon/engine/engine_device.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"

namespace tenon::prop {

/// Inputs are on the first; values that are copied go to the other one, and back.
struct DevicePair {
  EngineDevice& first;
  EngineDevice& second;  ///< may be the first
};

struct GraphCase {
  uint64_t seed = 0;  ///< of the inputs (and, if it is a random one, of the graph)
  TensorGraph graph;
  std::vector<std::vector<std::byte>> data;  ///< of graph.inputs
  std::vector<Node> outputs;                 ///< over buffers on the devices
  int64_t num_crossings = 0;                 ///< copies from one device to another
  Schedule schedule;
  std::vector<EngineDevice*> call_devices;  ///< of schedule.calls
  /// What the compiler makes of the graph: each kernel, its program and its source, as text.
  std::string lowered;
};

struct Verdict {
  enum class Kind : uint8_t { kPassed, kRejected, kFailed };
  Kind kind = Kind::kPassed;
  bool is_wrong_value = false;  ///< a failure of the values, not something thrown
  std::string text;             ///< the reason, or the first wrong element
  int64_t elements = 0;
  int64_t excluded = 0;
  bool is_telling = false;  ///< half of an output's elements or more are distinct and not zero
};

/// Binds position-coded data and places the values: operands on another device than the first one
/// of their operation are copied to it.
GraphCase make_case(const DevicePair& devices, const TensorGraph& graph, uint64_t seed);

/// Schedules and lowers. With `check_texts` each graph, kernel and program is printed, parsed and
/// printed again; throws kInternal, naming the text, if that changes it. Throws kUnsupported with
/// the reason if a device cannot run the graph.
void lower_case(const DevicePair& devices, GraphCase& graph_case, bool check_texts);

/// Compiles the kernels of all cases together.
void compile_cases(const DevicePair& devices, std::span<GraphCase* const> cases);

/// Runs and compares. Throws what realize() throws.
Verdict judge_case(const DevicePair& devices, GraphCase& graph_case);

/// For a graph that fails: the first level that is wrong when it is run by its evaluator (kernels,
/// programs), else what comes after them (renderer, compiler, device).
std::string blame(const DevicePair& devices, const TensorGraph& graph, uint64_t seed);

/// Runs `step`; what it throws becomes a verdict: kUnsupported rejects, anything else is a failure.
Verdict guarded(const std::function<Verdict()>& step);

/// All of the above for one graph.
Verdict check_graph(const DevicePair& devices, const TensorGraph& graph, uint64_t seed);

}  // namespace tenon::prop
