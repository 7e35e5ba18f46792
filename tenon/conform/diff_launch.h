// One launch, on all sides that can say what it must give: the checked interpreter, the oracle, the
// device. Private to diff.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/conform/diff.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/shadow.h"

namespace tenon::detail {

/// Which sides are asked; the interpreter always is.
struct DiffSides {
  bool oracle = true;
  bool device = true;
};

struct DiffLaunch {
  const Shadow& shadow;
  const Program* loaded;                         ///< null: the device is not asked
  const TensorGraph* graph;                      ///< null: the oracle is not asked
  std::span<const std::vector<std::byte>> data;  ///< of the graph's inputs
  std::span<const DiffArray> arguments;
  const OracleValue* expected = nullptr;  ///< of argument 0, where the oracle was asked before
};

struct JudgedLaunch {
  std::optional<Difference> difference;        ///< without name and number
  std::vector<std::vector<std::byte>> values;  ///< of the arguments afterwards
};

/// Adds to the counts of `report`. Throws what is no difference: kUnsupported, kOutOfMemory.
JudgedLaunch judge_launch(EngineDevice& device, const DiffLaunch& launch,
                          const DiffOptions& options, DiffReport& report);

/// Notes what a comparison has found.
void add_comparison(Difference& difference, OracleValue expected, std::vector<std::byte> got,
                    const Comparison& comparison);

/// An error that says nothing of the device's results.
bool is_refusal(const Error& error);

}  // namespace tenon::detail
