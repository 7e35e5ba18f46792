// The command `tenon`: parses arguments and calls a function of commands.h. The only file that
// includes CLI11. Exit codes: 0 done, 1 failed, 2 wrong usage. SPDX-License-Identifier: MIT

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/host_memory.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/debug_output.h"
#include "tenon/engine/compiler_id.h"

namespace tenon::cli {
namespace {

constexpr const char* kDeviceHelp =
    "[IFACE+]DEVICE[:INDEX][:RENDERER[:ARCH]], CPU:CLANG for example; else as DEV says";

constexpr const char* kPlanHelp =
    "File of Plans, as 'tenon explain' shows them, for kernels by their names";

/// Options of all commands, and the one that was chosen.
struct CommandLine {
  RunOptions run;
  DigitsOptions digits;
  CompileOptions compile;
  ExplainOptions explain;
  DiffCommandOptions diff;
  BenchOptions bench;
  std::function<int()> chosen;
};

void add_devices(CLI::App& app, CommandLine& line) {
  CLI::App* const command =
      app.add_subcommand("devices", "What can be used here, and does it work");
  command->footer("Example:\n  tenon devices");
  command->callback([&line] { line.chosen = devices_command; });
}

void add_settings(CLI::App& app, CommandLine& line) {
  CLI::App* const command =
      app.add_subcommand("settings", "The environment variables that Tenon reads");
  command->footer("Example:\n  TENON_THREADS=2 tenon settings");
  command->callback([&line] { line.chosen = settings_command; });
}

/// Throws for options among `names` that are given, which belong to `where`.
void refuse(const CLI::App& command, std::initializer_list<const char*> names,
            std::string_view where) {
  for (const char* name : names) {
    if (command.count(name) == 0) continue;
    throw WrongUsage(concat(command.get_name(), ": ", name, " belongs to '", where, "'"));
  }
}

/// Options of digits, refused with a file, and the other way round.
void check_run(const CLI::App& command, bool is_digits) {
  if (is_digits) return refuse(command, {"--in", "--set", "--plan"}, "tenon run FILE");
  refuse(command, {"--batch", "--shuffle", "--zero-filter", "--check", "--data"},
         "tenon run digits");
}

void add_run(CLI::App& app, CommandLine& line) {
  CLI::App* const command = app.add_subcommand("run", "Run a program file, or the digits");
  command->add_option("PROGRAM", line.run.file, "FILE.tg, .tk, .tir or .tpo; or: digits")
      ->required();
  command->add_option("--device", line.run.device, kDeviceHelp);
  command->add_option("--plan", line.run.plan_file, kPlanHelp);
  command->add_option("--in", line.run.inputs, "NAME=FILE.npy: value of an input (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--set", line.run.scalars, "NAME=VALUE of a scalar (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--out", line.run.out_folder,
                      "Folder for the outputs as NAME.npy (digits: predictions, logits)");
  command->add_option("--data", line.digits.data_folder,
                      "digits: folder of the data; else TENON_DATA_DIR, data/ beside or above the "
                      "executable, data/ of the sources");
  command->add_option("--batch", line.digits.batch, "digits: images at a time (1000)");
  command->add_option("--shuffle", line.digits.shuffle_seed, "digits: shuffle them with this seed")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "'" + text + "' is negative" : std::string();
      });
  command->add_option("--zero-filter", line.digits.zero_filter,
                      "digits: set one filter of the first layer to zero");
  command->add_flag("--check", line.digits.check, "digits: compare the logits with float64 ones");
  command->footer(
      "Element i of the k-th input that is not given is, with c = (37 i + 11 k) mod 101,\n"
      "(c - 50) / 32 for floats, c - 50 or c for integers, c odd for bool. Scalars that are not\n"
      "set are the largest of their range. A .tpo file needs no compiler; it holds machine code,\n"
      "so run only those that you trust.\n"
      "Examples:\n"
      "  tenon run digits --check\n"
      "  tenon run scaled.tg --in x=x.npy --out results --device CPU\n"
      "  tenon run kernel.tir --set n=100");
  command->callback([command, &line] {
    const bool is_digits = line.run.file == "digits";
    check_run(*command, is_digits);
    line.digits.device = line.run.device;
    line.digits.out_folder = line.run.out_folder;
    line.chosen = [&line, is_digits] {
      return is_digits ? digits_command(line.digits) : run_command(line.run);
    };
  });
}

void add_compile(CLI::App& app, CommandLine& line) {
  CLI::App* const command = app.add_subcommand("compile", "Compile one kernel to a .tpo file");
  command->add_option("FILE", line.compile.file, "FILE.tg with one kernel, .tk or .tir")
      ->required();
  command->add_option("-o,--output", line.compile.output, "FILE.tpo to write")->required();
  command->add_option("--device", line.compile.device, kDeviceHelp);
  command->footer(
      "Examples:\n"
      "  tenon compile add.tg -o add.tpo && tenon run add.tpo\n"
      "  tenon compile add.tk -o add.tpo --device NULL:CLANG:x86_64,avx2");
  command->callback([&line] { line.chosen = [&line] { return compile_command(line.compile); }; });
}

void add_explain(CLI::App& app, CommandLine& line) {
  CLI::App* const command =
      app.add_subcommand("explain", "Show a program at every level down to machine code");
  command->add_option("FILE", line.explain.file, "FILE.tg, .tk, .tir or .tpo")->required();
  command->add_flag("--passes", line.explain.shows_passes,
                    "Also the text after each pass that changed something");
  command
      ->add_option("--only", line.explain.levels,
                   concat("Levels to show, of ", join(explain_levels(), ",")))
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--show-plan", line.explain.shows_plans,
                    "Only Plans, with what they cost, and the three next best");
  command->add_option("--plan", line.explain.plan_file, kPlanHelp);
  command->add_option("--device", line.explain.device, kDeviceHelp);
  command->footer(
      "Examples:\n"
      "  tenon explain scaled.tg --passes\n"
      "  tenon explain scaled.tg --only schedule,source --device NULL:CLANG:x86_64,avx2");
  command->callback([&line] { line.chosen = [&line] { return explain_command(line.explain); }; });
}

void add_diff(CLI::App& app, CommandLine& line) {
  CLI::App* const command = app.add_subcommand(
      "diff", "Find the first kernel that a device computes wrongly, and whose fault it is");
  command->add_option("PROGRAM", line.diff.file, "FILE.tg, .tk or .tir; or: digits");
  command->add_option("--repeat", line.diff.repeat_folder, "Folder that diff has written");
  command->add_option("--device", line.diff.device, kDeviceHelp);
  command->add_option("--in", line.diff.inputs, "NAME=FILE.npy: value of an input (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--set", line.diff.scalars, "NAME=VALUE of a scalar (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--out", line.diff.out_folder,
                      "Folder for the smallest difference (tenon-diff)");
  command->add_flag("--launch", line.diff.shows_launch,
                    "Also the record of that kernel's launch: arguments, sizes, limits");
  command->add_option("--data", line.diff.data_folder, "digits: folder of the data, as for run");
  command->add_option("--batch", line.diff.batch, "digits: images (20)");
  command->footer(
      "Each kernel runs on the device and, as the same linear program on the same inputs, in the\n"
      "checked interpreter; the oracle says from the graph what must come out. Inputs that are "
      "not\n"
      "given are as for run. Verdicts: 'shared kernel': the program itself is wrong; 'device': it\n"
      "is right, the device is not. Exit codes: 0 nothing differs, 1 something does, or failed.\n"
      "Examples:\n"
      "  tenon diff scaled.tg --device CPU:CLANG\n"
      "  tenon diff digits --device INTERP --batch 4\n"
      "  tenon diff --repeat tenon-diff --launch");
  command->callback([command, &line] {
    const bool is_digits = line.diff.file == "digits";
    if (!is_digits) refuse(*command, {"--batch", "--data"}, "tenon diff digits");
    if (is_digits || line.diff.file.empty()) {
      refuse(*command, {"--in", "--set"}, "tenon diff FILE");
    }
    if (!line.diff.repeat_folder.empty()) refuse(*command, {"--out"}, "tenon diff PROGRAM");
    line.chosen = [&line] { return diff_command(line.diff); };
  });
}

void add_bench(CLI::App& app, CommandLine& line) {
  BenchOptions& bench = line.bench;
  CLI::App* const command =
      app.add_subcommand("bench", "Measure speed beside other libraries and the machine's limits");
  command->add_option("NAME", bench.names, "Workloads or groups of them; else all");
  command->add_flag("--list", bench.is_list, "Only list them");
  command->add_option("--threads", bench.threads, "For all sides; else as many as the device has");
  command->add_flag("--quick", bench.is_quick, "Small sizes, few windows: does all work?");
  command->add_option("--draw", bench.draw,
                      "Also 20 matmul shapes drawn by the first 8 digits of this hash");
  command->add_option("--budget", bench.budget_s, "Skip what takes more seconds a run (1)");
  command->add_option("--json", bench.json_file, "File for all figures");
  command->add_flag("--compile", bench.is_compile, "Measure lowering, compilation and start-up");
  command->add_flag("--plans", bench.is_plans,
                    "Measure the Plans that are chosen beside the next best ones");
  command->add_option("--num-plans", bench.num_plans, "How many, with --plans (4)");
  command->add_flag("--launch", bench.is_launch, "Measure a small op again and again");
  command->add_flag("--interp", bench.is_interp, "Measure the checked interpreter");
  command->add_option("--device", bench.device, kDeviceHelp);
  command->add_flag("--first-result", bench.is_first_result)
      ->group("");                                            // for --compile's children
  command->add_flag("--serve", bench.is_serving)->group("");  // for bench/frameworks.py
  command->footer(
      "Figures are the best of 21 windows and, in brackets, their median. Rates: higher is "
      "better.\n"
      "Other libraries take part where CMake's option TENON_BENCH built them in.\n"
      "Examples:\n"
      "  tenon bench matmul_f32 --threads 2 --json matmul.json\n"
      "  tenon bench --compile --launch");
  command->callback([&line] { line.chosen = [&line] { return bench_command(line.bench); }; });
}

/// A first word that is no command gets the nearest one; CLI11 would only say "not expected".
void check_command_word(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), words[0]) != names.end()) return;
  const std::optional<std::string> nearest = nearest_name(words[0], names);
  throw WrongUsage(concat("there is no command '", words[0], "'",
                          nearest ? concat("; did you mean '", *nearest, "'?") : ".",
                          " Commands: ", join(names, ", "), ". tenon --help tells more"));
}

int run_line(const std::vector<std::string>& words) {
  CLI::App app("Tenon compiles tensor programs and runs them on any device with a backend.",
               "tenon");
  CommandLine line;
  app.set_version_flag("--version", "tenon " + std::string(tenon_version()));
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  tenon run digits                    read 1,000 handwritten digits\n"
      "  tenon devices                       what can be used here\n"
      "  tenon explain scaled.tg --passes    from graph to machine code\n"
      "  tenon diff scaled.tg --device CPU   is it computed right; if not, whose fault\n"
      "TENON_DEBUG=1 prints kernels and times, 2 also their source. tenon COMMAND --help tells\n"
      "more. Exit codes: 0 done, 1 failed, 2 wrong usage.");
  add_devices(app, line);
  add_run(app, line);
  add_compile(app, line);
  add_explain(app, line);
  add_diff(app, line);
  add_bench(app, line);
  add_settings(app, line);
  check_command_word(app, words);
  try {
    app.parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::Success& request) {                         // --help, --version
    std::ostringstream text;
    app.exit(request, text, text);
    print(text.str());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    throw WrongUsage(concat(error.what(), ". tenon --help tells more"));
  }
  if (!line.chosen) {
    print(app.help());
    return kExitWrongUsage;
  }
  if (!app.got_subcommand("settings")) start_debug_output();  // that one shows what is wrong
  return line.chosen();
}

std::string out_of_memory_text() {
  return concat("out of memory: the host has ",
                format_bytes(static_cast<uint64_t>(available_host_bytes())),
                " left for what was asked. Use smaller tensors, or fewer at once");
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  using namespace tenon::cli;  // NOLINT(google-build-using-namespace): main cannot stand inside
  try {
    return run_line({argv + 1, argv + argc});
  } catch (const WrongUsage& error) {
    print_note(error.what());
    return kExitWrongUsage;
  } catch (const std::bad_alloc&) {
    print_note(out_of_memory_text());
  } catch (const std::exception& error) {
    print_note(error.what());
  }
  return kExitFailed;
}
