// What the rules of linear programs share: the program, the facts they ask for, and the list of
// findings. Private to linear_verify.cpp and linear_rules.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/text.h"
#include "tenon/ir/linear.h"
#include "tenon/ir/linear_facts.h"
#include "tenon/types/support.h"

namespace tenon::detail {

class LinearChecker {
 public:
  LinearChecker(const LinearProgram& checked_program, const Target* checked_target)
      : program(checked_program), target(checked_target) {}

  const LinearProgram& program;
  const Target* target;
  std::vector<LowBits> low_bits;  ///< filled before the instruction rules run

  // Where the rule in progress stands; the driver sets them.
  std::string_view rule;
  InstId inst_id = kNoId;
  RegionId region = 0;
  bool is_under_condition = false;  ///< it stands in an `if`, so it may never run

  static constexpr size_t kMaxFindings = 20;
  bool is_full() const { return findings.size() >= kMaxFindings; }

  /// Adds a finding about the current instruction, or the program if there is none.
  template <typename... Parts>
  void found(const Parts&... parts) {
    if (!is_full()) findings.push_back(place() + concat(rule, ": ", parts...));
  }
  template <typename... Parts>
  void expect(bool holds, const Parts&... parts) {
    if (!holds) found(parts...);
  }

  void expect(const Support& support) {
    if (support) return;
    found(support.reason().text);
    if (reason == nullptr) reason = support.shared_reason();
  }

  std::string place() const;
  std::string name(ValueId value) const;
  const LinearType& operand_type(const Inst& inst, size_t i) const {
    return program.type_of(program.operands_of(inst)[i]);
  }

  std::vector<std::string> findings;
  std::shared_ptr<const Reason> reason;  ///< of the first one about a field of the Target
  std::vector<std::string> names;        ///< printed names by ValueId, once the structure is sound
};

/// A rule about one instruction; it looks at the ops it is for.
struct LinearRule {
  std::string_view name;
  void (*check)(LinearChecker& checker, const Inst& inst);
};

/// In order; instructions that fail the first ("operands") see no other.
std::span<const LinearRule> linear_inst_rules();
/// Run only with a Target.
std::span<const LinearRule> linear_target_rules();

}  // namespace tenon::detail
