// The handle: making one from data, reading it, realising it, moving it between devices.
// SPDX-License-Identifier: MIT

#include "tenon/tensor/tensor.h"

#include <bit>

#include "tenon/base/host_memory.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"

namespace tenon {
namespace {

// Elements of another dtype, converted on the host by the rules that astype has.
std::vector<std::byte> converted(std::span<const std::byte> bytes, DType from, DType to) {
  static_assert(std::endian::native == std::endian::little);
  const auto size_from = static_cast<size_t>(dtype_size_bytes(from));
  const auto size_to = static_cast<size_t>(dtype_size_bytes(to));
  const size_t count = bytes.size() / size_from;
  std::vector<std::byte> out =
      host_bytes(static_cast<int64_t>(count * size_to), "converting data of a tensor");
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size_from, size_from);
    bits = eval_cast(canonical_bits(from, bits), from, to);
    std::memcpy(out.data() + i * size_to, &bits, size_to);
  }
  return out;
}

void check_data(std::span<const std::byte> bytes, DType dtype, const Shape& shape) {
  TENON_CHECK(dtype_kind(dtype) != DTypeKind::kIndex, ErrorCode::kInvalidArgument,
              "from_bytes: dtype index has no storage");
  const int64_t wanted = num_elements(shape);
  const int64_t given = std::ssize(bytes) / dtype_size_bytes(dtype);
  TENON_CHECK(given == wanted && given * dtype_size_bytes(dtype) == std::ssize(bytes),
              ErrorCode::kInvalidArgument, "tensor: the data has ", given, " elements of ",
              dtype_long_name(dtype), " (", bytes.size(), " bytes), shape ", shape, " needs ",
              wanted);
}

void realize_nodes(std::vector<Tensor*> tensors) {
  std::vector<Node> nodes;
  nodes.reserve(tensors.size());
  for (const Tensor* tensor : tensors)
    nodes.push_back(tensor->node());
  realize(std::span<const Node>(nodes));
  for (size_t i = 0; i < nodes.size(); ++i)
    *tensors[i] = Tensor(realized_leaf(nodes[i]));
}

}  // namespace

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, DType dtype, const Shape& shape,
                          const TensorOptions& options) {
  check_data(bytes, dtype, shape);
  Device& device = options.device != nullptr ? *options.device : Device::get_default();
  if (!options.dtype || *options.dtype == dtype) {
    return Tensor(buffer_from_bytes(device, dtype, shape, bytes));
  }
  const std::vector<std::byte> data = converted(bytes, dtype, *options.dtype);
  return Tensor(buffer_from_bytes(device, *options.dtype, shape, data));
}

Tensor Tensor::from_host(const HostBytes& host, DType dtype, const Shape& shape,
                         const TensorOptions& options) {
  if (options.dtype && *options.dtype != dtype) {
    return from_bytes(host.bytes, dtype, shape, options);
  }
  check_data(host.bytes, dtype, shape);
  Device& device = options.device != nullptr ? *options.device : Device::get_default();
  return Tensor(buffer_from_host(device, dtype, shape, host));
}

const Node& Tensor::node() const {
  TENON_CHECK(node_, ErrorCode::kInvalidArgument,
              "tensor: has no value; it was default-constructed. Assign one first");
  return node_;
}

Shape Tensor::shape() const {
  return {node().shape().begin(), node().shape().end()};
}

int64_t Tensor::dim(int64_t axis) const {
  const ShapeView dims = node().shape();
  return dims[static_cast<size_t>(detail::normalize_axis("dim", axis, dims))];
}

int64_t Tensor::ndim() const {
  return std::ssize(node().shape());
}

int64_t Tensor::size() const {
  return num_elements(node().shape());
}

DType Tensor::dtype() const {
  return node().dtype();
}

Device& Tensor::device() const {
  Device* device = device_of(node());
  return device != nullptr ? *device : Device::get_default();
}

Tensor& Tensor::realize() {
  realize_nodes({this});
  return *this;
}

Tensor& Tensor::set_constant() {
  realize();
  tenon::set_constant(node());
  return *this;
}

void realize(std::initializer_list<Tensor*> tensors) {
  realize_nodes({tensors.begin(), tensors.end()});
}

void realize(std::span<Tensor> tensors) {
  std::vector<Tensor*> list;
  for (Tensor& tensor : tensors)
    list.push_back(&tensor);
  realize_nodes(std::move(list));
}

std::vector<std::byte> Tensor::to_bytes() const {
  tenon::realize(std::span<const Node>(&node(), 1));
  return read_bytes(node());
}

std::vector<std::byte> Tensor::read_as(DType expected, std::string_view where) const {
  TENON_CHECK(dtype() == expected, ErrorCode::kInvalidArgument, where, ": the tensor is ",
              dtype_long_name(dtype()), ", the C++ type is ", dtype_long_name(expected),
              ". Use astype first");
  return to_bytes();
}

Tensor Tensor::to(Device& device) const {
  if (device_of(node()) == &device) return *this;
  return Tensor(tensor_copy(node(), device.number()));
}

Tensor Tensor::contiguous() const {
  return Tensor(tensor_contiguous(node()));
}

Tensor Tensor::astype(DType dtype) const {
  return Tensor(detail::cast_node(node(), dtype));
}

Tensor Tensor::bitcast(DType dtype) const {
  return dtype == this->dtype() ? *this : Tensor(tensor_bitcast(node(), dtype));
}

Tensor& Tensor::assign(const Tensor& value) {
  TENON_CHECK(shape() == value.shape(), ErrorCode::kInvalidArgument,
              "assign: shapes differ; the target is ", shape(), ", the value is ", value.shape(),
              ". Use setitem with {kEllipsis} to broadcast");
  TENON_CHECK(dtype() == value.dtype(), ErrorCode::kInvalidArgument,
              "assign: dtypes differ; the target is ", dtype_long_name(dtype()), ", the value is ",
              dtype_long_name(value.dtype()), ". Use astype on the value");
  node_ = value.node_;
  return *this;
}

}  // namespace tenon
