// Prints linear programs; the form is described in linear_text.h.
// SPDX-License-Identifier: MIT

#include <unordered_map>
#include <unordered_set>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/scalar_text.h"

namespace tenon {

namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_word(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!is_name_char(c)) return false;
  }
  return true;
}

std::string word_or_quoted(std::string_view name) {
  return is_word(name) ? std::string(name) : quoted(name);
}

/// The given name with foreign characters replaced; empty if it has nothing but digits.
std::string usable_name(std::string_view given) {
  std::string name;
  bool only_digits = true;
  for (const char c : given) {
    name += is_name_char(c) ? c : '_';
    only_digits = only_digits && c >= '0' && c <= '9';
  }
  return only_digits ? std::string() : name;
}

/// Hands out names in the order of definition; each name once.
class Namer {
 public:
  explicit Namer(const LinearProgram& program) : program_(program) {
    names_.resize(program.values.size());
  }

  void define(ValueId value) {
    if (value >= names_.size()) return;
    const size_t ordinal = num_defined_++;
    std::string name;
    if (value < program_.value_names.size()) name = usable_name(program_.value_names[value]);
    if (name.empty()) {
      names_[value] = concat(ordinal);
      return;
    }
    std::string candidate = name;
    while (!taken_.insert(candidate).second)
      candidate = concat(name, "_", ++next_suffix_[name]);
    names_[value] = std::move(candidate);
  }

  std::vector<std::string> take() { return std::move(names_); }

 private:
  const LinearProgram& program_;
  std::vector<std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_suffix_;
  size_t num_defined_ = 0;
};

std::string_view access_word(ArgumentAccess access) {
  switch (access) {
    case ArgumentAccess::kRead: return "read";
    case ArgumentAccess::kWrite: return "write";
    case ArgumentAccess::kReadWrite: return "readwrite";
  }
  return "read";
}

std::string_view scope_word(Scope scope) {
  switch (scope) {
    case Scope::kNone: return "none";
    case Scope::kGlobal: return "global";
    case Scope::kGroup: return "group";
    case Scope::kReg: return "reg";
  }
  return "none";
}

class Printer {
 public:
  explicit Printer(const LinearProgram& program)
      : program_(program), names_(printed_names(program)) {}

  std::string run() {
    append(out_, "tir ", kLinearVersion, " func ", word_or_quoted(program_.name), " grid(",
           join(program_.grid, ","), ") lanes(", join(program_.lanes, ","), ") scratch ",
           program_.scratch_bytes, " {\n");
    for (size_t i = 0; i < program_.signature.arguments.size(); ++i)
      print_argument(i);
    if (!program_.regions.empty()) print_region(0);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string run(InstId id) {
    print_inst(program_.insts[id]);
    return std::move(out_);
  }

 private:
  struct Open {
    RegionId region;
    size_t next = 0;
    InstId owner = kNoId;
    int number = 0;  ///< which region of its owner
  };

  void print_argument(size_t number) {
    const Argument& arg = program_.signature.arguments[number];
    append(out_, "  arg ", number, " ", word_or_quoted(arg.name), " ", dtype_name(arg.dtype));
    if (arg.is_buffer) {
      append(out_, "[", arg.num_elements, "] ", access_word(arg.access));
    } else if (is_int(arg.dtype)) {
      append(out_, " in ", scalar_text(arg.dtype, static_cast<uint64_t>(arg.min)), "..",
             scalar_text(arg.dtype, static_cast<uint64_t>(arg.max)));
    }
    out_ += '\n';
  }

  void indent(size_t depth) { out_.append(2 * depth, ' '); }

  void print_region(RegionId body) {
    std::vector<Open> stack{{body}};
    while (!stack.empty()) {
      Open& open = stack.back();
      const Region& region = program_.regions[open.region];
      if (open.next == region.insts.size()) {
        const Open closed = open;
        stack.pop_back();
        if (closed.owner != kNoId) close_region(closed, stack);
        continue;
      }
      const Inst& inst = program_.insts[region.insts[open.next++]];
      const bool is_implied = inst.op == Op::kYield && inst.num_operands == 0 &&
                              open.owner != kNoId && open.next == region.insts.size();
      if (is_implied) continue;
      indent(stack.size());
      const InstId id = region.insts[open.next - 1];
      print_inst(inst);
      if (inst.num_regions > 0) {
        out_ += " {\n";
        stack.push_back({inst.regions[0], 0, id, 0});
      } else {
        out_ += '\n';
      }
    }
  }

  void close_region(const Open& closed, std::vector<Open>& stack) {
    indent(stack.size());
    const Inst& owner = program_.insts[closed.owner];
    const bool has_else =
        closed.number == 0 && owner.num_regions == 2 && !is_empty_region(owner.regions[1]);
    if (!has_else) {
      out_ += "}\n";
      return;
    }
    out_ += "} else {\n";
    stack.push_back({owner.regions[1], 0, closed.owner, 1});
  }

  bool is_empty_region(RegionId id) const {
    const Region& region = program_.regions[id];
    if (region.insts.size() != 1) return false;
    const Inst& inst = program_.insts[region.insts[0]];
    return inst.op == Op::kYield && inst.num_operands == 0;
  }

  std::string value(ValueId id) const {
    const bool has_name = id < names_.size() && !names_[id].empty();
    return has_name ? "%" + names_[id] : std::string("%?");
  }

  std::string operand(const Inst& inst, size_t i) const {
    return i < inst.num_operands ? value(program_.operands_of(inst)[i]) : std::string("%?");
  }

  LinearType operand_type(const Inst& inst, size_t i) const {
    if (i >= inst.num_operands) return inst.type;
    const ValueId id = program_.operands_of(inst)[i];
    return id < program_.values.size() ? program_.values[id].type : inst.type;
  }

  void print_operands(const Inst& inst, size_t first) {
    for (size_t i = first; i < inst.num_operands; ++i) {
      append(out_, i == first ? " " : ", ", operand(inst, i));
    }
  }

  void print_address(const Inst& inst, int64_t offset) {
    append(out_, " ", operand(inst, 0), "[", operand(inst, 1));
    if (offset > 0) append(out_, " + ", offset);
    if (offset < 0) append(out_, " - ", uint64_t{0} - static_cast<uint64_t>(offset));
    out_ += ']';
  }

  void print_access_attributes(const Inst& inst) {
    if (inst.align != 0) append(out_, " align ", inst.align);
    if (inst.nt) out_ += " nt";
  }

  void print_table(int64_t number) {
    out_ += " [";
    const bool is_there =
        number >= 0 && static_cast<size_t>(number) < program_.shuffle_tables.size();
    if (is_there) out_ += join(program_.shuffle_tables[static_cast<size_t>(number)], ", ");
    out_ += ']';
  }

  void print_for(const Inst& inst) {
    const Region& region = program_.regions[inst.regions[0]];
    const auto arg = [&](size_t i) {
      return i < region.args.size() ? value(region.args[i]) : std::string("%?");
    };
    append(out_, " ", arg(0), " = ", operand(inst, 0), "..", operand(inst, 1));
    for (size_t i = 2; i < inst.num_operands; ++i) {
      append(out_, i == 2 ? " carry " : ", ", arg(i - 1), " = ", operand(inst, i));
    }
  }

  void print_if(const Inst& inst) {
    append(out_, " ", operand(inst, 0));
    for (uint32_t i = 0; i < inst.num_results; ++i) {
      append(out_, i == 0 ? " -> " : ", ", to_text(program_.type_of(inst.first_result + i)));
    }
  }

  void print_results(const Inst& inst) {
    for (uint32_t i = 0; i < inst.num_results; ++i) {
      append(out_, i == 0 ? "" : ", ", value(inst.first_result + i));
    }
    if (inst.num_results > 0) out_ += " = ";
  }

  void print_memory(const Inst& inst) {
    if (inst.op == Op::kLoad) append(out_, " ", to_text(inst.type));
    print_address(inst, inst.imm);
    if (inst.op == Op::kStore) append(out_, ", ", operand(inst, 2));
    print_access_attributes(inst);
    if (inst.op == Op::kLoad && inst.num_operands > 2) {
      append(out_, " gate ", operand(inst, 2), " alt ", operand(inst, 3));
    }
    if (inst.op == Op::kStore && inst.num_operands > 3) append(out_, " gate ", operand(inst, 3));
  }

  void print_unit(const Inst& inst) {
    append(out_, " ", inst.imm);
    if (inst.op == Op::kUnitSetup) return;
    if (inst.op != Op::kTileStore) append(out_, " ", to_text(inst.type));
    if (inst.op == Op::kMma) {
      print_operands(inst, 0);
      return;
    }
    print_address(inst, 0);
    append(out_, ", ", operand(inst, 2));
    if (inst.op == Op::kTileStore) append(out_, ", ", operand(inst, 3));
  }

  void print_vector(const Inst& inst) {
    const bool by_source = inst.op == Op::kExtract;
    append(out_, " ", to_text(inst.type));
    print_operands(inst, 0);
    if (by_source) append(out_, ", ", inst.imm);
    if (inst.op == Op::kShuffle) print_table(inst.imm);
  }

  void print_inst(const Inst& inst) {
    print_results(inst);
    out_ += op_name(inst.op);
    const OpInfo& info = op_info(inst.op);
    if (inst.op == Op::kConst) {
      append(out_, " ", to_text(inst.type), " ",
             scalar_text(inst.type.dtype, static_cast<uint64_t>(inst.imm)));
    } else if (inst.op == Op::kParam) {
      append(out_, " ", inst.imm);
    } else if (inst.op == Op::kGridId || inst.op == Op::kLaneId) {
      append(out_, " ", inst.imm, " ", to_text(inst.type));
    } else if (inst.op == Op::kAlloc) {
      append(out_, " ", dtype_name(inst.type.dtype), " ", inst.imm, " ",
             scope_word(inst.type.scope));
      print_access_attributes(inst);
    } else if (inst.op == Op::kAtomic) {
      const auto combine = op_from_number(static_cast<uint8_t>(inst.imm));
      append(out_, " ", combine ? op_name(*combine) : "?");
      print_address(inst, 0);
      append(out_, ", ", operand(inst, 2));
    } else if (inst.op == Op::kFor) {
      print_for(inst);
    } else if (inst.op == Op::kIf) {
      print_if(inst);
    } else if (info.op_class == OpClass::kMemory) {
      print_memory(inst);
    } else if (info.op_class == OpClass::kUnit) {
      print_unit(inst);
    } else if (info.op_class == OpClass::kVector) {
      print_vector(inst);
    } else if (is_elementwise(inst.op)) {
      const size_t typed = inst.op == Op::kWhere ? 1 : 0;
      const bool by_result = info.rule == DTypeRule::kAttr;
      append(out_, " ", to_text(by_result ? inst.type : operand_type(inst, typed)));
      print_operands(inst, 0);
    } else {
      print_operands(inst, 0);  // yield, barrier
    }
  }

  const LinearProgram& program_;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::string to_text(const LinearType& type) {
  const std::string lanes = type.lanes == 1 ? std::string() : concat("x", type.lanes);
  switch (type.kind) {
    case TypeKind::kNone: return "nothing";
    case TypeKind::kValue: return concat(dtype_name(type.dtype), lanes);
    case TypeKind::kPointer: return concat(dtype_name(type.dtype), "* ", scope_word(type.scope));
    case TypeKind::kTile: return concat("tile ", dtype_name(type.dtype), lanes);
  }
  return "nothing";
}

std::vector<std::string> printed_names(const LinearProgram& program) {
  Namer namer(program);
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    for (uint32_t i = 0; i < inst.num_results; ++i)
      namer.define(inst.first_result + i);
    for (size_t i = 0; i < inst.num_regions; ++i) {
      for (const ValueId arg : program.regions[inst.regions[i]].args)
        namer.define(arg);
    }
  }
  return namer.take();
}

std::string to_text(const LinearProgram& program) {
  return Printer(program).run();
}

std::string inst_text(const LinearProgram& program, InstId id) {
  return Printer(program).run(id);
}

}  // namespace tenon
