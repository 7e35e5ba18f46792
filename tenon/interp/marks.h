// Who touched an element of memory: what races are found by. One Mark for each element of the
// buffers that a program writes and of group memory. Private to tenon/interp.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

namespace tenon::interp {

/// An access. Eras number the stretches between barriers through all groups, from 1; 0: none.
struct Touch {
  uint32_t era = 0;
  uint32_t code = 0;
  uint32_t lane : 30 = 0;
  uint32_t is_atomic : 1 = 0;
  uint32_t has_others : 1 = 0;  ///< other lanes too, in that era
};

class Mark {
 public:
  /// Notes an access and returns one that it races with, or null. `group_era` is the first era of
  /// the group, or 0 for memory that groups do not share.
  const Touch* read(const Touch& now, uint32_t group_era) {
    const Touch* const other = races(write_, now, group_era) ? &write_ : nullptr;
    if (read_.era != now.era) {
      read_ = now;
    } else if (read_.lane != now.lane) {
      read_.has_others = 1;
    }
    if (first_read_.era == 0) first_read_ = now;
    return other;
  }

  const Touch* write(const Touch& now, uint32_t group_era) {
    const bool are_atomic = now.is_atomic != 0 && write_.is_atomic != 0;
    if (!are_atomic && races(write_, now, group_era)) return &write_;
    if (races(read_, now, group_era)) return &read_;
    if (races(first_read_, now, group_era)) return &first_read_;
    if (now.is_atomic == 0) {
      write_ = now;
    } else if (write_.era == now.era) {
      // A plain write of this lane stays, for the atomics of others to meet.
      if (write_.lane != now.lane) write_.has_others = 1;
    } else if (write_.era >= group_era || write_.era == 0) {
      write_ = now;  // that of another group stays: all that is not atomic races with it
    }
    return nullptr;
  }

 private:
  static bool races(const Touch& before, const Touch& now, uint32_t group_era) {
    if (before.era == now.era) return before.lane != now.lane || before.has_others != 0;
    return before.era != 0 && before.era < group_era;
  }

  Touch write_;  ///< the last, but see write()
  Touch read_;   ///< the first of the last era that has any
  Touch first_read_;
};

}  // namespace tenon::interp
