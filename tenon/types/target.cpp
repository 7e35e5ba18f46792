// Queries on a Target, and its text form: `name=value` fields, one space apart, in one fixed order.
// SPDX-License-Identifier: MIT

#include "tenon/types/target.h"

#include <algorithm>
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

std::string cast_text(const NativeCast& cast) {
  return concat(dtype_name(cast.from), ">", dtype_name(cast.to));
}

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "target: ", parts...);
}

// Takes the fields of a text one by one, in order.
class Fields {
 public:
  explicit Fields(std::string_view text) : fields_(split(text, ' ')) {}

  std::string_view next(std::string_view name) {
    const std::string_view field = next_ < fields_.size() ? fields_[next_] : std::string_view();
    ++next_;
    if (field.size() <= name.size() || !field.starts_with(name) || field[name.size()] != '=') {
      refuse("wanted the field ", name, "=..., found ", quoted(field));
    }
    return field.substr(name.size() + 1);
  }
  std::vector<std::string_view> next_list(std::string_view name) {
    const std::string_view value = next(name);
    return value.empty() ? std::vector<std::string_view>() : split(value, ',');
  }
  template <typename T>
  T next_number(std::string_view name) {
    const std::string_view value = next(name);
    const std::optional<int64_t> number = parse_int(value);
    if (!number || *number < 0 || *number > int64_t{std::numeric_limits<T>::max()} ||
        value != concat(*number)) {
      refuse(name, "=", value, " is not a number in range");
    }
    return static_cast<T>(*number);
  }
  // Which of two words stands there.
  bool next_is(std::string_view name, std::string_view yes, std::string_view no) {
    const std::string_view value = next(name);
    if (value != yes && value != no) {
      refuse(name, "=", value, " is neither ", yes, " nor ", no);
    }
    return value == yes;
  }
  void finish() const {
    if (next_ != fields_.size()) refuse("nothing may follow, found ", quoted(fields_[next_]));
  }

 private:
  std::vector<std::string_view> fields_;
  size_t next_ = 0;
};

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

}  // namespace

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

std::string to_text(const Target& target) {
  TENON_ASSERT(is_word(target.arch), "target: the arch ", quoted(target.arch), " is not a word");
  TENON_ASSERT(are_sorted_words(target.features),
               "target: features are not sorted words: ", join(target.features, ","));
  std::vector<std::string_view> dtypes;
  DTypeSet named;
  for (const DType dtype : storage_dtypes()) {
    if (!target.arithmetic.has(dtype)) continue;
    dtypes.push_back(dtype_name(dtype));
    named.add(dtype);
  }
  TENON_ASSERT(named == target.arithmetic, "target: the arithmetic set ", target.arithmetic.bits,
               " holds more than stored dtypes");
  std::vector<std::string> casts;
  for (const NativeCast& cast : target.extra_casts)
    casts.push_back(cast_text(cast));
  std::vector<std::string_view> ops;
  for (const Op op : target.native_ops)
    ops.push_back(op_name(op));
  std::vector<std::string> units;
  for (const MatrixUnit& unit : target.units)
    units.push_back(to_text(unit));
  std::vector<std::string> caches;
  for (const CacheLevel& cache : target.caches)
    caches.push_back(cache_text(cache));
  return concat(
      "arch=", target.arch, " features=", join(target.features, ","),
      " arithmetic=", join(dtypes, ","), " casts=", join(casts, ","), " native=", join(ops, ","),
      " mulacc=", target.fuses_mulacc ? "fused" : "split", " units=", join(units, ","),
      " vector=", target.max_vector_bytes, " local=", target.max_local_bytes,
      " lanes=", target.max_lanes, " arguments=", target.max_arguments,
      " index=", target.has_i64_index ? "i64" : "i32", " registers=", target.vector_registers,
      " pointers=", target.scalar_registers, " rate=", target.mulacc_rate,
      " chains=", target.mulacc_chains, " tiles=", target.tiles.registers,
      " tile_rate=", target.tiles.rate, " tile_chains=", target.tiles.chains,
      " caches=", join(caches, ","), " line=", target.line_bytes, " memory=", target.memory_speed,
      " fork=", target.fork_ns, " bypass=", target.bypass_bytes, " threads=", target.threads);
}

Target parse_target(std::string_view text) {
  if (text.size() > kMaxTextBytes) refuse("the text has ", text.size(), " bytes");
  Fields fields(text);
  Target target;
  target.arch = fields.next("arch");
  if (!is_word(target.arch)) refuse("the arch ", quoted(target.arch), " is not a word");
  for (const std::string_view feature : fields.next_list("features"))
    target.features.emplace_back(feature);
  if (!are_sorted_words(target.features)) refuse("the features are not sorted words, each once");
  for (const std::string_view name : fields.next_list("arithmetic")) {
    const DType dtype = parse_dtype(name);
    // Numbers ascend, so that each set has one text.
    if (target.arithmetic.bits >> static_cast<int>(dtype) != 0) {
      refuse("the arithmetic dtypes are not in order at ", quoted(name));
    }
    target.arithmetic.add(dtype);
  }
  for (const std::string_view cast : fields.next_list("casts"))
    target.extra_casts.push_back(parse_cast(cast));
  for (const std::string_view name : fields.next_list("native")) {
    const std::optional<Op> op = find_op(name, kLinearLevel);
    if (!op) refuse("no linear op is called ", quoted(name));
    target.native_ops.push_back(*op);
  }
  target.fuses_mulacc = fields.next_is("mulacc", "fused", "split");
  for (const std::string_view unit : fields.next_list("units"))
    target.units.push_back(parse_matrix_unit(unit));
  target.max_vector_bytes = fields.next_number<int>("vector");
  target.max_local_bytes = fields.next_number<int64_t>("local");
  target.max_lanes = fields.next_number<int64_t>("lanes");
  target.max_arguments = fields.next_number<int>("arguments");
  target.has_i64_index = fields.next_is("index", "i64", "i32");
  target.vector_registers = fields.next_number<int>("registers");
  target.scalar_registers = fields.next_number<int>("pointers");
  target.mulacc_rate = fields.next_number<int>("rate");
  target.mulacc_chains = fields.next_number<int>("chains");
  target.tiles.registers = fields.next_number<int>("tiles");
  target.tiles.rate = fields.next_number<int>("tile_rate");
  target.tiles.chains = fields.next_number<int>("tile_chains");
  for (const std::string_view cache : fields.next_list("caches"))
    target.caches.push_back(parse_cache(cache));
  target.line_bytes = fields.next_number<int>("line");
  target.memory_speed = fields.next_number<int>("memory");
  target.fork_ns = fields.next_number<int>("fork");
  target.bypass_bytes = fields.next_number<int64_t>("bypass");
  target.threads = fields.next_number<int>("threads");
  fields.finish();
  return target;
}

}  // namespace tenon
