// Variables that steer other libraries do not reach them: each peer is what it is by itself on this
// CPU. Each look at a library is a process of its own, since it is loaded once.
// SPDX-License-Identifier: MIT

#include "bench/peers.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tenon/base/text.h"
#include "tests/cli/run_tenon.h"

namespace tenon::bench {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const std::string kFolder = std::filesystem::path(TENON_PROGRAM).parent_path().string();

std::string path_of(const std::string& peer) {
  return concat(kFolder, "/libtenon_peer_", peer, ".so");
}

/// What `look` returns in a child with none of the variables of those libraries but `variables`.
template <typename Look>
std::string in_child(const Variables& variables, const Look& look) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS",
                             "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"})
      ::unsetenv(name);
    for (const auto& [name, value] : variables)
      ::setenv(name.c_str(), value.c_str(), 1);
    const std::string text = look();
    const bool is_written =
        ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(is_written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(size));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << text;
  return text;
}

/// What the peer says of itself where nobody takes variables away.
std::string alone(const std::string& peer, const Variables& variables) {
  return in_child(variables, [&]() -> std::string {
    void* const library = ::dlopen(path_of(peer).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : ::dlsym(library, kMakePeer);
    if (symbol == nullptr) return ::dlerror();
    return reinterpret_cast<MakePeer>(symbol)(1)->description();
  });
}

/// The same of the peer that the benchmark loads.
std::string in_bench(const std::string& peer, const Variables& variables) {
  return in_child(variables, [&]() -> std::string {
    const Peers peers = load_peers(1, kFolder);
    for (const auto& loaded : peers.list)
      if (loaded->name() == peer) return loaded->description();
    return concat("not loaded; ", join(peers.notes, "; "));
  });
}

struct PeerCase {
  const char* peer;
  Variables variables;
  friend std::ostream& operator<<(std::ostream& out, const PeerCase& one) {
    return out << one.peer << " with " << one.variables.begin()->first;
  }
};

// Kernels that every x86-64 CPU has and none takes by itself.
const PeerCase kCases[] = {
    {"openblas", {{"OPENBLAS_CORETYPE", "Prescott"}, {"OPENBLAS_L2_SIZE", "64"}}},
    {"onednn", {{"ONEDNN_MAX_CPU_ISA", "SSE41"}}},
    {"onednn", {{"DNNL_MAX_CPU_ISA", "SSE41"}}},
};

class PeersOfTheCpu : public ::testing::TestWithParam<PeerCase> {};

TEST_P(PeersOfTheCpu, AreNotSteeredByVariables) {
  const auto& [peer, variables] = GetParam();
  if (!std::filesystem::exists(path_of(peer))) {
    GTEST_SKIP() << "built without " << peer << " (CMake option TENON_BENCH)";
  }
  const std::string own = alone(peer, {});
  EXPECT_THAT(own, HasSubstr(std::string(peer) == "openblas" ? "OpenBLAS " : "oneDNN "));
  EXPECT_NE(alone(peer, variables), own) << "the variables have no effect here";
  EXPECT_EQ(in_bench(peer, variables), own);
  // So in the command's own report.
  const testing::TenonResult result =
      testing::run_tenon({"bench", "--quick", "--threads", "1", "gemv"}, variables);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(concat("peer:      ", peer, ": ", own)));
}

INSTANTIATE_TEST_SUITE_P(All, PeersOfTheCpu, ::testing::ValuesIn(kCases));

TEST(Peers, LoadingClearsWhatSteersThem) {
  const Variables steering = {{"OPENBLAS_CORETYPE", "Prescott"}, {"OPENBLAS_L2_SIZE", "64"},
                              {"OPENBLAS_BLOCK_FACTOR", "1"},    {"OPENBLAS_NUM_THREADS", "1"},
                              {"GOTO_NUM_THREADS", "1"},         {"OMP_NUM_THREADS", "1"},
                              {"OMP_PROC_BIND", "true"},         {"GOMP_CPU_AFFINITY", "0"},
                              {"DNNL_MAX_CPU_ISA", "SSE41"},     {"ONEDNN_MAX_CPU_ISA", "SSE41"}};
  Variables variables = steering;
  variables["NOT_OMP_NUM_THREADS"] = "7";
  const std::string left = in_child(variables, [&] {
    load_peers(1, "/nonexistent");
    std::string names;
    for (const auto& [name, value] : variables)
      if (::getenv(name.c_str()) != nullptr) append(names, name, "=", ::getenv(name.c_str()), " ");
    return names;
  });
  EXPECT_EQ(left, "NOT_OMP_NUM_THREADS=7 ");
}

TEST(Peers, OneThatIsNotThereIsNamed) {
  const Peers peers = load_peers(1, "/nonexistent");
  EXPECT_TRUE(peers.list.empty());
  for (const std::string& note : peers.notes)
    EXPECT_THAT(note, HasSubstr(": not loaded: /nonexistent/libtenon_peer_"));
}

}  // namespace
}  // namespace tenon::bench
