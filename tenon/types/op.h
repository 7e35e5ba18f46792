// The ops of all three levels as data: name, arity, class, dtype rule, levels.
// Meaning lives in eval_op (ir/) and docs/ir.md; this is the one list of what exists.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tenon {

enum class Op : uint8_t {
#define TENON_OP(name, number, text, arity, op_class, rule, levels) name = number,
#include "tenon/types/op.def"
#undef TENON_OP
};

enum class OpClass : uint8_t {
  kLeaf,
  kMovement,
  kReduction,
  kStructure,
  kUnary,
  kBinary,
  kTernary,
  kNary,  ///< elementwise, of more operands
  kMemory,
  kControl,
  kVector,
  kUnit
};

/// How the dtype of the result follows from the sources.
enum class DTypeRule : uint8_t {
  kNone,           ///< no result
  kAttr,           ///< stated by the node or instruction
  kSame,           ///< all sources and the result are equal
  kSameFloat,      ///< equal, and a float
  kSameInt,        ///< equal, and an integer (kernel level: or idx)
  kSameIntOrBool,  ///< equal, and an integer or bool
  kCompare,        ///< sources equal, result bool
  kTest,           ///< float source, result bool
  kWhere           ///< (bool, t, t) -> t
};

/// Bits of OpInfo::levels.
enum OpLevel : uint8_t { kTensorLevel = 1, kKernelLevel = 2, kLinearLevel = 4 };

struct OpInfo {
  Op op;
  std::string_view name;
  int arity;  ///< -1: varies
  OpClass op_class;
  DTypeRule rule;
  uint8_t levels;
};

const OpInfo& op_info(Op op);
inline std::string_view op_name(Op op) {
  return op_info(op).name;
}
inline bool has_level(Op op, OpLevel level) {
  return (op_info(op).levels & level) != 0;
}
/// Unary to n-ary: a function of scalars, applied to each element.
bool is_elementwise(Op op);
/// Operands of an elementwise op at most.
inline constexpr size_t kMaxScalarOperands = 9;
/// On the linear level only where the Target lists it as native.
bool is_optional(Op op);
bool is_movement(Op op);
/// exp2, log2, sin and what is built on them: results are bounded, not bit-equal between devices.
bool is_bounded_class(Op op);
/// The ops that a reduction may combine with: add, mul, min, max, and, or.
bool is_combining(Op op);
bool is_commutative(Op op);

std::optional<Op> find_op(std::string_view name, OpLevel level);
/// Nothing if no op has this number (files are untrusted).
std::optional<Op> op_from_number(uint8_t number);
/// All ops in order of their numbers.
std::span<const OpInfo> all_ops();

}  // namespace tenon
