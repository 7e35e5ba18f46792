// The grammar of device names, each rule of it. SPDX-License-Identifier: MIT

#include "tenon/engine/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

const DeviceNames& names() {
  static const DeviceNames all{.devices = {"CPU", "CL", "NULL", "INTERP", "DISK"},
                               .path_devices = {"DISK"},
                               .interfaces = {"FAULT", "TRACE"}};
  return all;
}

DeviceSpec parse(std::string_view text) {
  return parse_device_spec(text, names());
}

TEST(DeviceSpec, TakesDeviceIndexRendererAndArch) {
  EXPECT_EQ(parse("CPU"), (DeviceSpec{.device = "CPU"}));
  EXPECT_EQ(parse("CL:1"), (DeviceSpec{.device = "CL", .index = 1}));
  EXPECT_EQ(parse("CPU:LLVM"), (DeviceSpec{.device = "CPU", .renderer = "LLVM"}));
  EXPECT_EQ(parse("CPU:CLANG:x86_64,avx2,-avx512f"),
            (DeviceSpec{.device = "CPU", .renderer = "CLANG", .arch = "x86_64,avx2,-avx512f"}));
  EXPECT_EQ(parse("NULL:CUDA:sm_90"),
            (DeviceSpec{.device = "NULL", .renderer = "CUDA", .arch = "sm_90"}));
  EXPECT_EQ(parse("CPU:3:CLANG:native"),
            (DeviceSpec{.device = "CPU", .index = 3, .renderer = "CLANG", .arch = "native"}));
}

TEST(DeviceSpec, NamesAreCaseBlind) {
  EXPECT_EQ(parse(" cpu:Clang:x86_64 "),
            (DeviceSpec{.device = "CPU", .renderer = "CLANG", .arch = "x86_64"}));
  EXPECT_EQ(parse("fault(Drop)+Interp"),
            (DeviceSpec{.interfaces = {{"FAULT", "Drop"}}, .device = "INTERP"}));
}

TEST(DeviceSpec, EmptyRendererIsTheDefault) {
  EXPECT_EQ(parse("INTERP::CL"), (DeviceSpec{.device = "INTERP", .arch = "CL"}));
  EXPECT_EQ(parse("INTERP:2::CL:1"), (DeviceSpec{.device = "INTERP", .index = 2, .arch = "CL:1"}));
  EXPECT_EQ(parse("CPU:"), (DeviceSpec{.device = "CPU"}));
}

TEST(DeviceSpec, PathsAreTakenWhole) {
  EXPECT_EQ(parse("disk:/tmp/a:b/3+4(x)"),
            (DeviceSpec{.device = "DISK", .path = "/tmp/a:b/3+4(x)"}));
  EXPECT_EQ(parse("DISK:7"), (DeviceSpec{.device = "DISK", .path = "7"}));
}

TEST(DeviceSpec, InterfacesStandInFrontWithArguments) {
  EXPECT_EQ(parse("FAULT(drop_barrier)+INTERP"),
            (DeviceSpec{.interfaces = {{"FAULT", "drop_barrier"}}, .device = "INTERP"}));
  EXPECT_EQ(
      parse("TRACE+FAULT(a,b=2)+CPU:1"),
      (DeviceSpec{.interfaces = {{"TRACE", ""}, {"FAULT", "a,b=2"}}, .device = "CPU", .index = 1}));
}

TEST(DeviceSpec, MisspeltNamesAreErrorsWithTheNearest) {
  EXPECT_ERROR(parse("CPUU"), ErrorCode::kInvalidArgument, "\"CPUU\"", "did you mean 'CPU'");
  EXPECT_ERROR(parse("INTREP"), ErrorCode::kInvalidArgument, "did you mean 'INTERP'");
  EXPECT_ERROR(parse("FALT(x)+CPU"), ErrorCode::kInvalidArgument, "no interface", "'FAULT'");
  EXPECT_ERROR(parse("toaster"), ErrorCode::kInvalidArgument, "'toaster'", "CPU, CL, NULL");
  EXPECT_ERROR(parse_device_spec("F(x)+CPU", {.devices = {"CPU"}}), ErrorCode::kInvalidArgument,
               "no interface is called 'F'", "none");
}

TEST(DeviceSpec, MalformedTextIsRefused) {
  EXPECT_ERROR(parse(""), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(parse(":CPU"), ErrorCode::kInvalidArgument, "no device is called ''");
  EXPECT_ERROR(parse("CPU:0:1"), ErrorCode::kInvalidArgument, "second index 1");
  EXPECT_ERROR(parse("CPU:99999999999999999999"), ErrorCode::kInvalidArgument, "too large");
  EXPECT_ERROR(parse("CPU:2147483648"), ErrorCode::kInvalidArgument, "too large");
  EXPECT_ERROR(parse("FAULT(x)CPU"), ErrorCode::kInvalidArgument, "must be followed");
  EXPECT_ERROR(parse("FAULT(x"), ErrorCode::kInvalidArgument, "must be followed");
  EXPECT_ERROR(parse("+CPU"), ErrorCode::kInvalidArgument, "no interface");
}

TEST(DeviceSpec, ListsAreSeparatedBySemicolons) {
  EXPECT_EQ(parse_device_list("CPU; CL:1", names()),
            (std::vector<DeviceSpec>{{.device = "CPU"}, {.device = "CL", .index = 1}}));
  EXPECT_ERROR(parse_device_list("CPU;;CL", names()), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(parse_device_list("CPU;", names()), ErrorCode::kInvalidArgument, "empty");
  EXPECT_ERROR(parse_device_list("CPU;CLL", names()), ErrorCode::kInvalidArgument, "'CL'");
}

}  // namespace
}  // namespace tenon
