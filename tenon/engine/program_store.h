// Programs for kernels: from this process, from the disk cache, or lowered, rendered and compiled.
// Called by realize.cpp and by tools that show or run one kernel. Safe from any thread.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenon/codegen/codegen.h"
#include "tenon/device/compile_cache.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/given_plans.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"

namespace tenon {

/// The cache of the settings TENON_CACHE_DIR and TENON_CACHE_MAX_MB as they are now.
CompileCache& shared_compile_cache();

/// The program of each kernel, in order, loaded on `device`. All that are missing are compiled in
/// one go (as many compiler calls as cores, several kernels in each), except those that another
/// thread is making: it waits for them, and makes itself what the other could not. Adds to `stats`.
/// Throws kUnsupported if a kernel does not fit the Target, kCompileFailed with the kernel's name.
/// `plans` are part of the keys of the programs that are made by them.
std::vector<ProgramPtr> find_programs(EngineDevice& device, std::span<const Kernel* const> kernels,
                                      RealizeStats& stats, const GivenPlans* plans = nullptr);

/// Name of the kernel's function: its own name and a part of the hash of its text, since different
/// kernels may share a name.
std::string kernel_symbol(const Kernel& kernel);

/// Under which the kernel's program is kept in the compile cache: all that decides its bytes.
Hash128 program_key(const EngineDevice& device, const Kernel& kernel);

/// Setting TENON_PLAN asks for simple_plan. Throws kInvalidArgument for an unknown value.
bool has_simple_plans();

/// Lowers for the device's Target; the program is named kernel_symbol(kernel).
LinearProgram lower_for(const EngineDevice& device, const Kernel& kernel,
                        CodegenOptions options = {});

/// Renders and compiles one verified linear program (`tenon run kernel.tir`); uses no cache.
ProgramObject compile_linear(const EngineDevice& device, const LinearProgram& program);

}  // namespace tenon
