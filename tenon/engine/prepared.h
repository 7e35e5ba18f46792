// What realising a graph of one form does: its schedule with devices and loaded programs, and
// nothing of the graph itself. A graph that differs only in which arrays it reads has the same
// form, so a program that builds its graph anew in each step schedules and looks up kernels once.
// Used by realize.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/hash.h"
#include "tenon/engine/program_table.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/node.h"

namespace tenon {

class Device;
class EngineDevice;
class GivenPlans;
class Shadow;
struct RealizeStats;

/// A part of a graph in a canonical order, each node once, sources before users, cut at the nodes
/// that have a value.
struct GraphForm {
  /// `memory` must outlive the form.
  explicit GraphForm(std::pmr::memory_resource* memory)
      : nodes(memory), devices(memory), constants(memory), srcs(memory), outputs(memory) {}

  std::pmr::vector<Node> nodes;
  std::pmr::vector<EngineDevice*> devices;       ///< by node: where its value is, null without one
  std::pmr::vector<bool> constants;              ///< by node: the value is a constant
  std::pmr::vector<std::pmr::vector<int>> srcs;  ///< by node: numbers of its sources; empty with a
                                                 ///< value
  std::pmr::vector<int> outputs;
};

/// Hash of all that decides what realising the form does: the graph without its values, the
/// devices, the settings that change kernels. Nothing for a graph that is not worth remembering or
/// holds what a hash cannot say.
std::optional<Hash128> key_of(const GraphForm& form, const Device& default_device);

/// Number in the form of each of its nodes, by id.
using NodeNumbers = std::pmr::unordered_map<const void*, int>;

struct PreparedBuffer {
  static constexpr int kAdded = -1;
  int node;  ///< number in the form; kAdded: the schedule has added it
  EngineDevice* device;
  DType dtype;
  int64_t size_bytes;
  bool is_given;
  bool is_output;
  bool is_assign;
  size_t last_call;  ///< that uses it
};

/// A parameter that is a constant, and how the program reads it.
struct RelaidParameter {
  size_t parameter = 0;
  Shape dims;
  std::vector<LayoutPart> layout;
};

struct PreparedCall {
  std::string kernel;            ///< its name
  ProgramPtr program;            ///< null for copies and fills
  std::vector<int> buffers;      ///< of each parameter
  std::vector<DType> dtypes;     ///< of each parameter, as the program has it; empty for copies
  int copy_from = -1;            ///< for copies: the source
  std::optional<uint64_t> fill;  ///< for fills: bits of every element
  std::vector<RelaidParameter> relaid;
  std::shared_ptr<const Shadow> shadow;  ///< of kernels, where setting TENON_CHECK is on
};

struct Prepared {
  std::vector<PreparedBuffer> buffers;
  std::vector<PreparedCall> calls;
  std::vector<int> outputs;  ///< buffer of each output of the form
};

/// Schedules, chooses devices and finds or makes the programs. Adds to `stats`. Throws
/// kInvalidArgument if an input has no value or operands are on two devices, what
/// find_programs throws, kOutOfMemory for a value larger than any buffer.
std::shared_ptr<const Prepared> make_prepared(const GraphForm& form, std::span<const Node> outputs,
                                              const NodeNumbers& numbers, Device& default_device,
                                              RealizeStats& stats,
                                              const GivenPlans* plans = nullptr);

/// What the latest realisations of a device did, by form. Safe from any thread.
class PreparedTable {
 public:
  explicit PreparedTable(size_t max_entries) : max_entries_(max_entries) {}
  PreparedTable(const PreparedTable&) = delete;
  PreparedTable& operator=(const PreparedTable&) = delete;

  std::shared_ptr<const Prepared> find(const Hash128& key);
  /// Drops what was used longest ago. What is there already stays.
  void keep(const Hash128& key, std::shared_ptr<const Prepared> prepared);
  size_t size() const;

 private:
  using Entry = std::pair<Hash128, std::shared_ptr<const Prepared>>;
  const size_t max_entries_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // used last: at the front
  std::unordered_map<Hash128, std::list<Entry>::iterator> by_key_;
};

/// Kept by each device. Its entries share programs with the ProgramTable.
inline constexpr size_t kMaxPrepared = 1024;

}  // namespace tenon
