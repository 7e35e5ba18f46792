// SPDX-License-Identifier: MIT

#include "bench/peers.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "tenon/base/text.h"

namespace tenon::bench {
namespace {

/// for i, for j: out[j][i] = in[i][j], in one thread.
class LoopPeer final : public Peer {
 public:
  std::string name() const override { return "loop"; }
  std::string description() const override { return "plain double loop, one thread"; }
  std::function<void()> prepare(const Job& job) override {
    if (job.kind != JobKind::kTranspose || job.dtype != DType::kF32) return {};
    return [job] {
      const auto* const in = static_cast<const float*>(job.a);
      auto* const out = static_cast<float*>(job.out);
      for (int64_t i = 0; i < job.m; ++i) {
        for (int64_t j = 0; j < job.n; ++j)
          out[j * job.m + i] = in[i * job.n + j];
      }
    };
  }
};

}  // namespace

Peers load_peers(int num_threads) {
  // A user's choice of kernel or block size would be measured in place of the library's.
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS",
                           "OMP_NUM_THREADS", "DNNL_MAX_CPU_ISA"})
    ::unsetenv(name);
  Peers peers;
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::string names = TENON_BENCH_PEERS;
  for (const std::string_view name : split(names, ',')) {
    if (name.empty()) continue;
    const std::string path = (folder / concat("libtenon_peer_", name, ".so")).string();
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    void* const symbol = library == nullptr ? nullptr : ::dlsym(library, kMakePeer);
    if (symbol == nullptr) {
      peers.notes.push_back(concat(name, ": not loaded: ", ::dlerror()));
      continue;
    }
    peers.list.emplace_back(reinterpret_cast<MakePeer>(symbol)(num_threads));
  }
  return peers;
}

std::unique_ptr<Peer> make_loop_peer() {
  return std::make_unique<LoopPeer>();
}

}  // namespace tenon::bench
