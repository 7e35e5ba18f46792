// SPDX-License-Identifier: MIT

#include "bench/plan_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/harness.h"
#include "bench/host_array.h"
#include "bench/workload.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/given_plans.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::bench {
namespace {

using Expression = std::function<Tensor()>;

struct PlanCase {
  std::string name;
  std::function<Expression()> prepare;  ///< inputs in memory; the expression, anew each time
};

Tensor array(const Shape& shape, uint64_t number) {
  return tensor_of(HostArray(DType::kF32, shape, Fill::kUniform, number));
}

PlanCase one(std::string name, const Shape& shape, Tensor (*apply)(const Tensor&)) {
  return {std::move(name),
          [=]() -> Expression { return [x = array(shape, 1), apply] { return apply(x); }; }};
}

PlanCase two(std::string name, const Shape& a, const Shape& b,
             Tensor (*apply)(const Tensor&, const Tensor&)) {
  return {std::move(name), [=]() -> Expression {
            return [x = array(a, 1), y = array(b, 2), apply] { return apply(x, y); };
          }};
}

PlanCase convolution(std::string name, int64_t batch, int64_t channels, int64_t groups,
                     int64_t side) {
  return {std::move(name), [=]() -> Expression {
            const Tensor x = array({batch, channels, side, side}, 1);
            const Tensor w = array({channels, channels / groups, 3, 3}, 2);
            return [=] {
              return conv2d(x, w, {.padding = {Pair{1, 1}, Pair{1, 1}}, .groups = groups});
            };
          }};
}

std::vector<PlanCase> plan_cases(bool is_quick) {
  const auto size = [&](int64_t full) { return is_quick ? std::max<int64_t>(full / 16, 8) : full; };
  const auto product = [](const Tensor& a, const Tensor& b) { return a.matmul(b); };
  std::vector<PlanCase> cases;
  for (const int64_t full : {256, 512, 1000, 1024, 2048}) {
    const int64_t n = size(full);
    cases.push_back(two(concat("matmul_", full), {n, n}, {n, n}, product));
  }
  cases.push_back(
      two("matmul_1000x300x700", {size(1000), size(700)}, {size(700), size(300)}, product));
  cases.push_back(
      two("matmul_nt_1024", {size(1024), size(1024)}, {size(1024), size(1024)},
          [](const Tensor& a, const Tensor& b) { return a.matmul(b.matrix_transpose()); }));
  cases.push_back(
      two("matmul_tn_1024", {size(1024), size(1024)}, {size(1024), size(1024)},
          [](const Tensor& a, const Tensor& b) { return a.matrix_transpose().matmul(b); }));
  cases.push_back(two("gemv_4096", {size(4096), size(4096)}, {size(4096)}, product));
  cases.push_back(two("elementwise_16m", {size(16 << 20)}, {size(16 << 20)},
                      [](const Tensor& a, const Tensor& b) { return (a * b + a).relu(); }));
  cases.push_back(one("softmax_4096x1024", {size(4096), size(1024)},
                      [](const Tensor& x) { return softmax(x); }));
  cases.push_back(one("layernorm_4096x1024", {size(4096), size(1024)},
                      [](const Tensor& x) { return layernorm(x); }));
  cases.push_back(one("sum_16m", {size(16 << 20)}, [](const Tensor& x) { return x.sum(); }));
  cases.push_back(
      one("column_sum_4096", {size(4096), size(4096)}, [](const Tensor& x) { return x.sum(0); }));
  cases.push_back(one("transpose_4096", {size(4096), size(4096)},
                      [](const Tensor& x) { return x.matrix_transpose().contiguous(); }));
  for (const int64_t full : {1024, 256}) {
    const int64_t n = size(full);
    const Shape shape{is_quick ? 2 : 16, n, 64};
    cases.push_back({concat("attention_16x", full, "x64"), [=]() -> Expression {
                       return [q = array(shape, 1), k = array(shape, 2), v = array(shape, 3)] {
                         return softmax(q.matmul(k.matrix_transpose()) * 0.125).matmul(v);
                       };
                     }});
  }
  cases.push_back(convolution("conv_3x3", is_quick ? 1 : 8, is_quick ? 16 : 64, 1, size(56)));
  cases.push_back(convolution("depthwise_3x3", is_quick ? 1 : 8, is_quick ? 16 : 128,
                              is_quick ? 16 : 128, size(56)));
  return cases;
}

/// The kernel of the expression that is estimated to take longest, and its best plans.
struct Heaviest {
  Kernel kernel;
  std::vector<PlanChoice> plans;
};

Heaviest heaviest_kernel(const Tensor& tensor, const Target& target, size_t num_plans) {
  const Node nodes[] = {tensor.node()};
  ScheduleOptions options = schedule_options(target);
  options.is_known = [](const Node& node) { return static_cast<bool>(node.value()); };
  const Schedule schedule = schedule_graph(nodes, options);
  Heaviest found;
  for (const ScheduledCall& call : schedule.calls) {
    if (call.copy_from >= 0) continue;
    std::vector<PlanChoice> plans =
        choose_plans(prepare_kernel(call.kernel, target), target, num_plans);
    if (!found.plans.empty() && found.plans[0].cost.seconds >= plans[0].cost.seconds) continue;
    found = {call.kernel, std::move(plans)};
  }
  TENON_CHECK(!found.plans.empty(), ErrorCode::kInternal, "bench: an expression without a kernel");
  return found;
}

int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Microseconds in kernels, best of some runs, taken in turn.
std::vector<double> time_plans(const Expression& build, const Heaviest& heaviest, Device& device) {
  constexpr double kTotalS = 0.6;
  constexpr int kMinRuns = 5;
  constexpr int kMaxRuns = 400;
  const Kernel prepared = prepare_kernel(heaviest.kernel, device.target());
  std::vector<GivenPlans> given;
  for (const PlanChoice& choice : heaviest.plans)
    given.emplace_back(to_text(choice.plan, prepared), "bench");
  std::vector<double> best(given.size(), 1e30);
  double spent_s = 0;
  for (int run = 0;
       run < kMaxRuns && (run < kMinRuns || spent_s < kTotalS * static_cast<double>(given.size()));
       ++run) {
    for (size_t i = 0; i < given.size(); ++i) {
      for (int again = 0; again < 2; ++again) {  // the second finds its own traces in the caches
        const Tensor result = build();
        const Node nodes[] = {result.node()};
        RealizeStats stats;
        const int64_t start_ns = cpu_ns();
        realize(nodes, &device, &stats, &given[i]);
        double time_us = 1e-3 * static_cast<double>(stats.kernel_ns);
        spent_s += 1e-6 * time_us;
        // Of one thread the processor's time, which others on the machine do not count in.
        if (device.target().threads == 1) time_us = 1e-3 * static_cast<double>(cpu_ns() - start_ns);
        if (again == 1) best[i] = std::min(best[i], time_us);
      }
    }
  }
  return best;
}

}  // namespace

void plan_rows(Device& device, const PlanBenchOptions& options) {
  cli::Table table;
  table.add({"kernel", "chosen", "fastest of " + std::to_string(options.num_plans), "estimate",
             "chosen/fastest"});
  double worst = 1;
  const std::vector<PlanCase> cases = plan_cases(options.is_quick);
  std::vector<std::string> known;
  for (const PlanCase& one_case : cases)
    known.push_back(one_case.name);
  for (const std::string& name : options.names) {
    TENON_CHECK(std::find(known.begin(), known.end(), name) != known.end(),
                ErrorCode::kInvalidArgument, "bench --plans: there is no kernel '", name, "'",
                suggest_name(name, known, "Kernels"));
  }
  for (const PlanCase& one_case : cases) {
    const bool is_wanted =
        options.names.empty() ||
        std::find(options.names.begin(), options.names.end(), one_case.name) != options.names.end();
    if (!is_wanted) continue;
    const Expression build = one_case.prepare();
    const Heaviest heaviest = heaviest_kernel(build(), device.target(), options.num_plans);
    const std::vector<double> times = time_plans(build, heaviest, device);
    const double fastest = *std::min_element(times.begin(), times.end());
    worst = std::max(worst, times[0] / fastest);
    table.add({one_case.name, fmt::format("{:.1f} us", times[0]), fmt::format("{:.1f} us", fastest),
               fmt::format("{:.1f} us", heaviest.plans[0].cost.seconds * 1e6),
               fmt::format("{:.2f}", times[0] / fastest)});
    if (!options.is_list) continue;
    const Kernel prepared = prepare_kernel(heaviest.kernel, device.target());
    for (size_t i = 0; i < times.size(); ++i) {
      cli::print(fmt::format("{} {}: {:.1f} us, {}: {}\n{}", one_case.name, i, times[i],
                             heaviest.plans[i].family, to_text(heaviest.plans[i].cost),
                             to_text(heaviest.plans[i].plan, prepared)));
    }
  }
  cli::print(concat(table.text(), fmt::format("worst: {:.2f}{}\n", worst,
                                              worst > 1.2 ? ", missed: goal 1.20" : "")));
}

}  // namespace tenon::bench
