// What a figure needs beside it to mean something: CPU, features, caches, where the cores are.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>

#include "tenon/types/target.h"

namespace tenon::bench {

/// Lines of text. Probes two threads for some milliseconds: the round trip of a cache line, and
/// whether writes scale (two cores behind one link do not).
std::string describe_machine(const Target& target);

}  // namespace tenon::bench
