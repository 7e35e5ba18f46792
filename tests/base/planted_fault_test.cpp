// SPDX-License-Identifier: MIT

#include "tenon/base/planted_fault.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tenon {
namespace {

TEST(PlantedFault, NamesAreFoundAndDiffer) {
  std::set<std::string_view> names;
  for (const PlantedFaultInfo& info : planted_fault_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(parse_planted_fault(info.name), info.fault);
  }
  EXPECT_GE(names.size(), 20U);
  EXPECT_EQ(parse_planted_fault("none"), std::nullopt);
}

TEST(PlantedFault, IsInForceInItsScopeOnly) {
  EXPECT_EQ(planted_fault(), PlantedFault::kNone);
  {
    const ScopedPlantedFault outer(PlantedFault::kPadFillLost);
    {
      const ScopedPlantedFault inner(PlantedFault::kMaxLosesNan);
      EXPECT_EQ(planted_fault(), PlantedFault::kMaxLosesNan);
    }
    EXPECT_EQ(planted_fault(), PlantedFault::kPadFillLost);
  }
  EXPECT_EQ(planted_fault(), PlantedFault::kNone);
}

}  // namespace
}  // namespace tenon
