// Devices that compute something else than they are told: between the compiler and the renderer of
// a real device a fault changes the linear program. Test doubles for what finds such devices.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tenon/ir/linear.h"
#include "tenon/render/renderer.h"

namespace tenon::testing {

using ProgramFault = std::function<void(LinearProgram&)>;

/// max gives its first operand in the last lane of vectors.
void max_forgets_last_lane(LinearProgram& program);
/// Gated loads load always and gated stores store always.
void gates_are_ignored(LinearProgram& program);
/// Loops that carry values end one run early.
void last_terms_are_dropped(LinearProgram& program);
/// f32 additions subtract.
void additions_subtract(LinearProgram& program);

/// `fault` where the program's name holds `word`.
ProgramFault only_in(std::string word, ProgramFault fault);

class FaultyRenderer final : public Renderer {
 public:
  FaultyRenderer(const Renderer& right, ProgramFault fault)
      : right_(right), fault_(std::move(fault)) {}
  std::string_view name() const override { return right_.name(); }
  RenderedSource render(const LinearProgram& program, const Target& target) const override {
    LinearProgram changed = program;
    fault_(changed);
    return right_.render(changed, target);
  }
  std::string join(std::span<const RenderedSource> sources) const override {
    return right_.join(sources);
  }

 private:
  const Renderer& right_;
  const ProgramFault fault_;
};

}  // namespace tenon::testing
