// The text of a tensor, as NumPy 2 prints it with its default options: precision 8, 75 columns,
// long axes shortened above 1000 elements. SPDX-License-Identifier: MIT

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/print.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

constexpr int kPrecision = 8;
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr size_t kLineWidth = 75;
constexpr int64_t kGap = -1;  // stands for the elements left out

std::string to_text(double value, std::chars_format format, int precision) {
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format, precision).ptr;
  return {buffer, end};
}

// The fewest significant digits that read back as the same value of the dtype.
int shortest_precision(double value, DType dtype) {
  const ScalarBits wanted = double_to_float(value, dtype);
  for (int digits = 0; digits < 17; ++digits) {
    const std::string text = to_text(value, std::chars_format::scientific, digits);
    double parsed = 0;
    std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (double_to_float(parsed, dtype) == wanted) return digits;
  }
  return 17;
}

// Without the zeros at the end of the fraction, which keeps its point.
std::string trimmed(std::string text) {
  if (text.find('.') == std::string::npos) return text + ".";
  while (text.back() == '0')
    text.pop_back();
  return text;
}

std::string positional(double value, DType dtype) {
  const int digits = shortest_precision(value, dtype);
  const int exponent = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  // Beyond the shortest digits there are zeros, not what the binary value goes on with.
  const std::string short_text = to_text(value, std::chars_format::scientific, digits);
  double short_value = 0;
  std::from_chars(short_text.data(), short_text.data() + short_text.size(), short_value);
  const int fraction = std::clamp(digits - exponent + 1, 0, kPrecision);
  return trimmed(to_text(short_value, std::chars_format::fixed, fraction));
}

std::string special(double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

bool wants_exponent(const std::vector<double>& values) {
  double largest = 0;
  double smallest = 0;
  for (const double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    const double size = std::abs(value);
    largest = std::max(largest, size);
    smallest = smallest == 0 ? size : std::min(smallest, size);
  }
  return largest >= 1e8 || (smallest != 0 && (smallest < 1e-4 || largest / smallest > 1000));
}

std::vector<std::string> with_exponents(const std::vector<double>& values, DType dtype) {
  int fraction = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      fraction = std::max(fraction, std::min(shortest_precision(value, dtype), kPrecision));
    }
  }
  std::vector<std::string> texts;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      texts.push_back(special(value));
      continue;
    }
    std::string text = to_text(value, std::chars_format::scientific, fraction);
    if (fraction == 0) text.insert(text.find('e'), 1, '.');
    texts.push_back(text);
  }
  return texts;
}

// All texts of one width; in the positional form the points stand below each other.
std::vector<std::string> aligned_floats(const std::vector<double>& values, DType dtype) {
  std::vector<std::string> texts;
  if (wants_exponent(values)) {
    texts = with_exponents(values, dtype);
  } else {
    size_t tail = 0;
    for (const double value : values) {
      texts.push_back(std::isfinite(value) ? positional(value, dtype) : special(value));
      if (std::isfinite(value)) tail = std::max(tail, texts.back().size() - texts.back().find('.'));
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      if (std::isfinite(values[i])) {
        texts[i].append(tail - (texts[i].size() - texts[i].find('.')), ' ');
      }
    }
  }
  return texts;
}

ScalarBits bits_at(std::span<const std::byte> bytes, DType dtype, int64_t i) {
  const auto size = static_cast<size_t>(dtype_size_bytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + static_cast<size_t>(i) * size, size);
  return canonical_bits(dtype, bits);
}

std::vector<std::string> aligned(std::span<const std::byte> bytes, DType dtype,
                                 const std::vector<int64_t>& positions) {
  std::vector<std::string> texts;
  std::vector<double> values;
  for (const int64_t position : positions) {
    const ScalarBits bits = bits_at(bytes, dtype, position);
    if (is_float(dtype)) {
      values.push_back(float_to_double(bits, dtype));
    } else if (dtype == DType::kBool) {
      texts.emplace_back(bits != 0 ? "True" : "False");
    } else {
      texts.push_back(is_signed_int(dtype) ? concat(static_cast<int64_t>(bits)) : concat(bits));
    }
  }
  if (is_float(dtype)) texts = aligned_floats(values, dtype);
  size_t width = 0;
  for (const std::string& text : texts)
    width = std::max(width, text.size());
  for (std::string& text : texts)
    text.insert(0, width - text.size(), ' ');
  return texts;
}

std::string scalar_text(std::span<const std::byte> bytes, DType dtype) {
  if (!is_float(dtype)) return aligned(bytes, dtype, {0})[0];
  const double value = float_to_double(bits_at(bytes, dtype, 0), dtype);
  if (!std::isfinite(value)) return special(value);
  if (value != 0 && (std::abs(value) >= 1e16 || std::abs(value) < 1e-4)) {
    return to_text(value, std::chars_format::scientific, shortest_precision(value, dtype));
  }
  const int digits = shortest_precision(value, dtype);
  const int exponent = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  std::string text =
      trimmed(to_text(value, std::chars_format::fixed, std::max(digits - exponent + 1, 0)));
  return text.back() == '.' ? text + "0" : text;
}

// The positions along an axis that are shown, with kGap between the ends.
std::vector<int64_t> shown(int64_t dim, bool is_shortened) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < dim; ++i) {
    if (!is_shortened || dim <= 2 * kEdgeItems || i < kEdgeItems || i >= dim - kEdgeItems) {
      out.push_back(i);
    } else if (i == kEdgeItems) {
      out.push_back(kGap);
    }
  }
  return out;
}

// One line of the innermost axis, wrapped; `texts` are taken from `next` on.
void append_row(std::string& out, const std::vector<int64_t>& positions,
                const std::vector<std::string>& texts, size_t& next, size_t rank) {
  size_t column = rank;  // after the brackets
  out += '[';
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::string word = positions[i] == kGap ? "..." : texts[next++];
    const bool is_last = i + 1 == positions.size();
    const size_t reserved = is_last ? rank : 1;  // closing brackets, or the space after
    if (i > 0 && column + word.size() + reserved > kLineWidth + (is_last ? 0 : 1)) {
      while (out.back() == ' ')
        out.pop_back();
      out += '\n';
      out.append(rank, ' ');
      column = rank;
    }
    out += word;
    column += word.size();
    if (!is_last) {
      out += ' ';
      ++column;
    }
  }
  out += ']';
}

}  // namespace

std::string array_text(std::span<const std::byte> bytes, DType dtype, ShapeView shape) {
  if (shape.empty()) return scalar_text(bytes, dtype);
  const int64_t count = num_elements(shape);
  if (count == 0) return "[]";
  const size_t rank = shape.size();
  std::vector<std::vector<int64_t>> axes;
  for (const int64_t dim : shape)
    axes.push_back(shown(dim, count > kThreshold));

  // First the positions of all elements shown, in order, then their texts, then the rows.
  std::vector<size_t> at(rank, 0);
  const auto advance = [&](size_t last) {  // to the next tuple; the first axis that moved, or rank
    for (size_t axis = last + 1; axis-- > 0;) {
      if (++at[axis] < axes[axis].size()) return axis;
      at[axis] = 0;
    }
    return rank;
  };
  const auto gap_axis = [&](size_t last) {
    for (size_t axis = 0; axis <= last; ++axis) {
      if (axes[axis][at[axis]] == kGap) return axis;
    }
    return rank;
  };
  std::vector<int64_t> positions;
  do {
    int64_t position = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      position = position * shape[axis] + axes[axis][at[axis]];
    if (gap_axis(rank - 1) == rank) positions.push_back(position);
  } while (advance(rank - 1) != rank);
  const std::vector<std::string> texts = aligned(bytes, dtype, positions);

  std::string out(rank - 1, '[');
  size_t next = 0;
  for (size_t moved = 0; moved != rank;) {
    const size_t gap = rank == 1 ? rank : gap_axis(rank - 2);
    if (gap < rank) {
      out += "...";
      moved = advance(gap);
    } else {
      append_row(out, axes[rank - 1], texts, next, rank);
      moved = rank == 1 ? rank : advance(rank - 2);
    }
    const size_t depth = gap < rank ? gap + 1 : rank - 1;  // brackets open here
    if (moved == rank) {
      out.append(depth, ']');
    } else {
      out.append(depth - moved - 1, ']');
      out.append(rank - 1 - moved, '\n');
      out.append(moved + 1, ' ');
      const size_t new_gap = gap_axis(rank - 2);
      out.append((new_gap < rank ? new_gap + 1 : rank - 1) - moved - 1, '[');
    }
  }
  return out;
}

std::string to_string(const Tensor& x) {
  return array_text(x.to_bytes(), x.dtype(), x.shape());
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  return out << to_string(x);
}

}  // namespace tenon
