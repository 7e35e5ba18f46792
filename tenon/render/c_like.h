// The shared base of renderers for C-like languages: walks a structured program and prints one
// statement per live value. What differs between languages is a table (op -> template) and the
// virtual hooks of CLikeWriter. Derived by c.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/render/renderer.h"

namespace tenon {

/// Which operands a row of the table is for: kinds of dtype, and scalars (narrow: below 32 bits,
/// which C promotes to int) or vectors.
enum OpKinds : uint8_t { kOnBool = 1, kOnSigned = 2, kOnUnsigned = 4, kOnInt = 6, kOnFloat = 8 };
enum OpForms : uint8_t { kNarrow = 1, kWide = 2, kScalar = 3, kVector = 4, kAnyForm = 7 };

inline uint8_t op_kind_of(DType dtype) {
  if (is_float(dtype)) return kOnFloat;
  if (is_signed_int(dtype)) return kOnSigned;
  return is_unsigned_int(dtype) ? kOnUnsigned : kOnBool;
}

/// How one elementwise op is spelled; the first row that fits is taken. In both texts:
///   $0 $1 $2  operands (in `text`)
///   $R $S     type of the result; of the operands that decide (where: the two values)
///   $M $U $I  with the lanes of S: bool; the unsigned, the signed integer of the same width
///   $W        the unsigned type to compute in: u32 for narrow scalars, else $U
///   $B $< $>  bits of S; the smallest and largest value of S
///   $#        0, 1, ... one number per lane of R
struct OpText {
  Op op;
  uint8_t kinds;
  uint8_t forms;
  std::string_view text;
  std::string_view helper = {};  ///< a function that `text` calls; printed once, before the kernel
};

/// Prints one program. A derived class is made, used once by write(), and thrown away.
class CLikeWriter {
 public:
  CLikeWriter(const LinearProgram& program, const Target& target);
  virtual ~CLikeWriter() = default;
  CLikeWriter(const CLikeWriter&) = delete;
  CLikeWriter& operator=(const CLikeWriter&) = delete;

  RenderedSource write();

 protected:
  // --- what a language says --------------------------------------------------------------------

  /// Name of the language in errors.
  virtual std::string_view language() const = 0;
  virtual std::span<const OpText> op_table() const = 0;
  /// Spelling of a value's type; declares it if it has to be.
  virtual std::string type_text(const LinearType& type) = 0;
  /// A constant as an expression that can stand in any operand position.
  virtual std::string constant_text(const LinearType& type, uint64_t bits) = 0;
  /// Expressions: param, grid_id, lane_id; cast and bitcast; splat ... first_n; load, atomic.
  virtual std::string source_text(const Inst& inst) = 0;
  virtual std::string cast_text(const Inst& inst) = 0;
  virtual std::string vector_text(const Inst& inst) = 0;
  /// mma and tile_load, and tile_store as a statement; refuse, where no language says more.
  virtual std::string unit_text(const Inst& inst);
  virtual std::string load_text(const Inst& inst) = 0;
  virtual std::string atomic_text(const Inst& inst) = 0;
  /// Statements and declarations, one or more lines without indentation.
  virtual std::string store_text(const Inst& inst) = 0;
  virtual std::string prefetch_text(const Inst& inst) = 0;
  virtual std::string barrier_text() = 0;  ///< may be empty
  virtual std::string alloc_text(InstId id, std::string_view name) = 0;
  virtual std::string declare_text(const LinearType& type, std::string_view name,
                                   bool is_constant) = 0;
  /// Lines before and after the body, through line(). Params and allocs of the body are
  /// printed between `open_function` and `open_body`.
  virtual void open_function() = 0;
  virtual void open_body() = 0;
  virtual void close_function() = 0;
  /// Throws kUnsupported if this program cannot be printed at all.
  virtual void check_program() const = 0;
  /// Words that values must not be named.
  virtual std::span<const std::string_view> reserved_words() const = 0;

  // --- what it may use -------------------------------------------------------------------------

  const LinearProgram& program() const { return program_; }
  const Target& target() const { return target_; }
  const std::string& entry() const { return entry_; }

  /// Name of a value, or the constant itself.
  std::string operand_text(ValueId value);
  std::string operand_text(const Inst& inst, size_t position) {
    return operand_text(program_.operands_of(inst)[position]);
  }
  const LinearType& operand_type(const Inst& inst, size_t position) const {
    return program_.type_of(program_.operands_of(inst)[position]);
  }
  /// The expression of an elementwise op on operands already in words.
  std::string op_text(Op op, const LinearType& deciding, const LinearType& result,
                      std::span<const std::string> operands);
  /// Replaces the $-words of a template (see OpText).
  std::string expand(std::string_view text, const LinearType& deciding, const LinearType& result,
                     std::span<const std::string> operands = {});

  /// Adds to the prelude unless it is there: one line, or "head {", lines, "}".
  void add_type(const std::string& item);
  void add_helper(const std::string& item);

  void line(std::string_view text);  ///< several lines are indented alike
  void indent() { ++depth_; }
  void dedent() { --depth_; }

  /// A new identifier made of `wish`, which no other value has.
  std::string unique_name(std::string_view wish);
  bool is_live(ValueId value) const { return live_[value]; }
  [[noreturn]] void fail_unsupported(std::string_view what) const;

 private:
  struct Carried {
    InstId loop = kNoId;
    uint32_t position = 0;
  };
  void find_live();
  void mark_live(ValueId value, std::vector<ValueId>& work);
  void follow_live(ValueId value, std::vector<ValueId>& work);
  const Inst& yield_of(RegionId region) const;
  bool is_inlined(ValueId value) const;
  std::string& name_of(ValueId value);
  void print_region(RegionId region, std::span<const ValueId> targets);
  void print_inst(InstId id);
  void print_for(const Inst& inst);
  void print_if(const Inst& inst);
  void print_assignments(std::span<const ValueId> targets, std::span<const ValueId> values);
  std::string value_expression(const Inst& inst);
  void refuse_unit(const Inst& inst) const;  ///< that the Target does not have
  std::string elementwise_text(const Inst& inst);

  const LinearProgram& program_;
  const Target& target_;
  std::string entry_;
  std::string body_;
  int depth_ = 0;
  std::vector<std::string> types_;
  std::vector<std::string> helpers_;
  std::set<std::string> items_;  ///< all of types_ and helpers_
  std::set<std::string> used_names_;
  std::vector<std::string> names_;  ///< by value; empty: not named yet
  std::vector<bool> live_;          ///< by value; dead ones are not printed
  std::vector<Carried> carried_;    ///< by value: the loop argument it is
};

/// Joins texts made by CLikeWriter: items (lines at the left margin with what is indented below
/// them) that were printed already are left out.
std::string join_c_like(std::span<const RenderedSource> sources);

}  // namespace tenon
