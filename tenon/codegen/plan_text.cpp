// SPDX-License-Identifier: MIT

#include "tenon/codegen/plan_text.h"

#include <algorithm>
#include <charconv>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr std::pair<Role, std::string_view> kRoles[] = {
    {Role::kGrid, "grid"},     {Role::kSeq, "seq"}, {Role::kLane, "lane"},
    {Role::kUnroll, "unroll"}, {Role::kVec, "vec"}, {Role::kUnit, "unit"}};
constexpr std::pair<Tail, std::string_view> kTails[] = {{Tail::kPeel, "peel"},
                                                        {Tail::kClamp, "clamp"}};
constexpr std::pair<How, std::string_view> kHows[] = {
    {How::kRoot, "root"}, {How::kBefore, "before"}, {How::kAfter, "after"}};

template <class T, size_t kSize>
std::string_view word_of(const std::pair<T, std::string_view> (&table)[kSize], T value) {
  for (const auto& [known, word] : table) {
    if (known == value) return word;
  }
  return "?";
}

const Comp& comp_at(const Kernel& kernel, int number) {
  return std::get<Comp>(kernel.body[static_cast<size_t>(number)].node);
}

const std::string& buffer_name(const Kernel& kernel, int buffer) {
  return kernel.buffers[static_cast<size_t>(buffer)].name;
}

std::string axis_name(const Kernel& kernel, const Comp& comp, int axis) {
  return kernel.axis_names[static_cast<size_t>(axis_id(comp.axes[static_cast<size_t>(axis)].axis))];
}

std::string entry_text(const CompPlan& entry, const Kernel& kernel) {
  const Comp& comp = comp_at(kernel, entry.comp);
  std::string text =
      concat("  ", entry.comp, " ", buffer_name(kernel, comp.dst), " ", word_of(kHows, entry.how));
  if (entry.how != How::kRoot) append(text, " ", entry.at.comp, " at ", entry.at.depth);
  for (size_t i = 0; i < entry.parts.size(); ++i) {
    const Part& part = entry.parts[i];
    append(text, i == 0 ? " " : ", ", axis_name(kernel, comp, part.axis), "@",
           word_of(kRoles, part.role), " ");
    if (part.role == Role::kLane) append(text, part.dim, " ");
    append(text, part.step);
    if (part.tail != Tail::kNone) append(text, " ", word_of(kTails, part.tail));
  }
  if (entry.acc) {
    append(text, "; acc ", entry.acc->depth);
    if (!entry.acc->has_partials) append(text, " sequential");
    if (entry.acc->carry_in) append(text, " carry ", buffer_name(kernel, *entry.acc->carry_in));
  }
  for (const Stage& stage : entry.stages) {
    append(text, "; stage ", buffer_name(kernel, stage.buffer));
    if (stage.around) append(text, " around ", *stage.around);
    append(text, " at ", stage.depth);
    if (!stage.layout.empty()) append(text, " layout");
    for (const LayoutPart& part : stage.layout) {
      append(text, " ", part.dim, ":", part.extent);
      if (part.pad != 0) append(text, "+", part.pad);
    }
  }
  if (entry.keep) append(text, "; keep ", buffer_name(kernel, *entry.keep));
  if (entry.store == StoreKind::kNonTemporal) append(text, "; store nt");
  return text + "\n";
}

/// The words of one line; `;`, `,`, `@`, `:`, `+`, `{` and `}` stand alone.
class Words {
 public:
  Words(std::string_view line, std::string_view source_name, int number)
      : source_name_(source_name), number_(number) {
    size_t i = 0;
    while (i < line.size()) {
      const char c = line[i];
      if (c == ' ' || c == '\t' || c == '\r') {
        ++i;
      } else if (is_sign(c)) {
        words_.push_back(line.substr(i++, 1));
      } else {
        const size_t begin = i;
        while (i < line.size() && line[i] != ' ' && line[i] != '\t' && line[i] != '\r' &&
               !is_sign(line[i]))
          ++i;
        words_.push_back(line.substr(begin, i - begin));
      }
    }
  }

  bool at_end() const { return next_ == words_.size(); }
  std::string_view peek() const { return at_end() ? std::string_view() : words_[next_]; }
  std::string_view take() {
    if (at_end()) error("the line ends too early");
    return words_[next_++];
  }
  bool take_if(std::string_view word) {
    if (peek() != word) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view word) {
    if (!take_if(word)) error(concat("expected '", word, "', got '", peek(), "'"));
  }
  int64_t number() {
    const std::string_view word = take();
    int64_t value = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (failure != std::errc() || end != word.data() + word.size() || value < 0) {
      error(concat("expected a number, got '", word, "'"));
    }
    return value;
  }
  int small_number() {
    const int64_t value = number();
    if (value > INT32_MAX) error(concat(value, " is too large"));
    return static_cast<int>(value);
  }
  [[noreturn]] void error(const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, source_name_, ":", number_, ": ", what);
  }
  template <class T, size_t kSize>
  std::optional<T> one_of(const std::pair<T, std::string_view> (&table)[kSize]) {
    for (const auto& [value, word] : table) {
      if (take_if(word)) return value;
    }
    return std::nullopt;
  }

 private:
  static bool is_sign(char c) {
    return std::string_view(";,@:+{}").find(c) != std::string_view::npos;
  }

  std::string_view source_name_;
  int number_;
  std::vector<std::string_view> words_;
  size_t next_ = 0;
};

class PlanParser {
 public:
  explicit PlanParser(const Kernel& kernel) : kernel_(kernel) {}

  CompPlan entry(Words& words) const {
    CompPlan entry;
    entry.comp = comp_number(words);
    const Comp& comp = comp_at(kernel_, entry.comp);
    words.expect(buffer_name(kernel_, comp.dst));
    const auto how = words.one_of(kHows);
    if (!how) words.error(concat("expected root, before or after, got '", words.peek(), "'"));
    entry.how = *how;
    if (entry.how != How::kRoot) {
      entry.at.comp = comp_number(words);
      words.expect("at");
      entry.at.depth = words.small_number();
    }
    while (!words.at_end() && words.peek() != ";") {
      entry.parts.push_back(part(words, comp));
      if (!words.take_if(",")) break;
    }
    while (words.take_if(";"))
      option(words, entry);
    if (!words.at_end()) words.error(concat("'", words.peek(), "' is not understood"));
    return entry;
  }

 private:
  int comp_number(Words& words) const {
    const int64_t number = words.number();
    if (std::cmp_greater_equal(number, kernel_.body.size())) {
      words.error(concat("there is no comp ", number, "; the kernel has ", kernel_.body.size()));
    }
    return static_cast<int>(number);
  }

  Part part(Words& words, const Comp& comp) const {
    Part part;
    const std::string_view name = words.take();
    part.axis = -1;
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      if (axis_name(kernel_, comp, static_cast<int>(i)) == name) part.axis = static_cast<int>(i);
    }
    if (part.axis < 0) words.error(concat("this comp has no axis '", name, "'"));
    words.expect("@");
    const auto role = words.one_of(kRoles);
    if (!role)
      words.error(concat("expected grid, seq, lane, unroll or vec, got '", words.peek(), "'"));
    part.role = *role;
    if (part.role == Role::kLane) part.dim = words.small_number();
    part.step = words.number();
    part.tail = words.one_of(kTails).value_or(Tail::kNone);
    return part;
  }

  int buffer(Words& words) const {
    const std::string_view name = words.take();
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      if (kernel_.buffers[i].name == name) return static_cast<int>(i);
    }
    words.error(concat("there is no buffer '", name, "'"));
  }

  void option(Words& words, CompPlan& entry) const {
    if (words.take_if("acc")) {
      Acc acc{.depth = words.small_number()};
      if (words.take_if("sequential")) acc.has_partials = false;
      if (words.take_if("carry")) acc.carry_in = buffer(words);
      entry.acc = acc;
    } else if (words.take_if("stage")) {
      Stage stage{.buffer = buffer(words)};
      if (words.take_if("around")) stage.around = comp_number(words);
      words.expect("at");
      stage.depth = words.small_number();
      if (words.take_if("layout")) {
        while (!words.at_end() && words.peek() != ";")
          stage.layout.push_back(layout_part(words));
      }
      entry.stages.push_back(std::move(stage));
    } else if (words.take_if("keep")) {
      entry.keep = buffer(words);
    } else if (words.take_if("store")) {
      words.expect("nt");
      entry.store = StoreKind::kNonTemporal;
    } else {
      words.error(concat("expected acc, stage, keep or store, got '", words.peek(), "'"));
    }
  }

  static LayoutPart layout_part(Words& words) {
    LayoutPart part{.dim = words.small_number()};
    words.expect(":");
    part.extent = words.number();
    if (words.take_if("+")) part.pad = words.number();
    return part;
  }

  const Kernel& kernel_;
};

}  // namespace

std::string to_text(const Plan& plan, const Kernel& kernel) {
  std::string text = concat("plan ", kernel.name, plan.lanes.empty() ? "" : " lanes");
  for (const int64_t lanes : plan.lanes)
    append(text, " ", lanes);
  text += " {\n";
  for (const CompPlan& entry : plan.comps)
    text += entry_text(entry, kernel);
  return text + "}\n";
}

Plan parse_plan(std::string_view text, const Kernel& kernel, std::string_view source_name) {
  Plan plan;
  const PlanParser parser(kernel);
  int number = 0;
  bool is_open = false;
  bool is_closed = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Words words(text.substr(0, end), source_name, ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.at_end()) continue;
    if (is_closed) words.error("nothing may follow the closing brace");
    if (!is_open) {
      words.expect("plan");
      words.expect(kernel.name);
      for (bool has_lanes = words.take_if("lanes"); has_lanes && words.peek() != "{";)
        plan.lanes.push_back(words.number());
      words.expect("{");
      if (!words.at_end()) words.error(concat("'", words.peek(), "' is not understood"));
      is_open = true;
    } else if (words.take_if("}")) {
      is_closed = true;
      if (!words.at_end()) words.error(concat("'", words.peek(), "' is not understood"));
    } else {
      plan.comps.push_back(parser.entry(words));
    }
  }
  TENON_CHECK(is_closed, ErrorCode::kInvalidArgument, source_name,
              ": it ends without a closing brace");
  return plan;
}

}  // namespace tenon
