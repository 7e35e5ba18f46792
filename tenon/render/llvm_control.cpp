// Names of values, blocks, loops and branches in LLVM IR. A loop tests at its end, behind a test
// before it unless its bounds are constants; carried values are its phis.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/render/llvm_writer.h"

namespace tenon::detail {

LlvmWriter::LlvmWriter(const LinearProgram& program, const Target& target)
    : program_(program), target_(target) {}

void LlvmWriter::fail_unsupported(std::string_view what) const {
  fail(ErrorCode::kUnsupported, "render LLVM, kernel ", program_.name, ": ", what);
}

// --- names ---------------------------------------------------------------------------------------

std::string LlvmWriter::unique_name(std::string_view wish) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string name;
  for (const char c : wish)
    name += is_letter(c) || (c >= '0' && c <= '9') ? c : '_';
  if (name.empty() || !is_letter(name[0])) name = concat('v', name);
  std::string candidate = name;
  for (int number = 2; !used_names_.insert(candidate).second; ++number) {
    candidate = concat(name, '_', number);
  }
  return candidate;
}

void LlvmWriter::name_values() {
  names_.resize(program_.values.size());
  for (ValueId value = 0; value < names_.size(); ++value) {
    const bool has_name =
        value < program_.value_names.size() && !program_.value_names[value].empty();
    names_[value] = unique_name(has_name ? program_.value_names[value] : concat('v', value));
  }
}

const uint64_t* LlvmWriter::constant_bits(ValueId value) const {
  const InstId def = program_.values[value].def;
  // A tile of zeros is an instruction.
  const bool is_constant = def != kNoId && program_.insts[def].op == Op::kConst &&
                           program_.insts[def].type.kind != TypeKind::kTile;
  if (!is_constant) return nullptr;
  return reinterpret_cast<const uint64_t*>(&program_.insts[def].imm);
}

std::string LlvmWriter::operand_text(ValueId value) const {
  if (const uint64_t* bits = constant_bits(value)) {
    return constant_text(program_.type_of(value), *bits);
  }
  return concat('%', names_[value]);
}

// --- blocks --------------------------------------------------------------------------------------

void LlvmWriter::open_block(const std::string& label) {
  append(body_, label, ":\n");
  block_ = label;
}

void LlvmWriter::branch_to(const std::string& label) {
  line("br label %", label);
}

const Inst& LlvmWriter::yield_of(RegionId region) const {
  const Region& body = program_.regions[region];
  TENON_ASSERT(!body.insts.empty() && program_.insts[body.insts.back()].op == Op::kYield,
               "render: region ", region, " of ", program_.name, " does not end in a yield");
  return program_.insts[body.insts.back()];
}

void LlvmWriter::print_phi(ValueId value, const std::string& name,
                           std::span<const std::string> values,
                           std::span<const std::string> blocks) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    append(text, i == 0 ? " [ " : ", [ ", values[i], ", %", blocks[i], " ]");
  }
  line('%', name, " = phi ", type_text(program_.type_of(value)), text);
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void LlvmWriter::print_region(RegionId region) {
  for (const InstId id : program_.regions[region].insts)
    print_inst(id);
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void LlvmWriter::print_inst(InstId id) {
  const Inst& inst = program_.insts[id];
  // A name for the steps of what has no result: no value is named with a dot and a number.
  const std::string name =
      inst.first_result == kNoId ? concat("at.", id) : names_[inst.first_result];
  // Constants stand where they are used; print_entry has printed params and allocs; a group has one
  // lane, so a barrier is nothing; the owner of a region prints what it yields.
  const bool is_of_unit = inst.op == Op::kConst || op_info(inst.op).op_class == OpClass::kUnit;
  if (is_of_unit && inst.type.kind == TypeKind::kTile) return print_tile(inst, name);
  for (const Op silent : {Op::kConst, Op::kParam, Op::kAlloc, Op::kBarrier, Op::kYield}) {
    if (inst.op == silent) return;
  }
  if (inst.op == Op::kGridId) return print_grid_id(inst);
  if (inst.op == Op::kLaneId) return print_alias(inst.type, name, "0");
  if (inst.op == Op::kFor) return print_for(id);
  if (inst.op == Op::kIf) return print_if(id);
  if (inst.op == Op::kLoad) return print_load(inst, name);
  if (inst.op == Op::kStore) return print_store(inst, name);
  if (inst.op == Op::kPrefetch) return print_prefetch(inst, name);
  if (inst.op == Op::kAtomic) return print_atomic(inst, name);
  if (is_elementwise(inst.op)) return print_elementwise(inst, name);
  if (op_info(inst.op).op_class == OpClass::kVector) return print_vector(inst, name);
  if (const auto reason = why_not_unit(program_, inst, target_.units)) fail_unsupported(*reason);
  if (inst.op == Op::kMma) return print_mma(inst, name);  // a unit_setup is the compiler's business
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void LlvmWriter::print_for(InstId id) {
  const Inst& inst = program_.insts[id];
  const std::vector<ValueId>& args = program_.regions[inst.regions[0]].args;
  const std::string loop = concat("for.", id);
  const std::string index_type = type_text(program_.type_of(args[0]));
  const std::string begin = operand_text(inst, 0);
  const std::string end = operand_text(inst, 1);
  const std::string before = block_;
  const uint64_t* first = constant_bits(program_.operands_of(inst)[0]);
  const uint64_t* last = constant_bits(program_.operands_of(inst)[1]);
  const bool may_be_empty = first == nullptr || last == nullptr ||
                            static_cast<int64_t>(*first) >= static_cast<int64_t>(*last);
  if (may_be_empty) {
    line('%', loop, ".any = icmp slt ", index_type, ' ', begin, ", ", end);
    line("br i1 %", loop, ".any, label %", loop, ".body, label %", loop, ".end");
  } else {
    branch_to(loop + ".body");
  }
  open_block(loop + ".body");
  const Inst& yield = yield_of(inst.regions[0]);
  const std::array blocks{before, loop + ".latch"};
  print_phi(args[0], names_[args[0]], std::array{begin, concat('%', loop, ".next")}, blocks);
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    print_phi(args[i + 1], names_[args[i + 1]],
              std::array{operand_text(inst, i + 2), operand_text(yield, i)}, blocks);
  }
  print_region(inst.regions[0]);
  branch_to(loop + ".latch");
  open_block(loop + ".latch");
  line('%', loop, ".next = add ", index_type, " %", names_[args[0]], ", 1");
  line('%', loop, ".more = icmp slt ", index_type, " %", loop, ".next, ", end);
  line("br i1 %", loop, ".more, label %", loop, ".body, label %", loop, ".end");
  open_block(loop + ".end");
  const size_t num_ways = may_be_empty ? 2 : 1;
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    const std::array values{operand_text(yield, i), operand_text(inst, i + 2)};
    print_phi(inst.first_result + i, names_[inst.first_result + i],
              std::span(values).first(num_ways), std::array{loop + ".latch", before});
  }
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void LlvmWriter::print_if(InstId id) {
  const Inst& inst = program_.insts[id];
  const std::string branch = concat("if.", id);
  const bool has_else = program_.regions[inst.regions[1]].insts.size() > 1;
  std::array blocks{block_, block_};  // where then and else end
  line("br i1 ", operand_text(inst, 0), ", label %", branch, ".then, label %", branch,
       has_else ? ".else" : ".end");
  for (size_t way = 0; way < 2; ++way) {
    if (way == 1 && !has_else) continue;
    open_block(branch + (way == 0 ? ".then" : ".else"));
    print_region(inst.regions[way]);
    blocks[way] = block_;
    branch_to(branch + ".end");
  }
  open_block(branch + ".end");
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    const std::array values{operand_text(yield_of(inst.regions[0]), i),
                            operand_text(yield_of(inst.regions[1]), i)};
    print_phi(inst.first_result + i, names_[inst.first_result + i], values, blocks);
  }
}

}  // namespace tenon::detail
