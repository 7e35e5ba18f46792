// Keeps docs/tour.md, docs/ir.md and README.md true: their dumps are what the command prints, their
// code compiles and gives the graphs of examples/. A block is a comment, `<!-- tenon ARGUMENTS
// -->`,
// `<!-- code NAME -->` (of this file), `<!-- text NAME -->` (made by this file), `<!-- file PATH
// -->` or `<!-- run PROGRAM -->`, and the fenced text after it. TENON_UPDATE_GOLDEN=1 writes the
// page anew. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <regex>

#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/tensor.h"
#include "tests/cli/run_tenon.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

using testing::coded_float;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

constexpr const char* kPage = TENON_SOURCE_DIR "/docs/tour.md";
constexpr const char* kIrPage = TENON_SOURCE_DIR "/docs/ir.md";
constexpr const char* kReadme = TENON_SOURCE_DIR "/README.md";

/// The page with the text of each block that `make` has an answer for replaced by it.
std::string with_blocks(const std::string& page,
                        const std::function<std::optional<std::string>(const std::string&)>& make) {
  constexpr std::string_view kFence = "```\n";
  std::string result;
  size_t done = 0;
  for (size_t at = 0; (at = page.find("\n<!-- ", at)) != std::string::npos; ++at) {
    const size_t end_of_line = page.find('\n', at + 1);
    const std::string line = page.substr(at + 1, end_of_line - at - 1);
    const std::string block = line.substr(5, line.size() - 9);  // between "<!-- " and " -->"
    const std::string word = block.substr(0, block.find(' '));
    if (word != "tenon" && word != "code" && word != "text" && word != "file" && word != "run") {
      continue;
    }
    const size_t begin = page.find('\n', end_of_line + 1) + 1;  // after ```cpp
    const size_t end = page.find(kFence, begin);
    EXPECT_TRUE(line.ends_with(" -->") && page.substr(end_of_line + 1, 3) == "```" &&
                end != std::string::npos)
        << "a marker without its block: " << line;
    if (end == std::string::npos) break;
    const std::optional<std::string> text = make(block);
    append(result, page.substr(done, begin - done), text ? *text : page.substr(begin, end - begin));
    done = end;
  }
  return result + page.substr(done);
}

void compare(const std::string& page, const std::string& made, const char* path = kPage) {
  if (setting_bool(Setting::kUpdateGolden)) {
    write_file_atomic(path, made);
    return;
  }
  EXPECT_EQ(page, made) << path << " is out of date; run this test with TENON_UPDATE_GOLDEN=1";
}

/// What `tenon ARGUMENTS` prints, run in the root of the sources, without times. FOLDER is one for
/// what it writes; a difference that `tenon diff` finds is no failure.
std::string printed(const std::string& command) {
  const TempFolder folder;
  std::vector<std::string> arguments;
  for (const std::string_view word : split(std::string_view(command), ' ')) {
    const bool is_file = word.starts_with("examples/");
    arguments.push_back(is_file            ? concat(TENON_SOURCE_DIR, "/", word)
                        : word == "FOLDER" ? folder.path()
                                           : std::string(word));
  }
  arguments.erase(arguments.begin());
  // The Plan depends on the number of threads.
  const TenonResult result = run_tenon(arguments, {{"TENON_THREADS", "2"}});
  const bool differs = result.out.find("\nverdict:  ") != std::string::npos;
  EXPECT_EQ(result.exit_code, differs ? 1 : 0) << command << "\n" << result.err;
  std::string text = std::regex_replace(result.out, std::regex(R"([0-9.]+ (us|ms|s)\b)"), "...");
  for (size_t at = 0; (at = text.find(folder.path(), at)) != std::string::npos; at += 6)
    text.replace(at, folder.path().size(), "FOLDER");
  while (text.ends_with("\n\n"))
    text.pop_back();
  return text;
}

/// First line of what a program says of itself, or "".
std::string version_of(const std::string& program) {
  std::FILE* const pipe = ::popen((program + " --version 2>&1").c_str(), "r");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const bool is_read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  return is_read ? std::string(trim(std::string_view(line))) : "";
}

std::string tool_versions() {
  const std::string objdump = find_program("llvm-objdump-22") ? "llvm-objdump-22" : "llvm-objdump";
  return concat(version_of("clang-22"), ", ", version_of(objdump));
}

/// The lines between "// [NAME]" and "// [end]" in this file, without their indentation.
std::string code_of(const std::string& name) {
  const std::string source = read_file(TENON_SOURCE_DIR "/tests/cli/tour_test.cpp");
  const std::string head = concat("// [", name, "]\n");
  const size_t begin = source.find(head);
  EXPECT_NE(begin, std::string::npos) << name;
  if (begin == std::string::npos) return "";
  const std::string body = source.substr(begin + head.size());
  std::string code;
  for (const std::string_view line : split(std::string_view(body), '\n')) {
    if (trim(line) == "// [end]") return code;
    append(code, trim(line), "\n");
  }
  ADD_FAILURE() << "no end of " << name;
  return "";
}

std::vector<float> coded(int64_t count, int64_t number) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(coded_float(i, number));
  return values;
}

std::string example_text(const std::string& file) {
  const std::string path = concat(TENON_SOURCE_DIR, "/examples/", file);
  return to_text(parse_graph(read_file(path), path));
}

TEST(Tour, DumpsAreWhatTheCommandPrints) {
  const std::string page = read_file(kPage);
  int num_blocks = 0;
  compare(page, with_blocks(page, [&](const std::string& block) -> std::optional<std::string> {
            if (block.starts_with("code")) return std::nullopt;
            if (block.find("disassembly") != std::string::npos) return std::nullopt;
            ++num_blocks;
            return printed(block);
          }));
  EXPECT_GE(num_blocks, 6);
}

TEST(Tour, MachineCodeIsWhatTheNamedToolsGive) {
  if (testing::kIsSanitized) GTEST_SKIP() << "the page has no sanitizer's calls in its kernels";
  const std::regex note("<!-- disassembled with: ([^\n]*) -->");
  std::string page = read_file(kPage);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(page, match, note));
  const std::string versions = tool_versions();
  if (setting_bool(Setting::kUpdateGolden)) {
    page = std::regex_replace(page, note, concat("<!-- disassembled with: ", versions, " -->"));
  } else if (match[1] != versions) {
    GTEST_SKIP() << "the page was made with " << match[1] << "; here are " << versions;
  }
  compare(page, with_blocks(page, [](const std::string& block) -> std::optional<std::string> {
            if (block.find("disassembly") == std::string::npos) return std::nullopt;
            return printed(block);
          }));
}

TEST(Tour, CodeIsCompiledAndGivesTheExamples) {
  const TempFolder folder;
  const ScopedSetting cache(Setting::kCacheDir, folder.path());
  const std::string page = read_file(kPage);
  compare(page, with_blocks(page, [](const std::string& block) -> std::optional<std::string> {
            if (!block.starts_with("code ")) return std::nullopt;
            return code_of(block.substr(5));
          }));
  {
    const std::vector<float> a_values = coded(100, 0);
    const std::vector<float> b_values = coded(100, 1);
    // [add]
    const Tensor a = Tensor::from_data(a_values, {100});
    const Tensor b = Tensor::from_data(b_values, {100});
    const Tensor y = a + b;
    // [end]
    EXPECT_EQ(to_text({"add", {a.node(), b.node()}, {"a", "b"}, {y.node()}, {"y"}}),
              example_text("add.tg"));
    EXPECT_EQ(y.to_vector<float>()[99], coded_float(99, 0) + coded_float(99, 1));
  }
  {
    const std::vector<float> a_values = coded(128, 0);
    const std::vector<float> b_values = coded(64, 1);
    // [matmul]
    const Tensor a = Tensor::from_data(a_values, {8, 16});
    const Tensor b = Tensor::from_data(b_values, {16, 4});
    const Tensor y = a.matmul(b);
    // [end]
    EXPECT_EQ(to_text({"matmul", {a.node(), b.node()}, {"a", "b"}, {y.node()}, {"y"}}),
              example_text("matmul.tg"));
    float expected = 0;  // y[7,3]; exact, since all values are small multiples of 1/32
    for (int64_t k = 0; k < 16; ++k)
      expected += coded_float(7 * 16 + k, 0) * coded_float(k * 4 + 3, 1);
    EXPECT_EQ(y.to_vector<float>()[31], expected);
  }
}

/// The output of a built example; its exit code must be 0.
std::string output_of(const std::string& program) {
  std::FILE* const pipe =
      ::popen(concat("TENON_GUARD=1 ", TENON_BINARY_DIR, "/", program).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr)
    text += buffer;
  EXPECT_EQ(::pclose(pipe), 0) << program;
  return text;
}

TEST(Readme, ProgramAndDumpsAreTheRealOnes) {
  const std::string page = read_file(kReadme);
  int num_blocks = 0;
  compare(page,
          with_blocks(page,
                      [&](const std::string& block) -> std::optional<std::string> {
                        ++num_blocks;
                        if (block.starts_with("tenon ")) return printed(block);
                        if (block.starts_with("run ")) return output_of(block.substr(4));
                        const std::string source =
                            read_file(concat(TENON_SOURCE_DIR, "/", block.substr(5)));
                        return source.substr(source.find('\n') + 1);  // without its head comment
                      }),
          kReadme);
  EXPECT_EQ(num_blocks, 3);
}

// The one kernel of a (m,k) @ b (k,n), with what `finish` makes of the product.
Kernel product_kernel(int64_t m, int64_t n, int64_t k, Tensor (*finish)(const Tensor&)) {
  const Tensor a = Tensor::from_data(std::vector<float>(static_cast<size_t>(m * k)), {m, k});
  const Tensor b = Tensor::from_data(std::vector<float>(static_cast<size_t>(k * n)), {k, n});
  const Node outputs[] = {finish(a.matmul(b)).node()};
  return schedule_graph(outputs, {}).calls.at(0).kernel;
}

std::string page_text(const std::string& name) {
  if (name == "kernel") {
    return to_text(product_kernel(2, 3, 4, [](const Tensor& x) { return x.relu(); }));
  }
  EXPECT_EQ(name, "plan");
  // The page names what of a Target this Plan depends on.
  Target target;
  target.arithmetic.add(DType::kF32);
  target.max_vector_bytes = 64;
  target.max_local_bytes = 4 << 20;
  target.vector_registers = 32;
  target.mulacc_rate = 3600;
  target.caches = {{32 << 10, 8, 1, 210}, {1 << 20, 8, 1, 115}, {32 << 20, 16, 2, 80}};
  target.memory_speed = 20;
  target.max_arguments = 64;
  target.threads = 2;
  const Kernel kernel =
      prepare_kernel(product_kernel(1024, 1024, 1024, [](const Tensor& x) { return x; }), target);
  return to_text(choose_plan(kernel, target), kernel);
}

TEST(IrPage, KernelAndPlanAreTheRealOnes) {
  const std::string page = read_file(kIrPage);
  int num_blocks = 0;
  compare(page,
          with_blocks(page,
                      [&](const std::string& block) -> std::optional<std::string> {
                        ++num_blocks;
                        return page_text(block.substr(5));
                      }),
          kIrPage);
  EXPECT_EQ(num_blocks, 2);
}

}  // namespace
}  // namespace tenon
