// Compiles rendered text as backend/cpu does (C with clang-22, LLVM IR with libLLVM), loads it, and
// runs kernels on host memory. For the tests of render/. SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/ir/linear.h"
#include "tenon/render/c.h"
#include "tests/support/temp_folder.h"

namespace tenon::testing {

/// One set of instruction sets: what the text is rendered for and compiled with.
struct CpuLevel {
  std::string name;
  std::string flags;      ///< of clang
  std::string features;   ///< the same for LLVM, as in DEV
  bool has_avx2 = false;  ///< with fma and f16c
  bool is_here = false;   ///< this machine can run it
  Target target;
};
/// baseline, avx2, avx512, avx512fp16.
const std::vector<CpuLevel>& cpu_levels();
bool has_clang();

/// A renderer at a level, as the parameter of tests.
struct RendererCase {
  const Renderer* renderer;
  const CpuLevel* level;
  std::string name;  ///< "CLANG_avx2"

  friend void PrintTo(const RendererCase& item, std::ostream* out) { *out << item.name; }
};
/// Each renderer at each level.
const std::vector<RendererCase>& renderer_cases();
/// Why texts of this renderer cannot be compiled here, or nothing.
std::optional<std::string> why_not_compiled(const Renderer& renderer);

/// The unit of several kernels, compiled and loaded. `problems` holds what must not be there:
/// compiler warnings, undefined symbols, writable data.
class KernelLibrary {
 public:
  KernelLibrary(const std::vector<RenderedSource>& sources, const RendererCase& with);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const Target& target() const { return target_; }
  const std::string& text() const { return text_; }
  const std::string& problems() const { return problems_; }

  CpuKernelFunction kernel(const std::string& entry) const;
  /// The machine code of a kernel as text.
  std::string disassembly(const std::string& entry) const;

 private:
  void compile_c(const CpuLevel& level);
  void compile_llvm(const CpuLevel& level);

  const Target& target_;
  TempFolder folder_;
  std::string text_;
  std::string problems_;
  std::vector<std::byte> bytes_;             // of the object
  void* handle_ = nullptr;                   // of CLANG
  std::optional<cpu::LoadedObject> object_;  // of LLVM
};

/// A value for each argument of a signature: an address or the bits of a scalar.
std::vector<std::byte> pack_arguments(const Signature& signature, std::span<const uint64_t> values);

/// Host memory of one dtype, poisoned with 0xa5 at first.
class HostBuffer {
 public:
  HostBuffer(DType dtype, size_t num_elements);
  uint64_t get(size_t index) const;  ///< canonical bits
  void set(size_t index, uint64_t bits);
  uint64_t address() const { return reinterpret_cast<uint64_t>(data()); }
  void* data() const { return memory_.get(); }
  size_t size() const { return num_elements_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::free(memory); }
  };
  DType dtype_;
  size_t num_elements_;
  std::unique_ptr<std::byte, Free> memory_;
};

/// Arguments for a program: buffers of random numbers, poisoned where they are only written.
struct Arguments {
  std::vector<HostBuffer> buffers;
  std::vector<ArgumentValue> values;
  std::vector<uint64_t> packed;
};
struct ArgumentOptions {
  std::string indices = {};         ///< name of the buffer that holds numbers below 64
  bool has_special_values = false;  ///< else numbers that stay finite
  uint64_t seed = 7;
};
/// The same for the same options.
Arguments make_arguments(const LinearProgram& program, const ArgumentOptions& options);

/// The elementwise ops of the linear level, but for casts and the bounded class, that take operands
/// of the dtype and that the target has.
std::vector<Op> linear_ops_of(DType dtype, const Target& target);

/// Equal bits, or both NaN.
bool same_value(DType dtype, uint64_t a, uint64_t b);

/// Values at which arithmetic of this dtype goes wrong, as canonical bits.
std::vector<uint64_t> special_values(DType dtype);

inline Argument buffer_argument(std::string name, DType dtype, ArgumentAccess access) {
  return {.name = std::move(name), .dtype = dtype, .is_buffer = true, .access = access};
}

}  // namespace tenon::testing
