// Types, constants and the function of LLVM IR. ABI: c.h.
// SPDX-License-Identifier: MIT

#include "tenon/render/llvm.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/render/c_like.h"
#include "tenon/render/llvm_writer.h"
#include "tenon/render/native_ops.h"

namespace tenon {

namespace detail {

// --- types and constants -------------------------------------------------------------------------

std::string LlvmWriter::type_text(const LinearType& type) const {
  if (type.kind == TypeKind::kPointer) return "ptr";
  if (type.kind == TypeKind::kTile) return "x86_amx";
  const auto scalar = [&]() -> std::string_view {
    switch (type.dtype) {
      case DType::kBool: return "i1";
      case DType::kI8:
      case DType::kU8:
      case DType::kF8E4M3:
      case DType::kF8E5M2: return "i8";
      case DType::kI16:
      case DType::kU16:
      case DType::kBF16: return "i16";
      case DType::kF16: return has_half_type(target_) ? "half" : "i16";
      case DType::kI32:
      case DType::kU32: return "i32";
      case DType::kI64:
      case DType::kU64: return "i64";
      case DType::kF32: return "float";
      case DType::kF64: return "double";
      case DType::kIdx: break;
    }
    fail_unsupported("idx has no width. Run give_indices_width before.");
  };
  if (type.lanes == 1) return std::string(scalar());
  return concat('<', type.lanes, " x ", scalar(), '>');
}

std::string LlvmWriter::suffix_text(const LinearType& type) const {
  const std::string scalar = type_text(type.dtype, 1);
  const bool is_int = scalar.starts_with('i');
  const std::string element = is_int ? scalar : concat('f', dtype_bits(type.dtype));
  return type.lanes == 1 ? element : concat('v', type.lanes, element);
}

/// Exact: short decimals for small whole numbers, else the bits as LLVM writes them.
// NOLINTNEXTLINE(misc-no-recursion): once, for f32
std::string LlvmWriter::scalar_constant(DType dtype, uint64_t bits) const {
  const std::string type = type_text(dtype, 1);
  if (type == "i1") return bits != 0 ? "true" : "false";
  if (type.starts_with('i')) {
    const int unused = 64 - dtype_bits(dtype);
    return concat(static_cast<int64_t>(bits << unused) >> unused);
  }
  if (type == "half") return fmt::format("0xH{:04X}", bits);
  if (dtype == DType::kF64) {
    const auto value = std::bit_cast<double>(bits);
    const bool is_short = std::fabs(value) < 1e6 && value == std::trunc(value);
    return is_short ? fmt::format("{:.1f}", value) : fmt::format("0x{:016X}", bits);
  }
  // A float stands as the double of the same value; of a NaN all bits are kept.
  const auto narrow = static_cast<uint32_t>(bits);
  const auto value = std::bit_cast<float>(narrow);
  if (std::isnan(value)) {
    const uint64_t wide =
        uint64_t{narrow >> 31} << 63 | uint64_t{0x7ff} << 52 | uint64_t{narrow & 0x7fffff} << 29;
    return fmt::format("0x{:016X}", wide);
  }
  return scalar_constant(DType::kF64, std::bit_cast<uint64_t>(double{value}));
}

std::string LlvmWriter::constant_text(const LinearType& type, uint64_t bits) const {
  const std::string scalar = scalar_constant(type.dtype, bits);
  if (type.lanes == 1) return scalar;
  if (bits == 0) return "zeroinitializer";
  return concat("splat (", type_text(type.dtype, 1), ' ', scalar, ')');
}

// --- the function --------------------------------------------------------------------------------

RenderedSource LlvmWriter::write() {
  if (num_lanes(program_) != 1) {
    fail_unsupported(concat("a group has ", num_lanes(program_),
                            " lanes; this renderer runs one. Use a Plan without lanes."));
  }
  for (const char* word : {"args", "group", "group_begin", "group_end", "scratch"})
    used_names_.emplace(word);
  entry_ = unique_name(program_.name.empty() ? "kernel" : program_.name);
  name_values();
  print_entry();
  for (const InstId id : program_.regions[0].insts)
    print_inst(id);
  branch_to("group.latch");
  open_block("group.latch");
  line("%group.next = add i64 %group, 1");
  line("%group.more = icmp slt i64 %group.next, %group_end");
  line("br i1 %group.more, label %group.body, label %group.done");
  open_block("group.done");
  if (streams_) line("call void @llvm.x86.sse.sfence()");  // those stores are weakly ordered
  line("ret void");
  std::string text = concat(
      "define void @", entry_, "(ptr %args, i64 %group_begin, i64 %group_end, ptr %scratch) #0 {\n",
      body_, "}\n\n", R"(attributes #0 = { nounwind "no-builtins" "no-jump-tables"="true" )",
      R"("prefer-vector-width"="512" })", '\n');
  if (streams_) text += "!0 = !{i32 1}\n";
  return {.text = std::move(text), .entry = entry_};
}

/// Arguments and allocs are the same for all groups.
void LlvmWriter::print_entry() {
  open_block("group.entry");
  for (const InstId id : program_.regions[0].insts) {
    const Inst& inst = program_.insts[id];
    if (inst.op == Op::kParam) print_param(inst);
    if (inst.op == Op::kAlloc) print_alloc(id);
  }
  line("%group.any = icmp slt i64 %group_begin, %group_end");
  line("br i1 %group.any, label %group.body, label %group.done");
  open_block("group.body");
  line("%group = phi i64 [ %group_begin, %group.entry ], [ %group.next, %group.latch ]");
}

void LlvmWriter::print_param(const Inst& inst) {
  const std::string& name = names_[inst.first_result];
  const uint32_t offset =
      layout_arguments(program_.signature).offsets[static_cast<size_t>(inst.imm)];
  line('%', name, ".a = getelementptr i8, ptr %args, i64 ", offset);
  if (inst.type.dtype == DType::kBool && inst.type.kind == TypeKind::kValue) {
    line('%', name, ".b = load i8, ptr %", name, ".a");
    line('%', name, " = icmp ne i8 %", name, ".b, 0");
  } else {
    line('%', name, " = load ", type_text(inst.type), ", ptr %", name, ".a");
  }
}

void LlvmWriter::print_alloc(InstId id) {
  const Inst& inst = program_.insts[id];
  const std::string& name = names_[inst.first_result];
  if (inst.type.scope == Scope::kGroup) {
    line('%', name, " = getelementptr i8, ptr %scratch, i64 ",
         layout_scratch(program_).offsets[id]);
  } else {
    const std::string element = type_text(in_memory(value_type(inst.type.dtype)));
    line('%', name, " = alloca [", inst.imm, " x ", element, "], align ", effective_align(inst));
  }
}

void LlvmWriter::print_grid_id(const Inst& inst) {
  const std::string& name = names_[inst.first_result];
  const auto dim = static_cast<size_t>(inst.imm);
  int64_t below = 1;
  for (size_t i = 0; i < dim; ++i)
    below *= program_.grid[i];
  std::string value = "%group";  // never negative
  if (below > 1) {
    line('%', name, ".q = udiv i64 ", value, ", ", below);
    value = concat('%', name, ".q");
  }
  if (dim + 1 < program_.grid.size() && program_.grid[dim] > 0) {
    line('%', name, ".r = urem i64 ", value, ", ", program_.grid[dim]);
    value = concat('%', name, ".r");
  }
  if (inst.type.dtype == DType::kI64) {
    line('%', name, " = add i64 ", value, ", 0");
  } else {
    line('%', name, " = trunc i64 ", value, " to ", type_text(inst.type));
  }
}

}  // namespace detail

namespace {

class LlvmRenderer final : public Renderer {
 public:
  std::string_view name() const override { return "LLVM"; }
  RenderedSource render(const LinearProgram& program, const Target& target) const override {
    return detail::LlvmWriter(program, target).write();
  }
  std::string join(std::span<const RenderedSource> sources) const override {
    return join_c_like(sources);
  }
};

}  // namespace

const Renderer& llvm_renderer() {
  static const LlvmRenderer renderer;
  return renderer;
}

}  // namespace tenon
