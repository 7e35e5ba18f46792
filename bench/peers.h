// The peers that this build has, loaded. SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/peer.h"

namespace tenon::bench {

struct Peers {
  std::vector<std::unique_ptr<Peer>> list;
  std::vector<std::string> notes;  ///< what could not be loaded, and why
};

/// Those of CMake's TENON_BENCH, from this folder (empty: that of the executable). Takes variables
/// out of the environment that change what a peer would do by itself.
Peers load_peers(int num_threads, std::string folder = {});

/// The peer for what users write without a library: plain loops. Always there.
std::unique_ptr<Peer> make_loop_peer();

}  // namespace tenon::bench
