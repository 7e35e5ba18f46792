// Casts, bitcasts and vector ops in C11 with Clang's vectors.
// SPDX-License-Identifier: MIT

#include <array>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/render/c_writer.h"
#include "tenon/render/unit_table.h"

namespace tenon::detail {

// --- conversions ---------------------------------------------------------------------------------

std::string CWriter::cast_text(const Inst& inst) {
  const LinearType& from = operand_type(inst, 0);
  const LinearType& to = inst.type;
  const std::string value = operand_text(inst, 0);
  if (inst.op == Op::kBitcast) return bitcast(from, to, value);
  if (to.dtype == from.dtype) return value;
  const std::string type = type_text(to);
  const bool is_vector = to.lanes > 1;
  if (to.dtype == DType::kBool) {
    return is_vector ? concat("__builtin_convertvector(", value, " != (", type_text(from), ")0, ",
                              type, ')')
                     : concat(value, " != 0");
  }
  if (is_float(from.dtype) && !is_float(to.dtype)) return float_to_int(from, to, value);
  return is_vector ? concat("__builtin_convertvector(", value, ", ", type, ')')
                   : concat('(', type, ')', value);
}

/// Truncates and saturates, NaN gives 0: what C leaves undefined is never evaluated.
// NOLINTNEXTLINE(misc-no-recursion): once, for f16
std::string CWriter::float_to_int(const LinearType& from, const LinearType& to,
                                  const std::string& value) {
  if (from.dtype == DType::kF16) {  // 2^16 is not an f16; widening is exact
    const LinearType wide = value_type(DType::kF32, from.lanes);
    const std::string text =
        from.lanes > 1 ? concat("__builtin_convertvector(", value, ", ", type_text(wide), ')')
                       : concat("(f32)", value);
    return float_to_int(wide, to, text);
  }
  const int bits = dtype_bits(to.dtype);
  const bool is_signed = is_signed_int(to.dtype);
  const std::string_view suffix = from.dtype == DType::kF64 ? "" : "f";
  const std::string low = is_signed ? concat("-0x1p+", bits - 1, suffix) : concat("0.0", suffix);
  const std::string high = concat("0x1p+", is_signed ? bits - 1 : bits, suffix);
  const std::string name = concat("cast_", type_text(from), "_to_", type_text(to));
  const std::string min = constant_text(to, int_min_bits(to.dtype));
  const std::string max = constant_text(to, int_max_bits(to.dtype));
  const std::string head = concat("HELPER $R ", name, "($S x) {\n");
  if (to.lanes == 1) {
    add_function(concat(head, "  return x >= ", high, " ? ", max, " : x < ", low, " ? ", min,
                        " : x == x ? ($R)x : 0;\n}"),
                 from, to);
  } else {
    add_function(
        concat(head, "  const $M high = __builtin_convertvector(x >= ($S)", high, ", $M);\n",
               "  const $M low = __builtin_convertvector(x < ($S)", low, ", $M);\n",
               "  const $M nan = __builtin_convertvector(x != x, $M);\n",
               "  const $R inside = __builtin_convertvector(high | low | nan ? ($S)0 : x, $R);\n",
               "  return high ? ", max, " : low ? ", min, " : inside;\n}"),
        from, to);
  }
  return concat(name, '(', value, ')');
}

std::string CWriter::bitcast(const LinearType& from, const LinearType& to,
                             const std::string& value) {
  if (from == to) return value;
  const bool has_bool = from.dtype == DType::kBool || to.dtype == DType::kBool;
  if (to.lanes > 1) {
    if (!has_bool) return concat('(', type_text(to), ')', value);
    if (to.dtype == DType::kBool) {
      const LinearType bytes = value_type(DType::kU8, to.lanes);
      const std::string zero = constant_text(bytes, 0);
      return concat("__builtin_convertvector((", type_text(bytes), ")", value, " != ", zero, ", ",
                    type_text(to), ')');
    }
    const LinearType bytes = value_type(DType::kU8, to.lanes);
    return concat('(', type_text(to), ")__builtin_convertvector(", value, ", ", type_text(bytes),
                  ')');
  }
  if (to.dtype == DType::kBool) return concat(value, " != 0");
  const auto is_c_integer = [&](DType dtype) {
    return !is_float(dtype) || dtype_bits(dtype) == 8 || dtype == DType::kBF16 ||
           (dtype == DType::kF16 && !is_half_native());
  };
  if (is_c_integer(from.dtype) && is_c_integer(to.dtype)) {
    return concat('(', type_text(to), ')', value);
  }
  const std::string name = concat("bits_", type_text(from), "_to_", type_text(to));
  add_function(concat("HELPER $R ", name,
                      "($S x) {\n  $R r;\n  __builtin_memcpy(&r, &x, sizeof r);\n  return r;\n}"),
               from, to);
  return concat(name, '(', value, ')');
}

// --- vectors -------------------------------------------------------------------------------------

std::string CWriter::vector_text(const Inst& inst) {
  const std::string type = type_text(inst.type);
  const LinearType& source = operand_type(inst, 0);
  const std::string a = operand_text(inst, 0);
  if (inst.op == Op::kSplat) return inst.type.lanes == 1 ? a : concat('(', type, ')', a);
  if (inst.op == Op::kExtract) {
    if (source.lanes == 1) return a;
    return concat(a.starts_with('(') ? concat('(', a, ')') : a, '[', inst.imm, ']');
  }
  if (inst.op == Op::kRamp) {
    if (inst.type.lanes == 1) return a;
    return op_text(Op::kRamp, inst.type, inst.type, std::array{a, operand_text(inst, 1)});
  }
  if (inst.op == Op::kFirstN) {
    if (inst.type.lanes == 1) return concat(a, " > 0");
    type_text(value_type(DType::kI32, inst.type.lanes));
    const bool is_wide = source.dtype == DType::kI64;
    const std::string lanes = concat("i32x", inst.type.lanes);
    add_function(concat("HELPER $R first_n_$S_$R($S n) {\n",
                        is_wide ? concat("  const i32 count = n < 0 ? 0 : n < ", inst.type.lanes,
                                         " ? (i32)n : ", inst.type.lanes, ";\n")
                                : "",
                        "  return __builtin_convertvector((", lanes, "){$#} < (", lanes, ")",
                        is_wide ? "count" : "n", ", $R);\n}"),
                 source, inst.type);
    return concat("first_n_", type_text(source), '_', type, '(', a, ')');
  }
  const std::vector<int>& table = program().shuffle_tables[static_cast<size_t>(inst.imm)];
  const std::string b = operand_text(inst, 1);
  if (source.lanes == 1 || table.size() == 1) {  // scalars are no vectors in C
    std::vector<std::string> parts;
    for (const int lane : table) {
      const std::string& from = lane < source.lanes ? a : b;
      parts.push_back(source.lanes == 1 ? from : concat('(', from, ")[", lane % source.lanes, ']'));
    }
    return parts.size() == 1 ? parts[0] : concat('(', type, "){", tenon::join(parts, ", "), '}');
  }
  return concat("__builtin_shufflevector(", a, ", ", b, ", ", tenon::join(table, ", "), ')');
}

// --- matrix units --------------------------------------------------------------------------------

/// "rows, bytes of a row"
std::string CWriter::tile_shape(const LinearType& type) const {
  const MatrixUnit* const unit = find_tile_unit(target().units, type);
  if (unit == nullptr || find_tile_unit_text(*unit) == nullptr) {
    fail_unsupported(concat("no tile register of the Target holds ", to_text(type)));
  }
  const int rows = tile_rows(*unit, type);
  return concat(rows, ", ", type.lanes / rows * dtype_size_bytes(type.dtype));
}

std::string CWriter::unit_text(const Inst& inst) {
  if (inst.type.kind != TypeKind::kTile) return mma_text(inst);
  const std::string shape = tile_shape(inst.type);
  if (inst.op == Op::kMma) {
    const MatrixUnit& unit = target().units[static_cast<size_t>(inst.imm)];
    return concat(find_tile_unit_text(unit)->builtin, '(', shape, ", ",
                  unit.k * dtype_size_bytes(unit.a), ", ", operand_text(inst, 2), ", ",
                  operand_text(inst, 0), ", ", operand_text(inst, 1), ')');
  }
  const std::string place =
      concat(shape, ", &", operand_text(inst, 0), '[', operand_text(inst, 1), "], ",
             dtype_size_bytes(inst.type.dtype), "ll * ", operand_text(inst, 2));
  if (inst.op == Op::kTileLoad) return concat("__builtin_ia32_tileloadd64_internal(", place, ')');
  return concat("__builtin_ia32_tilestored64_internal(", place, ", ", operand_text(inst, 3), ')');
}

std::string CWriter::mma_text(const Inst& inst) {
  const MatrixUnit& unit = target().units[static_cast<size_t>(inst.imm)];
  const UnitText* const row = find_unit_text(unit);
  if (row == nullptr) fail_unsupported(concat("matrix unit ", to_text(unit), " has no builtin"));
  const std::string a = type_text(operand_type(inst, 0));
  const std::string b = type_text(operand_type(inst, 1));
  const std::string acc = type_text(inst.type);
  const std::string groups = type_text(value_type(DType::kI32, unit.n));
  const std::string name = concat("mma_", a, '_', b, '_', acc);
  add_type(std::string(kHelperItem));
  add_helper(concat("HELPER ", acc, ' ', name, '(', a, " a, ", b, " b, ", acc, " c) {\n",
                    "  typedef ", type_text(value_type(unit.acc)),
                    " sums __attribute__((vector_size(", 4 * unit.n, ")));\n  typedef ",
                    row->builtin_element, " items __attribute__((vector_size(", 4 * unit.n,
                    ")));\n  const ", groups, " groups = __builtin_bit_cast(i32, a);\n  return (",
                    acc, ')', row->builtin, "((sums)c, (items)groups, (items)b);\n}"));
  return concat(name, '(', operand_text(inst, 0), ", ", operand_text(inst, 1), ", ",
                operand_text(inst, 2), ')');
}

}  // namespace tenon::detail
