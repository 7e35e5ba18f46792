// SPDX-License-Identifier: MIT

#include "bench/peers.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

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

// A user's choice of kernel, block size or threads would be measured in place of the library's.
void clear_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const char* prefix : {"OPENBLAS_", "GOTO_", "DNNL_", "ONEDNN_", "OMP_", "GOMP_"}) {
      if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names)
    ::unsetenv(name.c_str());
}

}  // namespace

Peers load_peers(int num_threads, std::string folder) {
  clear_environment();
  Peers peers;
  if (folder.empty()) {
    std::error_code ignored;
    folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
  }
  const std::string names = TENON_BENCH_PEERS;
  for (const std::string_view name : split(names, ',')) {
    if (name.empty()) continue;
    const std::string path = concat(folder, "/libtenon_peer_", name, ".so");
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
