// Parses the subset of Python literals that NumPy writes: a dict of exactly three keys.
// SPDX-License-Identifier: MIT

#include "tenon/io/npy_header.h"

#include <optional>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/io/array_view.h"

namespace tenon::detail {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
// A head of 64 axes takes under 2 KiB; version 2 could claim 4 GiB.
constexpr size_t kMaxHeaderBytes = size_t{1} << 20;

class Parser {
 public:
  Parser(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::kInvalidArgument, "npy file '", path_, "': ", parts...);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool is_at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool take(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse("the header wants '", wanted, "' at ", quoted(rest()));
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  // A string without escapes, in single or double quotes.
  std::string_view string(std::string_view what) {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      refuse(what, " is not a string at ", quoted(rest()),
             quote == '[' ? "; structured arrays cannot be read" : "");
    }
    const size_t begin = at_ + 1;
    const size_t end = text_.find(quote, begin);
    const std::string_view value = text_.substr(begin, end - begin);
    if (end == std::string_view::npos || value.find('\\') != std::string_view::npos) {
      refuse(what, " is not a plain string: ", quoted(rest()));
    }
    at_ = end + 1;
    return value;
  }
  int64_t number() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
      ++at_;
    const std::optional<int64_t> value = parse_int(text_.substr(begin, at_ - begin));
    if (!value) refuse("the shape has no number of 63 bits at ", quoted(text_.substr(begin, 24)));
    return *value;
  }
  std::string_view rest() const { return text_.substr(at_, 24); }

 private:
  std::string_view text_;
  std::string_view path_;
  size_t at_ = 0;
};

// "()", "(3,)", "(2, 3)"; "(3)" is no tuple.
std::vector<int64_t> parse_shape(Parser& parser) {
  std::vector<int64_t> shape;
  parser.expect('(');
  bool has_comma = true;
  while (!parser.take(')')) {
    if (!has_comma) parser.refuse("the shape wants ',' or ')' at ", quoted(parser.rest()));
    if (shape.size() == kMaxFileRank) {
      parser.refuse("the shape has more than ", kMaxFileRank, " axes");
    }
    shape.push_back(parser.number());
    has_comma = parser.take(',');
  }
  if (shape.size() == 1 && !has_comma) parser.refuse("the shape is a number, not a tuple");
  return shape;
}

bool parse_bool(Parser& parser) {
  if (parser.take_word("True")) return true;
  if (parser.take_word("False")) return false;
  parser.refuse("fortran_order is neither True nor False: ", quoted(parser.rest()));
}

std::optional<DType> find_descr(std::string_view kind_and_size) {
  for (const DType dtype : storage_dtypes()) {
    const std::string descr = npy_descr(dtype);
    if (!descr.empty() && kind_and_size == descr.substr(1)) return dtype;
  }
  if (kind_and_size == "?") return DType::kBool;
  return std::nullopt;
}

void parse_descr(const Parser& parser, std::string_view descr, NpyHeader& header) {
  const char order = descr.empty() ? '\0' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '=' || order == '|';
  const std::optional<DType> dtype = find_descr(has_order ? descr.substr(1) : descr);
  if (!dtype) {
    parser.refuse("the dtype ", quoted(descr),
                  " cannot be read (bool, int8 to uint64, float16, float32 and float64 can)");
  }
  if (order == '|' && dtype_bits(*dtype) > 8) {
    parser.refuse("the dtype ", quoted(descr), " has no byte order");
  }
  header.dtype = *dtype;
  header.is_big_endian = order == '>' && dtype_bits(*dtype) > 8;
}

void parse_dict(Parser& parser, NpyHeader& header) {
  enum : unsigned { kDescr = 1, kFortranOrder = 2, kShape = 4, kAllKeys = 7 };
  unsigned seen = 0;
  const auto see = [&](unsigned key, std::string_view name) {
    if ((seen & key) != 0) parser.refuse("the key ", quoted(name), " stands there twice");
    seen |= key;
  };
  parser.expect('{');
  bool has_comma = true;
  while (!parser.take('}')) {
    if (!has_comma) parser.refuse("the header wants ',' or '}' at ", quoted(parser.rest()));
    const std::string_view name = parser.string("a key");
    parser.expect(':');
    if (name == "descr") {
      see(kDescr, name);
      parse_descr(parser, parser.string("descr"), header);
    } else if (name == "fortran_order") {
      see(kFortranOrder, name);
      header.is_fortran_order = parse_bool(parser);
    } else if (name == "shape") {
      see(kShape, name);
      header.shape = parse_shape(parser);
    } else {
      parser.refuse("the header has the unknown key ", quoted(name));
    }
    has_comma = parser.take(',');
  }
  if (!parser.is_at_end()) parser.refuse("the header goes on with ", quoted(parser.rest()));
  if (seen != kAllKeys) parser.refuse("the header lacks descr, fortran_order or shape");
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Parser outer({}, path);
  if (!text.starts_with(kMagic)) outer.refuse("it does not start with the magic of .npy");
  const size_t version_at = kMagic.size();
  if (text.size() < version_at + 2) outer.refuse("it is cut off in the version");
  const int major = std::to_integer<int>(bytes[version_at]);
  const int minor = std::to_integer<int>(bytes[version_at + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    outer.refuse("version ", major, ".", minor, " is none of 1.0, 2.0, 3.0");
  }
  const size_t length_at = version_at + 2;
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < length_at + length_bytes) outer.refuse("it is cut off in the header length");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length |= std::to_integer<size_t>(bytes[length_at + i]) << (8 * i);
  }
  const size_t begin = length_at + length_bytes;
  if (length > text.size() - begin) {
    outer.refuse("the header length ", length, " exceeds the file, which has ", text.size() - begin,
                 " bytes left");
  }
  if (length > kMaxHeaderBytes) {
    outer.refuse("the header length ", length, " exceeds the limit of ", kMaxHeaderBytes);
  }
  NpyHeader header;
  header.size_bytes = begin + length;
  Parser parser(text.substr(begin, length), path);
  parse_dict(parser, header);
  return header;
}

std::string npy_descr(DType dtype) {
  if (dtype == DType::kBool) return "|b1";
  const int64_t size = dtype_size_bytes(dtype);
  const char order = size == 1 ? '|' : '<';
  if (is_signed_int(dtype)) return concat(order, 'i', size);
  if (is_unsigned_int(dtype)) return concat(order, 'u', size);
  const bool is_ieee = dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kF64;
  return is_ieee ? concat(order, 'f', size) : "";
}

std::string make_npy_header(DType dtype, std::span<const int64_t> shape) {
  const std::string descr = npy_descr(dtype);
  TENON_ASSERT(!descr.empty() && shape.size() <= kMaxFileRank, "write_npy checks its arguments");
  const std::string_view tuple_end = shape.size() == 1 ? ",)" : ")";
  std::string dict = concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                            join(shape, ", "), tuple_end, ", }");
  const size_t head = kMagic.size() + 4;
  const size_t unpadded = head + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

}  // namespace tenon::detail
