// The .tg text form: what is printed, that it reads back, and every refusal with its place.
// SPDX-License-Identifier: MIT

#include "tenon/ir/graph_text.h"

#include <gtest/gtest.h>

#include <ostream>

#include "tenon/ir/scalar_text.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// All ops of the tensor level that are not plain elementwise, and some that are.
constexpr std::string_view kEveryOp = R"(graph every_op {
  in %x: f32[4,6]
  in %"odd name": i1[4,6]
  %0 = const f32[] 1.5
  %1 = reshape f32[1,1] %0
  %2 = expand f32[4,6] %1
  %3 = mul f32[4,6] %x, %2
  %4 = where f32[4,6] %"odd name", %3, %x
  %5 = permute f32[6,4] %4 axes [1,0]
  %6 = pad f32[8,4] %5 before [1,0] after [1,0] fill -inf
  %7 = shrink f32[7,3] %6 begin [0,1] end [7,4]
  %8 = flip f32[7,3] %7 axes [0]
  %9 = window f32[3,3,2] %8 axis 0 size 2 step 2 dilation 2
  %10 = reduce f32[1,3,1] %9 add axes [0,2] acc f64
  %11 = contiguous f32[1,3,1] %10
  %12 = copy f32[1,3,1] %11 device 3
  %13 = index u8[1,3,1] axis 1
  %14 = cast f32[1,3,1] %13
  %15 = lt i1[1,3,1] %12, %14
  %16 = variable i64[] id 2 min -5 max 99
  %17 = bitcast i32[1,3,1] %14
  %18 = buffer f32[1,3,1]
  %19 = assign f32[1,3,1] %18, %12
  out y = %15
  out size = %16
  out "bits of y" = %17
  out z = %19
}
)";

TEST(GraphText, EveryOpPrintsAndReadsBack) {
  const TensorGraph graph = parse_graph(kEveryOp, "every.tg");
  EXPECT_EQ(to_text(graph), kEveryOp);
  EXPECT_EQ(verify_graph(graph.outputs), std::vector<std::string>{});
  EXPECT_EQ(graph.name, "every_op");
  EXPECT_EQ(graph.input_names[1], "odd name");
  EXPECT_EQ(graph.output_names[2], "bits of y");
  EXPECT_EQ(graph.inputs.size(), 2U);
}

TEST(GraphText, EveryElementwiseOpPrintsAndReadsBack) {
  int num_ops = 0;
  for (const OpInfo& info : all_ops()) {
    if (!is_elementwise(info.op) || !has_level(info.op, kTensorLevel)) continue;
    if (info.op == Op::kCast || info.op == Op::kBitcast) continue;
    const bool is_int = info.rule == DTypeRule::kSameInt || info.rule == DTypeRule::kSameIntOrBool;
    const Node x = tensor_buffer(is_int ? DType::kI32 : DType::kF32, Shape{3});
    const Node condition = tensor_buffer(DType::kBool, Shape{3});
    std::vector<Node> srcs(static_cast<size_t>(info.arity), x);
    if (info.op == Op::kWhere) srcs[0] = condition;
    const TensorGraph graph{
        "g", {x, condition}, {"x", "c"}, {tensor_elementwise(info.op, srcs)}, {"y"}};
    const std::string text = to_text(graph);
    const TensorGraph again = parse_graph(text, "t");
    EXPECT_EQ(to_text(again), text);
    EXPECT_EQ(again.outputs[0].op(), info.op);
    ++num_ops;
  }
  EXPECT_EQ(num_ops, 39);
}

TEST(GraphText, CommentsAndSpaceAreFree) {
  const TensorGraph graph =
      parse_graph("# head\ngraph g{in %x:f32[2]# c\n%y=neg f32[ 2 ]\n % x\nout z=%y}\n# tail", "t");
  EXPECT_EQ(to_text(graph), "graph g {\n  in %x: f32[2]\n  %0 = neg f32[2] %x\n  out z = %0\n}\n");
}

TEST(GraphText, UnusedInputsKeepTheirPlace) {
  const std::string text = "graph g {\n  in %a: f32[2]\n  in %b: i8[0]\n  out z = %b\n}\n";
  const TensorGraph graph = parse_graph(text, "t");
  EXPECT_EQ(to_text(graph), text);
  EXPECT_EQ(graph.inputs.size(), 2U);
}

TEST(GraphText, LongChainsNeedNoStack) {
  std::string text = "graph g {\n  in %x: i32[1]\n  %0 = neg i32[1] %x\n";
  for (int i = 1; i < 200'000; ++i)
    text += "  %" + std::to_string(i) + " = neg i32[1] %" + std::to_string(i - 1) + "\n";
  text += "  out y = %199999\n}\n";
  EXPECT_EQ(to_text(parse_graph(text, "t")), text);
}

struct ScalarCase {
  DType dtype;
  uint64_t bits;
  std::string_view text;
};

TEST(ScalarText, ValuesAreExactBothWays) {
  const ScalarCase cases[] = {
      {DType::kBool, 1, "true"},
      {DType::kBool, 0, "false"},
      {DType::kI8, ~uint64_t{127}, "-128"},
      {DType::kU64, ~uint64_t{0}, "18446744073709551615"},
      {DType::kI64, uint64_t{1} << 63, "-9223372036854775808"},
      {DType::kF32, 0x3dcccccd, "0.1"},
      {DType::kF32, 0x80000000, "-0"},
      {DType::kF32, 0x00000001, "1e-45"},
      {DType::kF32, 0x7f800000, "inf"},
      {DType::kF32, 0xff800000, "-inf"},
      {DType::kF32, 0x7fc00000, "nan"},
      {DType::kF32, 0x7fc00001, "0x7fc00001"},
      {DType::kF32, 0xffc00000, "0xffc00000"},
      {DType::kF64, 0x3fb999999999999a, "0.1"},
      {DType::kF64, 1, "5e-324"},
      {DType::kF16, 0x3c00, "1"},
      {DType::kF16, 0x2e66, "0.099975586"},
      {DType::kBF16, 0x3fc0, "1.5"},
      {DType::kF8E4M3, 0x7f, "nan"},
      {DType::kF8E4M3, 0xff, "0xff"},
      {DType::kF8E4M3, 0x7e, "448"},
      {DType::kF8E5M2, 0xfc, "-inf"},
  };
  for (const ScalarCase& c : cases) {
    EXPECT_EQ(scalar_text(c.dtype, c.bits), c.text);
    EXPECT_EQ(parse_scalar(c.dtype, c.text), c.bits) << c.text;
  }
}

TEST(ScalarText, EveryNarrowFloatReadsBack) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    for (uint64_t bits = 0; bits < uint64_t{1} << dtype_bits(dtype); ++bits)
      ASSERT_EQ(parse_scalar(dtype, scalar_text(dtype, bits)), bits) << dtype_name(dtype);
  }
}

TEST(ScalarText, RefusesWhatIsNoValue) {
  EXPECT_FALSE(parse_scalar(DType::kI8, "128"));
  EXPECT_FALSE(parse_scalar(DType::kU8, "-1"));
  EXPECT_FALSE(parse_scalar(DType::kU8, "256"));
  EXPECT_FALSE(parse_scalar(DType::kI32, "1.0"));
  EXPECT_FALSE(parse_scalar(DType::kI32, "0x10"));
  EXPECT_FALSE(parse_scalar(DType::kBool, "1"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "1e39"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "infinity"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "nan(1)"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "0x1ffffffff"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "0x"));
  EXPECT_FALSE(parse_scalar(DType::kF32, "1.5x"));
  EXPECT_FALSE(parse_scalar(DType::kF32, ""));
  EXPECT_FALSE(parse_scalar(DType::kF16, "70000"));
  EXPECT_FALSE(parse_scalar(DType::kF8E4M3, "inf"));
}

// `body` stands inside a graph with inputs a: f32[4,6] and c: i1[4,6] (lines 2 and 3).
std::string in_graph(std::string_view body) {
  return "graph g {\n  in %a: f32[4,6]\n  in %c: i1[4,6]\n" + std::string(body) + "\n}\n";
}

struct BadLine {
  std::string_view line;  // line 4 of the text
  std::string_view place;
  std::string_view words;
};

// Names of parameterised tests must not hold addresses.
void PrintTo(const BadLine& bad, std::ostream* out) {
  *out << bad.place;
}

class BadGraphLine : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadGraphLine, IsRefusedWithItsPlace) {
  const BadLine& bad = GetParam();
  EXPECT_ERROR(parse_graph(in_graph(bad.line), "bad.tg"), kInvalid, bad.place, bad.words);
}

INSTANTIATE_TEST_SUITE_P(
    GraphText, BadGraphLine,
    ::testing::Values(
        BadLine{"", "bad.tg:6:1", "no 'out'"},
        BadLine{"%1 = neg f32[4,6] %b", "bad.tg:4:19", "no node is named \"b\""},
        BadLine{"%a = neg f32[4,6] %a", "bad.tg:4:1", "second node"},
        BadLine{"in %a: f32[1]", "bad.tg:4:4", "second node"},
        BadLine{"out y = %a out y = %a", "bad.tg:4:16", "second output"},
        BadLine{"out y = %a %1 = neg f32[4,6] %a", "bad.tg:4:12", "before the first 'out'"},
        BadLine{"%1 = frob f32[4,6] %a", "bad.tg:4:6", "op of tensor graphs"},
        BadLine{"%1 = fma f32[4,6] %a, %a, %a", "bad.tg:4:6", "op of tensor graphs"},
        BadLine{"%1 = neg f33[4,6] %a", "bad.tg:4:10", "dtype"},
        BadLine{"%1 = neg idx[4,6] %a", "bad.tg:4:10", "dtype"},
        BadLine{"%1 = neg f32[4,7] %a", "bad.tg:4:10", "stated as f32 (4,7)"},
        BadLine{"%1 = neg f16[4,6] %a", "bad.tg:4:10", "but it is f32"},
        BadLine{"%1 = add f32[4,6] %a %a", "bad.tg:4:22", "expected ','"},
        BadLine{"%1 = add f32[4,6] %a, %c", "bad.tg:4:6", "dtypes differ"},
        BadLine{"%1 = const f32[] 1e99", "bad.tg:4:18", "value of f32"},
        BadLine{"%1 = const i8[] 300", "bad.tg:4:17", "value of i8"},
        BadLine{"%1 = const f32[2] 1", "bad.tg:4:12", "stated as f32 (2)"},
        BadLine{"%1 = reshape f32[5] %a", "bad.tg:4:6", "element counts"},
        BadLine{"%1 = reshape f32[99999999999999999999] %a", "bad.tg:4:18", "integer"},
        BadLine{"%1 = permute f32[6,4] %a axis [1,0]", "bad.tg:4:26", "expected 'axes'"},
        BadLine{"%1 = permute f32[6,4] %a axes [1,0", "bad.tg:5:1", "expected ','"},
        BadLine{"%1 = flip f32[4,6] %a axes [2]", "bad.tg:4:28", "axis 2"},
        BadLine{"%1 = flip f32[4,6] %a axes [1,1]", "bad.tg:4:28", "twice"},
        BadLine{"%1 = pad f32[4,6] %a before [0,0] after [0,0] fill true", "bad.tg:4:52",
                "value of f32"},
        BadLine{"%1 = shrink f32[4,6] %a begin [0,0] end [4,9]", "bad.tg:4:6", "axis 1"},
        BadLine{"%1 = window f32[4,6] %a axis 0 size x step 1 dilation 1", "bad.tg:4:37", "'size'"},
        BadLine{"%1 = reduce f32[1,6] %a sub axes [0] acc f32", "bad.tg:4:25", "expected add"},
        BadLine{"%1 = reduce f32[1,6] %a add axes [0] acc i32", "bad.tg:4:6", "accumulator"},
        BadLine{"%1 = assign f32[4,6] %a", "bad.tg:5:1", "expected ','"},
        BadLine{"%1 = index i32[4] axis 9", "bad.tg:4:6", "axis 9"},
        BadLine{"%1 = copy f32[4,6] %a device -1", "bad.tg:4:6", "negative"},
        BadLine{"%1 = variable i64[] id 0 min 3 max 2", "bad.tg:4:6", "empty"},
        BadLine{"%\"x = neg f32[4,6] %a", "bad.tg:4:2", "string without an end"},
        BadLine{"%\"\\q\" = neg f32[4,6] %a", "bad.tg:4:4", "escape"},
        BadLine{"%\"\\x0g\" = neg f32[4,6] %a", "bad.tg:4:5", "hex digits"},
        BadLine{"in %x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
                "bad.tg:4:", "longer than 32"}));

TEST(GraphText, RefusesDamagedFrames) {
  EXPECT_ERROR(parse_graph("", "t"), kInvalid, "t:1:1", "expected 'graph'");
  EXPECT_ERROR(parse_graph("graph", "t"), kInvalid, "t:1:6", "expected a name");
  EXPECT_ERROR(parse_graph("graph g {\n", "t"), kInvalid, "t:2:1", "end of the text");
  EXPECT_ERROR(parse_graph("graph g { in %x: f32[1] out y = %x } z", "t"), kInvalid, "t:1:38",
               "text after");
  EXPECT_ERROR(parse_graph("graph g { }", "t"), kInvalid, "t:1:", "no 'out'");
  EXPECT_ERROR(parse_graph("graph " + std::string(2000, 'x') + " {", "t"), kInvalid, "t:1:7",
               "too long");
}

TEST(GraphText, PrintingRefusesNamesThatDoNotPairUp) {
  const Node x = tensor_buffer(DType::kF32, Shape{1});
  const Node y = tensor_unary(Op::kNeg, x);
  EXPECT_ERROR(to_text(TensorGraph{"g", {x}, {}, {y}, {"y"}}), kInvalid, "1 inputs", "0 names");
  EXPECT_ERROR(to_text(TensorGraph{"g", {x, x}, {"a", "b"}, {y}, {"y"}}), kInvalid, "\"b\"",
               "same buffer");
  EXPECT_ERROR(to_text(TensorGraph{"g", {x}, {"x"}, {y, y}, {"y", "y"}}), kInvalid, "two outputs",
               "\"y\"");
  EXPECT_ERROR(to_text(TensorGraph{"g", {y}, {"x"}, {y}, {"y"}}), kInvalid, "\"x\"",
               "not a buffer");
  EXPECT_ERROR(to_text(TensorGraph{"g", {x}, {"x"}, {Node()}, {"y"}}), kInvalid, "output", "null");
}

}  // namespace
}  // namespace tenon
