// The parser of kernel text, in two files: statements (kernel_parse.cpp) and expressions
// (kernel_parse_expr.cpp). Nesting is bounded, so it recurses. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/ir/kernel_lexer.h"
#include "tenon/ir/kernel_words.h"

namespace tenon::detail {

class KernelParser {
 public:
  KernelParser(std::string_view text, std::string_view source_name)
      : text_(text), source_name_(source_name), tokens_(lex_kernel(text, source_name)) {}

  Kernel parse();

 private:
  enum class SymbolKind : uint8_t { kBuffer, kScalar, kAxis };
  struct Symbol {
    SymbolKind kind;
    int number;
  };
  /// What is known of an axis: its Node, and the role it was last mentioned with.
  struct KnownAxis {
    Node axis;
    Role role;
    int dim;
  };
  /// An operand; a literal without a dtype takes that of what it meets.
  struct Value {
    Node node;            ///< null for such a literal
    std::string literal;  ///< as spelled, sign included
    size_t offset = 0;
  };

  // Tokens.
  const KernelToken& peek(size_t ahead = 0) const;
  const KernelToken& take();
  bool accept(std::string_view word);
  void expect(std::string_view word);
  std::string_view expect_name(std::string_view what);
  int64_t expect_int(int64_t min, int64_t max, std::string_view what);
  [[noreturn]] void fail_here(std::string_view message) const;
  [[noreturn]] void fail_expected(std::string_view expected) const;
  [[noreturn]] void fail_token(size_t offset, std::string_view message) const;

  // Declarations and statements (kernel_parse.cpp).
  void parse_declarations();
  void parse_scalar();
  void declare(std::string_view name, SymbolKind kind, int number);
  std::optional<Symbol> find(std::string_view name) const;
  int expect_buffer();
  BufferDecl parse_type(std::string_view name, BufferAccess access);
  LayoutPart parse_layout_part(const BufferDecl& decl, std::span<const std::string_view> dim_names);
  void finish_layout(BufferDecl& decl, size_t offset) const;
  std::vector<AxisUse> parse_group(std::string_view word, Role role);
  AxisUse parse_axis(Role implied, int implied_dim, bool may_be_short);
  std::vector<AxisUse> parse_over();
  std::optional<size_t> find_over() const;
  Body parse_body(int depth);
  void parse_stmt(Body& body, int depth);
  void parse_let();
  Comp parse_comp();
  std::optional<Op> parse_assign();
  For parse_for(int depth);
  If parse_if(int depth);
  Alloc parse_alloc();
  Combine parse_combine();
  std::vector<Node> parse_index(int buffer);

  // Expressions (kernel_parse_expr.cpp).
  Node parse_expr_of(DType dtype, std::string_view what);
  Node parse_typed_expr();
  Node parse_index_expr(std::string_view what = "an index");
  Value parse_infix(int min_precedence, int depth);
  Value parse_prefix(int depth);
  Value parse_number(bool is_negative);
  Value parse_name(int depth, bool is_negative);
  Value parse_call(std::string_view name, size_t offset, int depth);
  Value parse_load(int buffer, int depth);
  std::optional<Value> parse_special_float(std::string_view name, bool is_negative, size_t offset);
  Value apply(Op op, std::vector<Value> values, size_t offset);
  Node typed(const Value& value, DType dtype) const;
  Node typed_or_idx(const Value& value) const;

  std::string_view text_;
  std::string_view source_name_;
  std::vector<KernelToken> tokens_;
  size_t at_ = 0;
  Kernel kernel_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<KnownAxis> axes_;
  std::vector<Node> lets_;
};

}  // namespace tenon::detail
