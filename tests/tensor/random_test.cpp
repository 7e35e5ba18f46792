// Philox against Random123's known answers, on the host and as graph; rand and randn.
// SPDX-License-Identifier: MIT

#include "tenon/tensor/random.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>
#include <numbers>
#include <sstream>

#include "tenon/rules/decompose.h"
#include "tests/support/expect_error.h"
#include "tests/support/tolerance.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

struct KnownAnswer {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> expected;
};

std::vector<KnownAnswer> known_answers() {
  std::vector<KnownAnswer> answers;
  std::ifstream file(TENON_SOURCE_DIR "/tests/data/random123_kat_vectors.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("philox4x32 10 ")) continue;
    std::istringstream words(line.substr(14));
    KnownAnswer answer{};
    words >> std::hex;
    for (uint32_t& word : answer.counter)
      words >> word;
    for (uint32_t& word : answer.key)
      words >> word;
    for (uint32_t& word : answer.expected)
      words >> word;
    answers.push_back(answer);
  }
  return answers;
}

TEST(Philox, GivesTheKnownAnswersOnTheHost) {
  const std::vector<KnownAnswer> answers = known_answers();
  ASSERT_EQ(answers.size(), 3U);
  for (const KnownAnswer& answer : answers)
    EXPECT_EQ(philox4x32_10(answer.counter, answer.key), answer.expected);
}

TEST(Philox, GivesTheKnownAnswersAsGraph) {
  const std::vector<KnownAnswer> answers = known_answers();
  const auto column = [&](auto&& pick) {
    std::vector<uint32_t> values;
    for (const KnownAnswer& answer : answers)
      values.push_back(pick(answer));
    return values;
  };
  std::array<Tensor, 4> counter;
  std::array<Tensor, 2> key;
  for (size_t i = 0; i < 4; ++i)
    counter[i] = Tensor::from_data(column([&](const auto& a) { return a.counter[i]; }), {3});
  for (size_t i = 0; i < 2; ++i)
    key[i] = Tensor::from_data(column([&](const auto& a) { return a.key[i]; }), {3});
  const std::array<Tensor, 4> words = philox4x32_10(counter, key);
  for (size_t i = 0; i < 4; ++i) {
    testing::Array expected{DType::kU32, {3}, {}};
    for (const uint32_t word : column([&](const auto& a) { return a.expected[i]; }))
      expected.bits.push_back(word);
    testing::expect_array(words[i], expected);
  }
}

// What rand must give, from the block function alone: element i is word i % 4 of block i / 4.
uint32_t word_at(uint64_t seed, uint64_t number, uint32_t i) {
  const std::array<uint32_t, 4> counter{i / 4, 0, static_cast<uint32_t>(number),
                                        static_cast<uint32_t>(number >> 32)};
  return philox4x32_10(counter,
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
}

TEST(Rand, IsTheTopBitsOfTheWordsExactly) {
  const uint64_t seed = 0x123456789abcdef0;
  Generator generator(seed);
  (void)generator.next();
  const std::vector<float> values = rand({3, 7}, {.generator = &generator}).to_vector<float>();
  ASSERT_EQ(values.size(), 21U);
  for (uint32_t i = 0; i < 21; ++i)
    EXPECT_EQ(values[i], static_cast<float>(word_at(seed, 1, i) >> 8) * 0x1p-24F) << i;
  const std::vector<double> doubles =
      rand({5}, {.dtype = DType::kF64, .generator = &generator}).to_vector<double>();
  for (uint32_t i = 0; i < 5; ++i) {
    const uint64_t bits =
        word_at(seed, 2, 2 * i) | static_cast<uint64_t>(word_at(seed, 2, 2 * i + 1)) << 32;
    EXPECT_EQ(doubles[i], static_cast<double>(bits >> 11) * 0x1p-53) << i;
  }
  const std::vector<float> halves = rand({9}, {.dtype = DType::kF16, .generator = &generator})
                                        .astype(DType::kF32)
                                        .to_vector<float>();
  for (uint32_t i = 0; i < 9; ++i)
    EXPECT_EQ(halves[i], static_cast<float>(word_at(seed, 3, i) >> 21) * 0x1p-11F) << i;
}

TEST(Rand, CallsDifferWhateverIsRealizedFirst) {
  Generator generator(7);
  const Tensor a = rand({64}, {.generator = &generator});
  const Tensor b = rand({64}, {.generator = &generator});
  const std::vector<float> b_values = b.to_vector<float>();
  const std::vector<float> a_values = a.to_vector<float>();
  EXPECT_NE(a_values, b_values);
  generator.reset(7);
  EXPECT_EQ(rand({64}, {.generator = &generator}).to_vector<float>(), a_values);
  EXPECT_EQ(rand({64}, {.generator = &generator}).to_vector<float>(), b_values);
  EXPECT_EQ(a.to_vector<float>(), a_values);
  Generator other(8);
  EXPECT_NE(rand({64}, {.generator = &other}).to_vector<float>(), a_values);
  EXPECT_NE(rand({8}).to_vector<float>(), rand({8}).to_vector<float>());
}

TEST(Rand, IsUniformInTheUnitInterval) {
  Generator generator(3);
  const std::vector<float> values = rand({40000}, {.generator = &generator}).to_vector<float>();
  std::array<int, 16> counts{};
  double sum = 0;
  for (const float value : values) {
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    ++counts[static_cast<size_t>(value * 16)];
    sum += value;
  }
  // Six standard deviations: 0.2887 / 200 of the mean, sqrt(2500 * 15 / 16) = 48 of a count.
  EXPECT_NEAR(sum / 40000, 0.5, 6 * 0.2887 / 200);
  for (const int count : counts)
    EXPECT_NEAR(count, 2500, 6 * 48.4);
}

struct Normal {
  double value;
  double err;  // for allowed_error
};

Normal box_muller(double u1, double angle, bool is_first) {
  const double log = std::abs(std::log(u1));
  const double radius = std::sqrt(2 * log);
  const double wave = is_first ? std::cos(angle) : std::sin(angle);
  const double slope = is_first ? std::sin(angle) : std::cos(angle);
  // Two roundings of u1 (word and sum) move its log by 2; the root halves that and log's own.
  const double radius_roundings = (2 / log + 2 * bounded_ulp(Op::kLog)) / 2 + 1;
  // 2 pi and the product with it are rounded.
  const double wave_err = 2 * angle * std::abs(slope) + 2 * bounded_ulp(Op::kCos) * std::abs(wave);
  const double value = radius * wave;
  return {value, (radius_roundings + 1) * std::abs(value) + radius * wave_err};
}

TEST(Randn, IsBoxMullerOfTheWords) {
  Generator generator(11);
  const std::vector<float> values = randn({10}, {.generator = &generator}).to_vector<float>();
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t first = i / 2 * 2;
    const double u1 = (static_cast<double>(word_at(11, 0, first)) + 1) * 0x1p-32;
    const double u2 = static_cast<double>(word_at(11, 0, first + 1) >> 8) * 0x1p-24;
    const Normal normal = box_muller(u1, 2 * std::numbers::pi * u2, i % 2 == 0);
    EXPECT_NEAR(values[i], normal.value,
                testing::allowed_error(DType::kF32, normal.err, normal.value))
        << i;
  }
}

// Units in the last place of f32 where the reference lies.
double ulps_between(float got, long double reference) {
  if (reference == 0) return got == 0 ? 0 : INFINITY;
  const int exponent = std::max(std::ilogb(static_cast<double>(reference)), -126);
  return static_cast<double>(std::abs(got - reference) / std::ldexp(1.0L, exponent - 23));
}

// Box-Muller in long double, errors below 2^-60, on the f32 numbers that the words give.
TEST(Randn, StaysWithinTheDeclaredBound) {
  const double of_parts =
      bounded_ulp(Op::kLog) + 1 + 2 * std::max(bounded_ulp(Op::kCos), bounded_ulp(Op::kSin)) + 0.5;
  EXPECT_LE(of_parts, kRandnUlp - 1);
  static_assert(std::numeric_limits<long double>::digits >= 64);
  constexpr uint32_t kCount = 1 << 20;
  Generator generator(17);
  const std::vector<float> values = randn({kCount}, {.generator = &generator}).to_vector<float>();
  double max_ulp = 0;
  uint32_t worst = 0;
  for (uint32_t block = 0; block < kCount / 4; ++block) {
    const std::array<uint32_t, 4> words = philox4x32_10({block, 0, 0, 0}, {17, 0});
    for (uint32_t i = 0; i < 4; i += 2) {
      const float u = (static_cast<float>(words[i]) + 1) * 0x1p-32F;
      const float t = static_cast<float>(words[i + 1] >> 8) * 0x1p-24F *
                      static_cast<float>(2 * std::numbers::pi);
      const long double radius = std::sqrt(-2 * std::log(static_cast<long double>(u)));
      for (uint32_t half = 0; half < 2; ++half) {
        const auto angle = static_cast<long double>(t);
        const long double reference = radius * (half == 0 ? std::cos(angle) : std::sin(angle));
        const uint32_t index = 4 * block + i + half;
        const double error = ulps_between(values[index], reference);
        if (error > max_ulp) worst = index;
        max_ulp = std::max(max_ulp, error);
      }
    }
  }
  std::cout << "randn: max " << max_ulp << " ulp, bound " << kRandnUlp << "\n";
  EXPECT_LE(max_ulp, kRandnUlp) << "at " << worst << ": " << values[worst];
}

TEST(Randn, HasMomentsOfTheNormalDistribution) {
  Generator generator(5);
  const std::vector<float> values = randn({200, 200}, {.generator = &generator}).to_vector<float>();
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (const float value : values) {
    sum += value;
    squares += value * value;
    fourths += std::pow(value, 4);
  }
  // Six standard deviations of 40000 samples: 1/200, sqrt(2)/200, sqrt(96)/200.
  EXPECT_NEAR(sum / 40000, 0, 6.0 / 200);
  EXPECT_NEAR(squares / 40000, 1, 6 * std::sqrt(2.0) / 200);
  EXPECT_NEAR(fourths / 40000, 3, 6 * std::sqrt(96.0) / 200);
}

// On the graph as written: CPU kernels have no float64 logarithm yet.
TEST(Randn, IsBoxMullerInFloat64) {
  Generator generator(11);
  const OracleValue value =
      testing::oracle_of(randn({7}, {.dtype = DType::kF64, .generator = &generator}));
  const auto joined = [](uint32_t i) {
    return word_at(11, 0, 2 * i) | static_cast<uint64_t>(word_at(11, 0, 2 * i + 1)) << 32;
  };
  for (uint32_t i = 0; i < 7; ++i) {
    const uint32_t first = i / 2 * 2;
    const double u1 = (static_cast<double>(joined(first)) + 1) * 0x1p-64;
    const double angle =
        2 * std::numbers::pi * static_cast<double>(joined(first + 1) >> 11) * 0x1p-53;
    // Twice: what is expected is computed in float64 too.
    const Normal normal = box_muller(u1, angle, i % 2 == 0);
    EXPECT_NEAR(std::bit_cast<double>(value.bits[i]), normal.value,
                2 * testing::allowed_error(DType::kF64, normal.err, normal.value))
        << i;
  }
}

TEST(Rand, ShapesAndErrors) {
  EXPECT_EQ(rand({}).shape(), Shape{});
  EXPECT_EQ(rand({0, 3}).to_vector<float>().size(), 0U);
  EXPECT_EQ(randn({2, 3}, {.dtype = DType::kBF16}).dtype(), DType::kBF16);
  EXPECT_ERROR(rand({2}, {.dtype = DType::kI32}), kInvalid, "rand", "int32");
  EXPECT_ERROR(randn({2}, {.dtype = DType::kBool}), kInvalid, "randn", "bool");
}

TEST(Rand, CallsShareTheirKernel) {
  (void)rand({33}).to_vector<float>();
  const int64_t before = total_stats().compiled;
  (void)rand({33}).to_vector<float>();
  EXPECT_EQ(total_stats().compiled, before);
}

}  // namespace
}  // namespace tenon
