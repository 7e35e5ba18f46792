// Attention as users write it on a pinned Target: from four times as many positions as a head is
// wide it is one kernel and no scores are stored, below it is three (docs/decisions).
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cmath>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/schedule/schedule.h"
#include "tenon/tensor/nn_ops.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

// softmax(q k^T / sqrt(width)) v over the last two axes, with a mask of its own or none.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask = nullptr) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape().back()));
  Tensor scores = q.matmul(k.matrix_transpose()) * scale;
  if (mask != nullptr) scores = where(*mask, scores, -INFINITY);
  return softmax(scores).matmul(v);
}

Tensor input(const Shape& shape, DType dtype = DType::kF32) {
  return Tensor(tensor_buffer(dtype, shape));
}

// Of three inputs of this shape: the heads as the last but two dims say, or (`is_joined`) side by
// side in rows of (batch, positions, heads * width), as a model's linear layers leave them.
Tensor attention_of(const Shape& shape, bool is_joined = false) {
  const auto operand = [&] {
    if (!is_joined) return input(shape);
    const Tensor rows = input({shape[0], shape[2], shape[1] * shape[3]});
    return rows.reshape({shape[0], shape[2], shape[1], shape[3]}).permute({0, 2, 1, 3});
  };
  const Tensor q = operand();
  const Tensor k = operand();
  return attention(q, k, operand());
}

struct Counts {
  size_t kernels = 0;
  size_t scores = 0;  ///< buffers in memory that hold as many elements as the scores, or more
};

// `num_scores` must be more than any operand has.
Counts counts_of(const Tensor& tensor, int64_t num_scores) {
  const Target target = vector_target();
  const Node nodes[] = {tensor.node()};
  const Schedule schedule = schedule_graph(nodes, schedule_options(target));
  Counts counts{.kernels = schedule.calls.size()};
  for (const ScheduledBuffer& buffer : schedule.buffers)
    counts.scores += num_elements(buffer.shape) >= num_scores ? 1 : 0;
  for (const ScheduledCall& call : schedule.calls) {
    const Kernel kernel = prepare_kernel(call.kernel, target);
    const auto reason = check_plan(kernel, choose_plan(kernel, target), target);
    EXPECT_EQ(reason.value_or(""), "") << to_text(kernel);
  }
  return counts;
}

TEST(AttentionCounts, FollowTheRule) {
  struct Case {
    Shape shape;
    bool is_one;
  };
  for (const Case& one : {
           Case{{128, 64}, false},       Case{{200, 64}, false},       Case{{255, 64}, false},
           Case{{256, 64}, true},        Case{{512, 64}, true},        Case{{1024, 128}, true},
           Case{{16, 128, 64}, false},   Case{{16, 200, 64}, false},   Case{{16, 255, 64}, false},
           Case{{16, 256, 64}, true},    Case{{16, 1024, 64}, true},   Case{{12, 127, 32}, false},
           Case{{12, 128, 32}, true},    Case{{12, 511, 128}, false},  Case{{12, 512, 128}, true},
           Case{{2, 4, 128, 64}, false}, Case{{2, 4, 200, 64}, false}, Case{{2, 4, 255, 64}, false},
           Case{{2, 4, 256, 64}, true},  Case{{2, 4, 1000, 64}, true},
       }) {
    for (const bool is_joined : {false, true}) {
      if (is_joined && one.shape.size() != 4) continue;
      const int64_t positions = one.shape[one.shape.size() - 2];
      const int64_t num_scores = num_elements(one.shape) / one.shape.back() * positions;
      SCOPED_TRACE(concat(join(one.shape, "x"), is_joined ? ", joined" : ""));
      const Counts counts = counts_of(attention_of(one.shape, is_joined), num_scores);
      EXPECT_EQ(counts.kernels, one.is_one ? 1U : 3U);
      EXPECT_EQ(counts.scores, one.is_one ? 0U : 2U);
    }
  }
}

TEST(AttentionCounts, AMaskIsAppliedToRowsOfTheKernel) {
  for (const auto& [positions, num_kernels] : {std::pair(200, 3U), {256, 1U}}) {
    const Tensor mask = input({positions, positions}, DType::kBool);
    const auto operand = [n = positions] { return input({2, 4, n, 64}); };
    const Tensor q = operand();
    const Tensor k = operand();
    const int64_t num_scores = int64_t{2} * 4 * positions * positions;
    const Counts counts = counts_of(attention(q, k, operand(), &mask), num_scores);
    EXPECT_EQ(counts.kernels, num_kernels) << positions;
    EXPECT_EQ(counts.scores, num_kernels - 1) << positions;
  }
}

}  // namespace
}  // namespace tenon::test
