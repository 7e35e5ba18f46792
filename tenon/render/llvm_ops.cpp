// Elementwise ops, casts and vector ops in LLVM IR.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/render/llvm_table.h"
#include "tenon/render/llvm_writer.h"
#include "tenon/render/native_ops.h"
#include "tenon/render/unit_table.h"

namespace tenon::detail {

// --- elementwise ---------------------------------------------------------------------------------

/// A divisor that is neither 0 nor -1, a count inside the width.
bool LlvmWriter::is_safe_constant(const Inst& inst) const {
  if (inst.num_operands < 2) return false;
  const uint64_t* bits = constant_bits(program_.operands_of(inst)[1]);
  if (bits == nullptr) return false;
  const DType dtype = operand_type(inst, 1).dtype;
  if (inst.op == Op::kDiv || inst.op == Op::kMod) {
    return *bits != 0 && !(is_signed_int(dtype) && static_cast<int64_t>(*bits) == -1);
  }
  return *bits < static_cast<uint64_t>(dtype_bits(dtype));
}

void LlvmWriter::print_elementwise(const Inst& inst, const std::string& name) {
  if (const auto reason = why_not_native(program_, inst, target_)) fail_unsupported(*reason);
  if (inst.op == Op::kCast || inst.op == Op::kBitcast) return print_cast(inst, name);
  const LinearType& type = inst.op == Op::kWhere ? inst.type : operand_type(inst, 0);
  std::vector<std::string> operands;
  for (size_t i = 0; i < inst.num_operands; ++i)
    operands.push_back(operand_text(inst, i));
  const Op op = inst.op == Op::kMulAcc && target_.fuses_mulacc ? Op::kFma : inst.op;
  const bool is_safe = is_safe_constant(inst);
  for (const LlvmOpText& row : kLlvmTable) {
    if (row.op != op || (row.kinds & op_kind_of(type.dtype)) == 0) continue;
    if (row.for_safe_constant && !is_safe) continue;
    return expand(row.text, type, name, operands);
  }
  fail_unsupported(concat(op_name(inst.op), " of ", dtype_name(type.dtype), " x ", type.lanes,
                          " has no spelling in this language. Lower it before."));
}

/// Prints the lines of a template (llvm_table.h).
void LlvmWriter::expand(std::string_view text, const LinearType& type, const std::string& name,
                        std::span<const std::string> operands) {
  const auto constant = [&](int64_t value) {
    return constant_text(type, canonical_bits(type.dtype, static_cast<uint64_t>(value)));
  };
  std::string out = "  ";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      out += "\n  ";
      continue;
    }
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    const char word = text[++i];
    switch (word) {
      case 'D': append(out, '%', name); break;
      case 'T': out += type_text(type); break;
      case 'M': out += type_text(DType::kBool, type.lanes); break;
      case 'm': out += suffix_text(type); break;
      case 'z': out += constant(0); break;
      case 'o': out += constant(1); break;
      case 'n': out += constant(-1); break;
      case 'b': out += constant(dtype_bits(type.dtype) - 1); break;
      case 'B': out += constant(dtype_bits(type.dtype)); break;
      case '<': out += constant_text(type, int_min_bits(type.dtype)); break;
      default:
        TENON_ASSERT(word >= '0' && static_cast<size_t>(word - '0') < operands.size(),
                     "render: bad template ", text);
        out += operands[static_cast<size_t>(word - '0')];
    }
  }
  append(body_, out, '\n');
}

// --- conversions ---------------------------------------------------------------------------------

/// Another name for the same value.
void LlvmWriter::print_alias(const LinearType& type, const std::string& name,
                             const std::string& value) {
  const std::string text = type_text(type);
  line('%', name, " = bitcast ", text, ' ', value, " to ", text);
}

void LlvmWriter::print_cast(const Inst& inst, const std::string& name) {
  const LinearType& from = operand_type(inst, 0);
  const LinearType& to = inst.type;
  const std::string value = operand_text(inst, 0);
  if (inst.op == Op::kBitcast) return print_bitcast(from, to, name, value);
  const std::string from_text = type_text(from);
  const std::string to_text = type_text(to);
  if (to.dtype == DType::kBool && from.dtype != DType::kBool) {
    return line('%', name, is_float(from.dtype) ? " = fcmp une " : " = icmp ne ", from_text, ' ',
                value, ", ", constant_text(from, 0));
  }
  if (is_float(from.dtype) && !is_float(to.dtype)) {
    return print_float_to_int(from, to, name, value);
  }
  if (from_text == to_text) return print_alias(to, name, value);
  const bool is_wider = dtype_bits(to.dtype) > dtype_bits(from.dtype);
  std::string_view op;
  if (is_float(from.dtype)) {
    op = is_wider ? "fpext" : "fptrunc";
  } else if (is_float(to.dtype)) {
    op = is_signed_int(from.dtype) ? "sitofp" : "uitofp";
  } else if (from.dtype == DType::kBool) {
    op = "zext";
  } else {
    op = !is_wider ? "trunc" : is_signed_int(from.dtype) ? "sext" : "zext";
  }
  line('%', name, " = ", op, ' ', from_text, ' ', value, " to ", to_text);
}

/// Truncates and saturates, NaN gives 0: what fptosi leaves undefined never reaches it.
void LlvmWriter::print_float_to_int(const LinearType& from, const LinearType& to,
                                    const std::string& name, const std::string& value) {
  LinearType type = from;
  std::string x = value;
  if (from.dtype == DType::kF16) {  // 2^16 is not an f16; widening is exact
    type = value_type(DType::kF32, from.lanes);
    line('%', name, ".w = fpext ", type_text(from), ' ', x, " to ", type_text(type));
    x = concat('%', name, ".w");
  }
  const bool is_signed = is_signed_int(to.dtype);
  const int bits = dtype_bits(to.dtype);
  const auto power = [&](int exponent) {  // 2^exponent as a constant of `type`
    const int mantissa_bits = float_format(type.dtype).mantissa_bits;
    const int bias = type.dtype == DType::kF64 ? 1023 : 127;
    return static_cast<uint64_t>(exponent + bias) << mantissa_bits;
  };
  const uint64_t sign = uint64_t{1} << (dtype_bits(type.dtype) - 1);
  const std::string high = constant_text(type, power(is_signed ? bits - 1 : bits));
  const std::string low = constant_text(type, is_signed ? power(bits - 1) | sign : 0);
  const std::string t = type_text(type);
  const std::string mask = type_text(DType::kBool, to.lanes);
  const std::string result = type_text(to);
  line('%', name, ".h = fcmp oge ", t, ' ', x, ", ", high);
  line('%', name, ".l = fcmp olt ", t, ' ', x, ", ", low);
  line('%', name, ".n = fcmp uno ", t, ' ', x, ", ", x);
  line('%', name, ".o = or ", mask, " %", name, ".h, %", name, ".l");
  line('%', name, ".b = or ", mask, " %", name, ".o, %", name, ".n");
  line('%', name, ".s = select ", mask, " %", name, ".b, ", t, ' ', constant_text(type, 0), ", ", t,
       ' ', x);
  line('%', name, ".i = ", is_signed ? "fptosi " : "fptoui ", t, " %", name, ".s to ", result);
  line('%', name, ".j = select ", mask, " %", name, ".l, ", result, ' ',
       constant_text(to, int_min_bits(to.dtype)), ", ", result, " %", name, ".i");
  line('%', name, " = select ", mask, " %", name, ".h, ", result, ' ',
       constant_text(to, int_max_bits(to.dtype)), ", ", result, " %", name, ".j");
}

void LlvmWriter::print_bitcast(const LinearType& from, const LinearType& to,
                               const std::string& name, const std::string& value) {
  if (to.dtype == DType::kBool && from.dtype != DType::kBool) {
    return line('%', name, " = icmp ne ", type_text(from), ' ', value, ", ",
                constant_text(from, 0));
  }
  const bool is_widened = from.dtype == DType::kBool && to.dtype != DType::kBool;
  line('%', name, is_widened ? " = zext " : " = bitcast ", type_text(from), ' ', value, " to ",
       type_text(to));
}

// --- vectors -------------------------------------------------------------------------------------

/// A scalar in all lanes, as an operand.
std::string LlvmWriter::splat(ValueId scalar, int lanes, const std::string& name) {
  const LinearType type = value_type(program_.type_of(scalar).dtype, lanes);
  if (const uint64_t* bits = constant_bits(scalar)) return constant_text(type, *bits);
  const std::string vector = type_text(type);
  line('%', name, ".e = insertelement ", vector, " poison, ", type_text(type.dtype, 1), ' ',
       operand_text(scalar), ", i64 0");
  line('%', name, ".v = shufflevector ", vector, " %", name, ".e, ", vector, " poison, <", lanes,
       " x i32> zeroinitializer");
  return concat('%', name, ".v");
}

void LlvmWriter::print_vector(const Inst& inst, const std::string& name) {
  const LinearType& source = operand_type(inst, 0);
  const std::string a = operand_text(inst, 0);
  const bool is_same = inst.op == Op::kExtract ? source.lanes == 1 : inst.type.lanes == 1;
  if (inst.op == Op::kShuffle) return print_shuffle(inst, name);
  if (inst.op == Op::kFirstN) return print_first_n(inst, name);
  if (is_same) return print_alias(inst.type, name, a);  // of one lane
  if (inst.op == Op::kRamp) return print_ramp(inst, name);
  if (inst.op == Op::kExtract) {
    return line('%', name, " = extractelement ", type_text(source), ' ', a, ", i64 ", inst.imm);
  }
  print_alias(inst.type, name, splat(program_.operands_of(inst)[0], inst.type.lanes, name));
}

/// "<4 x i32> <i32 0, i32 1, i32 2, i32 3>" without the type.
static std::string lane_numbers(std::string_view type, int lanes) {
  std::string text = "<";
  for (int lane = 0; lane < lanes; ++lane)
    append(text, lane == 0 ? "" : ", ", type, ' ', lane);
  return text + '>';
}

void LlvmWriter::print_ramp(const Inst& inst, const std::string& name) {
  const auto operands = program_.operands_of(inst);
  const std::string type = type_text(inst.type);
  const std::string base = splat(operands[0], inst.type.lanes, name);
  const uint64_t* step = constant_bits(operands[1]);
  std::string steps = lane_numbers(type_text(inst.type.dtype, 1), inst.type.lanes);
  if (step == nullptr || *step != 1) {
    const std::string each = splat(operands[1], inst.type.lanes, name + ".s");
    line('%', name, ".m = mul ", type, ' ', each, ", ", steps);
    steps = concat('%', name, ".m");
  }
  line('%', name, " = add ", type, ' ', base, ", ", steps);
}

/// Lanes are compared as i32, to which a wider count is clipped.
void LlvmWriter::print_first_n(const Inst& inst, const std::string& name) {
  const LinearType& source = operand_type(inst, 0);
  const int lanes = inst.type.lanes;
  std::string n = operand_text(inst, 0);
  if (source.dtype == DType::kI64) {
    line('%', name, ".h = call i64 @llvm.smin.i64(i64 ", n, ", i64 ", lanes, ")");
    line('%', name, ".l = call i64 @llvm.smax.i64(i64 %", name, ".h, i64 0)");
    line('%', name, ".n = trunc i64 %", name, ".l to i32");
    n = concat('%', name, ".n");
  }
  if (lanes == 1) return line('%', name, " = icmp sgt i32 ", n, ", 0");
  const std::string type = concat('<', lanes, " x i32>");
  line('%', name, ".e = insertelement ", type, " poison, i32 ", n, ", i64 0");
  line('%', name, ".v = shufflevector ", type, " %", name, ".e, ", type, " poison, ", type,
       " zeroinitializer");
  line('%', name, " = icmp slt ", type, ' ', lane_numbers("i32", lanes), ", %", name, ".v");
}

void LlvmWriter::print_shuffle(const Inst& inst, const std::string& name) {
  const LinearType& source = operand_type(inst, 0);
  const std::vector<int>& table = program_.shuffle_tables[static_cast<size_t>(inst.imm)];
  const std::string a = operand_text(inst, 0);
  const std::string b = operand_text(inst, 1);
  if (source.lanes == 1) {
    std::vector<std::string> scalars;
    for (const int lane : table)
      scalars.push_back(lane == 0 ? a : b);
    return print_lanes(inst.type, name, scalars);
  }
  const std::string from = type_text(source);
  if (table.size() == 1) {
    return line('%', name, " = extractelement ", from, ' ', table[0] < source.lanes ? a : b,
                ", i64 ", table[0] % source.lanes);
  }
  std::string lanes;
  for (const int lane : table)
    append(lanes, lanes.empty() ? "i32 " : ", i32 ", lane);
  line('%', name, " = shufflevector ", from, ' ', a, ", ", from, ' ', b, ", <", table.size(),
       " x i32> <", lanes, '>');
}

/// A vector of these scalars.
void LlvmWriter::print_lanes(const LinearType& type, const std::string& name,
                             std::span<const std::string> scalars) {
  if (scalars.size() == 1) return print_alias(type, name, scalars[0]);
  std::string vector = "poison";
  for (size_t i = 0; i < scalars.size(); ++i) {
    const std::string next = i + 1 == scalars.size() ? name : concat(name, ".v", i);
    line('%', next, " = insertelement ", type_text(type), ' ', vector, ", ",
         type_text(type.dtype, 1), ' ', scalars[i], ", i64 ", i);
    vector = concat('%', next);
  }
}

// --- matrix units --------------------------------------------------------------------------------

void LlvmWriter::print_mma(const Inst& inst, const std::string& name) {
  const MatrixUnit& unit = target_.units[static_cast<size_t>(inst.imm)];
  const UnitText* const row = find_unit_text(unit);
  if (row == nullptr) fail_unsupported(concat("matrix unit ", to_text(unit), " has no intrinsic"));
  const LinearType& b = operand_type(inst, 1);
  const std::string groups = type_text(DType::kI32, unit.n);
  const std::string items = concat('<', b.lanes, " x ", row->intrinsic_element, '>');
  const std::string acc = type_text(inst.type);
  line('%', name, ".g = bitcast ", type_text(operand_type(inst, 0)), ' ', operand_text(inst, 0),
       " to i32");
  line('%', name, ".i = insertelement ", groups, " poison, i32 %", name, ".g, i64 0");
  line('%', name, ".s = shufflevector ", groups, " %", name, ".i, ", groups, " poison, <", unit.n,
       " x i32> zeroinitializer");
  line('%', name, ".a = bitcast ", groups, " %", name, ".s to ", items);
  line('%', name, ".b = bitcast ", type_text(b), ' ', operand_text(inst, 1), " to ", items);
  line('%', name, " = call ", acc, " @", row->intrinsic, '(', acc, ' ', operand_text(inst, 2), ", ",
       items, " %", name, ".a, ", items, " %", name, ".b)");
}

/// What makes a tile or stores one: zeros, tile_load, tile_store, mma on tiles.
void LlvmWriter::print_tile(const Inst& inst, const std::string& name) {
  const MatrixUnit* const unit = find_tile_unit(target_.units, inst.type);
  if (unit == nullptr || find_tile_unit_text(*unit) == nullptr) {
    fail_unsupported(concat("no tile register of the Target holds ", to_text(inst.type)));
  }
  if (inst.op != Op::kConst) {
    if (const auto reason = why_not_unit(program_, inst, target_.units)) fail_unsupported(*reason);
  }
  const int rows = tile_rows(*unit, inst.type);
  const int64_t row_bytes = inst.type.lanes / rows * dtype_size_bytes(inst.type.dtype);
  const std::string shape = concat("i16 ", rows, ", i16 ", row_bytes);
  if (inst.op == Op::kConst) {
    return line('%', name, " = call x86_amx @llvm.x86.tilezero.internal(", shape, ')');
  }
  if (inst.op == Op::kMma) {
    const MatrixUnit& own = target_.units[static_cast<size_t>(inst.imm)];
    return line('%', name, " = call x86_amx @", find_tile_unit_text(own)->intrinsic, '(', shape,
                ", i16 ", own.k * dtype_size_bytes(own.a), ", x86_amx ", operand_text(inst, 2),
                ", x86_amx ", operand_text(inst, 0), ", x86_amx ", operand_text(inst, 1), ')');
  }
  const std::string element = type_text(operand_type(inst, 0).dtype, 1);
  line('%', name, ".a = getelementptr ", element, ", ptr ", operand_text(inst, 0), ", ",
       type_text(operand_type(inst, 1)), ' ', operand_text(inst, 1));
  const LinearType& stride = operand_type(inst, 2);
  line('%', name, ".w = ", stride.dtype == DType::kI64 ? "add i64 0, " : "sext i32 ",
       operand_text(inst, 2), stride.dtype == DType::kI64 ? "" : " to i64");
  line('%', name, ".s = mul i64 %", name, ".w, ", dtype_size_bytes(inst.type.dtype));
  const std::string place = concat("ptr %", name, ".a, i64 %", name, ".s");
  if (inst.op == Op::kTileLoad) {
    return line('%', name, " = call x86_amx @llvm.x86.tileloadd64.internal(", shape, ", ", place,
                ')');
  }
  line("call void @llvm.x86.tilestored64.internal(", shape, ", ", place, ", x86_amx ",
       operand_text(inst, 3), ')');
}

}  // namespace tenon::detail
