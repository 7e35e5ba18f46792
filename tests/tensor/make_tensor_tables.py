#!/usr/bin/env python3
# Writes tensor_tables.txt: named arrays, inputs and NumPy's results for the tests of tensor/. One
# line an array: name, dtype, shape ("-" for 0-d), then the bits of each element in hex. A result
# that is not exact is float64 and followed by NAME_err, how far others may be from it.
#   python3 tests/tensor/make_tensor_tables.py > tests/tensor/tensor_tables.txt
# SPDX-License-Identifier: MIT
import warnings

import numpy as np

warnings.filterwarnings("ignore")


arrays = {}


def put(name, array):
    arrays[name] = array
    a = np.ascontiguousarray(array).reshape(np.shape(array))
    width = a.dtype.itemsize
    bits = a.reshape(-1).view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[width])
    shape = ",".join(map(str, a.shape)) or "-"
    print(name, a.dtype.name, shape, *(f"{int(b):x}" for b in bits))
    return array


# NAME_err is what tests/support/tolerance.h takes: for all roundings on the way, the size of what
# is rounded times how much the result moves with it. n terms added in any order, each within a * u
# of its size: (n - 1 + a) * sum of sizes. For products, quotients and roots it is a count of
# roundings times |exact|; a root halves what was before it. An op of b ulp counts 2 * b, as an ulp
# is at most 2 * u of the value.
ULP = {"exp": 1.5, "exp2": 1.5, "log": 1.5, "log2": 1.5, "sin": 2.0, "cos": 2.0, "tan": 4.0,
       "tanh": 3.0, "sigmoid": 3.0}  # as rules/decompose.h declares; a test compares them


def near(name, exact, err):
    put(name, np.asarray(exact, np.float64))
    put(name + "_err", np.broadcast_to(np.asarray(err, np.float64), np.shape(exact)))


for op, bound in ULP.items():
    put("ulp_" + op, np.float64(bound))

rng = np.random.default_rng(20240611)


def floats(shape, dtype=np.float32, scale=3.0):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def ints(shape, dtype, lo, hi):
    return rng.integers(lo, hi, shape).astype(dtype)


# Of the terms' squares: 3 (difference, square), terms - 1 (sum), 1 (division). An error d of the
# mean adds d**2, since deviations from the mean sum to 0: for these tables less than one rounding.
def var_roundings(terms):
    return terms + 4


def std_roundings(terms):
    return var_roundings(terms) / 2 + 1


def var_err(wide, axis):
    terms = wide.size // np.max(wide, axis=axis).size
    mean_err = terms * np.abs(wide).mean(axis=axis) * 2.0**-24
    assert np.all(mean_err**2 < np.var(wide, axis=axis) * 2.0**-24)
    return var_roundings(terms) * np.var(wide, axis=axis)


# Reductions.
x = put("x", floats((3, 4, 5)))
for name, axis in [("all", None), ("0", 0), ("m1", -1), ("02", (0, 2))]:
    wide = x.astype(np.float64)
    size = np.abs(wide)
    terms = x.size // np.max(x, axis=axis).size
    near(f"sum_{name}", np.sum(wide, axis=axis), (terms - 1) * size.sum(axis=axis))
    near(f"prod_{name}", np.prod(wide, axis=axis), (terms - 1) * size.prod(axis=axis))
    near(f"mean_{name}", np.mean(wide, axis=axis), terms * size.mean(axis=axis))
    near(f"var_{name}", np.var(wide, axis=axis), var_err(wide, axis))
    near(f"std1_{name}", np.std(wide, axis=axis, ddof=1),
         std_roundings(terms) * np.std(wide, axis=axis, ddof=1))
    put(f"max_{name}", np.max(x, axis=axis))
    put(f"min_{name}", np.min(x, axis=axis))
special = put("special", np.array([[0.0, -0.0, 1.5, -2.5], [np.nan, 1, np.inf, np.nan],
                                   [-np.inf, np.inf, np.inf, 2], [3, 3, -7, -7]], np.float32))
put("special_max", special.max(axis=1))
put("special_min", special.min(axis=1))
put("special_argmax", special.argmax(axis=1))
put("special_argmin", special.argmin(axis=1))
put("special_argmax_all", special.argmax())
put("special_isnan", np.isnan(special))
put("special_isinf", np.isinf(special))
put("special_isfinite", np.isfinite(special))
put("special_sign", np.sign(special) + np.float32(0))
put("special_any", special.astype(bool).any(axis=0))
put("special_all", special.astype(bool).all(axis=1))
for dtype, lo, hi in [(np.int8, -128, 128), (np.uint8, 0, 256), (np.int16, -30000, 30000),
                      (np.uint32, 0, 2**32), (np.int64, -2**40, 2**40)]:
    i = put(f"ints_{np.dtype(dtype).name}", ints((4, 6), dtype, lo, hi))
    put(f"ints_{i.dtype.name}_sum", i.sum(axis=1))
    put(f"ints_{i.dtype.name}_prod", i.prod(axis=0))
    put(f"ints_{i.dtype.name}_max", i.max(axis=1))
    put(f"ints_{i.dtype.name}_argmin", i.argmin(axis=0))
    is_rounded = i.dtype.itemsize > 2  # each of the terms
    near(f"ints_{i.dtype.name}_mean", i.mean(axis=1),
         (i.shape[1] + is_rounded) * np.abs(i.astype(np.float64)).mean(axis=1))
flags = put("flags", rng.integers(0, 2, (5, 3)).astype(bool))
put("flags_sum", flags.sum(axis=0))
put("flags_argmax", flags.argmax(axis=0))
half = put("half", floats((4, 300), np.float16, 60.0))
wide_half = half.astype(np.float64)
near("half_sum", wide_half.sum(axis=1), 299 * np.abs(wide_half).sum(axis=1))
near("half_mean", wide_half.mean(axis=1), 300 * np.abs(wide_half).mean(axis=1))
near("half_var", wide_half.var(axis=1), var_err(wide_half, 1))
x_sizes = np.cumsum(np.abs(x.astype(np.float64)), axis=1)
near("x_cumsum", np.cumsum(x.astype(np.float64), axis=1), np.arange(4).reshape(4, 1) * x_sizes)
near("half_cumsum", np.cumsum(wide_half, axis=-1),
     np.arange(300) * np.cumsum(np.abs(wide_half), axis=-1))
for name in ("ints_int8", "ints_uint8", "flags"):
    put(name + "_cumsum", np.cumsum(arrays[name]))

# Elementwise, mixed dtypes, broadcasting.
a = put("a", ints((3, 1, 4), np.int32, -20, 20))
b = put("b", ints((2, 1), np.int32, -5, 6))
nonzero = put("nonzero", np.where(b == 0, 3, b))
put("a_add_b", a + b)
put("a_sub_b", a - b)
put("a_mul_b", a * b)
put("a_floordiv", a // nonzero)
put("a_remainder", a % nonzero)
put("a_truncdiv", np.trunc(a / nonzero).astype(np.int32))
put("a_fmod", np.fmod(a, nonzero))
put("a_div", (a.astype(np.float32) / nonzero.astype(np.float32)))
put("a_and", a & b)
put("a_or", a | b)
put("a_xor", a ^ b)
put("a_invert", ~a)
put("a_shl", a << np.abs(b))
put("a_shr", a >> np.abs(b))
put("a_less", a < b)
put("a_greater_equal", a >= b)
put("a_equal", a == b)
put("a_not_equal", a != b)
put("a_minimum", np.minimum(a, b))
put("a_maximum", np.maximum(a, b))
put("a_clip", np.clip(a, -3, 7))
put("a_where", np.where(a > b, a, b))
put("a_square", np.square(a))
put("a_sign", np.sign(a))
u8 = put("u8", ints((2, 3), np.uint8, 0, 256))
i8 = put("i8", ints((2, 3), np.int8, -128, 128))
put("u8_add_i8", u8 + i8)
put("u8_neg", -u8)
put("u8_add_f32", u8.astype(np.float32) + np.float32(0.5))
y = put("y", np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 1e9, np.inf, np.nan], np.float32))
put("y_floor", np.floor(y))
put("y_ceil", np.ceil(y))
put("y_trunc", np.trunc(y))
put("y_round", np.round(y))
put("y_abs", np.abs(y))
put("y_neg", -y)
put("y_relu", np.array([0, 0, 0, 0, 0.5, 1.5, 2.5, 1e9, np.inf, np.nan], np.float32))
p = put("p", np.abs(floats((40,), scale=4.0)) + np.float32(0.01))
wide = p.astype(np.float64)
put("p_sqrt", np.sqrt(p))
near("p_rsqrt", 1 / np.sqrt(wide), 2 / np.sqrt(wide))
put("p_reciprocal", np.float32(1) / p)
for f in ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh"):
    exact = getattr(np, f)(wide)
    near(f"p_{f}", exact, 2 * ULP[f] * np.abs(exact))
near("p_log10", np.log10(wide), (2 * ULP["log2"] + 2) * np.abs(np.log10(wide)))  # log2 * a constant
near("p_sigmoid", 1 / (1 + np.exp(-wide)), 2 * ULP["sigmoid"] / (1 + np.exp(-wide)))

# Products.
m = put("m", floats((2, 3, 4), scale=1.0))
n = put("n", floats((5, 1, 4, 3), scale=1.0))
v = put("v", floats((4,), scale=1.0))
w = put("w", floats((3,), scale=1.0))
d = np.float64


# The terms are rounded products: as many roundings as terms.
def near_product(name, left, right):
    terms = left.shape[-1]
    near(name, left.astype(d) @ right.astype(d),
         terms * (np.abs(left.astype(d)) @ np.abs(right.astype(d))))


near_product("m_n", m, n)
near_product("m_v", m, v)
near_product("w_m", w, m)
near_product("v_v", v, v)
mi = put("mi", ints((3, 70), np.int8, -128, 128))
ni = put("ni", ints((70, 2), np.int8, -128, 128))
put("mi_ni", mi @ ni)
put("mi_ni_i32", mi.astype(np.int32) @ ni.astype(np.int32))
mh = put("mh", floats((3, 200), np.float16, 4.0))
nh = put("nh", floats((200, 2), np.float16, 4.0))
near_product("mh_nh", mh, nh)

# Network compositions.
def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# x - max rounds |x - max|, which exp makes relative; of a sum of exps that is their weighted mean.
def shifted_sizes(x, axis):
    sizes = np.abs(x - x.max(axis=axis, keepdims=True))
    return sizes, (softmax(x, axis) * sizes).sum(axis=axis, keepdims=True)


def softmax_err(x, axis):
    sizes, mean_size = shifted_sizes(x, axis)
    terms = x.shape[axis]
    # Two exps, the sum, its reciprocal, the product.
    return (sizes + mean_size + 4 * ULP["exp"] + terms - 1 + 2) * softmax(x, axis)


# Of log(sum(exp(x - max))): the relative error of the sum, and that of log.
def log_err(x, axis, terms):
    sizes, mean_size = shifted_sizes(x, axis)
    log = np.log(np.exp(-sizes).sum(axis=axis, keepdims=True))
    return mean_size + 2 * ULP["exp"] + terms - 1 + 2 * ULP["log"] * log


wide = x.astype(d)
near("x_softmax", softmax(wide, -1), softmax_err(wide, -1))
near("x_softmax_0", softmax(wide, 0), softmax_err(wide, 0))
exact = np.log(softmax(wide, 1))
near("x_log_softmax", exact,
     shifted_sizes(wide, 1)[0] + log_err(wide, 1, 4) + np.abs(exact))  # the last: the difference
exact = np.log(np.exp(wide).sum(axis=(0, 2)))
rows = wide.transpose(1, 0, 2).reshape(4, 15)
near("x_logsumexp", exact, log_err(rows, 1, 15)[:, 0] + np.abs(exact))
g = put("g", floats((5,)))
h = put("h", floats((5,)))


# (x - mean) / sqrt(var + eps). The mean is off by `terms` roundings of mean(|x|); those of
# var + eps (eps is rounded and added) are halved by the root; difference, root, reciprocal,
# product: four.
def layernorm(x, axis, eps):
    terms = x.size // x.mean(axis).size
    scale = 1 / np.sqrt(x.var(axis, keepdims=True) + eps)
    y = (x - x.mean(axis, keepdims=True)) * scale
    mean_err = terms * np.abs(x).mean(axis, keepdims=True)
    return y, mean_err * scale + ((var_roundings(terms) + 2) / 2 + 4) * np.abs(y)


y, err = layernorm(wide, -1, 1e-5)
exact = y * g.astype(d) + h.astype(d)
near("x_layernorm", exact, err * np.abs(g) + np.abs(y * g) + np.abs(exact))
near("x_layernorm2", *layernorm(wide, (1, 2), 1e-3))
exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * g.astype(d)
# Square, sum, division, eps twice: 5 - 1 + 4, halved by the root; root, reciprocal, two products.
near("x_rmsnorm", exact, ((5 + 3) / 2 + 4) * np.abs(exact))


def conv2d(x, w, stride, pad, dilation, groups):
    x = np.pad(x, [(0, 0), (0, 0), *pad])
    kh, kw = w.shape[2:]
    oh = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((x.shape[0], w.shape[0], oh, ow), x.dtype)
    cg, og = x.shape[1] // groups, w.shape[0] // groups
    for o in range(w.shape[0]):
        c0 = o // og * cg
        for i in range(oh):
            for j in range(ow):
                r, c = i * stride[0], j * stride[1]
                patch = x[:, c0:c0 + cg, r:r + dilation[0] * (kh - 1) + 1:dilation[0],
                          c:c + dilation[1] * (kw - 1) + 1:dilation[1]]
                out[:, o, i, j] = (patch * w[o]).sum(axis=(1, 2, 3))
    return out


image = put("image", ints((2, 4, 7, 6), np.float32, -9, 10))
kernel = put("kernel", ints((6, 4, 3, 2), np.float32, -9, 10))
grouped = put("grouped", ints((6, 2, 2, 3), np.float32, -9, 10))
bias = put("bias", ints((6,), np.float32, -9, 10))
put("conv_plain", conv2d(image, kernel, (1, 1), [(0, 0), (0, 0)], (1, 1), 1))
put("conv_full", conv2d(image, grouped, (2, 1), [(1, 0), (2, 3)], (2, 2), 2)
    + bias.reshape(1, 6, 1, 1))


def pool(x, kernel, stride, pad, dilation, ceil_mode, how):
    n, c, h, w = x.shape
    out_dims = []
    for i, dim in enumerate((h, w)):
        room = dim + sum(pad[i]) - dilation[i] * (kernel[i] - 1) - 1
        count = room // stride[i] + 1
        if ceil_mode and room % stride[i] and count * stride[i] < dim + pad[i][0]:
            count += 1
        out_dims.append(count)
    out = np.zeros((n, c, *out_dims), np.float64)
    for i in range(out_dims[0]):
        for j in range(out_dims[1]):
            rows = [i * stride[0] - pad[0][0] + k * dilation[0] for k in range(kernel[0])]
            cols = [j * stride[1] - pad[1][0] + k * dilation[1] for k in range(kernel[1])]
            inside = [(r, s) for r in rows for s in cols if 0 <= r < h and 0 <= s < w]
            padded = [(r, s) for r in rows for s in cols
                      if r < h + pad[0][1] and s < w + pad[1][1]]
            values = np.stack([x[:, :, r, s] for r, s in inside], -1)
            if how == "max":
                out[:, :, i, j] = values.max(-1)
            elif how == "mean":
                out[:, :, i, j] = values.mean(-1)
            else:
                out[:, :, i, j] = values.sum(-1) / len(padded)
    return out


put("pool_max", pool(image, (2, 3), (2, 3), [(0, 0), (0, 0)], (1, 1), False, "max")
    .astype(np.float32))
put("pool_max_full", pool(image, (3, 2), (2, 2), [(1, 2), (0, 1)], (1, 2), True, "max")
    .astype(np.float32))


# Sums of integers, exact; one division, or a reciprocal and a product.
def near_average(name, exact):
    near(name, exact, 2 * np.abs(exact))


near_average("pool_avg", pool(image, (2, 2), (2, 2), [(0, 0), (0, 0)], (1, 1), False, "mean"))
near_average("pool_avg_full", pool(image, (3, 2), (2, 2), [(1, 2), (0, 1)], (1, 1), True, "mean"))
near_average("pool_avg_pad", pool(image, (3, 2), (2, 2), [(1, 2), (0, 1)], (1, 1), True,
                                  "mean_pad"))

# Creation.
put("arange_int", np.arange(3, 20, 4))
put("arange_down", np.arange(10, -5, -3, dtype=np.int8))
put("arange_float", np.arange(0.5, 3.25, 0.25, dtype=np.float64).astype(np.float32))
put("linspace", np.linspace(-1, 2, 7).astype(np.float32))
put("linspace_open", np.linspace(-1, 2, 7, endpoint=False).astype(np.float32))
put("eye", np.eye(3, 5, 1, dtype=np.float32))
