// The "language" and the "compiler" of INTERP: a program's text stays what it is, parsed and
// verified. SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <string_view>

#include "tenon/device/compiler.h"
#include "tenon/render/renderer.h"

namespace tenon::interp {

inline constexpr std::string_view kTirFormat = "tir";

const Renderer& tir_renderer();
std::unique_ptr<Compiler> make_tir_compiler(const Target& target);

/// The program called `name` in a payload, which may hold several. Throws kInvalidArgument.
LinearProgram find_program(std::string_view payload, std::string_view name);

}  // namespace tenon::interp
