// The table of operators. SPDX-License-Identifier: MIT

#include "tests/webnn/webnn_build.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "tenon/base/error.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::webnn {
namespace {

using Sizes = std::vector<int64_t>;

// A case with typed access to its operands and arguments; every argument must be asked for.
class Call {
 public:
  explicit Call(const Case& item) : item_(item) {}

  Tensor operand(const std::string& argument) const {
    const auto name = find<std::string>(argument);
    TENON_CHECK(name && item_.operands.contains(*name), ErrorCode::kInvalidArgument,
                "no operand for argument '", argument, "'");
    return make_tensor(item_.operands.at(*name));
  }
  std::optional<Tensor> optional_operand(const std::string& argument) const {
    return has(argument) ? std::optional(operand(argument)) : std::nullopt;
  }
  bool has(const std::string& name) const { return item_.arguments.contains(name); }
  template <typename T>
  std::optional<T> find(const std::string& name) const {
    read_.insert(name);
    const auto found = item_.arguments.find(name);
    return found == item_.arguments.end() ? std::nullopt
                                          : std::optional(std::get<T>(found->second));
  }
  std::string word(const std::string& name, const char* fallback) const {
    return find<std::string>(name).value_or(fallback);
  }
  Pair pair(const std::string& name, const Pair& fallback) const {
    const auto list = find<Sizes>(name);
    return list ? Pair{list->at(0), list->at(1)} : fallback;
  }
  /// beginningHeight, endingHeight, beginningWidth, endingWidth.
  std::array<Pair, 2> padding() const {
    const Sizes list = find<Sizes>("padding").value_or(Sizes{0, 0, 0, 0});
    return {Pair{list.at(0), list.at(1)}, Pair{list.at(2), list.at(3)}};
  }
  void check_all_read() const {
    for (const auto& [name, unused] : item_.arguments) {
      if (!read_.contains(name)) throw Inexpressible{concat(item_.op, ": attribute ", name)};
    }
  }

 private:
  const Case& item_;
  mutable std::set<std::string> read_;
};

struct Built {
  Tensor tensor;
  int64_t length = 1;
};

int64_t product_of(const Tensor& x, const Sizes& axes) {
  int64_t product = 1;
  for (const int64_t axis : axes)
    product *= x.dim(axis);
  return product;
}

// What the specification writes as several operators of which one that is not the last rounds (a
// square, a sum before log) is computed wide and rounded once, as compositions of the API are. All
// else is given to the API in the dtype of the case.
Tensor widened(const Tensor& x) {
  return x.dtype() == DType::kF16 ? x.astype(DType::kF32) : x;
}

using Reduces = Tensor (*)(const Tensor& x, const Axes& axes, const ReduceOptions& options);

// Without `axes` all are reduced; an empty list reduces none.
Built reduce(const Call& call, Reduces reduces) {
  const Tensor x = call.operand("input");
  const auto axes = call.find<Sizes>("axes");
  const ReduceOptions options{
      .keepdims = call.find<bool>("keepDimensions").value_or(false),
      .dtype = is_float(x.dtype()) ? std::nullopt : std::optional(x.dtype())};
  return {.tensor = reduces(x, axes ? Axes(*axes) : kAllAxes, options).astype(x.dtype()),
          .length = axes ? product_of(x, *axes) : x.size()};
}

Built build_conv2d(const Call& call) {
  const std::string layout = call.word("inputLayout", "nchw");
  const std::string filter_layout = call.word("filterLayout", "oihw");
  // Where oihw stand in the filter.
  static const std::map<std::string, Sizes> kFilterAxes = {{"oihw", {0, 1, 2, 3}},
                                                           {"hwio", {3, 2, 0, 1}},
                                                           {"ohwi", {0, 3, 1, 2}},
                                                           {"ihwo", {3, 0, 1, 2}}};
  const Tensor x = call.operand("input");
  const Tensor filter = call.operand("filter").permute(kFilterAxes.at(filter_layout));
  const Conv2dOptions options{
      .stride = call.pair("strides", {1, 1}),
      .padding = call.padding(),
      .dilation = call.pair("dilations", {1, 1}),
      .groups = static_cast<int64_t>(call.find<double>("groups").value_or(1)),
      .bias = call.optional_operand("bias")};
  (void)call.find<std::string>("bias");
  const Tensor out = conv2d(layout == "nhwc" ? x.permute({0, 3, 1, 2}) : x, filter, options);
  return {.tensor = layout == "nhwc" ? out.permute({0, 2, 3, 1}) : out,
          .length = filter.size() / filter.dim(0)};
}

// outputSizes, where given, decides in place of outputPadding.
Built build_conv_transpose2d(const Call& call) {
  const std::string layout = call.word("inputLayout", "nchw");
  const std::string filter_layout = call.word("filterLayout", "iohw");
  static const std::map<std::string, Sizes> kFilterAxes = {
      {"iohw", {0, 1, 2, 3}}, {"hwoi", {3, 2, 0, 1}}, {"ohwi", {3, 0, 1, 2}}};
  const Tensor x = call.operand("input");
  const Tensor filter = call.operand("filter").permute(kFilterAxes.at(filter_layout));
  const Tensor image = layout == "nhwc" ? x.permute({0, 3, 1, 2}) : x;
  ConvTranspose2dOptions options{
      .stride = call.pair("strides", {1, 1}),
      .padding = call.padding(),
      .output_padding = call.pair("outputPadding", {0, 0}),
      .dilation = call.pair("dilations", {1, 1}),
      .groups = static_cast<int64_t>(call.find<double>("groups").value_or(1)),
      .bias = call.optional_operand("bias")};
  (void)call.find<std::string>("bias");
  if (const auto sizes = call.find<Sizes>("outputSizes")) {
    options.output_padding = {0, 0};
    const Tensor least = conv_transpose2d(image, filter, options);
    options.output_padding = {sizes->at(0) - least.dim(2), sizes->at(1) - least.dim(3)};
  }
  const Tensor out = conv_transpose2d(image, filter, options);
  return {.tensor = layout == "nhwc" ? out.permute({0, 2, 3, 1}) : out,
          .length = filter.dim(2) * filter.dim(3) * image.dim(1) / options.groups};
}

// roundingType says how sizes are rounded; outputSizes, where given, decides instead.
Built build_max_pool2d(const Call& call) {
  const std::string layout = call.word("layout", "nchw");
  const Tensor x =
      layout == "nhwc" ? call.operand("input").permute({0, 3, 1, 2}) : call.operand("input");
  const Pair kernel = call.pair("windowDimensions", {x.dim(2), x.dim(3)});
  Pool2dOptions options{.stride = call.pair("strides", {1, 1}),
                        .padding = call.padding(),
                        .dilation = call.pair("dilations", {1, 1}),
                        .ceil_mode = call.word("outputShapeRounding", "floor") == "ceil",
                        .count_include_pad = false};
  options.ceil_mode = options.ceil_mode || call.word("roundingType", "floor") == "ceil";
  Tensor out = max_pool2d(x, kernel, options);
  if (const auto sizes = call.find<Sizes>("outputSizes")) {
    const auto has_sizes = [&] { return out.dim(2) == sizes->at(0) && out.dim(3) == sizes->at(1); };
    options.ceil_mode = false;
    out = max_pool2d(x, kernel, options);
    options.ceil_mode = true;
    if (!has_sizes()) out = max_pool2d(x, kernel, options);
    if (!has_sizes()) throw Inexpressible{"max_pool2d: output sizes rounded up on one axis alone"};
  }
  return {.tensor = layout == "nhwc" ? out.permute({0, 2, 3, 1}) : out, .length = 1};
}

// The axes to normalise go to the end, in the order in which scale and bias have them.
Built build_layer_normalization(const Call& call) {
  const Tensor x = call.operand("input");
  Sizes axes;  // by default all but the first
  for (int64_t axis = 1; axis < x.ndim(); ++axis)
    axes.push_back(axis);
  axes = call.find<Sizes>("axes").value_or(axes);
  Sizes order;
  for (int64_t axis = 0; axis < x.ndim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  Sizes back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  NormOptions options{.weight = call.optional_operand("scale"),
                      .bias = call.optional_operand("bias"),
                      .eps = call.find<double>("epsilon").value_or(1e-5),
                      .num_axes = std::ssize(axes)};
  (void)call.find<std::string>("scale");
  (void)call.find<std::string>("bias");
  const int64_t length = product_of(x, axes);
  Tensor moved = x.permute(order);
  if (!axes.empty()) return {layernorm(moved, options).permute(back), length};
  // Without axes each element is its own mean: one axis of size 1.
  options.num_axes = 1;
  if (options.weight) options.weight = options.weight->expand_dims(0);
  if (options.bias) options.bias = options.bias->expand_dims(0);
  return {layernorm(moved.expand_dims(-1), options).squeeze(-1).permute(back), length};
}

Built build_matmul(const Call& call) {
  const Tensor a = call.operand("a");
  return {.tensor = a.matmul(call.operand("b")), .length = a.dim(-1)};
}

Built build_softmax(const Call& call) {
  const Tensor x = call.operand("input");
  const auto axis = static_cast<int64_t>(call.find<double>("axis").value());
  return {.tensor = softmax(x, axis), .length = x.dim(axis)};
}

using Builder = std::function<Built(const Call&)>;

Builder reducing(Reduces reduces) {
  return [reduces](const Call& call) { return reduce(call, reduces); };
}

const std::map<std::string, Builder>& builders() {
  using T = const Tensor&;
  using A = const Axes&;
  using O = const ReduceOptions&;
  static const std::map<std::string, Builder> kTable = {
      {"conv2d", build_conv2d},
      {"convTranspose2d", build_conv_transpose2d},
      {"layerNormalization", build_layer_normalization},
      {"matmul", build_matmul},
      {"maxPool2d", build_max_pool2d},
      {"reduceL1", reducing([](T x, A a, O o) { return x.abs().sum(a, o); })},
      {"reduceL2", reducing([](T x, A a, O o) { return widened(x).square().sum(a, o).sqrt(); })},
      {"reduceLogSum", reducing([](T x, A a, O o) { return widened(x).sum(a, o).log(); })},
      {"reduceLogSumExp", reducing([](T x, A a, O o) { return logsumexp(x, a, o.keepdims); })},
      {"reduceMax", reducing([](T x, A a, O o) { return x.max(a, o); })},
      {"reduceMean", reducing([](T x, A a, O o) { return x.mean(a, o); })},
      {"reduceMin", reducing([](T x, A a, O o) { return x.min(a, o); })},
      {"reduceProduct", reducing([](T x, A a, O o) { return x.prod(a, o); })},
      {"reduceSum", reducing([](T x, A a, O o) { return x.sum(a, o); })},
      {"reduceSumSquare", reducing([](T x, A a, O o) { return widened(x).square().sum(a, o); })},
      {"softmax", build_softmax},
  };
  return kTable;
}

}  // namespace

Tensor make_tensor(const Operand& operand) {
  const TensorOptions options{.dtype = operand.dtype, .device = nullptr};
  if (operand.is_constant && operand.data.size() == 1) {
    return full(operand.shape, operand.data[0], options);
  }
  return Tensor::from_data(operand.data, operand.shape, options);
}

Tensor build(const Case& item, int64_t& length) {
  const auto builder = builders().find(item.op);
  if (builder == builders().end()) throw Inexpressible{concat("operator ", item.op)};
  const Call call(item);
  (void)call.find<std::string>("label");  // a name for messages
  Built built = builder->second(call);
  call.check_all_read();
  length = built.length;
  return built.tensor;
}

}  // namespace tenon::webnn
