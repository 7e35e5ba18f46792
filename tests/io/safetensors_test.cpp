// Safetensors files: bytes written by hand after the format's definition, round trips, hostile
// files. SPDX-License-Identifier: MIT

#include "tenon/io/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "tenon/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
using Dims = std::vector<int64_t>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string with_length(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  file += header;
  file += data;
  return file;
}

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   uint64_t begin, uint64_t end) {
  return concat("\"", name, R"(":{"dtype":")", dtype, R"(","shape":)", shape,
                R"(,"data_offsets":[)", begin, ",", end, "]}");
}

SafetensorsContent parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "x.safetensors");
}

void expect_refused(const std::string& file, std::initializer_list<std::string_view> words) {
  EXPECT_TRUE(::tenon::testing::throws_error([&] { (void)parse(file); }, kInvalid, words));
}

void expect_header_refused(std::string_view header, std::initializer_list<std::string_view> words) {
  expect_refused(with_length(header, ""), words);
}

std::string data_of(const ArrayView& array) {
  return {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()};
}

TEST(Safetensors, HeaderLengthBeyondTheFileIsRefused) {
  expect_refused(std::string(8, '\xff') + "{}", {"x.safetensors", "header length", "exceeds"});
  expect_refused(std::string("\x03\0\0\0\0\0\0\0{}", 10), {"header length 3", "exceeds"});
  expect_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), {"exceeds"});
  expect_refused("", {"0 bytes"});
  expect_refused("1234567", {"7 bytes"});
  expect_refused(std::string(8, '\0'), {"'{'"});
}

TEST(Safetensors, TensorsMayBeginAtAnyByte) {
  const std::string data = std::string("\x07\0\0\xc0\x3f\0\0\0\xc0", 9);
  const std::string file = with_length(
      "{" + tensor("u", "U8", "[1]", 0, 1) + "," + tensor("f", "F32", "[2]", 1, 9) + "}", data);
  const SafetensorsContent content = parse(file);
  ASSERT_EQ(content.entries.size(), 2U);
  EXPECT_EQ(content.entries[0].name, "u");
  EXPECT_EQ(content.entries[0].array.dtype, DType::kU8);
  EXPECT_EQ(data_of(content.entries[0].array), "\x07");
  EXPECT_EQ(content.entries[1].array.shape, Dims{2});
  std::array<float, 2> values{};
  std::memcpy(values.data(), content.entries[1].array.bytes.data(), 8);
  EXPECT_EQ(values, (std::array<float, 2>{1.5F, -2.0F}));
}

TEST(Safetensors, EmptyScalarUnorderedMetadataAndTrailingSpaces) {
  const std::string header = R"({"__metadata__":{"k":"v"},)" + tensor("b", "BF16", "[2]", 4, 8) +
                             "," + tensor("s", "F32", "[]", 0, 4) + "," +
                             tensor("e", "F32", "[0,3]", 8, 8) + "}   ";
  const std::string data("\0\0\x80\x3e\x80\x3f\0\xc0", 8);
  const std::string file = with_length(header, data);
  const SafetensorsContent content = parse(file);
  ASSERT_EQ(content.entries.size(), 3U);
  EXPECT_EQ(content.entries[0].name, "s");
  EXPECT_EQ(content.entries[0].array.shape, Dims{});
  EXPECT_EQ(data_of(content.entries[0].array), std::string("\0\0\x80\x3e", 4));
  EXPECT_EQ(content.entries[1].name, "b");
  EXPECT_EQ(content.entries[1].array.dtype, DType::kBF16);
  EXPECT_EQ(data_of(content.entries[1].array), std::string("\x80\x3f\0\xc0", 4));
  EXPECT_EQ(content.entries[2].name, "e");
  EXPECT_EQ(content.entries[2].array.shape, (Dims{0, 3}));
  EXPECT_EQ(content.metadata, (SafetensorsMetadata{{"k", "v"}}));
}

TEST(Safetensors, EmptyTensorsMayStandAnywhereBetweenOthers) {
  const std::string header =
      "{" + tensor("z", "F64", "[0]", 0, 0) + "," + tensor("a", "U8", "[1]", 0, 1) + "," +
      tensor("y", "F64", "[5,0]", 1, 1) + "," + tensor("b", "U8", "[1]", 1, 2) + "}";
  EXPECT_EQ(parse(with_length(header, "12")).entries.size(), 4U);
  const std::string inside =
      "{" + tensor("a", "U8", "[2]", 0, 2) + "," + tensor("z", "F64", "[0]", 1, 1) + "}";
  expect_refused(with_length(inside, "12"), {"\"z\"", "overlap"});
  EXPECT_TRUE(parse(with_length("{}", "")).entries.empty());
}

TEST(Safetensors, AllDTypesOfTheFormatThatWeHaveAreRead) {
  const std::pair<const char*, DType> known[] = {
      {"BOOL", DType::kBool}, {"U8", DType::kU8},          {"I8", DType::kI8},
      {"U16", DType::kU16},   {"I16", DType::kI16},        {"U32", DType::kU32},
      {"I32", DType::kI32},   {"U64", DType::kU64},        {"I64", DType::kI64},
      {"F16", DType::kF16},   {"BF16", DType::kBF16},      {"F32", DType::kF32},
      {"F64", DType::kF64},   {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2}};
  for (const auto& [name, dtype] : known) {
    const auto size = static_cast<size_t>(dtype_size_bytes(dtype));
    const std::string file =
        with_length("{" + tensor("t", name, "[1]", 0, size) + "}", std::string(size, '\1'));
    EXPECT_EQ(parse(file).entries.at(0).array.dtype, dtype) << name;
  }
  expect_refused(with_length("{" + tensor("t", "C64", "[1]", 0, 8) + "}", "12345678"),
                 {"\"t\"", "C64"});
  expect_refused(with_length("{" + tensor("t", "f32", "[1]", 0, 4) + "}", "1234"), {"f32"});
}

TEST(Safetensors, OffsetsMustTileTheData) {
  const auto two = [](uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return "{" + tensor("a", "U8", "[2]", a, b) + "," + tensor("b", "U8", "[2]", c, d) + "}";
  };
  EXPECT_EQ(parse(with_length(two(2, 4, 0, 2), "1234")).entries[0].name, "b");
  expect_refused(with_length(two(0, 2, 1, 3), "1234"), {"\"b\"", "overlap"});
  expect_refused(with_length(two(0, 2, 0, 2), "1234"), {"overlap"});
  expect_refused(with_length(two(0, 2, 3, 5), "12345"), {"\"b\"", "hole"});
  expect_refused(with_length(two(1, 3, 3, 5), "12345"), {"\"a\"", "hole"});
  expect_refused(with_length(two(0, 2, 2, 4), "123"), {"\"b\"", "beyond"});
  expect_refused(with_length(two(0, 2, 2, 4), "12345"), {"1 bytes", "no tensor"});
  expect_refused(with_length(two(0, 2, 4, 2), "1234"), {"\"b\"", "4 to 2"});
  expect_refused(with_length(two(0, 2, 2, 3), "123"), {"\"b\"", "2 bytes"});
  expect_refused(with_length("{}", "1"), {"no tensor"});
}

TEST(Safetensors, SizesThatOverflowAreRefused) {
  const auto one = [](std::string_view shape, uint64_t end) {
    return with_length("{" + tensor("t", "F32", shape, 0, end) + "}", "");
  };
  expect_refused(one("[4611686018427387904]", 0), {"too large"});
  expect_refused(one("[4294967296,4294967296]", 0), {"too large"});
  expect_refused(one("[4294967296,4294967296,0]", 0), {"too large"});
  expect_refused(one("[9223372036854775808]", 0), {"too large"});
  expect_refused(one("[18446744073709551616]", 0), {"64-bit"});
  expect_refused(one("[1]", ~uint64_t{0}), {"18446744073709551615"});
  expect_refused(one("[2305843009213693951]", 9223372036854775804U), {"beyond"});
}

TEST(Safetensors, HeadersThatAreNotInTheFormatAreRefused) {
  expect_header_refused("", {"'{'"});
  expect_header_refused(" {}", {"'{'"});
  expect_header_refused("[]", {"'{'"});
  expect_header_refused("{", {"JSON"});
  expect_header_refused("{}x", {"JSON"});
  expect_header_refused("{} {}", {"JSON"});
  expect_header_refused(std::string("{}\0", 3), {"zero byte"});
  expect_header_refused("{\"a\xff\":1}", {"JSON"});
  expect_header_refused(R"({"t":1})", {"a number", "\"t\""});
  expect_header_refused(R"({"t":null})", {"null"});
  expect_header_refused(R"({"t":true})", {"a bool"});
  expect_header_refused(R"({"t":"x"})", {"a string"});
  expect_header_refused(R"({"t":[]})", {"a list"});
  expect_header_refused(R"({"t":{}})", {"lacks"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[0]}})", {"lacks"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", {"wanted 2"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})",
                        {"2 numbers"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", {"negative"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[0.0],"data_offsets":[0,0]}})", {"0.0"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[1e2],"data_offsets":[0,0]}})", {"1e2"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})", {"a list"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":["0"],"data_offsets":[0,0]}})", {"a string"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":0,"data_offsets":[0,0]}})", {"a number"});
  expect_header_refused(R"({"t":{"dtype":["U8"],"shape":[0],"data_offsets":[0,0]}})", {"a list"});
  expect_header_refused(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})",
                        {"unknown field"});
  expect_header_refused(R"({"t":{"dtype":"U8","dtype":"U8"}})", {"twice"});
  expect_header_refused(R"({"__metadata__":{"a":1}})", {"a number"});
  expect_header_refused(R"({"__metadata__":{"a":{}}})", {"an object"});
  expect_header_refused(R"({"__metadata__":{"a":"1","a":"2"}})", {"\"a\"", "twice"});
  expect_header_refused(R"({"__metadata__":{},"__metadata__":{}})", {"twice"});
  const std::string t = tensor("t", "U8", "[0]", 0, 0);
  expect_header_refused("{" + t + "," + t + "}", {"\"t\"", "twice"});
  // The same name, once spelled with an escape.
  expect_header_refused("{" + t + "," + tensor("\\u0074", "U8", "[0]", 0, 0) + "}", {"twice"});
  std::string many_axes = "[1";
  for (int i = 0; i < 64; ++i)
    many_axes += ",1";
  expect_header_refused("{" + tensor("t", "U8", many_axes + "]", 0, 1) + "}", {"64 numbers"});
}

TEST(Safetensors, DeepNestingEndsAtOnce) {
  const std::string deep = "{\"a\":" + std::string(1 << 20, '[');
  expect_header_refused(deep, {"a list"});
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = with_length(
      R"({"__metadata__":{"k":"v"},)" + tensor("t", "F32", "[2]", 0, 8) + "} ", "12345678");
  ASSERT_EQ(parse(file).entries.size(), 1U);
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_ERROR(parse_safetensors(std::as_bytes(std::span(cut)), "x.safetensors"), kInvalid,
                 "x.safetensors");
  }
  // The same with a length that fits, so that the header itself is cut.
  const std::string header = file.substr(8, file.size() - 17);
  for (size_t size = 0; size < header.size(); ++size)
    expect_header_refused(std::string_view(header).substr(0, size), {"x.safetensors"});
}

TEST(Safetensors, WrittenFilesReadBackAligned) {
  const ::tenon::testing::TempFolder folder;
  const std::string path = folder.path() + "/m.safetensors";
  const std::string f64 = "abcdefghijklmnop";
  const std::vector<SafetensorsEntry> entries = {
      {"odd \"name\"\n\xc3\xa9", {DType::kU8, {3}, bytes_of("123")}},
      {"w", {DType::kBF16, {2, 1}, bytes_of("wxyz")}},
      {"d", {DType::kF64, {2}, bytes_of(f64)}},
      {"s", {DType::kF32, {}, bytes_of("+-*/")}},
      {"e", {DType::kI64, {0, 7}, {}}}};
  write_safetensors(path, entries, {{"format", "pt"}, {"b", "\t"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"d", "e", "s", "w", entries[0].name}));
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"b", "\t"}}));
  for (const SafetensorsEntry& entry : entries) {
    ASSERT_TRUE(file.has(entry.name));
    const Array array = file.get(entry.name);
    EXPECT_EQ(array.dtype, entry.array.dtype);
    EXPECT_EQ(array.shape, entry.array.shape);
    EXPECT_EQ(data_of(array.view()), data_of(entry.array));
  }
  for (const SafetensorsPlace& place : file.places())
    EXPECT_EQ(place.begin % static_cast<uint64_t>(dtype_size_bytes(place.dtype)), 0U);
  EXPECT_ERROR(file.get("W2"), ErrorCode::kNotFound, "\"W2\"", "m.safetensors", "\"w\"");
}

TEST(Safetensors, BoolsAreCheckedWhenRead) {
  const ::tenon::testing::TempFolder folder;
  const std::string path = folder.path() + "/b.safetensors";
  write_file_atomic(
      path, with_length("{" + tensor("m", "BOOL", "[3]", 0, 3) + "}", std::string("\1\0\2", 3)));
  const SafetensorsFile file(path);
  EXPECT_ERROR(file.get("m"), kInvalid, "element 2", "\"m\"");
}

TEST(Safetensors, WriterRefusesWhatTheReaderWould) {
  const std::string path = "/nonexistent/x.safetensors";
  const auto write = [&](const std::vector<SafetensorsEntry>& entries,
                         const SafetensorsMetadata& metadata = {}) {
    write_safetensors(path, entries, metadata);
    return 0;
  };
  const ArrayView one{DType::kU8, {1}, bytes_of("1")};
  EXPECT_ERROR(write({{"a", one}, {"a", one}}), kInvalid, "\"a\"", "taken");
  EXPECT_ERROR(write({{"__metadata__", one}}), kInvalid, "taken");
  EXPECT_ERROR(write({{"a\xff", one}}), kInvalid, "UTF-8");
  EXPECT_ERROR(write({{"a", {DType::kU8, {2}, bytes_of("1")}}}), kInvalid, "1 bytes", "(2)");
  EXPECT_ERROR(write({{"a", {DType::kU8, Dims(65, 1), bytes_of("1")}}}), kInvalid, "axes");
  EXPECT_ERROR(write({{"a", {DType::kIdx, {1}, bytes_of("1")}}}), kInvalid, "dtype");
  EXPECT_ERROR(write({}, {{"k", "1"}, {"k", "2"}}), kInvalid, "\"k\"", "taken");
  EXPECT_ERROR(write({{"a", one}}), ErrorCode::kNotFound, "nonexistent");
  EXPECT_ERROR(SafetensorsFile(path), ErrorCode::kNotFound, "x.safetensors");
}

}  // namespace
}  // namespace tenon
