// SPDX-License-Identifier: MIT

#include "tenon/codegen/walk.h"

#include "tenon/codegen/plan.h"

namespace tenon {

Walk walk_of(const Kernel& kernel, int number) {
  const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(number)].node);
  return {&comp, number, analyze_access(kernel, comp)};
}

int64_t lanes_of(const Walk& walk, const Kernel& kernel, const Target& target) {
  const int64_t bytes = widest_element_bytes(kernel, *walk.comp, target);
  return std::max<int64_t>(target.max_vector_bytes / bytes, 1);
}

bool is_read(const Walk& walk, int buffer) {
  return std::any_of(walk.accesses.begin() + 1, walk.accesses.end(),
                     [&](const Access& access) { return access.buffer == buffer; });
}

int64_t bytes_of(const Access& access, const Walk& walk) {
  int64_t count = dtype_size_bytes(access.dtype);
  for (size_t i = 0; i < walk.num_axes(); ++i) {
    if (access.uses(i)) count *= walk.extent(i);
  }
  return count;
}

int64_t bytes_per_point(const Walk& walk) {
  int64_t bytes = 0;
  for (const Access& access : walk.accesses)
    bytes += dtype_size_bytes(access.dtype);
  return bytes;
}

size_t crossed_axis(const Walk& walk, size_t vec) {
  size_t crossed = walk.num_axes();
  for (size_t i = 1; i < walk.accesses.size(); ++i) {
    const Access& access = walk.accesses[i];
    if (!access.uses(vec) || access.strides[vec] == 1 || access.is_irregular[vec]) continue;
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      if (axis != vec && access.strides[axis] == 1 && !access.is_irregular[axis]) crossed = axis;
    }
  }
  return crossed;
}

}  // namespace tenon
