// SPDX-License-Identifier: MIT

#include "bench/interp_bench.h"

#include <cstring>
#include <functional>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/program_store.h"
#include "tenon/interp/checked_program.h"
#include "tenon/ir/linear_text.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/tensor.h"

namespace tenon::bench {
namespace {

/// Sums of 256 elements by 256 lanes; each group stands for one.
LinearProgram tree_program(int groups) {
  return parse_linear(concat("tir 1 func tree grid(", groups, ") lanes(256) scratch 1024 {\n",
                             "arg 0 x f32[", groups * 256, "] read arg 1 y f32[", groups, R"(] write
    %x = param 0 %y = param 1 %g = grid_id 0 i32 %l = lane_id 0 i32 %t = alloc f32 256 group
    %0c = const i32 0 %7c = const i32 8 %n = const i32 256 %half = const i32 128 %z = const f32 0
    %b = mul i32 %g, %n %at = add i32 %b, %l %v = load f32 %x[%at] store %t[%l], %v barrier
    for %i = %0c..%7c { %h = shr i32 %half, %i %on = lt i32 %l, %h %o = add i32 %l, %h
      %p = load f32 %t[%l] gate %on alt %z %q = load f32 %t[%o] gate %on alt %z
      %s = add f32 %p, %q store %t[%l], %s gate %on barrier }
    %first = eq i32 %l, %0c %r = load f32 %t[%0c] gate %first alt %z
    store %y[%g], %r gate %first })"));
}

/// Arguments of a program in memory of their own; inputs are all written, with numbers near 1.
struct Memory {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<uint8_t>> written;
  std::vector<CheckedArgument> arguments;

  explicit Memory(const Signature& signature) {
    for (const Argument& argument : signature.arguments) {
      const auto size =
          static_cast<size_t>(argument.num_elements * dtype_size_bytes(argument.dtype));
      bytes.emplace_back(size);
      written.emplace_back(size, 1);
      for (size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
        const float value = 1 + static_cast<float>(i % 1000) / 1000;
        std::memcpy(bytes.back().data() + i, &value, sizeof value);
      }
      arguments.push_back({.bytes = bytes.back(), .written = written.back()});
    }
  }
};

Row measure(std::string name, const LinearProgram& linear, const Target& target, bool is_quick) {
  Row row{.name = std::move(name), .group = "interp", .unit = "Mlane-op/s"};
  const CheckedProgram program(linear,
                               {.fuses_mulacc = target.fuses_mulacc, .units = target.units});
  const Memory memory(linear.signature);
  std::vector<double> times_s;
  double operations = 0;
  for (int i = 0; i < (is_quick ? 2 : 7); ++i) {
    const int64_t start_ns = now_ns();
    const CheckedRun run = program.run(memory.arguments);
    times_s.push_back(static_cast<double>(now_ns() - start_ns) * 1e-9);
    TENON_ASSERT(!run.fault, run.fault->text);
    operations = static_cast<double>(run.lane_operations) * 1e-6;
  }
  const Summary summary = summarize(times_s);
  row.tenon = rate_figure("tenon", operations, summary);
  row.windows = summary.windows;
  row.kernels = 1;
  if (is_quick) return row;
  row.limit = Figure{.name = "wanted", .best = 20, .median = 20, .invalid = {}};
  set_ratio(row, true);
  row.goal = 1;
  return row;
}

}  // namespace

std::vector<Row> interp_rows(bool is_quick) {
  const int64_t n = is_quick ? 16 : 128;
  const Tensor a = zeros({n, n}).contiguous().realize();
  const Tensor narrow = a.astype(DType::kBF16).contiguous().realize();  // for matrix units
  const Tensor image = zeros({1, 8, n / 2, n / 2}).contiguous().realize();
  const Tensor filters = zeros({8, 8, 3, 3}).contiguous().realize();
  const Tensor mask = (arange(n * n) < 7).contiguous().realize();
  const struct {
    const char* name;
    Tensor value;
  } kernels[] = {{"matmul", a.matmul(a)},
                 {"matmul_bf16", narrow.matmul(narrow)},
                 {"softmax", softmax(a)},
                 {"conv3x3", conv2d(image, filters)},
                 {"elementwise", (a * 3 + a).relu()},
                 {"transposed", (a.transpose() + 1).contiguous()},
                 {"integers", (mask.astype(DType::kI32) * 3 + 1)}};
  std::vector<Row> rows;
  for (const char* name : {"INTERP", "INTERP::CPU"}) {
    const EngineDevice& device = engine_device(Device::get(name));
    for (const auto& kernel : kernels) {
      const Node outputs[] = {kernel.value.node()};
      const Schedule schedule = schedule_graph(outputs, schedule_options(device.target()));
      const LinearProgram program = lower_for(device, schedule.calls.back().kernel);
      rows.push_back(measure(concat(kernel.name, "_", device.target().arch), program,
                             device.target(), is_quick));
    }
  }
  rows.push_back(measure("tree_of_256_lanes", tree_program(is_quick ? 4 : 64), {}, is_quick));
  return rows;
}

}  // namespace tenon::bench
