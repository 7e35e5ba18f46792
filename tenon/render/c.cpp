// Types, constants and the function of C11 with Clang's vectors. ABI and flags: c.h.
// SPDX-License-Identifier: MIT

#include "tenon/render/c.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/render/c_table.h"
#include "tenon/render/c_writer.h"
#include "tenon/render/native_ops.h"

namespace tenon {

namespace detail {

namespace {

constexpr std::string_view kReserved[] = {
    "auto",    "break",     "case",     "char",   "const",    "continue",    "default",
    "do",      "double",    "else",     "enum",   "extern",   "float",       "for",
    "goto",    "if",        "inline",   "int",    "long",     "register",    "restrict",
    "return",  "short",     "signed",   "sizeof", "static",   "struct",      "switch",
    "typedef", "union",     "unsigned", "void",   "volatile", "while",       "asm",
    "typeof",  "main",      "HELPER",   "args",   "group",    "group_begin", "group_end",
    "scratch", "arguments", "tile"};

/// `x < 0` of an unsigned x, or `x | 1` of a bool, is right however sure its outcome is.
constexpr std::string_view kPragmaItem =
    "#pragma clang diagnostic ignored \"-Wtautological-compare\"";

}  // namespace

std::span<const OpText> CWriter::op_table() const {
  return kCTable;
}

std::span<const std::string_view> CWriter::reserved_words() const {
  return kReserved;
}

// --- types and constants -------------------------------------------------------------------------

void CWriter::check_program() const {
  if (num_lanes(program()) != 1) {
    fail_unsupported(concat("a group has ", num_lanes(program()),
                            " lanes; this renderer runs one. Use a Plan without lanes."));
  }
}

/// f16 as _Float16 needs conversions in hardware; without them its bits are carried as u16.
bool CWriter::is_half_native() const {
  return has_half_type(target());
}

std::string CWriter::type_text(const LinearType& type) {
  if (type.kind == TypeKind::kTile) {
    add_type("typedef int tile __attribute__((__vector_size__(1024), __aligned__(64)));");
    return "tile";
  }
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
    fail_unsupported("idx has no width. Run give_indices_width before.");
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
  if (type.kind == TypeKind::kTile) {
    return concat("__builtin_ia32_tilezero_internal(", tile_shape(type), ')');
  }
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

}  // namespace detail

namespace {

class CRenderer final : public Renderer {
 public:
  std::string_view name() const override { return "CLANG"; }
  RenderedSource render(const LinearProgram& program, const Target& target) const override {
    return detail::CWriter(program, target).write();
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
