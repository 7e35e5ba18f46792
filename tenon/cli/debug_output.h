// TENON_DEBUG: what the engine does, printed as it happens. SPDX-License-Identifier: MIT

#pragma once

namespace tenon::cli {

/// Prints the engine's events to standard error for the rest of the process. Warnings always;
/// with TENON_DEBUG=1 also launches, copies and compilations with their times; with 2 the source
/// of each kernel. Throws kInvalidArgument if the setting is not a number.
void start_debug_output();

}  // namespace tenon::cli
