// SPDX-License-Identifier: MIT

#include "tenon/types/matrix_unit.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr std::array<std::string_view, 2> kPlaces{"vectors", "tiles"};
constexpr std::array<std::string_view, 4> kSums{"exact", "odd_first", "two_sums", "free"};
constexpr std::array<std::string_view, 2> kFlushes{"keep", "flush"};
constexpr std::array<std::string_view, 2> kSetups{"ready", "setup"};
constexpr int64_t kMaxExtent = 1024;

// The parts of a text, each up to a character that must follow.
class Parts {
 public:
  explicit Parts(std::string_view text) : whole_(text), rest_(text) {}

  std::string_view until(char end) {
    const size_t at = end == '\0' ? rest_.size() : rest_.find(end);
    if (at == std::string_view::npos) refuse(concat("wanted '", std::string(1, end), "'"));
    const std::string_view part = rest_.substr(0, at);
    rest_.remove_prefix(end == '\0' ? at : at + 1);
    return part;
  }
  DType dtype(char end) {
    const std::string_view name = until(end);
    const std::optional<DType> dtype = find_dtype(name);
    const bool is_stored = dtype && dtype_bits(*dtype) != 0 && dtype_name(*dtype) == name;
    if (!is_stored) refuse(concat("no stored dtype is called ", quoted(name)));
    return *dtype;
  }
  int extent(char end) {
    const std::string_view part = until(end);
    const std::optional<int64_t> number = parse_int(part);
    const bool is_good = number && *number >= 1 && *number <= kMaxExtent && part == concat(*number);
    if (!is_good) refuse(concat(quoted(part), " is no extent"));
    return static_cast<int>(*number);
  }
  template <typename Enum, size_t kCount>
  Enum word(const std::array<std::string_view, kCount>& words, char end) {
    const std::string_view part = until(end);
    for (size_t i = 0; i < kCount; ++i) {
      if (words[i] == part) return static_cast<Enum>(i);
    }
    refuse(concat(quoted(part), " is none of ", join(words, ", ")));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorCode::kInvalidArgument, "target: the matrix unit ", quoted(whole_), ": ", why);
  }

 private:
  std::string_view whole_;
  std::string_view rest_;
};

}  // namespace

bool has_product_unit(std::span<const MatrixUnit> units, DType x, DType y, DType acc) {
  return std::any_of(units.begin(), units.end(), [&](const MatrixUnit& unit) {
    if (unit.acc != acc) return false;
    const bool is_direct = (unit.a == x && unit.b == y) || (unit.a == y && unit.b == x);
    return is_direct ||
           (x == y && is_signed_int(x) && unit.b == x && unit.a == unsigned_of_same_width(x));
  });
}

std::string to_text(const MatrixUnit& unit) {
  return concat(dtype_name(unit.a), "*", dtype_name(unit.b), ">", dtype_name(unit.acc), ":", unit.m,
                "x", unit.n, "x", unit.k, "/", unit.group, ":",
                kPlaces[static_cast<size_t>(unit.place)], ":", kSums[static_cast<size_t>(unit.sum)],
                ":", kFlushes[unit.flushes_denormals ? 1 : 0], ":",
                kSetups[unit.needs_setup ? 1 : 0]);
}

MatrixUnit parse_matrix_unit(std::string_view text) {
  Parts parts(text);
  MatrixUnit unit;
  unit.a = parts.dtype('*');
  unit.b = parts.dtype('>');
  unit.acc = parts.dtype(':');
  unit.m = parts.extent('x');
  unit.n = parts.extent('x');
  unit.k = parts.extent('/');
  unit.group = parts.extent(':');
  if (unit.k % unit.group != 0) parts.refuse("the group does not divide k");
  unit.place = parts.word<UnitPlace>(kPlaces, ':');
  unit.sum = parts.word<UnitSum>(kSums, ':');
  unit.flushes_denormals = parts.word<int>(kFlushes, ':') != 0;
  unit.needs_setup = parts.word<int>(kSetups, '\0') != 0;
  return unit;
}

}  // namespace tenon
