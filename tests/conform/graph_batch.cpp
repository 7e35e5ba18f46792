// SPDX-License-Identifier: MIT

#include "tests/conform/graph_batch.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tenon/base/timing.h"
#include "tenon/conform/oracle.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/eval_op.h"

namespace tenon::testing {

std::vector<std::byte> bytes_of(DType dtype, const std::vector<uint64_t>& bits) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  std::vector<std::byte> bytes(bits.size() * width);
  for (size_t i = 0; i < bits.size(); ++i)
    std::memcpy(bytes.data() + i * width, &bits[i], width);  // little-endian hosts
  return bytes;
}

std::vector<uint64_t> bits_of(DType dtype, const std::vector<std::byte>& bytes) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  std::vector<uint64_t> bits(bytes.size() / width);
  for (size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&bits[i], bytes.data() + i * width, width);
    bits[i] = canonical_bits(dtype, bits[i]);
  }
  return bits;
}

Node GraphBatch::buffer(DType dtype, const std::vector<uint64_t>& bits, ShapeView shape) {
  std::vector<std::byte> bytes = bytes_of(dtype, bits);
  buffers_.push_back(buffer_from_bytes(Device::get_default(), dtype, shape, bytes));
  data_.push_back(std::move(bytes));
  return buffers_.back();
}

Node GraphBatch::buffer(DType dtype, const std::vector<uint64_t>& bits) {
  const int64_t shape[] = {static_cast<int64_t>(bits.size())};
  return buffer(dtype, bits, shape);
}

size_t GraphBatch::add(std::string name, Node node) {
  const Node reference = node;
  return add(std::move(name), std::move(node), reference);
}

size_t GraphBatch::add(std::string name, Node node, Node reference) {
  names_.push_back(std::move(name));
  nodes_.push_back(std::move(node));
  references_.push_back(std::move(reference));
  return nodes_.size() - 1;
}

void GraphBatch::check(const std::string& title) {
  ASSERT_FALSE(nodes_.empty()) << title << ": nothing to run";
  const int64_t start_ns = now_ns();
  RealizeStats stats;
  realize(nodes_, nullptr, &stats);
  const int64_t realized_ns = now_ns();
  const std::vector<OracleValue> expected = evaluate_oracle(
      references_, bind_inputs(buffers_, data_, deviations_of(Device::get_default().target())));
  const int64_t judged_ns = now_ns();
  int64_t failures = 0;
  int64_t compared = 0;
  int64_t excluded = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Comparison result = compare(expected[i], read_bytes(nodes_[i]));
    compared += result.compared;
    excluded += result.excluded;
    if (result.failed == 0) continue;
    if (++failures > 30) continue;
    ADD_FAILURE() << names_[i] << ": " << result.failed << " of " << result.compared << " wrong; "
                  << result.text;
  }
  EXPECT_EQ(failures, 0) << title << ": graphs with wrong values";
  EXPECT_LE(excluded * 100, compared) << title << ": too few elements were compared";
  std::printf(
      "%s on %s: %zu graphs, %lld elements compared, %lld left out; %lld kernels, lowered in "
      "%lld ms, compiled in %lld ms, realised in %lld ms; oracle %lld ms\n",
      title.c_str(), Device::get_default().name().substr(0, 20).c_str(), nodes_.size(),
      static_cast<long long>(compared), static_cast<long long>(excluded),
      static_cast<long long>(stats.kernels), static_cast<long long>(stats.lower_ns / 1000000),
      static_cast<long long>(stats.compile_ns / 1000000),
      static_cast<long long>((realized_ns - start_ns) / 1000000),
      static_cast<long long>((judged_ns - realized_ns) / 1000000));
}

std::vector<uint64_t> GraphBatch::values(size_t number) const {
  return bits_of(nodes_[number].dtype(), read_bytes(nodes_[number]));
}

}  // namespace tenon::testing
