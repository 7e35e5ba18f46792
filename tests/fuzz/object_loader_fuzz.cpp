// libFuzzer entry for the ELF loader: any bytes give a loaded object or an Error, nothing else.
// Build: clang-22 -fsanitize=fuzzer,address. Nothing that was loaded is ever called.
// SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tenon::cpu::LoadedObject object = tenon::cpu::load_object(bytes, "fuzz");
    if (const void* address = object.find("f"); address != nullptr) {
      if (!tenon::cpu::symbol_at(address)) std::abort();
    }
  } catch (const tenon::Error& error) {
    if (error.code() == tenon::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
