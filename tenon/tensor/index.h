// The items of an index, one per axis as in Python: an integer, a Slice, kNewAxis, kEllipsis.
// Used by Tensor::getitem and setitem. SPDX-License-Identifier: MIT

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tenon {

/// Python's slice(start, stop, step): `Slice{1, 5}`, `Slice{.step = -1}`; what is not given is the
/// end in the direction of the step.
struct Slice {
  std::optional<int64_t> start{};
  std::optional<int64_t> stop{};
  std::optional<int64_t> step{};
};

struct NewAxis {};
struct Ellipsis {};
/// A new axis of size 1.
inline constexpr NewAxis kNewAxis;
/// As many full slices as are needed to index every axis; at most once.
inline constexpr Ellipsis kEllipsis;
/// The whole axis.
inline constexpr Slice kAll;

using IndexItem = std::variant<int64_t, Slice, NewAxis, Ellipsis>;
/// `{0, Slice{1, 5}, kAll}`; axes that are not named are taken whole.
using Index = std::vector<IndexItem>;

}  // namespace tenon
