// Kernel expressions as flat programs over slots, for eval_kernel: compiled once per statement, run
// at each point of its axes without recursion or look-ups. Instructions that do not depend on inner
// axes run only when an outer one moves. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"

namespace tenon::detail {

/// A buffer while a kernel runs; `data` is that of the current lane.
struct EvalBuffer {
  const BufferDecl* decl = nullptr;
  std::vector<LayoutTerm> terms;
  std::byte* data = nullptr;
  std::byte* storage = nullptr;  ///< of lane 0
  int64_t lane_bytes = 0;        ///< 0 if lanes share it
  int64_t size_bytes = 0;        ///< of one lane
};

/// All numbers of a running kernel. Slots 0.. hold axes and scalars, then constants and results.
struct EvalState {
  const Kernel* kernel = nullptr;
  std::vector<ScalarBits> slots;
  std::vector<EvalBuffer> buffers;
  std::unordered_map<int64_t, uint32_t> axis_slots;  ///< by axis id; used when compiling
  std::vector<uint32_t> scalar_slots;

  uint32_t add_slot(ScalarBits value);
  uint32_t axis_slot(const Node& axis);

  std::byte* element(int buffer, const uint32_t* index_slots, const char* what) const;
  [[noreturn]] void fail_eval(const std::string& message) const;
};

ScalarBits read_element(const std::byte* data, DType dtype);
void write_element(std::byte* data, DType dtype, ScalarBits bits);

struct EvalInstr {
  Op op = Op::kConst;
  DType dtype = DType::kF32;  ///< of the last source: what eval_op wants; of a load: its own
  DType to = DType::kF32;     ///< of a cast: the result's
  uint8_t num_srcs = 0;
  bool is_idx = false;
  uint32_t dst = 0;
  uint32_t srcs[kMaxScalarOperands] = {};  ///< of a load: first index slot in load_slots, gate, alt
  int buffer = 0;
  bool gated = false;
};

/// The expressions of one statement.
class EvalProgram {
 public:
  /// Roots whose bit in `guards` is set must be true for `run` to go on past them. `levels` are the
  /// axes of the statement, outer to inner.
  EvalProgram() = default;
  EvalProgram(EvalState& state, std::span<const Node> guards, std::span<const Node> roots,
              std::span<const Node> levels);

  /// Runs what depends on axes `from_level`.. (0: everything); false if a guard does not hold.
  bool run(EvalState& state, size_t from_level) const;
  /// The slot of a root.
  uint32_t slot(size_t root) const { return root_slots_[root]; }
  const uint32_t* slots() const { return root_slots_.data(); }

 private:
  EvalInstr make_instr(EvalState& state, const Node& node);
  void step(EvalState& state, const EvalInstr& instr) const;

  std::vector<EvalInstr> instrs_;      // by level, then those that read memory
  std::vector<uint32_t> level_begin_;  // first instruction of each level
  uint32_t memory_of_roots_ = 0;       // where those begin that run only if all guards hold
  std::vector<uint32_t> guard_slots_;
  std::vector<uint32_t> root_slots_;
  std::vector<uint32_t> load_slots_;
  std::unordered_map<const void*, uint32_t> slot_of_;  // by node; emptied after compiling
};

}  // namespace tenon::detail
