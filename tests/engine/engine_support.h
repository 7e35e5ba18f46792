// Typed values in and out of the engine, and counts of what it did. SPDX-License-Identifier: MIT

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/base/settings.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/support/temp_folder.h"

namespace tenon::testing {

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kI16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kU16;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kU32;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::kU64;
}

template <typename T>
Node buffer_of(const std::vector<T>& values, const Shape& shape,
               Device& device = Device::get_default(), DType dtype = dtype_of<T>()) {
  return buffer_from_bytes(device, dtype, shape, std::as_bytes(std::span(values)));
}

template <typename T>
std::vector<T> values_of(const Node& node) {
  const std::vector<std::byte> bytes = read_bytes(node);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Realises one node and reads it.
template <typename T>
std::vector<T> realized(const Node& node, RealizeStats* stats = nullptr) {
  const Node nodes[] = {node};
  realize(nodes, nullptr, stats);
  return values_of<T>(node);
}

inline int64_t used_bytes_of(Device& device) {
  return engine_device(device).pool().used_bytes();
}

/// An empty cache folder of its own, poisoned outputs and guards around every buffer.
class EngineTest : public ::testing::Test {
 protected:
  /// A device of its own, that has loaded nothing.
  static std::unique_ptr<EngineDevice> make_device(size_t max_programs = kMaxLoadedPrograms,
                                                   const char* name = "CPU") {
    EngineDevice& model = engine_device(Device::get(name));
    return std::make_unique<EngineDevice>(
        "fresh", 99, model.renderer(), model.lowering_rules(), model.target(),
        model.renderer().make_compiler(model.target()),
        find_backend("CPU")->open(0, model.target()), max_programs);
  }

  TempFolder folder_;
  ScopedSetting cache_dir_{Setting::kCacheDir, folder_ / "cache"};
  ScopedMemoryChecks checks_;
};

}  // namespace tenon::testing
