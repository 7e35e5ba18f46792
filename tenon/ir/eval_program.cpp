// Compiling and running the expressions of a statement. SPDX-License-Identifier: MIT

#include "tenon/ir/eval_program.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "tenon/base/error.h"

namespace tenon::detail {

uint32_t EvalState::add_slot(ScalarBits value) {
  slots.push_back(value);
  return static_cast<uint32_t>(slots.size() - 1);
}

uint32_t EvalState::axis_slot(const Node& axis) {
  const auto known = axis_slots.find(axis_id(axis));
  if (known != axis_slots.end()) return known->second;
  const uint32_t slot = add_slot(0);
  axis_slots.emplace(axis_id(axis), slot);
  return slot;
}

void EvalState::fail_eval(const std::string& message) const {
  std::string axes;
  for (size_t id = 0; id < kernel->axis_names.size(); ++id) {
    const auto slot = axis_slots.find(static_cast<int64_t>(id));
    if (slot == axis_slots.end()) continue;
    append(axes, axes.empty() ? "" : ", ", kernel->axis_names[id], "=",
           static_cast<int64_t>(slots[slot->second]));
  }
  fail(ErrorCode::kInternal, "eval of kernel '", kernel->name, "': ", message, "; axes ", axes);
}

std::byte* EvalState::element(int buffer, const uint32_t* index_slots, const char* what) const {
  const EvalBuffer& target = buffers[static_cast<size_t>(buffer)];
  const Shape& dims = target.decl->dims;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const auto index = static_cast<int64_t>(slots[index_slots[dim]]);
    if (index < 0 || index >= dims[dim]) [[unlikely]] {
      fail_eval(concat(what, " '", target.decl->name, "': index ", dim, " is ", index,
                       ", expected 0..", dims[dim] - 1));
    }
  }
  int64_t offset = 0;
  for (const LayoutTerm& term : target.terms) {
    auto index = static_cast<int64_t>(slots[index_slots[term.dim]]);
    if (term.divisor != 1) index /= term.divisor;
    if (term.modulus != 0) index %= term.modulus;
    offset += index * term.stride;
  }
  return target.data + offset * dtype_size_bytes(target.decl->dtype);
}

ScalarBits read_element(const std::byte* data, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, static_cast<size_t>(dtype_size_bytes(dtype)));  // little-endian host
  return canonical_bits(dtype, bits);
}

void write_element(std::byte* data, DType dtype, ScalarBits bits) {
  std::memcpy(data, &bits, static_cast<size_t>(dtype_size_bytes(dtype)));
}

namespace {

// What a node's instruction depends on: the number of levels, or memory.
constexpr size_t kMemoryLevel = SIZE_MAX;

bool is_leaf(const Node& node) {
  return node.op() == Op::kConst || node.op() == Op::kAxis || node.op() == Op::kScalar;
}

uint32_t leaf_slot(EvalState& state, const Node& node) {
  if (node.op() == Op::kConst) return state.add_slot(const_bits(node));
  if (node.op() == Op::kAxis) return state.axis_slot(node);
  return state.scalar_slots.at(static_cast<size_t>(node.attr(0)));
}

// An instruction with its place in the order of running.
struct Placed {
  size_t level;
  bool is_after_guards;
  EvalInstr instr;
  std::pair<size_t, bool> rank() const { return {level, is_after_guards}; }
};

}  // namespace

EvalInstr EvalProgram::make_instr(EvalState& state, const Node& node) {
  EvalInstr instr;
  instr.op = node.op();
  instr.dst = state.add_slot(0);
  instr.to = node.dtype();
  if (node.op() != Op::kLoad) {
    TENON_ASSERT(is_elementwise(node.op()), "eval: ", op_name(node.op()), " has no value here");
    instr.dtype = node.srcs().back().dtype();
    instr.is_idx = instr.dtype == DType::kIdx && node.op() != Op::kCast;
    instr.num_srcs = static_cast<uint8_t>(node.srcs().size());
    for (size_t i = 0; i < node.srcs().size(); ++i)
      instr.srcs[i] = slot_of_.at(node.src(i).id());
    return instr;
  }
  const LoadParts load = load_parts(node);
  TENON_ASSERT(static_cast<size_t>(load.buffer) < state.buffers.size(), "eval: a load of buffer ",
               load.buffer, " of ", state.buffers.size());
  const BufferDecl& decl = *state.buffers[static_cast<size_t>(load.buffer)].decl;
  TENON_ASSERT(load.index.size() == decl.dims.size() && decl.dtype == node.dtype(),
               "eval: a load of ", decl.name, " does not fit its declaration");
  instr.dtype = node.dtype();
  instr.buffer = load.buffer;
  instr.gated = load.gated;
  instr.srcs[0] = static_cast<uint32_t>(load_slots_.size());
  for (const Node& index : load.index)
    load_slots_.push_back(slot_of_.at(index.id()));
  if (load.gated) {
    instr.srcs[1] = slot_of_.at(load.gate.id());
    instr.srcs[2] = slot_of_.at(load.alt.id());
  }
  return instr;
}

EvalProgram::EvalProgram(EvalState& state, std::span<const Node> guards,
                         std::span<const Node> roots, std::span<const Node> levels) {
  std::vector<Node> all(guards.begin(), guards.end());
  all.insert(all.end(), roots.begin(), roots.end());
  std::unordered_set<const void*> in_guards;
  for (const Node& node : topological_order(guards))
    in_guards.insert(node.id());

  std::unordered_map<const void*, size_t> level_of;
  std::vector<Placed> placed;
  for (const Node& node : topological_order(all)) {
    size_t level = 0;
    for (const Node& src : node.srcs())
      level = std::max(level, level_of.at(src.id()));
    if (is_leaf(node)) {
      slot_of_.emplace(node.id(), leaf_slot(state, node));
      const auto found = std::find(levels.begin(), levels.end(), node);
      if (found != levels.end()) level = static_cast<size_t>(found - levels.begin()) + 1;
    } else {
      if (node.op() == Op::kLoad) level = kMemoryLevel;
      const EvalInstr instr = make_instr(state, node);
      slot_of_.emplace(node.id(), instr.dst);
      placed.push_back({level, level == kMemoryLevel && !in_guards.contains(node.id()), instr});
    }
    level_of.emplace(node.id(), level);
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.rank() < b.rank(); });
  const auto first_at = [&](std::pair<size_t, bool> rank) {
    return static_cast<uint32_t>(std::count_if(placed.begin(), placed.end(),
                                               [&](const Placed& p) { return p.rank() < rank; }));
  };
  for (size_t level = 0; level <= levels.size(); ++level)
    level_begin_.push_back(first_at({level, false}));
  memory_of_roots_ = first_at({kMemoryLevel, true});
  for (const Placed& p : placed)
    instrs_.push_back(p.instr);
  for (const Node& guard : guards)
    guard_slots_.push_back(slot_of_.at(guard.id()));
  for (const Node& root : roots)
    root_slots_.push_back(slot_of_.at(root.id()));
  slot_of_.clear();
}

bool EvalProgram::run(EvalState& state, size_t from_level) const {
  for (uint32_t i = level_begin_[from_level]; i < memory_of_roots_; ++i)
    step(state, instrs_[i]);
  for (const uint32_t guard : guard_slots_) {
    if (state.slots[guard] == 0) return false;
  }
  for (size_t i = memory_of_roots_; i < instrs_.size(); ++i)
    step(state, instrs_[i]);
  return true;
}

namespace {

int64_t eval_idx(const EvalState& state, Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  const auto floor_div = [&] {
    if (b == 0 || (b == -1 && a == INT64_MIN)) {
      overflows = true;
      return int64_t{0};
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  };
  if (op == Op::kAdd) {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (op == Op::kSub) {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (op == Op::kMul) {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else if (op == Op::kFloorDiv) {
    result = floor_div();
  } else if (op == Op::kFloorMod) {
    const int64_t quotient = floor_div();
    result = overflows ? 0 : a - quotient * b;
  } else if (op == Op::kMin) {
    result = std::min(a, b);
  } else if (op == Op::kMax) {
    result = std::max(a, b);
  } else if (op == Op::kLt) {
    result = a < b ? 1 : 0;
  } else if (op == Op::kLe) {
    result = a <= b ? 1 : 0;
  } else if (op == Op::kEq) {
    result = a == b ? 1 : 0;
  } else if (op == Op::kNe) {
    result = a != b ? 1 : 0;
  } else {
    state.fail_eval(concat(op_name(op), " of idx has no value"));
  }
  if (overflows) {
    state.fail_eval(concat(op_name(op), "(", a, ", ", b, ") of idx is outside 64 bits"));
  }
  return result;
}

}  // namespace

void EvalProgram::step(EvalState& state, const EvalInstr& instr) const {
  std::vector<ScalarBits>& slots = state.slots;
  if (instr.op == Op::kLoad) {
    slots[instr.dst] =
        instr.gated && slots[instr.srcs[1]] == 0
            ? slots[instr.srcs[2]]
            : read_element(
                  state.element(instr.buffer, load_slots_.data() + instr.srcs[0], "read of"),
                  instr.dtype);
  } else if (instr.op == Op::kCast) {
    slots[instr.dst] = eval_cast(slots[instr.srcs[0]], instr.dtype, instr.to);
  } else if (instr.op == Op::kBitcast) {
    slots[instr.dst] = eval_bitcast(slots[instr.srcs[0]], instr.dtype, instr.to);
  } else if (instr.op == Op::kWhere) {
    slots[instr.dst] = slots[instr.srcs[0]] != 0 ? slots[instr.srcs[1]] : slots[instr.srcs[2]];
  } else if (instr.is_idx) {
    slots[instr.dst] = static_cast<ScalarBits>(
        eval_idx(state, instr.op, static_cast<int64_t>(slots[instr.srcs[0]]),
                 static_cast<int64_t>(slots[instr.srcs[1]])));
  } else {
    std::array<ScalarBits, kMaxScalarOperands> args;
    for (size_t i = 0; i < instr.num_srcs; ++i)
      args[i] = slots[instr.srcs[i]];
    slots[instr.dst] = eval_op(instr.op, instr.dtype, std::span(args).first(instr.num_srcs));
  }
}

}  // namespace tenon::detail
