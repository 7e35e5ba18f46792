// diff_graph and diff_program on small graphs: right devices pass; faults of the compiler and of
// devices are told apart, named and made small. SPDX-License-Identifier: MIT

#include "tenon/conform/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/conform/launch_record.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine_device.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_programs.h"
#include "tests/support/random_graph.h"

namespace tenon {
namespace {

using testing::FaultyRenderer;
using ::testing::HasSubstr;
using testing::ProgramFault;

using Data = std::vector<std::vector<std::byte>>;

// A sum over a padded row, stored, then its positive part beside a product: three kernels.
constexpr const char* kThree = R"(graph three {
  in %x: f32[6,40]
  in %y: f32[6,40]
  %0 = pad f32[6,45] %x before [0,3] after [0,2] fill 0
  %1 = contiguous f32[6,45] %0
  %2 = reduce f32[6,1] %1 add axes [1] acc f32
  %3 = contiguous f32[6,1] %2
  %4 = expand f32[6,40] %3
  %5 = mul f32[6,40] %x, %y
  %6 = max f32[6,40] %5, %4
  out z = %6
})";

/// Element i of input k: sums and products of a few are exact.
float coded(int64_t i, int64_t k) {
  return static_cast<float>((37 * i + 11 * k) % 101 - 50) / 32;
}

Data coded_data(const TensorGraph& graph) {
  Data data;
  for (const Node& input : graph.inputs) {
    std::vector<float> values;
    for (int64_t i = 0; i < num_elements(input.shape()); ++i)
      values.push_back(coded(i, std::ssize(data)));
    const auto bytes = std::as_bytes(std::span(values));
    data.emplace_back(bytes.begin(), bytes.end());
  }
  return data;
}

using Open = std::unique_ptr<DeviceDriver> (*)(const Target&);

std::unique_ptr<DeviceDriver> open_cpu(const Target& target) {
  return find_backend("CPU")->open(0, target);
}
std::unique_ptr<DeviceDriver> open_interp(const Target& target) {
  return find_backend("INTERP")->open(0, target);
}

/// A device rendered with a fault, or with another driver.
struct FaultyDevice {
  explicit FaultyDevice(ProgramFault fault, Open open = open_cpu)
      : FaultyDevice(std::move(fault), open, engine_device(Device::get("CPU")).target(), "CPU") {}
  FaultyDevice(ProgramFault fault, Open open, const Target& target, const char* like)
      : model(engine_device(Device::get(like))),
        renderer(*model.renderer().renderer, std::move(fault)),
        descriptor(with_renderer()),
        device("faulty", 98, descriptor, model.lowering_rules(), target,
               descriptor.make_compiler(target), open(target)) {}

  RendererDescriptor with_renderer() const {
    RendererDescriptor changed = model.renderer();
    changed.renderer = &renderer;
    return changed;
  }

  EngineDevice& model;
  const FaultyRenderer renderer;
  const RendererDescriptor descriptor;
  EngineDevice device;
};

/// Gives the memory of the first of four allocations to the fifth, and so on: enough for one
/// kernel, too little for a program.
class RingAllocator final : public Allocator {
 public:
  void* allocate(int64_t size_bytes) override {
    EXPECT_LE(size_bytes, kSlotBytes);
    return memory_.data() + next_++ % kSlots * kSlotBytes;
  }
  void free(void*, int64_t) noexcept override {}
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }

 private:
  static constexpr int64_t kSlots = 4;
  static constexpr int64_t kSlotBytes = 1 << 14;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_{kSlots * kSlotBytes / 64};
  std::span<std::byte> memory_{lines_.data()->bytes, kSlots* kSlotBytes};
  int64_t next_ = 0;
};

class RingDriver final : public DeviceDriver {
 public:
  explicit RingDriver(const Target& target) : cpu_(open_cpu(target)) {}
  const std::string& name() const override { return cpu_->name(); }
  const Target& target() const override { return cpu_->target(); }
  Allocator& allocator() override { return allocator_; }
  BufferPoolOptions pool_options() const override { return {.max_cached_bytes = 0}; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    return cpu_->load(object);
  }
  void synchronize() override { cpu_->synchronize(); }

 private:
  const std::unique_ptr<DeviceDriver> cpu_;
  RingAllocator allocator_;
};

class Diff : public ::testing::Test {
 protected:
  /// Of `text` over coded_data.
  DiffReport run(Device& device, std::string_view text = kThree) {
    graph_ = parse_graph(text, "test");
    return diff_graph(graph_, coded_data(graph_), device);
  }

  // Faulty programs must not be found by others.
  const ScopedSetting no_cache_{Setting::kCache, "0"};
  TensorGraph graph_;
};

TEST_F(Diff, RightDevicesDoNotDiffer) {
  for (const char* name : {"CPU", "INTERP", "INTERP::CPU"}) {
    const DiffReport report = run(Device::get(name));
    EXPECT_FALSE(report.first) << name << ": " << report.first->text;
    EXPECT_EQ(report.kernels, 3) << name;
    EXPECT_EQ(report.unjudged, 0) << name;
  }
}

TEST_F(Diff, AWrongDeviceIsToldFromTheCompiler) {
  FaultyDevice faulty(testing::max_forgets_last_lane);
  const DiffReport report = run(faulty.device);
  ASSERT_TRUE(report.first);
  const Difference& first = *report.first;
  EXPECT_EQ(first.verdict, DiffVerdict::kDevice) << first.text;
  EXPECT_EQ(first.kernel_number, 3U);
  EXPECT_THAT(first.kernel, HasSubstr("e_6_40"));
  EXPECT_LE(first.elements.size(), 16U);
  EXPECT_GE(first.num_wrong, 1);
  ASSERT_TRUE(report.smallest);
  EXPECT_EQ(report.smallest->verdict, DiffVerdict::kDevice);
  // The max and what gives its operands one shape, with no more lanes than a vector has.
  int64_t num_ops = 0;
  for (const Node& node : topological_order(report.smallest->graph->outputs))
    num_ops += node.srcs().empty() || is_movement(node.op()) ? 0 : 1;
  EXPECT_EQ(num_ops, 1) << to_text(*report.smallest->graph);
  EXPECT_LE(num_elements(report.smallest->expected.shape), 16);
}

// A word of the name decides which kernel the device gets wrong.
TEST_F(Diff, TheFirstWrongKernelIsNamed) {
  FaultyDevice faulty(testing::only_in("r_6_1_45", testing::last_terms_are_dropped));
  const DiffReport report = run(faulty.device);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kDevice) << report.first->text;
  EXPECT_EQ(report.first->kernel_number, 2U);
  EXPECT_THAT(report.first->kernel, HasSubstr("r_6_1_45"));
}

TEST_F(Diff, AWrongProgramIsEveryDevicesFault) {
  const ScopedPlantedFault fault(PlantedFault::kLastIterationLost);
  const ScopedSetting unverified(Setting::kVerifyIr, "0");
  for (const char* name : {"CPU", "INTERP::CPU"}) {
    const DiffReport report = run(Device::get(name));
    ASSERT_TRUE(report.first) << name;
    EXPECT_EQ(report.first->verdict, DiffVerdict::kSharedKernel) << name << report.first->text;
    EXPECT_THAT(report.first->kernel, HasSubstr("r_6_1_45")) << name;
    EXPECT_LE(report.first->elements.size(), 16U);
    ASSERT_TRUE(report.smallest);
    EXPECT_EQ(report.smallest->verdict, DiffVerdict::kSharedKernel);
    EXPECT_LT(num_elements(report.smallest->graph->inputs.at(0).shape()), 6 * 45);
  }
}

// What the interpreter's checks find is a fault of the program, and no device runs it.
TEST_F(Diff, WhatTheChecksFindIsTheCompilersFault) {
  const ScopedPlantedFault fault(PlantedFault::kLoadGateDropped);
  const ScopedSetting unverified(Setting::kVerifyIr, "0");
  const DiffReport report = run(Device::get("CPU"));
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kSharedKernel);
  EXPECT_EQ(report.first->kernel_number, 1U);
}

TEST_F(Diff, KernelsThatAreRightAloneAndWrongTogether) {
  FaultyDevice faulty([](LinearProgram&) {},
                      [](const Target& target) -> std::unique_ptr<DeviceDriver> {
                        return std::make_unique<RingDriver>(target);
                      });
  const DiffReport report = run(faulty.device);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kSequence) << report.first->text;
  EXPECT_EQ(report.kernels, 3);
  EXPECT_EQ(report.first->kernel, "z");
  EXPECT_THAT(report.first->text, HasSubstr("share bytes"));
}

// A reduction that is cut: its pieces are judged, and their sum.
TEST_F(Diff, CutReductionsAreJudgedInPieces) {
  constexpr const char* kText = R"(graph sum {
  in %x: f32[300000]
  %0 = reduce f32[1] %x add axes [0] acc f32
  out y = %0
})";
  const DiffReport right = run(Device::get("CPU"), kText);
  EXPECT_FALSE(right.first) << right.first->text;
  EXPECT_GE(right.kernels, 1);
}

// Lane i writes element i of a group's memory and reads that of its neighbour.
constexpr const char* kNeighbours = R"(tir 1 func neighbours grid(1) lanes(4) scratch 16 {
  arg 0 y f32[4] write
  arg 1 x f32[4] read
  %0 = param 0
  %1 = param 1
  %2 = alloc f32 4 group
  %3 = lane_id 0 i32
  %4 = const i32 3
  %5 = load f32 %1[%3]
  store %2[%3], %5
  barrier
  %6 = sub i32 %4, %3
  %7 = load f32 %2[%6]
  store %0[%3], %7
})";

std::vector<DiffArray> two_arrays() {
  const std::vector<float> values = {1, -2, 3, -4};
  const auto bytes = std::as_bytes(std::span(values));
  return {{.name = "y", .shape = {4}},
          {.name = "x", .shape = {4}, .bytes = {bytes.begin(), bytes.end()}}};
}

TEST_F(Diff, OfLinearProgramsTheInterpreterJudges) {
  std::string text = kNeighbours;
  Device& interp = Device::get("INTERP");
  EXPECT_FALSE(diff_program(parse_linear(text, "test"), two_arrays(), interp).first);
  text.replace(text.find("  barrier\n"), 10, "");
  const DiffReport report = diff_program(parse_linear(text, "test"), two_arrays(), interp);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kSharedKernel);
  EXPECT_EQ(report.first->kernel, "neighbours");
  EXPECT_THAT(report.first->text, HasSubstr("race"));
  EXPECT_THAT(report.first->launch, HasSubstr("argument 1 \"x\""));
  EXPECT_THAT(report.first->launch, HasSubstr("16 bytes; f32[4] needs 16, read"));
  EXPECT_FALSE(report.smallest);
}

TEST(LaunchRecord, SaysWhatDoesNotFit) {
  LinearProgram program = parse_linear(kNeighbours, "test");
  Target target;
  target.max_arguments = 1;
  target.max_lanes = 2;
  target.max_local_bytes = 8;
  alignas(64) std::byte bytes[64];
  const std::vector<ArgumentValue> values = {{.address = bytes, .size_bytes = 16},
                                             {.address = bytes + 4, .size_bytes = 12}};
  const std::string text = launch_record(program, values, target);
  for (const char* words :
       {"argument 0 \"y\", bytes 0 to 7 of the block", "16 bytes; f32[4] needs 16, written\n",
        "12 bytes; f32[4] needs 16, read; TOO SMALL by 4; NOT ALIGNED to 64",
        "the signature is not met: argument 1", "arguments: 2, the Target has at most 1: TOO MANY",
        "lanes of a group (4): 4, the Target has at most 2: TOO MANY",
        "bytes of group memory: 16, the Target has at most 8: TOO MANY", "groups (1): 1\n"})
    EXPECT_THAT(text, HasSubstr(words));
}

TEST_F(Diff, OfLinearProgramsDevicesAreJudgedByBits) {
  const LinearProgram right = parse_linear(R"(tir 1 func doubled grid(1) lanes(1) scratch 0 {
  arg 0 y f32[4] write
  arg 1 x f32[4] read
  %0 = param 0
  %1 = param 1
  %2 = const i32 0
  %3 = load f32x4 %1[%2]
  %4 = add f32x4 %3, %3
  store %0[%2], %4
})",
                                           "test");
  EXPECT_FALSE(diff_program(right, two_arrays(), Device::get("CPU")).first);
  FaultyDevice faulty(testing::additions_subtract);
  const DiffReport report = diff_program(right, two_arrays(), faulty.device);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kDevice);
  ASSERT_EQ(report.first->elements.size(), 4U);
  EXPECT_EQ(report.first->elements[1].index, 1);
  EXPECT_EQ(report.first->elements[1].expected, 0xc0800000U);  // -4
  EXPECT_EQ(report.first->elements[1].got, 0U);
  EXPECT_THAT(report.first->launch, HasSubstr("events: waited for none, was done"));
}

TEST_F(Diff, DevicesThatRunNothingAreRefused) {
  EXPECT_ERROR(run(Device::get("NULL")), ErrorCode::kUnsupported, "never runs");
}

// The numbers of a smaller case are those of the program, where it has them.
TEST_F(Diff, SmallerInputsAreACornerOfTheGivenOnes) {
  const auto if_six = [](LinearProgram& program) {
    if (program.signature.arguments[0].num_elements >= 6) testing::additions_subtract(program);
  };
  FaultyDevice faulty(if_six);
  const DiffReport report = run(faulty.device, R"(graph sum {
  in %x: f32[4,7]
  in %y: f32[4,7]
  %0 = add f32[4,7] %x, %y
  out z = %0
})");
  ASSERT_TRUE(report.smallest);
  const Difference& small = *report.smallest;
  ASSERT_EQ(small.arguments.size(), 3U);
  EXPECT_EQ(num_elements(small.arguments[1].shape), 6) << to_text(*small.graph);
  for (int64_t number = 0; number < 2; ++number) {
    const DiffArray& array = small.arguments[static_cast<size_t>(number) + 1];
    const int64_t columns = array.shape[1];
    std::vector<float> expected;
    for (int64_t i = 0; i < num_elements(array.shape); ++i)
      expected.push_back(coded(i / columns * 7 + i % columns, number));
    const auto bytes = std::as_bytes(std::span(expected));
    EXPECT_EQ(array.bytes, (std::vector<std::byte>{bytes.begin(), bytes.end()})) << number;
  }
}

TEST_F(Diff, GraphsWithoutKernelsAndWithoutElements) {
  const DiffReport report = run(Device::get("CPU"), R"(graph edges {
  in %x: f32[0,3]
  in %y: f32[2]
  %0 = add f32[0,3] %x, %x
  %1 = add f32[2] %y, %y
  out a = %0
  out b = %y
  out c = %1
  out d = %1
})");
  EXPECT_FALSE(report.first) << report.first->text;
  EXPECT_EQ(report.kernels, 1);
}

// Of a value nothing is left in the kernel that would read it, but the oracle reads it.
TEST_F(Diff, WhatWasFoldedAwayIsStillRead) {
  const DiffReport report = run(Device::get("CPU"), R"(graph nothing {
  in %x: f32[30]
  %0 = cast i32[30] %x
  %1 = contiguous i32[30] %0
  %2 = const i32[] 0
  %3 = reshape i32[1] %2
  %4 = expand i32[30] %3
  %5 = mul i32[30] %1, %4
  %6 = add i32[30] %5, %0
  out y = %6
})");
  EXPECT_FALSE(report.first) << report.first->text;
  EXPECT_EQ(report.kernels, 2);
  EXPECT_EQ(report.unjudged, 0);
}

// Values are right: what was written behind them is not.
TEST_F(Diff, WritesBehindABufferAreTheDevicesFault) {
  FaultyDevice faulty(testing::gates_are_ignored);
  const DiffReport report = run(faulty.device, R"(graph twice {
  in %x: f32[51]
  %0 = add f32[51] %x, %x
  out y = %0
})");
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kDevice);
  EXPECT_THAT(report.first->text,
              HasSubstr("of a buffer of 204 bytes was written: beyond its end"));
}

// A device's own exp2 may have other last bits: the oracle's radius decides.
TEST_F(Diff, NativeOpsAreJudgedByTheOracle) {
  constexpr const char* kText = R"(graph powers {
  in %x: f32[20]
  %0 = exp2 f32[20] %x
  out y = %0
})";
  Target target = engine_device(Device::get("INTERP")).target();
  target.native_ops.insert(target.native_ops.end(), {Op::kExp2, Op::kSin});
  FaultyDevice right([](LinearProgram&) {}, open_interp, target, "INTERP");
  const DiffReport report = run(right.device, kText);
  EXPECT_FALSE(report.first) << report.first->text;
  EXPECT_EQ(report.bounded, 1);
  EXPECT_EQ(report.unjudged, 0);
  const auto sines = [](LinearProgram& program) {
    for (Inst& inst : program.insts)
      if (inst.op == Op::kExp2) inst.op = Op::kSin;
  };
  FaultyDevice wrong(sines, open_interp, target, "INTERP");
  const DiffReport found = run(wrong.device, kText);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->verdict, DiffVerdict::kDevice);
  EXPECT_FALSE(found.first->expected.radius.empty());
  // The program alone says nothing of the bits.
  const DiffReport alone =
      diff_program(*found.first->program, found.first->arguments, wrong.device);
  EXPECT_FALSE(alone.first);
  EXPECT_EQ(alone.unjudged, 1);
}

TEST_F(Diff, LaunchesTooLargeForTheInterpreterAreMadeSmall) {
  FaultyDevice faulty(testing::additions_subtract);
  graph_ = parse_graph(R"(graph twice {
  in %x: f32[1000000]
  %0 = add f32[1000000] %x, %x
  out y = %0
})",
                       "test");
  const DiffReport report =
      diff_graph(graph_, coded_data(graph_), faulty.device, {.max_lane_operations = 100'000});
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->verdict, DiffVerdict::kUndecided);
  ASSERT_TRUE(report.smallest);
  EXPECT_EQ(report.smallest->verdict, DiffVerdict::kDevice);
}

// Graphs of all ops and dtypes, assigned buffers and copies among them.
TensorGraph some_graph(uint64_t seed) {
  return testing::random_graph(
      seed, {.integer_valued = seed % 2 == 0, .max_total = 20'000, .has_variables = false});
}

/// Nothing where the device refuses the graph.
std::optional<DiffReport> report_of(const TensorGraph& graph, uint64_t seed, Device& device) {
  try {
    return diff_graph(graph, testing::random_inputs(graph, seed), device, {.shrink_ns = 0});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return std::nullopt;
    throw;
  }
}

TEST_F(Diff, RandomGraphsDoNotDiffer) {
  for (const char* name : {"CPU", "INTERP"}) {
    int64_t kernels = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const auto report = report_of(some_graph(seed), seed, Device::get(name));
      if (!report) continue;
      kernels += report->kernels;
      EXPECT_FALSE(report->first) << name << ", seed " << seed << ": " << report->first->text;
    }
    EXPECT_GE(kernels, 80) << name;
  }
}

// What the compiler does wrong is never put down to the device.
TEST_F(Diff, FaultsOfTheCompilerInRandomGraphs) {
  const ScopedSetting unverified(Setting::kVerifyIr, "0");
  for (const PlantedFault planted :
       {PlantedFault::kLastIterationLost, PlantedFault::kFloatToIntWraps,
        PlantedFault::kPadFillLost, PlantedFault::kPermuteInverse}) {
    const ScopedPlantedFault fault(planted);
    int64_t found = 0;
    for (uint64_t seed = 0; seed < 60 && found < 2; ++seed) {
      std::optional<DiffReport> report;
      try {
        report = report_of(some_graph(seed), seed, Device::get("CPU"));
      } catch (const Error&) {
        continue;  // an assert has found it
      }
      if (!report || !report->first) continue;
      ++found;
      EXPECT_EQ(report->first->verdict, DiffVerdict::kSharedKernel)
          << "seed " << seed << ": " << report->first->text;
    }
    EXPECT_GE(found, 1) << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace tenon
