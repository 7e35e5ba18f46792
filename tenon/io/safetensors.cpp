// The frame around the header: its length, and that the arrays tile the data exactly.
// SPDX-License-Identifier: MIT

#include "tenon/io/safetensors.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/io/safetensors_header.h"

namespace tenon {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;
// The reference implementation's limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

template <typename... Parts>
[[noreturn]] void refuse(std::string_view path, const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "safetensors file '", path, "': ", parts...);
}

// The header's text; the data follows it.
std::string_view header_text(std::span<const std::byte> bytes, std::string_view path) {
  if (bytes.size() < kLengthBytes) {
    refuse(path, "it has ", bytes.size(), " bytes, the header length alone takes ", kLengthBytes);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  const size_t num_left = bytes.size() - kLengthBytes;
  if (length > num_left) {
    refuse(path, "the header length ", length, " exceeds the file, which has ", num_left,
           " bytes left");
  }
  if (length > kMaxHeaderBytes) {
    refuse(path, "the header length ", length, " exceeds the limit of ", kMaxHeaderBytes);
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<size_t>(length)};
}

void check_size(const detail::SafetensorsRecord& record, std::string_view path) {
  const std::optional<int64_t> size_bytes = array_size_bytes(record.dtype, record.shape);
  if (!size_bytes) {
    refuse(path, "tensor ", quoted(record.name), " has the shape ", format_shape(record.shape),
           ", which is too large");
  }
  if (record.end < record.begin ||
      record.end - record.begin != static_cast<uint64_t>(*size_bytes)) {
    refuse(path, "tensor ", quoted(record.name), " of ", dtype_long_name(record.dtype),
           " and shape ", format_shape(record.shape), " takes ", *size_bytes,
           " bytes, its data_offsets are ", record.begin, " to ", record.end);
  }
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text = header_text(bytes, path);
  const auto data = bytes.subspan(kLengthBytes + text.size());
  detail::SafetensorsHeader header = detail::parse_safetensors_header(text, path);
  std::sort(header.records.begin(), header.records.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  SafetensorsContent content;
  content.metadata = std::move(header.metadata);
  content.entries.reserve(header.records.size());
  uint64_t end = 0;
  for (detail::SafetensorsRecord& record : header.records) {
    check_size(record, path);
    if (record.begin != end) {
      refuse(path, "the data of tensor ", quoted(record.name), " begins at ", record.begin,
             ", wanted ", end, ": ", record.begin < end ? "tensors overlap" : "there is a hole");
    }
    end = record.end;
    if (end > data.size()) {
      refuse(path, "the data of tensor ", quoted(record.name), " ends at ", end,
             ", beyond the file's data of ", data.size(), " bytes");
    }
    const auto array_bytes = data.subspan(static_cast<size_t>(record.begin),
                                          static_cast<size_t>(record.end - record.begin));
    content.entries.push_back(
        {std::move(record.name), {record.dtype, std::move(record.shape), array_bytes}});
  }
  if (end != data.size()) {
    refuse(path, data.size() - end, " bytes at the end belong to no tensor");
  }
  return content;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path),
      file_(path),
      content_(parse_safetensors(file_.bytes(), path)),
      by_name_(content_.entries.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(), [&](size_t a, size_t b) {
    return content_.entries[a].name < content_.entries[b].name;
  });
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : content_.entries)
    names.push_back(entry.name);
  return names;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](size_t i, std::string_view wanted) { return content_.entries[i].name < wanted; });
  if (found == by_name_.end() || content_.entries[*found].name != name) return nullptr;
  return &content_.entries[*found];
}

ArrayView SafetensorsFile::get(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    const std::vector<std::string> candidates = names();
    const std::optional<std::string> nearest =
        nearest_name(name, std::span<const std::string>(candidates));
    fail(ErrorCode::kNotFound, "safetensors file '", path_, "' has no tensor ", quoted(name),
         nearest ? concat(". Is ", quoted(*nearest), " meant?") : "");
  }
  if (const std::optional<size_t> bad = find_bad_bool(entry->array)) {
    refuse(path_, "element ", *bad, " of the bool tensor ", quoted(name), " is neither 0 nor 1");
  }
  return entry->array;
}

void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata) {
  const auto refuse_to_write = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidArgument, "writing safetensors file '", path, "': ", parts...);
  };
  std::vector<const SafetensorsEntry*> order;
  std::unordered_set<std::string_view> names = {"__metadata__"};
  for (const SafetensorsEntry& entry : entries) {
    const std::string name = quoted(entry.name);
    if (!names.insert(entry.name).second) refuse_to_write("the name ", name, " is taken");
    if (dtype_bits(entry.array.dtype) == 0 || entry.array.shape.size() > kMaxFileRank) {
      refuse_to_write("tensor ", name, " has no stored dtype or too many axes");
    }
    const std::optional<int64_t> size_bytes =
        array_size_bytes(entry.array.dtype, entry.array.shape);
    if (!size_bytes || static_cast<uint64_t>(*size_bytes) != entry.array.bytes.size()) {
      refuse_to_write("tensor ", name, " has ", entry.array.bytes.size(),
                      " bytes, which do not fit the shape ", format_shape(entry.array.shape),
                      " of ", dtype_long_name(entry.array.dtype));
    }
    order.push_back(&entry);
  }
  std::unordered_set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    if (!keys.insert(key).second) refuse_to_write("the metadata key ", quoted(key), " is taken");
  }
  // Equal sizes keep the order given: all pointers lead into `entries`.
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const int a_bits = dtype_bits(a->array.dtype);
    const int b_bits = dtype_bits(b->array.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a < b;
  });
  detail::SafetensorsHeader header{.records = {}, .metadata = metadata};
  uint64_t end = 0;
  for (const SafetensorsEntry* entry : order) {
    const uint64_t begin = end;
    end += entry->array.bytes.size();
    header.records.push_back({entry->name, entry->array.dtype, entry->array.shape, begin, end});
  }
  std::string text = detail::make_safetensors_header(header, path);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + end);
  for (size_t i = 0; i < kLengthBytes; ++i)
    file += static_cast<char>(text.size() >> (8 * i));
  file += text;
  for (const SafetensorsEntry* entry : order) {
    const auto& bytes = entry->array.bytes;
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  write_file_atomic(path, file);
}

}  // namespace tenon
