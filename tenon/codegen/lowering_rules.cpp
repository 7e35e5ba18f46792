// SPDX-License-Identifier: MIT

#include "tenon/codegen/lowering_rules.h"

#include <iterator>
#include <utility>

namespace tenon {
namespace {

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
Body rewritten(const Body& body, Kernel& nest, const Target& target, const LoweringRule& rule) {
  Body result;
  for (Stmt stmt : body) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      loop->body = rewritten(loop->body, nest, target, rule);
    } else if (auto* branch = std::get_if<If>(&stmt.node)) {
      branch->then_body = rewritten(branch->then_body, nest, target, rule);
      branch->else_body = rewritten(branch->else_body, nest, target, rule);
    }
    if (std::optional<Body> changed = rule.apply(stmt, nest, target)) {
      result.insert(result.end(), std::make_move_iterator(changed->begin()),
                    std::make_move_iterator(changed->end()));
    } else {
      result.push_back(std::move(stmt));
    }
  }
  return result;
}

}  // namespace

Kernel apply_rule(const Kernel& nest, const Target& target, const LoweringRule& rule) {
  Kernel result = nest;
  result.body = rewritten(nest.body, result, target, rule);
  return result;
}

}  // namespace tenon
