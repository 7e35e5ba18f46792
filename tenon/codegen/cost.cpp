// The footprint rule: what one run of the loops inside some depth touches, against the sizes of the
// caches. SPDX-License-Identifier: MIT

#include "tenon/codegen/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tenon/base/text.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Of a cache that a plan may count on; the rest holds what nobody counted.
constexpr double kUsableShare = 0.75;
// Lines in a row from which their number no longer matters to what lies behind a cache.
constexpr int64_t kLinesOfFullSpeed = 4;
constexpr int64_t kManyBytes = 1 << 20;
// What reading several places in turn costs, line by line.
constexpr double kStreamShare = 0.12;
// Operations for each element of a group of a unit's operand that lies apart.
constexpr double kApartCost = 12;
// What a lane waits at a barrier, in operations.
constexpr double kBarrierOps = 8;
// What does not hide behind the slowest of computing and moving.
constexpr double kSerialShare = 0.2;

/// A loop around the body of an entry.
struct Level {
  int owner = 0;  ///< entry whose loop it is, and its number there
  int number = 0;
  int axis = -1;  ///< of the comp inside that moves with it; -1: none does
  int64_t trips = 1;
  bool is_grid = false;
  bool is_same(const Level& other) const { return owner == other.owner && number == other.number; }
};

/// An entry of the plan with all loops around it.
struct Nest {
  const Walk* walk = nullptr;
  const CompPlan* plan = nullptr;
  size_t outer = 0;  ///< loops of the place where it stands
  std::vector<Level> levels;
  /// By number of loops, by axis: what the loops inside them run through.
  std::vector<std::vector<int64_t>> lengths;
  std::vector<int64_t> counts;  ///< by axis: unrolled instances
  size_t vec = 0;               ///< axis; number of axes: none
  int64_t lanes = 1;
  int64_t unit_group = 0;  ///< points of the depth side by side in a matrix unit; 0: no unit
  size_t unit_depth = 0;   ///< axis of its depth
  int64_t tile_rows = 0;   ///< of a unit on tiles; 0: on vectors
  size_t tile_column = 0;  ///< axis
  std::vector<int64_t> folded = {};  ///< lanes that fold a red axis, by part
  const Part* neighbours = nullptr;  ///< what neighbouring lanes have steps of,
  int64_t num_neighbours = 1;        ///< and how many of them there are

  double trips(size_t from, size_t to) const {
    double product = 1;
    for (size_t i = from; i < to; ++i)
      product *= static_cast<double>(levels[i].trips);
    return product;
  }
};

/// What an access runs through: `rows` runs of `run` elements, `pitch` apart in the innermost
/// direction that is not contiguous.
struct Box {
  int64_t run = 1;
  int64_t rows = 1;
  int64_t pitch = 0;
};

Box box_of(const Access& access, const std::vector<int64_t>& lengths) {
  struct Dim {
    int64_t stride;
    int64_t count;
  };
  Box whole;
  for (size_t i = 0; access.is_packed && i < lengths.size(); ++i) {
    if (access.uses(i)) whole.run *= lengths[i];
  }
  if (access.is_packed) return whole;
  Dim dims[16] = {{1, 1}};
  size_t num_dims = 1;
  int64_t irregular = 1;
  size_t order[32];
  size_t num_axes = 0;
  for (size_t i = 0; i < lengths.size() && num_axes < 32; ++i) {
    if (access.is_irregular[i]) irregular *= lengths[i];
    if (access.is_irregular[i] || access.strides[i] == 0 || lengths[i] < 2) continue;
    order[num_axes++] = i;
  }
  std::sort(order, order + num_axes, [&](size_t a, size_t b) {
    const int64_t first = std::abs(access.strides[a]);
    const int64_t second = std::abs(access.strides[b]);
    return first != second ? first < second : a < b;
  });
  for (size_t k = 0; k < num_axes; ++k) {
    const int64_t stride = std::abs(access.strides[order[k]]);
    const int64_t length = lengths[order[k]];
    Dim& last = dims[num_dims - 1];
    // Steps within what is covered only shift it: windows overlap.
    if (stride <= last.stride * last.count && stride % last.stride == 0) {
      last.count += stride / last.stride * (length - 1);
    } else if (num_dims < 16) {
      dims[num_dims++] = {stride, length};
    }
  }
  Box box{.run = dims[0].count, .rows = irregular};
  for (size_t i = 1; i < num_dims; ++i)
    box.rows *= dims[i].count;
  if (num_dims > 1) box.pitch = dims[1].stride;
  return box;
}

/// Lanes of the vector that holds so many elements.
int64_t padded(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

/// Bytes in whole lines.
int64_t bytes_of(const Box& box, int64_t width, int64_t line) {
  int64_t run = box.run * width;
  if (box.rows == 1) return std::max(run, int64_t{1});
  run = round_up(run, line);
  if (box.pitch > 0) run = std::min(run, std::max(box.pitch * width, box.run * width));
  return run * box.rows;
}

}  // namespace

/// One estimate.
class PlanEstimate {
 public:
  PlanEstimate(const Kernel& kernel, const std::vector<Walk>& walks, const AxisMoves& moves,
               const Target& target, const Plan& plan)
      : kernel_(kernel), walks_(walks), moves_(moves), target_(target), plan_(plan) {
    for (const int64_t lanes : plan.lanes)
      lanes_ *= static_cast<double>(lanes);
  }

  PlanCost run() {
    for (size_t i = 0; i < plan_.comps.size(); ++i)
      add_nest(static_cast<int>(i));
    for (const Nest& nest : nests_)
      compute(nest);
    collect_streams();
    add_traffic();
    finish();
    return cost_;
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
    bool is_packed = false;  ///< a stage, or laid out in panels: its runs are whole
    bool is_copy = false;    ///< into a stage
    bool bypasses = false;
    int64_t run_bytes = 1;   ///< that follow each other in memory, and in time
    int64_t step_bytes = 1;  ///< the same in one run of the body, where it reads several places
  };

  // --- loops
  // ---------------------------------------------------------------------------------------------

  int entry_of(int comp) const {
    for (size_t i = 0; i < nests_.size(); ++i) {
      if (nests_[i].plan->comp == comp) return static_cast<int>(i);
    }
    return -1;
  }

  void add_nest(int number) {
    const CompPlan& entry = plan_.comps[static_cast<size_t>(number)];
    Nest nest;
    nest.walk = &walks_[static_cast<size_t>(entry.comp)];
    nest.plan = &entry;
    const size_t num_axes = nest.walk->num_axes();
    std::vector<int64_t> lengths(num_axes);
    for (size_t i = 0; i < num_axes; ++i)
      lengths[i] = nest.walk->extent(i);
    nest.lengths.push_back(lengths);
    const int around = entry.how == How::kRoot ? -1 : entry_of(entry.at.comp);
    if (around >= 0) {
      const Nest& place = nests_[static_cast<size_t>(around)];
      const std::vector<int> axes = moves_.between(entry.at.comp, entry.comp);
      nest.outer = std::min(place.outer + static_cast<size_t>(entry.at.depth), place.levels.size());
      for (size_t i = 0; i < nest.outer; ++i) {
        Level level = place.levels[i];
        const int moved = level.axis;
        level.axis = moved < 0 ? -1 : axes[static_cast<size_t>(moved)];
        if (level.axis >= 0) {
          int64_t& length = lengths[static_cast<size_t>(level.axis)];
          length = std::min(length, place.lengths[i + 1][static_cast<size_t>(moved)]);
        }
        nest.levels.push_back(level);
        nest.lengths.push_back(lengths);
      }
    }
    nest.counts.assign(num_axes, 1);
    nest.vec = num_axes;
    int loop = 0;
    for (const Part& part : entry.parts) {
      const auto axis = static_cast<size_t>(part.axis);
      const int64_t count = ceil_div(lengths[axis], part.step);
      if (is_loop(part.role)) {
        nest.levels.push_back({number, loop++, part.axis, count, part.role == Role::kGrid});
        lengths[axis] = std::min(lengths[axis], part.step);
        nest.lengths.push_back(lengths);
      } else if (part.role == Role::kLane) {
        if (nest.walk->is_red(axis)) nest.folded.push_back(count);
        if (part.dim == 0) nest.neighbours = &part;
        if (part.dim == 0) nest.num_neighbours = count;
        lengths[axis] = std::min(lengths[axis], part.step);
      } else if (part.role == Role::kVec) {
        nest.vec = axis;
        nest.lanes = padded(lengths[axis]);
      } else if (part.role == Role::kUnit) {
        nest.unit_group = count;  // of the last part
        (nest.walk->is_red(axis) ? nest.unit_depth : nest.tile_column) = axis;
        if (!nest.walk->is_red(axis)) nest.tile_rows = std::max(nest.tile_rows, count);
        lengths[axis] = std::min(lengths[axis], part.step);
      } else {
        nest.counts[axis] *= count;
        lengths[axis] = std::min(lengths[axis], part.step);
      }
    }
    nests_.push_back(std::move(nest));
  }

  // --- instructions
  // --------------------------------------------------------------------------------------

  static double instances(const Nest& nest) {
    double product = 1;
    for (const int64_t count : nest.counts)
      product *= static_cast<double>(count);
    return product;
  }

  /// Instructions that load or store what one run of the body touches.
  static double accesses_of(const Nest& nest, const Access& access) {
    double count = 1;
    bool is_square = false;
    for (size_t i = 0; i < nest.counts.size(); ++i) {
      if (!access.uses(i)) continue;
      count *= static_cast<double>(nest.counts[i]);
      is_square = is_square || (access.strides[i] == 1 && padded(nest.counts[i]) >= nest.lanes);
    }
    if (nest.tile_rows > 0) return count * static_cast<double>(nest.tile_rows);
    // A group that does not lie side by side is put together from its elements.
    const bool is_apart = nest.unit_group > 0 && !access.is_store &&
                          stage_of(nest, access.buffer) == nullptr &&
                          access.uses(nest.unit_depth) && access.strides[nest.unit_depth] != 1;
    if (is_apart) return count * static_cast<double>(nest.unit_group) * kApartCost;
    if (nest.vec == nest.counts.size() || !access.uses(nest.vec)) return count;
    // Panels end in the vec axis; what is staged as it lies keeps its strides.
    const Stage* const stage = access.is_store ? nullptr : stage_of(nest, access.buffer);
    if (stage != nullptr && !stage->layout.empty()) return count;
    const bool is_contiguous = access.strides[nest.vec] == 1 && !access.is_irregular[nest.vec];
    if (is_contiguous || access.is_packed) return count;
    // A square that is transposed in registers takes two shuffles for each of log2 steps.
    const auto lanes = static_cast<double>(nest.lanes);
    if (is_square) return count * (1 + std::log2(lanes));
    return count * lanes * 1.5;
  }

  static const Stage* stage_of(const Nest& nest, int buffer) {
    for (const Stage& stage : nest.plan->stages) {
      if (stage.buffer == buffer) return &stage;
    }
    return nullptr;
  }

  /// Runs of the body for which what depends on some axes stays: it stands outside of the
  /// innermost loops over others.
  template <class Uses>
  static double repeats(const Nest& nest, const Uses& uses) {
    double count = 1;
    for (size_t i = nest.levels.size(); i-- > nest.outer;) {
      const int axis = nest.levels[i].axis;
      if (axis >= 0 && uses(static_cast<size_t>(axis))) break;
      count *= static_cast<double>(nest.levels[i].trips);
    }
    return count;
  }

  bool in_registers(const Nest& nest, const Access& access) const {
    const bool is_tmp =
        kernel_.buffers[static_cast<size_t>(access.buffer)].access == BufferAccess::kTmp;
    if (access.is_store && nest.plan->acc) return true;
    if (lanes_ > 1 && is_tmp) return is_a_lanes_own(nest, access);
    // Written where it is read, in a body without loops of its own.
    return is_tmp && nest.plan->how == How::kAfter && !is_in_tiles(access.buffer) &&
           !is_read_across(nest, access.buffer);
  }

  /// A tmp of which each lane keeps its places: no loop inside of where it is made moves them.
  bool is_a_lanes_own(const Nest& nest, const Access& access) const {
    const bool is_kept = std::ranges::any_of(nests_, [&](const Nest& writer) {
      return writer.plan->keep && writer.walk->comp->dst == access.buffer;
    });
    for (size_t i = place_of(access.buffer); i < nest.levels.size(); ++i) {
      const int axis = nest.levels[i].axis;
      if (axis >= 0 && access.uses(static_cast<size_t>(axis))) return false;
    }
    return !is_kept;
  }

  /// A tmp whose reader has its vectors along another axis than its writer.
  bool is_read_across(const Nest& reader, int buffer) const {
    return std::ranges::any_of(nests_, [&](const Nest& writer) {
      const size_t vec = writer.vec;
      if (writer.walk->comp->dst != buffer || vec == writer.counts.size()) return false;
      if (writer.walk->is_red(vec) || reader.vec == reader.counts.size()) return false;
      const std::vector<int> axes = moves_.between(writer.walk->number, reader.walk->number);
      return axes[vec] != static_cast<int>(reader.vec);
    });
  }

  /// A tmp that a unit stores in tiles.
  bool is_in_tiles(int buffer) const {
    return std::any_of(nests_.begin(), nests_.end(), [&](const Nest& nest) {
      return nest.tile_rows > 0 && nest.walk->comp->dst == buffer;
    });
  }

  /// What one product of the nest's unit takes, in multiply-adds of a vector.
  double unit_ops(const Nest& nest) const {
    if (nest.tile_rows == 0) return 1;
    return static_cast<double>(target_.mulacc_rate) / std::max(target_.tiles.rate, 1);
  }

  void compute(const Nest& nest) {
    const Walk& walk = *nest.walk;
    const double bodies = nest.trips(0, nest.levels.size());
    double ops = nest.unit_group > 0 ? instances(nest) * unit_ops(nest) : 0;
    for (const OpGroup& group : walk.ops) {
      if (nest.unit_group > 0) break;
      // A stage holds the zeros that a gate leaves.
      if (group.gate_of >= 0 && stage_of(nest, group.gate_of) != nullptr) continue;
      double count = group.count;
      for (size_t i = 0; i < group.axes.size(); ++i)
        count *= group.axes[i] ? static_cast<double>(nest.counts[i]) : 1.0;
      ops += count / repeats(nest, [&](size_t axis) { return group.axes[axis]; });
    }
    if (walk.comp->combine) {
      double chains = lanes_;
      for (size_t i = 0; i < nest.counts.size(); ++i) {
        const bool is_kept = !walk.is_red(i) || !nest.plan->acc || nest.plan->acc->has_partials;
        if (is_kept) chains *= static_cast<double>(nest.counts[i]);
      }
      // Whole numbers are added in one step, two at a time.
      const bool is_float_sum = nest.unit_group > 0 || is_float(walk.comp->value.dtype());
      const int wanted = nest.tile_rows > 0 ? target_.tiles.chains
                         : is_float_sum     ? target_.mulacc_chains
                                            : std::min(target_.mulacc_chains, 2);
      ops = std::max(ops, ops * wanted / std::max(chains, 1.0) * 0.9);
    }
    // The chains of a reduction tell the same.
    if (!walk.comp->combine) ops *= idle_share(nest);
    double moves = 0;
    for (const Access& access : walk.accesses) {
      if (in_registers(nest, access)) continue;
      const double count = accesses_of(nest, access);
      const double weight = lane_move_weight(nest, access);
      moves += weight * (access.is_store ? count : count / repeats(nest, [&](size_t axis) {
                                                     return access.uses(axis);
                                                   }));
    }
    // Two loads or stores start with each operation; the last loop's own work is a branch.
    constexpr double kOverlap = 0.1;
    moves += spilled_pointers(nest);
    const double body = std::max(ops, moves) + kOverlap * std::min(ops, moves) + 0.5;
    cost_.vector_ops += (bodies * body + reduction_ends(nest)) * lanes_;
    cost_.flops += walk.flops * static_cast<double>(walk.points());
    if (nest.plan->how == How::kRoot) {
      for (const Level& level : nest.levels)
        cost_.groups *= level.is_grid ? level.trips : 1;
    }
    for (const Stage& stage : nest.plan->stages)
      compute_copy(nest, stage);
  }

  /// How much longer things take where a group has fewer lanes, and instances in each, than hide
  /// what each waits for.
  double idle_share(const Nest& nest) const {
    if (target_.max_lanes <= 1) return 1;
    return std::max(target_.mulacc_chains / (lanes_ * instances(nest)), 1.0);
  }

  /// What a load or store of a lane takes, in operations: lanes share what the first cache reads,
  /// and a line for each of them takes longer. Memory of the group has no lines to look for.
  double lane_move_weight(const Nest& nest, const Access& access) const {
    if (target_.max_lanes <= 1 || target_.caches.empty()) return 1;
    const auto width = static_cast<double>(dtype_size_bytes(access.dtype));
    const int speed = std::max(target_.caches[0].speed, 1);
    const double weight =
        std::max(target_.mulacc_rate * 1e-3 * width / speed, 1.0) * idle_share(nest);
    const bool is_group =
        stage_of(nest, access.buffer) != nullptr ||
        kernel_.buffers[static_cast<size_t>(access.buffer)].access == BufferAccess::kTmp;
    if (is_group) return weight;
    const double line = std::max(target_.line_bytes / width, 1.0);
    double apart = line / static_cast<double>(nest.num_neighbours);  // of lanes, in elements
    if (nest.neighbours != nullptr) {
      const auto axis = static_cast<size_t>(nest.neighbours->axis);
      const int64_t step = std::abs(access.strides[axis]) * nest.neighbours->step / nest.lanes;
      apart = std::max(apart, access.is_irregular[axis] ? line : static_cast<double>(step));
    }
    return 2 * weight * std::clamp(apart, 1.0, line);
  }

  /// Rows that are clamped have a pointer each. Where they do not fit beside what else is held (the
  /// stack, blocks of dealt rows, a stage, a carried tile), they and more are loaded again and
  /// again.
  double spilled_pointers(const Nest& nest) const {
    int64_t pointers = 1;
    int64_t others = 0;
    for (const Part& part : nest.plan->parts) {
      const auto axis = static_cast<size_t>(part.axis);
      if (part.tail != Tail::kClamp || nest.walk->extent(axis) % nest.counts[axis] == 0) continue;
      pointers *= nest.counts[axis];
      const bool is_dealt =
          std::any_of(nest.levels.begin(), nest.levels.end(),
                      [&](const Level& level) { return level.is_grid && level.axis == part.axis; });
      others += is_dealt ? 2 : 0;
    }
    others += nest.plan->stages.empty() ? 0 : 1;
    others += nest.plan->acc && nest.plan->acc->carry_in ? 1 : 0;
    constexpr double kReloads = 12;
    const int64_t missing = pointers + others + 1 - target_.scalar_registers;
    return kReloads * static_cast<double>(std::max<int64_t>(missing, 0));
  }

  /// Accumulators begin, are folded and end, once for each run of the loops inside.
  double reduction_ends(const Nest& nest) const {
    if (!nest.plan->acc) return 0;
    const size_t depth =
        std::min(nest.outer + static_cast<size_t>(nest.plan->acc->depth), nest.levels.size());
    const bool is_carried = std::any_of(
        nest.levels.begin() + static_cast<std::ptrdiff_t>(nest.outer),
        nest.levels.begin() + static_cast<std::ptrdiff_t>(depth),
        [&](const Level& level) { return nest.walk->is_red(static_cast<size_t>(level.axis)); });
    double ends = (is_carried ? 4 : 2) * instances(nest);
    if (nest.tile_rows > 0) ends *= static_cast<double>(nest.tile_rows);
    if (nest.vec < nest.counts.size() && nest.walk->is_red(nest.vec)) {
      double results = 1;
      for (size_t i = 0; i < nest.counts.size(); ++i)
        results *= nest.walk->is_red(i) ? 1.0 : static_cast<double>(nest.counts[i]);
      ends += results * 2 * std::log2(static_cast<double>(std::max<int64_t>(nest.lanes, 2)));
    }
    // Lanes fold in steps in group memory, each with a store, a load and a barrier.
    for (const int64_t lanes : nest.folded)
      ends += (instances(nest) * 2 + kBarrierOps) * (1 + std::log2(static_cast<double>(lanes)));
    return ends * nest.trips(0, depth);
  }

  const Access* access_to(const Walk& walk, int buffer) const {
    for (size_t i = 1; i < walk.accesses.size(); ++i) {
      if (walk.accesses[i].buffer == buffer) return &walk.accesses[i];
    }
    return nullptr;
  }

  /// Loops around the copy into a stage of the nest.
  size_t depth_of(const Nest& nest, const Stage& stage) const {
    const int around = stage.around ? entry_of(*stage.around) : -1;
    const Nest& place = around < 0 ? nest : nests_[static_cast<size_t>(around)];
    return std::min(place.outer + static_cast<size_t>(stage.depth), nest.levels.size());
  }

  void compute_copy(const Nest& nest, const Stage& stage) {
    const Access* access = access_to(*nest.walk, stage.buffer);
    if (access == nullptr) return;
    const size_t depth = depth_of(nest, stage);
    const Box box = box_of(*access, nest.lengths[depth]);
    const double elements = static_cast<double>(box.run * box.rows) * nest.trips(0, depth);
    // Along what the copy is contiguous.
    size_t along = nest.vec;
    if (nest.tile_rows > 0) along = nest.tile_column;
    if (nest.unit_group > 0 && !access->uses(along)) along = nest.unit_depth;
    const bool is_crossed =
        along < nest.counts.size() && access->uses(along) && access->strides[along] != 1;
    const auto element_bytes = static_cast<double>(dtype_size_bytes(access->dtype));
    double lanes = std::max(1.0, target_.max_vector_bytes / element_bytes);
    double ops = is_crossed ? 2 + std::log2(lanes) : 2;
    // A unit's operand that is contiguous along the depth is copied by groups.
    if (nest.unit_group > 0 && is_crossed && access->strides[nest.unit_depth] == 1) {
      ops = 2;
      lanes = static_cast<double>(stage.layout.back().extent);
    }
    cost_.vector_ops += elements / lanes * ops;
    if (lanes_ > 1) cost_.vector_ops += 2 * kBarrierOps * lanes_ * nest.trips(0, depth);
    cost_.copied_bytes += static_cast<int64_t>(elements) * dtype_size_bytes(access->dtype);
  }

  // --- memory
  // --------------------------------------------------------------------------------------------

  void collect_streams() {
    for (size_t i = 0; i < nests_.size(); ++i) {
      const Nest& nest = nests_[i];
      for (const Access& access : nest.walk->accesses) {
        const auto buffer = static_cast<size_t>(access.buffer);
        const bool is_tmp = kernel_.buffers[buffer].access == BufferAccess::kTmp;
        Stream stream{.nest = i,
                      .access = &access,
                      .width = dtype_size_bytes(access.dtype),
                      .depth = nest.levels.size(),
                      .is_packed = access.is_packed};
        if (is_tmp) {
          const bool is_tile = is_in_tiles(access.buffer);
          if (in_registers(nest, access) && !is_tile) continue;
          stream.is_local = true;
          stream.born = place_of(access.buffer);
          stream.is_packed = is_tile;
          if (is_tile && access.is_store) {
            stream.depth = nest.outer + static_cast<size_t>(nest.plan->acc->depth);
          }
        }
        stream.bypasses = access.is_store && nest.plan->store == StoreKind::kNonTemporal;
        const Stage* const stage = access.is_store ? nullptr : stage_of(nest, access.buffer);
        if (stage != nullptr) {
          Stream copy = stream;
          copy.depth = depth_of(nest, *stage);
          copy.run_bytes = box_of(access, nest.lengths[copy.depth]).run * stream.width;
          copy.step_bytes = kManyBytes;
          copy.is_copy = true;
          streams_.push_back(copy);
          stream.is_local = true;
          stream.is_packed = true;
          stream.born = copy.depth;
        }
        stream.run_bytes = stream.is_packed ? kManyBytes : run_bytes(nest, access);
        const Box body = box_of(access, nest.lengths.back());
        stream.step_bytes =
            stream.is_packed || body.rows == 1 ? kManyBytes : body.run * stream.width;
        streams_.push_back(stream);
      }
    }
  }

  bool has_carry(int buffer) const {
    return std::any_of(nests_.begin(), nests_.end(), [&](const Nest& nest) {
      return nest.plan->acc && nest.plan->acc->carry_in == buffer;
    });
  }

  /// Loops around the place where a tmp is made.
  size_t place_of(int buffer) const {
    for (const Nest& nest : nests_) {
      const bool is_writer = nest.walk->comp->dst == buffer;
      if (is_writer && nest.plan->how == How::kBefore) return nest.outer;
    }
    // Its last reader stands where it is finished.
    for (const Nest& nest : nests_) {
      if (nest.plan->how == How::kAfter && is_read(*nest.walk, buffer)) return nest.outer;
    }
    return 0;
  }

  /// Bytes that are touched one after the other before the walk jumps.
  int64_t run_bytes(const Nest& nest, const Access& access) const {
    const int64_t width = dtype_size_bytes(access.dtype);
    const size_t last = nest.levels.size();
    Box box = box_of(access, nest.lengths[last]);
    for (size_t depth = last; depth-- > 0;) {
      const int axis = nest.levels[depth].axis;
      if (axis < 0 || !access.uses(static_cast<size_t>(axis)) || nest.levels[depth].trips == 1) {
        continue;
      }
      const Box larger = box_of(access, nest.lengths[depth]);
      // Rows that follow each other leave one run; memory fetches several that run side by side.
      if (larger.rows > std::max(box.rows, kRowsAtOnce)) break;
      if (larger.rows == box.rows && larger.run <= box.run) break;
      box = larger;
    }
    return box.run * width;
  }

  /// Loops that two nests have in common.
  size_t common(const Nest& a, const Nest& b) const {
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
    const Nest& nest = nests_[stream.nest];
    const Box box = box_of(*stream.access, nest.lengths[std::min(depth, stream.depth)]);
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
  bool fits(const Nest& nest, size_t depth, const CacheLevel& cache) const {
    const int64_t sharers = std::clamp(cache.threads, 1, std::max(target_.threads, 1));
    const double limit = kUsableShare * static_cast<double>(cache.bytes) /
                         static_cast<double>(depth == 0 ? 1 : sharers);
    std::vector<std::pair<int, int64_t>> buffers;
    for (const Stream& stream : streams_) {
      if (stream.bypasses) continue;
      const Nest& other = nests_[stream.nest];
      if (&other != &nest && common(nest, other) < depth) continue;
      if (stream.depth < depth) continue;
      // Of all that lies in tiles, groups use the same memory one after the other.
      const bool is_tiled = stream.is_packed && nests_.front().tile_rows > 0;
      const Size size = size_at(stream, is_tiled && depth == 0 ? stream.born : depth, cache);
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
    const Nest& nest = nests_[stream.nest];
    const auto axis = static_cast<size_t>(nest.levels[level].axis);
    const int64_t step = nest.lengths[level + 1][axis] * std::abs(stream.access->strides[axis]);
    return !stream.access->is_irregular[axis] && step * stream.width < target_.line_bytes;
  }

  /// Bytes that the stream brings into a cache in which what is inside `fit` loops stays.
  double traffic_of(const Stream& stream, size_t fit, const CacheLevel& cache) const {
    const Nest& nest = nests_[stream.nest];
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
      for (const Nest& nest : nests_) {
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
        bool is_copy;
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
          known.push_back({key, fit, bytes, cost, stream.is_copy});
        } else {
          same->bytes = std::max(same->bytes, bytes);
          same->cost = std::max(same->cost, cost);
        }
      }
      double total = bypassed;
      double cost = bypassed;
      double copied = 0;
      for (const Known& entry : known) {
        total += entry.bytes;
        (entry.is_copy ? copied : cost) += entry.cost;
      }
      cost_.traffic.push_back(static_cast<int64_t>(total));
      const int speed = is_last ? target_.memory_speed : target_.caches[number + 1].speed;
      const double byte_s = 1e-9 / static_cast<double>(std::max(speed, 1));
      level_s_.push_back(cost * byte_s);
      copy_s_ = std::max(copy_s_, copied * byte_s);
    }
  }

  void finish() {
    const auto threads = static_cast<double>(std::max(target_.threads, 1));
    const auto groups = static_cast<double>(cost_.groups);
    // The thread with most groups; twice as many groups as threads even out what differs.
    double share = std::ceil(groups / threads) / groups;
    if (groups < 2 * threads && groups > 1) share *= 1.05;
    cost_.compute_s = cost_.vector_ops / std::max(target_.mulacc_rate, 1) * 1e-6 * share;
    double sum = cost_.compute_s;
    double most = cost_.compute_s;
    for (size_t i = 0; i < level_s_.size(); ++i) {
      const double level_s = level_s_[i] * share;
      if (level_s > cost_.memory_s) {
        const bool is_last = i + 1 == level_s_.size();
        cost_.slowest_level = is_last ? "from memory" : concat("from L", i + 2);
        cost_.memory_s = level_s;
      }
      sum += level_s;
      most = std::max(most, level_s);
    }
    cost_.copy_s = copy_s_ * share;
    cost_.seconds = most + kSerialShare * (sum - most) + cost_.copy_s;
    constexpr double kGroupS = 50e-9;
    cost_.seconds += kGroupS * std::ceil(groups / threads);
    if (cost_.groups > 1) cost_.seconds += target_.fork_ns * 1e-9;
  }

  const Kernel& kernel_;
  const std::vector<Walk>& walks_;
  const AxisMoves& moves_;
  const Target& target_;
  const Plan& plan_;
  double lanes_ = 1;  // of a group; those that idle take as long as the others
  std::vector<Nest> nests_;
  std::vector<Stream> streams_;
  std::vector<double> level_s_;  // by cache: moving from behind it, without copies
  double copy_s_ = 0;            // moving for copies, from the slowest
  PlanCost cost_;
};

CostModel::CostModel(const Kernel& kernel, const std::vector<Walk>& walks, const Target& target)
    : kernel_(kernel), walks_(walks), target_(target), moves_(walks) {}

PlanCost CostModel::estimate(const Plan& plan) const {
  return PlanEstimate(kernel_, walks_, moves_, target_, plan).run();
}

}  // namespace tenon
