// TENON_CHECK: right programs pass with right results; programs that the compiler made wrong, and
// devices that compute something else, are told apart and named.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/base/timing.h"
#include "tenon/engine/events.h"
#include "tenon/engine/given_plans.h"
#include "tenon/ir/eval_op.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::values_of;

class ShadowLaunches : public EngineTest {
 protected:
  const ScopedSetting check_{Setting::kCheck, "1"};
};

/// y[i] = x[i - 2] + 0.25 of a padded x, summed: gates, a reduction, two kernels.
std::vector<float> padded_sums(Device& device) {
  const Node x = buffer_of<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device);
  const std::vector<int64_t> before{0, 2};
  const std::vector<int64_t> after{1, 0};
  const Node padded = tensor_pad(x, before, after, 0);
  const Node quarter = tensor_expand(
      tensor_reshape(tensor_const(DType::kF32, double_to_float(0.25, DType::kF32)), Shape{1, 1}),
      Shape{3, 5});
  const Node shifted = tensor_contiguous(tensor_binary(Op::kAdd, padded, quarter));
  const std::vector<int64_t> axes{1};
  const Node sum = tensor_reduce(Op::kAdd, shifted, axes, DType::kF32);
  realize(std::span(&sum, 1));
  return values_of<float>(sum);
}

/// Adds f32 by subtracting: a device that is wrong in one op.
class WrongRenderer final : public Renderer {
 public:
  explicit WrongRenderer(const Renderer& right) : right_(right) {}
  std::string_view name() const override { return right_.name(); }
  RenderedSource render(const LinearProgram& program, const Target& target) const override {
    LinearProgram wrong = program;
    for (Inst& inst : wrong.insts) {
      if (inst.op == Op::kAdd && inst.type.dtype == DType::kF32) inst.op = Op::kSub;
    }
    return right_.render(wrong, target);
  }
  std::string join(std::span<const RenderedSource> sources) const override {
    return right_.join(sources);
  }

 private:
  const Renderer& right_;
};

TEST_F(ShadowLaunches, RightProgramsPass) {
  EXPECT_EQ(padded_sums(Device::get_default()), (std::vector<float>{7.25F, 16.25F, 1.25F}));
}

TEST_F(ShadowLaunches, WrongDevicesAreNamed) {
  EngineDevice& own = engine_device(Device::get_default());
  const WrongRenderer wrong(*own.renderer().renderer);
  RendererDescriptor descriptor = own.renderer();
  descriptor.renderer = &wrong;
  const ScopedSetting no_cache(Setting::kCache, "0");
  EngineDevice device("wrong", 97, descriptor, own.lowering_rules(), own.target(),
                      descriptor.make_compiler(own.target()),
                      find_backend("CPU")->open(0, own.target()));
  EXPECT_ERROR(padded_sums(device), ErrorCode::kDeviceFailed, "'wrong'", "computes something else",
               "element 0 is -0.25, expected 0.25");
  const ScopedSetting unchecked(Setting::kCheck, "0");
  EXPECT_NE(padded_sums(device), (std::vector<float>{7.25F, 16.25F, 1.25F}));
}

TEST_F(ShadowLaunches, WrongProgramsAreNamedBeforeTheyRun) {
  const ScopedSetting no_cache(Setting::kCache, "0");
  const ScopedPlantedFault fault(PlantedFault::kLoadGateDropped);
  EXPECT_ERROR(padded_sums(Device::get_default()), ErrorCode::kInternal, "the program for",
               "is wrong", "load");
}

// Beyond the limit nothing is checked: the wrong device's result comes back.
TEST_F(ShadowLaunches, LargeLaunchesAreLeftAlone) {
  Device& device = Device::get_default();
  const auto count = int64_t{5} << 20;
  const Node x =
      buffer_of<float>(std::vector<float>(static_cast<size_t>(count), 1.5F), {count}, device);
  const Node sum = tensor_binary(Op::kAdd, x, x);
  const int64_t start_ns = now_ns();
  realize(std::span(&sum, 1));
  EXPECT_LT(now_ns() - start_ns, int64_t{20'000'000'000});
  EXPECT_EQ(values_of<float>(sum).back(), 3);
}

}  // namespace
}  // namespace tenon
