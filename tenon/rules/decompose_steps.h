// The decompositions by concept, as decompose.cpp calls them. Arguments and results are of one
// dtype. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/rules/expr_words.h"
#include "tenon/types/target.h"

namespace tenon::steps {

using words::Expr;

// decompose_int.cpp
Expr int_neg(const Expr& x);
Expr int_abs(const Expr& x);

// decompose_float.cpp: any float format that the Target computes with
Expr float_neg(const Expr& x);
Expr float_abs(const Expr& x);
Expr is_nan(const Expr& x);
Expr is_inf(const Expr& x);
Expr is_finite(const Expr& x);
Expr trunc(const Expr& x, const Target& target);
Expr floor(const Expr& x, const Target& target);
Expr ceil(const Expr& x, const Target& target);
Expr round_even(const Expr& x);
/// Correctly rounded; by unsigned integers of the same width.
Expr sqrt(const Expr& x);
/// a * b + c of f32 in f64, rounded to odd, so that one more rounding (to f32 or narrower) is the
/// only one.
Expr fma_to_odd(const Expr& a, const Expr& b, const Expr& c);

// decompose_cast.cpp
/// The f32 nearest to a number or bool that rounds to any narrow float as the number itself would:
/// exact where f32 holds it, else rounded to odd.
Expr to_f32_for_narrowing(const Expr& value);

// decompose_exp.cpp, decompose_log.cpp, decompose_trig.cpp: f32
Expr exp2(const Expr& x);
Expr exp(const Expr& x);
Expr tanh(const Expr& x);
Expr sigmoid(const Expr& x);
Expr log2(const Expr& x);
Expr log(const Expr& x);
Expr sin(const Expr& x);
Expr cos(const Expr& x);
Expr tan(const Expr& x);

/// c[0] + x * (c[1] + x * (...)) by mulacc.
Expr polynomial(const Expr& x, std::span<const double> coefficients);

}  // namespace tenon::steps
