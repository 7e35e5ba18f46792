// What must not compile with thread pools, loaded objects and errors, and beside it what must.
// See must_not_compile.py. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::cpu {

void use_threads(ThreadPool& pool, LoadedObject& object, const std::string& text) {
  pool.run(4, [](int64_t, int64_t, int) noexcept {});
  const LoadedObject moved = std::move(object);
  for (const std::string_view part : split(text, ','))
    static_cast<void>(part);
#ifdef MISUSE
  pool.run(4, [](int64_t, int64_t, int) {});
#endif
#ifdef MISUSE
  pool.run(4, [](int64_t, int64_t) noexcept {});
#endif
#ifdef MISUSE
  ThreadPool copy = pool;
#endif
#ifdef MISUSE
  const LoadedObject copy = moved;
#endif
#ifdef MISUSE
  const auto parts = split(text + ",", ',');
#endif
#ifdef MISUSE
  throw Error("text");
#endif
}

}  // namespace tenon::cpu
