// Programs for the cases that are properties. SPDX-License-Identifier: MIT

#include "tests/cases/properties.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "tenon/base/error.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/random.h"
#include "tenon/tensor/sorting.h"
#include "tests/cases/child_process.h"
#include "tests/cases/expectations.h"
#include "tests/cases/values.h"

namespace tenon::cases {
namespace {

using Context = PropertyContext;

RandomOptions with_generator(Generator& generator) {
  return {.dtype = DType::kF32, .device = nullptr, .generator = &generator};
}

// Two tensors of a fixed seed, realised in the order they were made in or in the other one.
std::array<std::vector<float>, 2> two_random(bool is_reversed) {
  Generator generator(42);
  Tensor first = rand({64}, with_generator(generator));
  Tensor second = rand({64}, with_generator(generator));
  if (is_reversed) second.realize();
  first.realize();
  return {first.to_vector<float>(), second.to_vector<float>()};
}

std::string check_random_pair(const Context& context) {
  const auto r1 = context.environment.get("r1").to_vector<float>();
  const auto r2 = context.environment.get("r2").to_vector<float>();
  if (r1 == r2) return "two random tensors are equal";
  for (const float value : r1) {
    if (!(value >= 0 && value < 1)) return concat("rand gave ", value);
  }
  return two_random(false) == two_random(true) ? "" : "values depend on the order of realisation";
}

std::string check_random_mask(const Context& context) {
  const Tensor& x = context.environment.get("x");
  const auto mask = [&](uint64_t seed) {
    const auto generator = std::make_unique<Generator>(seed);
    const Tensor keep = rand(x.shape(), with_generator(*generator)) < 0.5F;
    return where(keep, x, 0).to_vector<float>();
  };
  const auto a = mask(42);
  const auto held = std::make_unique<Generator>(7);  // the next generator lies elsewhere
  if (a != mask(42)) return "one seed gave two masks";
  return a != mask(43) ? "" : "two seeds gave one mask";
}

// For every k: x[i] == v, no position twice, and of equals the lowest position first.
std::string check_topk(const Context& context) {
  const Tensor& x = context.environment.get("x");
  const auto values = x.to_vector<float>();
  std::vector<int64_t> want(values.size());
  std::iota(want.begin(), want.end(), 0);
  std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  for (int64_t k = 0; k <= x.size(); ++k) {
    const Sorted got = topk(x, k);
    const auto indices = got.indices.to_vector<int64_t>();
    if (!std::equal(indices.begin(), indices.end(), want.begin(), want.begin() + k)) {
      return concat("k = ", k, ": positions are ", indices);
    }
    const auto top = got.values.to_vector<float>();
    for (size_t i = 0; i < top.size(); ++i) {
      if (top[i] != values[static_cast<size_t>(indices[i])]) return concat("k = ", k, ": a value");
    }
  }
  return "";
}

// |estimate - truth| in standard errors of the estimate; five are far outside chance.
std::string off_by(const char* what, double estimate, double truth, double standard_error) {
  const double distance = std::abs(estimate - truth) / standard_error;
  return distance < 5
             ? ""
             : concat(what, " is ", estimate, ", expected ", truth, " within ", 5 * standard_error);
}

double mean_of_power(const std::vector<float>& values, int power) {
  double total = 0;
  for (const float value : values)
    total += std::pow(static_cast<double>(value), power);
  return total / static_cast<double>(values.size());
}

double lag_product(const std::vector<float>& values, double mean) {
  double total = 0;
  for (size_t i = 1; i < values.size(); ++i)
    total += (values[i - 1] - mean) * (values[i] - mean);
  return total / static_cast<double>(values.size() - 1);
}

// Chi-square over 256 bins has mean 255 and variance 510.
double chi_square(const std::vector<float>& values) {
  std::array<int64_t, 256> bins{};
  for (const float value : values)
    ++bins[static_cast<size_t>(value * 256)];
  const double expected = static_cast<double>(values.size()) / 256;
  double sum = 0;
  for (const int64_t count : bins)
    sum += std::pow(static_cast<double>(count) - expected, 2) / expected;
  return sum;
}

// Moments of the uniform and the normal distribution, equal bins, neighbours without correlation.
std::string check_statistics(const Context&) {
  constexpr int64_t kCount = 1 << 20;
  const double root = std::sqrt(static_cast<double>(kCount));
  Generator generator(2024);
  const auto uniform = rand({kCount}, with_generator(generator)).to_vector<float>();
  const auto normal = randn({kCount}, with_generator(generator)).to_vector<float>();
  for (const std::string& text :
       {off_by("mean of rand", mean_of_power(uniform, 1), 0.5, std::sqrt(1 / 12.0) / root),
        off_by("mean square of rand", mean_of_power(uniform, 2), 1 / 3.0,
               std::sqrt(1 / 5.0 - 1 / 9.0) / root),
        off_by("chi-square of rand", chi_square(uniform), 255, std::sqrt(510.0)),
        off_by("lag product of rand", lag_product(uniform, 0.5), 0, 1 / 12.0 / root),
        off_by("mean of randn", mean_of_power(normal, 1), 0, 1 / root),
        off_by("mean square of randn", mean_of_power(normal, 2), 1, std::sqrt(2.0) / root),
        off_by("mean cube of randn", mean_of_power(normal, 3), 0, std::sqrt(15.0) / root),
        off_by("mean fourth power of randn", mean_of_power(normal, 4), 3, std::sqrt(96.0) / root),
        off_by("lag product of randn", lag_product(normal, 0), 0, 1 / root)}) {
    if (!text.empty()) return text;
  }
  return "";
}

// What the kernel says can be had without swapping.
void require_free_memory(int64_t gibibytes) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  while (file >> name && name != "MemAvailable:")
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  file >> kibibytes;
  if (kibibytes < gibibytes << 20) {
    throw Inexpressible{concat("less than ", gibibytes, " GiB of memory are free"), true};
  }
}

// Stored uint8 of 64 rows and more than 2^31 elements; row 33 is larger in every column.
std::string check_large_argmax(const Context&) {
  require_free_memory(8);
  constexpr int64_t kRows = 64;
  constexpr int64_t kColumns = (int64_t{1} << 25) + 5;
  const Tensor row = arange(kRows, {.dtype = DType::kI32, .device = nullptr}).expand_dims(1);
  Tensor x = (row == 33).astype(DType::kU8).broadcast_to({kRows, kColumns}).contiguous();
  x.realize();
  const Tensor is_right = x.argmax(0) == 33;
  return is_right.all().item<bool>() ? "" : "argmax is not 33 in every column";
}

// The constant part of the fused address is above 2^32, every buffer is small.
std::string check_large_offset(const Context&) {
  constexpr int64_t kCount = 1000;
  constexpr int64_t kOffset = (int64_t{1} << 32) + 7;
  std::vector<int32_t> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  const Tensor x = Tensor::from_data(values, {kCount});
  const Tensor flat = x.broadcast_to({5'000'000, kCount}).reshape({-1});
  const auto got = flat.getitem({Slice{kOffset, kOffset + 16}}).to_vector<int32_t>();
  for (size_t i = 0; i < got.size(); ++i) {
    const auto want = static_cast<int32_t>((kOffset + static_cast<int64_t>(i)) % kCount);
    if (got[i] != want) return concat("element ", i, " is ", got[i], ", expected ", want);
  }
  return "";
}

// 32771^2 outputs of one byte: right where it is looked at, or an error.
std::string check_large_matmul(const Context&) {
  require_free_memory(6);
  constexpr int64_t kSide = 32771;
  const TensorOptions bytes{.dtype = DType::kU8, .device = nullptr};
  const Tensor column = arange(kSide, {.dtype = DType::kI32, .device = nullptr}).astype(DType::kU8);
  Tensor product;
  try {
    product = column.reshape({kSide, 1}).contiguous().matmul(ones({1, kSide}, bytes).contiguous());
    product.realize();
  } catch (const Error& error) {
    // The device's limit on one buffer, or no memory; either text names the size.
    const ErrorCode code =
        error.code() == ErrorCode::kUnsupported ? error.code() : ErrorCode::kOutOfMemory;
    return find_error_fault(error, code, "bytes / allocating");
  }
  const Tensor is_right = product == column.expand_dims(1);
  return is_right.all().item<bool>() ? "" : "an output of the product is wrong";
}

// Sizes whose bytes wrap around 64 bits, or fit them and no machine.
std::string check_huge_sizes(const Context& context) {
  struct Size {
    int64_t count;
    DType dtype;
  };
  constexpr int64_t kOne = 1;
  for (const auto& [count, dtype] :
       {Size{kOne << 62, DType::kF64}, Size{kOne << 61, DType::kF64},
        Size{(kOne << 61) - 1, DType::kF64}, Size{kOne << 61, DType::kU8},
        Size{(kOne << 62) - 1, DType::kU8}, Size{kOne << 50, DType::kF32}}) {
    try {
      Tensor x = full({count}, 1, {.dtype = dtype, .device = nullptr}).contiguous();
      x.realize();
      return concat("no error for ", count, " elements of ", dtype_long_name(dtype));
    } catch (const Error& error) {
      const std::string fault =
          find_error_fault(error, ErrorCode::kOutOfMemory, context.expected_error);
      if (!fault.empty()) return fault;
    }
  }
  return (full({3}, 1) + 1).sum().item<int64_t>() == 6 ? "" : "wrong after the errors";
}

std::string check_freed_sources(const Context&) {
  constexpr int32_t kCount = 200;
  std::vector<Tensor> tensors;
  for (int32_t i = 0; i < kCount; ++i) {
    auto source = std::make_unique<std::vector<int32_t>>(4096, i);
    tensors.push_back(Tensor::from_data(*source, {4096}));
    std::fill(source->begin(), source->end(), -1);
  }
  for (int32_t i = 0; i < kCount; ++i) {
    const auto values = tensors[static_cast<size_t>(i)].to_vector<int32_t>();
    if (values != std::vector<int32_t>(4096, i)) return concat("buffer ", i, " is changed");
  }
  return "";
}

// 32 threads, each 100 results of its own values, of seven shapes.
std::string check_threads(const Context& context) {
  constexpr int kThreads = 32;
  constexpr int kResults = 100;
  std::vector<std::string> faults(kThreads);
  const auto work = [&](int thread) {
    const ScopedDefaultDevice scope(context.device.empty() ? Device::get_default()
                                                           : Device::get(context.device));
    for (int i = 0; i < kResults; ++i) {
      const int64_t size = 1 + i % 7;
      const std::vector<int64_t> values(static_cast<size_t>(size), thread);
      const Tensor x = Tensor::from_data(values, {size});
      const auto got = (x * 3 + size).sum().item<int64_t>();
      if (got != size * (3 * thread + size))
        faults[static_cast<size_t>(thread)] = concat("got ", got);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        work(thread);
      } catch (const std::exception& error) {
        faults[static_cast<size_t>(thread)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  const auto fault = std::find_if(faults.begin(), faults.end(), [](auto& f) { return !f.empty(); });
  return fault == faults.end() ? "" : concat("thread ", fault - faults.begin(), ": ", *fault);
}

const std::map<std::string, std::function<std::string(const Context&)>>& programs() {
  static const std::map<std::string, std::function<std::string(const Context&)>> kTable = {
      {"BIG-02", check_large_argmax},
      {"BIG-03", check_large_offset},
      {"BIG-04", check_large_matmul},
      {"CACHE-02", [](const Context& c) { return check_cold_and_warm_cache(c.device); }},
      {"CACHE-04", [](const Context& c) { return check_broken_cache(c.device); }},
      {"CACHE-05", [](const Context& c) { return check_unusable_cache(c.device); }},
      {"DEV-06", check_huge_sizes},
      {"PROC-01", [](const Context&) { return check_fork(); }},
      {"RNG-01", check_random_pair},
      {"RNG-03", check_random_mask},
      {"RNG-04", check_statistics},
      {"SORT-02", check_topk},
      {"SYNC-04", check_freed_sources},
      {"THR-01", check_threads},
  };
  return kTable;
}

}  // namespace

std::string check_property(const std::string& id, const PropertyContext& context) {
  if (const auto program = programs().find(id); program != programs().end()) {
    return program->second(context);
  }
  throw Inexpressible{"no program for the property"};
}

std::string run_probe() {
  const auto side = [](int64_t rows, int64_t columns, double scale) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * columns; ++i)
      values.push_back(static_cast<float>(std::sin(scale * static_cast<double>(i))));
    return Tensor::from_data(values, {rows, columns});
  };
  const Tensor product = side(17, 33, 0.7).matmul(side(33, 29, 1.3));
  const Tensor out = concatenate(
      {softmax(product).flatten(), product.exp().sum(0), product.var(1), product.sin().flatten()});
  std::string text;
  for (const std::byte byte : out.to_bytes())
    text += concat(static_cast<int>(byte), ' ');
  return text;
}

}  // namespace tenon::cases
