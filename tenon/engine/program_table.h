// The loaded programs of one device: at most a given number, those used longest ago dropped, and
// each made by one thread while others wait. Used by program_store.cpp; safe from any thread.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/hash.h"
#include "tenon/device/program.h"

namespace tenon {

/// Whoever launches a program shares it, so that dropping it from the table ends nothing.
using ProgramPtr = std::shared_ptr<const Program>;

/// Most programs of one device that stay loaded without being in use. A CPU program takes one to a
/// few pages, so this is some 64 MiB, while the largest models have a few thousand kernels.
inline constexpr size_t kMaxLoadedPrograms = 4096;

class ProgramTable {
 public:
  explicit ProgramTable(size_t max_programs) : max_programs_(max_programs) {}
  ProgramTable(const ProgramTable&) = delete;
  ProgramTable& operator=(const ProgramTable&) = delete;

  /// What is known about a key. Neither: the asker has the claim.
  struct Found {
    ProgramPtr program;
    std::shared_future<ProgramPtr> pending;  ///< another thread makes it; null: it could not
  };

  /// The keys that one thread has to make. No thread may wait for a pending program while it holds
  /// a claim: so two threads with overlapping sets never wait for each other.
  class Claims {
   public:
    explicit Claims(ProgramTable& table) : table_(table) {}
    Claims(const Claims&) = delete;
    Claims& operator=(const Claims&) = delete;
    /// Gives up what is left; others who wait make it themselves.
    ~Claims();

    /// The program, or who makes it; else the key is claimed.
    Found find_or_claim(const Hash128& key);
    /// Ends the claim on `key`.
    ProgramPtr settle(const Hash128& key, Program program);

   private:
    ProgramTable& table_;
    std::vector<Hash128> open_;
  };

  size_t size() const;

 private:
  using Entry = std::pair<Hash128, ProgramPtr>;

  struct Pending {
    std::promise<ProgramPtr> promise;
    std::shared_future<ProgramPtr> future;
  };

  Found find_or_claim(const Hash128& key);
  void settle(const Hash128& key, const ProgramPtr& program);

  const size_t max_programs_;
  mutable std::mutex mutex_;
  std::list<Entry> programs_;  // used last: at the front
  std::unordered_map<Hash128, std::list<Entry>::iterator> by_key_;
  std::unordered_map<Hash128, Pending> pending_;
};

}  // namespace tenon
