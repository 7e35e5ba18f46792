// Drives the rules: first the structure (ids, regions, order), which all else relies on, then the
// program as a whole, each instruction, and what lanes may do. SPDX-License-Identifier: MIT

#include "tenon/ir/linear_verify.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "tenon/ir/linear_checker.h"
#include "tenon/ir/linear_text.h"

namespace tenon {

namespace detail {

std::string LinearChecker::place() const {
  if (inst_id == kNoId) return program.name + ": ";
  const Inst& inst = program.insts[inst_id];
  std::string results;
  for (uint32_t i = 0; i < inst.num_results && !names.empty(); ++i) {
    append(results, i == 0 ? "%" : ", %", names[inst.first_result + i]);
  }
  return concat(program.name, ", instruction ", inst_id, " (", results,
                results.empty() ? "" : " = ", op_name(inst.op), "): ");
}

std::string LinearChecker::name(ValueId value) const {
  return value < names.size() ? "%" + names[value] : concat("value ", value);
}

}  // namespace detail

namespace {

using detail::LinearChecker;

// --- structure ----------------------------------------------------------------------------------

/// Ids in range, every region and instruction in one place, regions end as they must. Depth is
/// bounded here, so that everything after it may recurse.
class StructureCheck {
 public:
  explicit StructureCheck(LinearChecker& checker)
      : checker_(checker),
        program_(checker.program),
        has_region_(program_.regions.size(), false),
        has_inst_(program_.insts.size(), false),
        is_defined_(program_.values.size(), false) {}

  void run() {
    checker_.rule = "structure";
    if (program_.regions.empty()) return checker_.found("there is no body");
    checker_.expect(program_.regions[0].args.empty(), "the body has region arguments");
    has_region_[0] = true;
    struct Cursor {
      RegionId region;
      size_t next;
    };
    std::vector<Cursor> stack{{0, 0}};
    while (!stack.empty() && !checker_.is_full()) {
      const auto& insts = program_.regions[stack.back().region].insts;
      if (stack.back().next == insts.size()) {
        stack.pop_back();
        continue;
      }
      const RegionId region = stack.back().region;
      const bool is_last = ++stack.back().next == insts.size();
      const InstId id = insts[stack.back().next - 1];
      if (!visit(id, region, is_last)) continue;
      const Inst& inst = program_.insts[id];
      for (size_t i = inst.num_regions; i-- > 0;) {
        if (enter(inst.regions[i])) stack.push_back({inst.regions[i], 0});
      }
    }
  }

 private:
  bool enter(RegionId region) {
    if (region >= program_.regions.size()) {
      checker_.found("region ", region, " of ", program_.regions.size());
      return false;
    }
    if (has_region_[region]) {
      checker_.found("region ", region, " stands in two places");
      return false;
    }
    has_region_[region] = true;
    depth_.resize(program_.regions.size(), 0);
    depth_[region] = current_depth_ + 1;
    if (depth_[region] > kMaxRegionDepth) {
      checker_.found("regions are nested deeper than ", kMaxRegionDepth);
      return false;
    }
    for (const ValueId arg : program_.regions[region].args)
      define(arg, kNoId);
    const auto& insts = program_.regions[region].insts;
    const bool ends_right = !insts.empty() && insts.back() < program_.insts.size() &&
                            program_.insts[insts.back()].op == Op::kYield;
    checker_.expect(ends_right, "region ", region, " does not end with yield");
    return ends_right;
  }

  bool visit(InstId id, RegionId region, bool is_last) {
    checker_.inst_id = kNoId;
    if (id >= program_.insts.size()) {
      checker_.found("instruction ", id, " of ", program_.insts.size());
      return false;
    }
    if (has_inst_[id]) {
      checker_.found("instruction ", id, " stands in two places");
      return false;
    }
    has_inst_[id] = true;
    checker_.inst_id = id;
    current_depth_ = region < depth_.size() ? depth_[region] : 0;
    const Inst& inst = program_.insts[id];
    if (uint64_t{inst.first_operand} + inst.num_operands > program_.operands.size()) {
      checker_.found("operands ", inst.first_operand, " to ",
                     uint64_t{inst.first_operand} + inst.num_operands, " of a pool of ",
                     program_.operands.size());
      return false;
    }
    for (const ValueId operand : program_.operands_of(inst)) {
      checker_.expect(operand < program_.values.size(), "operand ", operand, " of ",
                      program_.values.size(), " values");
    }
    for (uint32_t i = 0; i < inst.num_results; ++i)
      define(uint64_t{inst.first_result} + i, id);
    const bool may_yield = region != 0 && is_last;
    checker_.expect(inst.op != Op::kYield || may_yield,
                    "yield stands elsewhere than at the end of a region of for or if");
    const uint16_t wanted = inst.op == Op::kFor ? 1 : inst.op == Op::kIf ? 2 : 0;
    checker_.expect(inst.num_regions == wanted, op_name(inst.op), " has ", inst.num_regions,
                    " regions, expected ", wanted);
    return inst.num_regions == wanted;
  }

  void define(uint64_t value, InstId id) {
    if (value >= program_.values.size()) {
      return checker_.found("result ", value, " of ", program_.values.size(), " values");
    }
    checker_.expect(!is_defined_[value], "value ", value, " is defined twice");
    checker_.expect(program_.values[value].def == id, "value ", value,
                    " names another definition than it has");
    is_defined_[value] = true;
  }

  LinearChecker& checker_;
  const LinearProgram& program_;
  std::vector<bool> has_region_;
  std::vector<bool> has_inst_;
  std::vector<bool> is_defined_;
  std::vector<int> depth_;
  int current_depth_ = 0;
};

// --- the program as a whole
// -----------------------------------------------------------------------

void check_extents(LinearChecker& checker, std::string_view what,
                   const std::vector<int64_t>& extents, int64_t most) {
  checker.expect(!extents.empty() && extents.size() <= 3, what, " has ", extents.size(),
                 " dimensions, expected 1 to 3");
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent < 1 || extent > most || product > most / extent) {
      return checker.found(what, " is ", extents, ", expected extents of at least 1 and a product ",
                           "of at most ", most);
    }
    product *= extent;
  }
}

void check_argument(LinearChecker& checker, const Argument& arg) {
  if (arg.dtype == DType::kIdx) return checker.found("argument '", arg.name, "' is idx");
  if (arg.is_buffer) {
    checker.expect(arg.num_elements >= 0 && arg.num_elements <= kMaxBufferElements, "argument '",
                   arg.name, "' has ", arg.num_elements, " elements");
    return;
  }
  checker.expect(arg.access == ArgumentAccess::kRead, "scalar argument '", arg.name,
                 "' is written");
  if (!is_int(arg.dtype)) return;
  const bool is_ordered = is_unsigned_int(arg.dtype)
                              ? static_cast<uint64_t>(arg.min) <= static_cast<uint64_t>(arg.max)
                              : arg.min <= arg.max;
  checker.expect(is_ordered, "argument '", arg.name, "' has the empty range ", arg.min, "..",
                 arg.max);
}

constexpr int64_t kMaxGroups = int64_t{1} << 40;
constexpr int64_t kMaxLanes = int64_t{1} << 16;

void check_program(LinearChecker& checker) {
  const LinearProgram& program = checker.program;
  checker.rule = "function";
  checker.expect(!program.name.empty(), "the function has no name");
  check_extents(checker, "grid", program.grid, kMaxGroups);
  check_extents(checker, "lanes", program.lanes, kMaxLanes);
  for (const Argument& arg : program.signature.arguments)
    check_argument(checker, arg);
  const Target* const target = checker.target;
  if (target == nullptr || checker.is_full() || !checker.findings.empty()) return;
  checker.rule = "target limits";
  checker.expect(supports(*target, Limit::kArguments, std::ssize(program.signature.arguments)));
  checker.expect(supports(*target, Limit::kLanes, num_lanes(program)));
  checker.expect(supports(*target, Limit::kGroups, num_groups(program)));
  checker.expect(supports(*target, Limit::kLocalBytes, program.scratch_bytes));
}

// --- order and lanes
// ------------------------------------------------------------------------------

/// Walks the regions in order; runs the instruction rules where the operands are known to be
/// visible, so that no rule meets an undefined value.
class InstCheck {
 public:
  explicit InstCheck(LinearChecker& checker)
      : checker_(checker), program_(checker.program), is_visible_(program_.values.size(), false) {}

  void run() { walk(0); }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): at most kMaxRegionDepth deep, by StructureCheck
  void walk(RegionId region) {
    std::vector<ValueId> defined;
    const auto define = [&](ValueId value) {
      is_visible_[value] = true;
      defined.push_back(value);
    };
    for (const ValueId arg : program_.regions[region].args)
      define(arg);
    for (const InstId id : program_.regions[region].insts) {
      if (checker_.is_full()) return;
      const Inst& inst = program_.insts[id];
      checker_.inst_id = id;
      checker_.region = region;
      check_visible(inst);
      check_rules(inst);
      const bool was_under_condition = checker_.is_under_condition;
      checker_.is_under_condition = was_under_condition || !must_run(inst);
      for (size_t i = 0; i < inst.num_regions; ++i)
        walk(inst.regions[i]);
      checker_.is_under_condition = was_under_condition;
      for (uint32_t i = 0; i < inst.num_results; ++i)
        define(inst.first_result + i);
    }
    for (const ValueId value : defined)
      is_visible_[value] = false;
  }

  // Whether the regions are entered whatever the input: a loop's bounds are constants then.
  bool must_run(const Inst& inst) const {
    if (inst.op != Op::kFor) return inst.op != Op::kIf;
    const auto constant = [&](size_t operand) -> const Inst* {
      const InstId def = program_.values[program_.operands_of(inst)[operand]].def;
      const bool is_const = def != kNoId && program_.insts[def].op == Op::kConst;
      return is_const ? &program_.insts[def] : nullptr;
    };
    const Inst* const begin = constant(0);
    const Inst* const end = constant(1);
    return begin != nullptr && end != nullptr && begin->imm < end->imm;
  }

  void check_visible(const Inst& inst) {
    checker_.rule = "visible";
    for (const ValueId operand : program_.operands_of(inst)) {
      checker_.expect(is_visible_[operand], checker_.name(operand),
                      " is not defined before this in an enclosing region");
    }
  }

  void check_rules(const Inst& inst) {
    const auto rules = detail::linear_inst_rules();
    for (const detail::LinearRule& rule : rules) {
      const size_t before = checker_.findings.size();
      checker_.rule = rule.name;
      rule.check(checker_, inst);
      const bool is_first = &rule == rules.data();
      if (is_first && checker_.findings.size() != before) return;
    }
    if (checker_.target == nullptr) return;
    for (const detail::LinearRule& rule : detail::linear_target_rules()) {
      checker_.rule = rule.name;
      rule.check(checker_, inst);
    }
  }

  LinearChecker& checker_;
  const LinearProgram& program_;
  std::vector<bool> is_visible_;
};

void check_scratch(LinearChecker& checker) {
  checker.rule = "scratch";
  checker.inst_id = kNoId;
  const int64_t wanted = layout_scratch(checker.program).size_bytes;
  checker.expect(checker.program.scratch_bytes == wanted, "scratch is ",
                 checker.program.scratch_bytes, " bytes, the group allocs take ", wanted);
}

// NOLINTNEXTLINE(misc-no-recursion): at most kMaxRegionDepth deep, by StructureCheck
void find_divergent_barriers(LinearChecker& checker, const std::vector<bool>& variant,
                             RegionId region, bool is_divergent) {
  for (const InstId id : checker.program.regions[region].insts) {
    const Inst& inst = checker.program.insts[id];
    checker.inst_id = id;
    checker.expect(inst.op != Op::kBarrier || !is_divergent,
                   "a barrier that not all lanes reach: a condition or bound around it depends on ",
                   "the lane");
    const auto operands = checker.program.operands_of(inst);
    bool inner = is_divergent;
    if (inst.num_regions > 0) inner = inner || variant[operands[0]];
    if (inst.op == Op::kFor) inner = inner || variant[operands[1]];
    for (size_t i = 0; i < inst.num_regions; ++i) {
      find_divergent_barriers(checker, variant, inst.regions[i], inner);
    }
  }
}

}  // namespace

namespace {

void run(LinearChecker& checker) {
  const LinearProgram& program = checker.program;
  StructureCheck(checker).run();
  if (!checker.findings.empty()) return;
  checker.inst_id = kNoId;
  checker.names = printed_names(program);
  check_program(checker);
  checker.low_bits = known_low_bits(program);
  InstCheck(checker).run();
  if (!checker.findings.empty()) return;
  check_scratch(checker);
  checker.rule = "barrier";
  find_divergent_barriers(checker, lane_variant_values(program), 0, false);
}

}  // namespace

std::vector<std::string> verify_linear(const LinearProgram& program, const Target* target) {
  LinearChecker checker(program, target);
  run(checker);
  return checker.findings;
}

void check_linear(const LinearProgram& program, const Target* target, ErrorCode code) {
  LinearChecker checker(program, target);
  run(checker);
  if (checker.findings.empty()) return;
  throw Error(code,
              concat("linear program: ", checker.findings.size(), " rules broken\n  ",
                     join(checker.findings, "\n  ")),
              checker.reason);
}

std::vector<std::string_view> linear_rule_names() {
  std::vector<std::string_view> names{"structure", "function", "target limits", "visible"};
  for (const auto& rule : detail::linear_inst_rules())
    names.push_back(rule.name);
  for (const auto& rule : detail::linear_target_rules())
    names.push_back(rule.name);
  names.insert(names.end(), {"scratch", "barrier"});
  return names;
}

}  // namespace tenon
