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
  bool is_complete = false;  ///< all of them, not a random choice
};

/// Plans of whole sequential loops, every Comp's loops in every order: once with each producer
/// before all loops of the root, and once with each inside all of them (if it may stand there).
/// Where that are more than `max_orders`, so many of them at random.
LoopOrders loop_orders(const Kernel& kernel, const Target& target, size_t max_orders,
                       std::mt19937_64& random);

/// What a kernel is run under: the chosen plan first, then every order of its loops (four, where
/// those are more than 24), then two random plans.
struct ManyPlans {
  std::vector<Plan> plans;
  bool has_every_order = false;
};
ManyPlans many_plans(const Kernel& kernel, const Target& target, uint64_t seed);

}  // namespace tenon::test
