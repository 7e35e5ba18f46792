// Reading checks that head and data fill the file exactly, then brings the elements into row-major
// little-endian order if they are not. SPDX-License-Identifier: MIT

#include "tenon/io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tenon/base/error.h"
#include "tenon/base/host_memory.h"
#include "tenon/base/text.h"
#include "tenon/io/npy_header.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie");

void swap_bytes_of_each(std::vector<std::byte>& bytes, size_t element_bytes) {
  for (size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    std::reverse(begin, begin + static_cast<std::ptrdiff_t>(element_bytes));
  }
}

// `source` has the first axis fastest; the result has the last axis fastest. No axis is empty.
std::vector<std::byte> row_major_of(std::span<const std::byte> source,
                                    std::span<const int64_t> shape, size_t element_bytes) {
  std::vector<size_t> strides(shape.size());  // in the source, in bytes
  size_t stride = element_bytes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<size_t>(shape[axis]);
  }
  std::vector<std::byte> out(source.size());
  std::vector<int64_t> index(shape.size(), 0);
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += element_bytes) {
    std::memcpy(out.data() + to, source.data() + from, element_bytes);
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= strides[axis] * static_cast<size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return out;
}

std::vector<std::byte> read_all(const std::string& path) {
  const OpenFile file = OpenFile::existing(path);
  std::vector<std::byte> bytes =
      host_bytes(static_cast<int64_t>(file.size_bytes()), concat("reading '", path, "'"));
  file.read_at(0, bytes);
  return bytes;
}

}  // namespace

ArrayView NpyArray::view() const {
  ArrayView array = in_file_;
  if (is_converted_) array.bytes = converted_;
  return array;
}

NpyArray parse_npy(std::span<const std::byte> bytes, std::string_view path) {
  const detail::NpyHeader header = detail::parse_npy_header(bytes, path);
  const auto refuse = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidArgument, "npy file '", path, "': ", parts...);
  };
  const auto data = bytes.subspan(header.size_bytes);
  const std::optional<int64_t> size_bytes = array_size_bytes(header.dtype, header.shape);
  if (!size_bytes) refuse("the shape ", format_shape(header.shape), " is too large");
  if (static_cast<uint64_t>(*size_bytes) != data.size()) {
    refuse("the shape ", format_shape(header.shape), " of ", dtype_long_name(header.dtype),
           " takes ", *size_bytes, " bytes, the file has ", data.size(), " after the header");
  }
  NpyArray array;
  array.in_file_ = {header.dtype, header.shape, data};
  if (const std::optional<size_t> bad = find_bad_bool(array.in_file_)) {
    refuse("element ", *bad, " of the bool array is neither 0 nor 1");
  }
  const auto element_bytes = static_cast<size_t>(dtype_size_bytes(header.dtype));
  const auto num_long_axes =
      std::count_if(header.shape.begin(), header.shape.end(), [](int64_t dim) { return dim > 1; });
  const bool is_transposed = header.is_fortran_order && num_long_axes > 1 && !data.empty();
  array.is_converted_ = is_transposed || header.is_big_endian;
  if (is_transposed) {
    array.converted_ = row_major_of(data, header.shape, element_bytes);
  } else if (header.is_big_endian) {
    array.converted_.assign(data.begin(), data.end());
  }
  if (header.is_big_endian) swap_bytes_of_each(array.converted_, element_bytes);
  return array;
}

NpyFile::NpyFile(const std::string& path)
    : bytes_(read_all(path)), array_(parse_npy(bytes_, path)) {}

void write_npy(const std::string& path, const ArrayView& array) {
  const auto refuse = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidArgument, "writing npy file '", path, "': ", parts...);
  };
  if (dtype_bits(array.dtype) == 0 || detail::npy_descr(array.dtype).empty()) {
    refuse("NumPy has no ", dtype_long_name(array.dtype), ". Cast it, or write safetensors");
  }
  if (array.shape.size() > kMaxFileRank) refuse(array.shape.size(), " axes are too many");
  const std::optional<int64_t> size_bytes = array_size_bytes(array.dtype, array.shape);
  if (!size_bytes || static_cast<uint64_t>(*size_bytes) != array.bytes.size()) {
    refuse(array.bytes.size(), " bytes do not fit the shape ", format_shape(array.shape), " of ",
           dtype_long_name(array.dtype));
  }
  std::string file = detail::make_npy_header(array.dtype, array.shape);
  file.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  write_file_atomic(path, file);
}

}  // namespace tenon
