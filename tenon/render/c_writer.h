// CWriter: how C11 with Clang's vectors spells a linear program. Private to render/; split by
// concept: c.cpp (types, constants, the function), c_convert.cpp (casts, vectors), c_memory.cpp.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenon/render/c_like.h"

namespace tenon::detail {

/// What every helper starts with.
inline constexpr std::string_view kHelperItem =
    "#define HELPER static inline __attribute__((always_inline))";

/// A vector in memory, as its loads and stores are printed: what the helper's name, parameters and
/// call have in common.
struct VectorAccess {
  LinearType in_memory;  ///< a mask lies there as bytes
  LinearType element;
  LinearType index;
  std::string type;  ///< of in_memory
  std::string mask_type;
  std::string gate;  ///< the mask; empty: all lanes, or a scalar decides outside
  std::string name;  ///< of the helper, without the kind of access
  std::string parameters;
  std::string call;  ///< arguments
  int64_t align = 0;
  bool is_mask = false;     ///< of bool
  bool is_indexed = false;  ///< gather or scatter
  bool has_builtin = false;

  bool is_masked() const { return !gate.empty(); }
};

class CWriter final : public CLikeWriter {
 public:
  using CLikeWriter::CLikeWriter;

 protected:
  std::string_view language() const override { return "CLANG"; }
  std::span<const OpText> op_table() const override;
  std::span<const std::string_view> reserved_words() const override;
  void check_program() const override;
  std::string type_text(const LinearType& type) override;
  std::string constant_text(const LinearType& type, uint64_t bits) override;
  std::string source_text(const Inst& inst) override;
  std::string cast_text(const Inst& inst) override;
  std::string vector_text(const Inst& inst) override;
  std::string unit_text(const Inst& inst) override;
  std::string load_text(const Inst& inst) override;
  std::string atomic_text(const Inst& inst) override;
  std::string store_text(const Inst& inst) override;
  std::string prefetch_text(const Inst& inst) override;
  std::string barrier_text() override { return {}; }  // a group has one lane
  std::string alloc_text(InstId id, std::string_view name) override;
  std::string declare_text(const LinearType& type, std::string_view name,
                           bool is_constant) override;
  void open_function() override;
  void open_body() override;
  void close_function() override;

 private:
  bool is_half_native() const;
  std::string scalar_constant(DType dtype, uint64_t bits);
  std::string float_constant(DType dtype, uint64_t bits);
  std::string float_to_int(const LinearType& from, const LinearType& to, const std::string& value);
  std::string mma_text(const Inst& inst);
  std::string tile_shape(const LinearType& type) const;
  std::string bitcast(const LinearType& from, const LinearType& to, const std::string& value);
  std::string memory_type(DType dtype);
  std::string aligned_type(const LinearType& type, int64_t align);
  std::string element_text(const Inst& inst);
  std::string grid_text(const Inst& inst);
  void add_function(std::string_view text, const LinearType& deciding, const LinearType& result);
  VectorAccess describe_access(const Inst& inst, const LinearType& moved);
  std::string vector_load(const Inst& inst);
  std::string vector_store(const Inst& inst);

  bool streams_ = false;  ///< it has non-temporal stores
};

}  // namespace tenon::detail
