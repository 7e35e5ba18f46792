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
#ifdef MISUSE_body_that_throws
  pool.run(4, [](int64_t, int64_t, int) {});
#endif
#ifdef MISUSE_body_without_worker
  pool.run(4, [](int64_t, int64_t) noexcept {});
#endif
#ifdef MISUSE_pool_copied
  ThreadPool copy = pool;
#endif
#ifdef MISUSE_object_copied
  const LoadedObject copy = moved;
#endif
#ifdef MISUSE_parts_of_a_temporary
  const auto parts = split(text + ",", ',');
#endif
#ifdef MISUSE_error_without_code
  throw Error("text");
#endif
}

}  // namespace tenon::cpu
