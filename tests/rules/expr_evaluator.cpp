// SPDX-License-Identifier: MIT
#include "tests/rules/expr_evaluator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "tenon/base/error.h"

namespace tenon {
namespace {

constexpr size_t kBlock = 2048;

float as_f32(ScalarBits bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
ScalarBits f32_bits(float value) {
  // The canonical quiet NaN, as the table gives it.
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
}

template <class T>
ScalarBits int_bits(T value) {
  if constexpr (std::is_signed_v<T>) return static_cast<ScalarBits>(static_cast<int64_t>(value));
  return static_cast<ScalarBits>(value);
}

using Sources = std::array<const ScalarBits*, 3>;

template <class Function>
bool each(size_t count, ScalarBits* out, Function function) {
  for (size_t i = 0; i < count; ++i)
    out[i] = function(i);
  return true;
}

bool run_f32(Op op, bool fused, const Sources& s, size_t n, ScalarBits* out) {
  const auto a = [&](size_t i) { return as_f32(s[0][i]); };
  const auto b = [&](size_t i) { return as_f32(s[1][i]); };
  const auto c = [&](size_t i) { return as_f32(s[2][i]); };
  if (op == Op::kAdd) return each(n, out, [&](size_t i) { return f32_bits(a(i) + b(i)); });
  if (op == Op::kSub) return each(n, out, [&](size_t i) { return f32_bits(a(i) - b(i)); });
  if (op == Op::kMul) return each(n, out, [&](size_t i) { return f32_bits(a(i) * b(i)); });
  if (op == Op::kDiv) return each(n, out, [&](size_t i) { return f32_bits(a(i) / b(i)); });
  if (op == Op::kMulAcc && !fused) {
    return each(n, out, [&](size_t i) { return f32_bits(a(i) * b(i) + c(i)); });
  }
  if (op == Op::kMulAcc) {
    return each(n, out, [&](size_t i) { return f32_bits(std::fma(a(i), b(i), c(i))); });
  }
  if (op == Op::kLt) return each(n, out, [&](size_t i) { return ScalarBits{a(i) < b(i)}; });
  if (op == Op::kEq) return each(n, out, [&](size_t i) { return ScalarBits{a(i) == b(i)}; });
  return false;
}

template <class T>
bool run_int(Op op, const Sources& s, size_t n, ScalarBits* out) {
  using U = std::make_unsigned_t<T>;
  const auto a = [&](size_t i) { return static_cast<U>(s[0][i]); };
  const auto b = [&](size_t i) { return static_cast<U>(s[1][i]); };
  const auto give = [](U value) { return int_bits(static_cast<T>(value)); };
  constexpr U kWidth = sizeof(T) * 8;
  if (op == Op::kAdd)
    return each(n, out, [&](size_t i) { return give(static_cast<U>(a(i) + b(i))); });
  if (op == Op::kSub)
    return each(n, out, [&](size_t i) { return give(static_cast<U>(a(i) - b(i))); });
  if (op == Op::kMul)
    return each(n, out, [&](size_t i) { return give(static_cast<U>(a(i) * b(i))); });
  if (op == Op::kAnd) return each(n, out, [&](size_t i) { return give(a(i) & b(i)); });
  if (op == Op::kOr) return each(n, out, [&](size_t i) { return give(a(i) | b(i)); });
  if (op == Op::kXor) return each(n, out, [&](size_t i) { return give(a(i) ^ b(i)); });
  if (op == Op::kShl) {
    return each(n, out, [&](size_t i) {
      return b(i) < kWidth ? give(static_cast<U>(a(i) << b(i))) : ScalarBits{0};
    });
  }
  if (op == Op::kShr) {
    return each(n, out, [&](size_t i) {
      const T value = static_cast<T>(a(i));
      if (b(i) >= kWidth) return int_bits(static_cast<T>(value < 0 ? -1 : 0));
      return int_bits(static_cast<T>(value >> b(i)));
    });
  }
  if (op == Op::kLt) {
    return each(n, out,
                [&](size_t i) { return ScalarBits{static_cast<T>(a(i)) < static_cast<T>(b(i))}; });
  }
  if (op == Op::kEq) return each(n, out, [&](size_t i) { return ScalarBits{a(i) == b(i)}; });
  return false;
}

bool run_plain(Op op, DType dtype, bool fused, const Sources& s, size_t n, ScalarBits* out) {
  if (dtype == DType::kF32) return run_f32(op, fused, s, n, out);
  if (dtype == DType::kI32) return run_int<int32_t>(op, s, n, out);
  if (dtype == DType::kU32) return run_int<uint32_t>(op, s, n, out);
  if (dtype == DType::kI64) return run_int<int64_t>(op, s, n, out);
  if (dtype == DType::kU64) return run_int<uint64_t>(op, s, n, out);
  return false;
}

ScalarBits apply(const Node& node, bool fused, std::span<const ScalarBits> args) {
  if (node.op() == Op::kCast) return eval_cast(args[0], node.src(0).dtype(), node.dtype());
  if (node.op() == Op::kBitcast) return eval_bitcast(args[0], node.src(0).dtype(), node.dtype());
  if (node.op() == Op::kMulAcc && fused) {
    return eval_fused_mulacc(node.dtype(), args[0], args[1], args[2]);
  }
  return eval_op(node.op(), node.src(node.srcs().size() - 1).dtype(), args);
}

}  // namespace

ExprEvaluator::ExprEvaluator(const Node& root, std::span<const Node> inputs, bool fuses_mulacc,
                             bool only_table)
    : fuses_mulacc_(fuses_mulacc), only_table_(only_table) {
  std::unordered_map<Node, size_t, NodeHash> slots;
  for (const Node& input : inputs)
    slots.emplace(input, slots.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    steps_.push_back({inputs[i], {}, static_cast<int>(i)});
  // Nodes below an input are not evaluated.
  std::vector<std::pair<Node, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (slots.contains(node)) {
      stack.pop_back();
    } else if (next < node.srcs().size()) {
      const Node src = node.src(next++);
      stack.emplace_back(src, 0);
    } else {
      Step step{node, {}, -1};
      for (const Node& src : node.srcs())
        step.srcs.push_back(slots.at(src));
      slots.emplace(node, steps_.size());
      steps_.push_back(std::move(step));
      stack.pop_back();
    }
  }
  // The result is the last step, also where the root is an input.
  if (!(steps_.back().node == root)) {
    steps_.push_back({steps_[slots.at(root)].node, {}, static_cast<int>(slots.at(root))});
  }
}

void ExprEvaluator::run_step(const Step& step, std::vector<std::vector<ScalarBits>>& slots,
                             size_t count, std::span<const ScalarBits* const> columns,
                             size_t slot) const {
  ScalarBits* out = slots[slot].data();
  const Node& node = step.node;
  if (step.input >= 0) {
    std::copy_n(columns[static_cast<size_t>(step.input)], count, out);
    return;
  }
  if (is_const(node)) {
    std::fill_n(out, count, const_bits(node));
    return;
  }
  Sources sources{};
  TENON_ASSERT(step.srcs.size() >= 1 && step.srcs.size() <= 3, "not a value: ", op_name(node.op()));
  for (size_t i = 0; i < step.srcs.size(); ++i)
    sources[i] = slots[step.srcs[i]].data();
  if (!only_table_) {
    if (node.op() == Op::kWhere) {
      for (size_t i = 0; i < count; ++i)
        out[i] = sources[0][i] != 0 ? sources[1][i] : sources[2][i];
      return;
    }
    const DType dtype = node.src(node.srcs().size() - 1).dtype();
    if (run_plain(node.op(), dtype, fuses_mulacc_, sources, count, out)) return;
  }
  std::array<ScalarBits, 3> args{};
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < step.srcs.size(); ++j)
      args[j] = sources[j][i];
    out[i] = apply(node, fuses_mulacc_, std::span(args).first(step.srcs.size()));
  }
}

void ExprEvaluator::run_block(std::span<const ScalarBits* const> columns, size_t count,
                              ScalarBits* output) const {
  std::vector<std::vector<ScalarBits>> slots(steps_.size(),
                                             std::vector<ScalarBits>(std::min(kBlock, count)));
  std::vector<const ScalarBits*> moved(columns.begin(), columns.end());
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t size = std::min(kBlock, count - done);
    for (size_t i = 0; i < columns.size(); ++i)
      moved[i] = columns[i] + done;
    for (size_t slot = 0; slot < steps_.size(); ++slot)
      run_step(steps_[slot], slots, size, moved, slot);
    std::copy_n(slots.back().data(), size, output + done);
  }
}

std::vector<ScalarBits> ExprEvaluator::run(std::span<const std::vector<ScalarBits>> inputs) const {
  std::vector<const ScalarBits*> columns;
  for (const std::vector<ScalarBits>& input : inputs)
    columns.push_back(input.data());
  std::vector<ScalarBits> output(inputs.empty() ? 1 : inputs[0].size());
  run_block(columns, output.size(), output.data());
  return output;
}

ScalarBits ExprEvaluator::at(std::span<const ScalarBits> row) const {
  std::vector<std::vector<ScalarBits>> inputs;
  for (ScalarBits value : row)
    inputs.push_back({value});
  return run(inputs)[0];
}

Node unknown(int buffer, DType dtype) {
  const Node index = idx_const(0);
  return make_load(buffer, dtype, std::span(&index, 1));
}

int64_t count_ops(const Node& root) {
  int64_t count = 0;
  for (const Node& node : topological_order(std::span(&root, 1)))
    count += is_elementwise(node.op()) ? 1 : 0;
  return count;
}

}  // namespace tenon
