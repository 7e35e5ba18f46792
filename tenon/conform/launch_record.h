// The record of a launch in words: what each argument is beside what the signature says, sizes
// beside what the Target allows. For `tenon diff --launch`. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <vector>

#include "tenon/ir/linear.h"
#include "tenon/types/signature.h"
#include "tenon/types/target.h"

namespace tenon {

/// Some lines. `values` may differ from what the signature wants: the record then says so.
std::string launch_record(const LinearProgram& program, const std::vector<ArgumentValue>& values,
                          const Target& target);

}  // namespace tenon
