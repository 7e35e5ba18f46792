// Each field of the Target, shrunk by TENON_TARGET: other programs, which are as right. A field
// that no pass reads makes the same programs, and its test fails. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/render/c.h"
#include "tenon/schedule/schedule.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/expect_error.h"
#include "tests/support/random.h"
#include "tests/support/test_target.h"

namespace tenon::testing {
namespace {

/// A graph over inputs that it makes itself.
class Inputs {
 public:
  explicit Inputs(GraphBatch* batch) : batch_(batch) {}

  /// Fractions of both signs; without a batch, nothing but a shape.
  Node make(DType dtype, ShapeView shape) {
    if (batch_ == nullptr) return tensor_buffer(dtype, shape);
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < num_elements(shape); ++i) {
      const auto number = static_cast<int64_t>(random_.between(-2000, 2000));
      bits.push_back(is_float(dtype) ? double_to_float(static_cast<double>(number) / 512.0, dtype)
                                     : canonical_bits(dtype, static_cast<uint64_t>(number)));
    }
    return batch_->buffer(dtype, bits, shape);
  }

 private:
  GraphBatch* batch_;
  Random random_{7};
};

Node filled(DType dtype, double value, ShapeView shape) {
  const Node number = tensor_const(dtype, double_to_float(value, dtype));
  return tensor_expand(tensor_reshape(number, Shape(shape.size(), 1)), shape);
}

Node relu_of_sum(Inputs& in, DType dtype, ShapeView shape) {
  const Node product = tensor_binary(Op::kMul, in.make(dtype, shape), in.make(dtype, shape));
  const Node sum = tensor_binary(Op::kAdd, product, in.make(dtype, shape));
  return tensor_binary(Op::kMax, sum, filled(dtype, 0, shape));
}
Node relu(Inputs& in) {
  return relu_of_sum(in, DType::kF32, Shape{1003});
}
Node wide_relu(Inputs& in) {
  return relu_of_sum(in, DType::kF32, Shape{6 << 20});
}
Node half_relu(Inputs& in) {
  return relu_of_sum(in, DType::kF16, Shape{1003});
}
template <Op kOp>
Node unary(Inputs& in) {
  const Node x = in.make(DType::kF32, Shape{1003});
  return tensor_unary(kOp, tensor_binary(Op::kMul, x, x));
}

Node product(Inputs& in, int64_t m, int64_t n, int64_t k, DType operand, DType acc) {
  const Shape box{m, n, k};
  const auto side = [&](const Shape& own, const Shape& shape) {
    const Node x = tensor_cast(in.make(operand, own), acc);
    return tensor_expand(tensor_reshape(x, shape), box);
  };
  const std::vector<int64_t> turned{1, 0};
  const Node a = side(Shape{m, k}, Shape{m, 1, k});
  const Node b = tensor_cast(in.make(operand, Shape{k, n}), acc);
  const Node b_side = tensor_expand(tensor_reshape(tensor_permute(b, turned), Shape{1, n, k}), box);
  const std::vector<int64_t> axes{2};
  return tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, a, b_side), axes, acc);
}
Node matmul(Inputs& in) {
  return product(in, 65, 130, 67, DType::kF32, DType::kF32);
}
Node large_matmul(Inputs& in) {
  return product(in, 256, 320, 384, DType::kF32, DType::kF32);
}
Node wide_matmul(Inputs& in) {
  return product(in, 16, 4096, 2048, DType::kF32, DType::kF32);
}
Node bf16_matmul(Inputs& in) {
  return product(in, 40, 64, 48, DType::kBF16, DType::kF32);
}

Node sum_of_many(Inputs& in) {
  Node sum = in.make(DType::kF32, Shape{37, 5});
  for (int i = 0; i < 8; ++i) {
    const Node x = in.make(DType::kF32, Shape{37, 5});
    sum = tensor_binary(i % 2 == 0 ? Op::kAdd : Op::kMul, sum, x);
  }
  return sum;
}
Node long_sum(Inputs& in) {
  const std::vector<int64_t> axes{0};
  return tensor_reduce(Op::kAdd, in.make(DType::kF32, Shape{300007}), axes, DType::kF32);
}

Node row_sums(Inputs& in) {
  const std::vector<int64_t> axes{1};
  return tensor_reduce(Op::kAdd, in.make(DType::kF32, Shape{64, 64}), axes, DType::kF32);
}

Node column_sums(Inputs& in) {
  const std::vector<int64_t> axes{0};
  return tensor_reduce(Op::kAdd, in.make(DType::kF32, Shape{3000, 3000}), axes, DType::kF32);
}

struct LivingCase {
  const char* field;
  const char* shrink;
  Node (*graph)(Inputs&);
  const char* name = "";  ///< of several cases of one field
};

void PrintTo(const LivingCase& row, std::ostream* out) {
  *out << row.shrink;
}

/// Everything that the fields below take away.
Target rich_target() {
  Target target = test::unit_target();
  target.arch = "x86_64";
  target.features = {"avx2",     "avx512bf16", "avx512bw", "avx512dq", "avx512f",
                     "avx512vl", "avx512vnni", "f16c",     "fma"};
  target.native_ops = {Op::kSqrt, Op::kTrunc, Op::kFma};
  target.extra_casts = {{DType::kF16, DType::kF32}, {DType::kF32, DType::kF16}};
  target.fuses_mulacc = true;
  return target;
}

/// All programs of the graph: linear text and C, without names.
std::string programs_of(Node (*graph)(Inputs&), const Target& target) {
  Inputs inputs(nullptr);
  const Node output = graph(inputs);
  std::string text;
  for (const ScheduledCall& call :
       schedule_graph(std::span(&output, 1), schedule_options(target)).calls) {
    LinearProgram program = lower_kernel(call.kernel, target, {});
    program.name = "program";
    append(text, to_text(program), c_renderer().render(program, target).text);
  }
  return text;
}

class LivingTarget : public ::testing::TestWithParam<LivingCase> {};

TEST_P(LivingTarget, ShrunkMakesOtherProgramsAsRight) {
  const LivingCase& row = GetParam();
  const Target rich = rich_target();
  const Target shrunk = shrink_target(rich, row.shrink);
  EXPECT_TRUE(shrunk != rich);
  EXPECT_TRUE(programs_of(row.graph, shrunk) != programs_of(row.graph, rich))
      << "no pass reads " << row.field;
  const Target own = Device::get_default().target();
  try {
    (void)shrink_target(own, row.shrink);
  } catch (const Error& error) {
    GTEST_SKIP() << "the device has less: " << error.what();
  }
  const ScopedSetting setting(Setting::kTarget, row.shrink);
  EXPECT_EQ(Device::get_default().target(), shrink_target(own, row.shrink));
  GraphBatch batch;
  Inputs inputs(&batch);
  batch.add(row.field, row.graph(inputs));
  batch.check(row.shrink);
}

const LivingCase kCases[] = {
    {"extra_casts", "extra_casts=", half_relu},
    {"native_ops", "native_ops=trunc+fma", unary<Op::kSqrt>, "Sqrt"},
    {"native_ops", "native_ops=sqrt+fma", unary<Op::kTrunc>, "Trunc"},
    {"fuses_mulacc", "fuses_mulacc=no", matmul},
    {"units", "units=", bf16_matmul},
    {"max_vector_bytes", "max_vector_bytes=0", relu, "None"},
    {"max_vector_bytes", "max_vector_bytes=4", relu, "One"},
    {"max_vector_bytes", "max_vector_bytes=16", relu, "Four"},
    {"max_vector_bytes", "max_vector_bytes=32", relu, "Eight"},
    {"max_vector_bytes", "max_vector_bytes=16", bf16_matmul, "UnitsThatDoNotFit"},
    {"max_local_bytes", "max_local_bytes=0", large_matmul, "None"},
    {"max_local_bytes", "max_local_bytes=4096", large_matmul, "Little"},
    {"max_groups", "max_groups=1", large_matmul, "One"},
    {"max_groups", "max_groups=3", large_matmul, "Three"},
    {"max_arguments", "max_arguments=4", sum_of_many},
    {"vector_registers", "vector_registers=8", matmul},
    {"scalar_registers", "scalar_registers=1", matmul},
    {"mulacc_rate", "mulacc_rate=1", matmul},
    {"mulacc_chains", "mulacc_chains=1", long_sum},
    {"caches", "caches=1024:1:2:1", large_matmul},
    {"line_bytes", "line_bytes=1", column_sums},
    {"memory_speed", "memory_speed=1", wide_matmul},
    {"fork_ns", "fork_ns=1", row_sums},
    {"bypass_bytes", "bypass_bytes=1", wide_relu},
    {"threads", "threads=1", long_sum},
};

INSTANTIATE_TEST_SUITE_P(Fields, LivingTarget, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return concat(row.param.field, row.param.name); });

TEST(LivingTarget, EveryFieldHasATest) {
  // Those with tests of their own below; the first two say only what the device is. What deviations
  // decide is in tests/conform/deviations_test.cpp.
  std::set<std::string_view> tested{"arch",          "features",       "arithmetic",
                                    "has_i64_index", "tile_registers", "tile_rate",
                                    "tile_chains",   "max_lanes",      "deviations"};
  for (const LivingCase& row : kCases)
    tested.insert(row.field);
  const std::vector<std::string_view> fields = target_fields();
  EXPECT_EQ(tested, std::set<std::string_view>(fields.begin(), fields.end()));
}

// Narrow floats are computed wider where they must be; other dtypes are refused by name.
TEST(LivingTarget, Arithmetic) {
  Target target = test::vector_target();
  const auto text_of = [&](Node (*graph)(Inputs&)) {
    Inputs inputs(nullptr);
    const Node output = graph(inputs);
    const Schedule schedule = schedule_graph(std::span(&output, 1), schedule_options(target));
    return to_text(lower_kernel(schedule.calls.at(0).kernel, target, {}));
  };
  target.arithmetic.add(DType::kF16);
  const std::string with_f16 = text_of(half_relu);
  target = shrink_target(target, "arithmetic=i1+i8+i16+i32+i64+u8+u16+u32+u64+f32+f64");
  EXPECT_TRUE(text_of(half_relu) != with_f16);
  const auto doubles = [](Inputs& in) { return relu_of_sum(in, DType::kF64, Shape{7}); };
  text_of(doubles);
  target = shrink_target(target, "arithmetic=i1+i8+i16+i32+i64+u8+u16+u32+u64+f32");
  EXPECT_ERROR(text_of(doubles), ErrorCode::kUnsupported, "float64");
}

// Arrays beyond 2^31 elements are refused with their size, others stay as they are.
TEST(LivingTarget, IndicesOf64Bits) {
  Target target = test::vector_target();
  const auto lowered = [&](int64_t count) {
    const Node output = tensor_cast(tensor_buffer(DType::kI8, Shape{count}), DType::kI32);
    const Schedule schedule = schedule_graph(std::span(&output, 1), schedule_options(target));
    return to_text(lower_kernel(schedule.calls.at(0).kernel, target, {}));
  };
  const int64_t large = int64_t{3} << 30;
  const std::string before = lowered(1000);
  EXPECT_NE(lowered(large).find("i64"), std::string::npos);
  target = shrink_target(target, "has_i64_index=no");
  EXPECT_EQ(lowered(1000), before);
  EXPECT_ERROR(lowered(large), ErrorCode::kUnsupported, "32");
}

// A unit on tiles needs their registers; how fast they are decides how many are summed up at once.
TEST(LivingTarget, Tiles) {
  const Target tiles = test::tile_target();
  int64_t size = 256;
  const auto plan_of = [&](const char* shrink) {
    Inputs inputs(nullptr);
    const Node output = product(inputs, size, size, 256, DType::kBF16, DType::kF32);
    const Target target = *shrink == 0 ? tiles : shrink_target(tiles, shrink);
    const Schedule schedule = schedule_graph(std::span(&output, 1), schedule_options(target));
    return to_text(lower_kernel(schedule.calls.at(0).kernel, target, {}));
  };
  const std::string before = plan_of("");
  EXPECT_NE(before.find("mma"), std::string::npos);
  EXPECT_EQ(plan_of("units=,tile_registers=0").find("mma"), std::string::npos);
  for (const char* shrink : {"tile_registers=4", "tile_rate=1"})
    EXPECT_TRUE(plan_of(shrink) != before) << shrink;
  size = 16;  // one tile: nothing else to do while it waits
  EXPECT_TRUE(plan_of("tile_chains=1") != plan_of(""));
}

/// The linear programs of the graph for the default device, without names.
std::string linear_text(Node (*graph)(Inputs&)) {
  Inputs inputs(nullptr);
  const Node output = graph(inputs);
  const Target& target = Device::get_default().target();
  std::string text;
  for (const ScheduledCall& call :
       schedule_graph(std::span(&output, 1), schedule_options(target)).calls) {
    LinearProgram program = lower_kernel(call.kernel, target, {});
    program.name = "program";
    append(text, to_text(program));
  }
  return text;
}

void check_values(Node (*graph)(Inputs&), const std::string& title) {
  GraphBatch batch;
  Inputs inputs(&batch);
  batch.add("graph", graph(inputs));
  batch.check(title);
}

Node matrix_vector(Inputs& in) {
  const Shape box{1024, 1024};
  const Node b = tensor_reshape(in.make(DType::kF32, Shape{1024}), Shape{1, 1024});
  const Node products = tensor_binary(Op::kMul, in.make(DType::kF32, box), tensor_expand(b, box));
  const std::vector<int64_t> axes{1};
  return tensor_reduce(Op::kAdd, products, axes, DType::kF32);
}

// What groups of many lanes and their memory decide, on the devices that have both.
TEST(LivingTarget, LanesAndTheirMemory) {
  for (const auto& [name, some, graphs] :
       {std::tuple("INTERP", "max_lanes=16", std::vector{relu, matmul, row_sums}),
        std::tuple("INTERP::WIDE", "max_lanes=64", std::vector{matrix_vector})}) {
    const ScopedSetting device(Setting::kDevice, name);
    for (Node (*graph)(Inputs&) : graphs) {
      std::vector<std::string> texts{linear_text(graph)};
      for (const char* shrink : {some, "max_lanes=1"}) {
        const ScopedSetting setting(Setting::kTarget, shrink);
        texts.push_back(linear_text(graph));
        check_values(graph, shrink);
      }
      EXPECT_TRUE(texts[0] != texts[1]);
      EXPECT_TRUE(texts[1] != texts[2]);
      EXPECT_NE(texts[0].find("lane_id"), std::string::npos);
      EXPECT_EQ(texts[2].find("lane_id"), std::string::npos);
    }
  }
}

// Few groups run what many did in loops, with their barriers and group memory.
TEST(LivingTarget, GroupsOfOneLaunch) {
  const ScopedSetting device(Setting::kDevice, "INTERP");
  for (Node (*graph)(Inputs&) : {relu, matmul, row_sums}) {
    std::vector<std::string> texts{linear_text(graph)};
    for (const char* shrink : {"max_groups=3", "max_groups=1"}) {
      const ScopedSetting setting(Setting::kTarget, shrink);
      texts.push_back(linear_text(graph));
      check_values(graph, shrink);
    }
    EXPECT_TRUE(texts[0] != texts[1]);
    EXPECT_TRUE(texts[1] != texts[2]);
    EXPECT_NE(texts[0].find("grid_id"), std::string::npos);
    EXPECT_NE(texts[2].find("grid(1"), std::string::npos);
  }
}

TEST(LivingTarget, NoMoreArgumentsThanOneOperationHas) {
  const ScopedSetting shrunk(Setting::kTarget, "max_arguments=3");
  Inputs inputs(nullptr);
  const Node x = inputs.make(DType::kF32, Shape{5});
  const Node y = inputs.make(DType::kF32, Shape{5});
  const Node output = tensor_where(inputs.make(DType::kBool, Shape{5}), x, y);
  EXPECT_ERROR(
      schedule_graph(std::span(&output, 1), schedule_options(Device::get_default().target())),
      ErrorCode::kUnsupported, "needs 4 buffers", "at most 3 (max_arguments)");
}

}  // namespace
}  // namespace tenon::testing
