// The kernel level (.tk): statements over buffers with axes. One language from what schedule/ hands
// over (2a: a list of Comps, movement gone, nothing said about execution) to the nest that codegen
// makes of it (2b: every axis placed). Expressions are Nodes, statements a tree of plain values.
// Text form: ir/kernel_text.h; rules: ir/kernel_verify.h; meaning: ir/eval_kernel.h, docs/ir.md.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon {

/// What is allowed of an axis. kPar: points in any order, results in distinct places; kRed:
/// combined by the Comp's operator in an order that the Plan chooses; kScan: combined in order.
enum class AxisKind : uint8_t { kPar = 1, kRed = 2, kScan = 3 };

/// What is done with an axis; kNone until a Plan says (kernel 2a).
enum class Role : uint8_t { kNone = 0, kGrid, kLane, kSeq, kUnroll, kVec, kUnit };

/// Where a buffer lives. kGlobal: a parameter; kGroup: shared by the lanes of one work-group while
/// it runs (one lane on a CPU: the worker's scratch); kReg: private to a lane, indexed by constants
/// once unrolled; kNone: a tmp without a place yet (kernel 2a).
enum class Scope : uint8_t { kNone = 0, kGlobal, kGroup, kReg };

enum class BufferAccess : uint8_t { kIn = 1, kOut, kInOut, kTmp };

enum class StoreKind : uint8_t { kNormal = 0, kNonTemporal };

/// One piece of a layout, outer to inner: `extent` values of dimension `dim`, then `pad` unused
/// elements. Pieces of one dimension split it: the innermost counts single steps, the next one
/// counts steps of the innermost's extent, and so on; their product is at least the dimension.
struct LayoutPart {
  int dim = 0;
  int64_t extent = 0;
  int64_t pad = 0;
  friend bool operator==(const LayoutPart&, const LayoutPart&) = default;
};

struct BufferDecl {
  std::string name;
  DType dtype = DType::kF32;
  Shape dims{};
  BufferAccess access = BufferAccess::kTmp;
  Scope scope = Scope::kNone;
  std::vector<LayoutPart> layout{};  ///< empty: row-major, no padding
  int64_t align_bytes = 0;           ///< 0: the dtype's size
  friend bool operator==(const BufferDecl&, const BufferDecl&) = default;
};

/// A run-time number passed to the kernel (a symbolic size), bounded: min <= value <= max.
struct ScalarDecl {
  std::string name;
  DType dtype = DType::kI64;
  int64_t min = 0;
  int64_t max = 0;
  friend bool operator==(const ScalarDecl&, const ScalarDecl&) = default;
};

/// An axis where it is bound. `axis` is a kAxis Node; `dim` is the grid or lane dimension.
struct AxisUse {
  Node axis;
  Role role = Role::kNone;
  int dim = 0;
  friend bool operator==(const AxisUse&, const AxisUse&) = default;
};

struct Stmt;
using Body = std::vector<Stmt>;

/// For all points of `axes` at which every guard holds: dst[index] = value, or, with `combine`,
/// dst[index] = combine(dst[index], value). A Comp with axes is a perfect loop nest.
/// With `start`, a reduction sets dst to it first, at all points of the axes that `index` uses.
/// With `start` and kScan axes, a running value begins with `start` at each point of the other
/// axes, takes `value` at each point of the scan axes in order, and is stored at `index` each time.
/// An axis with role kLane here is the lane number of its dimension; lanes beyond its extent idle.
struct Comp {
  int dst = 0;              ///< number of the buffer in Kernel::buffers
  std::vector<Node> index;  ///< one idx expression per dimension
  Node value;               ///< of the buffer's dtype
  std::optional<Op> combine;
  Node start;  ///< with combine in 2a: dst begins with this constant; null: dst is updated
  std::vector<AxisUse> axes;  ///< outer to inner
  std::vector<Node> guard;    ///< conjuncts `lt(idx, idx)`: the shape of tails, never meaning
  StoreKind store = StoreKind::kNormal;
};

/// A sequential loop over one kSeq axis. `extent` (idx, of outer axes and scalars, never of lanes)
/// may be smaller than the axis's own extent, which bounds it; it is never null.
// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
struct For {
  AxisUse axis;
  Node extent;
  Body body;
};

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
struct If {
  Node condition;  ///< bool, of idx comparisons
  Body then_body;
  Body else_body;
};

/// The buffer lives to the end of the enclosing body.
struct Alloc {
  int buffer = 0;
};

/// dst[dst_index] = the elements of `src` over `axes` (kUnroll, kVec, kLane), combined with `op` in
/// the fixed halving tree (h = ceil(n/2), item i takes i+h for i < n-h, repeat): first over the
/// unroll axes, then vec, then lane; axes of one role are one list of items in row-major order.
/// Axes that `dst_index` uses are not folded but looped over. After a fold over lanes, all of them
/// have the result. Lane axes here are those of Kernel::lanes.
struct Combine {
  int dst = 0;
  std::vector<Node> dst_index;
  int src = 0;
  std::vector<Node> src_index;
  Op op = Op::kAdd;
  std::vector<AxisUse> axes;
  std::optional<int> via;  ///< with lane axes: a group buffer with an element for each lane
};

/// All lanes of the group arrive before any goes on.
struct Barrier {};

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
struct Stmt {
  std::variant<Comp, For, If, Alloc, Combine, Barrier> node;
};

struct Kernel {
  std::string name;
  std::vector<BufferDecl> buffers;      ///< parameters first, in the order of the signature
  std::vector<ScalarDecl> scalars;      ///< parameters too, after the buffers
  std::vector<std::string> axis_names;  ///< by axis id; what the text form prints
  std::vector<AxisUse> grid;            ///< kGrid axes, by dimension; empty in 2a
  std::vector<AxisUse> lanes;           ///< kLane axes, by dimension
  Body body;

  bool is_nest = false;  ///< 2b: printed as `nest`, roles and scopes are complete

  /// Number of buffers that are parameters: those that are not kTmp.
  int num_parameters() const;
  /// A new axis with the next free id.
  Node add_axis(std::string axis_name, int64_t extent, AxisKind kind);
  int add_buffer(BufferDecl decl);
};

// --- expressions (all scalar: empty shape) -------------------------------------------------------

Node make_axis(int64_t id, int64_t extent, AxisKind kind);
inline int64_t axis_id(const Node& axis) {
  return axis.attr(0);
}
inline int64_t axis_extent(const Node& axis) {
  return axis.attr(1);
}
inline AxisKind axis_kind(const Node& axis) {
  return static_cast<AxisKind>(axis.attr(2));
}

/// A kernel parameter as an idx expression, min <= value <= max.
Node make_scalar(int64_t number, int64_t min, int64_t max);

Node idx_const(int64_t value);
/// A constant of a storage dtype from its bit pattern, brought to the canonical 64-bit form of
/// ir/eval_op.h (signed integers sign-extended, all else zero-extended).
Node bits_const(DType dtype, uint64_t bits);
/// A constant from a number: rounded to the dtype as a cast of the f64 (or integer) would.
Node number_const(DType dtype, double value);
Node int_const(DType dtype, int64_t value);
bool is_const(const Node& node);
/// Canonical 64-bit pattern of a constant; for kIdx the value itself as int64.
uint64_t const_bits(const Node& node);
inline int64_t idx_value(const Node& node) {
  return static_cast<int64_t>(const_bits(node));
}

/// Why `op` cannot be applied to `srcs` (arity, dtypes); nothing if it can.
std::optional<std::string> why_not_expr(Op op, std::span<const Node> srcs);
/// Elementwise op on kernel expressions; the result's dtype follows op.def's rule. Asserts the
/// rule. For idx: add, sub, mul, floordiv, floormod, min, max, lt, le, eq, ne, where.
Node make_expr(Op op, std::span<const Node> srcs);
Node make_expr(Op op, const Node& a);
Node make_expr(Op op, const Node& a, const Node& b);
Node make_expr(Op op, const Node& a, const Node& b, const Node& c);
Node make_cast(const Node& value, DType dtype);
Node make_bitcast(const Node& value, DType dtype);

/// buffer[index...] (idx, or an integer dtype once indices have a width); with a gate (bool): `alt`
/// where it is false, and the memory is not touched. Attributes: buffer number, rank, gated (0 or
/// 1). A load Node is a description, evaluated when its statement runs.
Node make_load(int buffer, DType dtype, std::span<const Node> index);
Node make_gated_load(int buffer, DType dtype, std::span<const Node> index, const Node& gate,
                     const Node& alt);
struct LoadParts {
  int buffer;
  std::span<const Node> index;
  bool gated;
  Node gate;  ///< null if not gated
  Node alt;
};
LoadParts load_parts(const Node& load);

/// The neutral element of a combining op in a dtype: add +0, mul 1, max the lowest value (-inf for
/// floats, -448 for e4m3fn), min the highest, and all ones, or 0.
Node identity_of(Op op, DType dtype);

/// The expression with nodes replaced (`from` -> `to`), bottom-up and iterative; unchanged parts
/// stay shared. Loads are rebuilt when an index changes.
Node substitute(const Node& expr, std::span<const std::pair<Node, Node>> replacements);

/// One summand of an offset: ((index[dim] / divisor) mod modulus) * stride, in elements; modulus 0
/// means none.
struct LayoutTerm {
  int dim = 0;
  int64_t divisor = 1;
  int64_t modulus = 0;
  int64_t stride = 1;
};
struct LayoutTerms {
  std::vector<LayoutTerm> terms;  ///< by layout part, outer to inner
  int64_t num_elements = 1;
};
/// Why the layout does not hold the buffer's dims, or does not fit 64 bits; nothing if it does.
std::optional<std::string> why_not_layout(const BufferDecl& buffer);
/// The layout as numbers; asserts that it is one.
LayoutTerms layout_terms(const BufferDecl& buffer);

/// Offset in elements of `index` in the buffer's layout, as an idx expression, and the number of
/// elements that the layout takes.
Node layout_offset(const BufferDecl& buffer, std::span<const Node> index);
int64_t layout_num_elements(const BufferDecl& buffer);

}  // namespace tenon
