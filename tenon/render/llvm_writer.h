// LlvmWriter: prints one linear program as LLVM IR. Private to render/; split by concept: llvm.cpp
// (types, constants, the function), llvm_control.cpp (names, loops, branches), llvm_ops.cpp
// (elementwise, casts, vectors), llvm_memory.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/render/renderer.h"

namespace tenon::detail {

/// Values have names without a dot; what an instruction needs on the way to its result is named
/// after the result with a dot and a letter, blocks with a dot and a word. A constant is printed
/// where it is used.
class LlvmWriter {
 public:
  LlvmWriter(const LinearProgram& program, const Target& target);
  LlvmWriter(const LlvmWriter&) = delete;
  LlvmWriter& operator=(const LlvmWriter&) = delete;

  /// Once per writer.
  RenderedSource write();

 private:
  // --- llvm.cpp: types, constants, the function --------------------------------------------------

  std::string type_text(const LinearType& type) const;
  std::string type_text(DType dtype, int lanes) const {
    return type_text(value_type(dtype, lanes));
  }
  std::string suffix_text(const LinearType& type) const;  ///< "v16f32"
  std::string scalar_constant(DType dtype, uint64_t bits) const;
  std::string constant_text(const LinearType& type, uint64_t bits) const;
  void print_entry();
  void print_param(const Inst& inst);
  void print_alloc(InstId id);
  void print_grid_id(const Inst& inst);

  // --- llvm_control.cpp: names, loops, branches --------------------------------------------------

  void name_values();
  std::string unique_name(std::string_view wish);
  /// "%name", or the constant itself.
  std::string operand_text(ValueId value) const;
  std::string operand_text(const Inst& inst, size_t position) const {
    return operand_text(program_.operands_of(inst)[position]);
  }
  const LinearType& operand_type(const Inst& inst, size_t position) const {
    return program_.type_of(program_.operands_of(inst)[position]);
  }
  /// The bits of a constant, or nothing.
  const uint64_t* constant_bits(ValueId value) const;
  const Inst& yield_of(RegionId region) const;

  template <typename... Parts>
  void line(const Parts&... parts) {
    append(body_, "  ", parts..., '\n');
  }
  void open_block(const std::string& label);
  void branch_to(const std::string& label);
  void print_phi(ValueId value, const std::string& name, std::span<const std::string> values,
                 std::span<const std::string> blocks);
  void print_region(RegionId region);
  void print_inst(InstId id);
  void print_for(InstId id);
  void print_if(InstId id);
  [[noreturn]] void fail_unsupported(std::string_view what) const;

  // --- llvm_ops.cpp ------------------------------------------------------------------------------

  void print_elementwise(const Inst& inst, const std::string& name);
  bool is_safe_constant(const Inst& inst) const;
  void expand(std::string_view text, const LinearType& type, const std::string& name,
              std::span<const std::string> operands);
  void print_cast(const Inst& inst, const std::string& name);
  void print_float_to_int(const LinearType& from, const LinearType& to, const std::string& name,
                          const std::string& value);
  void print_bitcast(const LinearType& from, const LinearType& to, const std::string& name,
                     const std::string& value);
  void print_alias(const LinearType& type, const std::string& name, const std::string& value);
  void print_vector(const Inst& inst, const std::string& name);
  void print_ramp(const Inst& inst, const std::string& name);
  void print_first_n(const Inst& inst, const std::string& name);
  void print_shuffle(const Inst& inst, const std::string& name);
  void print_mma(const Inst& inst, const std::string& name);
  void print_tile(const Inst& inst, const std::string& name);
  void print_lanes(const LinearType& type, const std::string& name,
                   std::span<const std::string> scalars);
  std::string splat(ValueId scalar, int lanes, const std::string& name);

  // --- llvm_memory.cpp ---------------------------------------------------------------------------

  LinearType in_memory(const LinearType& type) const;
  std::string address(const Inst& inst, const std::string& name);
  std::string gated_block(const Inst& inst, const std::string& name);
  void print_load(const Inst& inst, const std::string& name);
  void print_vector_load(const Inst& inst, const std::string& name, ValueId mask);
  void print_store(const Inst& inst, const std::string& name);
  void print_vector_store(const Inst& inst, const std::string& name, ValueId mask);
  std::string opaque_mask(const std::string& name, int lanes, const std::string& mask);
  void print_prefetch(const Inst& inst, const std::string& name);
  void print_atomic(const Inst& inst, const std::string& name);

  const LinearProgram& program_;
  const Target& target_;
  std::string entry_;
  std::string body_;
  std::string block_;               ///< label of the block that is being printed
  std::vector<std::string> names_;  ///< by value, without %
  std::set<std::string> used_names_;
  bool streams_ = false;  ///< it has non-temporal stores
};

}  // namespace tenon::detail
