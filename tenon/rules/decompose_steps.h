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
/// a * b + c rounded once, in f32, through f64.
Expr fma_f32(const Expr& a, const Expr& b, const Expr& c);

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
