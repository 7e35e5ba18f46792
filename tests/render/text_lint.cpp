// SPDX-License-Identifier: MIT
#include "tests/render/text_lint.h"

#include <map>
#include <optional>
#include <regex>
#include <set>

#include "tenon/base/text.h"
#include "tenon/render/llvm.h"

namespace tenon::testing {

namespace {

/// Types that C knows as floats, by their typedefs; vectors count by their elements.
class FloatTypes {
 public:
  explicit FloatTypes(std::string_view text) {
    static const std::regex typedef_line(R"(^typedef (?:float|double|_Float16) (\w+);$)");
    for (const std::string_view view : split(text, '\n')) {
      std::cmatch match;
      if (std::regex_match(view.begin(), view.end(), match, typedef_line)) names_.insert(match[1]);
    }
  }
  bool has(const std::string& type) const {
    return names_.contains(type.substr(0, type.find('x')));
  }

 private:
  std::set<std::string> names_;
};

bool is_guard(const std::string& function) {
  for (const char* prefix : {"div_", "mod_", "shl_", "shr_"}) {
    if (function.starts_with(prefix)) return true;
  }
  return false;
}

bool is_signed_scalar(const std::string& type) {
  return type == "i8" || type == "i16" || type == "i32" || type == "i64";
}

// A sum, difference or product of other than unsigned operands, outside of an array's place.
bool has_signed_arithmetic(const std::string& line) {
  static const std::regex place(R"(\[[^\[\]]*\])");
  // Of two unsigned values, or of two numbers; the place of an argument.
  static const std::regex defined(
      R"(\(u\d+\)\w+ [-+*] \(u\d+\)\w+|\b\d+(?:ll)? [-+*] \d+(?:ll)?\b|\(args \+ \d+\))");
  static const std::regex arithmetic(R"( [-+*] )");
  const std::string without_places = std::regex_replace(line, place, "");
  return std::regex_search(std::regex_replace(without_places, defined, ""), arithmetic);
}

}  // namespace

std::vector<std::string> lint_c(std::string_view text) {
  static const std::regex head(R"(^(?:HELPER )?(\w+) (\w+)\((.*)\) \{$)");
  static const std::regex declaration(R"((?:const )?(\w+) (\w+)(?: = .*;|;)$)");
  static const std::regex parameter(R"(([iuf]\w+) (\w+)(?:,|$))");
  static const std::regex conversion(
      R"((?:\([iu]\d+\)|__builtin_convertvector\()([a-z]\w*)\b(?!\(|\[)(?:, ([iu])?)?)");
  const FloatTypes floats(text);
  std::vector<std::string> findings;
  std::string function;
  std::string result;                        // its type
  std::map<std::string, std::string> types;  // by name
  for (const std::string_view view : split(text, '\n')) {
    const std::string line(view.substr(0, view.find("//")));
    if (line.starts_with('#') || line.starts_with("typedef")) continue;
    std::smatch match;
    if (std::regex_search(line, match, head)) {
      result = match[1];
      function = match[2];
      types.clear();
      const std::string parameters = match[3];
      for (std::sregex_iterator it(parameters.begin(), parameters.end(), parameter), end; it != end;
           ++it)
        types[(*it)[2]] = (*it)[1];
      continue;
    }
    const std::string trimmed(trim(line));
    std::string type;
    if (std::regex_search(trimmed, match, declaration)) {
      type = match[1];
      types[match[2]] = type;
    }
    const auto report = [&](const char* what) {
      findings.push_back(concat(function, ": ", what, ": ", trimmed));
    };
    if (!is_guard(function)) {
      if (trimmed.find(" / ") != std::string::npos && !floats.has(type)) report("division");
      if (trimmed.find('%') != std::string::npos) report("remainder");
      if (trimmed.find("<<") != std::string::npos || trimmed.find(">>") != std::string::npos)
        report("shift");
    }
    if (trimmed.starts_with("return ")) type = result;
    if (is_signed_scalar(type) && has_signed_arithmetic(trimmed)) report("signed arithmetic");
    if (function.starts_with("cast_")) continue;
    for (std::sregex_iterator it(trimmed.begin(), trimmed.end(), conversion), end; it != end;
         ++it) {
      const bool is_vector = (*it)[0].str().starts_with("__");
      const bool to_int = !is_vector || (*it)[2].matched;
      const bool to_mask = trimmed.find((*it)[1].str() + ", i1") != std::string::npos;
      if (to_int && !to_mask && floats.has(types[(*it)[1]])) report("float to integer");
    }
  }
  return findings;
}

// --- LLVM IR -------------------------------------------------------------------------------------

namespace {

/// The lines that define the values of one function, by name.
using Definitions = std::map<std::string, std::string>;

/// "7" and "splat (i32 7)" are 7.
std::optional<int64_t> integer_of(std::string operand) {
  static const std::regex splat(R"(^splat \(i\d+ (.*)\)$)");
  std::smatch match;
  if (std::regex_match(operand, match, splat)) operand = std::string(match[1]);
  if (operand == "zeroinitializer") return 0;
  return parse_int(operand);
}

bool is_safe_divisor(const std::string& operand, bool is_signed, const Definitions& definitions) {
  if (const auto value = integer_of(operand)) return *value != 0 && !(is_signed && *value == -1);
  static const std::regex guard(
      R"(= select (?:<.*?>|i1) \S+, (?:<.*?>|i\d+) (1|splat \(i\d+ 1\)), )");
  const auto found = definitions.find(operand);
  return found != definitions.end() && std::regex_search(found->second, guard);
}

bool is_safe_count(const std::string& operand, int bits, const Definitions& definitions) {
  if (const auto value = integer_of(operand)) return *value >= 0 && *value < bits;
  static const std::regex by_and(R"(= and (?:<.*?>|i\d+) (?:\S+|splat \(.*?\)), (.*)$)");
  static const std::regex by_umin(R"(@llvm\.umin\.\w+\(.*, (?:<.*?>|i\d+) (.*)\)$)");
  const auto found = definitions.find(operand);
  if (found == definitions.end()) return false;
  for (const std::regex& guard : {by_and, by_umin}) {
    std::smatch match;
    if (std::regex_search(found->second, match, guard)) return integer_of(match[1]) == bits - 1;
  }
  return false;
}

/// Zero stands in for what does not fit.
bool is_safe_float(const std::string& operand, const Definitions& definitions) {
  static const std::regex guard(
      R"(= select (?:<.*?>|i1) \S+, (?:<.*?>|\w+) (?:0\.0|0xH0000|zeroinitializer), )");
  const auto found = definitions.find(operand);
  return found != definitions.end() && std::regex_search(found->second, guard);
}

/// What is wrong with one instruction, or nothing.
const char* finding_of(const std::string& line, const Definitions& definitions) {
  static const std::regex flag(
      R"(\b(nsw|nuw|nusw|exact|disjoint|nneg|samesign|inbounds|fast|nnan|ninf|nsz|arcp|contract|afn|)"
      R"(reassoc|undef|tail|musttail)\b)");
  static const std::regex name(R"([%@][\w.]+)");
  static const std::regex division(
      R"(= ([su])(?:div|rem) (?:<.*?>|i\d+) (?:\S+|splat \(.*?\)), (.*)$)");
  static const std::regex shift(
      R"(= (?:shl|[la]shr) (?:<\d+ x )?i(\d+)>? (?:\S+|splat \(.*?\)), (.*)$)");
  static const std::regex conversion(R"(= fpto[su]i (?:<.*?>|\w+) (.*) to )");
  static const std::regex call(R"(\bcall\b)");
  // Inline assembly is allowed without an instruction: to hide a value.
  static const std::regex intrinsic(R"(\bcall (?:<.*?>|\w+) (?:@llvm\.|asm "", "=r,0"\())");
  if (line.find("@llvm.fmuladd.") != std::string::npos) return "contraction";
  if (std::regex_search(std::regex_replace(line, name, "%"), flag)) return "flag";
  if (line.find("poison") != std::string::npos &&
      line.find("= insertelement") == std::string::npos &&
      line.find("= shufflevector") == std::string::npos) {
    return "poison";
  }
  std::smatch match;
  const auto is_kind = [&](const char* text) { return line.find(text) != std::string::npos; };
  if (is_kind("div ") || is_kind("rem ")) {
    if (is_kind("= fdiv ")) return nullptr;
    const bool is_read = std::regex_search(line, match, division);
    if (!is_read || !is_safe_divisor(match[2], match[1] == "s", definitions)) return "division";
  }
  if (is_kind("= shl ") || is_kind("shr ")) {
    const bool is_read = std::regex_search(line, match, shift);
    if (!is_read || !is_safe_count(match[2], std::stoi(match[1]), definitions)) return "shift";
  }
  if (is_kind("= fptosi ") || is_kind("= fptoui ")) {
    const bool is_read = std::regex_search(line, match, conversion);
    if (!is_read || !is_safe_float(match[1], definitions)) return "float to integer";
  }
  if (std::regex_search(line, call) && !std::regex_search(line, intrinsic)) return "call";
  return nullptr;
}

}  // namespace

std::vector<std::string> lint_llvm(std::string_view text) {
  static const std::regex definition(R"(^(%[\w.]+) = )");
  std::vector<std::string> findings;
  std::string function;
  Definitions definitions;
  for (const std::string_view view : split(text, '\n')) {
    if (view.starts_with("define ")) {
      function = view.substr(0, view.find('('));
      definitions.clear();
      continue;
    }
    if (!view.starts_with("  ")) continue;
    const std::string line(trim(view));
    std::smatch match;
    if (std::regex_search(line, match, definition)) definitions[match[1]] = line;
    if (const char* what = finding_of(line, definitions)) {
      findings.push_back(concat(function, ": ", what, ": ", line));
    }
  }
  return findings;
}

std::vector<std::string> lint_text(const Renderer& renderer, std::string_view text) {
  return &renderer == &llvm_renderer() ? lint_llvm(text) : lint_c(text);
}

}  // namespace tenon::testing
