// The number of workers never changes a result: this program once more under TENON_THREADS=1, 2
// and 3, with sums of fractions, which have other bits in another order.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/text.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/tensor.h"
#include "tests/support/random.h"

namespace tenon {
namespace {

Tensor fractions(const std::vector<int64_t>& shape, uint64_t seed) {
  testing::Random random(seed);
  int64_t count = 1;
  for (const int64_t extent : shape)
    count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = static_cast<float>(random.between(-999, 999)) / 3;
  return Tensor::from_data(values, shape);
}

struct Result {
  std::string name;
  std::vector<float> values;
};

std::vector<Result> results_of_graph() {
  const Tensor a = fractions({96, 200}, 1);
  const Tensor b = fractions({200, 150}, 2);
  const Tensor scores = a.matmul(b) * 1e-4F;
  const Tensor p = softmax(scores);
  const Tensor row = fractions({int64_t{1} << 20}, 3);
  const Tensor few = fractions({3, 90'000}, 4);
  const Tensor tall = fractions({5'000, 60}, 5);
  const Tensor mixed = p.matmul(fractions({150, 40}, 6)) + row.sum();
  return {{"matmul", scores.to_vector<float>()},
          {"softmax", p.to_vector<float>()},
          {"sum of a long row", row.sum().to_vector<float>()},
          {"sums of few long rows", few.sum(1).to_vector<float>()},
          {"sums of columns", tall.sum(0).to_vector<float>()},
          {"several kernels", mixed.to_vector<float>()},
          {"a few rows times a matrix",
           fractions({4, 3'000}, 7).matmul(fractions({3'000, 64}, 8)).to_vector<float>()},
          {"a deep product",
           fractions({24, 20'000}, 9).matmul(fractions({20'000, 24}, 10)).to_vector<float>()}};
}

// What the children run.
TEST(Workers, DISABLED_PrintTheBits) {
  std::printf("workers %d\n", cpu::ThreadPool::shared().num_workers());
  for (const Result& result : results_of_graph()) {
    std::printf("bits %s:", result.name.c_str());
    for (const float value : result.values) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      std::printf(" %08x", bits);
    }
    std::printf("\n");
  }
}

struct Child {
  int status = -1;
  std::string workers;
  std::vector<std::string> results;
};

Child run_child(int workers) {
  const std::string executable = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = concat("TENON_CACHE=0 TENON_THREADS=", workers, " '", executable,
                                     "' --gtest_also_run_disabled_tests "
                                     "--gtest_filter=Workers.DISABLED_PrintTheBits 2>&1");
  Child child;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return child;
  std::string text;
  std::vector<char> block(1 << 16);
  while (const size_t count = fread(block.data(), 1, block.size(), pipe))
    text.append(block.data(), count);
  child.status = pclose(pipe);
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("bits ")) child.results.emplace_back(line);
    if (line.starts_with("workers ")) child.workers = line;
  }
  return child;
}

TEST(Workers, TheirNumberChangesNoBit) {
  const Child one = run_child(1);
  ASSERT_EQ(one.status, 0);
  EXPECT_EQ(one.workers, "workers 1");
  ASSERT_EQ(one.results.size(), 8U);
  for (const int workers : {2, 3}) {
    const Child several = run_child(workers);
    ASSERT_EQ(several.status, 0);
    EXPECT_EQ(several.workers, concat("workers ", workers));
    ASSERT_EQ(several.results.size(), one.results.size());
    for (size_t i = 0; i < one.results.size(); ++i) {
      EXPECT_GE(one.results[i].size(), 16U);
      EXPECT_TRUE(several.results[i] == one.results[i])
          << one.results[i].substr(0, 100) << "\nwith " << workers << " workers:\n"
          << several.results[i].substr(0, 100);
    }
  }
}

}  // namespace
}  // namespace tenon
