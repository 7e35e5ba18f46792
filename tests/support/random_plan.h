// Legal Plans for a kernel: random ones, and every order of its loops. For the tests that run
// random kernels. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tenon/codegen/plan.h"

namespace tenon::test {

/// A legal plan with random loop orders, splits, dealing over groups and places of producers.
/// `kernel` is after split_root.
Plan random_plan(const Kernel& kernel, const Target& target, std::mt19937_64& random);

struct LoopOrders {
  std::vector<Plan> plans;
  bool is_combined = false;  ///< each order of a Comp with each order of all others
};

/// Plans of whole sequential loops, every Comp's loops in each of their orders: once with each
/// producer before all loops of the root, and once with each inside all of them (if it may stand
/// there). The Comps' orders are combined where that makes at most `max_combined` plans.
LoopOrders loop_orders(const Kernel& kernel, const Target& target, size_t max_combined);

/// What a kernel is run under: the chosen plan first, then loop_orders with at most 24 combined
/// (kSome: four of them, where there are more), then two random plans.
struct ManyPlans {
  std::vector<Plan> plans;
  bool has_combined_orders = false;
};
enum class Orders { kSome, kEvery };
ManyPlans many_plans(const Kernel& kernel, const Target& target, uint64_t seed, Orders wanted);

}  // namespace tenon::test
