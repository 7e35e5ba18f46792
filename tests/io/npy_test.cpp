// .npy files: bytes written by hand after the format's definition, round trips, hostile files.
// SPDX-License-Identifier: MIT

#include "tenon/io/npy.h"

#include <gtest/gtest.h>

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

std::string npy(std::string_view dict, std::string_view data, int major = 1) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    file += static_cast<char>(dict.size() >> (8 * i));
  file += dict;
  file += data;
  return file;
}

std::string npy_of(std::string_view descr, std::string_view shape, std::string_view data) {
  return npy(concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }\n"),
             data);
}

template <class T>
std::vector<T> values_of(const ArrayView& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

void expect_refused(const std::string& file, std::initializer_list<std::string_view> words) {
  EXPECT_TRUE(::tenon::testing::throws_error([&] { (void)parse_npy(bytes_of(file), "x.npy"); },
                                             kInvalid, words));
}

TEST(Npy, FortranOrderComesOutRowMajor) {
  const std::string file = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}   \n",
                               raw<float>({1, 4, 2, 5, 3, 6}));
  const NpyArray array = parse_npy(bytes_of(file), "x.npy");
  EXPECT_EQ(array.view().shape, (Dims{2, 3}));
  EXPECT_EQ(values_of<float>(array.view()), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, FortranOrderOfThreeAxes) {
  std::string data;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i)
        data += raw<int16_t>({static_cast<int16_t>(100 * i + 10 * j + k)});
    }
  }
  const std::string file =
      npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4), }\n", data);
  const NpyArray array = parse_npy(bytes_of(file), "x.npy");
  std::vector<int16_t> expected;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k)
        expected.push_back(static_cast<int16_t>(100 * i + 10 * j + k));
    }
  }
  EXPECT_EQ(values_of<int16_t>(array.view()), expected);
}

TEST(Npy, BigEndianIsTurned) {
  const std::string data("\0\0\0\1\0\0\1\0\xff\xff\xff\xfe", 12);
  const std::string file = npy_of(">i4", "(3,)", data);
  EXPECT_EQ(values_of<int32_t>(parse_npy(bytes_of(file), "x.npy").view()),
            (std::vector<int32_t>{1, 256, -2}));
  const std::string both = npy("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2)}",
                               std::string("\0\1\0\3\0\2\0\4", 8));
  const NpyArray array = parse_npy(bytes_of(both), "x.npy");
  EXPECT_EQ(values_of<uint16_t>(array.view()), (std::vector<uint16_t>{1, 2, 3, 4}));
  const NpyArray copy = array;  // a copy has its own converted data
  EXPECT_NE(copy.view().bytes.data(), array.view().bytes.data());
  EXPECT_EQ(values_of<uint16_t>(copy.view()), values_of<uint16_t>(array.view()));
}

TEST(Npy, ScalarsAndEmptyArrays) {
  const std::string scalar = npy_of("<f8", "()", raw<double>({2.5}));
  const NpyArray array = parse_npy(bytes_of(scalar), "x.npy");
  EXPECT_EQ(array.view().shape, Dims{});
  EXPECT_EQ(values_of<double>(array.view()), std::vector<double>{2.5});
  for (const std::string_view shape : {"(0,)", "(0, 3)", "(3, 0, 5)", "(0, 1152921504606846976)"}) {
    const std::string file = npy_of("<f4", shape, "");
    EXPECT_TRUE(parse_npy(bytes_of(file), "x.npy").view().bytes.empty()) << shape;
  }
  const std::string fortran = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 3)}", "");
  EXPECT_EQ(parse_npy(bytes_of(fortran), "x.npy").view().shape, (Dims{0, 3}));
}

TEST(Npy, DataBeginsWhereTheHeaderLengthSays) {
  for (const int major : {1, 2, 3}) {
    for (size_t padding = 0; padding < 9; ++padding) {
      const std::string dict =
          "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}" + std::string(padding, ' ');
      const std::string file = npy(dict, "\x07\x09", major);
      EXPECT_EQ(values_of<uint8_t>(parse_npy(bytes_of(file), "x.npy").view()),
                (std::vector<uint8_t>{7, 9}));
    }
  }
}

TEST(Npy, HeaderMayBeSpelledInAnyOrderAndQuotes) {
  const std::string file =
      npy("{\"shape\":(2,1,),\"fortran_order\":False,\n\"descr\":\"<i8\"}", raw<int64_t>({-1, 5}));
  const NpyArray array = parse_npy(bytes_of(file), "x.npy");
  EXPECT_EQ(array.view().shape, (Dims{2, 1}));
  EXPECT_EQ(values_of<int64_t>(array.view()), (std::vector<int64_t>{-1, 5}));
}

TEST(Npy, EveryDTypeOfNumpyIsKnown) {
  const std::pair<const char*, DType> known[] = {
      {"|b1", DType::kBool}, {"|i1", DType::kI8},  {"<i2", DType::kI16}, {"<i4", DType::kI32},
      {"<i8", DType::kI64},  {"|u1", DType::kU8},  {"<u2", DType::kU16}, {"<u4", DType::kU32},
      {"<u8", DType::kU64},  {"<f2", DType::kF16}, {"<f4", DType::kF32}, {"<f8", DType::kF64},
      {"=f4", DType::kF32},  {"f4", DType::kF32},  {"?", DType::kBool},  {"<i1", DType::kI8}};
  for (const auto& [descr, dtype] : known) {
    const std::string data(static_cast<size_t>(dtype_size_bytes(dtype)), '\1');
    const std::string file = npy_of(descr, "(1,)", data);
    EXPECT_EQ(parse_npy(bytes_of(file), "x.npy").view().dtype, dtype) << descr;
  }
}

TEST(Npy, WhatCannotBeReadIsRefusedWithTheReason) {
  expect_refused("", {"x.npy", "magic"});
  expect_refused("PK\3\4 this is a zip file", {"magic"});
  expect_refused(npy("{}", "", 4), {"version 4.0"});
  expect_refused(npy_of("<c8", "(1,)", "12345678"), {"dtype", "<c8"});
  expect_refused(npy_of("<V2", "(1,)", "12"), {"dtype", "<V2"});
  expect_refused(npy_of("|O", "(1,)", "12345678"), {"dtype", "|O"});
  expect_refused(npy_of("|f4", "(1,)", "1234"), {"byte order"});
  expect_refused(npy_of("", "(1,)", "1234"), {"dtype"});
  expect_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
                 {"structured"});
  expect_refused(npy_of("|b1", "(3,)", std::string("\0\1\2", 3)), {"element 2", "bool"});
  expect_refused(npy_of("<f4", "(2,)", "1234"), {"8 bytes", "has 4"});
  expect_refused(npy_of("<f4", "(1,)", "12345"), {"4 bytes", "has 5"});
}

TEST(Npy, MalformedHeadersAreRefused) {
  expect_refused(npy_of("<f4", "(1)", "1234"), {"not a tuple"});
  expect_refused(npy_of("<f4", "[1]", "1234"), {"'('"});
  expect_refused(npy_of("<f4", "(-1,)", ""), {"number"});
  expect_refused(npy_of("<f4", "(+1,)", "1234"), {"number"});
  expect_refused(npy_of("<f4", "(1.0,)", "1234"), {"','"});
  expect_refused(npy_of("<f4", "(1 1,)", "1234"), {"','"});
  expect_refused(npy_of("<f4", "(,)", "1234"), {"number"});
  expect_refused(npy_of("<f4", "(99999999999999999999,)", ""), {"number"});
  expect_refused(npy_of("<f4", "(4611686018427387904, 4)", ""), {"too large"});
  expect_refused(npy_of("<f4", "(4611686018427387904, 0, 4)", ""), {"too large"});
  std::string many_axes = "(";
  for (int i = 0; i < 65; ++i)
    many_axes += "1,";
  expect_refused(npy_of("<f4", many_axes + ")", "1234"), {"64 axes"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False}", ""), {"lacks"});
  expect_refused(npy("{'descr': '<f4', 'descr': '<f4', 'shape': ()}", "1234"), {"twice"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "1234"), {"True"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "1234"),
                 {"unknown key", "x"});
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "1234"),
                 {"goes on"});
  expect_refused(npy("{'descr': '<f\\x34', 'fortran_order': False, 'shape': ()}", "1234"),
                 {"plain string"});
  expect_refused(npy("'descr'", ""), {"'{'"});
}

TEST(Npy, HugeHeaderLengthsAreRefused) {
  std::string file("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14);
  expect_refused(file, {"header length 4294967295", "exceeds"});
  file = npy(std::string((1 << 20) + 1, ' '), "", 2);
  expect_refused(file, {"limit"});
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::string file = npy_of("<f4", "(2, 2)", raw<float>({1, 2, 3, 4}));
  ASSERT_EQ(parse_npy(bytes_of(file), "x.npy").view().shape, (Dims{2, 2}));
  for (size_t size = 0; size < file.size(); ++size) {
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_ERROR(parse_npy(std::as_bytes(std::span(cut)), "x.npy"), kInvalid, "x.npy");
  }
}

TEST(Npy, WrittenFilesHaveNumpysBytesAndReadBack) {
  const ::tenon::testing::TempFolder folder;
  const std::string path = folder.path() + "/a.npy";
  const std::string data = raw<float>({1.5F, -2, 3, 4, 5, 6});
  write_npy(path, {DType::kF32, {2, 3}, bytes_of(data)});
  std::string expected("\x93NUMPY\x01\0\x76\0", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.append(127 - expected.size(), ' ');
  EXPECT_EQ(read_file(path), expected + "\n" + data);
  const NpyFile file(path);
  EXPECT_EQ(file.view().shape, (Dims{2, 3}));
  EXPECT_EQ(values_of<float>(file.view()), (std::vector<float>{1.5F, -2, 3, 4, 5, 6}));
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{1, 1, 1}}) {
    write_npy(path, {DType::kU16, shape, bytes_of(std::string_view("\x34\x12", 2))});
    const NpyFile small(path);
    EXPECT_EQ(small.view().shape, shape);
    EXPECT_EQ(values_of<uint16_t>(small.view()), std::vector<uint16_t>{0x1234});
  }
}

TEST(Npy, WriterRefusesWhatTheFormatCannotHold) {
  const std::string path = "/nonexistent/x.npy";
  EXPECT_ERROR((write_npy(path, {DType::kBF16, {1}, bytes_of("12")}), 0), kInvalid, "bfloat16",
               "x.npy");
  EXPECT_ERROR((write_npy(path, {DType::kF32, {2}, bytes_of("1234")}), 0), kInvalid, "4 bytes",
               "(2)");
  EXPECT_ERROR((write_npy(path, {DType::kU8, Dims(65, 1), bytes_of("1")}), 0), kInvalid, "65 axes");
  EXPECT_ERROR((write_npy(path, {DType::kU8, {1}, bytes_of("1")}), 0), ErrorCode::kNotFound,
               "nonexistent");
  EXPECT_ERROR(NpyFile(path), ErrorCode::kNotFound, "x.npy");
}

}  // namespace
}  // namespace tenon
