// Executes linear programs on host memory with every check of the interpreter: the meaning of the
// linear level, for tests and as the measure of renderers. Deterministic.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>

#include "tenon/interp/checked_program.h"
#include "tenon/ir/linear.h"
#include "tenon/types/signature.h"

namespace tenon {

/// Runs all groups. `arguments` must fit the signature; a buffer's first num_elements may be
/// touched, no more; they lie as aligned as devices promise. Throws kInvalidArgument for programs
/// that break a rule of the verifier and for whatever a check finds; kUnsupported for matrix units
/// that are not among options.units. Results are written in place; after an error they are partial.
void interpret(const LinearProgram& program, std::span<const ArgumentValue> arguments,
               const InterpOptions& options = {});

}  // namespace tenon
