// The subcommands of `tenon`: one function each, with its options as plain data. Called by
// main.cpp, which parses the arguments. Each returns the exit code, 0 or 1; Errors end in 1 and
// WrongUsage in
// 2. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitWrongUsage = 2;

/// Every built backend: is it there, what can it compile with, does a small program run.
int devices_command();

/// The table of settings, and variables that look like one and are none.
int settings_command();

struct RunOptions {
  std::string file;
  std::vector<std::string> inputs;   ///< NAME=FILE.npy
  std::vector<std::string> scalars;  ///< NAME=VALUE
  std::string out_folder;            ///< empty: outputs are only printed
  std::string device;                ///< empty: the default one; so below
  std::string plan_file;             ///< Plans for its kernels; empty: none
};
/// Runs a .tg, .tk, .tir or .tpo file once.
int run_command(const RunOptions& options);

struct DigitsOptions {
  std::string device;
  std::string data_folder;  ///< empty: searched, see data_folder.h
  std::string out_folder;   ///< for predictions.npy and logits.npy; empty: none
  int64_t batch = 1000;
  std::optional<uint64_t> shuffle_seed;
  std::optional<int64_t> zero_filter;  ///< of the first convolution
  bool check = false;
};
/// Classifies the 1,000 handwritten digits of data/.
int digits_command(const DigitsOptions& options);

struct CompileOptions {
  std::string file;
  std::string output;
  std::string device;
};
/// Compiles one kernel to a .tpo file.
int compile_command(const CompileOptions& options);

struct ExplainOptions {
  std::string file;
  std::string device;
  bool shows_passes = false;
  bool shows_plans = false;         ///< what Plans cost, and those that were not chosen
  std::string plan_file;            ///< Plans for its kernels; empty: none
  std::vector<std::string> levels;  ///< empty: all
};
/// Prints a program at every level between its file and machine code.
int explain_command(const ExplainOptions& options);

struct DiffCommandOptions {
  std::string file;           ///< or "digits"; empty with repeat_folder
  std::string repeat_folder;  ///< one that diff has written
  std::string device;
  std::vector<std::string> inputs;   ///< NAME=FILE.npy
  std::vector<std::string> scalars;  ///< NAME=VALUE
  std::string out_folder = "tenon-diff";
  std::string data_folder;  ///< of digits
  int64_t batch = 20;       ///< of digits
  bool shows_launch = false;
};
/// Finds the first kernel that a device computes otherwise than INTERP and the oracle; kExitFailed
/// if there is one.
int diff_command(const DiffCommandOptions& options);

struct BenchOptions {
  std::vector<std::string> names;  ///< workloads or groups; empty: all
  std::string device;
  std::string draw;                ///< hex digits that shapes are drawn by; empty: none
  std::string json_file;           ///< empty: none
  std::optional<int64_t> threads;  ///< else as the device has
  double budget_s = 1;             ///< rows whose single run takes longer are skipped
  bool is_list = false;
  bool is_quick = false;
  bool is_compile = false;
  bool is_launch = false;
  bool is_interp = false;
  bool is_plans = false;
  size_t num_plans = 4;          ///< of each kernel, with is_plans
  bool is_first_result = false;  ///< only compute [1,2,3]+1: what --compile starts
  bool is_serving = false;       ///< a window of the workload for each line of the input
};
/// Measures Tenon beside other libraries and the machine's limits. Defined in bench/.
int bench_command(const BenchOptions& options);

/// The names that ExplainOptions::levels takes.
std::vector<std::string> explain_levels();

}  // namespace tenon::cli
