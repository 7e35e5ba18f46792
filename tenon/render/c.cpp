// The hooks of CLikeWriter for C11 with Clang's vectors: types, constants, casts, memory and the
// function around the body. ABI and flags: c.h; elementwise ops: c_table.h.
// SPDX-License-Identifier: MIT

#include "tenon/render/c.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/render/c_like.h"
#include "tenon/render/c_table.h"

namespace tenon {

namespace {

constexpr std::string_view kReserved[] = {
    "auto",        "break",     "case",    "char",     "const",    "continue", "default",  "do",
    "double",      "else",      "enum",    "extern",   "float",    "for",      "goto",     "if",
    "inline",      "int",       "long",    "register", "restrict", "return",   "short",    "signed",
    "sizeof",      "static",    "struct",  "switch",   "typedef",  "union",    "unsigned", "void",
    "volatile",    "while",     "asm",     "typeof",   "main",     "HELPER",   "args",     "group",
    "group_begin", "group_end", "scratch", "arguments"};

/// `x < 0` of an unsigned x, or `x | 1` of a bool, is right however sure its outcome is.
constexpr std::string_view kPragmaItem =
    "#pragma clang diagnostic ignored \"-Wtautological-compare\"";
constexpr std::string_view kHelperItem =
    "#define HELPER static inline __attribute__((always_inline))";

bool is_power_of_two(int lanes) {
  return std::has_single_bit(static_cast<unsigned>(lanes));
}

class CWriter final : public CLikeWriter {
 public:
  using CLikeWriter::CLikeWriter;

 protected:
  std::string_view language() const override { return "CLANG"; }
  std::span<const OpText> op_table() const override { return detail::kCTable; }
  std::span<const std::string_view> reserved_words() const override { return kReserved; }
  void check_program() const override;
  std::string type_text(const LinearType& type) override;
  std::string constant_text(const LinearType& type, uint64_t bits) override;
  std::string source_text(const Inst& inst) override;
  std::string cast_text(const Inst& inst) override;
  std::string vector_text(const Inst& inst) override;
  std::string load_text(const Inst& inst) override;
  std::string atomic_text(const Inst& inst) override;
  std::string store_text(const Inst& inst) override;
  std::string prefetch_text(const Inst& inst) override;
  std::string barrier_text() override { return {}; }  // a group has one lane
  std::string alloc_text(InstId id, std::string_view name) override;
  std::string declare_text(const LinearType& type, std::string_view name,
                           bool is_constant) override;
  void open_function() override;
  void open_body() override;
  void close_function() override;

 private:
  bool is_half_native() const;
  std::string scalar_constant(DType dtype, uint64_t bits);
  std::string float_constant(DType dtype, uint64_t bits);
  std::string float_to_int(const LinearType& from, const LinearType& to, const std::string& value);
  std::string bitcast(const LinearType& from, const LinearType& to, const std::string& value);
  std::string memory_type(DType dtype);
  std::string aligned_type(const LinearType& type, int64_t align);
  std::string element_text(const Inst& inst);
  std::string scalar_place(const Inst& inst);
  std::string grid_text(const Inst& inst);
  void add_function(std::string_view text, const LinearType& deciding, const LinearType& result);
  std::string vector_load(const Inst& inst);
  std::string vector_store(const Inst& inst);
  std::string per_lane(int lanes, std::string_view text);

  bool streams_ = false;  ///< it has non-temporal stores
};

// --- types and constants -------------------------------------------------------------------------

void CWriter::check_program() const {
  if (num_lanes(program()) != 1) {
    fail_unsupported(concat("a group has ", num_lanes(program()),
                            " lanes; this renderer runs one. Use a Plan without lanes."));
  }
}

/// f16 as _Float16 needs conversions in hardware; without them its bits are carried as u16.
bool CWriter::is_half_native() const {
  return target().can_compute(DType::kF16) || target().has_cast(DType::kF16, DType::kF32) ||
         target().has_cast(DType::kF32, DType::kF16);
}

std::string CWriter::type_text(const LinearType& type) {
  const std::string scalar(dtype_name(type.dtype));
  const auto storage = [&]() -> std::string_view {
    switch (type.dtype) {
      case DType::kBool: return "_Bool";
      case DType::kI8: return "signed char";
      case DType::kI16: return "short";
      case DType::kI32: return "int";
      case DType::kI64: return "long long";
      case DType::kU8:
      case DType::kF8E4M3:
      case DType::kF8E5M2: return "unsigned char";
      case DType::kU16:
      case DType::kBF16: return "unsigned short";
      case DType::kU32: return "unsigned int";
      case DType::kU64: return "unsigned long long";
      case DType::kF16: return is_half_native() ? "_Float16" : "unsigned short";
      case DType::kF32: return "float";
      case DType::kF64: return "double";
      case DType::kIdx: break;
    }
    fail_unsupported("idx has no width. Run lower_idx before.");
  };
  add_type(concat("typedef ", storage(), ' ', scalar, ';'));
  if (type.lanes == 1) return scalar;
  const std::string vector = concat(scalar, 'x', type.lanes);
  add_type(concat("typedef ", scalar, ' ', vector, " __attribute__((ext_vector_type(", type.lanes,
                  ")));"));
  return vector;
}

/// Exact: short decimals for small whole numbers, hexadecimal else, bits for inf and NaN.
std::string CWriter::float_constant(DType dtype, uint64_t bits) {
  const double value = float_to_double(bits, dtype);
  const std::string_view suffix = dtype == DType::kF64 ? "" : dtype == DType::kF32 ? "f" : "f16";
  if (!std::isfinite(value)) {
    const LinearType from = value_type(unsigned_of_same_width(dtype));
    return bitcast(from, value_type(dtype),
                   fmt::format("{:#x}u", bits) + (dtype == DType::kF64 ? "ll" : ""));
  }
  const bool is_short = std::fabs(value) < 1e6 && value == std::trunc(value);
  return is_short ? fmt::format("{:.1f}{}", value, suffix) : fmt::format("{:a}{}", value, suffix);
}

std::string CWriter::scalar_constant(DType dtype, uint64_t bits) {
  const bool is_plain_float =
      dtype == DType::kF32 || dtype == DType::kF64 || (dtype == DType::kF16 && is_half_native());
  if (is_plain_float) return float_constant(dtype, bits);
  if (dtype == DType::kU64) return concat(bits, "ull");
  if (dtype == DType::kU32) return concat(bits, 'u');
  if (!is_signed_int(dtype)) return concat(bits);  // narrow, or bits that are only carried
  const auto value = static_cast<int64_t>(bits);
  const std::string_view suffix = dtype == DType::kI64 ? "ll" : "";
  if (dtype_bits(dtype) < 32 || bits != int_min_bits(dtype)) return concat(value, suffix);
  return concat('(', value + 1, suffix, " - 1)");  // the literal of MIN would overflow
}

std::string CWriter::constant_text(const LinearType& type, uint64_t bits) {
  const std::string scalar = scalar_constant(type.dtype, bits);
  return type.lanes == 1 ? scalar : concat('(', type_text(type), ')', scalar);
}

std::string CWriter::declare_text(const LinearType& type, std::string_view name, bool is_constant) {
  if (type.kind == TypeKind::kPointer) return concat(memory_type(type.dtype), " *const ", name);
  return concat(is_constant ? "const " : "", type_text(type), ' ', name);
}

void CWriter::add_function(std::string_view text, const LinearType& deciding,
                           const LinearType& result) {
  add_type(std::string(kHelperItem));
  add_helper(expand(text, deciding, result));
}

// --- function and sources ------------------------------------------------------------------------

void CWriter::open_function() {
  add_type(std::string(kPragmaItem));
  add_type(std::string(kHelperItem));
  const std::string index = type_text(value_type(DType::kI64));
  bool has_live_param = false;
  bool uses_scratch = false;
  for (const Inst& inst : program().insts) {
    const bool is_used = inst.first_result != kNoId && is_live(inst.first_result);
    has_live_param = has_live_param || (is_used && inst.op == Op::kParam);
    uses_scratch =
        uses_scratch || (is_used && inst.op == Op::kAlloc && inst.type.scope == Scope::kGroup);
    streams_ = streams_ || (inst.op == Op::kStore && inst.nt);
  }
  line(concat("void ", entry(), "(const void *arguments, ", index, " group_begin, ", index,
              " group_end, void *scratch) {"));
  indent();
  line(has_live_param
           ? concat("const ", type_text(value_type(DType::kU8)), " *const args = arguments;")
           : "(void)arguments;");
  if (!uses_scratch) line("(void)scratch;");
}

void CWriter::open_body() {
  line("for (i64 group = group_begin; group < group_end; ++group) {");
  indent();
}

void CWriter::close_function() {
  dedent();
  line("}");
  if (streams_) line("__builtin_ia32_sfence();  // non-temporal stores are weakly ordered");
  dedent();
  line("}");
}

std::string CWriter::alloc_text(InstId id, std::string_view name) {
  const Inst& inst = program().insts[id];
  const std::string memory = memory_type(inst.type.dtype);
  if (inst.type.scope == Scope::kGroup) {
    return concat(memory, " *const ", name, " = (", memory, " *)((",
                  type_text(value_type(DType::kU8)), " *)scratch + ",
                  layout_scratch(program()).offsets[id], ");");
  }
  return concat(memory, ' ', name, '[', inst.imm, "] __attribute__((aligned(",
                effective_align(inst), ")));");
}

std::string CWriter::source_text(const Inst& inst) {
  if (inst.op == Op::kGridId) return grid_text(inst);
  if (inst.op == Op::kLaneId) return "0";
  const uint32_t offset =
      layout_arguments(program().signature).offsets[static_cast<size_t>(inst.imm)];
  const std::string memory = memory_type(inst.type.dtype);
  if (inst.type.kind == TypeKind::kPointer) {
    return concat("*(", memory, " *const *)(args + ", offset, ')');
  }
  return concat("*(const ", memory, " *)(args + ", offset, ')',
                inst.type.dtype == DType::kBool ? " != 0" : "");
}

std::string CWriter::grid_text(const Inst& inst) {
  const LinearType i64 = value_type(DType::kI64);
  const auto dim = static_cast<size_t>(inst.imm);
  int64_t below = 1;
  for (size_t i = 0; i < dim; ++i)
    below *= program().grid[i];
  const auto apply = [&](Op op, const std::string& a, int64_t b) {
    return op_text(op, i64, i64, std::array{a, constant_text(i64, static_cast<uint64_t>(b))});
  };
  std::string text = "group";
  if (below != 1) text = apply(Op::kDiv, text, below);
  if (dim + 1 < program().grid.size()) text = apply(Op::kMod, text, program().grid[dim]);
  return inst.type.dtype == DType::kI64 ? text : concat('(', type_text(inst.type), ')', text);
}

// --- conversions ---------------------------------------------------------------------------------

std::string CWriter::cast_text(const Inst& inst) {
  const LinearType& from = operand_type(inst, 0);
  const LinearType& to = inst.type;
  const std::string value = operand_text(inst, 0);
  if (inst.op == Op::kBitcast) return bitcast(from, to, value);
  const auto can = [&](DType dtype) {
    return dtype == DType::kBool || target().can_compute(dtype);
  };
  if (!(can(from.dtype) && can(to.dtype)) && !target().has_cast(from.dtype, to.dtype)) {
    fail_unsupported(concat("cast from ", dtype_name(from.dtype), " to ", dtype_name(to.dtype),
                            " is not native in the Target. Run lower_dtypes before."));
  }
  const auto is_bits_only = [](DType dtype) {
    return is_float(dtype) && dtype_bits(dtype) <= 16 && dtype != DType::kF16;
  };
  if (is_bits_only(from.dtype) || is_bits_only(to.dtype)) {
    fail_unsupported(concat("cast from ", dtype_name(from.dtype), " to ", dtype_name(to.dtype),
                            " has no exact instruction on this renderer"));
  }
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

// --- memory --------------------------------------------------------------------------------------

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

/// "p[i + 16ll]"; the 64-bit offset widens a narrow index before it is added.
std::string CWriter::element_text(const Inst& inst) {
  const bool has_offset = inst.op != Op::kAtomic && inst.imm != 0;
  const bool is_scattered = operand_type(inst, 1).lanes > 1;
  std::string index = is_scattered ? "" : operand_text(inst, 1);
  if (has_offset) {
    if (!index.empty()) index += inst.imm < 0 ? " - " : " + ";
    const bool negate = inst.imm < 0 && !is_scattered;
    append(index, negate ? -inst.imm : inst.imm, "ll");
  }
  return concat(operand_text(inst, 0), '[', index.empty() ? "0" : index, ']');
}

/// The element of a scalar access, with less than its natural alignment if that is what is known.
std::string CWriter::scalar_place(const Inst& inst) {
  const DType dtype = operand_type(inst, 0).dtype;
  if (effective_align(inst) >= dtype_size_bytes(dtype)) return element_text(inst);
  const std::string type = aligned_type(value_type(dtype), effective_align(inst));
  return concat("*(", type, " *)&", element_text(inst));
}

std::string CWriter::load_text(const Inst& inst) {
  const ValueId gate = gate_of(program(), inst);
  std::string text;
  if (inst.type.lanes == 1) {
    text = scalar_place(inst);
    if (inst.type.dtype == DType::kBool) text += " != 0";
    if (gate != kNoId && inst.type.dtype == DType::kBool) text = concat('(', text, ')');
  } else {
    text = vector_load(inst);
  }
  if (gate == kNoId || program().type_of(gate).lanes > 1) return text;
  return concat(operand_text(gate), " ? ", text, " : ", operand_text(alt_of(program(), inst)));
}

/// "text" once per lane, $L is the lane.
std::string CWriter::per_lane(int lanes, std::string_view text) {
  std::string out;
  for (int lane = 0; lane < lanes; ++lane) {
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

std::string CWriter::vector_load(const Inst& inst) {
  const int lanes = inst.type.lanes;
  const bool is_bool = inst.type.dtype == DType::kBool;
  // A mask lies in memory as bytes; it is loaded as such and compared.
  const LinearType in_memory = is_bool ? value_type(DType::kU8, lanes) : inst.type;
  const LinearType element = value_type(in_memory.dtype);
  const std::string type = type_text(in_memory);
  const ValueId gate = gate_of(program(), inst);
  const bool is_masked = gate != kNoId && program().type_of(gate).lanes > 1;
  const LinearType& index = operand_type(inst, 1);
  const bool is_gather = index.lanes > 1;
  const bool is_native = is_power_of_two(lanes) && !(is_gather && !is_signed_int(index.dtype));
  const int64_t align = effective_align(inst);

  const std::string mask = type_text(value_type(DType::kBool, lanes));
  std::string name = is_gather ? concat("gather_", type_text(index)) : concat("load_a", align);
  if (is_masked) name = concat("masked_", name);
  append(name, '_', type);
  std::string head =
      concat("HELPER ", type, ' ', name, "(const ", memory_type(element.dtype), " *p");
  std::string call = concat(name, "(&", element_text(inst));
  if (is_gather) {
    append(head, ", ", type_text(index), " i");
    append(call, ", ", operand_text(inst, 1));
  }
  if (is_masked) {
    append(head, ", ", mask, " mask, ", type, " alt");
    const std::string alt = operand_text(alt_of(program(), inst));
    append(call, ", ", operand_text(gate), ", ",
           is_bool ? concat("__builtin_convertvector(", alt, ", ", type, ')') : alt);
  }
  std::string body;
  if (!is_native) {
    const std::string place = is_gather ? "p[i[@]]" : "p[@]";
    body = concat(
        '(', type, "){",
        per_lane(lanes, is_masked ? concat("mask[@] ? ", place, " : alt[@], ") : place + ", "));
    body.resize(body.size() - 2);
    body += '}';
  } else if (is_gather) {
    body = is_masked ? "__builtin_masked_gather(mask, i, p, alt)"
                     : concat("__builtin_masked_gather((", mask, ")1, i, p, (", type, ")0)");
  } else if (is_masked) {
    body =
        concat("__builtin_masked_load(mask, (const ", aligned_type(element, align), " *)p, alt)");
  } else {
    body = concat("*(const ", aligned_type(in_memory, align), " *)p");
  }
  add_function(concat(head, ") {\n  return ", body, ";\n}"), in_memory, in_memory);
  call += ')';
  if (!is_bool) return call;
  return concat("__builtin_convertvector(", call, ", ", type_text(inst.type), ')');
}

std::string CWriter::store_text(const Inst& inst) {
  const ValueId gate = gate_of(program(), inst);
  const LinearType& type = operand_type(inst, 2);
  const std::string text = type.lanes == 1
                               ? concat(scalar_place(inst), " = ", operand_text(inst, 2), ';')
                               : vector_store(inst);
  if (gate == kNoId || program().type_of(gate).lanes > 1) return text;
  return concat("if (", operand_text(gate), ") ", text);
}

std::string CWriter::vector_store(const Inst& inst) {
  const LinearType& moved = operand_type(inst, 2);
  const int lanes = moved.lanes;
  const bool is_bool = moved.dtype == DType::kBool;
  const LinearType in_memory = is_bool ? value_type(DType::kU8, lanes) : moved;
  const LinearType element = value_type(in_memory.dtype);
  const std::string type = type_text(in_memory);
  const ValueId gate = gate_of(program(), inst);
  const bool is_masked = gate != kNoId && program().type_of(gate).lanes > 1;
  const LinearType& index = operand_type(inst, 1);
  const bool is_scatter = index.lanes > 1;
  // clang 22.1 scales the index of __builtin_masked_scatter by the size of the index.
  const bool is_scaled = is_signed_int(index.dtype) &&
                         dtype_size_bytes(index.dtype) == dtype_size_bytes(element.dtype);
  const bool is_native = is_power_of_two(lanes) && (!is_scatter || is_scaled);
  const int64_t align = effective_align(inst);
  const bool streams = inst.nt && !is_masked && !is_scatter && is_native &&
                       align >= lanes * dtype_size_bytes(element.dtype);

  const std::string mask = type_text(value_type(DType::kBool, lanes));
  std::string name = is_scatter ? concat("scatter_", type_text(index))
                                : concat(streams ? "stream_a" : "store_a", align);
  if (is_masked) name = concat("masked_", name);
  append(name, '_', type);
  std::string head = concat("HELPER void ", name, '(', memory_type(element.dtype), " *p");
  std::string call = concat(name, "(&", element_text(inst));
  if (is_scatter) {
    append(head, ", ", type_text(index), " i");
    append(call, ", ", operand_text(inst, 1));
  }
  if (is_masked) {
    append(head, ", ", mask, " mask");
    append(call, ", ", operand_text(gate));
  }
  append(head, ", ", type, " value) {\n");
  const std::string value = operand_text(inst, 2);
  append(call, ", ", is_bool ? concat("__builtin_convertvector(", value, ", ", type, ')') : value,
         ");");
  std::string body;
  if (!is_native) {
    const std::string place = is_scatter ? "p[i[@]]" : "p[@]";
    body = per_lane(lanes, concat("  ", is_masked ? "if (mask[@]) " : "", place, " = value[@];\n"));
  } else if (is_scatter) {
    body = concat("  __builtin_masked_scatter(", is_masked ? "mask" : concat('(', mask, ")1"),
                  ", i, value, p);\n");
  } else if (is_masked) {
    body =
        concat("  __builtin_masked_store(mask, value, (", aligned_type(element, align), " *)p);\n");
  } else if (streams) {
    body = concat("  __builtin_nontemporal_store(value, (", aligned_type(in_memory, align),
                  " *)p);\n");
  } else {
    body = concat("  *(", aligned_type(in_memory, align), " *)p = value;\n");
  }
  add_function(concat(head, body, '}'), in_memory, in_memory);
  return call;
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

class CRenderer final : public Renderer {
 public:
  std::string_view name() const override { return "CLANG"; }
  RenderedSource render(const LinearProgram& program, const Target& target) const override {
    return CWriter(program, target).write();
  }
  std::string join(std::span<const RenderedSource> sources) const override {
    return join_c_like(sources);
  }
};

}  // namespace

const Renderer& c_renderer() {
  static const CRenderer renderer;
  return renderer;
}

}  // namespace tenon
