// Queries on a Target, and its text form: `name=value` fields, one space apart, in the order of
// target_fields.def.
// SPDX-License-Identifier: MIT

#include "tenon/types/target.h"

#include <algorithm>
#include <concepts>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 16;  // as in a ProgramObject

bool is_word(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_allowed);
}

bool are_sorted_words(const std::vector<std::string>& words) {
  const bool is_sorted =
      std::adjacent_find(words.begin(), words.end(), std::greater_equal<>()) == words.end();
  return is_sorted && std::all_of(words.begin(), words.end(), is_word);
}

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "target: ", parts...);
}

DType parse_dtype(std::string_view name) {
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype || dtype_bits(*dtype) == 0 || dtype_name(*dtype) != name) {
    refuse("no stored dtype is called ", quoted(name));
  }
  return *dtype;
}

NativeCast parse_cast(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '>');
  if (parts.size() != 2) refuse("the cast ", quoted(text), " is not written from>to");
  return {parse_dtype(parts[0]), parse_dtype(parts[1])};
}

std::string cache_text(const CacheLevel& cache) {
  return concat(cache.bytes, ":", cache.ways, ":", cache.threads, ":", cache.speed);
}

CacheLevel parse_cache(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  CacheLevel cache;
  const auto number = [&](size_t i) {
    const std::optional<int64_t> value = i < parts.size() ? parse_int(parts[i]) : std::nullopt;
    if (!value || *value < 1 || *value > int64_t{1} << 50) {
      refuse("the cache ", quoted(text), " is not written bytes:ways:threads:speed");
    }
    return *value;
  };
  const auto small_number = [&](size_t i) {
    return static_cast<int>(std::min<int64_t>(number(i), std::numeric_limits<int>::max()));
  };
  cache = {number(0), small_number(1), small_number(2), small_number(3)};
  if (cache_text(cache) != text) {
    refuse("the cache ", quoted(text), " is not written bytes:ways:threads:speed");
  }
  return cache;
}

// --- the text of a field, by its type -----------------------------------------------------------

std::string value_text(const std::string& word) {
  TENON_ASSERT(is_word(word), "target: the arch ", quoted(word), " is not a word");
  return word;
}
std::string value_text(const std::vector<std::string>& words) {
  TENON_ASSERT(are_sorted_words(words),
               "target: features are not sorted words: ", join(words, ","));
  return join(words, ",");
}
std::string value_text(const DTypeSet& set) {
  std::vector<std::string_view> names;
  DTypeSet named;
  for (const DType dtype : storage_dtypes()) {
    if (!set.has(dtype)) continue;
    names.push_back(dtype_name(dtype));
    named.add(dtype);
  }
  TENON_ASSERT(named == set, "target: the set ", set.bits, " holds more than stored dtypes");
  return join(names, ",");
}
std::string value_text(bool flag) {
  return flag ? "yes" : "no";
}
template <std::integral T>
std::string value_text(T number) {
  return concat(number);
}
std::string item_text(const NativeCast& cast) {
  return concat(dtype_name(cast.from), ">", dtype_name(cast.to));
}
std::string item_text(Op op) {
  return std::string(op_name(op));
}
std::string item_text(const MatrixUnit& unit) {
  return to_text(unit);
}
std::string item_text(const CacheLevel& cache) {
  return cache_text(cache);
}
std::string item_text(const Deviation& deviation) {
  TENON_ASSERT(deviation.kind != Deviation::Kind::kUnitFlush, "target: units say that they flush");
  return to_text(deviation);
}
template <typename T>
std::string value_text(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items)
    texts.push_back(item_text(item));
  return join(texts, ",");
}

// --- and back: takes exactly what value_text gives ----------------------------------------------

std::vector<std::string_view> items_of(std::string_view text) {
  return text.empty() ? std::vector<std::string_view>() : split(text, ',');
}

void parse_value(std::string_view name, std::string_view text, std::string& word) {
  if (!is_word(text)) refuse("the ", name, " ", quoted(text), " is not a word");
  word = text;
}
void parse_value(std::string_view name, std::string_view text, std::vector<std::string>& words) {
  for (const std::string_view word : items_of(text))
    words.emplace_back(word);
  if (!are_sorted_words(words)) refuse("the ", name, " are not sorted words, each once");
}
void parse_value(std::string_view name, std::string_view text, DTypeSet& set) {
  for (const std::string_view item : items_of(text)) {
    const DType dtype = parse_dtype(item);
    // Numbers ascend, so that each set has one text.
    if (set.bits >> static_cast<int>(dtype) != 0) {
      refuse("the dtypes of ", name, " are not in order at ", quoted(item));
    }
    set.add(dtype);
  }
}
void parse_value(std::string_view name, std::string_view text, bool& flag) {
  if (text != "yes" && text != "no") refuse(name, "=", text, " is neither yes nor no");
  flag = text == "yes";
}
template <std::integral T>
void parse_value(std::string_view name, std::string_view text, T& number) {
  const std::optional<int64_t> value = parse_int(text);
  if (!value || *value < 0 || *value > int64_t{std::numeric_limits<T>::max()} ||
      text != concat(*value)) {
    refuse(name, "=", text, " is not a number in range");
  }
  number = static_cast<T>(*value);
}
NativeCast parse_item(std::string_view text, const NativeCast&) {
  return parse_cast(text);
}
Op parse_item(std::string_view text, Op) {
  const std::optional<Op> op = find_op(text, kLinearLevel);
  if (!op) refuse("no linear op is called ", quoted(text));
  return *op;
}
MatrixUnit parse_item(std::string_view text, const MatrixUnit&) {
  return parse_matrix_unit(text);
}
CacheLevel parse_item(std::string_view text, const CacheLevel&) {
  return parse_cache(text);
}
Deviation parse_item(std::string_view text, const Deviation&) {
  if (text == "flush_f32") return {};
  constexpr int64_t kMaxUlp = 1 << 20;
  const std::vector<std::string_view> parts = split(text, ':');
  const std::optional<Op> op = find_op(parts[0], kLinearLevel);
  const int64_t ulp = parts.size() == 2 ? parse_int(parts[1]).value_or(0) : 0;
  if (!op || !is_bounded_class(*op) || ulp < 1 || ulp > kMaxUlp) {
    refuse("the deviation ", quoted(text), " is neither flush_f32 nor a native op as in exp2:3");
  }
  const Deviation deviation{Deviation::Kind::kUlp, *op, static_cast<int>(ulp)};
  if (to_text(deviation) != text) refuse("the deviation ", quoted(text), " is not written exp2:3");
  return deviation;
}
template <typename T>
void parse_value(std::string_view, std::string_view text, std::vector<T>& items) {
  for (const std::string_view item : items_of(text))
    items.push_back(parse_item(item, T()));
}

// --- what another value claims beyond one; empty: nothing ---------------------------------------

bool is_within(const std::string& now, const std::string& before) {
  return now == before;
}
bool is_within(const DTypeSet& now, const DTypeSet& before) {
  return (now.bits & ~before.bits) == 0;
}
bool is_within(bool now, bool before) {
  return before || !now;
}
template <std::integral T>
bool is_within(T now, T before) {
  return now <= before && (now > 0 || before == 0);
}
bool is_within(const std::vector<CacheLevel>& now, const std::vector<CacheLevel>& before) {
  const auto is_smaller = [](const CacheLevel& a, const CacheLevel& b) {
    return a.bytes <= b.bytes && a.ways <= b.ways && a.threads >= b.threads && a.speed <= b.speed;
  };
  return now.size() <= before.size() &&
         std::equal(now.begin(), now.end(), before.begin(), is_smaller);
}
// Who deviates more claims less.
bool is_within(const std::vector<Deviation>& now, const std::vector<Deviation>& before) {
  return std::all_of(before.begin(), before.end(), [&](const Deviation& item) {
    return std::any_of(now.begin(), now.end(), [&](const Deviation& other) {
      return other.kind == item.kind && other.op == item.op && other.ulp >= item.ulp;
    });
  });
}
// Numbers of which a device may have none; elsewhere 0 means no limit, or nothing at all.
bool is_none(std::string_view name, std::string_view value) {
  const auto names = {"max_vector_bytes", "max_local_bytes", "tile_registers"};
  return value == "0" && std::find(names.begin(), names.end(), name) != names.end();
}
template <typename T>
bool is_within(const std::vector<T>& now, const std::vector<T>& before) {
  return std::all_of(now.begin(), now.end(), [&](const T& item) {
    return std::find(before.begin(), before.end(), item) != before.end();
  });
}

}  // namespace

std::string to_text(const Deviation& deviation) {
  switch (deviation.kind) {
    case Deviation::Kind::kFlush: return "flush_f32";
    case Deviation::Kind::kUnitFlush: return "flush_units";
    case Deviation::Kind::kUlp: return concat(op_name(deviation.op), ":", deviation.ulp);
  }
  return "";
}

std::vector<Deviation> deviations_of(const Target& target) {
  std::vector<Deviation> all = target.deviations;
  if (std::ranges::any_of(target.units, &MatrixUnit::flushes_denormals)) {
    all.push_back({.kind = Deviation::Kind::kUnitFlush});
  }
  return all;
}

bool Target::is_native(Op op) const {
  return std::find(native_ops.begin(), native_ops.end(), op) != native_ops.end();
}

int64_t Target::block_rows() const {
  int64_t rows = 1;
  while (2 * (2 * rows) + 3 <= vector_registers)
    rows *= 2;
  return rows;
}

bool Target::has_cast(DType from, DType to) const {
  if (can_compute(from) && can_compute(to)) return true;
  return std::find(extra_casts.begin(), extra_casts.end(), NativeCast{from, to}) !=
         extra_casts.end();
}

std::vector<std::string_view> target_fields() {
  return {
#define TENON_TARGET_FIELD(member, name, meaning, decides) #name,
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
  };
}

std::string to_text(const Target& target) {
  std::vector<std::string> fields;
#define TENON_TARGET_FIELD(member, name, meaning, decides) \
  fields.push_back(concat(#name "=", value_text(target.member)));
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
  return join(fields, " ");
}

std::string field_text(const Target& target, std::string_view wanted) {
#define TENON_TARGET_FIELD(member, name, meaning, decides) \
  if (wanted == #name) return value_text(target.member);
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
  refuse("no field is called ", quoted(wanted));
}

Target parse_target(std::string_view text) {
  if (text.size() > kMaxTextBytes) refuse("the text has ", text.size(), " bytes");
  const std::vector<std::string_view> fields = split(text, ' ');
  size_t number = 0;
  const auto value_of = [&](std::string_view name) {
    const std::string_view field = number < fields.size() ? fields[number] : std::string_view();
    ++number;
    if (field.size() <= name.size() || !field.starts_with(name) || field[name.size()] != '=') {
      refuse("wanted the field ", name, "=..., found ", quoted(field));
    }
    return field.substr(name.size() + 1);
  };
  Target target;
#define TENON_TARGET_FIELD(member, name, meaning, decides) \
  parse_value(#name, value_of(#name), target.member = {});
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
  if (number != fields.size()) refuse("nothing may follow, found ", quoted(fields[number]));
  return target;
}

Target shrink_target(const Target& target, std::string_view text) {
  Target smaller = target;
  for (const std::string_view field : items_of(text)) {
    const size_t equals = field.find('=');
    const std::string_view wanted = trim(field.substr(0, equals));
    if (equals == std::string_view::npos) refuse(quoted(field), " is not written name=value");
    // Lists have their commas as '+' here.
    std::string value(trim(field.substr(equals + 1)));
    std::replace(value.begin(), value.end(), '+', ',');
    bool is_known = false;
#define TENON_TARGET_FIELD(member, name, meaning, decides)                     \
  if (wanted == #name) {                                                       \
    is_known = true;                                                           \
    parse_value(#name, value, smaller.member = {});                            \
    if (!is_within(smaller.member, target.member) && !is_none(#name, value)) { \
      refuse(#name "=", value, " is more than ", value_text(target.member),    \
             "; it may only shrink");                                          \
    }                                                                          \
  }
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
    if (!is_known)
      refuse("no field is called ", quoted(wanted), "; known: ", join(target_fields(), ", "));
  }
  return smaller;
}

}  // namespace tenon
