// Names of kernels in sanitizer reports: loaded kernels are in no file that a sanitizer could read
// symbols from, so its report shows bare addresses. Called by object_loader.cpp.
// SPDX-License-Identifier: MIT

#pragma once

namespace tenon::cpu {

/// From now on reports of the address and the thread sanitizer are preceded by lines that name the
/// kernels in them ("tenon: in kernel 'object:function+0x12'"). Nothing in other builds.
void name_kernels_in_reports();

}  // namespace tenon::cpu
