// Devices that deviate and say so are right by the oracle; those that do not say so are wrong. They
// are INTERP with a compiler that changes what programs compute. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/conform/oracle.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/random.h"

namespace tenon::testing {
namespace {

/// The statement `%name = op type operands` of a program's text.
struct Line {
  std::string name, op, type, rest;
};

std::optional<Line> parse_line(std::string_view text) {
  const std::string_view line = trim(text);
  const size_t equals = line.find(" = ");
  if (!line.starts_with('%') || equals == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> words = split(line.substr(equals + 3), ' ');
  if (words.size() < 2) return std::nullopt;
  const size_t used = words[0].size() + words[1].size() + 2;
  const std::string_view after = line.substr(equals + 3);
  return Line{std::string(line.substr(1, equals - 1)), std::string(words[0]), std::string(words[1]),
              std::string(after.substr(std::min(used, after.size())))};
}

bool makes_f32(const Line& line) {
  const bool is_f32 = line.type == "f32" || line.type.starts_with("f32x");
  constexpr std::string_view kOps[] = {"add", "sub",  "mul", "div", "mulacc",
                                       "fma", "sqrt", "min", "max", "cast"};
  return is_f32 && std::ranges::find(kOps, line.op) != std::end(kOps);
}

/// Results that are denormal become zeros of their sign.
std::string flushing(const Line& line) {
  const std::string lanes = line.type.substr(3);
  const auto raw = [&](std::string_view what) { return concat("%", what, "_of_", line.name); };
  const std::string u32 = concat("u32", lanes);
  return concat("  ", raw("f"), " = ", line.op, " ", line.type, " ", line.rest, "\n  ", raw("b"),
                " = bitcast ", u32, " ", raw("f"), "\n  ", raw("m"), " = const ", u32,
                " 2139095040\n  ", raw("e"), " = and ", u32, " ", raw("b"), ", ", raw("m"), "\n  ",
                raw("n"), " = const ", u32, " 0\n  ", raw("z"), " = eq ", u32, " ", raw("e"), ", ",
                raw("n"), "\n  ", raw("t"), " = const ", u32, " 2147483648\n  ", raw("s"),
                " = and ", u32, " ", raw("b"), ", ", raw("t"), "\n  ", raw("y"), " = bitcast ",
                line.type, " ", raw("s"), "\n  %", line.name, " = where ", line.type, " ", raw("z"),
                ", ", raw("y"), ", ", raw("f"), "\n");
}

/// exp2 comes out too large, by 2 to 4 ULP more than its own error.
std::string inexact_exp2(const Line& line) {
  return concat("  %e_of_", line.name, " = exp2 ", line.type, " ", line.rest, "\n  %k_of_",
                line.name, " = const ", line.type, " 1.00000024\n  %", line.name, " = mul ",
                line.type, " %e_of_", line.name, ", %k_of_", line.name, "\n");
}

class DeviatingCompiler final : public Compiler {
 public:
  explicit DeviatingCompiler(std::unique_ptr<Compiler> own) : own_(std::move(own)) {}

  std::string_view payload_format() const override { return own_->payload_format(); }
  std::string fingerprint() const override { return own_->fingerprint() + " deviating"; }
  CompiledObject compile(std::span<const KernelSource> sources) const override {
    std::vector<KernelSource> changed(sources.begin(), sources.end());
    for (KernelSource& source : changed) {
      std::string text;
      for (const std::string_view line : split(source.text, '\n')) {
        const std::optional<Line> parts = parse_line(line);
        if (parts && makes_f32(*parts)) {
          text += flushing(*parts);
        } else if (parts && parts->op == "exp2") {
          text += inexact_exp2(*parts);
        } else {
          append(text, line, "\n");
        }
      }
      source.text = text;
    }
    return own_->compile(changed);
  }
  std::string disassemble(std::span<const std::byte> object,
                          std::string_view symbol) const override {
    return own_->disassemble(object, symbol);
  }

 private:
  const std::unique_ptr<Compiler> own_;
};

Target with_exp2(Target target) {
  target.native_ops.push_back(Op::kExp2);
  return target;
}

/// Devices DEVIATES and KEEPS (the same Target, without the deviations).
void register_devices() {
  static const bool is_first = [] {
    for (const bool deviates : {true, false}) {
      BackendDescriptor backend = *find_backend("INTERP");
      backend.name = deviates ? "DEVIATES" : "KEEPS";
      RendererDescriptor& renderer = backend.renderers.at(0);
      renderer.make_target = [own = renderer.make_target](std::string_view) {
        return with_exp2(own(""));
      };
      if (deviates) {
        renderer.make_compiler = [own = renderer.make_compiler](const Target& target) {
          return std::make_unique<DeviatingCompiler>(own(target));
        };
      }
      register_backend(std::move(backend));
    }
    return true;
  }();
  ASSERT_TRUE(is_first);
}

/// Magnitudes whose sums, products and quotients are denormal now and then, and denormals.
std::vector<uint64_t> small_numbers(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> bits;
  for (size_t i = 0; i < count; ++i) {
    const double fraction = 1 + static_cast<double>(random.between(0, 1 << 20)) / (1 << 20);
    const double sign = random.between(0, 1) == 0 ? 1 : -1;
    const int exponent = static_cast<int>(random.between(0, 70)) - 135;
    bits.push_back(double_to_float(sign * std::ldexp(fraction, exponent), DType::kF32));
  }
  return bits;
}

struct Judged {
  int64_t failed = 0;
  int64_t compared = 0;
  int64_t excluded = 0;
};

constexpr int64_t kCount = 500;

/// Realises the graph over three buffers on the device and judges it as the device's Target says.
Judged judge(const std::string& device, const std::string& declared,
             const std::function<Node(std::span<const Node>)>& graph,
             const std::vector<std::vector<uint64_t>>& values) {
  register_devices();
  const ScopedSetting own(Setting::kDevice, device);
  const ScopedSetting target(Setting::kTarget, declared);
  std::vector<Node> buffers;
  std::vector<std::vector<std::byte>> data;
  for (const std::vector<uint64_t>& bits : values) {
    data.push_back(bytes_of(DType::kF32, bits));
    buffers.push_back(
        buffer_from_bytes(Device::get_default(), DType::kF32, Shape{kCount}, data.back()));
  }
  const Node output = graph(buffers);
  realize({&output, 1});
  const auto deviations = deviations_of(Device::get_default().target());
  const OracleValue expected =
      evaluate_oracle({&output, 1}, bind_inputs(buffers, data, deviations))[0];
  const Comparison result = compare(expected, read_bytes(output));
  return {result.failed, result.compared, result.excluded};
}

std::vector<std::vector<uint64_t>> small_inputs() {
  return {small_numbers(kCount, 1), small_numbers(kCount, 2), small_numbers(kCount, 3)};
}

Node filled(double value) {
  const Node number = tensor_const(DType::kF32, double_to_float(value, DType::kF32));
  return tensor_expand(tensor_reshape(number, Shape{1}), Shape{kCount});
}

struct FlushCase {
  const char* name;
  std::function<Node(std::span<const Node>)> graph;
};

void PrintTo(const FlushCase& row, std::ostream* out) {
  *out << row.name;
}

const FlushCase kFlushCases[] = {
    {"Sub", [](auto x) { return tensor_binary(Op::kSub, x[0], x[1]); }},
    {"Mul", [](auto x) { return tensor_binary(Op::kMul, x[0], filled(0.001)); }},
    {"Div", [](auto x) { return tensor_binary(Op::kDiv, x[0], filled(777)); }},
    {"Max", [](auto x) { return tensor_binary(Op::kMax, x[0], filled(-1)); }},
    {"Chain",
     [](auto x) {
       const Node small = tensor_binary(Op::kMul, x[0], filled(0.01));
       return tensor_binary(Op::kAdd, tensor_binary(Op::kMul, small, filled(512)), x[1]);
     }},
    {"Cast",
     [](auto x) {
       const Node wide = tensor_cast(x[0], DType::kF64);
       return tensor_cast(tensor_binary(Op::kMul, wide, tensor_cast(filled(0.001), DType::kF64)),
                          DType::kF32);
     }},
    {"SumOfProducts",
     [](auto x) {
       const auto rows = [](const Node& node) {
         return tensor_reshape(node, Shape{kCount / 5, 5});
       };
       const Node products =
           tensor_binary(Op::kMul, rows(x[0]), rows(tensor_binary(Op::kAdd, filled(0.01), x[1])));
       return tensor_reduce(Op::kAdd, products, std::vector<int64_t>{1}, DType::kF32);
     }},
};

class Flushes : public ::testing::TestWithParam<FlushCase> {};

TEST_P(Flushes, WhereDeclaredAndNowhereElse) {
  const auto& graph = GetParam().graph;
  const Judged declared = judge("DEVIATES", "deviations=flush_f32", graph, small_inputs());
  EXPECT_EQ(declared.failed, 0);
  EXPECT_GT(declared.compared, 0);
  EXPECT_LE(declared.excluded * 100, declared.compared);
  EXPECT_GT(judge("DEVIATES", "", graph, small_inputs()).failed, 0);
  // Who declares it and does not do it is right too, and so is who keeps all laws.
  EXPECT_EQ(judge("KEEPS", "deviations=flush_f32", graph, small_inputs()).failed, 0);
  EXPECT_EQ(judge("KEEPS", "", graph, small_inputs()).failed, 0);
}

INSTANTIATE_TEST_SUITE_P(Ops, Flushes, ::testing::ValuesIn(kFlushCases),
                         [](const auto& row) { return row.param.name; });

// Larger results than a denormal stay as exact as they are.
TEST(Deviations, FlushingExcusesNothingElse) {
  register_devices();
  const auto sum = [](auto x) { return tensor_binary(Op::kAdd, x[0], filled(1)); };
  const Target flushing = shrink_target(Device::get("KEEPS").target(), "deviations=flush_f32");
  const Node x = tensor_buffer(DType::kF32, Shape{kCount});
  const Node output = sum(std::vector{x});
  std::vector<uint64_t> ones(kCount, double_to_float(1.5, DType::kF32));
  const std::vector<std::vector<std::byte>> data{bytes_of(DType::kF32, ones)};
  const OracleValue value =
      evaluate_oracle({&output, 1}, bind_inputs(std::vector{x}, data, deviations_of(flushing)))[0];
  EXPECT_EQ(value.radius_at(0), 0);
}

TEST(Deviations, AnOpsErrorInUlp) {
  std::vector<uint64_t> exponents;
  Random random(5);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto number = static_cast<double>(random.between(0, 1 << 20));
    exponents.push_back(double_to_float(number / (1 << 14) - 30, DType::kF32));
  }
  exponents[0] = double_to_float(INFINITY, DType::kF32);
  exponents[1] = double_to_float(-INFINITY, DType::kF32);
  exponents[2] = double_to_float(NAN, DType::kF32);
  const auto power = [](auto x) { return tensor_unary(Op::kExp2, x[0]); };
  EXPECT_EQ(judge("DEVIATES", "deviations=exp2:5", power, {exponents}).failed, 0);
  EXPECT_GT(judge("DEVIATES", "", power, {exponents}).failed, 0);
  EXPECT_GT(judge("DEVIATES", "deviations=log2:5", power, {exponents}).failed, 0);
  EXPECT_EQ(judge("KEEPS", "", power, {exponents}).failed, 0);
}

TEST(Deviations, AreOfTheTargetsTextAndMayOnlyGrow) {
  Target target = Device::get("INTERP").target();
  EXPECT_TRUE(deviations_of(target).empty());
  target = shrink_target(target, "deviations=flush_f32+exp2:3");
  EXPECT_EQ(parse_target(to_text(target)), target);
  EXPECT_EQ(shrink_target(target, "deviations=flush_f32+exp2:4").deviations.size(), 2U);
  EXPECT_THROW((void)shrink_target(target, "deviations="), Error);
  EXPECT_THROW((void)shrink_target(target, "deviations=flush_f32+exp2:2"), Error);
  EXPECT_THROW((void)shrink_target(target, "deviations=flush_f32+exp2:03"), Error);
  EXPECT_THROW((void)shrink_target(target, "deviations=flush_f32+sqrt:3"), Error);
  target.units = {parse_matrix_unit("bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready")};
  std::vector<std::string> texts;
  for (const Deviation& deviation : deviations_of(target))
    texts.push_back(to_text(deviation));
  EXPECT_EQ(join(texts, " "), "flush_f32 exp2:3 flush_units");
}

}  // namespace
}  // namespace tenon::testing
