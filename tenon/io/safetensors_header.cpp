// Reads the header with the event interface of the JSON library: no tree is built, repeated keys
// are seen, and anything that is not in the format stops at once. SPDX-License-Identifier: MIT

#include "tenon/io/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::detail {
namespace {

using Json = nlohmann::json;
// Calls of quoted are qualified: for std::string a plain call would find std::quoted.

constexpr std::string_view kMetadataName = "__metadata__";

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr Name kDTypeNames[] = {
    {DType::kBool, "BOOL"},      {DType::kI8, "I8"},          {DType::kI16, "I16"},
    {DType::kI32, "I32"},        {DType::kI64, "I64"},        {DType::kU8, "U8"},
    {DType::kU16, "U16"},        {DType::kU32, "U32"},        {DType::kU64, "U64"},
    {DType::kF8E4M3, "F8_E4M3"}, {DType::kF8E5M2, "F8_E5M2"}, {DType::kF16, "F16"},
    {DType::kBF16, "BF16"},      {DType::kF32, "F32"},        {DType::kF64, "F64"},
};

std::optional<DType> find_name(std::string_view text) {
  for (const Name& name : kDTypeNames) {
    if (name.text == text) return name.dtype;
  }
  return std::nullopt;
}

std::string_view name_of(DType dtype) {
  for (const Name& name : kDTypeNames) {
    if (name.dtype == dtype) return name.text;
  }
  fail(ErrorCode::kInternal, "safetensors have no name for ", dtype_name(dtype));
}

// Where in the header the next event stands.
enum class Place : uint8_t { kStart, kNames, kMetadata, kTensor, kList, kEnd };
enum Field : unsigned { kDType = 1, kShape = 2, kOffsets = 4, kAllFields = 7 };

class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string_view path) : path_(path) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a bool"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected(concat("the number ", text.substr(0, 40), ", which is no 64-bit integer"));
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kList) unexpected("a number");
    const size_t limit = field_ == kShape ? kMaxFileRank : 2;
    if (list_.size() == limit) refuse_tensor("has more than ", limit, " numbers in a list");
    list_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace_back(std::move(key_), std::move(value));
      return true;
    }
    if (place_ != Place::kTensor || field_ != kDType) unexpected("a string");
    const std::optional<DType> dtype = find_name(value);
    if (!dtype) refuse_tensor("has the dtype ", tenon::quoted(value), ", which cannot be read");
    record_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kNames;
    } else if (place_ == Place::kNames && key_ == kMetadataName) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kNames) {
      place_ = Place::kTensor;
      record_ = {};
      record_.name = key_;
      seen_ = 0;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (seen_ != kAllFields) refuse_tensor("lacks dtype, shape or data_offsets");
      header_.records.push_back(std::move(record_));
    }
    place_ = place_ == Place::kNames ? Place::kEnd : Place::kNames;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || (field_ != kShape && field_ != kOffsets)) unexpected("a list");
    place_ = Place::kList;
    list_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (field_ == kShape) {
      for (const uint64_t dim : list_) {
        if (dim > uint64_t{std::numeric_limits<int64_t>::max()}) {
          refuse_tensor("has the dim ", dim, ", which is too large");
        }
        record_.shape.push_back(static_cast<int64_t>(dim));
      }
      return true;
    }
    if (list_.size() != 2) refuse_tensor("has ", list_.size(), " data_offsets, wanted 2");
    record_.begin = list_[0];
    record_.end = list_[1];
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTensor) {
      field_ = field_of(name);
      if ((seen_ & field_) != 0) refuse_tensor("has ", tenon::quoted(name), " twice");
      seen_ |= field_;
      return true;
    }
    std::unordered_set<std::string>& names =
        place_ == Place::kMetadata ? metadata_names_ : tensor_names_;
    if (!names.insert(name).second) refuse("the name ", tenon::quoted(name), " stands there twice");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    refuse("the header is not JSON at byte ", position, ": ", error.what());
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::kInvalidArgument, "safetensors file '", path_, "': ", parts...);
  }
  template <typename... Parts>
  [[noreturn]] void refuse_tensor(const Parts&... parts) const {
    refuse("tensor ", tenon::quoted(record_.name), " ", parts...);
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    const bool is_in_tensor = place_ == Place::kTensor || place_ == Place::kList;
    refuse("the header has ", what, " where it may not stand, ",
           is_in_tensor ? concat("in tensor ", tenon::quoted(record_.name))
                        : concat("after the name ", tenon::quoted(key_)));
  }
  Field field_of(std::string_view name) const {
    if (name == "dtype") return kDType;
    if (name == "shape") return kShape;
    if (name == "data_offsets") return kOffsets;
    refuse_tensor("has the unknown field ", tenon::quoted(name));
  }

  std::string_view path_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  std::string key_;  // the last name on the level of tensors or metadata
  SafetensorsRecord record_;
  Field field_ = kDType;
  unsigned seen_ = 0;
  std::vector<uint64_t> list_;
  std::unordered_set<std::string> tensor_names_;
  std::unordered_set<std::string> metadata_names_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view path) {
  // The JSON library skips a byte order mark and takes a zero byte for the end.
  if (!json.starts_with('{') || json.find('\0') != std::string_view::npos) {
    fail(ErrorCode::kInvalidArgument, "safetensors file '", path,
         "': the header does not start with '{' or holds a zero byte");
  }
  HeaderReader reader(path);
  Json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

std::string make_safetensors_header(const SafetensorsHeader& header, std::string_view path) {
  const auto text_of = [&](std::string_view text) {
    try {
      return Json(text).dump();
    } catch (const Json::type_error&) {
      fail(ErrorCode::kInvalidArgument, "writing safetensors file '", path,
           "': ", tenon::quoted(text), " is not UTF-8");
    }
  };
  std::string out = "{";
  std::string_view separator;
  if (!header.metadata.empty()) {
    append(out, text_of(kMetadataName), ":{");
    for (const auto& [key, value] : header.metadata) {
      append(out, separator, text_of(key), ":", text_of(value));
      separator = ",";
    }
    out += '}';
  }
  for (const SafetensorsRecord& record : header.records) {
    append(out, separator, text_of(record.name), ":{\"dtype\":\"", name_of(record.dtype),
           "\",\"shape\":[", join(record.shape, ","), "],\"data_offsets\":[", record.begin, ",",
           record.end, "]}");
    separator = ",";
  }
  return out + "}";
}

}  // namespace tenon::detail
