// Files that hold a program, by the end of their name: .tg (tensor graph), .tk (kernel), .tir
// (linear program), .tpo (compiled). Used by run, compile and explain. Files are untrusted: what
// comes back has been verified. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "tenon/engine/engine.h"
#include "tenon/engine/given_plans.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/types/program_object.h"

namespace tenon::cli {

using ProgramFile = std::variant<TensorGraph, Kernel, LinearProgram, ProgramObject>;

/// What to do with a kernel whose writes are perhaps not distinct (V2) or whose indices are perhaps
/// outside their buffers (V3): nothing else would keep it from any place in memory.
enum class Unproven : uint8_t {
  kRefused,  ///< it is to be run
  kNoted,    ///< it is to be looked at
};

/// Throws WrongUsage for another end of the name, kNotFound or kIo if the file cannot be read, and
/// kInvalidArgument, with the place, for anything malformed.
ProgramFile load_program_file(const std::string& path, Unproven unproven = Unproven::kRefused);

/// The Plans of a file, for the kernels of a program that has kernels (.tg, .tk); nothing for an
/// empty path. Throws WrongUsage for other programs.
std::optional<GivenPlans> load_plans(const std::string& path, const ProgramFile& program);

/// The device of `--device NAME`; empty: the default device.
Device& chosen_device(const std::string& name);

}  // namespace tenon::cli
