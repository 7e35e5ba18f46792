// `tenon run digits`: accuracy, a few images, kernels and times. SPDX-License-Identifier: MIT

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/cli/arrays.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/data_folder.h"
#include "tenon/cli/digits.h"
#include "tenon/cli/program_file.h"

namespace tenon::cli {
namespace {

// How far f32 logits may be from those of float64; data/README.md.
constexpr double kMaxDifference = 1e-4;

/// Rows of half blocks, two pixels above each other in one; the empty border is left out.
std::vector<std::string> drawn(const DigitsImages& images, size_t image) {
  constexpr int64_t kFirst = 4;
  constexpr int64_t kLast = 24;
  const auto is_dark = [&](int64_t row, int64_t column) {
    const size_t offset = image * kImageSide * kImageSide;
    return images.pixels[offset + static_cast<size_t>(row * kImageSide + column)] >= 128;
  };
  std::vector<std::string> rows;
  for (int64_t row = kFirst; row < kLast; row += 2) {
    std::string line;
    for (int64_t column = kFirst; column < kLast; ++column) {
      const bool upper = is_dark(row, column);
      const bool lower = is_dark(row + 1, column);
      // U+2588, U+2580, U+2584 in UTF-8.
      line += upper && lower ? "\xe2\x96\x88"
              : upper        ? "\xe2\x96\x80"
              : lower        ? "\xe2\x96\x84"
                             : " ";
    }
    rows.push_back(line);
  }
  return rows;
}

/// Up to three images beside each other, with what was read below each.
std::string gallery(const DigitsImages& images, const std::vector<size_t>& chosen,
                    const std::vector<int64_t>& predictions) {
  std::vector<std::string> lines;
  for (const size_t image : chosen) {
    std::vector<std::string> rows = drawn(images, image);
    rows.push_back(fmt::format(
        "{:<20}", fmt::format("read as {}, is {}", predictions[image], images.labels[image])));
    lines.resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
      append(lines[i], lines[i].empty() ? "  " : "    ", rows[i]);
  }
  return join(lines, "\n");
}

/// The first three that were read right (or wrong).
std::vector<size_t> first_three(const DigitsImages& images, const DigitsResult& result,
                                bool is_right) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < images.labels.size() && chosen.size() < 3; ++i) {
    if ((result.predictions[i] == images.labels[i]) == is_right) chosen.push_back(i);
  }
  return chosen;
}

int64_t count_right(const DigitsImages& images, const DigitsResult& result) {
  int64_t count = 0;
  for (size_t i = 0; i < images.labels.size(); ++i)
    count += result.predictions[i] == images.labels[i] ? 1 : 0;
  return count;
}

/// The counters, and what no counter claims, so that the column adds up to `wall_ns`.
std::string times_text(const RealizeStats& stats, int64_t wall_ns) {
  const std::pair<const char*, int64_t> rows[] = {
      {"schedule", stats.schedule_ns}, {"lower", stats.lower_ns},
      {"compile", stats.compile_ns},   {"load", stats.load_ns},
      {"copy in", stats.copy_in_ns},   {"launch", stats.launch_ns},
      {"kernel", stats.kernel_ns},     {"copy out", stats.copy_out_ns}};
  std::string text;
  int64_t rest_ns = wall_ns;
  const auto add = [&](std::string_view name, int64_t time_ns, std::string_view note) {
    append(text,
           fmt::format("  {:<9}{:>10.3f} ms{}\n", name, static_cast<double>(time_ns) / 1e6, note));
  };
  for (const auto& [name, time_ns] : rows) {
    rest_ns -= time_ns;
    add(name, time_ns, "");
  }
  add("other", rest_ns, "  (reading files, building graphs)");
  add("wall", wall_ns, "");
  return text;
}

/// Prints the largest difference from the expected logits; false if it is too large.
bool check_logits(const DigitsResult& result, const std::vector<double>& expected) {
  double largest = 0;
  size_t where = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(result.logits[i]) - expected[i]);
    if (difference > largest || std::isnan(difference)) {
      largest = difference;
      where = i;
      if (std::isnan(difference)) break;
    }
  }
  const bool is_right = largest <= kMaxDifference;  // false for NaN
  print(fmt::format("logits: largest difference {:.3g} at image {}, class {}; allowed {:g}: {}\n",
                    largest, where / kNumClasses, where % kNumClasses, kMaxDifference,
                    is_right ? "right" : "WRONG"));
  return is_right;
}

void write_result(const DigitsResult& result, const std::string& folder) {
  const auto bytes_of = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const int64_t count = std::ssize(result.predictions);
  const NamedArray arrays[] = {
      {"predictions", DType::kI64, {count}, bytes_of(result.predictions)},
      {"logits", DType::kF32, {count, kNumClasses}, bytes_of(result.logits)}};
  for (const std::string& path : write_arrays(folder, arrays))
    print(concat("wrote ", path, "\n"));
}

}  // namespace

int digits_command(const DigitsOptions& options) {
  if (options.batch < 1) throw WrongUsage("run digits: --batch must be at least 1");
  if (options.check && options.zero_filter) {
    throw WrongUsage("run digits: --check compares the whole network; leave --zero-filter out");
  }
  if (!options.out_folder.empty()) create_folders(options.out_folder);  // before the work
  const int64_t start_ns = now_ns();
  Device& device = chosen_device(options.device);
  const ScopedDefaultDevice scope(device);
  const std::string folder = find_data_folder(options.data_folder, "digits_test.safetensors");
  const DigitsImages images = load_digits(folder + "/digits_test.safetensors");
  const DigitsNetwork network(folder + "/digits_cnn.safetensors", options.zero_filter);
  const DigitsResult result =
      classify(network, images, options.batch, image_order(images.size(), options.shuffle_seed));
  const int64_t wall_ns = now_ns() - start_ns;
  const RealizeStats stats = total_stats();

  print(gallery(images, first_three(images, result, true), result.predictions) + "\n\n");
  print(gallery(images, first_three(images, result, false), result.predictions) + "\n\n");
  print(concat("accuracy: ", count_right(images, result), " of ", images.size(), "\n"));
  print(concat("device:   ", device.name(), "\nkernels:  ", stats.kernels, " launched, ",
               stats.compiled, " compiled\ntimes:\n", times_text(stats, wall_ns)));
  if (!options.out_folder.empty()) write_result(result, options.out_folder);
  if (!options.check) return kExitOk;
  const std::vector<double> expected =
      load_logits(folder + "/digits_expected.safetensors", images.size());
  return check_logits(result, expected) ? kExitOk : kExitFailed;
}

}  // namespace tenon::cli
