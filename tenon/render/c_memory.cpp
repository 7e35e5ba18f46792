// Loads, stores and atomics in C11 with Clang's vectors: one helper per type, alignment and kind of
// access. Memory is reached through may_alias types, for a buffer may be read as any dtype.
// SPDX-License-Identifier: MIT

#include <bit>

#include "tenon/base/error.h"
#include "tenon/render/c_writer.h"

namespace tenon::detail {

namespace {

/// `text` once per lane, with the lane's number for each @.
std::string per_lane(int lanes, std::string_view text, std::string_view separator) {
  std::string out;
  for (int lane = 0; lane < lanes; ++lane) {
    if (lane > 0) out += separator;
    for (const char c : text) {
      if (c == '@') {
        append(out, lane);
      } else {
        out += c;
      }
    }
  }
  return out;
}

}  // namespace

/// Elements in memory: any dtype may lie there, so they alias; a bool is a byte.
std::string CWriter::memory_type(DType dtype) {
  const std::string type = type_text(value_type(dtype == DType::kBool ? DType::kU8 : dtype));
  add_type(concat("typedef ", type, " mem_", type, " __attribute__((may_alias));"));
  return "mem_" + type;
}

std::string CWriter::aligned_type(const LinearType& type, int64_t align) {
  const std::string plain = type_text(type);
  const std::string name = concat('a', align, '_', plain);
  add_type(
      concat("typedef ", plain, ' ', name, " __attribute__((may_alias, aligned(", align, ")));"));
  return name;
}

/// "p[i + 16ll]"; the 64-bit offset widens a narrow index before it is added. Of a gather or
/// scatter the element that the indices count from.
std::string CWriter::element_text(const Inst& inst) {
  const bool has_offset = inst.op != Op::kAtomic && inst.imm != 0;
  const std::string offset =
      has_offset ? constant_text(value_type(DType::kI64), static_cast<uint64_t>(inst.imm)) : "0";
  const std::string pointer = operand_text(inst, 0);
  if (operand_type(inst, 1).lanes > 1) return concat(pointer, '[', offset, ']');
  const std::string index = operand_text(inst, 1);
  return concat(pointer, '[', index, has_offset ? concat(" + ", offset) : "", ']');
}

std::string CWriter::load_text(const Inst& inst) {
  const ValueId gate = gate_of(program(), inst);
  const bool is_gated = gate != kNoId && program().type_of(gate).lanes == 1;
  const bool is_mask = inst.type.lanes > 1 && inst.type.dtype == DType::kBool;
  std::string text;
  if (inst.type.lanes == 1) {
    text = element_text(inst);
    if (inst.type.dtype == DType::kBool) text += " != 0";
    if (is_gated && inst.type.dtype == DType::kBool) text = concat('(', text, ')');
  } else {
    text = vector_load(inst);
  }
  if (is_gated) {
    std::string alt = operand_text(alt_of(program(), inst));
    if (is_mask) {  // a scalar cannot choose between masks, but between their bytes
      const LinearType bytes = value_type(DType::kU8, inst.type.lanes);
      alt = concat("__builtin_convertvector(", alt, ", ", type_text(bytes), ')');
    }
    text = concat(operand_text(gate), " ? ", text, " : ", alt);
  }
  if (!is_mask) return text;
  return concat("__builtin_convertvector(", text, ", ", type_text(inst.type), ')');
}

VectorAccess CWriter::describe_access(const Inst& inst, const LinearType& moved) {
  VectorAccess access;
  const int lanes = moved.lanes;
  access.is_mask = moved.dtype == DType::kBool;
  access.in_memory = access.is_mask ? value_type(DType::kU8, lanes) : moved;
  access.element = value_type(access.in_memory.dtype);
  access.index = operand_type(inst, 1);
  access.type = type_text(access.in_memory);
  access.mask_type = type_text(value_type(DType::kBool, lanes));
  access.align = effective_align(inst);
  access.is_indexed = access.index.lanes > 1;
  access.has_builtin = std::has_single_bit(static_cast<unsigned>(lanes)) &&
                       (!access.is_indexed || is_signed_int(access.index.dtype));
  access.call = "&" + element_text(inst);
  if (access.is_indexed) {
    const std::string index_type = type_text(access.index);
    access.name = concat(index_type, '_', access.type);
    append(access.parameters, ", ", index_type, " i");
    append(access.call, ", ", operand_text(inst, 1));
  } else {
    access.name = concat('a', access.align, '_', access.type);
  }
  const ValueId gate = gate_of(program(), inst);
  if (gate != kNoId && program().type_of(gate).lanes > 1) {
    access.gate = operand_text(gate);
    append(access.parameters, ", ", access.mask_type, " mask");
    append(access.call, ", ", access.gate);
  }
  return access;
}

/// A vector as it lies in memory: a mask's bytes.
std::string CWriter::vector_load(const Inst& inst) {
  const VectorAccess access = describe_access(inst, inst.type);
  const std::string& type = access.type;
  const std::string place = access.is_indexed ? "p[i[@]]" : "p[@]";
  std::string parameters = access.parameters;
  std::string call = access.call;
  if (access.is_masked()) {
    const std::string alt = operand_text(alt_of(program(), inst));
    append(parameters, ", ", type, " alt");
    append(call, ", ",
           access.is_mask ? concat("__builtin_convertvector(", alt, ", ", type, ')') : alt);
  }
  std::string value;
  if (!access.has_builtin) {
    value = per_lane(inst.type.lanes,
                     access.is_masked() ? concat("mask[@] ? ", place, " : alt[@]") : place, ", ");
    value = concat('(', type, "){", value, '}');
  } else if (access.is_indexed) {
    value = access.is_masked()
                ? "__builtin_masked_gather(mask, i, p, alt)"
                : concat("__builtin_masked_gather((", access.mask_type, ")1, i, p, (", type, ")0)");
  } else if (access.is_masked()) {
    value = concat("__builtin_masked_load(mask, (const ",
                   aligned_type(access.element, access.align), " *)p, alt)");
  } else {
    value = concat("*(const ", aligned_type(access.in_memory, access.align), " *)p");
  }
  const std::string name = concat(access.is_masked() ? "masked_" : "",
                                  access.is_indexed ? "gather_" : "load_", access.name);
  add_function(concat("HELPER ", type, ' ', name, "(const ", memory_type(access.element.dtype),
                      " *p", parameters, ") {\n  return ", value, ";\n}"),
               access.in_memory, access.in_memory);
  return concat(name, '(', call, ')');
}

std::string CWriter::store_text(const Inst& inst) {
  const ValueId gate = gate_of(program(), inst);
  const LinearType& type = operand_type(inst, 2);
  const std::string text = type.lanes == 1
                               ? concat(element_text(inst), " = ", operand_text(inst, 2), ';')
                               : vector_store(inst);
  if (gate == kNoId || program().type_of(gate).lanes > 1) return text;
  return concat("if (", operand_text(gate), ") ", text);
}

std::string CWriter::vector_store(const Inst& inst) {
  const LinearType& moved = operand_type(inst, 2);
  const VectorAccess access = describe_access(inst, moved);
  const std::string place = access.is_indexed ? "p[i[@]]" : "p[@]";
  const int64_t element_bytes = dtype_size_bytes(access.element.dtype);
  // clang 22.1 scales the index of __builtin_masked_scatter by the size of the index.
  const bool is_scaled =
      !access.is_indexed || dtype_size_bytes(access.index.dtype) == element_bytes;
  const bool streams = inst.nt && !access.is_masked() && !access.is_indexed && access.has_builtin &&
                       access.align >= moved.lanes * element_bytes;
  std::string body;
  if (!access.has_builtin || !is_scaled) {
    body =
        per_lane(moved.lanes,
                 concat(access.is_masked() ? "if (mask[@]) " : "", place, " = value[@];"), "\n  ");
  } else if (access.is_indexed) {
    body = concat("__builtin_masked_scatter(",
                  access.is_masked() ? "mask" : concat('(', access.mask_type, ")1"),
                  ", i, value, p);");
  } else if (access.is_masked()) {
    // An `and` with what clang cannot fold: LLVM 22 turns a narrowing store under a constant mask
    // of one lane into a store of the wide element (X86, reduceMaskedStoreToScalarStore).
    if (element_bytes < (is_int(access.element.dtype) ? 8 : 4)) {
      body = concat("unsigned char zero = 0;\n  __asm__(\"\" : \"+r\"(zero));\n  ",
                    "mask = mask & (", access.mask_type, ")(_Bool)(zero == 0);\n  ");
    }
    append(body, "__builtin_masked_store(mask, value, (",
           aligned_type(access.element, access.align), " *)p);");
  } else {
    const std::string aligned = aligned_type(access.in_memory, access.align);
    body = streams ? concat("__builtin_nontemporal_store(value, (", aligned, " *)p);")
                   : concat("*(", aligned, " *)p = value;");
  }
  const std::string_view kind = access.is_indexed ? "scatter_" : streams ? "stream_" : "store_";
  const std::string name = concat(access.is_masked() ? "masked_" : "", kind, access.name);
  add_function(concat("HELPER void ", name, '(', memory_type(access.element.dtype), " *p",
                      access.parameters, ", ", access.type, " value) {\n  ", body, "\n}"),
               access.in_memory, access.in_memory);
  const std::string value = operand_text(inst, 2);
  return concat(
      name, '(', access.call, ", ",
      access.is_mask ? concat("__builtin_convertvector(", value, ", ", access.type, ')') : value,
      ");");
}

std::string CWriter::prefetch_text(const Inst& inst) {
  return concat("__builtin_prefetch(&", element_text(inst), ");");
}

std::string CWriter::atomic_text(const Inst& inst) {
  const auto word = [&]() -> std::string_view {
    const auto op = static_cast<Op>(inst.imm);
    if (op == Op::kAdd) return "add";
    if (op == Op::kMin) return "min";
    if (op == Op::kMax) return "max";
    if (op == Op::kAnd) return "and";
    if (op == Op::kOr) return "or";
    if (op == Op::kXor) return "xor";
    fail_unsupported(concat("atomic ", op_name(op), " has no instruction"));
  };
  if (!is_int(inst.type.dtype)) {
    fail_unsupported(
        concat("atomics are for integers, this one is of ", dtype_name(inst.type.dtype)));
  }
  return concat("__atomic_fetch_", word(), "(&", element_text(inst), ", ", operand_text(inst, 2),
                ", __ATOMIC_RELAXED)");
}

}  // namespace tenon::detail
