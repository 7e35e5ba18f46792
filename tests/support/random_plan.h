// Legal Plans for a kernel: random ones, and every order of its loops. For the tests that run
// random kernels. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tenon/codegen/plan.h"

namespace tenon::test {

/// A legal plan with random loop orders, splits, dealing over groups, places of producers, staged
/// operands in split layouts, and matrix units where kernel and Target have them. Nothing: none of
/// 40 tries was legal. `kernel` is after split_root.
std::optional<Plan> random_plan(const Kernel& kernel, const Target& target,
                                std::mt19937_64& random);

struct LoopOrders {
  std::vector<Plan> plans;
  bool is_combined = false;  ///< each order of a Comp with each order of all others
};

/// Plans of whole sequential loops, every Comp's loops in each of their orders: once with each
/// producer before all loops of the root, and once with each inside all of them (if it may stand
/// there). The Comps' orders are combined where that makes at most `max_combined` plans.
LoopOrders loop_orders(const Kernel& kernel, const Target& target, size_t max_combined);

/// What a kernel is run under.
struct ManyPlans {
  std::vector<Plan> plans;   ///< the chosen one first, one after it, then the loop orders
  std::vector<Plan> random;  ///< distinct, and none of `plans`, nor simple_plan
  size_t num_missing = 0;    ///< random ones that were wanted and not found
  bool has_combined_orders = false;
};
enum class Orders { kSome, kEvery };
/// loop_orders with at most 24 combined (kSome: four of them, where there are more), and as many
/// random plans as are wanted, or fewer.
ManyPlans many_plans(const Kernel& kernel, const Target& target, uint64_t seed, Orders wanted,
                     size_t num_random);

/// Which things plans have, counted by plan.
class PlanTally {
 public:
  using Features = std::set<std::string>;
  static Features features_of(const Plan& plan);
  void add(const Plan& plan);
  int num_plans() const { return num_plans_; }
  int count(const std::string& feature) const;
  /// "300 plans; with accumulators 86, ..."
  std::string to_text() const;

 private:
  int num_plans_ = 0;
  std::map<std::string, int> counts_;
};

}  // namespace tenon::test
