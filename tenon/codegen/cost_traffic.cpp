// The footprint rule: what one run of the loops inside some depth touches, against the sizes of the
// caches. SPDX-License-Identifier: MIT

#include <algorithm>
#include <numeric>

#include "tenon/codegen/cost_parts.h"

namespace tenon {
namespace {

// Of a cache that a plan may count on; the rest holds what nobody counted.
constexpr double kUsableShare = 0.75;
// Lines in a row from which their number no longer matters to what lies behind a cache.
constexpr int64_t kLinesOfFullSpeed = 4;
constexpr int64_t kManyBytes = 1 << 20;
// What reading several places in turn costs, line by line.
constexpr double kStreamShare = 0.12;

/// Bytes in whole lines.
int64_t bytes_of(const AccessBox& box, int64_t width, int64_t line) {
  int64_t run = box.run * width;
  if (box.rows == 1) return std::max(run, int64_t{1});
  run = round_up(run, line);
  if (box.pitch > 0) run = std::min(run, std::max(box.pitch * width, box.run * width));
  return run * box.rows;
}

class Traffic {
 public:
  Traffic(const Kernel& kernel, const Target& target, const std::vector<PlanNest>& nests,
          PlanCost& cost)
      : kernel_(kernel), target_(target), nests_(nests), cost_(cost) {}

  std::vector<double> run() {
    collect_streams();
    add_traffic();
    return std::move(level_s_);
  }

 private:
  /// An access of a nest, or the reads of a copy into a stage.
  struct Stream {
    size_t nest = 0;
    const Access* access = nullptr;
    int64_t width = 4;
    size_t born = 0;   ///< loops outside do not move it: it lies in memory of the group
    size_t depth = 0;  ///< loops around it (of a copy: those of its place)
    bool is_local = false;
    bool is_packed = false;  ///< a stage: its runs are whole
    bool bypasses = false;
    int64_t run_bytes = 1;   ///< that follow each other in memory, and in time
    int64_t step_bytes = 1;  ///< the same in one run of the body, where it reads several places
  };

  void collect_streams() {
    for (size_t i = 0; i < nests_.size(); ++i) {
      const PlanNest& nest = nests_[i];
      for (const Access& access : nest.walk->accesses) {
        const auto buffer = static_cast<size_t>(access.buffer);
        const bool is_tmp = kernel_.buffers[buffer].access == BufferAccess::kTmp;
        Stream stream{.nest = i,
                      .access = &access,
                      .width = dtype_size_bytes(access.dtype),
                      .depth = nest.levels.size()};
        if (is_tmp) {
          if (in_registers(kernel_, nest, access)) continue;
          stream.is_local = true;
          stream.born = place_of(access.buffer);
        }
        stream.bypasses = access.is_store && nest.plan->store == StoreKind::kNonTemporal;
        const Stage* const stage = access.is_store ? nullptr : stage_of(nest, access);
        if (stage != nullptr) {
          Stream copy = stream;
          copy.depth = nest.outer + static_cast<size_t>(stage->depth);
          copy.run_bytes = box_of(access, nest.lengths[copy.depth]).run * stream.width;
          copy.step_bytes = kManyBytes;
          streams_.push_back(copy);
          stream.is_local = true;
          stream.is_packed = true;
          stream.born = copy.depth;
        }
        stream.run_bytes = stream.is_packed ? kManyBytes : run_bytes(nest, access);
        const AccessBox body = box_of(access, nest.lengths.back());
        stream.step_bytes =
            stream.is_packed || body.rows == 1 ? kManyBytes : body.run * stream.width;
        streams_.push_back(stream);
      }
    }
  }

  bool has_carry(int buffer) const {
    return std::any_of(nests_.begin(), nests_.end(), [&](const PlanNest& nest) {
      return nest.plan->acc && nest.plan->acc->carry_in == buffer;
    });
  }

  /// Loops around the place where a tmp is made.
  size_t place_of(int buffer) const {
    for (const PlanNest& nest : nests_) {
      if (nest.walk->comp->dst == buffer) {
        return nest.plan->how == How::kBefore ? nest.outer : size_t{0};
      }
    }
    return 0;
  }

  /// Bytes that are touched one after the other before the walk jumps.
  int64_t run_bytes(const PlanNest& nest, const Access& access) const {
    const int64_t width = dtype_size_bytes(access.dtype);
    const size_t last = nest.levels.size();
    AccessBox box = box_of(access, nest.lengths[last]);
    for (size_t depth = last; depth-- > 0;) {
      const int axis = nest.levels[depth].axis;
      if (axis < 0 || !access.uses(static_cast<size_t>(axis)) || nest.levels[depth].trips == 1) {
        continue;
      }
      const AccessBox larger = box_of(access, nest.lengths[depth]);
      // Rows that follow each other leave one run.
      if (larger.rows > box.rows || larger.run <= box.run) break;
      box = larger;
    }
    return box.run * width;
  }

  /// Loops that two nests have in common.
  size_t common(const PlanNest& a, const PlanNest& b) const {
    const size_t most = std::min(a.levels.size(), b.levels.size());
    size_t count = 0;
    while (count < most && a.levels[count].is_same(b.levels[count]))
      ++count;
    return count;
  }

  struct Size {
    int64_t bytes = 0;
    bool has_conflicts = false;
  };

  Size size_at(const Stream& stream, size_t depth, const CacheLevel& cache) const {
    const PlanNest& nest = nests_[stream.nest];
    const AccessBox box = box_of(*stream.access, nest.lengths[std::min(depth, stream.depth)]);
    if (stream.is_packed) return {box.run * box.rows * stream.width};
    Size size{bytes_of(box, stream.width, target_.line_bytes)};
    if (box.pitch > 0 && cache.threads == 1) {
      const int64_t way = std::max<int64_t>(cache.bytes / cache.ways, 1);
      const int64_t step = std::gcd(box.pitch * stream.width, way);
      const int64_t places = way / std::max<int64_t>(step, 1) * cache.ways;
      size.has_conflicts =
          box.rows > 2 * places && round_up(box.run * stream.width, target_.line_bytes) < step;
    }
    return size;
  }

  /// Whether what runs inside the first `depth` loops of the nest fits the cache.
  bool fits(const PlanNest& nest, size_t depth, const CacheLevel& cache) const {
    const int64_t sharers = std::clamp(cache.threads, 1, std::max(target_.threads, 1));
    const double limit = kUsableShare * static_cast<double>(cache.bytes) /
                         static_cast<double>(depth == 0 ? 1 : sharers);
    std::vector<std::pair<int, int64_t>> buffers;
    for (const Stream& stream : streams_) {
      if (stream.bypasses) continue;
      const PlanNest& other = nests_[stream.nest];
      if (&other != &nest && common(nest, other) < depth) continue;
      if (stream.depth < depth) continue;
      const Size size = size_at(stream, depth, cache);
      if (size.has_conflicts) return false;
      const int key = stream.access->buffer * 2 + (stream.is_packed ? 1 : 0);
      const auto known = std::find_if(buffers.begin(), buffers.end(),
                                      [&](const auto& entry) { return entry.first == key; });
      if (known == buffers.end()) {
        buffers.emplace_back(key, size.bytes);
      } else {
        known->second = std::max(known->second, size.bytes);
      }
    }
    double total = 0;
    for (const auto& [key, bytes] : buffers)
      total += static_cast<double>(bytes);
    return total <= limit;
  }

  bool steps_within_line(const Stream& stream, size_t level) const {
    const PlanNest& nest = nests_[stream.nest];
    const auto axis = static_cast<size_t>(nest.levels[level].axis);
    const int64_t step = nest.lengths[level + 1][axis] * std::abs(stream.access->strides[axis]);
    return !stream.access->is_irregular[axis] && step * stream.width < target_.line_bytes;
  }

  /// Bytes that the stream brings into a cache in which what is inside `fit` loops stays.
  double traffic_of(const Stream& stream, size_t fit, const CacheLevel& cache) const {
    const PlanNest& nest = nests_[stream.nest];
    const size_t depth = std::min(fit, stream.depth);
    auto bytes = static_cast<double>(size_at(stream, depth, cache).bytes);
    const size_t first = stream.is_local ? std::min(stream.born, depth) : 0;
    size_t last = depth;
    const auto moves = [&](size_t level) {
      const int axis = nest.levels[level].axis;
      return axis >= 0 && stream.access->uses(static_cast<size_t>(axis));
    };
    if (fit <= stream.depth) {
      while (last > first && !moves(last - 1))
        --last;
      // A line that is left in small steps comes in once.
      if (last > first && steps_within_line(stream, last - 1) &&
          !size_at(stream, last - 1, cache).has_conflicts) {
        --last;
        bytes = static_cast<double>(size_at(stream, last, cache).bytes);
      }
    }
    if (stream.is_local && last == first) return fit <= stream.born ? 0 : bytes;
    return bytes * nest.trips(first, last) * (stream.is_local ? nest.trips(0, first) : 1);
  }

  void add_traffic() {
    for (size_t number = 0; number < target_.caches.size(); ++number) {
      const CacheLevel& cache = target_.caches[number];
      const bool is_last = number + 1 == target_.caches.size();
      std::vector<size_t> fit_of;
      for (const PlanNest& nest : nests_) {
        size_t depth = 0;
        while (depth < nest.levels.size() && !fits(nest, depth, cache))
          ++depth;
        fit_of.push_back(depth);
      }
      struct Known {
        int buffer;
        size_t fit;
        double bytes;
        double cost;
      };
      std::vector<Known> known;
      double bypassed = 0;
      for (const Stream& stream : streams_) {
        const size_t fit = fit_of[stream.nest];
        if (stream.bypasses) {
          if (is_last) bypassed += traffic_of(stream, stream.depth, cache);
          continue;
        }
        if (fit == 0) continue;  // all is there from before
        const double bytes = traffic_of(stream, fit, cache);
        const int64_t full = kLinesOfFullSpeed * target_.line_bytes;
        double cost = bytes;
        if (number == 0) {
          cost *= 1 + 0.25 * static_cast<double>(full) / static_cast<double>(stream.run_bytes);
        } else {
          cost *= 1 + static_cast<double>(full) / static_cast<double>(stream.run_bytes) +
                  kStreamShare * target_.line_bytes / static_cast<double>(stream.step_bytes);
        }
        if (stream.access->is_store && is_last) cost *= 2;  // read before it is written
        // Accumulators that wait there come back.
        if (stream.access->is_store && has_carry(stream.access->buffer)) cost *= 2;
        const int key = stream.access->buffer * 2 + (stream.is_packed ? 1 : 0);
        const auto same = std::find_if(known.begin(), known.end(), [&](const Known& entry) {
          return entry.buffer == key && entry.fit == fit && fit < stream.depth;
        });
        if (same == known.end()) {
          known.push_back({key, fit, bytes, cost});
        } else {
          same->bytes = std::max(same->bytes, bytes);
          same->cost = std::max(same->cost, cost);
        }
      }
      double total = bypassed;
      double cost = bypassed;
      for (const Known& entry : known) {
        total += entry.bytes;
        cost += entry.cost;
      }
      cost_.traffic.push_back(static_cast<int64_t>(total));
      const int speed = is_last ? target_.memory_speed : target_.caches[number + 1].speed;
      level_s_.push_back(cost / static_cast<double>(std::max(speed, 1)) * 1e-9);
    }
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<PlanNest>& nests_;
  PlanCost& cost_;
  std::vector<Stream> streams_;
  std::vector<double> level_s_;
};

}  // namespace

std::vector<double> add_traffic(const Kernel& kernel, const Target& target,
                                const std::vector<PlanNest>& nests, PlanCost& cost) {
  return Traffic(kernel, target, nests, cost).run();
}

}  // namespace tenon
