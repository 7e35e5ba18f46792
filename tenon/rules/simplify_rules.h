// What the rule files of simplify_index share. Included by simplify_*.cpp alone.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>

#include "tenon/rules/simplify_index.h"

namespace tenon {

namespace detail {
std::span<const IndexRule> divmod_rules();
std::span<const IndexRule> condition_rules();
}  // namespace detail

}  // namespace tenon
