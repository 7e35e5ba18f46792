// Emits kernel expressions as instructions: the part of emit_linear that knows axes, scalars,
// memory and register values. What does not vary along the vec axis is a scalar and is splat at the
// last moment. No Node is made per instance: values are remembered under their Node and the
// instance coordinates that it depends on. SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tenon/codegen/emit_regs.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"

namespace tenon {

/// sum(own[i] * own axis i) + sum(rest) + offset, where own axes are those of the open Comp.
struct IndexForm {
  int64_t offset = 0;
  std::vector<int64_t> own;
  std::vector<AffineTerm> rest;  ///< those of outer loops first, so that their sum is hoisted
  uint64_t rest_axes = 0;        ///< own axes that `rest` depends on, as bits
  bool is_apart = true;          ///< `rest` fits the index width: constants can stay outside
  int64_t step = 0;              ///< gcd of the coefficients of `rest`
};

/// Where an access of one instance goes.
struct Address {
  enum class Kind : uint8_t { kScalar, kVector, kScattered };
  Kind kind = Kind::kScalar;
  ValueId index = kNoId;
  int64_t offset = 0;
  uint32_t align = 0;
};

/// A condition: the conjunction of a scalar and a mask; kNoId stands for true.
struct Gate {
  ValueId scalar = kNoId;
  ValueId mask = kNoId;
  bool is_never = false;
};

class ExprEmitter {
 public:
  ExprEmitter(const Kernel& nest, LinearProgram& program, LinearBuilder& builder, RegFile& regs,
              DType index_dtype)
      : nest_(nest), program_(program), builder_(builder), regs_(regs), index_(index_dtype) {}

  void bind_pointer(int buffer, ValueId pointer) { pointers_[buffer] = pointer; }
  void bind_scalar(int64_t number, ValueId value) { scalars_[number] = value; }
  /// An axis of the grid, or of a loop whose region was entered.
  void bind_axis(const Node& axis, ValueId value);
  ValueId pointer(int buffer) const { return pointers_.at(buffer); }

  /// The points of this Comp are emitted from now on, inside its seq loops. `axes`: its unroll and
  /// vec axes.
  void open(const Comp& comp, const std::vector<AxisUse>& axes);
  void close();
  /// The point (by axis of open(); the vec axis's entry is ignored) to emit. False if the guard is
  /// false there.
  bool move_to(const std::vector<int64_t>& point);
  int lanes() const { return vec_ < 0 ? 1 : static_cast<int>(extents_[static_cast<size_t>(vec_)]); }
  /// The guard at this point.
  const Gate& guard() const { return guard_; }

  /// The value at this point: a scalar if it does not vary along the vec axis. Loads are shared
  /// within the Comp, those of its own destination within the point.
  ValueId emit(const Node& expr);
  /// For operands of matrix units, at this point. The values along `axis`, an own axis, as a
  /// vector.
  ValueId emit_along(const Node& expr, const Node& axis);
  /// A load, maybe under bitcasts, of which the points of `axis` lie side by side, then those of
  /// the vec axis: all of them as one vector.
  ValueId emit_grouped(const Node& value, const Node& axis);
  /// Where a tile lies whose rows are the points of `row`, an own axis.
  struct TilePlace {
    ValueId pointer = kNoId;
    ValueId index = kNoId;
    ValueId stride = kNoId;
  };
  TilePlace tile_place(int buffer, const Node& index, const Node& row);
  /// The tile of `type` of unit `unit` that a load, maybe under bitcasts, reads.
  ValueId emit_tile(const Node& value, const Node& row, int unit, const LinearType& type);
  /// `op` on values of which some may be vectors; exact ops on constants are computed.
  ValueId apply(Op op, std::span<const ValueId> args);
  ValueId apply(Op op, ValueId a, ValueId b) { return apply(op, std::array{a, b}); }
  ValueId widen(ValueId value, int lanes);
  ValueId constant(const LinearType& type, uint64_t bits);
  int lanes_of(ValueId value) const { return program_.type_of(value).lanes; }

  /// Where `index` of a buffer of this dtype lies at this point.
  Address place(const Node& index, DType dtype);
  /// Coefficient of an own axis in `index`; 0 where it is not constant.
  int64_t stride(const Node& index, const Node& own_axis);
  /// The same along another own axis than the vec axis.
  Address place_along(const Node& index, DType dtype, const Node& axis);
  /// Both conditions as one operand, or kNoId.
  ValueId whole(const Gate& gate);
  /// Whether the gate holds in some lane: a scalar, or kNoId.
  ValueId any(const Gate& gate);
  /// The load itself; `gate` and `alt` as `type` needs them.
  ValueId load(const LinearType& type, int buffer, const Address& at, ValueId gate, ValueId alt);

  /// Element `element` of a register buffer: the register, or a lane of it. Asserts that it was
  /// written.
  ValueId reg_scalar(int buffer, int64_t element);
  ValueId reg_vector(int buffer, int64_t element);
  /// The element that a register index means at this point; its coefficient of the vec axis.
  int64_t reg_element(const Node& index);
  int64_t reg_stride(const Node& index);

  /// Values emitted inside a region are forgotten when it is left.
  using Mark = size_t;
  Mark enter_region();
  void leave_region(Mark mark);

 private:
  // How long a value may be shared: in the region, in the Comp, at one point of it.
  enum class Life : uint8_t { kRegion, kComp, kPoint };
  struct Info {
    uint64_t axes = 0;  // own axes that it depends on, as bits
    Life life = Life::kRegion;
    int depth = 0;  // regions around the place where its leaves are bound
  };
  struct Key {
    uint64_t what = 0;  // a node, a form, a value or bits
    uint64_t point = 0;
    int64_t kind = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  using Log = std::vector<Key>;

  void analyse(const Node& root);
  Info info_of_load(const Node& load, Info info);
  const Info& info(const Node& node) const { return infos_.at(node.id()); }
  bool is_guarded(const Node& load);
  Key key_of(const void* id, uint64_t axes, int64_t kind) const;
  Key key_of(const Node& node) const { return key_of(node.id(), info(node).axes, 0); }
  ValueId find(const Key& key) const;
  ValueId find(const Node& node) const { return find(key_of(node)); }
  void remember(const Key& key, Life life, ValueId value);
  void forget(Log& log, size_t mark);

  void push_missing(const Node& node, std::vector<const Node*>& stack);
  ValueId emit_node(const Node& node);
  ValueId emit_axis(const Node& axis);
  ValueId emit_cast(const Node& node);
  ValueId emit_first_n(const Node& compare, const IndexForm& bound);
  ValueId emit_load(const Node& load);
  ValueId emit_reg_load(const Node& load);
  ValueId emit_transposed(const Node& load, int row_axis);
  int number_of(const Node& own_axis) const;
  int transposed_axis(const Node& load);
  std::optional<ValueId> folded(Op op, std::span<const ValueId> args);
  std::optional<uint64_t> scalar_bits(ValueId value) const;

  Address address(const Node& index, DType dtype);
  const IndexForm& form_of(const Node& index);
  IndexForm make_form(const AffineForm& affine);
  const IndexForm* bound_of(const Node& compare);
  const std::optional<IndexForm>& difference_of(const Node& compare);
  std::optional<IndexForm> find_difference(const Node& compare);
  std::optional<bool> decided(const Node& node);
  bool varies(uint64_t axes) const { return vec_ >= 0 && (axes >> vec_ & 1U) != 0; }
  int64_t constant_part(const IndexForm& form) const;
  ValueId sum_of(const void* id, const IndexForm& form, DType dtype);
  uint32_t alignment(const IndexForm& form, DType dtype) const;
  void narrow(Gate& gate, ValueId condition);
  void update_guard();

  const Kernel& nest_;
  LinearProgram& program_;
  LinearBuilder& builder_;
  RegFile& regs_;
  DType index_;
  std::unordered_map<int, ValueId> pointers_;
  std::unordered_map<int64_t, ValueId> scalars_;
  std::unordered_map<int64_t, std::pair<ValueId, int>> axes_;  // value, depth
  int depth_ = 0;

  const Comp* comp_ = nullptr;
  std::vector<Node> own_axes_;  // of the open Comp
  std::vector<int64_t> extents_;
  std::vector<size_t> by_id_;  // own axes in the order of their ids
  std::vector<int64_t> point_;
  int vec_ = -1;  // own axis that is the vec axis
  uint64_t guard_axes_ = 0;
  Gate guard_;

  std::unordered_map<const void*, Info> infos_;
  std::unordered_map<const void*, IndexForm> forms_;
  std::unordered_map<const void*, std::optional<IndexForm>> differences_;
  std::unordered_map<Key, ValueId, KeyHash> values_;
  Log region_log_;
  Log comp_log_;
  Log point_log_;
  StructuralOrder order_;
  BoundsMemo bounds_;
};

}  // namespace tenon
