// Reading of tensor graphs. The text is untrusted: all counts are limited, nothing recurses, and
// every node is made by its checked builder. SPDX-License-Identifier: MIT

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/scalar_text.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr size_t kMaxNodes = 1'000'000;
constexpr size_t kMaxNameBytes = 1024;

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '+';
}

// One piece of the line: a word (names, numbers), a quoted string (already unquoted) or one sign.
struct Token {
  enum Kind : uint8_t { kWord, kString, kSign, kEnd } kind = kEnd;
  std::string_view text;  // as written
  std::string value;      // of a string
  size_t begin = 0;
};

class GraphParser {
 public:
  GraphParser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  TensorGraph parse() {
    TENON_CHECK(text_.size() <= kMaxTextBytes, kInvalid, source_, ": ", text_.size(),
                " bytes are over the limit of ", kMaxTextBytes);
    advance();
    expect_word("graph");
    graph_.name = take_name();
    expect_sign('{');
    while (!is_sign('}'))
      parse_line();
    advance();
    check(token_.kind == Token::kEnd, "text after the graph");
    check(!graph_.outputs.empty(), "the graph has no 'out' line");
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail_at(size_t begin, std::string_view message) const {
    size_t line = 1;
    size_t line_begin = 0;
    for (size_t i = 0; i < begin; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
    fail(kInvalid, source_, ":", line, ":", begin - line_begin + 1, ": ", message);
  }

  std::string token_text() const {
    if (token_.kind == Token::kEnd) return "the end of the text";
    return quoted(token_.text.substr(0, 60));
  }

  void check(bool condition, std::string_view message) const {
    if (!condition) fail_at(token_.begin, concat(message, "; found ", token_text()));
  }

  void advance() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '#') {
        while (position_ < text_.size() && text_[position_] != '\n')
          ++position_;
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++position_;
      } else {
        break;
      }
    }
    token_ = Token();
    token_.begin = position_;
    if (position_ == text_.size()) return;
    if (text_[position_] == '"') {
      read_string();
    } else if (is_word_char(text_[position_])) {
      while (position_ < text_.size() && is_word_char(text_[position_]))
        ++position_;
      token_.kind = Token::kWord;
    } else {
      ++position_;
      token_.kind = Token::kSign;
    }
    token_.text = text_.substr(token_.begin, position_ - token_.begin);
  }

  // The escapes that quoted() writes: \" \\ \n \t \r and \xNN.
  void read_string() {
    token_.kind = Token::kString;
    for (++position_; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '"') {
        ++position_;
        return;
      }
      if (c == '\n') break;
      token_.value += c == '\\' ? read_escape() : c;
    }
    fail_at(token_.begin, "string without an end on its line");
  }

  char read_escape() {
    if (++position_ >= text_.size()) fail_at(token_.begin, "string without an end on its line");
    const char c = text_[position_];
    if (c == '"' || c == '\\') return c;
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c == 'r') return '\r';
    int code = 0;
    for (int digit = 0; c == 'x' && digit < 2; ++digit) {
      const char h = ++position_ < text_.size() ? text_[position_] : ' ';
      const bool is_digit = h >= '0' && h <= '9';
      if (!is_digit && !(h >= 'a' && h <= 'f')) fail_at(position_ - 1, "\\x wants two hex digits");
      code = code * 16 + (is_digit ? h - '0' : h - 'a' + 10);
    }
    if (c != 'x') fail_at(position_, "unknown escape in a string");
    return static_cast<char>(code);
  }

  bool is_sign(char sign) const { return token_.kind == Token::kSign && token_.text[0] == sign; }
  bool is_word(std::string_view word) const {
    return token_.kind == Token::kWord && token_.text == word;
  }

  void expect_sign(char sign) {
    check(is_sign(sign), concat("expected '", sign, "'"));
    advance();
  }
  void expect_word(std::string_view word) {
    check(is_word(word), concat("expected '", word, "'"));
    advance();
  }
  std::string_view take_word(std::string_view what) {
    check(token_.kind == Token::kWord, concat("expected ", what));
    const std::string_view word = token_.text;
    advance();
    return word;
  }

  std::string take_name() {
    check(token_.kind == Token::kWord || token_.kind == Token::kString, "expected a name");
    std::string name =
        token_.kind == Token::kString ? std::move(token_.value) : std::string(token_.text);
    check(name.size() <= kMaxNameBytes, "name is too long");
    advance();
    return name;
  }

  int64_t take_int(std::string_view what) {
    check(token_.kind == Token::kWord, concat("expected ", what));
    const std::optional<int64_t> value = parse_int(token_.text);
    check(value.has_value(), concat("expected ", what));
    advance();
    return *value;
  }

  int64_t take_attribute(std::string_view name) {
    expect_word(name);
    return take_int(concat("the integer of '", name, "'"));
  }

  // [1,2,3], at most one number an axis.
  std::vector<int64_t> take_list() {
    expect_sign('[');
    std::vector<int64_t> list;
    while (!is_sign(']')) {
      if (!list.empty()) expect_sign(',');
      check(list.size() < kMaxRank, concat("list is longer than ", kMaxRank));
      list.push_back(take_int("an integer"));
    }
    advance();
    return list;
  }

  DType take_dtype() {
    check(token_.kind == Token::kWord, "expected a dtype");
    const std::optional<DType> dtype = find_dtype(token_.text);
    check(dtype && dtype_kind(*dtype) != DTypeKind::kIndex, "expected a dtype of tensors");
    advance();
    return *dtype;
  }

  uint64_t take_scalar(DType dtype) {
    check(token_.kind == Token::kWord, concat("expected a value of ", dtype_name(dtype)));
    const std::optional<uint64_t> bits = parse_scalar(dtype, token_.text);
    check(bits.has_value(), concat("expected a value of ", dtype_name(dtype)));
    advance();
    return *bits;
  }

  // `%name`; the sign and the name stand together or apart.
  Node take_operand() {
    const size_t begin = token_.begin;
    expect_sign('%');
    const std::string name = take_name();
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) {
      fail_at(begin, concat("no node is named ", quoted(name), " above this line"));
    }
    return found->second;
  }

  void define(const std::string& name, Node node, size_t begin) {
    if (nodes_.size() >= kMaxNodes) {
      fail_at(begin, concat("more than ", kMaxNodes, " nodes"));
    }
    if (!nodes_.emplace(name, std::move(node)).second) {
      fail_at(begin, concat("a second node is named ", quoted(name)));
    }
  }

  void parse_line() {
    if (is_word("in")) return parse_input();
    if (is_word("out")) return parse_output();
    check(is_sign('%'), "expected 'in', 'out', '%name = ...' or '}'");
    check(graph_.outputs.empty(), "nodes stand before the first 'out'");
    const size_t begin = token_.begin;
    advance();
    const std::string name = take_name();
    expect_sign('=');
    define(name, parse_node(), begin);
  }

  void parse_input() {
    advance();
    const size_t begin = token_.begin;
    expect_sign('%');
    std::string name = take_name();
    expect_sign(':');
    const DType dtype = take_dtype();
    const Shape shape = take_list();
    Node node = build(begin, [&] { return tensor_buffer(dtype, shape); });
    define(name, node, begin);
    graph_.inputs.push_back(std::move(node));
    graph_.input_names.push_back(std::move(name));
  }

  void parse_output() {
    advance();
    const size_t begin = token_.begin;
    std::string name = take_name();
    if (!output_names_.insert(name).second) {
      fail_at(begin, concat("a second output is named ", quoted(name)));
    }
    expect_sign('=');
    graph_.outputs.push_back(take_operand());
    graph_.output_names.push_back(std::move(name));
  }

  // Runs a builder; what it refuses is reported at `begin`.
  template <typename Builder>
  Node build(size_t begin, Builder&& builder) const {
    try {
      return builder();
    } catch (const Error& error) {
      fail_at(begin, error.what());
    }
  }

  Node parse_node() {
    const size_t begin = token_.begin;
    check(token_.kind == Token::kWord, "expected an op");
    const std::optional<Op> op = find_op(token_.text, kTensorLevel);
    check(op.has_value(), "expected an op of tensor graphs");
    advance();
    const size_t type_begin = token_.begin;
    const DType dtype = take_dtype();
    const Shape shape = take_list();
    std::vector<Node> srcs;
    for (int i = 0; i < op_info(*op).arity; ++i) {
      if (i > 0) expect_sign(',');
      srcs.push_back(take_operand());
    }
    Node node = parse_attributes(*op, dtype, shape, srcs, begin);
    const bool has_type = node.dtype() == dtype && std::ranges::equal(node.shape(), shape);
    if (!has_type) {
      fail_at(type_begin,
              concat(op_name(*op), ": stated as ", dtype_name(dtype), " ", format_shape(shape),
                     ", but it is ", dtype_name(node.dtype()), " ", format_shape(node.shape())));
    }
    return node;
  }

  Node parse_attributes(Op op, DType dtype, const Shape& shape, std::span<const Node> srcs,
                        size_t begin) {
    if (is_movement(op)) return parse_movement(op, shape, srcs[0], begin);
    if (op == Op::kCast) return build(begin, [&] { return tensor_cast(srcs[0], dtype); });
    if (op == Op::kBitcast) return build(begin, [&] { return tensor_bitcast(srcs[0], dtype); });
    if (is_elementwise(op)) return build(begin, [&] { return tensor_elementwise(op, srcs); });
    if (op == Op::kConst) {
      const uint64_t bits = take_scalar(dtype);
      return build(begin, [&] { return tensor_const(dtype, bits); });
    }
    if (op == Op::kBuffer) return build(begin, [&] { return tensor_buffer(dtype, shape); });
    if (op == Op::kVariable) {
      const int64_t id = take_attribute("id");
      const int64_t min = take_attribute("min");
      const int64_t max = take_attribute("max");
      return build(begin, [&] { return tensor_variable(id, min, max); });
    }
    if (op == Op::kIndex) {
      const int64_t axis = take_attribute("axis");
      return build(begin, [&] { return tensor_index(dtype, shape, axis); });
    }
    if (op == Op::kReduce) return parse_reduce(srcs[0], begin);
    if (op == Op::kContiguous) return build(begin, [&] { return tensor_contiguous(srcs[0]); });
    if (op == Op::kCopy) {
      const int64_t device = take_attribute("device");
      return build(begin, [&] { return tensor_copy(srcs[0], device); });
    }
    TENON_ASSERT(op == Op::kAssign, "no text form for ", op_name(op));
    return build(begin, [&] { return tensor_assign(srcs[0], srcs[1]); });
  }

  Node parse_movement(Op op, const Shape& shape, const Node& x, size_t begin) {
    if (op == Op::kReshape) return build(begin, [&] { return tensor_reshape(x, shape); });
    if (op == Op::kExpand) return build(begin, [&] { return tensor_expand(x, shape); });
    if (op == Op::kPermute || op == Op::kFlip) {
      expect_word("axes");
      const size_t list_begin = token_.begin;
      const std::vector<int64_t> axes = take_list();
      if (op == Op::kPermute) return build(begin, [&] { return tensor_permute(x, axes); });
      std::vector<int64_t> flags(x.shape().size());
      for (int64_t axis : axes) {
        if (axis < 0 || axis >= std::ssize(flags) || flags[static_cast<size_t>(axis)] != 0) {
          fail_at(list_begin, concat("flip: axis ", axis, " is out of range or stands twice; x is ",
                                     format_shape(x.shape())));
        }
        flags[static_cast<size_t>(axis)] = 1;
      }
      return build(begin, [&] { return tensor_flip(x, flags); });
    }
    if (op == Op::kPad || op == Op::kShrink) {
      expect_word(op == Op::kPad ? "before" : "begin");
      const std::vector<int64_t> first = take_list();
      expect_word(op == Op::kPad ? "after" : "end");
      const std::vector<int64_t> second = take_list();
      if (op == Op::kShrink) return build(begin, [&] { return tensor_shrink(x, first, second); });
      expect_word("fill");
      const uint64_t fill = take_scalar(x.dtype());
      return build(begin, [&] { return tensor_pad(x, first, second, fill); });
    }
    TENON_ASSERT(op == Op::kWindow, "no text form for ", op_name(op));
    const int64_t axis = take_attribute("axis");
    const int64_t size = take_attribute("size");
    const int64_t step = take_attribute("step");
    const int64_t dilation = take_attribute("dilation");
    return build(begin, [&] { return tensor_window(x, axis, size, step, dilation); });
  }

  Node parse_reduce(const Node& x, size_t begin) {
    check(token_.kind == Token::kWord, "expected the op that combines");
    const std::optional<Op> op = find_op(token_.text, kTensorLevel);
    check(op && is_combining(*op), "expected add, mul, min, max, and or or");
    advance();
    expect_word("axes");
    const std::vector<int64_t> axes = take_list();
    expect_word("acc");
    const DType accumulator = take_dtype();
    return build(begin, [&] { return tensor_reduce(*op, x, axes, accumulator); });
  }

  std::string_view text_;
  std::string_view source_;
  size_t position_ = 0;
  Token token_;
  TensorGraph graph_;
  std::unordered_map<std::string, Node> nodes_;
  std::unordered_set<std::string> output_names_;
};

}  // namespace

TensorGraph parse_graph(std::string_view text, std::string_view source_name) {
  return GraphParser(text, source_name).parse();
}

}  // namespace tenon
