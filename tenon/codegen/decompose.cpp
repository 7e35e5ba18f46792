// SPDX-License-Identifier: MIT

#include "tenon/codegen/decompose.h"

#include "tenon/base/error.h"
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
    if (comp == nullptr) return;
    with_context([&] { comp->value = folder.run(decomposer.run(folder.run(comp->value))); },
                 "decomposing kernel '", nest.name, "'");
  });
  return result;
}

}  // namespace tenon
