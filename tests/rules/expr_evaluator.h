// Runs one scalar expression over many inputs: steps over the eval_op table, with plain loops for
// the ops on floats and integers that sweeps spend their time in (the tests compare those loops
// with the table). SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"

namespace tenon {

class ExprEvaluator {
 public:
  /// `inputs`: the nodes (axes, loads) that values are given for, in the order of run().
  /// `fuses_mulacc`: how mulacc rounds. `only_table`: no plain loops.
  ExprEvaluator(const Node& root, std::span<const Node> inputs, bool fuses_mulacc = false,
                bool only_table = false);

  /// Canonical values of the expression for `count` rows; inputs[i] has `count` values of input i.
  std::vector<ScalarBits> run(std::span<const std::vector<ScalarBits>> inputs) const;
  /// The same into `output`, for inputs laid out in `columns`.
  void run_block(std::span<const ScalarBits* const> columns, size_t count,
                 ScalarBits* output) const;
  /// One row.
  ScalarBits at(std::span<const ScalarBits> row) const;

  size_t num_steps() const { return steps_.size(); }

 private:
  struct Step {
    Node node;
    std::vector<size_t> srcs;
    int input = -1;
  };
  void run_step(const Step& step, std::vector<std::vector<ScalarBits>>& slots, size_t count,
                std::span<const ScalarBits* const> columns, size_t slot) const;

  std::vector<Step> steps_;
  bool fuses_mulacc_;
  bool only_table_;
};

/// A value of `dtype` to stand for an unknown: buffer[i] with a number for the buffer.
Node unknown(int buffer, DType dtype);

/// Nodes of a DAG that are no constants or loads: the instructions of an expression.
int64_t count_ops(const Node& root);

}  // namespace tenon
