// SPDX-License-Identifier: MIT

#include "bench/limits.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "bench/host_array.h"
#include "bench/probe_kernels.h"
#include "bench/probe_units.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"

namespace tenon::bench {
namespace {

const ProbeKernels& probe_kernels() {
  if (__builtin_cpu_supports("avx512f")) return kAvx512Probes;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Probes;
  return kBaselineProbes;
}

/// Waits without sleeping, but lets others have the core if it takes long.
class Spinner {
 public:
  void wait() {
    if (++count_ % 4096 == 0) {
      std::this_thread::yield();
    } else {
      __builtin_ia32_pause();
    }
  }

 private:
  int64_t count_ = 0;
};

/// Takes what a probe returned, so that its work is needed.
void consume(int64_t value) {
  static std::atomic<int64_t> sink{0};
  sink += value;
}

/// The part of `count` floats of one of `num_threads` threads, in units of kProbeFloats.
struct Range {
  int64_t begin;
  int64_t count;
};

Range part_of(int64_t count, int thread, int num_threads) {
  const int64_t blocks = count / kProbeFloats;
  const int64_t begin = blocks * thread / num_threads;
  const int64_t end = blocks * (thread + 1) / num_threads;
  return {begin * kProbeFloats, (end - begin) * kProbeFloats};
}

using FloatArray = std::shared_ptr<HostArray>;

FloatArray make_floats(int64_t size_bytes) {
  const int64_t count = std::max<int64_t>(size_bytes / 4 / kProbeFloats, 1) * kProbeFloats;
  return std::make_shared<HostArray>(DType::kF32, Shape{count}, Fill::kUniform, 1);
}

float* floats_of(const FloatArray& array) {
  return reinterpret_cast<float*>(array->data());
}

/// Enough steps for about a millisecond: measured, since rates differ by a hundred times.
template <typename Run>
int64_t steps_for_a_millisecond(Run run) {
  int64_t steps = 1000;
  for (;;) {
    const int64_t start_ns = now_ns();
    consume(static_cast<int64_t>(run(steps)));
    const int64_t time_ns = std::max<int64_t>(now_ns() - start_ns, 1);
    if (time_ns > 200'000) return std::max<int64_t>(steps * 1'000'000 / time_ns, 1);
    steps *= 4;
  }
}

template <typename Run>
Probe make_compute_probe(const std::string& name, int64_t ops_per_step, Run run, int num_threads) {
  const int64_t steps = steps_for_a_millisecond(run);
  return {
      .name = name, .work = static_cast<double>(ops_per_step * steps * num_threads), .run = [=] {
        return time_on_threads(num_threads,
                               [=](int) { consume(static_cast<int64_t>(run(steps))); });
      }};
}

std::vector<Probe> make_unit_probes(const UnitProbe& unit, int num_threads) {
  if (unit.unit == nullptr) return {};
  return {make_compute_probe(unit.unit, unit.ops_per_step, unit.run, num_threads)};
}

std::vector<Probe> make_read_probes(int num_threads, int64_t size_bytes) {
  const FloatArray x = make_floats(size_bytes);
  std::vector<Probe> probes;
  const auto add = [&](const char* name, float (*read)(const float*, int64_t)) {
    probes.push_back({.name = name, .work = static_cast<double>(x->size_bytes()), .run = [=] {
                        return time_on_threads(num_threads, [=](int thread) {
                          const Range part = part_of(x->size(), thread, num_threads);
                          const float sum = read(floats_of(x) + part.begin, part.count);
                          consume(sum == 0.5F ? 1 : 0);
                        });
                      }});
  };
  add("read", probe_kernels().read);
  add("read, 4 streams", probe_kernels().read_streams);
  return probes;
}

std::vector<Probe> make_copy_probes(int num_threads, int64_t size_bytes) {
  const FloatArray x = make_floats(size_bytes);
  const FloatArray y = make_floats(size_bytes);
  std::vector<Probe> probes;
  const auto add = [&](const char* name, void (*copy)(const float*, float*, int64_t)) {
    probes.push_back({.name = name, .work = 2 * static_cast<double>(x->size_bytes()), .run = [=] {
                        return time_on_threads(num_threads, [=](int thread) {
                          const Range part = part_of(x->size(), thread, num_threads);
                          copy(floats_of(x) + part.begin, floats_of(y) + part.begin, part.count);
                        });
                      }});
  };
  add("copy", probe_kernels().copy);
  add("copy NT", probe_kernels().copy_streamed);
  return probes;
}

/// While alive, the calling thread stays on one of the cores that the process may use: threads that
/// start for some microseconds may else share a core all the time.
class ScopedCore {
 public:
  explicit ScopedCore(int number) {
    CPU_ZERO(&before_);
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const int count = CPU_COUNT(&before_);
    int left = number % std::max(count, 1);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_) || left-- != 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      is_set_ = sched_setaffinity(0, sizeof one, &one) == 0;
      return;
    }
  }
  ~ScopedCore() {
    if (is_set_) sched_setaffinity(0, sizeof before_, &before_);
  }
  ScopedCore(const ScopedCore&) = delete;
  ScopedCore& operator=(const ScopedCore&) = delete;

 private:
  cpu_set_t before_;
  bool is_set_ = false;
};

}  // namespace

int64_t time_on_threads(int num_threads, const std::function<void(int)>& body) {
  std::atomic<int> num_ready{0};
  std::atomic<bool> may_go{false};
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) {
    threads.emplace_back([&, thread] {
      const ScopedCore core(thread);
      ++num_ready;
      for (Spinner spinner; !may_go.load(std::memory_order_acquire);)
        spinner.wait();
      body(thread);
      --num_ready;
    });
  }
  const ScopedCore core(0);
  for (Spinner spinner; num_ready.load() < num_threads - 1;)
    spinner.wait();
  const int64_t start_ns = now_ns();
  may_go.store(true, std::memory_order_release);
  body(0);
  for (Spinner spinner; num_ready.load() > 0;)
    spinner.wait();
  const int64_t time_ns = now_ns() - start_ns;
  for (std::thread& thread : threads)
    thread.join();
  return std::max<int64_t>(time_ns, 1);
}

std::vector<Probe> make_probes(LimitKind kind, int num_threads, int64_t size_bytes) {
  switch (kind) {
    case LimitKind::kNone: return {};
    case LimitKind::kFmaF32: {
      const ProbeKernels& kernels = probe_kernels();
      return {make_compute_probe(concat("f32 FMA ", kernels.isa), kernels.flops_per_step,
                                 kernels.multiply_add, num_threads)};
    }
    case LimitKind::kDotBf16: return make_unit_probes(bf16_unit_probe(), num_threads);
    case LimitKind::kDotI8: return make_unit_probes(i8_unit_probe(), num_threads);
    case LimitKind::kRead: return make_read_probes(num_threads, size_bytes);
    case LimitKind::kCopy: return make_copy_probes(num_threads, size_bytes);
  }
  return {};
}

Probe make_store_probe(int num_threads, int64_t size_bytes) {
  const FloatArray y = make_floats(size_bytes * num_threads);
  return {.name = "store NT", .work = static_cast<double>(y->size_bytes()), .run = [=] {
            return time_on_threads(num_threads, [=](int thread) {
              const Range part = part_of(y->size(), thread, num_threads);
              probe_kernels().store_streamed(floats_of(y) + part.begin, part.count);
            });
          }};
}

double ping_pong_ns() {
  // Short batches, the best of many: a batch in which one thread lost its core says nothing.
  constexpr int kBatches = 60;
  constexpr int kTrips = 200;
  int64_t best_ns = INT64_MAX;
  for (int batch = 0; batch < kBatches; ++batch) {
    alignas(64) std::atomic<int> ball{0};
    const int64_t time_ns = time_on_threads(2, [&](int thread) {
      for (int trip = 0; trip < kTrips; ++trip) {
        const int mine = 2 * trip + thread;
        for (Spinner spinner; ball.load(std::memory_order_acquire) != mine;)
          spinner.wait();
        ball.store(mine + 1, std::memory_order_release);
      }
    });
    best_ns = std::min(best_ns, time_ns);
  }
  return static_cast<double>(best_ns) / kTrips;
}

}  // namespace tenon::bench
