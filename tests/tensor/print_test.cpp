// The text of tensors. Expected texts are what NumPy 2.4 prints for the same arrays (str(a)).
// SPDX-License-Identifier: MIT

#include <limits>
#include <sstream>

#include "tenon/tensor/creation.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Print, FloatsAsNumpy) {
  EXPECT_EQ(to_string(Tensor({1.0F, 2.0F, 3.0F})), "[1. 2. 3.]");
  EXPECT_EQ(to_string(Tensor({1.5F, 2.25F, -100.0F})), "[   1.5     2.25 -100.  ]");
  EXPECT_EQ(to_string(Tensor({1e-5F, 2.5F})), "[1.0e-05 2.5e+00]");
  EXPECT_EQ(to_string(Tensor({1e9F, 2.5F})), "[1.0e+09 2.5e+00]");
  EXPECT_EQ(to_string(Tensor({0.1F, kNan, -kInf})), "[ 0.1  nan -inf]");
  EXPECT_EQ(to_string(Tensor({1.0 / 3, 2.0 / 3})), "[0.33333333 0.66666667]");
  EXPECT_EQ(to_string(Tensor({1.0 / 3, 0.1}, {.dtype = DType::kF16})), "[0.3333 0.1   ]");
  EXPECT_EQ(to_string(Tensor({123456.78F, 0.25F})), "[1.2345678e+05 2.5000000e-01]");
  EXPECT_EQ(to_string(Tensor({1e-10F, 3e-10F})), "[1.e-10 3.e-10]");
  EXPECT_EQ(to_string(Tensor({0.0F, 0.0F})), "[0. 0.]");
}

TEST(Print, OtherDtypesAsNumpy) {
  EXPECT_EQ(to_string(Tensor({{1, 20}, {-3, 4}})), "[[ 1 20]\n [-3  4]]");
  EXPECT_EQ(to_string(Tensor({true, false})), "[ True False]");
  EXPECT_EQ(to_string(Tensor({~uint64_t{0}})), "[18446744073709551615]");
  EXPECT_EQ(to_string(zeros({0, 3})), "[]");
}

TEST(Print, ScalarsAsNumpy) {
  EXPECT_EQ(to_string(full({}, 0.1)), "0.1");
  EXPECT_EQ(to_string(full({}, 3.0, {.dtype = DType::kF64})), "3.0");
  EXPECT_EQ(to_string(full({}, -7)), "-7");
  EXPECT_EQ(to_string(full({}, 1e20)), "1e+20");
  EXPECT_EQ(to_string(full({}, true)), "True");
  EXPECT_EQ(to_string(full({}, -kInf)), "-inf");
}

TEST(Print, NestedAndLongAsNumpy) {
  EXPECT_EQ(to_string(arange(8).reshape({2, 2, 2})), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
  EXPECT_EQ(to_string(arange(2000)), "[   0    1    2 ... 1997 1998 1999]");
  EXPECT_EQ(to_string(arange(1500).reshape({1500, 1})),
            "[[   0]\n [   1]\n [   2]\n ...\n [1497]\n [1498]\n [1499]]");
  EXPECT_EQ(to_string(arange(2000).reshape({2, 100, 10})),
            "[[[   0    1    2 ...    7    8    9]\n  [  10   11   12 ...   17   18   19]\n"
            "  [  20   21   22 ...   27   28   29]\n  ...\n"
            "  [ 970  971  972 ...  977  978  979]\n  [ 980  981  982 ...  987  988  989]\n"
            "  [ 990  991  992 ...  997  998  999]]\n\n"
            " [[1000 1001 1002 ... 1007 1008 1009]\n  [1010 1011 1012 ... 1017 1018 1019]\n"
            "  [1020 1021 1022 ... 1027 1028 1029]\n  ...\n"
            "  [1970 1971 1972 ... 1977 1978 1979]\n  [1980 1981 1982 ... 1987 1988 1989]\n"
            "  [1990 1991 1992 ... 1997 1998 1999]]]");
}

TEST(Print, LinesAreWrappedAsNumpy) {
  EXPECT_EQ(to_string(arange(30) / 7.0),
            "[0.         0.14285715 0.2857143  0.42857143 0.5714286  0.71428573\n"
            " 0.85714287 1.         1.1428572  1.2857143  1.4285715  1.5714285\n"
            " 1.7142857  1.8571428  2.         2.142857   2.2857144  2.4285715\n"
            " 2.5714285  2.7142856  2.857143   3.         3.142857   3.2857144\n"
            " 3.4285715  3.5714285  3.7142856  3.857143   4.         4.142857  ]");
  EXPECT_EQ(to_string(arange(40) * 1000),
            "[    0  1000  2000  3000  4000  5000  6000  7000  8000  9000 10000 11000\n"
            " 12000 13000 14000 15000 16000 17000 18000 19000 20000 21000 22000 23000\n"
            " 24000 25000 26000 27000 28000 29000 30000 31000 32000 33000 34000 35000\n"
            " 36000 37000 38000 39000]");
}

TEST(Print, StreamsPrintTheText) {
  std::ostringstream out;
  out << Tensor({1, 2});
  EXPECT_EQ(out.str(), "[1 2]");
}

}  // namespace
}  // namespace tenon
