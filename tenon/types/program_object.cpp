// The .tpo format. All numbers are little-endian; a text is its length (u32) and its bytes.
//   magic 8, version u32, size of the whole file u64, entry, target, payload format,
//   number of arguments u32, per argument: name, dtype u8, is_buffer u8, access u8, num_elements,
//   min, max (i64 each); number of grid dims u8, dims i64; the same for lanes; scratch bytes i64,
//   payload size u64, payload, checksum (two u64 of hash128 over all before it).
// SPDX-License-Identifier: MIT

#include "tenon/types/program_object.h"

#include <array>
#include <optional>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/base/hash.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr std::string_view kMagic = "TENONTPO";
constexpr size_t kChecksumBytes = 16;
constexpr size_t kHeaderBytes = kMagic.size() + 4 + 8;
// Limits of a valid file. Nothing real comes near; a hostile file is refused before any work.
constexpr size_t kMaxTextBytes = size_t{1} << 16;
constexpr size_t kMaxArguments = size_t{1} << 16;
constexpr size_t kMaxDims = 3;
constexpr size_t kMinArgumentBytes = 4 + 3 + 3 * 8;

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "program object: ", parts...);
}

class Writer {
 public:
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  void bytes(std::string_view text) { bytes(std::as_bytes(std::span(text))); }
  template <typename T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes(value);
  }
  std::vector<std::byte>& out() { return out_; }

 private:
  std::vector<std::byte> out_;
};

// Reads the fields in order; every read checks that the bytes are there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> rest) : rest_(rest) {}
  size_t num_left() const { return rest_.size(); }

  std::span<const std::byte> bytes(uint64_t size, std::string_view field) {
    if (size > rest_.size()) {
      refuse(field, " takes ", size, " bytes, the file has ", rest_.size(), " left");
    }
    const auto taken = rest_.first(static_cast<size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  template <typename T>
  T number(std::string_view field) {
    const auto raw = bytes(sizeof(T), field);
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<uint64_t>(raw[i]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  std::string text(std::string_view field) {
    const auto size = number<uint32_t>(field);
    if (size > kMaxTextBytes) {
      refuse(field, " has ", size, " bytes, at most ", kMaxTextBytes, " are allowed");
    }
    const auto raw = bytes(size, field);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

 private:
  std::span<const std::byte> rest_;
};

void check_text(std::string_view text, std::string_view field, bool may_be_empty) {
  if (text.empty() && !may_be_empty) refuse(field, " is empty");
  if (text.size() > kMaxTextBytes) {
    refuse(field, " has ", text.size(), " bytes, at most ", kMaxTextBytes, " are allowed");
  }
  for (const char c : text) {
    if (c < ' ' || c > '~') refuse(field, " ", quoted(text), " is not printable ASCII");
  }
}

// min and max of an integer or bool scalar are within its dtype and in order.
bool has_valid_range(const Argument& argument) {
  const DType dtype = argument.dtype;
  if (is_float(dtype)) return argument.min == 0 && argument.max == 0;
  if (dtype == DType::kU64) {
    return static_cast<uint64_t>(argument.min) <= static_cast<uint64_t>(argument.max);
  }
  return argument.min <= argument.max &&
         argument.min >= static_cast<int64_t>(int_min_bits(dtype)) &&
         argument.max <= static_cast<int64_t>(int_max_bits(dtype));
}

void check_argument(const Argument& argument, size_t number) {
  const std::string where = concat("argument ", number);
  check_text(argument.name, concat("name of ", where), true);
  const int64_t element_bytes = dtype_size_bytes(argument.dtype);
  if (element_bytes == 0) {
    refuse(where, " has dtype ", dtype_name(argument.dtype), ", which is not stored");
  }
  if (argument.is_buffer) {
    int64_t size_bytes = 0;
    if (argument.num_elements < 0 ||
        __builtin_mul_overflow(argument.num_elements, element_bytes, &size_bytes)) {
      refuse(where, " has ", argument.num_elements, " elements");
    }
    if (argument.min != 0 || argument.max != 0) refuse(where, " is a buffer with a range");
    return;
  }
  if (argument.access != ArgumentAccess::kRead || argument.num_elements != 0) {
    refuse(where, " is a scalar that is written or has elements");
  }
  if (!has_valid_range(argument)) {
    refuse(where, " (", dtype_name(argument.dtype), ") has the range ", argument.min, " to ",
           argument.max);
  }
}

// The product of all dims so far in `product`; refused if it does not fit.
void check_dims(std::span<const int64_t> dims, int64_t least, std::string_view field,
                int64_t& product) {
  if (dims.empty() || dims.size() > kMaxDims) {
    refuse(field, " has ", dims.size(), " dimensions, wanted 1 to ", kMaxDims);
  }
  for (const int64_t dim : dims) {
    if (dim < least || __builtin_mul_overflow(product, dim, &product)) {
      refuse(field, " ", format_shape(dims), " is out of range");
    }
  }
}

// What both directions hold a program object to.
void check_object(const ProgramObject& object) {
  check_text(object.entry, "entry name", false);
  check_text(object.target, "target", true);
  check_text(object.payload_format, "payload format", false);
  if (object.signature.arguments.size() > kMaxArguments) {
    refuse(object.signature.arguments.size(), " arguments, at most ", kMaxArguments,
           " are allowed");
  }
  for (size_t i = 0; i < object.signature.arguments.size(); ++i) {
    check_argument(object.signature.arguments[i], i);
  }
  int64_t product = 1;
  check_dims(object.lanes, 1, "lanes", product);
  check_dims(object.grid, 0, "grid", product);
  if (object.scratch_bytes < 0) refuse("scratch bytes are ", object.scratch_bytes);
}

bool read_flag(Reader& reader, std::string_view field) {
  const auto value = reader.number<uint8_t>(field);
  if (value > 1) refuse(field, " is ", value, ", wanted 0 or 1");
  return value == 1;
}

Argument read_argument(Reader& reader) {
  Argument argument;
  argument.name = reader.text("argument name");
  const auto dtype_number = reader.number<uint8_t>("argument dtype");
  const std::optional<DType> dtype = dtype_from_number(dtype_number);
  if (!dtype) refuse("no dtype has number ", dtype_number);
  argument.dtype = *dtype;
  argument.is_buffer = read_flag(reader, "argument kind");
  const auto access = reader.number<uint8_t>("argument access");
  if (access < 1 || access > 3) refuse("argument access is ", access, ", wanted 1 to 3");
  argument.access = static_cast<ArgumentAccess>(access);
  argument.num_elements = reader.number<int64_t>("argument size");
  argument.min = reader.number<int64_t>("argument range");
  argument.max = reader.number<int64_t>("argument range");
  return argument;
}

std::vector<int64_t> read_dims(Reader& reader, std::string_view field) {
  const auto count = reader.number<uint8_t>(field);
  if (count > kMaxDims) refuse(field, " has ", count, " dimensions, wanted 1 to ", kMaxDims);
  std::vector<int64_t> dims;
  for (uint8_t i = 0; i < count; ++i) {
    dims.push_back(reader.number<int64_t>(field));
  }
  return dims;
}

// Checks magic, version, size and checksum; gives the fields between them.
Reader open_body(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto magic = reader.bytes(kMagic.size(), "magic");
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kMagic)).begin())) {
    refuse("the file does not start with the magic ", quoted(kMagic));
  }
  const auto version = reader.number<uint32_t>("version");
  if (version != kProgramObjectVersion) {
    refuse("the file has version ", version, ", this build reads version ", kProgramObjectVersion,
           ". Compile the kernel again");
  }
  const auto size = reader.number<uint64_t>("file size");
  if (size != bytes.size()) {
    refuse("the file says it has ", size, " bytes, it has ", bytes.size(),
           ": truncated or something was appended");
  }
  if (size < kHeaderBytes + kChecksumBytes) refuse("the file is truncated");
  const auto covered = bytes.first(bytes.size() - kChecksumBytes);
  Reader checksum(bytes.subspan(covered.size()));
  const auto low = checksum.number<uint64_t>("checksum");
  const auto high = checksum.number<uint64_t>("checksum");
  if (hash128(covered) != Hash128{low, high}) refuse("the checksum differs: the file is damaged");
  return Reader(covered.subspan(kHeaderBytes));
}

}  // namespace

std::vector<std::byte> serialize_program_object(const ProgramObject& object) {
  check_object(object);
  Writer writer;
  writer.bytes(kMagic);
  writer.number(kProgramObjectVersion);
  const size_t size_at = writer.out().size();
  writer.number(uint64_t{0});
  writer.text(object.entry);
  writer.text(object.target);
  writer.text(object.payload_format);
  writer.number(static_cast<uint32_t>(object.signature.arguments.size()));
  for (const Argument& argument : object.signature.arguments) {
    writer.text(argument.name);
    writer.number(static_cast<uint8_t>(argument.dtype));
    writer.number(static_cast<uint8_t>(argument.is_buffer));
    writer.number(static_cast<uint8_t>(argument.access));
    for (const int64_t value : {argument.num_elements, argument.min, argument.max}) {
      writer.number(value);
    }
  }
  for (const std::vector<int64_t>* dims : {&object.grid, &object.lanes}) {
    writer.number(static_cast<uint8_t>(dims->size()));
    for (const int64_t dim : *dims)
      writer.number(dim);
  }
  writer.number(object.scratch_bytes);
  writer.number(static_cast<uint64_t>(object.payload.size()));
  writer.bytes(object.payload);
  std::vector<std::byte>& out = writer.out();
  const uint64_t size = out.size() + kChecksumBytes;
  for (size_t i = 0; i < sizeof(size); ++i) {
    out[size_at + i] = static_cast<std::byte>(size >> (8 * i));
  }
  const Hash128 checksum = hash128(std::span<const std::byte>(out));
  writer.number(checksum.low);
  writer.number(checksum.high);
  return std::move(out);
}

ProgramObject parse_program_object(std::span<const std::byte> bytes) {
  Reader reader = open_body(bytes);
  ProgramObject object;
  object.entry = reader.text("entry name");
  object.target = reader.text("target");
  object.payload_format = reader.text("payload format");
  const auto num_arguments = reader.number<uint32_t>("number of arguments");
  if (num_arguments > kMaxArguments || num_arguments > reader.num_left() / kMinArgumentBytes) {
    refuse(num_arguments, " arguments do not fit in the file (at most ", kMaxArguments, ")");
  }
  object.signature.arguments.reserve(num_arguments);
  for (uint32_t i = 0; i < num_arguments; ++i) {
    object.signature.arguments.push_back(read_argument(reader));
  }
  object.grid = read_dims(reader, "grid");
  object.lanes = read_dims(reader, "lanes");
  object.scratch_bytes = reader.number<int64_t>("scratch bytes");
  const auto payload_bytes = reader.number<uint64_t>("payload size");
  if (payload_bytes != reader.num_left()) {
    refuse("the payload takes ", payload_bytes, " bytes, the file has ", reader.num_left());
  }
  const auto payload = reader.bytes(payload_bytes, "payload");
  object.payload.assign(payload.begin(), payload.end());
  check_object(object);
  return object;
}

}  // namespace tenon
