// Two forward analyses over the regions. SPDX-License-Identifier: MIT

#include "tenon/ir/linear_facts.h"

#include <algorithm>
#include <bit>

namespace tenon {

namespace {

class VarianceAnalysis {
 public:
  explicit VarianceAnalysis(const LinearProgram& program)
      : program_(program), order_(program_order(program)), variant_(program.values.size(), false) {}

  // Marks only ever grow. A pass finds all but what flows around loops; chains of carried values
  // longer than the passes allowed are given up as variant.
  std::vector<bool> run() {
    if (num_lanes(program_) == 1) return std::move(variant_);
    constexpr int kMaxPasses = 64;
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      changed_ = false;
      for (const InstId id : order_)
        visit(program_.insts[id]);
      if (!changed_) return std::move(variant_);
    }
    variant_.assign(variant_.size(), true);
    return std::move(variant_);
  }

 private:
  void mark(ValueId value, bool is_variant) {
    if (!is_variant || variant_[value]) return;
    variant_[value] = true;
    changed_ = true;
  }

  void visit(const Inst& inst) {
    const auto operands = program_.operands_of(inst);
    if (inst.op == Op::kFor) return visit_for(inst, operands);
    if (inst.op == Op::kIf) return visit_if(inst, operands);
    bool is_variant = inst.op == Op::kAtomic ||
                      (inst.op == Op::kLaneId && program_.lanes[static_cast<size_t>(inst.imm)] > 1);
    for (const ValueId operand : operands)
      is_variant = is_variant || variant_[operand];
    if (inst.op == Op::kLoad || inst.op == Op::kTileLoad) {
      is_variant = is_variant || program_.type_of(operands[0]).scope == Scope::kReg;
    }
    for (uint32_t i = 0; i < inst.num_results; ++i)
      mark(inst.first_result + i, is_variant);
  }

  std::span<const ValueId> yields_of(RegionId region) const {
    return program_.operands_of(program_.insts[program_.regions[region].insts.back()]);
  }

  void visit_for(const Inst& inst, std::span<const ValueId> operands) {
    const auto& args = program_.regions[inst.regions[0]].args;
    const auto yields = yields_of(inst.regions[0]);
    const bool bounds = variant_[operands[0]] || variant_[operands[1]];
    mark(args[0], bounds);
    for (size_t i = 0; i + 1 < args.size(); ++i) {
      const bool carried = bounds || variant_[operands[i + 2]] || variant_[yields[i]];
      mark(args[i + 1], carried);
      mark(inst.first_result + static_cast<ValueId>(i), carried);
    }
  }

  void visit_if(const Inst& inst, std::span<const ValueId> operands) {
    const auto then_yields = yields_of(inst.regions[0]);
    const auto else_yields = yields_of(inst.regions[1]);
    for (uint32_t i = 0; i < inst.num_results; ++i) {
      mark(inst.first_result + i,
           variant_[operands[0]] || variant_[then_yields[i]] || variant_[else_yields[i]]);
    }
  }

  const LinearProgram& program_;
  std::vector<InstId> order_;
  std::vector<bool> variant_;
  bool changed_ = false;
};

uint64_t mask_of(int bits) {
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

int trailing_zeros(const LowBits& bits) {
  return std::min(bits.known, std::countr_zero(bits.value & mask_of(bits.known)));
}

LowBits agreeing(const LowBits& a, const LowBits& b) {
  return {std::min({a.known, b.known, std::countr_zero(a.value ^ b.value)}), a.value};
}

LowBits low_bits_of(const Inst& inst, std::span<const LowBits> args) {
  const auto both = [&] { return std::min(args[0].known, args[1].known); };
  // The product's bits below (known bits of one + zeros of the other) follow from both.
  const auto product_known = [&] {
    return std::min(
        {args[0].known + trailing_zeros(args[1]), args[1].known + trailing_zeros(args[0]), 64});
  };
  // One enumerator per op would say nothing here: all others give no knowledge.
  if (inst.op == Op::kConst) return {64, static_cast<uint64_t>(inst.imm)};
  if (inst.op == Op::kAdd) return {both(), args[0].value + args[1].value};
  if (inst.op == Op::kSub) return {both(), args[0].value - args[1].value};
  if (inst.op == Op::kMul) return {product_known(), args[0].value * args[1].value};
  if (inst.op == Op::kShl && args[1].known == 64 && args[1].value < 64) {
    const int count = static_cast<int>(args[1].value);
    return {std::min(args[0].known + count, 64), args[0].value << count};
  }
  if (inst.op == Op::kAnd) {
    for (int i = 0; i < 2; ++i) {
      const LowBits& mask = args[static_cast<size_t>(i)];
      if (mask.known == 64 && trailing_zeros(mask) > both()) return {trailing_zeros(mask), 0};
    }
    return {both(), args[0].value & args[1].value};
  }
  if (inst.op == Op::kMin || inst.op == Op::kMax) return agreeing(args[0], args[1]);
  if (inst.op == Op::kWhere) return agreeing(args[1], args[2]);
  if (inst.op == Op::kCast) return args[0];
  return {};
}

}  // namespace

std::vector<bool> lane_variant_values(const LinearProgram& program) {
  return VarianceAnalysis(program).run();
}

std::vector<LowBits> known_low_bits(const LinearProgram& program) {
  std::vector<LowBits> facts(program.values.size());
  const auto is_scalar_int = [&](ValueId value) {
    const LinearType& type = program.type_of(value);
    return type.kind == TypeKind::kValue && type.lanes == 1 && is_int(type.dtype);
  };
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    if (inst.num_results != 1 || inst.num_regions != 0 || inst.num_operands > 3) continue;
    if (!is_scalar_int(inst.first_result)) continue;
    std::array<LowBits, 3> args{};
    for (size_t i = 0; i < inst.num_operands; ++i)
      args[i] = facts[program.operands_of(inst)[i]];
    LowBits result = low_bits_of(inst, args);
    // Above its width a value is its sign or zeros, which nothing here tracks; a constant keeps all
    // its bits so that "fully known" can be told.
    if (inst.op != Op::kConst) {
      result.known = std::min(result.known, dtype_bits(program.type_of(inst.first_result).dtype));
    }
    facts[inst.first_result] = result;
  }
  return facts;
}

}  // namespace tenon
