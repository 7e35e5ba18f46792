// SPDX-License-Identifier: MIT

#include "bench/plan_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/cases.h"
#include "bench/statistics.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/given_plans.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"

namespace tenon::bench {
namespace {

// Chosen over fastest, at most.
constexpr double kGoal = 1.2;

bool has_unit_for(const Target& target, DType acc) {
  return std::ranges::any_of(target.units, [&](const MatrixUnit& unit) { return unit.acc == acc; });
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

/// A Plan of those that are compared.
struct Contestant {
  GivenPlans plans;
  std::string name;
  std::optional<std::string> wrong = {};
  std::vector<double> times_us = {};
};

std::optional<std::string> why_wrong(const Case& inputs, Device& device, const GivenPlans& plans) {
  const ScopedMemoryChecks checks({.poison_outputs = true});
  const Tensor result = inputs.build();
  const Node nodes[] = {result.node()};
  realize(nodes, &device, nullptr, &plans);
  return inputs.why_wrong(result.to_bytes().data());
}

/// Microseconds in kernels of some runs, taken in turn; returns launches of one run.
int64_t time_plans(const Case& inputs, Device& device, double plan_s,
                   std::vector<Contestant>& contestants) {
  constexpr int kMinRuns = 5;
  constexpr int kMaxRuns = 400;
  RealizeStats stats;
  double spent_s = 0;
  const double most_s = plan_s * static_cast<double>(contestants.size());
  for (int run = 0; run < kMaxRuns && (run < kMinRuns || spent_s < most_s); ++run) {
    for (Contestant& contestant : contestants) {
      for (int again = 0; again < 2; ++again) {  // the second finds its own traces in the caches
        const Tensor result = inputs.build();
        const Node nodes[] = {result.node()};
        stats = {};
        const int64_t start_ns = cpu_ns();
        realize(nodes, &device, &stats, &contestant.plans);
        double time_us = 1e-3 * static_cast<double>(stats.kernel_ns);
        spent_s += 1e-6 * time_us;
        // Of one thread the processor's time, which others on the machine do not count in.
        if (device.target().threads == 1) time_us = 1e-3 * static_cast<double>(cpu_ns() - start_ns);
        if (again == 1) contestant.times_us.push_back(time_us);
      }
    }
  }
  return stats.kernels;
}

void print_plans(const Row& row, const Heaviest& heaviest, const Kernel& prepared) {
  for (size_t i = 0; i < heaviest.plans.size(); ++i) {
    const PlanChoice& choice = heaviest.plans[i];
    const double time_us = i == 0 ? row.tenon->best : row.peers[i - 1].best;
    cli::print(fmt::format("{} {}: {:.1f} us, {}: {}\n{}", row.name, i, time_us, choice.family,
                           to_text(choice.cost), to_text(choice.plan, prepared)));
  }
}

Row measure(const PlanCase& plan_case, Device& device, const PlanBenchOptions& options, Row row) {
  const Case inputs = plan_case.prepare();
  const Heaviest heaviest = heaviest_kernel(inputs.build(), device.target(), options.num_plans);
  const Kernel prepared = prepare_kernel(heaviest.kernel, device.target());
  std::vector<Contestant> contestants;
  for (const PlanChoice& choice : heaviest.plans) {
    contestants.push_back({.plans = GivenPlans(to_text(choice.plan, prepared), "bench"),
                           .name = concat(contestants.size(), " ", choice.family)});
  }
  row.note = concat("chosen: ", heaviest.plans[0].family);
  for (Contestant& contestant : contestants) {
    contestant.wrong = why_wrong(inputs, device, contestant.plans);
    if (!contestant.wrong) continue;
    row.has_failed = true;
    append(row.note, "; plan ", contestant.name, " is wrong: ", *contestant.wrong);
  }
  row.kernels = time_plans(inputs, device, options.is_quick ? 0.02 : 0.6, contestants);
  row.windows = static_cast<int>(contestants[0].times_us.size());
  row.limit = Figure{.name = "estimate", .best = heaviest.plans[0].cost.seconds * 1e6};
  double fastest = INFINITY;
  for (const Contestant& contestant : contestants) {
    const Summary summary = summarize(contestant.times_us);
    const Figure figure{.name = contestant.name,
                        .best = summary.best,
                        .median = summary.median,
                        .invalid = contestant.wrong ? "wrong result" : ""};
    if (!contestant.wrong) fastest = std::min(fastest, figure.best);
    if (row.tenon) {
      row.peers.push_back(figure);
    } else {
      row.tenon = figure;
    }
  }
  if (!row.has_failed) row.ratio = row.tenon->best / fastest;
  if (options.is_list) print_plans(row, heaviest, prepared);
  return row;
}

}  // namespace

std::vector<PlanCase> plan_cases(const Target& target, bool is_quick) {
  const auto size = [&](int64_t full) { return is_quick ? std::max<int64_t>(full / 16, 8) : full; };
  std::vector<PlanCase> cases;
  const auto add = [&](std::string name, std::function<Case()> prepare) {
    cases.push_back({std::move(name), std::move(prepare)});
  };
  const auto add_product = [&](std::string name, Product product) {
    for (int64_t* extent : {&product.shape.m, &product.shape.n, &product.shape.k})
      *extent = *extent == 1 ? 1 : size(*extent);
    add(std::move(name), [product] { return prepare_product(product); });
  };
  for (const int64_t n : {256, 512, 1000, 1024, 2048})
    add_product(concat("matmul_", n), {.shape = {n, n, n}});
  add_product("matmul_1000x300x700", {.shape = {1000, 300, 700}});
  add_product("matmul_nt_1024", {.shape = {1024, 1024, 1024}, .b_is_transposed = true});
  add_product("matmul_tn_1024", {.shape = {1024, 1024, 1024}, .a_is_transposed = true});
  if (has_unit_for(target, DType::kF32)) {
    add_product("matmul_bf16_1024",
                {.shape = {1024, 1024, 1024}, .dtype = DType::kBF16, .out_dtype = DType::kBF16});
  }
  if (has_unit_for(target, DType::kI32)) {
    add_product("matmul_i8_1024",
                {.shape = {1024, 1024, 1024}, .dtype = DType::kI8, .out_dtype = DType::kI32});
  }
  add_product("gemv_4096", {.shape = {4096, 1, 4096}, .is_vector = true});
  const int64_t many = size(16 << 20);
  const int64_t rows = size(4096);
  const int64_t columns = size(1024);
  add("elementwise_16m", [=] { return prepare_relu(many); });
  add("softmax_4096x1024", [=] { return prepare_rows(JobKind::kSoftmax, rows, columns); });
  add("layernorm_4096x1024", [=] { return prepare_rows(JobKind::kLayernorm, rows, columns); });
  add("sum_16m", [=] { return prepare_sum(many); });
  add("column_sum_4096", [=] { return prepare_column_sum(rows, rows); });
  add("transpose_4096", [=] { return prepare_transpose(rows, rows); });
  for (const int64_t full : {1024, 256}) {
    const Attention job{.heads = is_quick ? 2 : 16, .size = size(full), .width = 64};
    add(concat("attention_16x", full, "x64"), [=] { return prepare_attention(job); });
  }
  const Convolution dense = is_quick ? Convolution{1, 16, 16, 1, 8} : Convolution{8, 64, 64, 1, 56};
  const Convolution depthwise =
      is_quick ? Convolution{1, 16, 16, 16, 8} : Convolution{8, 128, 128, 128, 56};
  add("conv_3x3", [=] { return prepare_convolution(dense); });
  add("depthwise_3x3", [=] { return prepare_convolution(depthwise); });
  return cases;
}

Row plan_row(const PlanCase& plan_case, Device& device, const PlanBenchOptions& options) {
  Row row{.name = plan_case.name, .group = "plans", .unit = "us", .is_lower_better = true};
  try {
    return measure(plan_case, device, options, row);
  } catch (const Error& error) {
    const std::string text = error.what();
    row.has_failed = true;
    row.note = text.substr(0, text.find('\n'));
    return row;
  }
}

std::vector<Row> plan_rows(Device& device, const PlanBenchOptions& options) {
  const std::vector<PlanCase> cases = plan_cases(device.target(), options.is_quick);
  std::vector<std::string> known;
  for (const PlanCase& plan_case : cases)
    known.push_back(plan_case.name);
  for (const std::string& name : options.names) {
    TENON_CHECK(std::ranges::find(known, name) != known.end(), ErrorCode::kInvalidArgument,
                "bench --plans: there is no kernel '", name, "'",
                suggest_name(name, known, "Kernels"));
  }
  std::vector<Row> rows;
  for (const PlanCase& plan_case : cases) {
    const bool is_wanted = options.names.empty() ||
                           std::ranges::find(options.names, plan_case.name) != options.names.end();
    if (!is_wanted) continue;
    rows.push_back(plan_row(plan_case, device, options));
    const Row& row = rows.back();
    cli::print_note(
        concat(row.name, row.ratio ? fmt::format(" {:.2f}", *row.ratio) : "", ", ", row.note));
  }
  return rows;
}

std::string plan_table(const std::vector<Row>& rows) {
  cli::Table table;
  table.add({"kernel", "chosen", "fastest", "estimate", "chosen/fastest", "remarks"});
  const auto us = [](double time) { return fmt::format("{:.1f} us", time); };
  double worst = 0;
  for (const Row& row : rows) {
    if (!row.ratio) {
      table.add({row.name, "-", "-", "-", "-", concat("FAILED; ", row.note)});
      continue;
    }
    worst = std::max(worst, *row.ratio);
    table.add({row.name, us(row.tenon->best), us(row.tenon->best / *row.ratio), us(row.limit->best),
               fmt::format("{:.2f}", *row.ratio), row.note});
  }
  std::string text = table.text();
  if (worst > 0) {
    append(text, fmt::format("worst: {:.2f}", worst),
           worst > kGoal ? fmt::format(", missed: goal {:.2f}", kGoal) : "", "\n");
  }
  return text;
}

}  // namespace tenon::bench
