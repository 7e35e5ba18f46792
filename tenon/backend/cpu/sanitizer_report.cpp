// The hooks are functions that the runtimes call by name, if the executable has them. They write to
// stderr themselves: the process ends soon after. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/sanitizer_report.h"

#include <unistd.h>

#include <string>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/base/text.h"

#if defined(__SANITIZE_ADDRESS__)
#define TENON_HAS_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TENON_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_HAS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TENON_HAS_TSAN 1
#endif
#endif

namespace tenon::cpu {

// Being called makes the linker keep this file and with it the hooks.
void name_kernels_in_reports() {}

#if defined(TENON_HAS_ASAN) || defined(TENON_HAS_TSAN)
namespace {

void write_kernel_at(const void* address) {
  const std::optional<std::string> symbol = symbol_at(address);
  if (!symbol) return;
  const std::string line = concat("tenon: in kernel '", *symbol, "'\n");
  // Nothing can be done about a failed write here.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace
#endif

}  // namespace tenon::cpu

#ifdef TENON_HAS_ASAN
extern "C" {
void* __asan_get_report_pc();
__attribute__((visibility("default"))) void __asan_on_error() {
  tenon::cpu::write_kernel_at(__asan_get_report_pc());
}
}
#endif

#ifdef TENON_HAS_TSAN
extern "C" {
int __tsan_get_report_mop(void* report, unsigned long index, int* thread, void** address, int* size,
                          int* is_write, int* is_atomic, void** trace, unsigned long trace_size);
__attribute__((visibility("default"))) void __tsan_on_report(void* report) {
  for (unsigned long index = 0; index < 2; ++index) {  // both sides of a race
    int thread = 0;
    void* address = nullptr;
    int size = 0;
    int is_write = 0;
    int is_atomic = 0;
    void* trace[4] = {};
    __tsan_get_report_mop(report, index, &thread, &address, &size, &is_write, &is_atomic, trace, 4);
    for (const void* pc : trace) {
      if (pc != nullptr) tenon::cpu::write_kernel_at(pc);
    }
  }
}
}
#endif
