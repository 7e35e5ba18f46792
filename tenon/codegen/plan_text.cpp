// Text form of plans, printed and read back exactly. SPDX-License-Identifier: MIT
//
//   plan NAME {
//     comp 0 before at 2 1@seq 1      comp, where it is placed, then its parts: axis@role step
//     comp 1 root 0@grid 8 0@seq 1
//   }

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan.h"
#include "tenon/ir/kernel_lexer.h"

namespace tenon {
namespace {

struct RoleWord {
  Role role;
  std::string_view word;
};
constexpr std::array<RoleWord, 2> kRoleWords{{{Role::kGrid, "grid"}, {Role::kSeq, "seq"}}};

std::string_view role_word(Role role) {
  for (const RoleWord& entry : kRoleWords) {
    if (entry.role == role) return entry.word;
  }
  return "?";  // refused by check_plan
}

/// Words between white space, with their places.
class PlanParser {
 public:
  PlanParser(std::string_view text, std::string_view source_name)
      : text_(text), source_name_(source_name) {
    advance();
  }

  Plan run(const Kernel& kernel) {
    expect("plan");
    expect(kernel.name);
    expect("{");
    Plan plan;
    while (word_ == "comp")
      plan.comps.push_back(parse_comp());
    expect("}");
    if (!word_.empty()) fail_here("the end");
    return plan;
  }

 private:
  CompPlan parse_comp() {
    CompPlan comp;
    expect("comp");
    comp.comp = take_number();
    if (word_ == "before") {
      comp.how = How::kBefore;
      expect("before");
      expect("at");
      comp.at = take_number();
    } else {
      expect("root");
    }
    while (word_.find('@') != std::string_view::npos)
      comp.parts.push_back(parse_part());
    return comp;
  }

  Part parse_part() {
    const size_t at = word_.find('@');
    Part part;
    part.axis = parse_small(word_.substr(0, at));
    const std::string_view role = word_.substr(at + 1);
    for (const RoleWord& entry : kRoleWords) {
      if (entry.word == role) part.role = entry.role;
    }
    if (role_word(part.role) != role) fail_here("AXIS@grid or AXIS@seq");
    advance();
    const auto step = parse_int(word_);
    if (!step) fail_here("a step");
    part.step = *step;
    advance();
    return part;
  }

  /// `word` (of the current one) as a number of an axis, comp or loop.
  int parse_small(std::string_view word) {
    constexpr int64_t kMax = 1 << 20;
    const auto value = parse_int(word);
    if (!value || *value < 0 || *value > kMax) fail_here("a number");
    return static_cast<int>(*value);
  }

  int take_number() {
    const int number = parse_small(word_);
    advance();
    return number;
  }

  void expect(std::string_view word) {
    if (word_ != word) fail_here(concat("'", word, "'"));
    advance();
  }

  void advance() {
    constexpr std::string_view kSpace = " \t\n";
    const size_t begin = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
    at_ = std::min(text_.find_first_of(kSpace, begin), text_.size());
    word_ = text_.substr(begin, at_ - begin);
  }

  [[noreturn]] void fail_here(std::string_view wanted) const {
    detail::fail_at(text_, source_name_, at_ - word_.size(),
                    concat("found '", word_.substr(0, 40), "', expected ", wanted));
  }

  std::string_view text_;
  std::string_view source_name_;
  std::string_view word_;
  size_t at_ = 0;  // behind word_
};

}  // namespace

std::string to_text(const Plan& plan, const Kernel& kernel) {
  std::string text = concat("plan ", kernel.name, " {\n");
  for (const CompPlan& comp : plan.comps) {
    append(text, "  comp ", comp.comp,
           comp.how == How::kRoot ? " root" : concat(" before at ", comp.at));
    for (const Part& part : comp.parts)
      append(text, " ", part.axis, "@", role_word(part.role), " ", part.step);
    text += "\n";
  }
  return text + "}\n";
}

Plan parse_plan(std::string_view text, const Kernel& kernel, std::string_view source_name) {
  return PlanParser(text, source_name).run(kernel);
}

}  // namespace tenon
