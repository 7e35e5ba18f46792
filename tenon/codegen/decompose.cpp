// SPDX-License-Identifier: MIT

#include "tenon/codegen/decompose.h"

#include "tenon/base/error.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/rules/decompose.h"
#include "tenon/rules/fold.h"

namespace tenon {

Kernel decompose(const Kernel& nest, const Target& target) {
  Kernel result = nest;
  Decomposer decomposer(target);
  Folder folder;
  for_each_mutable_stmt(result.body, [&](Stmt& stmt) {
    auto* comp = std::get_if<Comp>(&stmt.node);
    if (comp == nullptr || unit_axis_of(comp->axes)) return;
    with_context(
        [&] {
          const Node decomposed = folder.run(decomposer.run(folder.run(comp->value)));
          // Folding may make ops that the Target lacks (not (a == b) becomes a != b).
          comp->value = decomposer.run(decomposed);
        },
        "decomposing kernel '", nest.name, "'");
  });
  return result;
}

}  // namespace tenon
