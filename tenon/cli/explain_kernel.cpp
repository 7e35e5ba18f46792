// SPDX-License-Identifier: MIT

#include "tenon/cli/explain_kernel.h"

#include <algorithm>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"

namespace tenon::cli {
namespace {

/// What the pipeline told after each pass: texts, since those are what changed or did not.
class PassLog {
 public:
  void add(std::string_view pass, std::string text) {
    steps_.push_back({std::string(pass), std::move(text)});
  }

  std::string text(bool shows_texts) const {
    Table table;
    std::string texts;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const bool is_changed = i == 0 || steps_[i].text != steps_[i - 1].text;
      const auto num_lines = std::count(steps_[i].text.begin(), steps_[i].text.end(), '\n');
      table.add({steps_[i].pass,
                 i == 0       ? "given"
                 : is_changed ? "changed"
                              : "no change",
                 concat(num_lines, " lines")});
      if (is_changed && i > 0) append(texts, "-- after ", steps_[i].pass, "\n", steps_[i].text);
    }
    return shows_texts ? table.text() + texts : table.text();
  }

 private:
  struct Step {
    std::string pass;
    std::string text;
  };
  std::vector<Step> steps_;
};

std::string disassembly(const LinearProgram& program, const EngineDevice& device) {
  try {
    const ProgramObject object = compile_linear(device, program);
    return device.compiler().disassemble(object.payload, object.entry);
  } catch (const Error& error) {
    const bool is_missing =
        error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kNotFound;
    if (!is_missing) throw;
    return concat("not available: ", error.what());
  }
}

/// The Plan, then the cheapest of those that could be taken instead, each with what it costs.
std::string priced_plans(const Plan& plan, const Kernel& kernel, const Target& target) {
  constexpr size_t kRunnersUp = 3;
  const auto priced = [&](std::string_view title, const Plan& shown, const PlanCost& cost) {
    std::string text = concat(title, ": ", to_text(cost), "\n");
    for (const std::string& reason : reasons_of(cost, target))
      append(text, "  ", reason, "\n");
    return text + to_text(shown, kernel);
  };
  std::string text;
  std::string title = "this plan";
  size_t number = 0;
  for (const PlanChoice& choice : choose_plans(kernel, target, kRunnersUp + 1)) {
    const std::string family = concat(", ", choice.family);
    if (choice.plan == plan) {
      title += family;
    } else if (number < kRunnersUp) {
      append(text, "\n", priced(concat("runner-up ", ++number, family), choice.plan, choice.cost));
    }
  }
  text.insert(0, priced(title, plan, cost_of(kernel, plan, target)));
  return text;
}

}  // namespace

void print_section(std::string_view kernel, std::string_view level, std::string_view text) {
  while (text.starts_with('\n'))
    text.remove_prefix(1);
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  print(concat("== kernel ", kernel, ": ", level, "\n", text, "\n\n"));
}

namespace {

/// The Plan that a person gave, if there is one.
std::optional<Plan> explain_plan(const Kernel& kernel, const std::string& name,
                                 const EngineDevice& device, const ExplainView& view) {
  const Target& target = device.target();
  const std::optional<Plan> given =
      view.plans != nullptr ? view.plans->plan_for(kernel, target) : std::nullopt;
  if (view.has("plan")) {
    const Kernel prepared = prepare_kernel(kernel, target);
    const Plan plan = given                ? *given
                      : has_simple_plans() ? simple_plan(prepared, target)
                                           : choose_plan(prepared, target);
    print_section(
        name, "plan",
        view.shows_plans ? priced_plans(plan, prepared, target) : to_text(plan, prepared));
  }
  return given;
}

}  // namespace

void explain_kernel(const Kernel& kernel, const std::string& name, const EngineDevice& device,
                    const ExplainView& view) {
  if (view.has("kernel")) print_section(name, "kernel", to_text(kernel));
  const std::optional<Plan> given =
      kernel.is_nest ? std::nullopt : explain_plan(kernel, name, device, view);
  if (kernel.is_nest && view.has("plan")) {
    print_section(name, "plan", "this is a nest: a Plan has been applied to it already");
  }
  if (view.ends_with_plan()) return;
  PassLog log;
  CodegenOptions options;
  options.plan = given;
  options.on_kernel = [&](std::string_view pass, const Kernel& after) {
    log.add(pass, to_text(after));
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& after) {
    log.add(pass, to_text(after));
  };
  LinearProgram program = lower_for(device, kernel, options);
  program.name = name;
  if (view.has("passes")) print_section(name, "passes", log.text(view.shows_passes));
  explain_linear(program, name, device, view);
}

void explain_linear(const LinearProgram& program, const std::string& name,
                    const EngineDevice& device, const ExplainView& view) {
  if (view.has("linear")) print_section(name, "linear program", to_text(program));
  if (view.has("source")) {
    const RenderedSource source = device.renderer().renderer->render(program, device.target());
    print_section(name, concat("source (", device.renderer().name, ")"), source.text);
  }
  if (view.has("disassembly")) print_section(name, "disassembly", disassembly(program, device));
}

}  // namespace tenon::cli
