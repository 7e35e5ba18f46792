// What a Target can do, asked before it is done: `supports(...)` answers with yes or with a Reason,
// plain data. Passes refuse by the same records (`require`), so that what is asked and what is
// thrown are alike. What needs rules to answer (ops, emulated dtypes) is in rules/supports.h, whole
// graphs in engine/engine.h. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/types/target.h"

namespace tenon {

/// Why a Target cannot do something.
struct Reason {
  std::optional<Op> op;        ///< that was asked for
  std::optional<DType> dtype;  ///< of its operands, or asked for by itself
  std::string limit;           ///< the field of the Target that says no; empty: another cause
  std::string wanted;          ///< a number, or items of the field's list, that would do
  std::string available;       ///< what the field has
  std::string text;            ///< all of it in words, and what to do
  /// The same, where it is said of what.
  Reason about(std::string_view subject) const {
    Reason reason = *this;
    reason.text.insert(0, subject);
    return reason;
  }
  friend bool operator==(const Reason&, const Reason&) = default;
};

/// Its words, then "field: limit, wanted: ..., available: ..." where a field says no.
std::string to_text(const Reason& reason);

/// The answer: true, or the Reason.
class Support {
 public:
  Support() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a Reason is an answer
  Support(Reason reason) : reason_(std::make_shared<const Reason>(std::move(reason))) {}
  explicit operator bool() const { return reason_ == nullptr; }
  /// Only of an answer that is not true.
  const Reason& reason() const { return *reason_; }
  const std::shared_ptr<const Reason>& shared_reason() const { return reason_; }

 private:
  std::shared_ptr<const Reason> reason_;
};

/// Amounts that a Target bounds.
enum class Limit : uint8_t { kArguments, kLanes, kLocalBytes, kVectorBytes, kGroups, kIndex };

/// Whether a program may need so much of it (kIndex: the index farthest from 0).
Support supports(const Target& target, Limit limit, int64_t wanted);
/// Whether the Target itself computes with the dtype (kernels may with more: rules/supports.h).
Support computes(const Target& target, DType dtype);
/// Whether it does the op, which not every device does.
Support has_native(const Target& target, Op op, DType dtype);

/// Throws kUnsupported, "<where>: <the reason>", with the record, unless the answer is true.
template <typename... Parts>
void require(const Support& support, const Parts&... where) {
  if (support) return;
  throw Error(ErrorCode::kUnsupported, concat(where..., support.reason().text),
              support.shared_reason());
}

}  // namespace tenon
