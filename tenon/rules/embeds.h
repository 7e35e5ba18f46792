// Which casts lose nothing. Used by folding of cast chains and by dtype lowering.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/types/dtype.h"

namespace tenon {

/// Whether every value of `from` is a value of `to` (NaN, infinities and -0 included), so that a
/// cast is exact and can be undone. Not for idx.
bool embeds(DType from, DType to);

}  // namespace tenon
