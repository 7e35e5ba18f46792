// Random tensor graphs for property tests and `prop` runs: seeded, the same everywhere, of bounded
// size, with position-coded inputs. What they cover is measured by graph_coverage.h; a failing one
// is made small by graph_shrink.h. SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/ir/tensor_ops.h"

namespace tenon::testing {

/// bool, all integers, f16, bf16, f32 (twice) and f64.
std::vector<DType> common_dtypes();

struct RandomGraphOptions {
  /// All floats hold small integers and all sums are exact in any order, so that every right device
  /// gives the same bits. Otherwise real numbers, with the ops of the bounded class.
  bool integer_valued = false;
  int min_steps = 4;  ///< a step adds one to eight nodes
  int max_steps = 11;
  int64_t max_elements = 8000;  ///< of one node
  int64_t max_total = 100'000;  ///< of all nodes together
  bool has_variables = true;    ///< no device takes them yet; the oracle and the texts do
  bool has_assigns = true;      ///< at most one a buffer
  bool has_copies = true;       ///< to device 0; who runs them chooses the devices
  /// Of inputs and casts; repeated: more often.
  std::vector<DType> dtypes = common_dtypes();
};

/// Never fails; the same graph for the same seed and options.
TensorGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

/// Data for `graph.inputs`, in order. Each element codes its position; the end of an input's name
/// says in what range: "_int<N>" integers in -N..N (unsigned: 0..N), "_real" numbers in (-2,2),
/// anything else: all values of an integer dtype, or as _real.
std::vector<std::vector<std::byte>> random_inputs(const TensorGraph& graph, uint64_t seed);

/// Whether it is a movement op whose result has another shape than its source, or other elements in
/// other places: no flip along axes of size 1, no pad by 0, no permutation that is the identity...
bool moves_something(const Node& node);

/// Value of a variable node, inside its bounds.
int64_t random_variable(const Node& variable, uint64_t seed);

}  // namespace tenon::testing
