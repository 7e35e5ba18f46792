// SPDX-License-Identifier: MIT
#include "tests/render/random_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "tenon/base/text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/render/kernel_library.h"
#include "tests/support/random.h"

namespace tenon::testing {

namespace {

constexpr int64_t kInputElements = 512;
constexpr int64_t kGroupElements = 1024;  // of each output
constexpr int64_t kMaxOffset = 400;       // an index is below 64, a vector has up to 16 lanes
constexpr int kMaxDepth = 2;

class Generator {
 public:
  Generator(uint64_t seed, const Target& target)
      : random_(seed), target_(target), builder_(program_) {
    program_.name = concat("random_", seed);
    program_.grid = {random_.between(1, 3)};
    program_.lanes = {1};
    for (const DType dtype : storage_dtypes()) {
      if (dtype == DType::kBool || target.can_compute(dtype) || dtype == DType::kF16) {
        dtypes_.push_back(dtype);
      }
    }
  }

  LinearProgram make() {
    add_arguments();
    block(0);
    for (int i = 0; i < 6; ++i)
      store(0);
    builder_.finish();
    check_linear(program_, nullptr, ErrorCode::kInternal);
    return std::move(program_);
  }

 private:
  // --- arguments -------------------------------------------------------------------------------

  void add_arguments() {
    std::vector<Argument>& arguments = program_.signature.arguments;
    arguments.push_back(buffer_argument("at", DType::kI32, ArgumentAccess::kRead));
    arguments.push_back({.name = "n", .dtype = DType::kI32, .is_buffer = false, .max = 5});
    arguments[0].num_elements = kInputElements;
    for (const DType dtype : dtypes_) {
      arguments.push_back(buffer_argument("x", dtype, ArgumentAccess::kRead));
      arguments.back().num_elements = kInputElements;
      arguments.push_back(buffer_argument("y", dtype, ArgumentAccess::kReadWrite));
      arguments.back().num_elements = program_.grid[0] * kGroupElements;
    }
    indices_ = builder_.param(0);
    count_ = builder_.param(1);
    int number = 2;
    for (const DType dtype : dtypes_) {
      inputs_[dtype] = builder_.param(number++);
      outputs_[dtype] = builder_.param(number++);
    }
    const ValueId group = builder_.grid_id(0, DType::kI32);
    base_ = builder_.binary(Op::kMul, group, i32(kGroupElements));
    positions_ = {group, count_};
    pool_ = {group, count_};
  }

  ValueId i32(int64_t value) {
    return builder_.constant(value_type(DType::kI32), static_cast<uint64_t>(value));
  }

  // --- types and values ------------------------------------------------------------------------

  LinearType random_type() {
    return value_type(random_.pick_from(dtypes_), random_.pick({1, 1, 1, 3, 4, 8, 16}));
  }

  /// A value of the type: an older one, or one that is loaded or constant. Types are taken by
  /// value: those of the program move when it grows.
  ValueId get(LinearType type) {
    std::vector<ValueId> known;
    for (const ValueId value : pool_) {
      if (program_.type_of(value) == type) known.push_back(value);
    }
    if (!known.empty() && random_.percent(70)) return random_.pick_from(known);
    if (random_.percent(75)) return load(type);
    return builder_.constant(type, random_.pick_from(special_values(type.dtype)));
  }

  void keep(ValueId value) { pool_.push_back(value); }

  ValueId mask_or_bool(int lanes) {
    return get(value_type(DType::kBool, random_.percent(60) ? lanes : 1));
  }

  // --- memory ----------------------------------------------------------------------------------

  uint32_t whole_align(LinearType type) {
    const int64_t bytes = type.lanes * dtype_size_bytes(type.dtype);
    return type.lanes == 3 ? 0 : static_cast<uint32_t>(std::min<int64_t>(bytes, kBaseAlignBytes));
  }

  ValueId lane_indices(int lanes) {
    const ValueId at = builder_.load(value_type(DType::kI32, lanes), indices_,
                                     random_.pick_from(positions_), random_.below(kMaxOffset));
    return random_.percent(50) ? at : builder_.cast(at, DType::kI64);
  }

  ValueId load(LinearType type) {
    const ValueId pointer = inputs_[type.dtype];
    if (random_.percent(20)) {  // aligned
      return builder_.load(type, pointer, i32(0), 16 * random_.below(kMaxOffset / 16),
                           whole_align(type));
    }
    const bool is_gather = type.lanes > 1 && random_.percent(30);
    const ValueId index = is_gather ? lane_indices(type.lanes) : random_.pick_from(positions_);
    const int64_t offset = random_.below(kMaxOffset);
    if (random_.percent(60) || is_nested_) return builder_.load(type, pointer, index, offset);
    is_nested_ = true;  // gate and alt are loaded plainly
    const ValueId gate = mask_or_bool(type.lanes);
    const ValueId alt = get(type);
    is_nested_ = false;
    return builder_.gated_load(type, pointer, index, gate, alt, offset);
  }

  void store(int depth) {
    const ValueId value = random_.pick_from(pool_);
    const LinearType type = program_.type_of(value);
    int64_t& used = used_[type.dtype];
    if (used + 64 > kGroupElements) return;
    const ValueId pointer = outputs_[type.dtype];
    const ValueId gate = random_.percent(40) ? mask_or_bool(type.lanes) : kNoId;
    if (type.lanes > 1 && random_.percent(25)) {  // scatter, the last of equal places wins
      const ValueId lanes = builder_.load(value_type(DType::kI32, type.lanes), indices_,
                                          random_.pick_from(positions_), random_.below(kMaxOffset));
      const ValueId base = builder_.splat(base_, type.lanes);
      builder_.store(pointer, builder_.binary(Op::kAdd, base, lanes), value, used, gate);
      used += 64;
      return;
    }
    const bool is_aligned = gate == kNoId && random_.percent(40);
    builder_.store(pointer, base_, value, used, gate, is_aligned ? whole_align(type) : 0,
                   is_aligned && random_.percent(50));
    if (depth == 0 && random_.percent(30)) {
      keep(builder_.load(type, pointer, base_, used));
    }
    used += 16;
  }

  // --- steps -----------------------------------------------------------------------------------

  void elementwise() {
    const LinearType type = random_type();
    const bool is_computed = type.dtype == DType::kBool || target_.can_compute(type.dtype);
    const Op op = is_computed ? random_.pick_from(linear_ops_of(type.dtype, target_)) : Op::kWhere;
    if (op == Op::kWhere) {
      const ValueId mask = get(value_type(DType::kBool, type.lanes));
      return keep(builder_.ternary(op, mask, get(type), get(type)));
    }
    const int arity = op_info(op).arity;
    const ValueId a = get(type);
    if (arity == 1) return keep(builder_.unary(op, a));
    const ValueId b = get(type);
    keep(arity == 2 ? builder_.binary(op, a, b) : builder_.ternary(op, a, b, get(type)));
  }

  void conversion() {
    const LinearType from = random_type();
    const DType to = random_.pick_from(dtypes_);
    if (to != from.dtype && target_.has_cast(from.dtype, to)) {
      return keep(builder_.cast(get(from), to));
    }
    // Never from a float: the bits of a NaN are free.
    const bool has_bits = dtype_bits(from.dtype) == dtype_bits(to) && !is_float(from.dtype) &&
                          from.dtype != DType::kBool && to != DType::kBool;
    if (has_bits) keep(builder_.bitcast(get(from), to));
  }

  void vector_op() {
    const LinearType type = random_type();
    const LinearType scalar = value_type(type.dtype);
    const int64_t choice = random_.below(5);
    if (choice == 0) return keep(builder_.splat(get(scalar), type.lanes));
    if (choice == 1)
      return keep(builder_.extract(get(type), static_cast<int>(random_.below(type.lanes))));
    if (choice == 2) {
      std::vector<int> table(static_cast<size_t>(random_.pick({1, 3, 4, 8, 16})));
      for (int& lane : table)
        lane = static_cast<int>(random_.below(2 * type.lanes));
      const ValueId a = get(type);
      return keep(builder_.shuffle(a, get(type), table));
    }
    if (choice == 3 && is_int(type.dtype)) {
      const ValueId base = get(scalar);
      return keep(builder_.ramp(base, get(scalar), type.lanes));
    }
    if (choice == 4) {
      const DType dtype = random_.pick({DType::kI32, DType::kI64});
      keep(builder_.first_n(get(value_type(dtype)), type.lanes));
    }
  }

  void loop(int depth) {
    std::vector<ValueId> starts;
    for (int64_t i = random_.below(4); i > 0; --i)
      starts.push_back(get(random_type()));
    const ValueId end = random_.percent(50) ? count_ : i32(random_.between(0, 4));
    const auto inside = builder_.begin_for(i32(0), end, starts);
    const RegionScope scope(*this);
    keep(inside.index);
    positions_.push_back(inside.index);
    pool_.insert(pool_.end(), inside.carried.begin(), inside.carried.end());
    block(depth + 1);
    std::vector<ValueId> yields;
    for (const ValueId start : starts)
      yields.push_back(get(program_.type_of(start)));
    scope.leave(builder_.end_for(inside, yields));
  }

  void branch(int depth) {
    const ValueId condition = get(value_type(DType::kBool));
    std::vector<LinearType> types;
    for (int64_t i = random_.below(3); i > 0; --i)
      types.push_back(random_type());
    const auto inside = builder_.begin_if(condition, types);
    const RegionScope scope(*this);
    const auto way = [&] {
      block(depth + 1);
      std::vector<ValueId> yields;
      for (const LinearType& type : types)
        yields.push_back(get(type));
      return yields;
    };
    builder_.begin_else(inside, way());
    scope.leave({});
    scope.leave(builder_.end_if(inside, way()));
  }

  void block(int depth) {
    for (int64_t steps = random_.between(4, 9); steps > 0; --steps) {
      const int64_t choice = random_.below(100);
      if (choice < 40) {
        elementwise();
      } else if (choice < 55) {
        conversion();
      } else if (choice < 70) {
        vector_op();
      } else if (choice < 76) {
        keep(load(random_type()));
      } else if (choice < 86) {
        store(depth);
      } else if (depth < kMaxDepth) {
        choice < 93 ? loop(depth) : branch(depth);
      }
    }
  }

  /// Values of a region are forgotten with it.
  class RegionScope {
   public:
    explicit RegionScope(Generator& generator)
        : generator_(generator),
          pool_(generator.pool_.size()),
          positions_(generator.positions_.size()) {}
    void leave(const std::vector<ValueId>& results) const {
      generator_.pool_.resize(pool_);
      generator_.positions_.resize(positions_);
      generator_.pool_.insert(generator_.pool_.end(), results.begin(), results.end());
    }

   private:
    Generator& generator_;
    size_t pool_;
    size_t positions_;
  };

  Random random_;
  const Target& target_;
  LinearProgram program_;
  LinearBuilder builder_;
  std::vector<DType> dtypes_;
  std::map<DType, ValueId> inputs_;
  std::map<DType, ValueId> outputs_;
  std::map<DType, int64_t> used_;
  ValueId indices_ = kNoId;
  ValueId count_ = kNoId;
  ValueId base_ = kNoId;
  std::vector<ValueId> positions_;  ///< scalar indices from 0 to 5
  std::vector<ValueId> pool_;
  bool is_nested_ = false;
};

}  // namespace

LinearProgram random_program(uint64_t seed, const Target& target) {
  return Generator(seed, target).make();
}

}  // namespace tenon::testing
