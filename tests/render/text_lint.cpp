// SPDX-License-Identifier: MIT
#include "tests/render/c_lint.h"

#include <map>
#include <regex>
#include <set>

#include "tenon/base/text.h"

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

}  // namespace

std::vector<std::string> lint_c(std::string_view text) {
  static const std::regex head(R"(^(?:HELPER )?\w+ (\w+)\((.*)\) \{$)");
  static const std::regex declaration(R"((?:const )?(\w+) (\w+)(?: = .*;|;)$)");
  static const std::regex parameter(R"(([iuf]\w+) (\w+)(?:,|$))");
  static const std::regex conversion(
      R"((?:\([iu]\d+\)|__builtin_convertvector\()([a-z]\w*)\b(?!\(|\[)(?:, ([iu])?)?)");
  const FloatTypes floats(text);
  std::vector<std::string> findings;
  std::string function;
  std::map<std::string, std::string> types;  // by name
  for (const std::string_view view : split(text, '\n')) {
    const std::string line(view.substr(0, view.find("//")));
    if (line.starts_with('#') || line.starts_with("typedef")) continue;
    std::smatch match;
    if (std::regex_search(line, match, head)) {
      function = match[1];
      types.clear();
      const std::string parameters = match[2];
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

}  // namespace tenon::testing
