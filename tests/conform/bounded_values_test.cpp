// The bounded class where its results are known exactly (a table by hand), and sine, cosine and
// tangent of large arguments (trig_table.txt), from buffers and as constants, on the default
// device. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "tenon/base/text.h"
#include "tenon/conform/oracle.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/decompose.h"
#include "tests/conform/graph_batch.h"

namespace tenon::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Exact {
  Op op;
  double x;
  double result;
};

// Mathematics and IEEE 754-2019, section 9.2.1. x is a value of every float dtype that it is used
// with (see holds).
constexpr Exact kExact[] = {
    {Op::kExp, 0.0, 1},
    {Op::kExp, -0.0, 1},
    {Op::kExp, -kInf, 0.0},
    {Op::kExp, kInf, kInf},
    {Op::kExp, kNan, kNan},
    {Op::kExp, 1000, kInf},
    {Op::kExp, -1000, 0.0},
    {Op::kExp2, 0.0, 1},
    {Op::kExp2, -0.0, 1},
    {Op::kExp2, 1, 2},
    {Op::kExp2, -1, 0.5},
    {Op::kExp2, 10, 1024},
    {Op::kExp2, -14, 0x1p-14},
    {Op::kExp2, 127, 0x1p127},
    {Op::kExp2, 128, kInf},
    {Op::kExp2, -126, 0x1p-126},
    {Op::kExp2, -149, 0x1p-149},
    {Op::kExp2, -160, 0.0},
    {Op::kExp2, -kInf, 0.0},
    {Op::kExp2, kInf, kInf},
    {Op::kExp2, kNan, kNan},
    {Op::kLog, 1, 0.0},
    {Op::kLog, 0.0, -kInf},
    {Op::kLog, -0.0, -kInf},
    {Op::kLog, -1, kNan},
    {Op::kLog, -kInf, kNan},
    {Op::kLog, kInf, kInf},
    {Op::kLog, kNan, kNan},
    {Op::kLog2, 1, 0.0},
    {Op::kLog2, 2, 1},
    {Op::kLog2, 0.5, -1},
    {Op::kLog2, 1024, 10},
    {Op::kLog2, 0x1p-149, -149},
    {Op::kLog2, 0x1p127, 127},
    {Op::kLog2, 0.0, -kInf},
    {Op::kLog2, -0.0, -kInf},
    {Op::kLog2, -1, kNan},
    {Op::kLog2, -0x1p-149, kNan},
    {Op::kLog2, -kInf, kNan},
    {Op::kLog2, kInf, kInf},
    {Op::kLog2, kNan, kNan},
    {Op::kSin, 0.0, 0.0},
    {Op::kSin, -0.0, -0.0},
    {Op::kSin, kInf, kNan},
    {Op::kSin, -kInf, kNan},
    {Op::kSin, kNan, kNan},
    {Op::kSin, 0x1p-149, 0x1p-149},
    {Op::kCos, 0.0, 1},
    {Op::kCos, -0.0, 1},
    {Op::kCos, kInf, kNan},
    {Op::kCos, -kInf, kNan},
    {Op::kCos, kNan, kNan},
    {Op::kCos, 0x1p-149, 1},
    {Op::kTan, 0.0, 0.0},
    {Op::kTan, -0.0, -0.0},
    {Op::kTan, kInf, kNan},
    {Op::kTan, -kInf, kNan},
    {Op::kTan, kNan, kNan},
    {Op::kTan, -0x1p-149, -0x1p-149},
    {Op::kTanh, 0.0, 0.0},
    {Op::kTanh, -0.0, -0.0},
    {Op::kTanh, kInf, 1},
    {Op::kTanh, -kInf, -1},
    {Op::kTanh, kNan, kNan},
    {Op::kTanh, 40, 1},
    {Op::kTanh, -40, -1},
    {Op::kTanh, 0x1p-149, 0x1p-149},
    {Op::kSigmoid, 0.0, 0.5},
    {Op::kSigmoid, -0.0, 0.5},
    {Op::kSigmoid, kInf, 1},
    {Op::kSigmoid, -kInf, 0.0},
    {Op::kSigmoid, kNan, kNan},
    {Op::kSigmoid, 40, 1},
    {Op::kSigmoid, -448, 0.0},
};

/// Whether a format has this value; NaN in every one.
bool holds(DType dtype, double value) {
  if (std::isnan(value)) return true;
  return float_to_double(double_to_float(value, dtype), dtype) == value;
}

bool same(DType dtype, uint64_t got, double expected) {
  const double value = float_to_double(got, dtype);
  if (std::isnan(expected)) return std::isnan(value);
  return value == expected && std::signbit(value) == std::signbit(expected);
}

std::vector<DType> bounded_dtypes() {
  std::vector<DType> dtypes;
  for (const DType dtype : storage_dtypes()) {
    if (is_float(dtype) && dtype != DType::kF64) dtypes.push_back(dtype);
  }
  return dtypes;
}

TEST(BoundedValues, KnownResultsAreExact) {
  struct Row {
    size_t graph;
    size_t element;
    DType dtype;
    Exact exact;
    const char* how;
  };
  GraphBatch batch;
  std::vector<Row> rows;
  for (const DType dtype : bounded_dtypes()) {
    for (const OpInfo& info : all_ops()) {
      if (!is_bounded_class(info.op)) continue;
      std::vector<uint64_t> inputs;
      std::vector<Exact> wanted;
      for (const Exact& exact : kExact) {
        if (exact.op != info.op || !holds(dtype, exact.x)) continue;
        Exact here = exact;  // the result of a narrow format is rounded once more
        here.result = float_to_double(double_to_float(exact.result, dtype), dtype);
        inputs.push_back(double_to_float(exact.x, dtype));
        wanted.push_back(here);
      }
      const int64_t shape[] = {static_cast<int64_t>(inputs.size())};
      const int64_t one[] = {1};
      const Node position = tensor_index(DType::kI32, shape, 0);
      Node folded;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto spread = [&](DType type, uint64_t bits) {
          return tensor_expand(tensor_reshape(tensor_const(type, bits), one), shape);
        };
        const Node value = tensor_unary(info.op, spread(dtype, inputs[i]));
        const Node is_here = tensor_binary(Op::kEq, position, spread(DType::kI32, i));
        folded = folded ? tensor_where(is_here, value, folded) : value;
      }
      const std::string name = concat(info.name, " ", dtype_name(dtype));
      const size_t run = batch.add(name, tensor_unary(info.op, batch.buffer(dtype, inputs)));
      const size_t constant = batch.add(name + " of constants", folded);
      for (size_t i = 0; i < inputs.size(); ++i) {
        rows.push_back({run, i, dtype, wanted[i], "at run time"});
        rows.push_back({constant, i, dtype, wanted[i], "folded"});
      }
    }
  }
  batch.check("bounded ops");
  if (HasFatalFailure()) return;
  for (const Row& row : rows) {
    const uint64_t got = batch.values(row.graph)[row.element];
    EXPECT_TRUE(same(row.dtype, got, row.exact.result))
        << op_name(row.exact.op) << "(" << row.exact.x << ") " << dtype_name(row.dtype) << " "
        << row.how << ": expected " << row.exact.result << ", got "
        << float_to_double(got, row.dtype);
  }
  EXPECT_GE(rows.size(), 500U);
}

struct TrigRow {
  uint64_t x = 0;
  double values[3] = {};  ///< sin, cos, tan
};

std::vector<TrigRow> read_trig_table() {
  std::ifstream file(std::string(TENON_SOURCE_DIR) + "/tests/conform/trig_table.txt");
  std::vector<TrigRow> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    TrigRow row;
    words >> word;
    row.x = std::stoull(word, nullptr, 16);
    for (double& value : row.values) {
      words >> word;
      value = std::strtod(word.c_str(), nullptr);
    }
    rows.push_back(row);
  }
  return rows;
}

double ulp_of(double value) {
  const int exponent = std::max(std::ilogb(value), -126);
  return std::ldexp(1.0, exponent - 23);
}

TEST(BoundedValues, TrigonometryOfLargeArguments) {
  const std::vector<TrigRow> table = read_trig_table();
  ASSERT_GE(table.size(), 100U);
  constexpr Op kOps[] = {Op::kSin, Op::kCos, Op::kTan};
  std::vector<uint64_t> x;
  for (const uint64_t sign : {uint64_t{0}, uint64_t{1} << 31}) {
    for (const TrigRow& row : table)
      x.push_back(row.x | sign);
  }
  GraphBatch batch;
  const Node input = batch.buffer(DType::kF32, x);
  for (const Op op : kOps)
    batch.add(std::string(op_name(op)), tensor_unary(op, input));
  batch.check("trigonometry");
  if (HasFatalFailure()) return;
  for (size_t i = 0; i < std::size(kOps); ++i) {
    const std::vector<uint64_t> got = batch.values(i);
    double worst = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      const bool is_negative = j >= table.size();
      const double reference = table[j % table.size()].values[i];
      const double expected = is_negative && kOps[i] != Op::kCos ? -reference : reference;
      const double value = float_to_double(got[j], DType::kF32);
      const double ulps = std::abs(value - expected) / ulp_of(expected);
      EXPECT_LE(ulps, bounded_ulp(kOps[i]))
          << op_name(kOps[i]) << " of " << float_to_double(x[j], DType::kF32) << ": expected "
          << expected << ", got " << value;
      worst = std::max(worst, ulps);
    }
    std::printf("%s: at most %.3f ulp off over %zu arguments\n",
                std::string(op_name(kOps[i])).c_str(), worst, x.size());
  }
}

// The oracle states the bounds once more, since it takes nothing from rules/; they must not part.
TEST(BoundedValues, OracleAllowsWhatTheDecompositionsDeclare) {
  constexpr Op kOps[] = {Op::kExp2, Op::kLog2, Op::kSin,  Op::kExp,    Op::kLog,
                         Op::kCos,  Op::kTan,  Op::kTanh, Op::kSigmoid};
  const float x = 1.375F;
  for (const Op op : kOps) {
    const Node node = tensor_unary(op, tensor_const(DType::kF32, std::bit_cast<uint32_t>(x)));
    const OracleValue value = evaluate_oracle({&node, 1}, {})[0];
    const auto result = std::bit_cast<float>(static_cast<uint32_t>(value.bits[0]));
    const double ulp = std::nextafter(std::abs(result), INFINITY) - std::abs(result);
    // Half an ulp more: the reference itself is rounded.
    EXPECT_GE(value.radius_at(0), bounded_ulp(op) * ulp) << op_name(op);
    EXPECT_LE(value.radius_at(0), (bounded_ulp(op) + 1) * ulp) << op_name(op);
  }
}

}  // namespace
}  // namespace tenon::testing
