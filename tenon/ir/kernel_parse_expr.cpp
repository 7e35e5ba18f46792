// Expressions of kernel text: operators by precedence, calls, loads, literals.
// SPDX-License-Identifier: MIT

#include "tenon/base/error.h"
#include "tenon/ir/kernel_parser.h"
#include "tenon/ir/scalar_text.h"

namespace tenon::detail {

namespace {

constexpr int kMaxExprDepth = 64;
constexpr size_t kMaxIndexDims = 16;
using Kind = KernelToken::Kind;

}  // namespace

Node KernelParser::typed(const Value& value, DType dtype) const {
  if (value.node) {
    if (value.node.dtype() != dtype) {
      fail_token(value.offset, concat("expected an operand of dtype ", dtype_name(dtype), ", got ",
                                      dtype_name(value.node.dtype())));
    }
    return value.node;
  }
  if (dtype == DType::kIdx) {
    const std::optional<int64_t> number = parse_int(value.literal);
    if (number) return idx_const(*number);
  } else if (const std::optional<uint64_t> bits = tenon::parse_scalar(dtype, value.literal)) {
    return bits_const(dtype, *bits);
  }
  fail_token(value.offset, concat("expected a value of dtype ", dtype_name(dtype), ", got '",
                                  value.literal, "'"));
}

Node KernelParser::typed_or_idx(const Value& value) const {
  return value.node ? value.node : typed(value, DType::kIdx);
}

Node KernelParser::parse_expr_of(DType dtype, std::string_view what) {
  const Value value = parse_infix(0, 0);
  if (value.node && value.node.dtype() != dtype) {
    fail_token(value.offset, concat("expected ", what, " of dtype ", dtype_name(dtype), ", got ",
                                    dtype_name(value.node.dtype())));
  }
  return typed(value, dtype);
}

Node KernelParser::parse_typed_expr() {
  return typed_or_idx(parse_infix(0, 0));
}

// An index is idx, or an integer once indices have a width.
Node KernelParser::parse_index_expr(std::string_view what) {
  const Value value = parse_infix(0, 0);
  Node node = typed_or_idx(value);
  if (node.dtype() != DType::kIdx && !is_int(node.dtype())) {
    fail_token(value.offset, concat("expected ", what, " of dtype idx or an integer, got ",
                                    dtype_name(node.dtype())));
  }
  return node;
}

KernelParser::Value KernelParser::apply(Op op, std::vector<Value> values, size_t offset) {
  const bool is_where = op == Op::kWhere;
  const size_t first = is_where ? 1 : 0;
  DType dtype = DType::kIdx;
  for (size_t i = values.size(); i-- > first;) {
    if (values[i].node) dtype = values[i].node.dtype();
  }
  std::vector<Node> srcs;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_condition = is_where && i == 0;
    srcs.push_back(values[i].node ? values[i].node
                                  : typed(values[i], is_condition ? DType::kBool : dtype));
  }
  if (const std::optional<std::string> reason = why_not_expr(op, srcs)) fail_token(offset, *reason);
  return {make_expr(op, srcs), {}, offset};
}

// NOLINTNEXTLINE(misc-no-recursion): at most kMaxExprDepth deep
KernelParser::Value KernelParser::parse_infix(int min_precedence, int depth) {
  if (depth > kMaxExprDepth) {
    fail_here(concat("expected at most ", kMaxExprDepth, " levels of nesting, got more"));
  }
  Value left = parse_prefix(depth);
  bool has_compared = false;
  while (peek().kind == Kind::kPunct) {
    const KernelToken token = peek();
    const bool is_greater = token.text == ">" || token.text == ">=";
    const InfixOp* infix =
        is_greater ? find_infix(token.text == ">" ? "<" : "<=") : find_infix(token.text);
    if (infix == nullptr || infix->precedence < min_precedence) break;
    const bool is_compare = infix->precedence == kComparePrecedence;
    if (is_compare && has_compared) fail_here("expected parentheses: comparisons do not chain");
    has_compared = is_compare;
    take();
    Value right = parse_infix(infix->precedence + 1, depth + 1);
    if (is_greater) std::swap(left, right);
    left = apply(infix->op, {std::move(left), std::move(right)}, token.offset);
  }
  return left;
}

// NOLINTNEXTLINE(misc-no-recursion): at most kMaxExprDepth deep
KernelParser::Value KernelParser::parse_prefix(int depth) {
  const KernelToken token = peek();
  if (token.is("-")) {
    take();
    if (peek().kind == Kind::kNumber) return parse_number(true);
    if (peek().kind == Kind::kName && (peek().text == "inf" || peek().text.starts_with("inf_"))) {
      return parse_name(depth, true);
    }
    if (depth + 1 > kMaxExprDepth) {
      fail_here(concat("expected at most ", kMaxExprDepth, " levels of nesting, got more"));
    }
    return apply(Op::kNeg, {parse_prefix(depth + 1)}, token.offset);
  }
  if (token.is("(")) {
    take();
    Value value = parse_infix(0, depth + 1);
    expect(")");
    return value;
  }
  if (token.kind == Kind::kNumber) return parse_number(false);
  if (token.kind == Kind::kTemp) {
    const std::optional<int64_t> number = parse_int(token.text.substr(1));
    if (!number || *number < 0 || static_cast<size_t>(*number) >= lets_.size()) {
      fail_here(concat("expected a let of this statement, got '", token.text, "'"));
    }
    take();
    return {lets_[static_cast<size_t>(*number)], {}, token.offset};
  }
  if (token.kind == Kind::kName) return parse_name(depth, false);
  fail_expected("an expression");
}

KernelParser::Value KernelParser::parse_number(bool is_negative) {
  const KernelToken token = take();
  const std::string spelled = concat(is_negative ? "-" : "", token.text);
  Value value{{}, spelled, token.offset};
  if (token.suffix.empty()) return value;
  const std::optional<DType> dtype = find_dtype(token.suffix);
  if (!dtype || dtype_name(*dtype) != token.suffix || *dtype == DType::kBool) {
    fail_token(token.offset,
               concat("expected a dtype behind the number, got '", token.suffix, "'"));
  }
  return {typed(value, *dtype), {}, token.offset};
}

// inf, inf_f32, nan, nan_f32.
std::optional<KernelParser::Value> KernelParser::parse_special_float(std::string_view name,
                                                                     bool is_negative,
                                                                     size_t offset) {
  const std::string_view word = name.substr(0, 3);
  if (word != "inf" && word != "nan") return std::nullopt;
  if (name.size() > 3 && name[3] != '_') return std::nullopt;
  Value value{{}, concat(is_negative ? "-" : "", word), offset};
  if (name.size() == 3) return value;
  const std::optional<DType> dtype = find_dtype(name.substr(4));
  if (!dtype || !is_float(*dtype)) {
    fail_token(offset, concat("expected a float dtype behind ", word, "_, got '", name, "'"));
  }
  return Value{typed(value, *dtype), {}, offset};
}

// NOLINTNEXTLINE(misc-no-recursion): at most kMaxExprDepth deep
KernelParser::Value KernelParser::parse_name(int depth, bool is_negative) {
  const KernelToken token = take();
  const std::string_view name = token.text;
  if (name == "true" || name == "false") {
    return {bits_const(DType::kBool, name == "true" ? 1 : 0), {}, token.offset};
  }
  if (const auto value = parse_special_float(name, is_negative, token.offset)) return *value;
  if (peek().is("(")) return parse_call(name, token.offset, depth);
  const std::optional<Symbol> symbol = find(name);
  if (!symbol) {
    fail_token(token.offset, concat("expected a buffer, scalar or axis, got '", name,
                                    "'; an axis is known once it is bound"));
  }
  const auto number = static_cast<size_t>(symbol->number);
  switch (symbol->kind) {
    case SymbolKind::kBuffer: return parse_load(symbol->number, depth);
    case SymbolKind::kAxis: return {axes_[number].axis, {}, token.offset};
    case SymbolKind::kScalar: {
      const ScalarDecl& decl = kernel_.scalars[number];
      return {make_scalar(symbol->number, decl.min, decl.max), {}, token.offset};
    }
  }
  fail_expected("an expression");
}

// NOLINTNEXTLINE(misc-no-recursion): at most kMaxExprDepth deep
KernelParser::Value KernelParser::parse_call(std::string_view name, size_t offset, int depth) {
  expect("(");
  std::vector<Value> values;
  do {
    if (values.size() == 3) fail_expected("')'");
    values.push_back(parse_infix(0, depth + 1));
  } while (accept(","));
  expect(")");
  const bool is_bitcast = name.starts_with("bitcast_");
  const std::optional<DType> dtype = find_dtype(is_bitcast ? name.substr(8) : name);
  if (!dtype) {
    const std::optional<Op> op = find_op(name, kKernelLevel);
    if (!op || !is_elementwise(*op) || *op == Op::kCast || *op == Op::kBitcast) {
      fail_token(offset, concat("expected an op or a dtype before '(', got '", name, "'"));
    }
    return apply(*op, std::move(values), offset);
  }
  if (values.size() != 1) {
    fail_token(offset, concat(name, ": expected 1 operand, got ", values.size()));
  }
  const Node value = typed_or_idx(values[0]);
  const DType from = value.dtype();
  if (!is_bitcast) {
    if (*dtype == DType::kIdx && from != DType::kIdx && !is_int(from)) {
      fail_token(offset, concat("idx: expected an integer, got ", dtype_name(from)));
    }
    return {make_cast(value, *dtype), {}, offset};
  }
  if (from == DType::kIdx || *dtype == DType::kIdx || dtype_bits(from) != dtype_bits(*dtype) ||
      (from == DType::kBool) != (*dtype == DType::kBool)) {
    fail_token(offset,
               concat(name, ": expected a value of the same width, got ", dtype_name(from)));
  }
  return {make_bitcast(value, *dtype), {}, offset};
}

// The index list of a load, with the gate inside the brackets: a[i,j if g else 0].
// NOLINTNEXTLINE(misc-no-recursion): at most kMaxExprDepth deep
KernelParser::Value KernelParser::parse_load(int buffer, int depth) {
  const size_t offset = peek().offset;
  expect("[");
  const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(buffer)];
  std::vector<Node> index;
  if (!peek().is("]") && !peek().is("if")) {
    do {
      const Value value = parse_infix(0, depth + 1);
      const Node node = typed_or_idx(value);
      if (node.dtype() != DType::kIdx && !is_int(node.dtype())) {
        fail_token(value.offset, concat("expected an index, got ", dtype_name(node.dtype())));
      }
      index.push_back(node);
    } while (index.size() < kMaxIndexDims && accept(","));
  }
  if (index.size() != decl.dims.size()) {
    fail_token(offset, concat("expected ", decl.dims.size(), " indices of ", decl.name, ", got ",
                              index.size()));
  }
  if (!accept("if")) {
    expect("]");
    return {make_load(buffer, decl.dtype, index), {}, offset};
  }
  const Node gate = typed(parse_infix(0, depth + 1), DType::kBool);
  expect("else");
  const Node alt = typed(parse_infix(0, depth + 1), decl.dtype);
  expect("]");
  return {make_gated_load(buffer, decl.dtype, index, gate, alt), {}, offset};
}

}  // namespace tenon::detail
