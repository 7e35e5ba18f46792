// One graph on its way through a device: inputs bound, scheduled, lowered, compiled together with
// others, run into poisoned outputs between guard zones, judged by the oracle. Used by the
// tenon_prop program. SPDX-License-Identifier: MIT
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

struct GraphCase {
  uint64_t seed = 0;  ///< of the inputs (and, if it is a random one, of the graph)
  TensorGraph graph;
  std::vector<std::vector<std::byte>> data;  ///< of graph.inputs
  std::vector<Node> outputs;                 ///< over buffers on the device
  Schedule schedule;
  /// What the compiler makes of the graph: each kernel, its program and its source, as text.
  std::string lowered;
};

struct Verdict {
  enum class Kind : uint8_t { kPassed, kRejected, kFailed };
  Kind kind = Kind::kPassed;
  std::string text;  ///< the reason, or the first wrong element
  int64_t elements = 0;
  int64_t excluded = 0;
  bool is_telling = false;  ///< half of an output's elements or more are distinct and not zero
};

/// Binds position-coded data. Variables become the numbers that the oracle takes for them, copies
/// go to `device`.
GraphCase make_case(EngineDevice& device, const TensorGraph& graph, uint64_t seed);

/// Schedules and lowers. With `check_texts` each graph, kernel and program is printed, parsed and
/// printed again; throws kInternal, naming the text, if that changes it. Throws kUnsupported with
/// the reason if the device cannot run the graph.
void lower_case(EngineDevice& device, GraphCase& graph_case, bool check_texts);

/// Compiles the kernels of all cases together.
void compile_cases(EngineDevice& device, std::span<GraphCase* const> cases);

/// Runs and compares. Throws what realize() throws.
Verdict judge_case(EngineDevice& device, GraphCase& graph_case);

/// For a graph that fails: the first level that is wrong when it is run by its evaluator (kernels,
/// programs), else what comes after them (renderer, compiler, device).
std::string blame(EngineDevice& device, const TensorGraph& graph, uint64_t seed);

/// Runs `step`; what it throws becomes a verdict: kUnsupported rejects, anything else is a failure.
Verdict guarded(const std::function<Verdict()>& step);

/// All of the above for one graph.
Verdict check_graph(EngineDevice& device, const TensorGraph& graph, uint64_t seed);

}  // namespace tenon::prop
