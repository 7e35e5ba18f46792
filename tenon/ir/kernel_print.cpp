// The printer of kernels. Expressions are put into words from the leaves up, without recursion;
// repeated or deep parts become lets, so that text stays linear in the size of the graph.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/ir/kernel_words.h"
#include "tenon/ir/scalar_text.h"

namespace tenon {

namespace {

using namespace detail;  // NOLINT(google-build-using-namespace): the words of this text form

// A part becomes a let if it is used again and has at least kSharedSize nodes, or gets too large or
// too deep (the parser bounds nesting).
constexpr int64_t kSharedSize = 16;
constexpr int64_t kLargeSize = 200;
constexpr int64_t kLargeDepth = 20;

// `5`, `-3i64`, `1.5f32`, `-inf_f32`, `0x7fc00001_f32`, `true`.
std::string const_text(const Node& node) {
  const DType dtype = node.dtype();
  if (dtype == DType::kIdx) return concat(idx_value(node));
  const std::string value = scalar_text(dtype, const_bits(node));
  if (dtype == DType::kBool) return value;
  const bool is_decimal = value.find_first_of("xn") == std::string::npos;
  return concat(value, is_decimal ? "" : "_", dtype_name(dtype));
}

// Unique identifiers for buffers, scalars and axes.
class Names {
 public:
  explicit Names(const Kernel& kernel) : kernel_(kernel) {
    for (size_t i = 0; i < kernel.buffers.size(); ++i)
      buffers_.push_back(unique(kernel.buffers[i].name, "b", i));
    for (size_t i = 0; i < kernel.scalars.size(); ++i)
      scalars_.push_back(unique(kernel.scalars[i].name, "n", i));
  }

  std::string buffer(int64_t number) const {
    const auto i = static_cast<size_t>(number);
    return i < buffers_.size() ? buffers_[i] : concat("buffer", number);
  }
  std::string scalar(int64_t number) const {
    const auto i = static_cast<size_t>(number);
    return i < scalars_.size() ? scalars_[i] : concat("scalar", number);
  }
  std::string axis(const Node& node) {
    const int64_t id = axis_id(node);
    const auto known = axes_.find(id);
    if (known != axes_.end()) return known->second;
    const bool has_name = static_cast<size_t>(id) < kernel_.axis_names.size();
    const std::string wanted = has_name ? kernel_.axis_names[static_cast<size_t>(id)] : "";
    return axes_.emplace(id, unique(wanted, "i", axes_.size())).first->second;
  }
  static std::string plain(std::string_view wanted, std::string_view prefix, size_t number) {
    std::string name;
    for (const char c : wanted.substr(0, kMaxNameLength - 20))
      name += is_identifier(concat("_", c)) ? c : '_';
    if (name.empty()) return concat(prefix, number);
    if (!is_identifier(name)) name.insert(0, "_");
    return is_reserved(name) ? name + "_" : name;
  }

 private:
  std::string unique(std::string_view wanted, std::string_view prefix, size_t number) {
    const std::string base = plain(wanted, prefix, number);
    std::string name = base;
    for (int copy = 2; !taken_.insert(name).second; ++copy)
      name = concat(base, "_", copy);
    return name;
  }

  const Kernel& kernel_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> buffers_;
  std::vector<std::string> scalars_;
  std::map<int64_t, std::string> axes_;
};

// The texts of some expressions, and the lets that they use.
struct ExprTexts {
  std::vector<std::string> lets;
  std::vector<std::string> texts;
};

class ExprPrinter {
 public:
  ExprPrinter(Names& names, std::span<const Node> roots) : names_(names) {
    const std::vector<Node> order = topological_order(roots);
    for (const Node& node : order) {
      for (const Node& src : node.srcs())
        ++parts_[src.id()].uses;
    }
    for (const Node& root : roots)
      ++parts_[root.id()].uses;
    for (const Node& node : order)
      print(node);
    for (const Node& root : roots)
      result_.texts.push_back(parts_.at(root.id()).text);
  }
  ExprTexts take() { return std::move(result_); }

 private:
  struct Part {
    std::string text;
    int precedence = kPrimaryPrecedence;
    int64_t uses = 0;
    int64_t size = 1;
    int64_t depth = 1;
  };

  void print(const Node& node) {
    Part& part = parts_[node.id()];
    for (const Node& src : node.srcs()) {
      const Part& inner = parts_.at(src.id());
      part.size += inner.size;
      part.depth = std::max(part.depth, inner.depth + 1);
    }
    const InfixOp* infix = node.srcs().size() == 2 ? find_infix(node.op()) : nullptr;
    part.precedence = infix != nullptr ? infix->precedence : kPrimaryPrecedence;
    part.text = infix != nullptr ? infix_text(node, *infix) : primary_text(node);
    const bool is_shared = part.uses > 1 && part.size >= kSharedSize;
    if (is_shared || part.size >= kLargeSize || part.depth >= kLargeDepth) {
      const std::string name = concat("$", result_.lets.size());
      result_.lets.push_back(concat("let ", name, " = ", part.text));
      part.text = name;
      part.precedence = kPrimaryPrecedence;
      part.size = 1;
      part.depth = 1;
    }
  }

  std::string operand(const Node& node, int min_precedence) const {
    const Part& part = parts_.at(node.id());
    return part.precedence < min_precedence ? concat("(", part.text, ")") : part.text;
  }

  std::string infix_text(const Node& node, const InfixOp& infix) const {
    const bool chains = infix.precedence != kComparePrecedence;
    const std::string left = operand(node.src(0), infix.precedence + (chains ? 0 : 1));
    const std::string right = operand(node.src(1), infix.precedence + 1);
    const bool is_tight = node.dtype() == DType::kIdx;
    const std::string_view space = is_tight ? "" : " ";
    return concat(left, space, infix.text, space, right);
  }

  std::string list_text(std::span<const Node> nodes) const {
    std::string text;
    for (const Node& node : nodes)
      append(text, text.empty() ? "" : ", ", parts_.at(node.id()).text);
    return text;
  }

  std::string load_text(const Node& node) const {
    const LoadParts load = load_parts(node);
    std::string text = names_.buffer(load.buffer) + "[";
    for (size_t i = 0; i < load.index.size(); ++i)
      append(text, i == 0 ? "" : ",", parts_.at(load.index[i].id()).text);
    if (load.gated) {
      append(text, load.index.empty() ? "if " : " if ", parts_.at(load.gate.id()).text, " else ",
             parts_.at(load.alt.id()).text);
    }
    return text + "]";
  }

  std::string primary_text(const Node& node) {
    const Op op = node.op();
    if (op == Op::kConst) return const_text(node);
    if (op == Op::kAxis) return names_.axis(node);
    if (op == Op::kScalar) return names_.scalar(node.attr(0));
    if (op == Op::kLoad) return load_text(node);
    if (op == Op::kCast) return concat(dtype_name(node.dtype()), "(", list_text(node.srcs()), ")");
    if (op == Op::kBitcast) {
      return concat("bitcast_", dtype_name(node.dtype()), "(", list_text(node.srcs()), ")");
    }
    return concat(op_name(op), "(", list_text(node.srcs()), ")");
  }

  Names& names_;
  std::unordered_map<const void*, Part> parts_;
  ExprTexts result_;
};

std::string type_text(const BufferDecl& decl) {
  std::string text = concat(dtype_name(decl.dtype), "[", join(decl.dims, ","), "]");
  if (decl.scope != default_scope(decl.access)) append(text, " ", scope_text(decl.scope));
  if (!decl.layout.empty()) text += ' ';
  for (size_t i = 0; i < decl.layout.size(); ++i) {
    const LayoutPart& part = decl.layout[i];
    int64_t inside = 1;  // extents of the parts of this dim further in
    bool is_outermost = true;
    for (size_t other = 0; other < decl.layout.size(); ++other) {
      if (other == i || decl.layout[other].dim != part.dim) continue;
      if (other < i) is_outermost = false;
      if (other > i && __builtin_mul_overflow(inside, decl.layout[other].extent, &inside))
        inside = 0;
    }
    const auto dim = static_cast<size_t>(part.dim);
    const bool is_short = is_outermost && dim < decl.dims.size() && inside > 0 &&
                          part.extent == (decl.dims[dim] - 1) / inside + 1;
    append(text, "[d", part.dim);
    if (!is_short) append(text, ":", part.extent);
    if (is_short && inside != 1) append(text, "/", inside);
    if (part.pad != 0) append(text, "+", part.pad);
    text += ']';
  }
  if (decl.align_bytes != 0) append(text, " align ", decl.align_bytes);
  return text;
}

class KernelPrinter {
 public:
  explicit KernelPrinter(const Kernel& kernel) : kernel_(kernel), names_(kernel) {}

  std::string print() {
    append(out_, kernel_.is_nest ? "nest " : "kernel ", Names::plain(kernel_.name, "k", 0));
    if (kernel_.is_nest || !kernel_.grid.empty() || !kernel_.lanes.empty()) {
      append(out_, " grid(", group_text(kernel_.grid, Role::kGrid), ")");
      append(out_, " lanes(", group_text(kernel_.lanes, Role::kLane), ")");
    }
    out_ += " {\n";
    print_declarations();
    print_body(kernel_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  struct Mention {
    Node axis;
    Role role;
    int dim;
  };

  // `name:extent kind role`; a role that the place implies is left out.
  std::string full_axis(const AxisUse& use, Role implied, int implied_dim) {
    mentions_.insert_or_assign(axis_id(use.axis), Mention{use.axis, use.role, use.dim});
    std::string text = concat(names_.axis(use.axis), ":", axis_extent(use.axis));
    if (axis_kind(use.axis) == AxisKind::kRed) text += " red";
    if (axis_kind(use.axis) == AxisKind::kScan) text += " scan";
    if (use.role != implied || use.dim != implied_dim) text += " " + role_text(use.role, use.dim);
    return text;
  }

  std::string group_text(std::span<const AxisUse> axes, Role role) {
    std::string text;
    for (size_t i = 0; i < axes.size(); ++i)
      append(text, i == 0 ? "" : ", ", full_axis(axes[i], role, static_cast<int>(i)));
    return text;
  }

  // An axis that was mentioned before with this role is its name alone.
  std::string axis_text(const AxisUse& use) {
    const auto last = mentions_.find(axis_id(use.axis));
    if (last != mentions_.end() && last->second.axis == use.axis && last->second.role == use.role &&
        last->second.dim == use.dim) {
      return names_.axis(use.axis);
    }
    return full_axis(use, Role::kNone, 0);
  }

  std::string over_text(std::span<const AxisUse> axes) {
    std::string text;
    for (const AxisUse& use : axes)
      append(text, text.empty() ? "  over " : ", ", axis_text(use));
    return text;
  }

  void print_declarations() {
    std::vector<bool> has_alloc(kernel_.buffers.size(), false);
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      const auto* alloc = std::get_if<Alloc>(&stmt.node);
      if (alloc != nullptr && static_cast<size_t>(alloc->buffer) < has_alloc.size()) {
        has_alloc[static_cast<size_t>(alloc->buffer)] = true;
      }
    });
    is_declared_.assign(kernel_.buffers.size(), false);
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const BufferDecl& decl = kernel_.buffers[i];
      if (has_alloc[i] && decl.access == BufferAccess::kTmp) continue;
      is_declared_[i] = true;
      append(out_, "  ", access_text(decl.access), " ", names_.buffer(static_cast<int64_t>(i)),
             ": ", type_text(decl), "\n");
    }
    for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
      const ScalarDecl& decl = kernel_.scalars[i];
      append(out_, "  scalar ", names_.scalar(static_cast<int64_t>(i)), ": ",
             dtype_name(decl.dtype), " in ", decl.min, "..", decl.max, "\n");
    }
  }

  void line(int depth, std::string_view text) {
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    append(out_, text, "\n");
  }

  // Prints the lets of the statement's expressions and returns their texts.
  std::vector<std::string> exprs(const Stmt& stmt, int depth) {
    std::vector<Node> roots;
    for_each_expr(stmt, [&](const Node& node) { roots.push_back(node); });
    ExprTexts result = ExprPrinter(names_, roots).take();
    for (const std::string& let : result.lets)
      line(depth, let);
    return std::move(result.texts);
  }

  // Names are given in order of binding: axes first, though the text has them behind.
  void name_axes(const Stmt& stmt) {
    for (const AxisUse& use : axes_of(stmt))
      names_.axis(use.axis);
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void print_body(const Body& body, int depth) {
    for (const Stmt& stmt : body)
      print_stmt(stmt, depth);
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void print_stmt(const Stmt& stmt, int depth) {
    name_axes(stmt);
    const std::vector<std::string> texts = exprs(stmt, depth);
    if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
      line(depth, comp_text(*comp, texts));
    } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
      print_for(*loop, texts, depth);
    } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
      line(depth, concat("if ", texts.at(0), " {"));
      print_body(branch->then_body, depth + 1);
      if (!branch->else_body.empty()) {
        line(depth, "} else {");
        print_body(branch->else_body, depth + 1);
      }
      line(depth, "}");
    } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      line(depth, alloc_text(*alloc));
    } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
      line(depth, combine_text(*combine, texts));
    } else {
      line(depth, "barrier");
    }
  }

  static std::string indexed(const std::string& name, std::span<const std::string> index) {
    return concat(name, "[", join(index, ","), "]");
  }

  std::string comp_text(const Comp& comp, std::span<const std::string> texts) {
    const size_t rank = comp.index.size();
    std::string text = indexed(names_.buffer(comp.dst), texts.first(rank));
    size_t next = rank;
    append(text, " ", assign_text(comp.combine), " ", texts[next++], over_text(comp.axes));
    if (comp.start) append(text, "  start ", texts[next++]);
    if (!comp.guard.empty()) append(text, "  guard ", join(texts.subspan(next), ", "));
    if (comp.store == StoreKind::kNonTemporal) text += "  nt";
    return text;
  }

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  void print_for(const For& loop, std::span<const std::string> texts, int depth) {
    std::string text = "for " + full_axis(loop.axis, Role::kSeq, 0);
    const bool is_whole = loop.extent == idx_const(axis_extent(loop.axis.axis));
    if (!is_whole && !texts.empty()) append(text, " to ", texts[0]);
    line(depth, text + " {");
    print_body(loop.body, depth + 1);
    line(depth, "}");
  }

  std::string alloc_text(const Alloc& alloc) {
    std::string text = "alloc " + names_.buffer(alloc.buffer);
    const auto i = static_cast<size_t>(alloc.buffer);
    if (i < is_declared_.size() && !is_declared_[i]) {
      is_declared_[i] = true;
      append(text, ": ", type_text(kernel_.buffers[i]));
    }
    return text;
  }

  std::string combine_text(const Combine& combine, std::span<const std::string> texts) {
    const size_t rank = combine.dst_index.size();
    std::string text =
        concat("combine ", indexed(names_.buffer(combine.dst), texts.first(rank)), " = ",
               op_name(combine.op), " ", indexed(names_.buffer(combine.src), texts.subspan(rank)),
               over_text(combine.axes));
    if (combine.via) append(text, " via ", names_.buffer(*combine.via));
    return text;
  }

  const Kernel& kernel_;
  Names names_;
  std::map<int64_t, Mention> mentions_;
  std::vector<bool> is_declared_;
  std::string out_;
};

}  // namespace

std::string to_text(const Kernel& kernel) {
  return KernelPrinter(kernel).print();
}

std::string to_text(const Node& expr, const Kernel& kernel) {
  if (!expr) return "null";
  Names names(kernel);
  const ExprTexts result = ExprPrinter(names, std::span(&expr, 1)).take();
  std::string text;
  for (const std::string& let : result.lets)
    append(text, let, "; ");
  return text + result.texts[0];
}

}  // namespace tenon
