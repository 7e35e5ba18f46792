// What the checks are worth: in whole programs each barrier is removed, each gate dropped, each
// bound of a loop and of a mask moved by one. Either a check finds it or the poisoned output shows
// it; what neither sees stands in a list, with the reason why it is the same program.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/interp/fault_cases.h"
#include "tests/ir/linear_support.h"
#include "tests/support/linear_mutants.h"
#include "tests/tir/tir_cases.h"

namespace tenon {
namespace {

/// A program, its inputs, and what it writes when it is right.
struct Subject {
  std::string name;
  LinearProgram program;
  std::vector<std::vector<std::byte>> inputs;  ///< of the arguments; of outputs their poison
  std::span<const MatrixUnit> units;
};

constexpr std::byte kPoison{0xdb};

/// All bytes after a run; nothing if a check found something.
std::optional<std::vector<std::vector<std::byte>>> run(const Subject& subject,
                                                       const LinearProgram& program) {
  if (!verify_linear(program).empty()) return std::nullopt;
  auto bytes = subject.inputs;
  std::vector<CheckedArgument> given;
  for (std::vector<std::byte>& each : bytes)
    given.push_back({.bytes = each});
  if (CheckedProgram(program, {.units = subject.units}).run(given).fault) return std::nullopt;
  return bytes;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const testing::FaultCase& item : testing::fault_cases()) {
    if (item.hole >= 0) continue;
    Subject subject{.name = item.name,
                    .program = parse_linear(testing::one_side(item.text, true)),
                    .inputs = {},
                    .units = {}};
    for (const Argument& argument : subject.program.signature.arguments) {
      std::vector<std::byte> bytes(static_cast<size_t>(argument.num_elements) * 4, kPoison);
      for (int32_t i = 0; i < argument.num_elements; ++i) {
        const int32_t value = 10 + i;
        if (argument.access == ArgumentAccess::kWrite) break;
        std::memcpy(bytes.data() + i * 4, &value, sizeof value);
      }
      subject.inputs.push_back(std::move(bytes));
    }
    all.push_back(std::move(subject));
  }
  static const std::vector<testing::TirCase> items = testing::tir_cases();
  for (const testing::TirCase& item : items) {
    Subject subject{.name = item.file,
                    .program = testing::tir_program(item.file),
                    .inputs = {},
                    .units = item.units};
    for (const auto& input : item.inputs) {
      const auto bytes = std::as_bytes(std::span(input));
      subject.inputs.emplace_back(bytes.begin(), bytes.end());
    }
    subject.inputs.emplace_back(item.num_outputs * 4, kPoison);
    all.push_back(std::move(subject));
  }
  return all;
}

/// Mutants that are the same program: `count` of the subject whose description has these words.
struct Equivalent {
  std::string_view subject;
  std::string_view words;
  int count;
  std::string_view reason;
};

constexpr Equivalent kEquivalent[] = {
    {"store above the end", "gate of", 1, "the loop stays inside"},
    {"private memory above the end", "bound -1", 1, "the last element is not read"},
    {"read once by its own lane, then by another one, and overwritten", "barrier", 3,
     "the barrier next to it parts the lanes, or only a lane's own element follows"},
    {"a tree without its inner barrier", "bound 1", 1, "half of 1 is 0: no lane adds"},
    {"a tree without its inner barrier", "gate of `%r", 1, "what other lanes load is not used"},
    {"atomics, and a read by the lane of the first one", "gate of `%v", 1,
     "what other lanes load is not used"},
    {"groups overlap by an element", "gate of", 1, "the mended loop stays inside"},
    {"a barrier under a condition of lanes", "barrier", 1, "lanes share nothing"},
    {"barriers on both sides of a condition", "barrier", 2, "lanes share nothing"},
    {"a loop with a barrier that lanes run less often", "", 3, "lanes share nothing"},
    {"a trip count that comes from an atomic", "`for %i", 2, "lanes share nothing behind it"},
    {"a trip count that comes from an atomic", "barrier 17", 1, "lanes share nothing behind it"},
    {"matmul.tir", "first_n i1x16 %left0", 2, "full in both groups: 100 and 36 columns are left"},
    {"matmul.tir", "first_n i1x16 %left1", 2, "full in both groups: 84 and 20 columns are left"},
    {"matmul.tir", "first_n i1x16 %left3", 2, "52 and -12 columns are left: full, and empty"},
    {"matmul.tir", "gate %mask0 alt", 8, "full in both groups"},
    {"matmul.tir", "gate %mask1 alt", 8, "full in both groups"},
    {"matmul.tir", "_0 gate %", 12, "rows beyond the last one are the last one, with its values"},
    {"matmul.tir", "_1 gate %", 12, "rows beyond the last one are the last one, with its values"},
    {"matmul.tir", "bound 1 of `for %kc", 1, "a block of no depth adds nothing"},
    {"matmul.tir", "bound 1 of `for %i0", 1, "rows beyond the last one are not stored"},
    {"transpose.tir", "gate of `%v", 4, "the elements beyond a row are another row's, not stored"},
    {"tree_sum.tir", "bound 1 of `%sum", 1, "columns beyond the last one are gated off"},
    {"tree_sum.tir", "bound 1 of `for %step", 1, "half of 1 is 0: no lane adds"},
};

TEST(Mutations, AreFoundOrAreTheSameProgram) {
  std::vector<int> counts(std::size(kEquivalent), 0);
  int num_mutants = 0;
  const std::vector<Subject> all = subjects();
  EXPECT_GE(all.size(), 50U);
  for (const Subject& subject : all) {
    const auto right = run(subject, subject.program);
    ASSERT_TRUE(right) << subject.name;
    for (const testing::LinearMutant& mutant : testing::linear_mutants(subject.program)) {
      ++num_mutants;
      const auto got = run(subject, mutant.program);
      if (!got || *got != *right) continue;
      const auto* const same = std::ranges::find_if(kEquivalent, [&](const Equivalent& each) {
        return each.subject == subject.name && mutant.what.find(each.words) != std::string::npos;
      });
      EXPECT_NE(same, std::end(kEquivalent)) << subject.name << ", not found: " << mutant.what;
      if (same != std::end(kEquivalent)) ++counts[static_cast<size_t>(same - kEquivalent)];
    }
  }
  EXPECT_GE(num_mutants, 250);
  for (size_t i = 0; i < counts.size(); ++i)
    EXPECT_EQ(counts[i], kEquivalent[i].count)
        << kEquivalent[i].subject << ": " << kEquivalent[i].words;
}

}  // namespace
}  // namespace tenon
