// SPDX-License-Identifier: MIT
#include "tests/rules/expr_evaluator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>
#include <unordered_map>

#include "tenon/base/error.h"

namespace tenon {
namespace {

constexpr size_t kBlock = 2048;

template <class T>
T value_of(ScalarBits bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
}

// Of a NaN the canonical quiet one, as the table gives it.
template <class T>
ScalarBits bits_of(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::isnan(value) ? 0x7ff8000000000000U : std::bit_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<ScalarBits>(static_cast<int64_t>(value));
  } else {
    return static_cast<ScalarBits>(value);
  }
}

using Sources = std::array<const ScalarBits*, kMaxScalarOperands>;

template <class Function>
bool each(size_t count, ScalarBits* out, Function function) {
  for (size_t i = 0; i < count; ++i)
    out[i] = function(i);
  return true;
}

template <class T>
bool run_float(Op op, bool fused, const Sources& s, size_t n, ScalarBits* out) {
  const auto a = [&](size_t i) { return value_of<T>(s[0][i]); };
  const auto b = [&](size_t i) { return value_of<T>(s[1][i]); };
  const auto c = [&](size_t i) { return value_of<T>(s[2][i]); };
  if (op == Op::kAdd) return each(n, out, [&](size_t i) { return bits_of(a(i) + b(i)); });
  if (op == Op::kSub) return each(n, out, [&](size_t i) { return bits_of(a(i) - b(i)); });
  if (op == Op::kMul) return each(n, out, [&](size_t i) { return bits_of(a(i) * b(i)); });
  if (op == Op::kDiv) return each(n, out, [&](size_t i) { return bits_of(a(i) / b(i)); });
  if (op == Op::kMulAcc && !fused) {
    return each(n, out, [&](size_t i) { return bits_of(a(i) * b(i) + c(i)); });
  }
  if (op == Op::kMulAcc) {
    return each(n, out, [&](size_t i) { return bits_of(std::fma(a(i), b(i), c(i))); });
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
  const auto give = [](U value) { return bits_of(static_cast<T>(value)); };
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
      if (b(i) >= kWidth) return bits_of(static_cast<T>(value < 0 ? -1 : 0));
      return bits_of(static_cast<T>(value >> b(i)));
    });
  }
  if (op == Op::kLt) {
    return each(n, out,
                [&](size_t i) { return ScalarBits{static_cast<T>(a(i)) < static_cast<T>(b(i))}; });
  }
  if (op == Op::kEq) return each(n, out, [&](size_t i) { return ScalarBits{a(i) == b(i)}; });
  return false;
}

/// Calls the function with a value of the dtype's type; false if there are no plain loops for it.
template <class Function>
bool with_type(DType dtype, Function function) {
  if (dtype == DType::kF32) return function(float{});
  if (dtype == DType::kF64) return function(double{});
  if (dtype == DType::kI32) return function(int32_t{});
  if (dtype == DType::kU32) return function(uint32_t{});
  if (dtype == DType::kI64) return function(int64_t{});
  if (dtype == DType::kU64) return function(uint64_t{});
  return false;
}

// Casts from floats to integers, which have their own ends, are left to the table.
template <class From, class To>
bool run_cast(Op op, const Sources& s, size_t n, ScalarBits* out) {
  if (op == Op::kBitcast) {
    if (sizeof(From) != sizeof(To)) return false;
    // A NaN keeps its bits.
    using Unsigned = std::conditional_t<sizeof(To) == 4, uint32_t, uint64_t>;
    using Bits = std::conditional_t<std::is_integral_v<To>, To, Unsigned>;
    return each(n, out, [&](size_t i) { return bits_of(static_cast<Bits>(s[0][i])); });
  }
  if constexpr (std::is_integral_v<From> || std::is_floating_point_v<To>) {
    return each(n, out,
                [&](size_t i) { return bits_of(static_cast<To>(value_of<From>(s[0][i]))); });
  }
  return false;
}

bool run_plain(const Node& node, bool fused, const Sources& s, size_t n, ScalarBits* out) {
  const Op op = node.op();
  return with_type(node.src(node.srcs().size() - 1).dtype(), [&](auto source) {
    using Source = decltype(source);
    if (op == Op::kCast || op == Op::kBitcast) {
      return with_type(node.dtype(), [&](auto result) {
        return run_cast<Source, decltype(result)>(op, s, n, out);
      });
    }
    if constexpr (std::is_integral_v<Source>) return run_int<Source>(op, s, n, out);
    if constexpr (std::is_floating_point_v<Source>) return run_float<Source>(op, fused, s, n, out);
  });
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
  TENON_ASSERT(step.srcs.size() >= 1 && step.srcs.size() <= kMaxScalarOperands,
               "not a value: ", op_name(node.op()));
  for (size_t i = 0; i < step.srcs.size(); ++i)
    sources[i] = slots[step.srcs[i]].data();
  if (!only_table_) {
    if (node.op() == Op::kWhere) {
      for (size_t i = 0; i < count; ++i)
        out[i] = sources[0][i] != 0 ? sources[1][i] : sources[2][i];
      return;
    }
    if (run_plain(node, fuses_mulacc_, sources, count, out)) return;
  }
  std::array<ScalarBits, kMaxScalarOperands> args{};
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
