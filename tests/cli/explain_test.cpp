// explain: all levels, in order, under one kernel name. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/file.h"
#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

// Two kernels: the row sums are read through an expand.
constexpr const char* kGraph = R"(graph shares {
  in %x: f32[4,8]
  %0 = reduce f32[4,1] %x add axes [1] acc f32
  %1 = expand f32[4,8] %0
  %2 = div f32[4,8] %x, %1
  %3 = contiguous f32[4,8] %2
  %4 = mul f32[4,8] %3, %3
  out y = %4
})";

class CliExplain : public ::testing::Test {
 protected:
  CliExplain() { write_file_atomic(folder_ / "shares.tg", kGraph); }
  std::string explain(std::vector<std::string> more,
                      const std::map<std::string, std::string>& variables = {}) {
    more.insert(more.begin(), {"explain", folder_ / "shares.tg"});
    const TenonResult result = run_tenon(more, variables);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  const TempFolder folder_;
};

TEST_F(CliExplain, ShowsAllLevelsInOrder) {
  const std::string text = explain({"--device", "NULL:CLANG:x86_64,avx2"});
  size_t at = 0;
  const auto expect_next = [&](const std::string& words) {
    const size_t found = text.find(words, at);
    EXPECT_NE(found, std::string::npos) << "no '" << words << "' after byte " << at << " of\n"
                                        << text;
    if (found != std::string::npos) at = found;
  };
  expect_next("== tensor graph\ngraph shares {");
  expect_next("== schedule: ");
  expect_next("%x");
  expect_next("given");
  expect_next("stored: ");
  expect_next("= y");
  expect_next("stored: output");
  expect_next("1.  ");
  const std::string name = text.substr(at + 4, text.find(' ', at + 4) - at - 4);
  for (const char* level : {"kernel\nkernel ", "plan\nplan ", "passes\nschedule ",
                            "linear program\ntir 1 func ", "source (CLANG)\n", "disassembly\n"}) {
    expect_next("== kernel " + name + ": " + level);
    if (level == std::string("linear program\ntir 1 func "))
      expect_next("tir 1 func " + name + " ");
    if (level == std::string("source (CLANG)\n")) expect_next("void " + name + "(");
  }
}

TEST_F(CliExplain, PassesShowsTextsOnlyOfThoseThatChangedSomething) {
  const std::string table = explain({"--only", "passes"});
  EXPECT_THAT(table, ::testing::ContainsRegex("build_nest +changed"));
  EXPECT_THAT(table, HasSubstr("no change"));
  EXPECT_THAT(table, Not(HasSubstr("-- after")));
  const std::string texts = explain({"--only", "passes", "--passes"});
  EXPECT_THAT(texts, HasSubstr("-- after build_nest\nnest "));
  EXPECT_THAT(texts, HasSubstr("-- after emit_linear\ntir 1 func "));
  for (size_t at = 0; (at = texts.find("no change", at)) != std::string::npos; ++at) {
    const size_t begin = texts.rfind('\n', at) + 1;
    const std::string pass = texts.substr(begin, texts.find(' ', begin) - begin);
    // One kernel may change where another does not; then the text is there once.
    size_t num_changed = 0;
    size_t num_texts = 0;
    for (size_t i = 0; (i = texts.find("\n" + pass + " ", i)) != std::string::npos; ++i)
      num_changed +=
          texts.substr(i, texts.find('\n', i + 1) - i).find(" changed") != std::string::npos ? 1
                                                                                             : 0;
    for (size_t i = 0; (i = texts.find("-- after " + pass + "\n", i)) != std::string::npos; ++i)
      ++num_texts;
    EXPECT_EQ(num_texts, num_changed) << pass;
  }
}

TEST_F(CliExplain, OnlyShowsTheLevelsAskedFor) {
  const std::string text = explain({"--only", "graph,plan"});
  EXPECT_THAT(text, HasSubstr("== tensor graph"));
  EXPECT_THAT(text, HasSubstr(": plan\n"));
  EXPECT_THAT(text, Not(HasSubstr(": kernel\n")));
  EXPECT_THAT(text, Not(HasSubstr("void ")));
}

TEST_F(CliExplain, PlansAreShownWithTheirCost) {
  const std::string text = explain({"--show-plan", "--device", "NULL:CLANG:x86_64,avx2"});
  EXPECT_THAT(text, ContainsRegex(": plan\nthis plan, [a-z]+: L1 "));
  for (const char* words : {"Mflop", " us\n", "computing takes", "moving takes", "\nplan ",
                            "runner-up 1, ", "runner-up 2, ", "runner-up 3, "})
    EXPECT_THAT(text, HasSubstr(words));
  EXPECT_THAT(text, Not(HasSubstr("runner-up 4")));
  EXPECT_THAT(text, Not(HasSubstr("tir 1 func")));
}

/// The first plan that the text shows for each kernel.
std::string shown_plans(const std::string& text) {
  std::string plans;
  for (size_t at = 0; (at = text.find("\nplan ", at)) != std::string::npos;) {
    const size_t end = text.find("\n}\n", at) + 3;
    plans += text.substr(at + 1, end - at - 1);
    at = text.find("== kernel", end);
    if (at == std::string::npos) break;
  }
  return plans;
}

// The chosen Plan says which family it is of, as the others do; one by hand is of none.
TEST_F(CliExplain, EachPlanNamesItsFamily) {
  const auto shown = [](const std::string& plan_file, const std::string& plan = "auto") {
    std::vector<std::string> words = {"explain", TENON_SOURCE_DIR "/examples/matmul.tg",
                                      "--show-plan", "--device", "NULL:CLANG:x86_64,avx2,fma"};
    if (!plan_file.empty()) words.insert(words.end(), {"--plan", plan_file});
    const TenonResult result = run_tenon(words, {{"TENON_PLAN", plan}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string text = shown("");
  EXPECT_THAT(text, HasSubstr(": plan\nthis plan, tile: L1 "));
  EXPECT_THAT(text, HasSubstr("\nrunner-up 1, tile: L1 "));
  EXPECT_THAT(text, ContainsRegex("\nrunner-up 2, [a-z]+: L1 "));
  EXPECT_THAT(shown("", "simple"), HasSubstr(": plan\nthis plan, simple: L1 "));
  std::string by_hand = shown_plans(text);
  const size_t rows = by_hand.find("@seq 8");
  ASSERT_NE(rows, std::string::npos) << by_hand;
  by_hand[rows + 5] = '2';
  write_file_atomic(folder_ / "hand.plan", by_hand);
  const std::string given = shown(folder_ / "hand.plan");
  EXPECT_THAT(given, HasSubstr(": plan\nthis plan: L1 "));
  EXPECT_THAT(given, HasSubstr("\nrunner-up 1, tile: L1 "));
}

TEST_F(CliExplain, PlansOfAFileTakeThePlaceOfTheChosenOnes) {
  const std::string chosen = explain({"--only", "plan"});
  const std::string simple = explain({"--only", "plan"}, {{"TENON_PLAN", "simple"}});
  ASSERT_NE(shown_plans(chosen), shown_plans(simple));
  write_file_atomic(folder_ / "simple.plan", shown_plans(simple));
  EXPECT_EQ(explain({"--only", "plan", "--plan", folder_ / "simple.plan"}), simple);
  EXPECT_EQ(explain({"--only", "linear", "--plan", folder_ / "simple.plan"}),
            explain({"--only", "linear"}, {{"TENON_PLAN", "simple"}}));
  const std::vector<std::string> run = {"run", folder_ / "shares.tg"};
  const TenonResult own = run_tenon(run);
  std::vector<std::string> run_with = run;
  run_with.insert(run_with.end(), {"--plan", folder_ / "simple.plan"});
  const TenonResult given = run_tenon(run_with);
  EXPECT_EQ(given.exit_code, 0) << given.err;
  EXPECT_EQ(given.out.substr(0, given.out.find(" on ")), own.out.substr(0, own.out.find(" on ")));
}

// What is done with a kernel before a Plan is chosen is done with it where one is given: products
// of signed bytes with a sum beside them for a unit, axes that are one walk.
TEST_F(CliExplain, APlanOfWhatWasPreparedCanBeGivenBack) {
  write_file_atomic(folder_ / "bytes.tk", R"(kernel bytes {
  in a: i8[32,64]  in b: i8[64,48]  out y: i32[32,48]
  y[i,j] += i32(a[i,k]) * i32(b[k,j])  over i:32, j:48, k:64 red  start 0
})");
  write_file_atomic(folder_ / "short.tk", R"(kernel short {
  in x: f32[9,5]  out y: f32[9,5]
  y[i,j] = x[i,j] + x[i,j]  over i:9, j:5
})");
  const std::string with_unit = "NULL:CLANG:x86_64,avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni";
  for (const std::string name : {"bytes", "short"}) {
    for (const std::string& device : {with_unit, std::string("CPU")}) {
      SCOPED_TRACE(name + " on " + device);
      const auto tenon = [&](std::vector<std::string> words, bool is_simple = false) {
        words.insert(words.begin() + 1, {folder_ / (name + ".tk"), "--device", device});
        const TenonResult result =
            run_tenon(words, {{"TENON_PLAN", is_simple ? "simple" : "auto"}});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.out.substr(0, result.out.find(" on "));
      };
      for (const bool is_simple : {false, true}) {
        const std::string shown = tenon({"explain", "--only", "plan"}, is_simple);
        const std::string of_unit = name == "bytes" ? "s_offset" : "i_j@";
        if (device == with_unit) {
          EXPECT_THAT(shown, HasSubstr(of_unit));
        }
        const std::string file = folder_ / "own.plan";
        write_file_atomic(file, shown_plans(shown));
        EXPECT_EQ(tenon({"explain", "--only", "plan", "--plan", file}), shown);
        EXPECT_EQ(tenon({"explain", "--only", "linear", "--plan", file}),
                  tenon({"explain", "--only", "linear"}, is_simple));
        if (device == "CPU") {
          EXPECT_EQ(tenon({"run", "--plan", file}), tenon({"run"}));
        }
      }
    }
  }
}

TEST_F(CliExplain, SaysThatThereIsNoDisassembler) {
  const std::optional<std::string> path = find_program("clang-22");
  if (!path) GTEST_SKIP() << "needs clang-22 on PATH";
  const std::string text = explain({"--only", "disassembly", "--device", "NULL:CLANG"},
                                   {{"TENON_CLANG", *path}, {"PATH", "/nonexistent"}});
  EXPECT_THAT(text, HasSubstr(": disassembly\nnot available: "));
  EXPECT_THAT(text, HasSubstr("llvm-objdump"));
}

TEST_F(CliExplain, IsTheSameEveryTime) {
  const std::vector<std::string> levels = {"--only", "graph,schedule,kernel,plan,linear,source"};
  EXPECT_EQ(explain(levels), explain(levels));
}

TEST_F(CliExplain, TellsWhatAnObjectIs) {
  write_file_atomic(folder_ / "twice.tg",
                    "graph twice { in %x: u8[7]\n %0 = add u8[7] %x, %x\n out y = %0\n }");
  const std::string object = folder_ / "twice.tpo";
  ASSERT_EQ(run_tenon({"compile", folder_ / "twice.tg", "-o", object}).exit_code, 0);
  const TenonResult result = run_tenon({"explain", object}, {{"PATH", ""}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("== program \"e_7_"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("target +\"arch=x86_64 "));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("payload +[0-9]+ bytes of \"elf-x86_64\""));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("0 +\"y\" +u8.7. +write +at byte 0"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("1 +\"x\" +u8.7. +read +at byte 8"));
}

}  // namespace
}  // namespace tenon
