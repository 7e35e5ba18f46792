// The list of refusals, and words in error texts. SPDX-License-Identifier: MIT

#include "tests/cases/expectations.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "tenon/base/text.h"

namespace tenon::cases {
namespace {

struct Refusal {
  const char* words;   ///< what the outcome must say
  const char* reason;  ///< why it may end so
};

const std::map<std::string, Refusal>& refusals() {
  constexpr const char* kGrad = "gradients are not there yet";
  constexpr const char* kJit = "capture and replay of functions are not there yet";
  constexpr const char* kScatter = "there is no indexed write yet";
  constexpr const char* kGguf = "GGUF files are not read yet";
  constexpr const char* kOnnx = "the rules of ONNX come with its importer";
  constexpr const char* kNoProgram = "no program for the property";
  static const std::map<std::string, Refusal> kTable = {
      {"CACHE-01", {kNoProgram, "the key of the compile cache is not visible"}},
      {"DEV-01", {kNoProgram, "users have no kernels of their own with scalar arguments yet"}},
      {"DEV-03", {kNoProgram, "offsets of sub-buffers are not visible"}},
      {"EXP-04", {"op grad", kGrad}},
      {"FMT-11", {"dtype float8_e4m3fnuz", "not one of the dtypes of op.def"}},
      {"GG-01", {"op load_gguf", kGguf}},
      {"GG-02", {"op load_gguf", kGguf}},
      {"GG-07", {"op load_gguf", kGguf}},
      {"GS-01", {"op scatter_add", kScatter}},
      {"GS-04", {"op scatter_nd", kScatter}},
      {"GS-05", {"op mixed_index", "indices are integers and slices; a tensor is none yet"}},
      {"GS-06", {"op fancy_set", kScatter}},
      {"JIT-02", {"op jit_call", kJit}},
      {"JIT-04", {"op jit_call", kJit}},
      {"JIT-06", {"op jit_call", kJit}},
      {"JIT-07", {"op jit_call", kJit}},
      {"ONNX-01", {"softmax: attribute opset 11", kOnnx}},
      {"ONNX-02", {"op onnx_reshape", kOnnx}},
      {"POW-02", {"op pow", "pow is not there yet"}},
      {"RED-05", {"op grad", kGrad}},
      {"RNG-02", {"op jit_call", kJit}},
      {"SYNC-07", {kNoProgram, "no call makes a device reject a launch"}},
      {"SYNC-08", {kNoProgram, "bytes in use on a device are not visible"}},
      {"SYNC-09", {kNoProgram, "size and limit of the allocator's cache are not visible"}},
      {"SYNC-10", {kNoProgram, kJit}},
      {"TAIL-05", {kNoProgram, "blocked layouts are not there yet"}},
      {"TRIG-01", {"sin on float64", "float64 has no transcendental functions yet"}},
      {"VIEW-09", {"op grad", kGrad}},
  };
  return kTable;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The first word of `alternative` that `text` lacks; empty if it has all.
std::string find_missing_word(std::string_view alternative, const std::string& text) {
  for (const std::string_view word : split(alternative, ' ')) {
    if (word.size() >= 4 && text.find(word) == std::string::npos) return std::string(word);
  }
  return "";
}

}  // namespace

std::string find_error_fault(const Error& error, ErrorCode code, const std::string& expected) {
  if (error.code() != code) {
    return concat("the error is '", error_code_name(error.code()), "', expected '",
                  error_code_name(code), "': ", error.what());
  }
  const std::string text = lower_case(concat(error_code_name(code), ": ", error.what()));
  const std::string wanted = lower_case(expected);
  std::string missing;
  for (size_t begin = 0; begin != std::string::npos;) {
    const size_t end = wanted.find(" / ", begin);
    missing = find_missing_word(std::string_view(wanted).substr(begin, end - begin), text);
    if (missing.empty()) return "";
    begin = end == std::string::npos ? end : end + 3;
  }
  return concat("no '", missing, "' in the error, expected '", expected, "': ", error.what());
}

std::string find_refusal_fault(const std::string& id, const std::string& text) {
  const auto found = refusals().find(id);
  if (found == refusals().end()) return concat("may not be refused: ", text);
  if (text.find(found->second.words) != std::string::npos) return "";
  return concat("may be refused with '", found->second.words, "' only: ", text);
}

const char* find_refusal_reason(const std::string& id) {
  const auto found = refusals().find(id);
  return found == refusals().end() ? nullptr : found->second.reason;
}

}  // namespace tenon::cases
