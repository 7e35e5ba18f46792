// What the tenon_prop program does with many graphs: the property run, the hunt for one planted
// fault, the dump of all texts. SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "tenon/base/planted_fault.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/prop/graph_case.h"

namespace tenon::prop {

struct RunOptions {
  uint64_t first_seed = 0;
  int64_t count = 300;
  int64_t batch = 100;  ///< graphs whose kernels are compiled together
  int64_t max_shrink_trials = 300;
  std::string second = "CPU:CLANG:x86_64";  ///< device that copies go to
};

/// Even seeds give graphs of integers, odd ones of real numbers; one in ten may be large. They have
/// no variables, which no device takes yet.
TensorGraph graph_of_seed(uint64_t seed);

/// Prints coverage, rejections and failures (seed, the graph made small, the first wrong element);
/// true if everything that is promised holds.
bool run_property(const DevicePair& devices, const RunOptions& options);

/// One graph, with everything that was found out about it; true if it is right.
bool run_graph(const DevicePair& devices, const TensorGraph& graph, uint64_t seed,
               const RunOptions& options);

/// Plants the fault and goes through the graphs until one is wrong. Graphs that the compiler turns
/// into the same programs as without the fault are passed over. Prints the graph before it runs it,
/// so that a crash can be put down to it, and whether a wrong value or an error told; true if the
/// fault was found.
bool hunt_fault(const DevicePair& devices, PlantedFault fault, const RunOptions& options);

/// Writes the kernel, the program and the source of every kernel to a file.
void dump_texts(const DevicePair& devices, const std::string& path, const RunOptions& options);

}  // namespace tenon::prop
