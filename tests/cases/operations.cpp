// The table of operations. SPDX-License-Identifier: MIT

#include "tests/cases/operations.h"

#include <functional>
#include <span>

#include "tenon/base/error.h"
#include "tenon/io/npy.h"
#include "tenon/io/safetensors.h"
#include "tenon/tensor/cast.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/random.h"
#include "tenon/tensor/resize.h"
#include "tenon/tensor/sorting.h"
#include "tests/cases/values.h"

namespace tenon::cases {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// One step with its environment: typed access to operands and attributes.
class Call {
 public:
  Call(const Step& step, Environment& environment) : step_(step), environment_(environment) {}

  size_t num_inputs() const { return step_.in.size(); }
  const Tensor& in(size_t i = 0) const {
    TENON_CHECK(i < step_.in.size(), kInvalid, "case file: step ", step_.op, " has ",
                step_.in.size(), " inputs");
    return environment_.get(step_.in[i]);
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors;
    for (const std::string& name : step_.in)
      tensors.push_back(environment_.get(name));
    return tensors;
  }
  const std::string& out(size_t i) const {
    TENON_CHECK(i < step_.out.size(), kInvalid, "case file: step ", step_.op, " names ",
                step_.out.size(), " outputs");
    return step_.out[i];
  }
  std::span<const std::byte> file() const {
    const auto found = environment_.files.find(step_.in.at(0));
    TENON_CHECK(found != environment_.files.end(), kInvalid, "case file: '", step_.in.at(0),
                "' is no file");
    return found->second;
  }
  Tensor& target() const { return environment_.get(attrs().get("target").text()); }
  Environment& environment() const { return environment_; }

  const Attributes& attrs() const { return step_.attrs; }
  std::optional<DType> dtype() const {
    const Value* value = attrs().find("dtype");
    return value == nullptr ? std::nullopt : std::optional(dtype_named(value->text()));
  }
  TensorOptions options() const { return {.dtype = dtype(), .device = nullptr}; }
  int64_t integer(const std::string& name, int64_t fallback) const {
    const Value* value = attrs().find(name);
    return value == nullptr ? fallback : value->integer();
  }
  bool flag(const std::string& name) const {
    const Value* value = attrs().find(name);
    return value != nullptr && value->boolean();
  }
  std::vector<int64_t> integers(const std::string& name) const {
    return attrs().get(name).integers();
  }
  /// Without the attribute: all axes.
  Axes axes(const std::string& name = "axis") const {
    const Value* value = attrs().find(name);
    if (value == nullptr) return kAllAxes;
    return value->is_list() ? Axes(value->integers()) : Axes(value->integer());
  }
  std::optional<int64_t> axis() const {
    const Value* value = attrs().find("axis");
    return value == nullptr ? std::nullopt : std::optional(value->integer());
  }
  ReduceOptions reduce_options() const { return {.keepdims = flag("keepdims"), .dtype = dtype()}; }
  /// Without the attribute: that of the input, as a step computes in the dtype of its inputs.
  std::optional<DType> sum_dtype() const {
    const std::optional<DType> given = dtype();
    return given || in().dtype() == DType::kBool ? given : in().dtype();
  }
  ReduceOptions sum_options() const { return {.keepdims = flag("keepdims"), .dtype = sum_dtype()}; }
  Pair pair(const std::string& name, const Pair& fallback) const {
    const Value* value = attrs().find(name);
    if (value == nullptr) return fallback;
    const std::vector<int64_t> list = value->integers();
    TENON_CHECK(list.size() == 2, kInvalid, "case file: '", name, "' has ", list.size(),
                " entries, expected 2");
    return {list[0], list[1]};
  }
  /// `pad` of an image: [[top, bottom], [left, right]], or [height, width] for both sides.
  std::array<Pair, 2> image_padding() const {
    std::array<Pair, 2> out{};
    const Value* value = attrs().find("pad");
    for (size_t i = 0; value != nullptr && i < 2; ++i) {
      const Value& side = value->list().at(i);
      out[i] = side.is_list() ? Pair{side.list().at(0).integer(), side.list().at(1).integer()}
                              : Pair{side.integer(), side.integer()};
    }
    return out;
  }

 private:
  const Step& step_;
  Environment& environment_;
};

Slice slice_of(const Value& value) {
  const auto bound = [&](size_t i) {
    const Value& item = value.list().at(i);
    return item.is_null() ? std::nullopt : std::optional(item.integer());
  };
  return {.start = bound(0), .stop = bound(1), .step = bound(2)};
}

Index index_of(const Value& value) {
  Index index;
  for (const Value& item : value.list()) {
    if (item.is_null()) {
      index.emplace_back(kAll);
    } else if (item.is_list()) {
      index.emplace_back(slice_of(item));
    } else {
      index.emplace_back(item.integer());
    }
  }
  return index;
}

Tensor run_arange(const Call& call) {
  const auto number = [&](const char* name, int fallback) {
    const Value* value = call.attrs().find(name);
    return value == nullptr ? Scalar(fallback) : value->number();
  };
  return arange(number("start", 0), call.attrs().get("stop").number(), number("step", 1),
                call.options());
}

Tensor run_cast(const Call& call) {
  const DType dtype = dtype_named(call.attrs().get("dtype").text());
  return call.flag("saturate") ? saturate_cast(call.in(), dtype) : call.in().astype(dtype);
}

Tensor run_pad(const Call& call) {
  Pads pads;
  for (const Value& side : call.attrs().get("pads").list())
    pads.emplace_back(side.list().at(0).integer(), side.list().at(1).integer());
  const Value* value = call.attrs().find("value");
  return call.in().pad(pads, value == nullptr ? Scalar(0) : value->number());
}

Tensor run_softmax(const Call& call) {
  const int64_t opset = call.integer("opset", 13);
  if (opset < 13) throw Inexpressible{concat("softmax: attribute opset ", opset, " (flattening)")};
  return softmax(call.in(), call.integer("axis", -1));
}

Pool2dOptions pool_options(const Call& call) {
  Pool2dOptions options{.stride = std::nullopt,
                        .padding = call.image_padding(),
                        .dilation = call.pair("dilation", {1, 1}),
                        .ceil_mode = call.flag("ceil_mode"),
                        .count_include_pad = call.flag("count_include_pad")};
  if (call.attrs().find("stride") != nullptr) options.stride = call.pair("stride", {1, 1});
  return options;
}

Pair kernel_of(const Call& call) {
  (void)call.attrs().get("kernel");
  return call.pair("kernel", {});
}

Tensor run_conv2d(const Call& call) {
  const Conv2dOptions options{
      .stride = call.pair("stride", {1, 1}),
      .padding = call.image_padding(),
      .dilation = call.pair("dilation", {1, 1}),
      .groups = call.integer("groups", 1),
      .bias = call.num_inputs() > 2 ? std::optional(call.in(2)) : std::nullopt};
  return conv2d(call.in(0), call.in(1), options);
}

Tensor run_conv_transpose2d(const Call& call) {
  const ConvTranspose2dOptions options{
      .stride = call.pair("stride", {1, 1}),
      .padding = call.image_padding(),
      .output_padding = call.pair("output_padding", {0, 0}),
      .dilation = call.pair("dilation", {1, 1}),
      .groups = call.integer("groups", 1),
      .bias = call.num_inputs() > 2 ? std::optional(call.in(2)) : std::nullopt};
  return conv_transpose2d(call.in(0), call.in(1), options);
}

Tensor run_interpolate(const Call& call) {
  static const std::map<std::string, Interpolation> kModes = {
      {"linear", Interpolation::kLinear},
      {"nearest", Interpolation::kNearest},
      {"nearest-exact", Interpolation::kNearestExact}};
  const std::string& mode = call.attrs().get("mode").text();
  if (!kModes.contains(mode)) throw Inexpressible{concat("interpolate: mode ", mode)};
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const Value& pair : call.attrs().get("sizes").list())
    sizes.emplace_back(pair.list().at(0).integer(), pair.list().at(1).integer());
  return interpolate(call.in(), sizes, kModes.at(mode));
}

Tensor run_one_hot(const Call& call) {
  return one_hot(call.in(), call.attrs().get("classes").integer(), call.dtype());
}

Tensor run_rand(const Call& call) {
  const RandomOptions options{
      .dtype = call.dtype().value_or(DType::kF32), .device = nullptr, .generator = nullptr};
  return rand(call.integers("shape"), options);
}

void add_file_tensor(const Call& call, const std::string& name, const ArrayView& view) {
  call.environment().tensors[name] = Tensor::from_bytes(view.bytes, view.dtype, view.shape);
}

void run_load_safetensors(const Call& call) {
  for (const SafetensorsEntry& entry : parse_safetensors(call.file(), "case file").entries)
    add_file_tensor(call, entry.name, entry.array);
}

void run_topk(const Call& call) {
  const Sorted largest = topk(call.in(), call.attrs().get("k").integer(), call.integer("axis", -1));
  call.environment().tensors[call.out(0)] = largest.values;
  call.environment().tensors[call.out(1)] = largest.indices;
}

void run_load_npy(const Call& call) {
  const NpyArray array = parse_npy(call.file(), "case file");
  add_file_tensor(call, "arr", array.view());
}

using MakesTensor = std::function<Tensor(const Call&)>;

const std::map<std::string, MakesTensor>& elementwise_operations() {
  static const std::map<std::string, MakesTensor> kTable = {
      {"abs", [](const Call& c) { return c.in().abs(); }},
      {"add", [](const Call& c) { return c.in(0) + c.in(1); }},
      {"bitand", [](const Call& c) { return c.in(0) & c.in(1); }},
      {"bitcast", [](const Call& c) { return c.in().bitcast(*c.dtype()); }},
      {"bitor", [](const Call& c) { return c.in(0) | c.in(1); }},
      {"bitxor", [](const Call& c) { return c.in(0) ^ c.in(1); }},
      {"cast", run_cast},
      {"ceil", [](const Call& c) { return c.in().ceil(); }},
      {"clip", [](const Call& c) { return c.in(0).clip(c.in(1), c.in(2)); }},
      {"cos", [](const Call& c) { return c.in().cos(); }},
      {"div", [](const Call& c) { return c.in(0) / c.in(1); }},
      {"eq", [](const Call& c) { return c.in(0) == c.in(1); }},
      {"exp", [](const Call& c) { return c.in().exp(); }},
      {"exp2", [](const Call& c) { return c.in().exp2(); }},
      {"floor", [](const Call& c) { return c.in().floor(); }},
      {"floordiv", [](const Call& c) { return c.in(0).floor_divide(c.in(1)); }},
      {"fmod", [](const Call& c) { return c.in(0).fmod(c.in(1)); }},
      {"ge", [](const Call& c) { return c.in(0) >= c.in(1); }},
      {"gt", [](const Call& c) { return c.in(0) > c.in(1); }},
      {"invert", [](const Call& c) { return ~c.in(); }},
      {"isfinite", [](const Call& c) { return c.in().isfinite(); }},
      {"isinf", [](const Call& c) { return c.in().isinf(); }},
      {"isnan", [](const Call& c) { return c.in().isnan(); }},
      {"le", [](const Call& c) { return c.in(0) <= c.in(1); }},
      {"log", [](const Call& c) { return c.in().log(); }},
      {"log2", [](const Call& c) { return c.in().log2(); }},
      {"logical_and", [](const Call& c) { return c.in(0).logical_and(c.in(1)); }},
      {"logical_not", [](const Call& c) { return c.in().logical_not(); }},
      {"logical_or", [](const Call& c) { return c.in(0).logical_or(c.in(1)); }},
      {"lt", [](const Call& c) { return c.in(0) < c.in(1); }},
      {"maximum", [](const Call& c) { return c.in(0).maximum(c.in(1)); }},
      {"minimum", [](const Call& c) { return c.in(0).minimum(c.in(1)); }},
      {"mod", [](const Call& c) { return c.in(0).remainder(c.in(1)); }},
      {"mul", [](const Call& c) { return c.in(0) * c.in(1); }},
      {"ne", [](const Call& c) { return c.in(0) != c.in(1); }},
      {"neg", [](const Call& c) { return -c.in(); }},
      {"reciprocal", [](const Call& c) { return c.in().reciprocal(); }},
      {"relu", [](const Call& c) { return c.in().relu(); }},
      {"round", [](const Call& c) { return c.in().round(); }},
      {"rsqrt", [](const Call& c) { return c.in().rsqrt(); }},
      {"shl", [](const Call& c) { return c.in(0) << c.in(1); }},
      {"shr", [](const Call& c) { return c.in(0) >> c.in(1); }},
      {"sigmoid", [](const Call& c) { return c.in().sigmoid(); }},
      {"sign", [](const Call& c) { return c.in().sign(); }},
      {"sin", [](const Call& c) { return c.in().sin(); }},
      {"sqrt", [](const Call& c) { return c.in().sqrt(); }},
      {"square", [](const Call& c) { return c.in().square(); }},
      {"sub", [](const Call& c) { return c.in(0) - c.in(1); }},
      {"tan", [](const Call& c) { return c.in().tan(); }},
      {"tanh", [](const Call& c) { return c.in().tanh(); }},
      {"trunc", [](const Call& c) { return c.in().trunc(); }},
      {"truncdiv", [](const Call& c) { return c.in(0).trunc_divide(c.in(1)); }},
      {"where", [](const Call& c) { return where(c.in(0), c.in(1), c.in(2)); }},
  };
  return kTable;
}

const std::map<std::string, MakesTensor>& other_operations() {
  static const std::map<std::string, MakesTensor> kTable = {
      {"all", [](const Call& c) { return c.in().all(c.axes(), c.reduce_options()); }},
      {"any", [](const Call& c) { return c.in().any(c.axes(), c.reduce_options()); }},
      {"arange", run_arange},
      {"argsort",
       [](const Call& c) { return argsort(c.in(), c.integer("axis", -1), c.flag("descending")); }},
      {"argmax", [](const Call& c) { return c.in().argmax(c.axis(), c.reduce_options()); }},
      {"argmin", [](const Call& c) { return c.in().argmin(c.axis(), c.reduce_options()); }},
      {"avg_pool2d",
       [](const Call& c) { return avg_pool2d(c.in(), kernel_of(c), pool_options(c)); }},
      {"concat", [](const Call& c) { return concatenate(c.all(), c.integer("axis", 0)); }},
      {"const",
       [](const Call& c) { return full({}, c.attrs().get("value").number(), c.options()); }},
      {"contiguous", [](const Call& c) { return c.in().contiguous(); }},
      {"conv2d", run_conv2d},
      {"conv_transpose2d", run_conv_transpose2d},
      {"cumsum", [](const Call& c) { return c.in().cumsum(c.axis(), c.sum_dtype()); }},
      {"expand", [](const Call& c) { return c.in().broadcast_to(c.integers("shape")); }},
      {"flip", [](const Call& c) { return c.in().flip(c.axes("axes")); }},
      {"interpolate", run_interpolate},
      {"log_softmax", [](const Call& c) { return log_softmax(c.in(), c.integer("axis", -1)); }},
      {"logcumsumexp", [](const Call& c) { return logcumsumexp(c.in(), c.integer("axis", -1)); }},
      {"logsumexp", [](const Call& c) { return logsumexp(c.in(), c.axes(), c.flag("keepdims")); }},
      {"matmul", [](const Call& c) { return c.in(0).matmul(c.in(1), c.dtype()); }},
      {"max", [](const Call& c) { return c.in().max(c.axes(), c.reduce_options()); }},
      {"max_pool2d",
       [](const Call& c) { return max_pool2d(c.in(), kernel_of(c), pool_options(c)); }},
      {"mean", [](const Call& c) { return c.in().mean(c.axes(), c.reduce_options()); }},
      {"min", [](const Call& c) { return c.in().min(c.axes(), c.reduce_options()); }},
      {"one_hot", run_one_hot},
      {"pad", run_pad},
      {"permute", [](const Call& c) { return c.in().permute(c.integers("axes")); }},
      {"prod", [](const Call& c) { return c.in().prod(c.axes(), c.sum_options()); }},
      {"rand", run_rand},
      {"reshape", [](const Call& c) { return c.in().reshape(c.integers("shape")); }},
      {"slice", [](const Call& c) { return c.in().getitem(index_of(c.attrs().get("index"))); }},
      {"softmax", run_softmax},
      {"sort",
       [](const Call& c) { return sort(c.in(), c.integer("axis", -1), c.flag("descending")); }},
      {"stack", [](const Call& c) { return stack(c.all(), c.integer("axis", 0)); }},
      {"sum", [](const Call& c) { return c.in().sum(c.axes(), c.sum_options()); }},
      // The sample variance, unless ddof says otherwise.
      {"var",
       [](const Call& c) {
         return c.in().var(c.axes(), static_cast<double>(c.integer("ddof", 1)), c.reduce_options());
       }},
  };
  return kTable;
}

// Those that change a tensor or name several.
const std::map<std::string, std::function<void(const Call&)>>& statements() {
  static const std::map<std::string, std::function<void(const Call&)>> kTable = {
      {"assign", [](const Call& c) { c.target().assign(c.in()); }},
      {"load_npy", run_load_npy},
      {"load_safetensors", run_load_safetensors},
      {"setitem",
       [](const Call& c) { c.target().setitem(index_of(c.attrs().get("index")), c.in()); }},
      {"topk", run_topk},
  };
  return kTable;
}

const MakesTensor& operation_named(const std::string& name) {
  for (const auto* table : {&elementwise_operations(), &other_operations()}) {
    if (const auto found = table->find(name); found != table->end()) return found->second;
  }
  throw Inexpressible{concat("op ", name)};
}

}  // namespace

Tensor& Environment::get(const std::string& name) {
  const auto found = tensors.find(name);
  TENON_CHECK(found != tensors.end(), kInvalid, "case file: there is no tensor '", name, "'");
  return found->second;
}

bool is_elementwise(const std::string& op) {
  return op == "const" || elementwise_operations().contains(op);
}

void run_step(const Step& step, Environment& environment) {
  const Call call(step, environment);
  if (const auto found = statements().find(step.op); found != statements().end()) {
    found->second(call);
  } else {
    const MakesTensor& make = operation_named(step.op);
    TENON_CHECK(step.out.size() == 1, kInvalid, "case file: step ", step.op, " has ",
                step.out.size(), " outputs, expected 1");
    environment.tensors[step.out[0]] = make(call);
  }
  const std::vector<std::string> unread = step.attrs.unread();
  if (!unread.empty()) throw Inexpressible{concat(step.op, ": attribute ", unread[0])};
}

}  // namespace tenon::cases
