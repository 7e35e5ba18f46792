// The walk of a structured program, the names of its values and the prelude, for C-like languages.
// Values are printed in program order, so every name is declared before it is used.
// SPDX-License-Identifier: MIT

#include "tenon/render/c_like.h"

#include <algorithm>
#include <map>

#include "tenon/base/error.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/render/native_ops.h"

namespace tenon {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Types are named "f32", "f32x16", and all functions and types of the prelude end in such a name.
bool ends_in_type_name(std::string_view name) {
  std::string_view last = name.substr(name.rfind('_') + 1);
  const size_t times = last.rfind('x');
  if (times != std::string_view::npos && times + 1 < last.size() &&
      std::ranges::all_of(last.substr(times + 1), is_digit)) {
    last = last.substr(0, times);
  }
  const auto is_it = [&](DType dtype) { return dtype_name(dtype) == last; };
  return std::ranges::any_of(storage_dtypes(), is_it);
}

uint8_t form_bit(const LinearType& type) {
  if (type.lanes > 1) return kVector;
  return dtype_bits(type.dtype) < 32 ? kNarrow : kWide;
}

bool has_effect(Op op) {
  return op == Op::kStore || op == Op::kPrefetch || op == Op::kAtomic || op == Op::kTileStore;
}

}  // namespace

CLikeWriter::CLikeWriter(const LinearProgram& program, const Target& target)
    : program_(program), target_(target) {
  names_.resize(program.values.size());
  live_.assign(program.values.size(), false);
  carried_.resize(program.values.size());
}

RenderedSource CLikeWriter::write() {
  check_program();
  for (const std::string_view word : reserved_words())
    used_names_.emplace(word);
  entry_ = unique_name(program_.name.empty() ? "kernel" : program_.name);
  find_live();
  open_function();
  const auto is_declaration = [&](InstId id) {
    return program_.insts[id].op == Op::kParam || program_.insts[id].op == Op::kAlloc;
  };
  for (const InstId id : program_.regions[0].insts) {
    if (is_declaration(id)) print_inst(id);
  }
  open_body();
  for (const InstId id : program_.regions[0].insts) {
    if (!is_declaration(id)) print_inst(id);
  }
  close_function();
  std::string text;
  for (const std::string& item : types_)
    append(text, item, '\n');
  for (const std::string& item : helpers_)
    append(text, '\n', item, '\n');
  append(text, '\n', body_);
  return {.text = std::move(text), .entry = entry_};
}

// --- liveness ------------------------------------------------------------------------------------

const Inst& CLikeWriter::yield_of(RegionId region) const {
  const Region& body = program_.regions[region];
  TENON_ASSERT(!body.insts.empty() && program_.insts[body.insts.back()].op == Op::kYield,
               "render: region ", region, " of ", program_.name, " does not end in a yield");
  return program_.insts[body.insts.back()];
}

void CLikeWriter::mark_live(ValueId value, std::vector<ValueId>& work) {
  if (live_[value]) return;
  live_[value] = true;
  work.push_back(value);
}

void CLikeWriter::follow_live(ValueId value, std::vector<ValueId>& work) {
  const Carried& carried = carried_[value];
  InstId def = program_.values[value].def;
  if (def == kNoId) {
    if (carried.loop == kNoId) return;  // the index of a loop
    def = carried.loop;
  }
  const Inst& inst = program_.insts[def];
  if (inst.op != Op::kFor && inst.op != Op::kIf) {
    for (const ValueId operand : program_.operands_of(inst))
      mark_live(operand, work);
    return;
  }
  const uint32_t position =
      program_.values[value].def == kNoId ? carried.position : value - inst.first_result;
  for (uint32_t i = 0; i < inst.num_regions; ++i) {
    mark_live(program_.operands_of(yield_of(inst.regions[i]))[position], work);
  }
  if (inst.op == Op::kIf) return;
  mark_live(program_.operands_of(inst)[position + 2], work);
  mark_live(program_.regions[inst.regions[0]].args[position + 1], work);  // the result's variable
}

/// A value is live if memory or control depends on it; the rest would be unused variables.
void CLikeWriter::find_live() {
  std::vector<ValueId> work;
  for (const InstId id : program_order(program_)) {
    const Inst& inst = program_.insts[id];
    const std::span<const ValueId> operands = program_.operands_of(inst);
    if (has_effect(inst.op)) {
      for (const ValueId operand : operands)
        mark_live(operand, work);
    } else if (inst.op == Op::kIf) {
      mark_live(operands[0], work);
    } else if (inst.op == Op::kFor) {
      mark_live(operands[0], work);
      mark_live(operands[1], work);
      const std::vector<ValueId>& args = program_.regions[inst.regions[0]].args;
      for (uint32_t i = 0; i + 1 < args.size(); ++i)
        carried_[args[i + 1]] = {id, i};
    }
  }
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    follow_live(value, work);
  }
}

// --- names and prelude ---------------------------------------------------------------------------

std::string CLikeWriter::unique_name(std::string_view wish) {
  std::string name;
  for (const char c : wish)
    name += is_letter(c) || is_digit(c) ? c : '_';
  if (name.empty() || !is_letter(name[0])) name = concat("v", name);
  if (ends_in_type_name(name)) name += "_v";
  std::string candidate = name;
  for (int number = 2; !used_names_.insert(candidate).second; ++number) {
    candidate = concat(name, '_', number);
  }
  return candidate;
}

std::string& CLikeWriter::name_of(ValueId value) {
  std::string& name = names_[value];
  if (!name.empty()) return name;
  const bool has_name = value < program_.value_names.size() && !program_.value_names[value].empty();
  name = unique_name(has_name ? program_.value_names[value] : concat('v', value));
  return name;
}

bool CLikeWriter::is_inlined(ValueId value) const {
  const InstId def = program_.values[value].def;
  return def != kNoId && program_.insts[def].op == Op::kConst;
}

std::string CLikeWriter::operand_text(ValueId value) {
  if (!is_inlined(value)) return name_of(value);
  const Inst& inst = program_.insts[program_.values[value].def];
  return constant_text(inst.type, static_cast<uint64_t>(inst.imm));
}

void CLikeWriter::add_type(const std::string& item) {
  if (items_.insert(item).second) types_.push_back(item);
}
void CLikeWriter::add_helper(const std::string& item) {
  if (items_.insert(item).second) helpers_.push_back(item);
}

void CLikeWriter::line(std::string_view text) {
  for (const std::string_view part : split(text, '\n')) {
    append(body_, std::string(static_cast<size_t>(2 * depth_), ' '), part, '\n');
  }
}

void CLikeWriter::fail_unsupported(std::string_view what) const {
  fail(ErrorCode::kUnsupported, "render ", language(), ", kernel ", program_.name, ": ", what);
}

// --- templates -----------------------------------------------------------------------------------

std::string CLikeWriter::expand(std::string_view text, const LinearType& deciding,
                                const LinearType& result, std::span<const std::string> operands) {
  const DType dtype = deciding.dtype;
  const auto with = [&](DType other) { return type_text(value_type(other, deciding.lanes)); };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    const char word = text[++i];
    switch (word) {
      case 'R': out += type_text(result); break;
      case 'S': out += type_text(deciding); break;
      case 'M': out += with(DType::kBool); break;
      case 'U': out += with(unsigned_of_same_width(dtype)); break;
      case 'I': out += with(signed_of_same_width(dtype)); break;
      case 'W':
        out += with(form_bit(deciding) == kNarrow ? DType::kU32 : unsigned_of_same_width(dtype));
        break;
      case 'B': append(out, dtype_bits(dtype)); break;
      case '<': out += constant_text(deciding, int_min_bits(dtype)); break;
      case '>': out += constant_text(deciding, int_max_bits(dtype)); break;
      case '#':
        for (int lane = 0; lane < result.lanes; ++lane)
          append(out, lane == 0 ? "" : ", ", lane);
        break;
      default:
        TENON_ASSERT(is_digit(word) && static_cast<size_t>(word - '0') < operands.size(),
                     "render: bad template ", text);
        out += operands[static_cast<size_t>(word - '0')];
    }
  }
  return out;
}

std::string CLikeWriter::op_text(Op op, const LinearType& deciding, const LinearType& result,
                                 std::span<const std::string> operands) {
  for (const OpText& row : op_table()) {
    if (row.op != op || (row.kinds & op_kind_of(deciding.dtype)) == 0 ||
        (row.forms & form_bit(deciding)) == 0) {
      continue;
    }
    if (!row.helper.empty()) add_helper(expand(row.helper, deciding, result));
    return expand(row.text, deciding, result, operands);
  }
  fail_unsupported(concat(op_name(op), " of ", dtype_name(deciding.dtype), " x ", deciding.lanes,
                          " has no spelling in this language. Lower it before."));
}

std::string CLikeWriter::elementwise_text(const Inst& inst) {
  if (const auto reason = detail::why_not_native(program_, inst, target_))
    fail_unsupported(*reason);
  if (inst.op == Op::kCast || inst.op == Op::kBitcast) return cast_text(inst);
  const LinearType& deciding = inst.op == Op::kWhere ? inst.type : operand_type(inst, 0);
  std::vector<std::string> operands;
  for (size_t i = 0; i < inst.num_operands; ++i)
    operands.push_back(operand_text(inst, i));
  const bool fused = inst.op == Op::kMulAcc && target_.fuses_mulacc;
  return op_text(fused ? Op::kFma : inst.op, deciding, inst.type, operands);
}

// --- the walk ------------------------------------------------------------------------------------

std::string CLikeWriter::value_expression(const Inst& inst) {
  if (is_elementwise(inst.op)) return elementwise_text(inst);
  if (inst.op == Op::kLoad) return load_text(inst);
  const OpClass op_class = op_info(inst.op).op_class;
  if (op_class == OpClass::kVector) return vector_text(inst);
  if (op_class == OpClass::kLeaf) return source_text(inst);
  refuse_unit(inst);
  return unit_text(inst);
}

void CLikeWriter::refuse_unit(const Inst& inst) const {
  if (const auto reason = why_not_unit(program_, inst, target_.units)) fail_unsupported(*reason);
}

std::string CLikeWriter::unit_text(const Inst& inst) {
  fail_unsupported(concat("op ", op_name(inst.op), " has no spelling in this language"));
}

/// The statements of a region, then what it yields into `targets`.
// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void CLikeWriter::print_region(RegionId region, std::span<const ValueId> targets) {
  indent();
  for (const InstId id : program_.regions[region].insts)
    print_inst(id);
  print_assignments(targets, program_.operands_of(yield_of(region)));
  dedent();
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void CLikeWriter::print_inst(InstId id) {
  const Inst& inst = program_.insts[id];
  if (inst.op == Op::kYield) return;  // printed by the owner of the region
  if (inst.op == Op::kFor) return print_for(inst);
  if (inst.op == Op::kIf) return print_if(inst);
  if (inst.op == Op::kStore) return line(store_text(inst));
  if (inst.op == Op::kPrefetch) return line(prefetch_text(inst));
  if (inst.op == Op::kBarrier) {
    const std::string text = barrier_text();
    if (!text.empty()) line(text);
    return;
  }
  if (inst.op == Op::kUnitSetup) return refuse_unit(inst);  // compilers set up what they deal out
  if (inst.op == Op::kTileStore) return line(value_expression(inst) + ';');
  const ValueId value = inst.first_result;
  const bool is_used = value != kNoId && live_[value];
  if (inst.op == Op::kAtomic && !is_used) return line(atomic_text(inst) + ';');
  if (!is_used || is_inlined(value)) return;
  if (inst.op == Op::kAlloc) return line(alloc_text(id, name_of(value)));
  const std::string text = inst.op == Op::kAtomic ? atomic_text(inst) : value_expression(inst);
  line(concat(declare_text(inst.type, name_of(value), true), " = ", text, ';'));
}

/// `targets` become `values`, all at once: a value that is overwritten before it is read is saved.
void CLikeWriter::print_assignments(std::span<const ValueId> targets,
                                    std::span<const ValueId> values) {
  std::vector<std::string> sources(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!live_[targets[i]]) continue;
    sources[i] = operand_text(values[i]);
    const auto is_overwritten = [&](ValueId before) {
      return live_[before] && name_of(before) == sources[i];
    };
    const auto before = targets.first(i);
    if (std::ranges::none_of(before, is_overwritten)) continue;
    const std::string saved = unique_name(sources[i] + "_old");
    line(concat(declare_text(program_.type_of(targets[i]), saved, true), " = ", sources[i], ';'));
    sources[i] = saved;
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!live_[targets[i]] || name_of(targets[i]) == sources[i]) continue;
    line(concat(name_of(targets[i]), " = ", sources[i], ';'));
  }
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void CLikeWriter::print_for(const Inst& inst) {
  const std::vector<ValueId>& args = program_.regions[inst.regions[0]].args;
  const auto carried = std::span(args).subspan(1);
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    if (!live_[carried[i]]) continue;
    const std::string& name = name_of(carried[i]);
    names_[inst.first_result + i] = name;
    line(concat(declare_text(program_.type_of(carried[i]), name, false), " = ",
                operand_text(inst, i + 2), ';'));
  }
  const std::string index = name_of(args[0]);
  line(concat("for (", declare_text(program_.type_of(args[0]), index, false), " = ",
              operand_text(inst, 0), "; ", index, " < ", operand_text(inst, 1), "; ++", index,
              ") {"));
  print_region(inst.regions[0], carried);
  line("}");
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void CLikeWriter::print_if(const Inst& inst) {
  std::vector<ValueId> results;
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    const ValueId result = inst.first_result + i;
    if (live_[result]) {
      line(concat(declare_text(program_.type_of(result), name_of(result), false), ';'));
    }
    results.push_back(result);
  }
  line(concat("if (", operand_text(inst, 0), ") {"));
  print_region(inst.regions[0], results);
  const bool has_result = std::ranges::any_of(results, [&](ValueId id) { return is_live(id); });
  if (has_result || program_.regions[inst.regions[1]].insts.size() > 1) {
    line("} else {");
    print_region(inst.regions[1], results);
  }
  line("}");
}

// --- joining -------------------------------------------------------------------------------------

namespace {

/// The items of a text: a line at the left margin, through "}" if it ends in "{".
std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    TENON_ASSERT(end != std::string_view::npos, "join: the text does not end in a new line");
    if (end > begin && text[end - 1] == '{') {
      end = text.find("\n}\n", end - 1);
      TENON_ASSERT(end != std::string_view::npos, "join: a block is not closed");
      end += 2;
    }
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

std::string join_c_like(std::span<const RenderedSource> sources) {
  std::set<std::string_view> printed;
  std::map<std::string_view, std::string_view> texts;  // by entry
  std::string out;
  for (const RenderedSource& source : sources) {
    const auto [other, is_new] = texts.emplace(source.entry, source.text);
    TENON_CHECK(is_new || other->second == source.text, ErrorCode::kInvalidArgument,
                "join: two different kernels are named ", source.entry, ". Rename one.");
    for (const std::string_view item : items_of(source.text)) {
      if (!printed.insert(item).second) continue;
      const bool is_block = item.ends_with('}') && item.find('\n') != std::string_view::npos;
      append(out, is_block && !out.empty() ? "\n" : "", item, '\n');
    }
  }
  return out;
}

}  // namespace tenon
