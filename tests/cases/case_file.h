// Case files as plain data: what tests/cases/README.md describes, read strictly from JSON.
// Used by the tenon_cases program. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/tensor/operand.h"

namespace tenon::cases {

/// An attribute or element as the file writes it: null, a number or bool, a text, a list. The
/// readers throw kInvalidArgument if it is something else.
class Value {
 public:
  using List = std::vector<Value>;
  Value() = default;
  explicit Value(Scalar number) : value_(number) {}
  explicit Value(std::string text) : value_(std::move(text)) {}
  explicit Value(List list) : value_(std::move(list)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  /// A number, or one of the texts "nan", "inf", "-inf", "-0.0".
  Scalar number() const;
  int64_t integer() const;
  bool boolean() const;
  const std::string& text() const;
  const List& list() const;
  std::vector<int64_t> integers() const;

 private:
  std::variant<std::monostate, Scalar, std::string, List> value_;
};

/// The attributes of a step. Each one asked for counts as read, so that what nobody understood can
/// be named.
class Attributes {
 public:
  void add(std::string name, Value value) { values_.emplace(std::move(name), std::move(value)); }
  /// Null if it is not given or given as null.
  const Value* find(const std::string& name) const;
  /// Throws kInvalidArgument if it is not given.
  const Value& get(const std::string& name) const;
  std::vector<std::string> unread() const;

 private:
  std::map<std::string, Value> values_;
  mutable std::set<std::string> read_;
};

/// Where elements come from that are not listed: all `start` (step 0), or start, start + step, ...
struct Generated {
  bool is_range = false;
  Scalar start = 0;
  Scalar step = 1;
};

struct CaseArray {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<Scalar> data;    ///< empty if `bits` or `generated` give the elements
  std::vector<uint64_t> bits;  ///< raw codes; they count where both are given
  std::optional<Generated> generated;
  std::vector<std::byte> file;  ///< dtype "bytes": the bytes of a file
};

struct Step {
  std::string op;
  std::vector<std::string> in;
  Attributes attrs;
  std::vector<std::string> out;
};

struct Function {
  std::vector<std::string> params;
  std::vector<Step> body;
  std::vector<std::string> returns;
};

struct Tolerance {
  bool exact = false;
  bool signed_zero = false;
  double rtol = 0;
  double atol = 0;
};

struct Case {
  std::string id;
  std::vector<CaseArray> inputs;
  std::vector<Step> operation;
  std::vector<CaseArray> expected;
  Tolerance tolerance;
  std::map<std::string, Function> functions;
  std::string expected_error;  ///< empty: none
  std::string property;        ///< empty: none
};

/// Throws kInvalidArgument with the id of the case for anything the format does not know.
std::vector<Case> read_cases(const std::string& path);

}  // namespace tenon::cases
