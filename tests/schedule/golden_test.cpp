// What the schedule makes of small graphs, as text: tests/golden/schedule. Each stored value with
// its reason, then the kernels. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <map>

#include "tenon/base/text.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/golden.h"

namespace tenon::test {
namespace {

std::string scheduled(const GoldenFile& file) {
  const TensorGraph graph = parse_graph(file.input, file.name);
  const Schedule schedule = schedule_graph(graph.outputs, {});
  std::string text;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const ScheduledBuffer& buffer = schedule.buffers[i];
    text += concat("buffer ", i, " ", dtype_name(buffer.dtype), buffer.shape, " ",
                   op_name(buffer.node.op()), ": ", buffer.reason, "\n");
  }
  for (const ScheduledCall& call : schedule.calls) {
    if (call.copy_from >= 0) {
      text += concat("copy ", call.copy_from, " to ", call.buffers[0], "\n");
      continue;
    }
    check_kernel(call.kernel, KernelStage::kComps);
    text += concat("call with buffers ", call.buffers, "\n", to_text(call.kernel));
  }
  return text;
}

TEST(ScheduleGolden, GraphsMakeTheCommittedKernels) {
  check_golden("schedule", scheduled);
}

}  // namespace
}  // namespace tenon::test
