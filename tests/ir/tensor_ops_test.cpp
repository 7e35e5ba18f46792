// The builders of tensor graphs: shapes and dtypes of what they make, and every refusal.
// SPDX-License-Identifier: MIT

#include "tenon/ir/tensor_ops.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using List = std::vector<int64_t>;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr int64_t kHuge = int64_t{1} << 40;

Node buffer(Shape shape, DType dtype = DType::kF32) {
  return tensor_buffer(dtype, shape);
}
Shape shape_of(const Node& node) {
  return Shape(node.shape().begin(), node.shape().end());
}

TEST(TensorOps, BuffersAreTheirOwnNodesAndConstantsAreShared) {
  EXPECT_FALSE(buffer({4}) == buffer({4}));
  EXPECT_TRUE(tensor_const(DType::kF32, 0x3f800000) == tensor_const(DType::kF32, 0x3f800000));
  EXPECT_FALSE(tensor_const(DType::kI32, 1) == tensor_const(DType::kI64, 1));
  EXPECT_EQ(tensor_const(DType::kF32, 0).shape().size(), 0U);
}

TEST(TensorOps, NumElementsKnowsScalarsZerosAndTheLimit) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements(Shape{3, 0, 5}), 0);
  EXPECT_EQ(num_elements(Shape{int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_ERROR(num_elements(Shape{int64_t{1} << 31, int64_t{1} << 31, 2}), kInvalid, "2^62",
               "(2147483648,2147483648,2)");
  EXPECT_ERROR(num_elements(Shape{0, kHuge, kHuge}), kInvalid, "2^62", "(0,");
  EXPECT_ERROR(num_elements(Shape{2, -1}), kInvalid, "negative", "(2,-1)");
}

TEST(TensorOps, LeavesRefuseWhatDoesNotExist) {
  EXPECT_ERROR(buffer(Shape(33, 1)), kInvalid, "buffer", "rank 33");
  EXPECT_ERROR(buffer({kHuge, kHuge}), kInvalid, "buffer", "2^62");
  EXPECT_ERROR(buffer({1}, DType::kIdx), kInvalid, "buffer", "idx");
  EXPECT_ERROR(buffer({1}, static_cast<DType>(99)), kInvalid, "buffer", "99");
  EXPECT_ERROR(tensor_const(DType::kU8, 256), kInvalid, "const", "256");
  EXPECT_ERROR(tensor_const(DType::kI8, 255), kInvalid, "canonical", "i8");
  EXPECT_ERROR(tensor_variable(1, 5, 4), kInvalid, "variable", "max is 4");
  EXPECT_ERROR(tensor_index(DType::kF32, Shape{3}, 0), kInvalid, "index", "f32");
  EXPECT_ERROR(tensor_index(DType::kI32, Shape{3}, 1), kInvalid, "index", "axis 1");
  EXPECT_ERROR(tensor_index(DType::kI32, {}, 0), kInvalid, "index", "out of range");
  EXPECT_ERROR(tensor_index(DType::kI8, Shape{129}, 0), kInvalid, "position 128", "i8");
  EXPECT_EQ(shape_of(tensor_index(DType::kI8, Shape{128, 2}, 0)), (Shape{128, 2}));
  EXPECT_EQ(shape_of(tensor_index(DType::kU8, Shape{0, 2}, 0)), (Shape{0, 2}));
}

TEST(TensorOps, ElementwiseDTypesFollowTheTable) {
  const Node f = buffer({4, 8});
  const Node i = buffer({4, 8}, DType::kI16);
  const Node b = buffer({4, 8}, DType::kBool);
  EXPECT_EQ(tensor_binary(Op::kAdd, f, f).dtype(), DType::kF32);
  EXPECT_EQ(tensor_binary(Op::kLt, i, i).dtype(), DType::kBool);
  EXPECT_EQ(tensor_unary(Op::kIsNan, f).dtype(), DType::kBool);
  EXPECT_EQ(tensor_where(b, i, i).dtype(), DType::kI16);
  EXPECT_EQ(tensor_where(b, b, b).dtype(), DType::kBool);
  EXPECT_EQ(tensor_binary(Op::kMax, b, b).dtype(), DType::kBool);
  EXPECT_EQ(tensor_unary(Op::kNot, b).dtype(), DType::kBool);
  EXPECT_EQ(tensor_cast(i, DType::kBF16).dtype(), DType::kBF16);
  EXPECT_EQ(tensor_bitcast(f, DType::kU32).dtype(), DType::kU32);
  EXPECT_EQ(shape_of(tensor_binary(Op::kMul, f, f)), (Shape{4, 8}));
}

TEST(TensorOps, ElementwiseRefusals) {
  const Node f = buffer({4, 8});
  const Node g = buffer({16, 2});
  const Node i = buffer({4, 8}, DType::kI32);
  const Node b = buffer({4, 8}, DType::kBool);
  EXPECT_ERROR(tensor_binary(Op::kAdd, f, g), kInvalid, "add", "(4,8)", "(16,2)");
  EXPECT_ERROR(tensor_binary(Op::kMul, f, i), kInvalid, "f32", "i32", "Cast");
  EXPECT_ERROR(tensor_binary(Op::kAdd, b, b), kInvalid, "add", "bool");
  EXPECT_ERROR(tensor_unary(Op::kNeg, b), kInvalid, "neg", "bool");
  EXPECT_ERROR(tensor_unary(Op::kSqrt, i), kInvalid, "sqrt", "float dtype");
  EXPECT_ERROR(tensor_binary(Op::kMod, f, f), kInvalid, "mod", "integer dtype");
  EXPECT_ERROR(tensor_binary(Op::kAnd, f, f), kInvalid, "and", "or bool");
  EXPECT_ERROR(tensor_unary(Op::kIsInf, i), kInvalid, "isinf", "float dtype");
  EXPECT_ERROR(tensor_where(f, f, f), kInvalid, "where", "expected bool");
  EXPECT_ERROR(tensor_where(b, f, i), kInvalid, "where", "dtypes differ");
  EXPECT_ERROR(tensor_unary(Op::kCast, f), kInvalid, "cast", "tensor_cast");
  EXPECT_ERROR(tensor_unary(Op::kAdd, f), kInvalid, "takes 2", "got 1");
  EXPECT_ERROR(tensor_unary(Op::kReshape, f), kInvalid, "reshape", "elementwise");
  EXPECT_ERROR(tensor_elementwise(Op::kFma, std::vector{f, f, f}), kInvalid, "fma", "elementwise");
  EXPECT_ERROR(tensor_unary(Op::kNeg, Node()), kInvalid, "neg", "null");
  EXPECT_ERROR(tensor_unary(Op::kNeg, make_node(Op::kAxis, DType::kIdx, {}, {})), kInvalid, "neg",
               "axis");
  EXPECT_ERROR(tensor_cast(f, DType::kIdx), kInvalid, "cast", "idx");
  EXPECT_ERROR(tensor_bitcast(f, DType::kI64), kInvalid, "32 bits", "64");
  EXPECT_ERROR(tensor_bitcast(buffer({1}, DType::kU8), DType::kBool), kInvalid, "bitcast", "bool");
}

TEST(TensorOps, MovementShapes) {
  const Node x = buffer({4, 1, 6});
  EXPECT_EQ(shape_of(tensor_reshape(x, Shape{24})), (Shape{24}));
  EXPECT_EQ(shape_of(tensor_reshape(buffer({1, 1}), {})), Shape{});
  EXPECT_EQ(shape_of(tensor_reshape(buffer({0, 7}), Shape{3, 0, 0})), (Shape{3, 0, 0}));
  EXPECT_EQ(shape_of(tensor_permute(x, List{2, 0, 1})), (Shape{6, 4, 1}));
  EXPECT_EQ(shape_of(tensor_expand(x, Shape{4, 9, 6})), (Shape{4, 9, 6}));
  EXPECT_EQ(shape_of(tensor_expand(x, Shape{4, 0, 6})), (Shape{4, 0, 6}));
  EXPECT_EQ(shape_of(tensor_pad(x, List{1, 0, 2}, List{0, 0, 3}, 0)), (Shape{5, 1, 11}));
  EXPECT_EQ(shape_of(tensor_shrink(x, List{1, 0, 6}, List{3, 1, 6})), (Shape{2, 1, 0}));
  EXPECT_EQ(shape_of(tensor_flip(x, List{1, 0, 7})), (Shape{4, 1, 6}));
  EXPECT_EQ(tensor_flip(x, List{1, 0, 7}), tensor_flip(x, List{1, 0, 1}));
  EXPECT_EQ(tensor_permute(buffer({}), {}).shape().size(), 0U);
}

TEST(TensorOps, WindowCountsPositionsThatFit) {
  const Node x = buffer({10, 3});
  EXPECT_EQ(shape_of(tensor_window(x, 0, 3, 1, 1)), (Shape{8, 3, 3}));
  EXPECT_EQ(shape_of(tensor_window(x, 0, 3, 2, 1)), (Shape{4, 3, 3}));
  EXPECT_EQ(shape_of(tensor_window(x, 0, 4, 1, 3)), (Shape{1, 3, 4}));
  EXPECT_EQ(shape_of(tensor_window(x, 0, 5, 1, 3)), (Shape{0, 3, 5}));
  EXPECT_EQ(shape_of(tensor_window(x, 1, 1, 2, 9)), (Shape{10, 2, 1}));
  EXPECT_EQ(shape_of(tensor_window(buffer({0}), 0, 1, 1, 1)), (Shape{0, 1}));
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(shape_of(tensor_window(x, 0, 2, max, max)), (Shape{0, 3, 2}));
  EXPECT_ERROR(tensor_window(x, 0, max, 1, max), kInvalid, "window", "2^62");
}

TEST(TensorOps, MovementRefusals) {
  const Node x = buffer({4, 1, 6});
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_ERROR(tensor_reshape(x, Shape{5, 5}), kInvalid, "(4,1,6)", "(5,5)");
  EXPECT_ERROR(tensor_reshape(x, Shape{-24}), kInvalid, "reshape", "negative");
  EXPECT_ERROR(tensor_permute(x, List{0, 1}), kInvalid, "permute", "rank 3");
  EXPECT_ERROR(tensor_permute(x, List{0, 1, 3}), kInvalid, "axis 3", "out of range");
  EXPECT_ERROR(tensor_permute(x, List{0, 1, 1}), kInvalid, "axis 1", "twice");
  EXPECT_ERROR(tensor_expand(x, Shape{4, 9}), kInvalid, "expand", "rank 3");
  EXPECT_ERROR(tensor_expand(x, Shape{8, 1, 6}), kInvalid, "(4,1,6)", "(8,1,6)");
  EXPECT_ERROR(tensor_expand(x, Shape{4, kHuge, 6 * kHuge}), kInvalid, "expand", "2^62");
  EXPECT_ERROR(tensor_pad(x, List{0}, List{0, 0, 0}, 0), kInvalid, "before", "rank 3");
  EXPECT_ERROR(tensor_pad(x, List{0, 0, 0}, List{0}, 0), kInvalid, "after", "rank 3");
  EXPECT_ERROR(tensor_pad(x, List{0, -1, 0}, List{0, 0, 0}, 0), kInvalid, "negative", "axis 1");
  EXPECT_ERROR(tensor_pad(x, List{0, max, 0}, List{0, 0, 0}, 0), kInvalid, "pad", "2^62");
  EXPECT_ERROR(tensor_pad(x, List{0, int64_t{1} << 62, 0}, List{0, max / 2, 0}, 0), kInvalid, "pad",
               "2^62");
  EXPECT_ERROR(tensor_pad(x, List{0, 0, 0}, List{0, 0, 0}, uint64_t{1} << 40), kInvalid, "pad",
               "canonical");
  EXPECT_ERROR(tensor_shrink(x, List{0, 0}, List{4, 1, 6}), kInvalid, "begin", "rank 3");
  EXPECT_ERROR(tensor_shrink(x, List{0, 0, 0}, List{4, 1}), kInvalid, "end", "rank 3");
  EXPECT_ERROR(tensor_shrink(x, List{0, 0, 5}, List{4, 1, 4}), kInvalid, "5..4", "(4,1,6)");
  EXPECT_ERROR(tensor_shrink(x, List{0, 0, 0}, List{4, 1, 7}), kInvalid, "0..7", "0..6");
  EXPECT_ERROR(tensor_shrink(x, List{-1, 0, 0}, List{4, 1, 6}), kInvalid, "-1..4", "axis 0");
  EXPECT_ERROR(tensor_flip(x, List{1}), kInvalid, "flip", "rank 3");
  EXPECT_ERROR(tensor_window(x, 3, 1, 1, 1), kInvalid, "window", "axis 3");
  EXPECT_ERROR(tensor_window(x, 0, 0, 1, 1), kInvalid, "at least 1", "(4,1,6)");
  EXPECT_ERROR(tensor_window(x, 0, 1, 0, 1), kInvalid, "window", "at least 1");
  EXPECT_ERROR(tensor_window(x, 0, 1, 1, -2), kInvalid, "window", "-2");
}

TEST(TensorOps, ReduceKeepsAxesAndSortsThem) {
  const Node x = buffer({4, 5, 6}, DType::kF16);
  const Node sum = tensor_reduce(Op::kAdd, x, List{2, 0}, DType::kF32);
  EXPECT_EQ(shape_of(sum), (Shape{1, 5, 1}));
  EXPECT_EQ(sum.dtype(), DType::kF16);
  EXPECT_EQ(reduce_op(sum), Op::kAdd);
  EXPECT_EQ(reduce_accumulator(sum), DType::kF32);
  EXPECT_EQ(sum, tensor_reduce(Op::kAdd, x, List{0, 2}, DType::kF32));
  EXPECT_EQ(shape_of(tensor_reduce(Op::kMax, buffer({0, 3}), List{0}, DType::kF32)), (Shape{1, 3}));
  EXPECT_EQ(shape_of(tensor_reduce(Op::kMax, x, {}, DType::kF16)), (Shape{4, 5, 6}));
}

TEST(TensorOps, ReduceRefusals) {
  const Node x = buffer({4, 5});
  EXPECT_ERROR(tensor_reduce(Op::kSub, x, List{0}, DType::kF32), kInvalid, "sub", "combine");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, x, List{2}, DType::kF32), kInvalid, "axis 2", "(4,5)");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, x, List{1, 1}, DType::kF32), kInvalid, "axis 1", "twice");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, x, List{1}, DType::kF16), kInvalid, "f16", "wider");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, x, List{1}, DType::kI64), kInvalid, "i64", "kind");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, x, List{1}, DType::kIdx), kInvalid, "reduce", "idx");
  EXPECT_ERROR(tensor_reduce(Op::kAnd, x, List{1}, DType::kF32), kInvalid, "and", "integer");
  EXPECT_ERROR(tensor_reduce(Op::kAdd, buffer({2}, DType::kBool), List{0}, DType::kBool), kInvalid,
               "add on bool", "Cast");
}

TEST(TensorOps, StructureRefusals) {
  const Node x = buffer({4, 5});
  EXPECT_ERROR(tensor_copy(x, -1), kInvalid, "copy", "-1");
  EXPECT_ERROR(tensor_assign(tensor_contiguous(x), x), kInvalid, "contiguous", "expected a buffer");
  EXPECT_ERROR(tensor_assign(x, buffer({5, 4})), kInvalid, "(4,5)", "(5,4)");
  EXPECT_ERROR(tensor_assign(x, buffer({4, 5}, DType::kF64)), kInvalid, "f32", "f64");
  EXPECT_EQ(shape_of(tensor_assign(x, tensor_unary(Op::kNeg, x))), (Shape{4, 5}));
}

TEST(TensorOps, NothingIsSimplified) {
  const Node x = buffer({4, 5});
  const Node same = tensor_reshape(x, Shape{4, 5});
  EXPECT_FALSE(same == x);
  EXPECT_FALSE(tensor_cast(x, DType::kF32) == x);
  EXPECT_EQ(tensor_permute(x, List{0, 1}).op(), Op::kPermute);
}

TEST(VerifyGraph, SoundGraphsHaveNoFindings) {
  const Node x = buffer({4, 6});
  const Node moved = tensor_window(
      tensor_flip(tensor_pad(tensor_shrink(x, List{0, 1}, List{4, 5}), List{1, 0}, List{0, 1}, 0),
                  List{1, 0}),
      1, 2, 2, 1);
  const Node sum =
      tensor_reduce(Op::kAdd, tensor_permute(moved, List{2, 0, 1}), List{0, 1}, DType::kF64);
  const Node out = tensor_assign(
      x,
      tensor_expand(tensor_reshape(tensor_reduce(Op::kMax, sum, List{2}, DType::kF32), Shape{1, 1}),
                    Shape{4, 6}));
  const std::vector<Node> outputs{out, tensor_copy(tensor_index(DType::kI32, Shape{3}, 0), 1),
                                  tensor_cast(tensor_variable(0, 1, 9), DType::kF32),
                                  tensor_bitcast(tensor_const(DType::kF32, 1), DType::kI32)};
  EXPECT_EQ(verify_graph(outputs), std::vector<std::string>{});
}

TEST(VerifyGraph, EveryKindOfDamageIsFound) {
  const Node x = buffer({4, 6});
  const auto finding = [](Op op, DType dtype, Shape shape, std::vector<Node> srcs, List attr) {
    const Node node = make_node(op, dtype, shape, srcs, attr);
    const std::vector<std::string> findings = verify_graph({&node, 1});
    return findings.empty() ? std::string() : findings.back();
  };
  EXPECT_NE(finding(Op::kAdd, DType::kF32, {4, 5}, {x, x}, {}).find("(4,6)"), std::string::npos);
  EXPECT_NE(finding(Op::kAdd, DType::kI32, {4, 6}, {x, x}, {}).find("i32"), std::string::npos);
  EXPECT_NE(finding(Op::kAdd, DType::kF32, {4, 6}, {x}, {}).find("takes 2"), std::string::npos);
  EXPECT_NE(finding(Op::kAdd, DType::kF32, {4, 6}, {x, x}, {7}).find("attributes"),
            std::string::npos);
  EXPECT_NE(finding(Op::kPad, DType::kF32, {4, 6}, {x}, {1}).find("attributes"), std::string::npos);
  EXPECT_NE(finding(Op::kReduce, DType::kF32, {4, 1}, {x}, {999, 14, 1}).find("999"),
            std::string::npos);
  EXPECT_NE(finding(Op::kReduce, DType::kF32, {4, 1}, {x}, {30}).find("at least 2"),
            std::string::npos);
  EXPECT_NE(finding(Op::kReduce, DType::kF32, {4, 1}, {x}, {30, 77, 1}).find("77"),
            std::string::npos);
  EXPECT_NE(finding(Op::kFma, DType::kF32, {4, 6}, {x, x, x}, {}).find("does not exist"),
            std::string::npos);
  EXPECT_EQ(verify_graph(std::vector{Node()}).size(), 1U);
}

}  // namespace
}  // namespace tenon
