// What cases may end in besides right values: the errors that are asked for, and the ids that the
// public API cannot express yet. Used by the tenon_cases program. SPDX-License-Identifier: MIT

#pragma once

#include <string>

#include "tenon/base/error.h"

namespace tenon::cases {

/// What is wrong with `error` as an answer to `expected`, the words of the case file (alternatives
/// stand between " / "); empty if it has `code` and its text holds every word, of four letters or
/// more, of one alternative.
std::string find_error_fault(const Error& error, ErrorCode code, const std::string& expected);

/// What is wrong with ending case `id` as inexpressible (or as unsupported) for `text`; empty if
/// the list holds the id with these words.
std::string find_refusal_fault(const std::string& id, const std::string& text);

/// Why the list holds `id`; null if it does not. A case of the list that passes is a fault too.
const char* find_refusal_reason(const std::string& id);

}  // namespace tenon::cases
