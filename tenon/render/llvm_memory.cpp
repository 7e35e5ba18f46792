// Loads, stores and atomics in LLVM IR. Memory may be read as any dtype and buffers may overlap, so
// nothing is said of aliasing; a bool is a byte. Offsets wrap (no inbounds), alignments are the
// instruction's. SPDX-License-Identifier: MIT

#include <bit>

#include "tenon/base/error.h"
#include "tenon/render/llvm_writer.h"

namespace tenon::detail {

LinearType LlvmWriter::in_memory(const LinearType& type) const {
  return type.dtype == DType::kBool ? value_type(DType::kU8, type.lanes) : type;
}

/// The address of a scalar index, or the addresses of a vector of them. An index is sign-extended
/// to 64 bits before the offset is added.
std::string LlvmWriter::address(const Inst& inst, const std::string& name) {
  const LinearType& index = operand_type(inst, 1);
  const std::string element = type_text(in_memory(value_type(operand_type(inst, 0).dtype)));
  const int64_t offset = inst.op == Op::kAtomic ? 0 : inst.imm;
  std::string pointer = operand_text(inst, 0);
  const uint64_t* bits = constant_bits(program_.operands_of(inst)[1]);
  if (bits != nullptr && index.lanes == 1) {
    const auto at = static_cast<int64_t>(*bits + static_cast<uint64_t>(offset));
    if (at == 0) return pointer;
    line('%', name, ".a = getelementptr ", element, ", ptr ", pointer, ", i64 ", at);
    return concat('%', name, ".a");
  }
  // The offset comes first: for all accesses of one row it is folded into their addressing mode.
  line('%', name, ".a = getelementptr ", element, ", ptr ", pointer, ", ", type_text(index), ' ',
       operand_text(inst, 1));
  if (offset == 0) return concat('%', name, ".a");
  if (index.lanes > 1) {
    line('%', name, ".o = getelementptr ", element, ", <", index.lanes, " x ptr> %", name,
         ".a, i64 ", offset);
  } else {
    line('%', name, ".o = getelementptr ", element, ", ptr %", name, ".a, i64 ", offset);
  }
  return concat('%', name, ".o");
}

/// Opens the block that runs if the scalar gate holds; returns the block before it.
std::string LlvmWriter::gated_block(const Inst& inst, const std::string& name) {
  std::string before = block_;
  line("br i1 ", operand_text(gate_of(program_, inst)), ", label %", name, ".then, label %", name,
       ".end");
  open_block(name + ".then");
  return before;
}

// --- loads ---------------------------------------------------------------------------------------

void LlvmWriter::print_load(const Inst& inst, const std::string& name) {
  const ValueId gate = gate_of(program_, inst);
  const bool has_mask = gate != kNoId && program_.type_of(gate).lanes > 1;
  if (gate == kNoId || has_mask) return print_vector_load(inst, name, gate);
  const std::string before = gated_block(inst, name);
  const std::string value = name + ".v";
  print_vector_load(inst, value, kNoId);
  branch_to(name + ".end");
  const std::string end_of_then = block_;
  open_block(name + ".end");
  print_phi(inst.first_result, name,
            std::array{concat('%', value), operand_text(alt_of(program_, inst))},
            std::array{end_of_then, before});
}

void LlvmWriter::print_vector_load(const Inst& inst, const std::string& name, ValueId mask) {
  const LinearType moved = in_memory(inst.type);
  const std::string type = type_text(moved);
  const bool is_bool = inst.type.dtype == DType::kBool;
  const bool is_indexed = operand_type(inst, 1).lanes > 1;
  const std::string result = is_bool ? name + ".b" : name;
  const int64_t align = effective_align(inst);
  const std::string from = address(inst, name);
  if (mask == kNoId && !is_indexed) {
    line('%', result, " = load ", type, ", ptr ", from, ", align ", align);
  } else {
    const std::string mask_type = type_text(DType::kBool, inst.type.lanes);
    const std::string lanes = mask == kNoId
                                  ? constant_text(value_type(DType::kBool, inst.type.lanes), 1)
                                  : operand_text(mask);
    std::string alt = "zeroinitializer";  // all lanes are read
    if (mask != kNoId) alt = operand_text(alt_of(program_, inst));
    if (mask != kNoId && is_bool) {
      line('%', name, ".z = zext ", mask_type, ' ', alt, " to ", type);
      alt = concat('%', name, ".z");
    }
    const std::string suffix = suffix_text(moved);
    if (is_indexed) {
      line('%', result, " = call ", type, " @llvm.masked.gather.", suffix, ".v", inst.type.lanes,
           "p0(<", inst.type.lanes, " x ptr> align ", align, ' ', from, ", ", mask_type, ' ', lanes,
           ", ", type, ' ', alt, ')');
    } else {
      line('%', result, " = call ", type, " @llvm.masked.load.", suffix, ".p0(ptr align ", align,
           ' ', from, ", ", mask_type, ' ', lanes, ", ", type, ' ', alt, ')');
    }
  }
  if (is_bool) line('%', name, " = icmp ne ", type, " %", result, ", ", constant_text(moved, 0));
}

// --- stores --------------------------------------------------------------------------------------

void LlvmWriter::print_store(const Inst& inst, const std::string& name) {
  const ValueId gate = gate_of(program_, inst);
  const bool has_mask = gate != kNoId && program_.type_of(gate).lanes > 1;
  if (gate == kNoId || has_mask) return print_vector_store(inst, name, gate);
  gated_block(inst, name);
  print_vector_store(inst, name, kNoId);
  branch_to(name + ".end");
  open_block(name + ".end");
}

void LlvmWriter::print_vector_store(const Inst& inst, const std::string& name, ValueId mask) {
  const LinearType& given = operand_type(inst, 2);
  const LinearType moved = in_memory(given);
  const std::string type = type_text(moved);
  const bool is_indexed = operand_type(inst, 1).lanes > 1;
  const int64_t align = effective_align(inst);
  std::string value = operand_text(inst, 2);
  if (given.dtype == DType::kBool) {
    line('%', name, ".b = zext ", type_text(given), ' ', value, " to ", type);
    value = concat('%', name, ".b");
  }
  const std::string to = address(inst, name);
  if (mask == kNoId && !is_indexed) {
    const int64_t bytes = given.lanes * dtype_size_bytes(given.dtype);
    const bool streams = inst.nt && given.lanes > 1 && align >= bytes &&
                         std::has_single_bit(static_cast<uint64_t>(bytes));
    streams_ = streams_ || streams;
    return line("store ", type, ' ', value, ", ptr ", to, ", align ", align,
                streams ? ", !nontemporal !0" : "");
  }
  const std::string mask_type = type_text(DType::kBool, given.lanes);
  const std::string lanes =
      mask == kNoId ? constant_text(value_type(DType::kBool, given.lanes), 1) : operand_text(mask);
  const std::string suffix = suffix_text(moved);
  if (is_indexed) {
    line("call void @llvm.masked.scatter.", suffix, ".v", given.lanes, "p0(", type, ' ', value,
         ", <", given.lanes, " x ptr> align ", align, ' ', to, ", ", mask_type, ' ', lanes, ')');
  } else {
    const bool may_narrow = dtype_size_bytes(moved.dtype) < (is_int(moved.dtype) ? 8 : 4);
    line("call void @llvm.masked.store.", suffix, ".p0(", type, ' ', value, ", ptr align ", align,
         ' ', to, ", ", mask_type, ' ', may_narrow ? opaque_mask(name, given.lanes, lanes) : lanes,
         ')');
  }
}

/// The mask, in a form that LLVM cannot fold: LLVM 22 turns a narrowing store under a constant mask
/// of one lane into a store of the wide element (X86, reduceMaskedStoreToScalarStore).
std::string LlvmWriter::opaque_mask(const std::string& name, int lanes, const std::string& mask) {
  const std::string type = type_text(DType::kBool, lanes);
  line('%', name, ".q = call i8 asm \"\", \"=r,0\"(i8 0)");
  line('%', name, ".t = icmp eq i8 %", name, ".q, 0");
  line('%', name, ".i = insertelement ", type, " poison, i1 %", name, ".t, i32 0");
  line('%', name, ".s = shufflevector ", type, " %", name, ".i, ", type, " poison, <", lanes,
       " x i32> zeroinitializer");
  line('%', name, ".m = and ", type, ' ', mask, ", %", name, ".s");
  return concat('%', name, ".m");
}

void LlvmWriter::print_prefetch(const Inst& inst, const std::string& name) {
  const std::string at = address(inst, name);
  line("call void @llvm.prefetch.p0(ptr ", at, ", i32 0, i32 3, i32 1)");
}

void LlvmWriter::print_atomic(const Inst& inst, const std::string& name) {
  const auto word = [&]() -> std::string_view {
    const auto op = static_cast<Op>(inst.imm);
    const bool is_signed = is_signed_int(inst.type.dtype);
    if (op == Op::kAdd) return "add";
    if (op == Op::kMin) return is_signed ? "min" : "umin";
    if (op == Op::kMax) return is_signed ? "max" : "umax";
    if (op == Op::kAnd) return "and";
    if (op == Op::kOr) return "or";
    if (op == Op::kXor) return "xor";
    fail_unsupported(concat("atomic ", op_name(op), " has no instruction"));
  };
  if (!is_int(inst.type.dtype)) {
    fail_unsupported(
        concat("atomics are for integers, this one is of ", dtype_name(inst.type.dtype)));
  }
  const std::string at = address(inst, name);
  line('%', name, " = atomicrmw ", word(), " ptr ", at, ", ", type_text(inst.type), ' ',
       operand_text(inst, 2), " monotonic");
}

}  // namespace tenon::detail
