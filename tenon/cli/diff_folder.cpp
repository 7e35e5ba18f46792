// SPDX-License-Identifier: MIT

#include "tenon/cli/diff_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/arrays.h"
#include "tenon/cli/console.h"
#include "tenon/cli/inputs.h"
#include "tenon/cli/program_file.h"
#include "tenon/io/npy.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/linear_text.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kHead = "tenon diff 1";

std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text)
    c == '\'' ? result += "'\\''" : result += c;
  return result + "'";
}

std::string file_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// Writes an array and returns the name of its file.
std::string write_one(const std::string& folder, std::string name, const DiffArray& array) {
  const NamedArray named = {std::move(name), array.dtype, array.shape, array.bytes};
  return file_of(write_arrays(folder, {&named, 1}).at(0));
}

/// What goes in: a line each, in order.
std::string write_inputs(const std::string& folder, const Difference& difference) {
  std::string lines;
  size_t number = 0;
  const auto write = [&](std::string_view word, const DiffArray& array) {
    append(lines, word, " ", write_one(folder, concat("in", number++, "_", array.name), array),
           "\n");
  };
  if (difference.graph) {
    for (const std::string& name : difference.graph->input_names) {
      const auto found = std::ranges::find(difference.arguments, name, &DiffArray::name);
      TENON_ASSERT(found != difference.arguments.end(), "diff: no value of input '", name, "'");
      write("input", *found);
    }
    return lines;
  }
  const std::vector<Argument>& arguments = difference.program->signature.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const DiffArray& value = difference.arguments[i];
    if (!arguments[i].is_buffer) {
      uint64_t bits = 0;
      std::memcpy(&bits, value.bytes.data(), std::min(value.bytes.size(), sizeof bits));
      append(lines, "scalar ", bits, "\n");
    } else if (arguments[i].access == ArgumentAccess::kWrite) {
      lines += "written\n";
    } else {
      // As the signature has it, which knows no shapes and perhaps another dtype.
      write("argument", {value.name, arguments[i].dtype, {arguments[i].num_elements}, value.bytes});
    }
  }
  const bool has_oracle =
      difference.verdict == DiffVerdict::kSharedKernel && !difference.expected.bits.empty();
  if (has_oracle) append(lines, "oracle ", dtype_name(difference.expected.dtype), "\n");
  return lines;
}

void write_results(const std::string& folder, const Difference& difference) {
  const OracleValue& expected = difference.expected;
  if (expected.bits.empty()) return;
  write_one(folder, "expected", {"", expected.dtype, expected.shape, to_bytes(expected)});
  write_one(folder, "got", {"", expected.dtype, expected.shape, difference.got});
  if (expected.radius.empty() && expected.excluded.empty()) return;
  std::vector<double> radius;
  for (size_t i = 0; i < expected.bits.size(); ++i) {
    radius.push_back(expected.is_excluded(i) ? std::numeric_limits<double>::infinity()
                                             : expected.radius_at(i));
  }
  const auto bytes = std::as_bytes(std::span(radius));
  write_one(folder, "radius", {"", DType::kF64, expected.shape, {bytes.begin(), bytes.end()}});
}

std::vector<std::byte> read_array(const std::string& path, DType dtype, const Shape& shape) {
  NamedArray array = {.name = "array", .dtype = dtype, .shape = shape, .bytes = {}};
  fill_input(array, NamedWords("case.txt", {concat("array=", path)}), 0);
  return std::move(array.bytes);
}

bool is_there(const std::string& path) {
  try {
    read_file(path);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return false;
  }
}

/// The lines after the device's, in order.
class Lines {
 public:
  Lines(const std::string& folder, std::vector<std::string_view> lines)
      : folder_(folder), lines_(std::move(lines)) {}

  /// What stands after one of these words in the next line, and the word.
  std::pair<std::string_view, std::string> take(std::initializer_list<std::string_view> words) {
    const std::string_view line = next_ < lines_.size() ? lines_[next_] : "";
    ++next_;
    const std::string_view first = line.substr(0, line.find(' '));
    const bool is_right = std::ranges::find(words, first) != words.end();
    TENON_CHECK(is_right, ErrorCode::kInvalidArgument, folder_, "/case.txt:", next_, ": expected ",
                join(std::vector<std::string>(words.begin(), words.end()), " or "), ", got ",
                tenon::quoted(line));
    return {first, std::string(trim(line.substr(first.size())))};
  }
  bool has_more() const { return next_ < lines_.size() && !lines_[next_].empty(); }
  /// The path of a file of the folder.
  std::string path(const std::string& name) const {
    TENON_CHECK(name.find('/') == std::string::npos, ErrorCode::kInvalidArgument, folder_,
                "/case.txt:", next_, ": ", tenon::quoted(name), " is no file of this folder");
    return folder_ + "/" + name;
  }

 private:
  const std::string& folder_;
  std::vector<std::string_view> lines_;
  size_t next_ = 0;
};

DiffArray read_argument(const Argument& argument, Lines& lines) {
  DiffArray value{.name = argument.name, .dtype = argument.dtype, .shape = {argument.num_elements}};
  if (!argument.is_buffer) {
    const std::string text = lines.take({"scalar"}).second;
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    TENON_CHECK(error == std::errc() && end == text.data() + text.size(),
                ErrorCode::kInvalidArgument, "case.txt: scalar ", tenon::quoted(text),
                " is no number");
    const auto bytes = std::as_bytes(std::span(&bits, 1));
    value.bytes.assign(bytes.begin(), bytes.end());
  } else if (argument.access == ArgumentAccess::kWrite) {
    lines.take({"written"});
  } else {
    const std::string path = lines.path(lines.take({"argument"}).second);
    value.bytes = read_array(path, argument.dtype, value.shape);
  }
  return value;
}

/// Of the shape that the file has, since the program does not know it.
OracleValue read_expected(Lines& lines) {
  const std::string name = lines.take({"oracle"}).second;
  const std::optional<DType> dtype = find_dtype(name);
  TENON_CHECK(dtype, ErrorCode::kInvalidArgument, "case.txt: ", tenon::quoted(name),
              " is no dtype");
  const std::string path = lines.path("expected.npy");
  const NpyFile file(path);
  const ArrayView view = file.view();
  const Shape dims(view.shape.begin(), view.shape.end());
  OracleValue value = exact_value(*dtype, dims, read_array(path, *dtype, dims));
  if (!is_there(lines.path("radius.npy"))) return value;
  const std::vector<std::byte> bytes = read_array(lines.path("radius.npy"), DType::kF64, dims);
  value.radius.resize(value.bits.size());
  if (!bytes.empty()) std::memcpy(value.radius.data(), bytes.data(), bytes.size());
  for (const double radius : value.radius)
    value.excluded.push_back(std::isfinite(radius) ? 0 : 1);
  return value;
}

}  // namespace

std::string wrong_elements_text(const Difference& difference) {
  std::string text = concat("  ", shown_name(difference.kernel), ": ", difference.text, "\n");
  if (difference.elements.empty()) return text;
  const DType dtype = difference.expected.dtype;
  Table table;
  table.add({"element", "expected", "got"});
  for (const WrongElement& element : difference.elements) {
    table.add({concat(element.index), element_text(dtype, element.expected),
               element_text(dtype, element.got)});
  }
  text += table.text(4);
  const int64_t more = difference.num_wrong - std::ssize(difference.elements);
  if (more > 0) append(text, "    and ", more, " more\n");
  return text;
}

std::string repeat_command(const std::string& folder) {
  const std::string shrinking = setting_string(Setting::kTarget);
  return concat(shrinking.empty() ? "" : concat("TENON_TARGET=", in_quotes(shrinking), " "),
                "tenon diff --repeat ", in_quotes(folder));
}

void write_diff_folder(const std::string& folder, const DiffReport& report, const Device& device,
                       const std::string& text) {
  const Difference& first = *report.first;
  const Difference& kept = report.smallest ? *report.smallest : first;
  create_folders(folder);
  for (const char* old : {"case.txt", "kernel.tg", "program.tir", "found.tir", "radius.npy"})
    std::filesystem::remove(folder + "/" + old);
  // A name as it may be given again; what TENON_TARGET adds to it is in repeat_command.
  const std::string name = device.name().substr(0, device.name().find(" ("));
  std::string lines = concat(kHead, "\ndevice ", name, "\n");
  append(lines, "of ", kept.graph ? "kernel.tg" : "program.tir", "\n", write_inputs(folder, kept));
  if (kept.graph) write_file_atomic(folder + "/kernel.tg", to_text(*kept.graph));
  if (kept.program) write_file_atomic(folder + "/program.tir", to_text(*kept.program));
  if (kept.kernel != first.kernel && first.program) {
    write_file_atomic(folder + "/found.tir", to_text(*first.program));
  }
  write_results(folder, kept);
  write_file_atomic(folder + "/report.txt", concat(text, first.launch));
  write_file_atomic(folder + "/case.txt", lines);
}

DiffFolder read_diff_folder(const std::string& folder) {
  const std::string path = folder + "/case.txt";
  TENON_CHECK(is_there(path), ErrorCode::kNotFound, "'", folder,
              "': there is no case.txt in it. Give a folder that tenon diff has written");
  const std::string text = read_file(path);
  Lines lines(folder, split(std::string_view(text), '\n'));
  const auto [word, version] = lines.take({"tenon"});
  TENON_CHECK(concat(word, " ", version) == kHead, ErrorCode::kInvalidArgument, path,
              ": expected '", kHead, "', got ", tenon::quoted(concat(word, " ", version)));
  DiffFolder result{.device = lines.take({"device"}).second};
  const std::string program = lines.take({"of"}).second;
  ProgramFile file = load_program_file(lines.path(program));
  if (auto* const graph = std::get_if<TensorGraph>(&file)) {
    for (const Node& input : graph->inputs) {
      const Shape shape(input.shape().begin(), input.shape().end());
      result.data.push_back(
          read_array(lines.path(lines.take({"input"}).second), input.dtype(), shape));
    }
    result.graph = std::move(*graph);
    return result;
  }
  auto* const linear = std::get_if<LinearProgram>(&file);
  TENON_CHECK(linear != nullptr, ErrorCode::kInvalidArgument, path, ": ", tenon::quoted(program),
              " is no .tg and no .tir file");
  for (const Argument& argument : linear->signature.arguments)
    result.arguments.push_back(read_argument(argument, lines));
  if (lines.has_more()) result.expected = read_expected(lines);
  result.program = std::move(*linear);
  return result;
}

}  // namespace tenon::cli
