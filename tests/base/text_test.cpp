// Text helpers: forms of values, splitting, spelling, quoting.
// SPDX-License-Identifier: MIT
#include "tenon/base/text.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tenon {
namespace {

enum class Colour { kRed };
std::string_view to_string(Colour) {
  return "red";
}

TEST(Text, ConcatSpellsEachKindOfPart) {
  EXPECT_EQ(concat("a", std::string("b"), std::string_view("c"), 'd'), "abcd");
  EXPECT_EQ(concat(true, ' ', false), "true false");
  EXPECT_EQ(concat(int8_t{-5}, ' ', uint8_t{200}), "-5 200");
  EXPECT_EQ(concat(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(0.1, ' ', 0.1f, ' ', -0.0, ' ', std::numeric_limits<double>::infinity()),
            "0.1 0.1 -0 inf");
  EXPECT_EQ(concat(Colour::kRed), "red");
  EXPECT_EQ(concat([] { return 3; }), "3");
  EXPECT_EQ(concat(), "");
}

TEST(Text, ConcatSpellsRangesOfIntegersAsShapes) {
  const std::vector<int64_t> shape = {4, 8};
  EXPECT_EQ(concat(shape), "(4,8)");
  EXPECT_EQ(concat(std::span<const int64_t>(shape)), "(4,8)");
  EXPECT_EQ(concat(std::array<int, 1>{-1}), "(-1)");
  EXPECT_EQ(concat(std::vector<int64_t>{}), "()");
  EXPECT_EQ(format_shape(shape), "(4,8)");
  EXPECT_EQ(format_shape({}), "()");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string_view>{"a", ""}));
}

TEST(Text, TrimAndJoin) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(join(std::vector<std::string>{"x", "y", "z"}, ", "), "x, y, z");
  EXPECT_EQ(join(std::vector<int>{1, 2}, "+"), "1+2");
  EXPECT_EQ(join(std::vector<int>{}, "+"), "");
  EXPECT_EQ(join(std::vector<std::string>{"", ""}, "+"), "+");
}

TEST(Text, CaseIsAsciiOnly) {
  EXPECT_EQ(to_lower("CPU:Clang_9\xc4"), "cpu:clang_9\xc4");
  EXPECT_EQ(to_upper("cpu"), "CPU");
  EXPECT_TRUE(equal_ignoring_case("Interp", "iNTERP"));
  EXPECT_FALSE(equal_ignoring_case("cpu", "cpus"));
  EXPECT_FALSE(equal_ignoring_case("[", "{"));  // 0x5b and 0x7b differ in the case bit only
}

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("CPU", "cpu"), 0u);
}

TEST(Text, NearestNameFindsWhatWasMeant) {
  const std::array<std::string_view, 4> devices = {"CPU", "INTERP", "NULL", "CUDA"};
  EXPECT_EQ(nearest_name("intrep", devices), "INTERP");
  EXPECT_EQ(nearest_name("cuda0", devices), "CUDA");
  EXPECT_EQ(nearest_name("CPUU", devices), "CPU");
  EXPECT_EQ(nearest_name("quantum", devices), std::nullopt);
  EXPECT_EQ(nearest_name("xyz", devices), std::nullopt);
  const std::vector<std::string> none;
  EXPECT_EQ(nearest_name("cpu", none), std::nullopt);
}

TEST(Text, QuotedEscapesWhatDoesNotPrint) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\"b\\c\n\t\r"), R"("a\"b\\c\n\t\r")");
  EXPECT_EQ(quoted(std::string_view("\0\x7f\xff", 3)), R"("\x00\x7f\xff")");
}

TEST(Text, ParseIntTakesTheWholeText) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_int("+7"), 7);
  for (const std::string_view bad : {"", "+", "-", "+-7", "4x", " 4", "4.0", "0x10"}) {
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_int("9223372036854775808"), std::nullopt);
}

TEST(Text, FormatBytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(uint64_t{12} << 30), "12.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

}  // namespace
}  // namespace tenon
