// Many tensor graphs realised in one go on the default device, outputs poisoned and buffers
// guarded, each judged by the oracle. For value tests, which would else start a compiler for each
// graph. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon::testing {

class GraphBatch {
 public:
  /// A buffer of canonical bits on the default device.
  Node buffer(DType dtype, const std::vector<uint64_t>& bits, ShapeView shape);
  Node buffer(DType dtype, const std::vector<uint64_t>& bits);

  /// `name` stands in failures. Returns its number.
  size_t add(std::string name, Node node);
  /// The same, judged by the oracle's value of `reference`.
  size_t add(std::string name, Node node, Node reference);

  /// Realises what was added; each value that the oracle calls wrong is a test failure (at most 30
  /// are printed), and so is a batch of which over 1 % of the elements were not compared. Prints
  /// counts and times under `title`.
  void check(const std::string& title);

  /// Canonical bits of graph `number`, after check().
  std::vector<uint64_t> values(size_t number) const;

  size_t size() const { return nodes_.size(); }

 private:
  std::vector<Node> nodes_;
  std::vector<Node> references_;
  std::vector<std::string> names_;
  std::vector<Node> buffers_;
  std::vector<std::vector<std::byte>> data_;
};

std::vector<std::byte> bytes_of(DType dtype, const std::vector<uint64_t>& bits);
std::vector<uint64_t> bits_of(DType dtype, const std::vector<std::byte>& bytes);

}  // namespace tenon::testing
