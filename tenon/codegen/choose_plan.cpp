// SPDX-License-Identifier: MIT

#include "tenon/codegen/choose_plan.h"

namespace tenon {

Plan choose_plan(const Kernel& kernel, const Target& target) {
  return simple_plan(kernel, target);
}

}  // namespace tenon
