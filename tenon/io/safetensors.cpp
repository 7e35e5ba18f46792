// The frame around the header: its length, and that the arrays tile the data exactly.
// SPDX-License-Identifier: MIT

#include "tenon/io/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/host_memory.h"
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

/// The number of bytes of the header's text, which stands behind the length.
uint64_t read_header_length(uint64_t file_bytes, const ReadAt& read_at, std::string_view path) {
  if (file_bytes < kLengthBytes) {
    refuse(path, "it has ", file_bytes, " bytes, the header length alone takes ", kLengthBytes);
  }
  std::array<std::byte, kLengthBytes> bytes{};
  read_at(0, bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  const uint64_t num_left = file_bytes - kLengthBytes;
  if (length > num_left) {
    refuse(path, "the header length ", length, " exceeds the file, which has ", num_left,
           " bytes left");
  }
  if (length > kMaxHeaderBytes) {
    refuse(path, "the header length ", length, " exceeds the limit of ", kMaxHeaderBytes);
  }
  return length;
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

SafetensorsIndex index_safetensors(uint64_t file_bytes, const ReadAt& read_at,
                                   std::string_view path) {
  const uint64_t length = read_header_length(file_bytes, read_at, path);
  std::string text(length, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const uint64_t data_begin = kLengthBytes + length;
  const uint64_t data_bytes = file_bytes - data_begin;
  detail::SafetensorsHeader header = detail::parse_safetensors_header(text, path);
  std::sort(header.records.begin(), header.records.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  SafetensorsIndex index;
  index.metadata = std::move(header.metadata);
  index.places.reserve(header.records.size());
  uint64_t end = 0;
  for (detail::SafetensorsRecord& record : header.records) {
    check_size(record, path);
    if (record.begin != end) {
      refuse(path, "the data of tensor ", quoted(record.name), " begins at ", record.begin,
             ", wanted ", end, ": ", record.begin < end ? "tensors overlap" : "there is a hole");
    }
    end = record.end;
    if (end > data_bytes) {
      refuse(path, "the data of tensor ", quoted(record.name), " ends at ", end,
             ", beyond the file's data of ", data_bytes, " bytes");
    }
    index.places.push_back({.name = std::move(record.name),
                            .dtype = record.dtype,
                            .shape = std::move(record.shape),
                            .begin = data_begin + record.begin,
                            .size_bytes = record.end - record.begin});
  }
  if (end != data_bytes) refuse(path, data_bytes - end, " bytes at the end belong to no tensor");
  return index;
}

SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, std::string_view path) {
  const ReadAt read_at = [&](uint64_t offset, std::span<std::byte> part) {
    std::ranges::copy(bytes.subspan(static_cast<size_t>(offset), part.size()), part.begin());
  };
  SafetensorsIndex index = index_safetensors(bytes.size(), read_at, path);
  SafetensorsContent content;
  content.metadata = std::move(index.metadata);
  for (SafetensorsPlace& place : index.places) {
    content.entries.push_back(
        {std::move(place.name),
         {place.dtype, std::move(place.shape),
          bytes.subspan(static_cast<size_t>(place.begin), static_cast<size_t>(place.size_bytes))}});
  }
  return content;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(OpenFile::existing(path)),
      index_(index_safetensors(
          file_.size_bytes(),
          [this](uint64_t offset, std::span<std::byte> bytes) { file_.read_at(offset, bytes); },
          path)),
      by_name_(index_.places.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return index_.places[a].name < index_.places[b].name; });
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const SafetensorsPlace& place : index_.places)
    names.push_back(place.name);
  return names;
}

const SafetensorsPlace* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](size_t i, std::string_view wanted) { return index_.places[i].name < wanted; });
  if (found == by_name_.end() || index_.places[*found].name != name) return nullptr;
  return &index_.places[*found];
}

Array SafetensorsFile::get(std::string_view name) const {
  const SafetensorsPlace* place = find(name);
  if (place == nullptr) {
    const std::vector<std::string> candidates = names();
    const std::optional<std::string> nearest =
        nearest_name(name, std::span<const std::string>(candidates));
    fail(ErrorCode::kNotFound, "safetensors file '", file_.path(), "' has no tensor ", quoted(name),
         nearest ? concat(". Is ", quoted(*nearest), " meant?") : "");
  }
  Array array{
      place->dtype, place->shape,
      host_bytes(static_cast<int64_t>(place->size_bytes), concat("reading ", quoted(name)))};
  file_.read_at(place->begin, array.bytes);
  if (const std::optional<size_t> bad = find_bad_bool(array.view())) {
    refuse(file_.path(), "element ", *bad, " of the bool tensor ", quoted(name),
           " is neither 0 nor 1");
  }
  return array;
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
