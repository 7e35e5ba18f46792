// The folder that `tenon diff` leaves and `tenon diff --repeat` reads: report.txt, program.tir,
// kernel.tg, arrays as .npy, and case.txt, which says which array is which. Folders are untrusted.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tenon/conform/diff.h"

namespace tenon::cli {

/// The first wrong element, then the listed ones, a line each.
std::string wrong_elements_text(const Difference& difference);

/// What a shell is given to run it again; `folder` is an absolute path.
std::string repeat_command(const std::string& folder);

/// Writes the smallest difference, and the program of the first one. `text` is the report so far.
void write_diff_folder(const std::string& folder, const DiffReport& report, const Device& device,
                       const std::string& text);

/// Either a graph or a program, with what goes in.
struct DiffFolder {
  std::string device;
  std::optional<TensorGraph> graph;
  std::vector<std::vector<std::byte>> data;  ///< of the graph's inputs
  std::optional<LinearProgram> program;
  std::vector<DiffArray> arguments;
  std::optional<OracleValue> expected;  ///< what the oracle said of the program's first argument
};

/// Throws kNotFound for a folder without case.txt, kInvalidArgument for what does not fit.
DiffFolder read_diff_folder(const std::string& folder);

}  // namespace tenon::cli
