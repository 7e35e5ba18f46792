// The order of the passes, and why: docs/ir.md. Each is verified after it ran where asked for.
// SPDX-License-Identifier: MIT

#include "tenon/base/error.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/choose_index_width.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/clean_linear.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/decompose.h"
#include "tenon/codegen/emit_linear.h"
#include "tenon/codegen/expand_combine.h"
#include "tenon/codegen/flatten_indices.h"
#include "tenon/codegen/insert_barriers.h"
#include "tenon/codegen/limit_grid.h"
#include "tenon/codegen/lower_dtypes.h"
#include "tenon/codegen/place_guards.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/ir/linear_verify.h"

namespace tenon {
namespace {

class Pipeline {
 public:
  Pipeline(const Target& target, const CodegenOptions& options)
      : target_(target), options_(options) {}

  void after(std::string_view pass, const Kernel& kernel, KernelStage stage) const {
    if (options_.on_kernel) options_.on_kernel(pass, kernel);
    if (options_.verify) {
      with_context([&] { check_kernel(kernel, stage, &target_); }, "verifying kernel '",
                   kernel.name, "' after ", pass);
    }
  }

  void after(std::string_view pass, const LinearProgram& program, bool is_final) const {
    if (options_.on_linear) options_.on_linear(pass, program);
    if (options_.verify) {
      with_context([&] { check_linear(program, is_final ? &target_ : nullptr); },
                   "verifying program '", program.name, "' after ", pass);
    }
  }

  LinearProgram run(const Kernel& kernel) const {
    Kernel nest = kernel.is_nest ? checked_nest(kernel) : planned(kernel);
    if (has_too_many_groups(nest)) {
      nest = limit_grid(nest, target_);
      after("limit_grid", nest, KernelStage::kNest);
    }
    nest = place_guards(nest);
    after("place_guards", nest, KernelStage::kNest);
    nest = lower_dtypes(nest, target_);
    after("lower_dtypes", nest, KernelStage::kNest);
    nest = decompose(nest, target_);
    after("decompose", nest, KernelStage::kNest);
    for (const LoweringRule& rule : options_.rules) {
      nest = apply_rule(nest, target_, rule);
      after(concat("backend rule ", rule.name), nest, KernelStage::kNest);
    }
    if (!nest.lanes.empty()) {
      nest = expand_combine(nest);
      after("expand_combine", nest, KernelStage::kNest);
      nest = insert_barriers(nest);
      after("insert_barriers", nest, KernelStage::kNest);
    }
    nest = flatten_indices(nest);
    after("flatten_indices", nest, KernelStage::kNest);
    const DType width = choose_index_width(nest, target_);
    nest = give_indices_width(nest, width);
    after("give_indices_width", nest, KernelStage::kFlat);
    LinearProgram program = emit_linear(nest, width, target_.units);
    after("emit_linear", program, false);
    program = clean_linear(program);
    after("clean_linear", program, true);
    return program;
  }

 private:
  bool has_too_many_groups(const Kernel& nest) const {
    int64_t groups = 1;
    for (const AxisUse& use : nest.grid) {
      if (__builtin_mul_overflow(groups, axis_extent(use.axis), &groups)) return true;
    }
    return groups > target_.max_groups;
  }

  // A Plan has been applied by hand; what the target lacks shows only here.
  const Kernel& checked_nest(const Kernel& nest) const {
    std::vector<Finding> errors = verify_kernel(nest, KernelStage::kNest, &target_);
    std::erase_if(errors, [](const Finding& f) { return f.severity != Severity::kError; });
    if (errors.empty()) return nest;
    const auto with_reason =
        std::ranges::find_if(errors, [](const Finding& f) { return !f.support; });
    throw Error(ErrorCode::kUnsupported,
                concat("nest '", nest.name, "' does not fit the target:\n", to_text(errors)),
                with_reason == errors.end() ? nullptr : with_reason->support.shared_reason());
  }

  Kernel planned(const Kernel& kernel) const {
    after("schedule", kernel, KernelStage::kComps);
    const Kernel prepared =
        prepare_kernel(kernel, target_, [&](std::string_view pass, const Kernel& result) {
          after(pass, result, KernelStage::kComps);
        });
    const Plan plan = plan_for(prepared);
    require(supports(target_, prepared, plan), "lower_kernel: the plan for '", kernel.name,
            "' does not fit: ");
    Kernel nest = build_nest(prepared, plan);
    after("build_nest", nest, KernelStage::kNest);
    return nest;
  }

  Plan plan_for(const Kernel& prepared) const {
    if (options_.plan) return *options_.plan;
    return options_.is_simple ? simple_plan(prepared, target_) : choose_plan(prepared, target_);
  }

  const Target& target_;
  const CodegenOptions& options_;
};

}  // namespace

LinearProgram lower_kernel(const Kernel& kernel, const Target& target,
                           const CodegenOptions& options) {
  const Pipeline pipeline(target, options);
  if (!kernel.is_nest) return pipeline.run(kernel);
  // Passes rely on what build_nest makes; a nest by hand need not have it.
  try {
    return pipeline.run(kernel);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) throw;
    fail(ErrorCode::kUnsupported, "nest '", kernel.name,
         "' has a form that no Plan makes: ", error.what());
  }
}

}  // namespace tenon
