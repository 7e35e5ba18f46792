// Statements and declarations of kernel text. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/ir/kernel_parser.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon {

Kernel parse_kernel(std::string_view text, std::string_view source_name) {
  return detail::KernelParser(text, source_name).parse();
}

namespace detail {

namespace {

using Kind = KernelToken::Kind;
constexpr int64_t kMaxExtent = int64_t{1} << 48;
constexpr size_t kMaxRank = 16;
constexpr size_t kMaxLayoutParts = 32;
constexpr size_t kMaxSymbols = 65536;
constexpr size_t kMaxAxesOfComp = 64;

}  // namespace

void KernelParser::fail_token(size_t offset, std::string_view message) const {
  fail_at(text_, source_name_, offset, message);
}

void KernelParser::fail_here(std::string_view message) const {
  fail_token(peek().offset, message);
}

void KernelParser::fail_expected(std::string_view expected) const {
  const KernelToken& token = peek();
  const std::string_view shown = token.text.substr(0, 40);
  if (token.kind == Kind::kEnd) fail_here(concat("expected ", expected, ", got the end"));
  fail_here(concat("expected ", expected, ", got '", shown, token.suffix.substr(0, 40), "'"));
}

const KernelToken& KernelParser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const KernelToken& KernelParser::take() {
  const KernelToken& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool KernelParser::accept(std::string_view word) {
  if (!peek().is(word)) return false;
  take();
  return true;
}

void KernelParser::expect(std::string_view word) {
  if (!accept(word)) fail_expected(concat("'", word, "'"));
}

std::string_view KernelParser::expect_name(std::string_view what) {
  if (peek().kind != Kind::kName || is_reserved(peek().text) || !is_identifier(peek().text)) {
    fail_expected(what);
  }
  return take().text;
}

int64_t KernelParser::expect_int(int64_t min, int64_t max, std::string_view what) {
  const size_t start = at_;
  const bool is_negative = min < 0 && accept("-");
  const KernelToken& token = peek();
  std::optional<int64_t> value;
  if (token.kind == Kind::kNumber && token.suffix.empty()) {
    value = parse_int(concat(is_negative ? "-" : "", token.text));
  }
  if (!value || *value < min || *value > max) {
    at_ = start;
    fail_expected(concat(what, " in ", min, "..", max));
  }
  take();
  return *value;
}

void KernelParser::declare(std::string_view name, SymbolKind kind, int number) {
  if (symbols_.size() >= kMaxSymbols) {
    fail_here(concat("expected at most ", kMaxSymbols, " names, got more"));
  }
  if (!symbols_.emplace(std::string(name), Symbol{kind, number}).second) {
    fail_here(concat("expected a new name, got '", name, "', which is taken"));
  }
}

std::optional<KernelParser::Symbol> KernelParser::find(std::string_view name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) return std::nullopt;
  return found->second;
}

int KernelParser::expect_buffer() {
  const KernelToken& token = peek();
  const std::optional<Symbol> symbol =
      token.kind == Kind::kName ? find(token.text) : std::optional<Symbol>();
  if (!symbol || symbol->kind != SymbolKind::kBuffer) fail_expected("the name of a buffer");
  take();
  return symbol->number;
}

Kernel KernelParser::parse() {
  kernel_.is_nest = peek().is("nest");
  if (!accept("kernel") && !accept("nest")) fail_expected("'kernel' or 'nest'");
  kernel_.name = expect_name("the name of the kernel");
  if (peek().is("grid")) kernel_.grid = parse_group("grid", Role::kGrid);
  if (peek().is("lanes")) kernel_.lanes = parse_group("lanes", Role::kLane);
  expect("{");
  parse_declarations();
  kernel_.body = parse_body(1);
  if (peek().kind != Kind::kEnd) fail_expected("the end of the text");
  return std::move(kernel_);
}

void KernelParser::parse_declarations() {
  for (;;) {
    const std::string_view word = peek().kind == Kind::kName ? peek().text : std::string_view();
    if (word == "scalar") {
      parse_scalar();
    } else if (const std::optional<BufferAccess> access = find_access(word)) {
      take();
      const std::string_view name = expect_name("the name of a buffer");
      expect(":");
      BufferDecl decl = parse_type(name, *access);
      declare(name, SymbolKind::kBuffer, kernel_.add_buffer(std::move(decl)));
    } else if (!accept(";")) {
      return;
    }
  }
}

void KernelParser::parse_scalar() {
  expect("scalar");
  ScalarDecl decl;
  decl.name = expect_name("the name of a scalar");
  expect(":");
  const std::optional<DType> dtype = find_dtype(peek().text);
  if (!dtype || !is_int(*dtype)) fail_expected("an integer dtype");
  take();
  decl.dtype = *dtype;
  expect("in");
  decl.min = expect_int(INT64_MIN, INT64_MAX, "the least value");
  expect("..");
  decl.max = expect_int(INT64_MIN, INT64_MAX, "the greatest value");
  if (decl.max < decl.min) fail_here(concat("expected a range, got ", decl.min, "..", decl.max));
  declare(decl.name, SymbolKind::kScalar, static_cast<int>(kernel_.scalars.size()));
  kernel_.scalars.push_back(std::move(decl));
}

// f32[n:256,k:256] group [n/64][k+16][n:64] align 64
BufferDecl KernelParser::parse_type(std::string_view name, BufferAccess access) {
  BufferDecl decl;
  decl.name = std::string(name);
  decl.access = access;
  const std::optional<DType> dtype =
      peek().kind == Kind::kName ? find_dtype(peek().text) : std::optional<DType>();
  if (!dtype || *dtype == DType::kIdx) fail_expected("a dtype");
  take();
  decl.dtype = *dtype;
  std::vector<std::string_view> dim_names;
  expect("[");
  while (!peek().is("]")) {
    if (decl.dims.size() == kMaxRank) fail_expected("']'");
    const bool has_name = peek().kind == Kind::kName;
    dim_names.push_back(has_name ? take().text : std::string_view());
    if (has_name) expect(":");
    decl.dims.push_back(expect_int(1, kMaxExtent, "an extent"));
    if (!peek().is("]")) expect(",");
  }
  expect("]");
  decl.scope = default_scope(access);
  if (const std::optional<Scope> scope = find_scope(peek().text)) {
    take();
    decl.scope = *scope;
  }
  const size_t start = peek().offset;
  while (peek().is("[")) {
    if (decl.layout.size() == kMaxLayoutParts) fail_expected("the end of the layout");
    decl.layout.push_back(parse_layout_part(decl, dim_names));
  }
  finish_layout(decl, start);
  if (accept("align")) decl.align_bytes = expect_int(1, 4096, "an alignment");
  return decl;
}

void KernelParser::finish_layout(BufferDecl& decl, size_t offset) const {
  // `[d/64]` and `[d]` were read without an extent: what the parts inside leave.
  for (LayoutPart& part : decl.layout) {
    if (part.extent != 0) continue;
    int64_t inside = 1;
    for (const LayoutPart& other : decl.layout) {
      const bool is_inside = &other > &part && other.dim == part.dim;
      if (is_inside &&
          (other.extent == 0 || __builtin_mul_overflow(inside, other.extent, &inside))) {
        fail_token(offset, "expected extents on the inner parts of the layout");
      }
    }
    part.extent = (decl.dims[static_cast<size_t>(part.dim)] - 1) / inside + 1;
  }
  if (const std::optional<std::string> reason = why_not_layout(decl)) {
    fail_token(offset, concat("expected a layout that holds the dims: ", *reason));
  }
  const int64_t num_elements = layout_num_elements(decl);
  if (num_elements > kMaxExtent) {
    fail_token(offset, concat("expected at most ", kMaxExtent, " elements, got ", num_elements));
  }
}

// An extent of 0 stands for what the parts inside leave.
LayoutPart KernelParser::parse_layout_part(const BufferDecl& decl,
                                           std::span<const std::string_view> dim_names) {
  expect("[");
  const std::string_view name = peek().kind == Kind::kName ? peek().text : std::string_view();
  LayoutPart part{.dim = -1, .extent = 0, .pad = 0};
  for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
    if (!name.empty() && (name == dim_names[dim] || name == concat("d", dim))) {
      part.dim = static_cast<int>(dim);
    }
  }
  if (part.dim < 0) fail_expected("the name of a dim of this buffer, or d0, d1, ...");
  take();
  if (accept(":")) {
    part.extent = expect_int(1, kMaxExtent, "an extent");
  } else if (accept("/")) {
    expect_int(1, kMaxExtent, "what the parts inside hold");  // checked by the sizes below
  }
  if (accept("+")) part.pad = expect_int(0, kMaxExtent, "a pad");
  expect("]");
  return part;
}

std::vector<AxisUse> KernelParser::parse_group(std::string_view word, Role role) {
  expect(word);
  expect("(");
  std::vector<AxisUse> axes;
  while (!peek().is(")")) {
    if (axes.size() == 3) fail_expected("')'");
    axes.push_back(parse_axis(role, static_cast<int>(axes.size()), false));
    if (!peek().is(")")) expect(",");
  }
  expect(")");
  return axes;
}

// `k:256 red seq`, or the name alone of an axis mentioned before, with its last role.
AxisUse KernelParser::parse_axis(Role implied, int implied_dim, bool may_be_short) {
  const size_t offset = peek().offset;
  const std::string_view name = expect_name("the name of an axis");
  const std::optional<Symbol> symbol = find(name);
  if (symbol && symbol->kind != SymbolKind::kAxis) {
    fail_token(offset, concat("expected the name of an axis, got '", name, "'"));
  }
  if (symbol && may_be_short && !peek().is(":")) {
    const KnownAxis& known = axes_[static_cast<size_t>(symbol->number)];
    return {known.axis, known.role, known.dim};
  }
  expect(":");
  const int64_t extent = expect_int(1, kMaxExtent, "an extent");
  AxisKind kind = AxisKind::kPar;
  if (accept("red")) {
    kind = AxisKind::kRed;
  } else if (accept("scan")) {
    kind = AxisKind::kScan;
  } else {
    accept("par");
  }
  AxisUse use{{}, implied, implied_dim};
  if (const auto role = find_role(peek().text); role && peek().kind == Kind::kName) {
    take();
    use.role = role->role;
    use.dim = role->dim;
  }
  if (!symbol) {
    declare(name, SymbolKind::kAxis, static_cast<int>(axes_.size()));
    use.axis = kernel_.add_axis(std::string(name), extent, kind);
    axes_.push_back({use.axis, use.role, use.dim});
    return use;
  }
  KnownAxis& known = axes_[static_cast<size_t>(symbol->number)];
  if (axis_extent(known.axis) != extent || axis_kind(known.axis) != kind) {
    fail_token(offset, concat("expected axis '", name, "' as before (extent ",
                              axis_extent(known.axis), "), got another extent or kind"));
  }
  known.role = use.role;
  known.dim = use.dim;
  use.axis = known.axis;
  return use;
}

std::vector<AxisUse> KernelParser::parse_over() {
  expect("over");
  std::vector<AxisUse> axes;
  do {
    if (axes.size() == kMaxAxesOfComp) fail_expected("the end of the axes");
    axes.push_back(parse_axis(Role::kNone, 0, true));
  } while (accept(","));
  return axes;
}

// Where the statement that begins here says `over`: its axes are bound before its expressions,
// which stand in front of them, can be read. Stops where the next statement must have begun.
std::optional<size_t> KernelParser::find_over() const {
  int brackets = 0;
  bool has_assigned = false;
  for (size_t at = at_; at < tokens_.size(); ++at) {
    const KernelToken& token = tokens_[at];
    if (token.kind == Kind::kNumber || token.kind == Kind::kTemp) continue;
    if (token.is("(") || token.is("[")) ++brackets;
    if (token.is(")") || token.is("]")) --brackets;
    if (token.kind == Kind::kEnd || token.is("{") || token.is("}")) return std::nullopt;
    if (brackets > 0) continue;
    if (token.is("over")) return at;
    if (token.is(";") || token.is("for") || token.is("if") || token.is("else") ||
        token.is("alloc") || token.is("barrier")) {
      return std::nullopt;
    }
    if (has_assigned && (token.is("combine") || token.is("let"))) return std::nullopt;
    const bool is_assign =
        token.is("=") || token.is("+=") || token.is("*=") || token.is("&=") || token.is("|=");
    const bool is_of_let = at > 0 && tokens_[at - 1].kind == Kind::kTemp;
    if (!is_assign || is_of_let) continue;
    if (has_assigned) return std::nullopt;
    has_assigned = true;
  }
  return std::nullopt;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
Body KernelParser::parse_body(int depth) {
  if (depth > kMaxStmtDepth) {
    fail_here(concat("expected at most ", kMaxStmtDepth, " levels of statements, got more"));
  }
  Body body;
  while (!accept("}")) {
    if (!accept(";")) parse_stmt(body, depth);
  }
  return body;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void KernelParser::parse_stmt(Body& body, int depth) {
  lets_.clear();
  std::vector<AxisUse> axes;
  std::optional<size_t> over_end;
  const std::optional<size_t> over = find_over();
  if (over) {
    const size_t start = at_;
    at_ = *over;
    axes = parse_over();
    over_end = at_;
    at_ = start;
  }
  while (peek().is("let"))
    parse_let();
  const auto skip_over = [&] {
    if (over && at_ == *over) at_ = *over_end;
  };
  if (peek().is("for")) {
    body.push_back({parse_for(depth)});
  } else if (peek().is("if")) {
    body.push_back({parse_if(depth)});
  } else if (peek().is("alloc")) {
    body.push_back({parse_alloc()});
  } else if (peek().is("barrier")) {
    take();
    body.push_back({Barrier{}});
  } else if (peek().is("combine")) {
    Combine combine = parse_combine();
    skip_over();
    if (over) combine.axes = std::move(axes);
    if (accept("via")) combine.via = expect_buffer();
    body.push_back({std::move(combine)});
  } else {
    Comp comp = parse_comp();
    skip_over();
    if (over) comp.axes = std::move(axes);
    const DType dtype = kernel_.buffers[static_cast<size_t>(comp.dst)].dtype;
    if (accept("start")) comp.start = parse_expr_of(dtype, "a start value");
    if (accept("guard")) {
      do {
        comp.guard.push_back(parse_expr_of(DType::kBool, "a guard"));
      } while (accept(","));
    }
    if (accept("nt")) comp.store = StoreKind::kNonTemporal;
    body.push_back({std::move(comp)});
  }
  lets_.clear();
}

void KernelParser::parse_let() {
  expect("let");
  const std::string name = concat("$", lets_.size());
  if (peek().kind != Kind::kTemp || peek().text != name) fail_expected(concat("'", name, "'"));
  take();
  expect("=");
  lets_.push_back(parse_typed_expr());
}

std::vector<Node> KernelParser::parse_index(int buffer) {
  const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(buffer)];
  const size_t offset = peek().offset;
  std::vector<Node> index;
  // Without brackets: the only element of a buffer of rank 0.
  if (peek().is("[")) {
    take();
    while (!peek().is("]")) {
      if (index.size() == kMaxRank) fail_expected("']'");
      index.push_back(parse_index_expr());
      if (!peek().is("]")) expect(",");
    }
    expect("]");
  }
  if (index.size() != decl.dims.size()) {
    fail_token(offset, concat("expected ", decl.dims.size(), " indices of ", decl.name, ", got ",
                              index.size()));
  }
  return index;
}

std::optional<Op> KernelParser::parse_assign() {
  if (accept("=")) return std::nullopt;
  for (const Op op : {Op::kAdd, Op::kMul, Op::kAnd, Op::kOr}) {
    if (accept(assign_text(op))) return op;
  }
  for (const Op op : {Op::kMax, Op::kMin}) {
    if (peek().is(op_name(op)) && peek(1).is("=")) {
      take();
      take();
      return op;
    }
  }
  fail_expected("'=', '+=', '*=', '&=', '|=', 'max=' or 'min='");
}

Comp KernelParser::parse_comp() {
  Comp comp;
  const KernelToken& token = peek();
  if (token.kind != Kind::kName || !find(token.text)) fail_expected("a statement or '}'");
  comp.dst = expect_buffer();
  comp.index = parse_index(comp.dst);
  comp.combine = parse_assign();
  comp.value = parse_expr_of(kernel_.buffers[static_cast<size_t>(comp.dst)].dtype, "a value");
  return comp;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
For KernelParser::parse_for(int depth) {
  expect("for");
  For loop;
  loop.axis = parse_axis(Role::kSeq, 0, false);
  loop.extent =
      accept("to") ? parse_index_expr("an extent") : idx_const(axis_extent(loop.axis.axis));
  expect("{");
  loop.body = parse_body(depth + 1);
  return loop;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
If KernelParser::parse_if(int depth) {
  expect("if");
  If branch;
  branch.condition = parse_expr_of(DType::kBool, "a condition");
  expect("{");
  branch.then_body = parse_body(depth + 1);
  if (accept("else")) {
    expect("{");
    branch.else_body = parse_body(depth + 1);
  }
  return branch;
}

Alloc KernelParser::parse_alloc() {
  expect("alloc");
  if (!peek(1).is(":")) return {expect_buffer()};
  const std::string_view name = expect_name("the name of a buffer");
  expect(":");
  BufferDecl decl = parse_type(name, BufferAccess::kTmp);
  const int number = kernel_.add_buffer(std::move(decl));
  declare(name, SymbolKind::kBuffer, number);
  return {number};
}

Combine KernelParser::parse_combine() {
  expect("combine");
  Combine combine;
  combine.dst = expect_buffer();
  combine.dst_index = parse_index(combine.dst);
  expect("=");
  const std::string_view word = peek().text;
  const std::optional<Op> op = word == "sum" ? Op::kAdd : find_op(word, kKernelLevel);
  if (peek().kind != Kind::kName || !op || !is_combining(*op)) fail_expected("a combining op");
  take();
  combine.op = *op;
  combine.src = expect_buffer();
  combine.src_index = parse_index(combine.src);
  return combine;
}

}  // namespace detail

}  // namespace tenon
