// How long it takes before a kernel runs: `tenon bench --compile` and `--launch`.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <vector>

#include "bench/report.h"
#include "tenon/engine/engine.h"

namespace tenon::bench {

struct CompileBenchOptions {
  bool is_quick = false;
  double budget_s = 1;  ///< longer chains are left out if a shorter one took as long
};

/// The 1024^3 matmul from graph to rendered source, by part, and its compilation; the Nodes of its
/// nest; chains of 1, 10, 100 thousand elementwise ops; process start to the first result, with a
/// warm and with an empty cache on disk.
std::vector<Row> compile_rows(Device& device, const CompileBenchOptions& options);

/// `[1,2,3] + 1` again and again: from Tensor to result.
std::vector<Row> launch_rows(bool is_quick);

/// What the processes do that compile_rows starts: computes [1,2,3]+1 at run time and prints
/// "KERNELS RESULT". Returns the exit code.
int first_result();

/// The command line words of such a process: "bench", kFirstResultOption.
inline constexpr const char* kFirstResultOption = "--first-result";

}  // namespace tenon::bench
