// Reads linear programs; the form is described in linear_text.h. One pass, one function per form.
// Recursion is bounded by kMaxRegionDepth, memory by the length of the text.
// SPDX-License-Identifier: MIT

#include <charconv>
#include <limits>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/ir/linear_lexer.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/scalar_text.h"

namespace tenon {

namespace {

using Token = detail::LinearToken;

template <typename Number>
bool read_all(std::string_view text, Number* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && !text.empty();
}

bool read_hex(std::string_view digits, uint64_t* bits) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, *bits, 16);
  return error == std::errc() && stop == end && !digits.empty();
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view source_name)
      : lexer_(text, source_name), builder_(program_) {}

  LinearProgram run() {
    parse_header();
    while (lexer_.peek().is("arg"))
      parse_argument();
    parse_statements(0);
    expect("}");
    if (lexer_.peek().kind != Token::Kind::kEnd) lexer_.fail_expected("the end of the text");
    return std::move(program_);
  }

 private:
  // --- small pieces ---------------------------------------------------------------------------

  bool accept(std::string_view what) {
    if (!lexer_.peek().is(what)) return false;
    lexer_.take();
    return true;
  }

  void expect(std::string_view what) {
    if (!accept(what)) lexer_.fail_expected(concat("'", what, "'"));
  }

  Token expect_word(std::string_view meaning) {
    if (lexer_.peek().kind != Token::Kind::kWord) lexer_.fail_expected(meaning);
    return lexer_.take();
  }

  int64_t expect_int(std::string_view meaning, int64_t min, int64_t max) {
    const bool is_negative = lexer_.peek().is("-");
    const Token sign = lexer_.peek();
    if (is_negative) lexer_.take();
    if (lexer_.peek().kind != Token::Kind::kNumber) lexer_.fail_expected(meaning);
    const Token digits = lexer_.take();
    int64_t value = 0;
    const bool fits = read_all((is_negative ? "-" : "") + std::string(digits.text), &value) &&
                      value >= min && value <= max;
    if (!fits) {
      lexer_.fail_at(is_negative ? sign : digits,
                     concat("found ", is_negative ? "-" : "", digits.text.substr(0, 40),
                            ", expected ", meaning, " from ", min, " to ", max));
    }
    return value;
  }

  std::string expect_name(std::string_view meaning) {
    if (lexer_.peek().kind != Token::Kind::kString) return std::string(expect_word(meaning).text);
    const Token token = lexer_.take();
    std::string name;
    for (size_t i = 0; i < token.text.size(); ++i) {
      name += token.text[i] == '\\' ? unescape(token, &i) : token.text[i];
    }
    return name;
  }

  char unescape(const Token& token, size_t* position) {
    constexpr std::string_view kLetters = "\"\\ntr";
    constexpr std::string_view kMeanings = "\"\\\n\t\r";
    const char letter = token.text[++*position];  // the lexer saw a character after each backslash
    const size_t known = kLetters.find(letter);
    if (known != std::string_view::npos) return kMeanings[known];
    uint64_t code = 0;
    const std::string_view digits = token.text.substr(*position + 1, 2);
    if (letter != 'x' || digits.size() != 2 || !read_hex(digits, &code)) {
      lexer_.fail_at(token,
                     "found an unknown escape in a string, expected \\\" \\\\ \\n \\t \\r "
                     "or \\xNN");
    }
    *position += 2;
    return static_cast<char>(code);
  }

  DType expect_dtype() {
    if (lexer_.peek().kind == Token::Kind::kWord) {
      if (const auto dtype = find_dtype(lexer_.peek().text)) {
        lexer_.take();
        return *dtype;
      }
    }
    lexer_.fail_expected("a dtype like f32");
  }

  LinearType expect_type() {
    LinearType type = value_type(DType::kI32);
    if (accept("tile")) type.kind = TypeKind::kTile;
    const std::string_view text = lexer_.peek().text;
    const size_t split_at = text.rfind('x');
    const bool has_lanes = lexer_.peek().kind == Token::Kind::kWord && !find_dtype(text) &&
                           split_at != std::string_view::npos &&
                           read_all(text.substr(split_at + 1), &type.lanes) && type.lanes > 0;
    const auto dtype = find_dtype(has_lanes ? text.substr(0, split_at) : text);
    if (lexer_.peek().kind != Token::Kind::kWord || !dtype) {
      lexer_.fail_expected("a type like f32 or f32x16");
    }
    type.dtype = *dtype;
    lexer_.take();
    return type;
  }

  ValueId expect_value(std::string_view meaning = "a value like %x") {
    if (lexer_.peek().kind != Token::Kind::kValue) lexer_.fail_expected(meaning);
    const Token token = lexer_.take();
    const auto found = ids_.find(token.text);
    if (found == ids_.end()) {
      lexer_.fail_at(token, concat("%", token.text, " is used before it is defined"));
    }
    if (!is_visible_[found->second]) {
      lexer_.fail_at(token, concat("%", token.text, " is not visible here: it is defined in a ",
                                   "region that has ended. Yield it as a result"));
    }
    return found->second;
  }

  ValueId expect_value_of(const LinearType& type) {
    const Token token = lexer_.peek();
    const ValueId value = expect_value();
    if (program_.type_of(value) != type) {
      lexer_.fail_at(token, concat("%", token.text, " is ", to_text(program_.type_of(value)),
                                   ", expected ", to_text(type)));
    }
    return value;
  }

  void define(const Token& name, ValueId value) {
    if (!ids_.emplace(name.text, value).second) {
      lexer_.fail_at(name, concat("%", name.text, " is defined twice"));
    }
    is_visible_.resize(program_.values.size(), false);
    is_visible_[value] = true;
    const bool only_digits = name.text.find_first_not_of("0123456789") == std::string_view::npos;
    if (only_digits) return;
    program_.value_names.resize(program_.values.size());
    program_.value_names[value] = std::string(name.text);
  }

  // --- header ---------------------------------------------------------------------------------

  void parse_header() {
    expect("tir");
    const Token version = lexer_.peek();
    if (expect_int("the version", 0, 1000000) != kLinearVersion) {
      lexer_.fail_at(version,
                     concat("found version ", version.text, ", expected version ", kLinearVersion));
    }
    expect("func");
    program_.name = expect_name("the function's name");
    expect("grid");
    program_.grid = parse_extents();
    expect("lanes");
    program_.lanes = parse_extents();
    expect("scratch");
    program_.scratch_bytes = expect_int("bytes of group memory", 0, kMax);
    expect("{");
  }

  std::vector<int64_t> parse_extents() {
    std::vector<int64_t> extents;
    expect("(");
    do {
      if (extents.size() == 3) lexer_.fail_expected("')': there are at most 3 dimensions");
      extents.push_back(expect_int("an extent", 1, int64_t{1} << 40));
    } while (accept(","));
    expect(")");
    return extents;
  }

  void parse_argument() {
    expect("arg");
    const Token number = lexer_.peek();
    auto& arguments = program_.signature.arguments;
    if (expect_int("the argument's number", 0, kMax) != static_cast<int64_t>(arguments.size())) {
      lexer_.fail_at(number, concat("found argument ", number.text, ", expected argument ",
                                    arguments.size(), ": they are listed in order"));
    }
    Argument arg;
    arg.name = expect_name("the argument's name");
    arg.dtype = expect_dtype();
    arg.is_buffer = accept("[");
    if (arg.is_buffer) {
      arg.num_elements = expect_int("a number of elements", 0, kMax);
      expect("]");
      arg.access = parse_access();
    } else if (is_int(arg.dtype)) {
      expect("in");
      arg.min = static_cast<int64_t>(expect_literal(arg.dtype));
      expect("..");
      arg.max = static_cast<int64_t>(expect_literal(arg.dtype));
    }
    arguments.push_back(std::move(arg));
  }

  ArgumentAccess parse_access() {
    if (accept("read")) return ArgumentAccess::kRead;
    if (accept("write")) return ArgumentAccess::kWrite;
    if (accept("readwrite")) return ArgumentAccess::kReadWrite;
    lexer_.fail_expected("read, write or readwrite");
  }

  uint64_t expect_literal(DType dtype) {
    const Token first = lexer_.peek();
    std::string text;
    if (accept("-")) text = "-";
    const Token body = lexer_.peek();
    const bool is_literal = body.kind == Token::Kind::kNumber || body.kind == Token::Kind::kWord;
    if (!is_literal) lexer_.fail_expected(concat("a value of ", dtype_name(dtype)));
    text += lexer_.take().text;
    const auto bits = parse_scalar(dtype, text);
    if (!bits) {
      lexer_.fail_at(first, concat("found ", quoted(text.substr(0, 40)), ", expected a value of ",
                                   dtype_name(dtype), " in its range"));
    }
    return *bits;
  }

  // --- statements -----------------------------------------------------------------------------

  // NOLINTBEGIN(misc-no-recursion): parse_region bounds the depth.
  void parse_statements(int depth) {
    while (!lexer_.peek().is("}")) {
      std::vector<Token> results;
      if (lexer_.peek().kind == Token::Kind::kValue) {
        do {
          if (lexer_.peek().kind != Token::Kind::kValue) lexer_.fail_expected("a value's name");
          results.push_back(lexer_.take());
        } while (accept(","));
        expect("=");
      }
      if (lexer_.peek().kind != Token::Kind::kWord) {
        lexer_.fail_expected("an instruction or '}'");
      }
      const Token word = lexer_.take();
      parse_instruction(word, find_instruction(word), results, depth);
    }
  }

  Op find_instruction(const Token& word) {
    const auto op = find_op(word.text, kLinearLevel);
    if (op && *op != Op::kFunc) return *op;
    std::vector<std::string_view> names;
    for (const OpInfo& info : all_ops()) {
      if ((info.levels & kLinearLevel) != 0) names.push_back(info.name);
    }
    const auto nearest = nearest_name(word.text.substr(0, 40), names);
    lexer_.fail_at(word, concat("found ", quoted(word.text.substr(0, 40)),
                                ", expected an op of the linear level",
                                nearest ? concat("; did you mean '", *nearest, "'?") : ""));
  }

  void finish(const Token& word, Inst inst, std::span<const ValueId> operands,
              std::span<const LinearType> types, const std::vector<Token>& results) {
    if (types.size() != results.size()) {
      lexer_.fail_at(word, concat(word.text, " gives ", types.size(), " results, but ",
                                  results.size(), " names stand before it"));
    }
    const InstId id = builder_.append(inst, operands, types);
    for (size_t i = 0; i < results.size(); ++i) {
      define(results[i], program_.insts[id].first_result + static_cast<ValueId>(i));
    }
  }

  void parse_instruction(const Token& word, Op op, const std::vector<Token>& results, int depth) {
    Inst inst{.op = op};
    std::vector<ValueId> operands;
    if (op == Op::kFor) return parse_for(word, results, depth);
    if (op == Op::kIf) return parse_if(word, results, depth);
    const OpClass op_class = op_info(op).op_class;
    if (op == Op::kYield) {
      parse_yield(&operands, depth);
    } else if (op == Op::kBarrier) {
      // no parts
    } else if (op == Op::kAlloc) {
      parse_alloc(&inst);
    } else if (op_class == OpClass::kLeaf) {
      parse_leaf(&inst);
    } else if (op_class == OpClass::kMemory) {
      parse_memory(&inst, &operands);
    } else if (op_class == OpClass::kUnit) {
      parse_unit(&inst, &operands);
    } else if (op_class == OpClass::kVector) {
      parse_vector(&inst, &operands);
    } else {
      parse_elementwise(&inst, &operands);
    }
    const bool has_result = op_info(op).rule != DTypeRule::kNone;
    finish(word, inst, operands, {&inst.type, has_result ? size_t{1} : size_t{0}}, results);
    if (op == Op::kYield && !lexer_.peek().is("}")) lexer_.fail_expected("'}' after yield");
  }

  void parse_yield(std::vector<ValueId>* operands, int depth) {
    if (depth == 0) lexer_.fail_expected("no yield in the function's body");
    if (lexer_.peek().is("}")) return;
    do {
      operands->push_back(expect_value());
    } while (accept(","));
  }

  void parse_leaf(Inst* inst) {
    if (inst->op == Op::kConst) {
      inst->type = expect_type();
      inst->imm = static_cast<int64_t>(expect_literal(inst->type.dtype));
      return;
    }
    if (inst->op == Op::kParam) {
      const Token number = lexer_.peek();
      const auto& arguments = program_.signature.arguments;
      inst->imm = expect_int("an argument's number", 0, kMax);
      if (static_cast<size_t>(inst->imm) >= arguments.size()) {
        lexer_.fail_at(number, concat("found argument ", inst->imm, ", but the function has ",
                                      arguments.size(), " arguments"));
      }
      const Argument& arg = arguments[static_cast<size_t>(inst->imm)];
      inst->type = arg.is_buffer ? pointer_type(arg.dtype, Scope::kGlobal) : value_type(arg.dtype);
      return;
    }
    inst->imm = expect_int("a dimension", 0, 2);
    inst->type = expect_type();
  }

  void parse_alloc(Inst* inst) {
    const DType dtype = expect_dtype();
    inst->imm = expect_int("a number of elements", 0, kMax);
    if (!lexer_.peek().is("group") && !lexer_.peek().is("reg")) {
      lexer_.fail_expected("group or reg");
    }
    inst->type = pointer_type(dtype, lexer_.take().text == "group" ? Scope::kGroup : Scope::kReg);
    parse_align(inst);
  }

  void parse_align(Inst* inst) {
    if (accept("align")) inst->align = static_cast<uint32_t>(expect_int("bytes", 1, 1 << 20));
  }

  void parse_address(Inst* inst, std::vector<ValueId>* operands, bool with_offset) {
    operands->push_back(expect_value("a pointer like %p"));
    expect("[");
    operands->push_back(expect_value("an index like %i"));
    if (with_offset && accept("+")) {
      inst->imm = expect_int("an offset in elements", 0, kMax);
    } else if (with_offset && accept("-")) {
      inst->imm = -expect_int("an offset in elements", 0, kMax);
    }
    expect("]");
  }

  void parse_memory(Inst* inst, std::vector<ValueId>* operands) {
    if (inst->op == Op::kAtomic) {
      const Token word = expect_word("the combining op");
      inst->imm = static_cast<int64_t>(find_instruction(word));
    }
    if (inst->op == Op::kLoad) inst->type = expect_type();
    parse_address(inst, operands, inst->op != Op::kAtomic);
    if (inst->op == Op::kPrefetch) return;
    if (inst->op == Op::kStore || inst->op == Op::kAtomic) {
      expect(",");
      operands->push_back(expect_value());
      inst->type = program_.type_of(operands->back());
    }
    if (inst->op == Op::kAtomic) return;
    parse_align(inst);
    inst->nt = accept("nt");
    if (!accept("gate")) return;
    operands->push_back(expect_value("a gate like %m"));
    if (inst->op == Op::kStore) return;
    expect("alt");
    operands->push_back(expect_value());
  }

  void parse_unit(Inst* inst, std::vector<ValueId>* operands) {
    inst->imm = expect_int("a matrix unit's number", 0, 255);
    if (inst->op == Op::kUnitSetup) return;
    if (inst->op != Op::kTileStore) inst->type = expect_type();
    if (inst->op == Op::kMma) {
      parse_operands(operands, 3);
      return;
    }
    const int64_t unit = inst->imm;
    parse_address(inst, operands, false);
    inst->imm = unit;
    expect(",");
    operands->push_back(expect_value("a stride like %s"));
    if (inst->op == Op::kTileLoad) return;
    expect(",");
    operands->push_back(expect_value("a tile like %t"));
    inst->type = program_.type_of(operands->back());
  }

  void parse_operands(std::vector<ValueId>* operands, int count) {
    for (int i = 0; i < count; ++i) {
      if (i > 0) expect(",");
      operands->push_back(expect_value());
    }
  }

  void parse_vector(Inst* inst, std::vector<ValueId>* operands) {
    inst->type = expect_type();
    parse_operands(operands, op_info(inst->op).arity);
    if (inst->op == Op::kExtract) {
      expect(",");
      inst->imm = expect_int("a lane", 0, kMaxVectorLanes - 1);
    }
    if (inst->op != Op::kShuffle) return;
    std::vector<int> table;
    expect("[");
    do {
      if (table.size() == kMaxVectorLanes)
        lexer_.fail_expected("']': a table has at most 64 lanes");
      table.push_back(static_cast<int>(expect_int("a lane", 0, 2 * kMaxVectorLanes - 1)));
    } while (accept(","));
    expect("]");
    const auto next = static_cast<int64_t>(program_.shuffle_tables.size());
    const auto [found, is_new] = tables_.emplace(std::string(table.begin(), table.end()), next);
    if (is_new) program_.shuffle_tables.push_back(std::move(table));
    inst->imm = found->second;
  }

  void parse_elementwise(Inst* inst, std::vector<ValueId>* operands) {
    const OpInfo& info = op_info(inst->op);
    inst->type = expect_type();
    if (info.rule == DTypeRule::kAttr) return parse_operands(operands, info.arity);
    for (int i = 0; i < info.arity; ++i) {
      if (i > 0) expect(",");
      LinearType wanted = inst->type;
      if (info.rule == DTypeRule::kWhere && i == 0) wanted.dtype = DType::kBool;
      operands->push_back(expect_value_of(wanted));
    }
    if (info.rule == DTypeRule::kCompare) inst->type.dtype = DType::kBool;
  }

  // --- regions --------------------------------------------------------------------------------

  void parse_region(RegionId region, int depth) {
    if (depth > kMaxRegionDepth) {
      lexer_.fail_expected(concat("at most ", kMaxRegionDepth, " regions inside each other"));
    }
    const RegionId outer = builder_.region();
    builder_.set_region(region);
    const auto first_hidden = static_cast<ValueId>(program_.values.size());
    parse_statements(depth);
    expect("}");
    const auto& insts = program_.regions[region].insts;
    if (insts.empty() || program_.insts[insts.back()].op != Op::kYield) {
      builder_.append({.op = Op::kYield}, {}, {});
    }
    for (const ValueId arg : program_.regions[region].args)
      is_visible_[arg] = false;
    is_visible_.resize(program_.values.size(), false);
    for (size_t value = first_hidden; value < is_visible_.size(); ++value) {
      is_visible_[value] = false;
    }
    builder_.set_region(outer);
  }

  void parse_for(const Token& word, const std::vector<Token>& results, int depth) {
    Inst inst{.op = Op::kFor, .num_regions = 1};
    std::vector<ValueId> operands;
    std::vector<Token> args;
    std::vector<LinearType> types;
    const auto take_arg = [&] {
      if (lexer_.peek().kind != Token::Kind::kValue) lexer_.fail_expected("a name like %k");
      args.push_back(lexer_.take());
      expect("=");
      operands.push_back(expect_value());
    };
    take_arg();
    expect("..");
    operands.push_back(expect_value());
    if (accept("carry")) {
      do {
        take_arg();
        types.push_back(program_.type_of(operands.back()));
      } while (accept(","));
    }
    expect("{");
    inst.regions[0] = builder_.add_region();
    if (!types.empty()) inst.type = types[0];
    finish(word, inst, operands, types, results);
    hide(results);
    const LinearType index_type = program_.type_of(operands[0]);
    for (size_t i = 0; i < args.size(); ++i) {
      const LinearType& type = i == 0 ? index_type : types[i - 1];
      define(args[i], builder_.add_region_arg(inst.regions[0], type));
    }
    parse_region(inst.regions[0], depth + 1);
    show(results);
  }

  void parse_if(const Token& word, const std::vector<Token>& results, int depth) {
    Inst inst{.op = Op::kIf, .num_regions = 2};
    const RegionId outer = builder_.region();
    const std::vector<ValueId> operands{expect_value("a condition like %c")};
    std::vector<LinearType> types;
    if (accept("->")) {
      do {
        types.push_back(expect_type());
      } while (accept(","));
    }
    expect("{");
    inst.regions = {builder_.add_region(), builder_.add_region()};
    if (!types.empty()) inst.type = types[0];
    finish(word, inst, operands, types, results);
    hide(results);
    parse_region(inst.regions[0], depth + 1);
    if (accept("else")) {
      expect("{");
      parse_region(inst.regions[1], depth + 1);
    } else {
      builder_.set_region(inst.regions[1]);
      builder_.append({.op = Op::kYield}, {}, {});
      builder_.set_region(outer);
    }
    show(results);
  }

  // NOLINTEND(misc-no-recursion)

  void hide(const std::vector<Token>& results) {
    for (const Token& name : results)
      is_visible_[ids_.at(name.text)] = false;
  }
  void show(const std::vector<Token>& results) {
    for (const Token& name : results)
      is_visible_[ids_.at(name.text)] = true;
  }

  static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

  detail::LinearLexer lexer_;
  LinearProgram program_;
  LinearBuilder builder_;
  std::unordered_map<std::string_view, ValueId> ids_;
  std::unordered_map<std::string, int64_t> tables_;
  std::vector<bool> is_visible_;  ///< by ValueId; a shorter vector means false
};

}  // namespace

LinearProgram parse_linear(std::string_view text, std::string_view source_name) {
  return Parser(text, source_name).run();
}

}  // namespace tenon
