// Kernel expressions, constants, identities, substitution and layouts. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

Node axis(int64_t id, int64_t extent) {
  return make_axis(id, extent, AxisKind::kPar);
}

// The value of an expression of constants, computed here, not by the library.
int64_t value_of(const Node& node) {
  if (is_const(node)) return idx_value(node);
  const int64_t a = value_of(node.src(0));
  const int64_t b = value_of(node.src(1));
  if (node.op() == Op::kAdd) return a + b;
  if (node.op() == Op::kMul) return a * b;
  if (node.op() == Op::kFloorDiv) return a / b;
  EXPECT_EQ(node.op(), Op::kFloorMod);
  return a % b;
}

int64_t offset_of(const BufferDecl& buffer, const std::vector<int64_t>& index) {
  std::vector<Node> nodes;
  for (const int64_t value : index)
    nodes.push_back(idx_const(value));
  return value_of(layout_offset(buffer, nodes));
}

TEST(KernelExpr, ConstantsAreCanonical) {
  EXPECT_EQ(const_bits(int_const(DType::kI8, -1)), ~uint64_t{0});
  EXPECT_EQ(const_bits(bits_const(DType::kI8, 0xff)), ~uint64_t{0});
  EXPECT_EQ(bits_const(DType::kI8, 0xff), int_const(DType::kI8, -1));
  EXPECT_EQ(const_bits(int_const(DType::kU16, 70000)), 70000U - 65536U);
  EXPECT_EQ(const_bits(number_const(DType::kF32, 1.5)), std::bit_cast<uint32_t>(1.5F));
  EXPECT_EQ(const_bits(number_const(DType::kF16, 1.0)), 0x3c00U);
  EXPECT_EQ(const_bits(number_const(DType::kI32, -2.9)), static_cast<uint64_t>(int64_t{-2}));
  EXPECT_EQ(idx_value(idx_const(-7)), -7);
  EXPECT_FALSE(number_const(DType::kF32, 0.0) == number_const(DType::kF32, -0.0));
}

TEST(KernelExpr, DTypesFollowTheRules) {
  const Node i = axis(0, 10);
  EXPECT_EQ(make_expr(Op::kAdd, i, idx_const(1)).dtype(), DType::kIdx);
  const Node less = make_expr(Op::kLt, i, idx_const(3));
  EXPECT_EQ(less.dtype(), DType::kBool);
  const Node one = number_const(DType::kF32, 1);
  EXPECT_EQ(make_expr(Op::kWhere, less, one, one).dtype(), DType::kF32);
  EXPECT_EQ(make_expr(Op::kIsNan, one).dtype(), DType::kBool);
  EXPECT_EQ(make_cast(i, DType::kF16).dtype(), DType::kF16);
  EXPECT_EQ(make_bitcast(one, DType::kI32).dtype(), DType::kI32);
}

TEST(KernelExpr, WrongOperandsAreRefused) {
  const Node i = axis(0, 10);
  const Node f = number_const(DType::kF32, 1);
  const Node n = int_const(DType::kI32, 1);
  EXPECT_ERROR(make_expr(Op::kAdd, f, n), ErrorCode::kInternal, "add", "f32", "i32");
  EXPECT_ERROR(make_expr(Op::kAdd, f), ErrorCode::kInternal, "takes 2", "got 1");
  EXPECT_ERROR(make_expr(Op::kDiv, i, i), ErrorCode::kInternal, "div", "idx");
  EXPECT_ERROR(make_expr(Op::kSqrt, n), ErrorCode::kInternal, "sqrt", "i32");
  EXPECT_ERROR(make_expr(Op::kAnd, f, f), ErrorCode::kInternal, "and", "f32");
  EXPECT_ERROR(make_expr(Op::kWhere, n, f, f), ErrorCode::kInternal, "where", "i1");
  EXPECT_ERROR(make_expr(Op::kReshape, f), ErrorCode::kInternal, "reshape");
  EXPECT_ERROR(make_cast(f, DType::kIdx), ErrorCode::kInternal, "idx", "f32");
  EXPECT_ERROR(make_bitcast(f, DType::kI16), ErrorCode::kInternal, "bitcast", "i16");
  EXPECT_ERROR(make_axis(0, 0, AxisKind::kPar), ErrorCode::kInternal, "extent", "0");
  const std::array<Node, 1> index{f};
  EXPECT_ERROR(make_load(0, DType::kF32, index), ErrorCode::kInternal, "index", "idx");
}

TEST(KernelExpr, LoadPartsReadBack) {
  const std::array<Node, 2> index{axis(0, 4), axis(1, 5)};
  const Node plain = make_load(3, DType::kF32, index);
  EXPECT_EQ(load_parts(plain).buffer, 3);
  EXPECT_EQ(load_parts(plain).index[1], index[1]);
  EXPECT_FALSE(load_parts(plain).gated);
  const Node gate = make_expr(Op::kLt, index[0], idx_const(2));
  const Node alt = number_const(DType::kF32, 9);
  const LoadParts gated = load_parts(make_gated_load(3, DType::kF32, index, gate, alt));
  EXPECT_EQ(gated.index.size(), 2U);
  EXPECT_EQ(gated.gate, gate);
  EXPECT_EQ(gated.alt, alt);
}

TEST(KernelExpr, IdentitiesAreNeutral) {
  EXPECT_EQ(const_bits(identity_of(Op::kAdd, DType::kF32)), 0U);
  EXPECT_EQ(const_bits(identity_of(Op::kMul, DType::kBF16)), 0x3f80U);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kF32)), 0xff800000U);
  EXPECT_EQ(const_bits(identity_of(Op::kMin, DType::kF16)), 0x7c00U);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kF8E4M3)), 0xfeU);  // -448
  EXPECT_EQ(const_bits(identity_of(Op::kMin, DType::kF8E4M3)), 0x7eU);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kF8E5M2)), 0xfcU);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kF64)), 0xfff0000000000000U);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kI8)), static_cast<uint64_t>(int64_t{-128}));
  EXPECT_EQ(const_bits(identity_of(Op::kMin, DType::kU32)), 0xffffffffU);
  EXPECT_EQ(const_bits(identity_of(Op::kMax, DType::kU64)), 0U);
  EXPECT_EQ(const_bits(identity_of(Op::kAnd, DType::kI16)), ~uint64_t{0});
  EXPECT_EQ(const_bits(identity_of(Op::kAnd, DType::kU16)), 0xffffU);
  EXPECT_EQ(const_bits(identity_of(Op::kAnd, DType::kBool)), 1U);
  EXPECT_EQ(const_bits(identity_of(Op::kOr, DType::kBool)), 0U);
  EXPECT_ERROR(identity_of(Op::kSub, DType::kF32), ErrorCode::kInternal, "sub");
  EXPECT_ERROR(identity_of(Op::kAnd, DType::kF32), ErrorCode::kInternal, "and", "f32");
}

TEST(KernelExpr, SubstituteRebuildsOnlyWhatChanges) {
  const Node i = axis(0, 4);
  const Node j = axis(1, 5);
  const std::array<Node, 1> at_i{i};
  const std::array<Node, 1> at_j{j};
  const Node left = make_load(0, DType::kF32, at_i);
  const Node right = make_load(1, DType::kF32, at_j);
  const Node sum = make_expr(Op::kAdd, left, right);
  const std::array<std::pair<Node, Node>, 1> replacement{{{i, j}}};
  const Node changed = substitute(sum, replacement);
  EXPECT_EQ(changed.src(0), make_load(0, DType::kF32, at_j));
  EXPECT_EQ(changed.src(1), right);
  EXPECT_EQ(substitute(right, replacement), right);
  const std::array<std::pair<Node, Node>, 2> swap{{{i, j}, {j, i}}};  // at once, not in turn
  EXPECT_EQ(substitute(sum, swap).src(1), make_load(1, DType::kF32, at_i));
}

TEST(KernelExpr, SubstituteIsIterative) {
  const Node i = axis(0, 4);
  Node chain = i;
  for (int64_t n = 0; n < 300'000; ++n)
    chain = make_expr(Op::kAdd, chain, idx_const(1));
  const std::array<std::pair<Node, Node>, 1> replacement{{{i, axis(1, 4)}}};
  EXPECT_FALSE(substitute(chain, replacement) == chain);
}

TEST(KernelLayout, RowMajorIsTheDefault) {
  const BufferDecl buffer{.name = "b", .dims = {3, 4, 5}};
  EXPECT_EQ(layout_num_elements(buffer), 60);
  EXPECT_EQ(offset_of(buffer, {2, 3, 4}), 2 * 20 + 3 * 5 + 4);
  EXPECT_EQ(layout_num_elements({.name = "s"}), 1);
  EXPECT_EQ(offset_of({.name = "s"}, {}), 0);
}

TEST(KernelLayout, Panels) {  // [n/64][k][n:64]
  const BufferDecl buffer{.name = "bp", .dims = {256, 100}, .layout = {{0, 4}, {1, 100}, {0, 64}}};
  EXPECT_EQ(layout_num_elements(buffer), 256 * 100);
  EXPECT_EQ(offset_of(buffer, {130, 7}), 2 * 6400 + 7 * 64 + 2);
}

TEST(KernelLayout, Vnni) {  // [n/32][k/32][n:2][k:16][n:16][k:2]
  const BufferDecl buffer{
      .name = "b", .dims = {64, 96}, .layout = {{0, 2}, {1, 3}, {0, 2}, {1, 16}, {0, 16}, {1, 2}}};
  EXPECT_EQ(layout_num_elements(buffer), 64 * 96);
  for (const int64_t n : {0, 1, 15, 16, 31, 32, 63}) {
    for (const int64_t k : {0, 1, 2, 31, 32, 95}) {
      const int64_t want =
          ((((n / 32 * 3 + k / 32) * 2 + n / 16 % 2) * 16 + k / 2 % 16) * 16 + n % 16) * 2 + k % 2;
      EXPECT_EQ(offset_of(buffer, {n, k}), want) << n << " " << k;
    }
  }
}

TEST(KernelLayout, PitchAndRounding) {  // [k][n+16]; then a dim of 10 in panels of 4
  const BufferDecl pitch{.name = "b", .dims = {8, 48}, .layout = {{0, 8}, {1, 48, 16}}};
  EXPECT_EQ(layout_num_elements(pitch), 8 * 64);
  EXPECT_EQ(offset_of(pitch, {3, 5}), 3 * 64 + 5);
  const BufferDecl round{.name = "b", .dims = {10, 3}, .layout = {{0, 3}, {1, 3}, {0, 4}}};
  EXPECT_EQ(layout_num_elements(round), 36);
  std::set<int64_t> offsets;
  for (int64_t i = 0; i < 10; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      offsets.insert(offset_of(round, {i, j}));
  }
  EXPECT_EQ(offsets.size(), 30U);
  EXPECT_LT(*offsets.rbegin(), 36);
}

TEST(KernelLayout, PartsThatDoNotHoldTheDimsAreRefused) {
  const BufferDecl shallow{.name = "bp", .dims = {10, 3}, .layout = {{0, 2}, {1, 3}, {0, 4}}};
  EXPECT_ERROR(layout_num_elements(shallow), ErrorCode::kInternal, "bp", "dim 0", "8");
  const BufferDecl wrong{.name = "bp", .dims = {10}, .layout = {{1, 10}}};
  EXPECT_ERROR(layout_num_elements(wrong), ErrorCode::kInternal, "bp", "part 0");
  const BufferDecl huge{.name = "bp", .dims = {int64_t{1} << 40, int64_t{1} << 40}};
  EXPECT_ERROR(layout_num_elements(huge), ErrorCode::kInternal, "bp", "64 bits");
}

TEST(Kernel, ParametersAndAxes) {
  Kernel kernel;
  kernel.add_buffer({.name = "a", .access = BufferAccess::kIn});
  kernel.add_buffer({.name = "y", .access = BufferAccess::kOut});
  EXPECT_EQ(kernel.add_buffer({.name = "t", .access = BufferAccess::kTmp}), 2);
  EXPECT_EQ(kernel.num_parameters(), 2);
  const Node i = kernel.add_axis("i", 5, AxisKind::kRed);
  const Node j = kernel.add_axis("j", 5, AxisKind::kPar);
  EXPECT_EQ(axis_id(j), 1);
  EXPECT_EQ(axis_extent(i), 5);
  EXPECT_EQ(axis_kind(i), AxisKind::kRed);
  EXPECT_EQ(kernel.axis_names, (std::vector<std::string>{"i", "j"}));
}

}  // namespace
}  // namespace tenon
