// SPDX-License-Identifier: MIT
#include "tests/render/kernel_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fstream>
#include <random>
#include <sstream>

#include "tenon/backend/cpu/disassemble.h"
#include "tenon/backend/cpu/llvm_compiler.h"
#include "tenon/backend/cpu/llvm_unit_compiler.h"
#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/ir/eval_op.h"
#include "tenon/render/llvm.h"

namespace tenon::testing {

namespace {

/// What a command writes, and "exit N" if it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::string out;
  char block[4096];
  size_t count = 0;
  while ((count = ::fread(block, 1, sizeof block, pipe)) > 0)
    out.append(block, count);
  const int status = ::pclose(pipe);
  if (status != 0) append(out, "exit ", status, '\n');
  return out;
}

bool takes(Op op, DType dtype) {
  switch (op_info(op).rule) {
    case DTypeRule::kSameFloat: return is_float(dtype);
    case DTypeRule::kSameInt: return is_int(dtype);
    case DTypeRule::kSameIntOrBool: return !is_float(dtype);
    case DTypeRule::kSame: return dtype != DType::kBool || (op != Op::kSub && op != Op::kDiv);
    case DTypeRule::kNone:
    case DTypeRule::kAttr:
    case DTypeRule::kCompare:
    case DTypeRule::kTest:
    case DTypeRule::kWhere: return true;
  }
  return false;
}

std::vector<CpuLevel> make_levels() {
  Target base;
  base.arch = "x86_64";
  for (const DType dtype : storage_dtypes()) {
    if (!is_float(dtype) || dtype_bits(dtype) >= 32) base.arithmetic.add(dtype);
  }
  base.native_ops = {Op::kSqrt};
  base.max_vector_bytes = 16;
  base.max_local_bytes = int64_t{1} << 20;
  base.max_arguments = 64;
  Target wide = base;
  wide.native_ops = {Op::kFma, Op::kSqrt, Op::kTrunc};
  wide.extra_casts = {{DType::kF16, DType::kF32}, {DType::kF32, DType::kF16}};
  wide.fuses_mulacc = true;
  Target half = wide;
  half.extra_casts.clear();
  half.arithmetic.add(DType::kF16);
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {{"baseline", "", "x86_64", false, true, base},
          {"avx2", "-mavx2 -mfma -mf16c", "x86_64,avx2,fma,f16c", true, avx2, wide},
          {"avx512", "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c",
           "x86_64,avx512bw,avx512dq,avx512vl", true, avx512, wide},
          {"avx512fp16", "-mavx512fp16 -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c",
           "x86_64,avx512fp16", true, avx512 && __builtin_cpu_supports("avx512fp16"), half}};
}

}  // namespace

const std::vector<CpuLevel>& cpu_levels() {
  static const std::vector<CpuLevel> levels = make_levels();
  return levels;
}

bool has_clang() {
  static const bool found = output_of("clang-22 --version").find("exit") == std::string::npos;
  return found;
}

const std::vector<RendererCase>& renderer_cases() {
  static const std::vector<RendererCase> cases = [] {
    std::vector<RendererCase> all;
    for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()}) {
      for (const CpuLevel& level : cpu_levels())
        all.push_back({renderer, &level, concat(renderer->name(), '_', level.name)});
    }
    return all;
  }();
  return cases;
}

std::optional<std::string> why_not_compiled(const Renderer& renderer) {
  if (&renderer == &llvm_renderer()) return cpu::why_no_llvm();
  return has_clang() ? std::nullopt : std::optional<std::string>("no clang-22 here");
}

KernelLibrary::KernelLibrary(const std::vector<RenderedSource>& sources, const RendererCase& with)
    : target_(with.level->target), text_(with.renderer->join(sources)) {
  if (with.renderer == &llvm_renderer()) {
    compile_llvm(*with.level);
  } else {
    compile_c(*with.level);
  }
}

void KernelLibrary::compile_c(const CpuLevel& level) {
  std::ofstream(folder_ / "k.c") << text_;
  const std::string flags =
      "-std=c11 -O1 -mprefer-vector-width=512 -ffp-contract=off -fno-math-errno "
      "-fexcess-precision=16 -fPIC -fno-builtin -fno-jump-tables -ffreestanding "
      "-fno-asynchronous-unwind-tables -fno-stack-protector -Wall -Wextra "
      "-Wno-unused-variable ";  // a shuffle need not read both of its sources
  const std::string object = folder_ / "k.o";
  problems_ =
      output_of(concat("clang-22 ", flags, level.flags, " -c -o ", object, " ", folder_ / "k.c"));
  const std::string file = read_file(object);
  const auto bytes = std::as_bytes(std::span(file));
  bytes_.assign(bytes.begin(), bytes.end());
  problems_ += output_of("nm -u " + object);
  std::istringstream symbols(output_of("nm --defined-only " + object));
  for (std::string line; std::getline(symbols, line);) {
    const bool is_writable = line.size() > 18 && strchr("DdBbCGS", line[17]) != nullptr;
    if (is_writable) append(problems_, "writable: ", line, '\n');
  }
  const std::string library = folder_ / "k.so";
  problems_ += output_of(concat("clang-22 -shared -nostdlib -o ", library, " ", object));
  if (level.is_here) handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// The loader refuses what must not be there.
void KernelLibrary::compile_llvm(const CpuLevel& level) {
  try {
    bytes_ =
        cpu::compile_llvm(cpu::find_llvm(), text_, cpu::parse_cpu_arch(level.features), "test");
    object_ = cpu::load_object(bytes_, "test");
  } catch (const Error& error) {
    problems_ = error.what();
  }
}

KernelLibrary::~KernelLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

CpuKernelFunction KernelLibrary::kernel(const std::string& entry) const {
  void* symbol = object_ ? object_->find(entry) : nullptr;
  if (handle_ != nullptr) symbol = ::dlsym(handle_, entry.c_str());
  TENON_CHECK(symbol != nullptr, ErrorCode::kNotFound, "no kernel ", entry, ": ", problems_);
  return reinterpret_cast<CpuKernelFunction>(symbol);
}

std::string KernelLibrary::disassembly(const std::string& entry) const {
  constexpr int kLlvmVersion = 22;
  return bytes_.empty() ? problems_ : cpu::disassemble_object(bytes_, entry, kLlvmVersion);
}

std::vector<std::byte> pack_arguments(const Signature& signature,
                                      std::span<const uint64_t> values) {
  const ArgumentLayout layout = layout_arguments(signature);
  std::vector<std::byte> block(layout.size_bytes, std::byte{0xa5});
  for (size_t i = 0; i < values.size(); ++i) {
    const Argument& argument = signature.arguments[i];
    const auto size =
        argument.is_buffer ? 8 : static_cast<size_t>(dtype_size_bytes(argument.dtype));
    ::memcpy(block.data() + layout.offsets[i], &values[i], size);
  }
  return block;
}

HostBuffer::HostBuffer(DType dtype, size_t num_elements)
    : dtype_(dtype), num_elements_(num_elements) {
  const size_t size = num_elements * static_cast<size_t>(dtype_size_bytes(dtype));
  memory_.reset(static_cast<std::byte*>(::aligned_alloc(64, (size + 127) / 64 * 64)));
  ::memset(memory_.get(), 0xa5, size);
}

uint64_t HostBuffer::get(size_t index) const {
  const auto size = static_cast<size_t>(dtype_size_bytes(dtype_));
  uint64_t bits = 0;
  ::memcpy(&bits, memory_.get() + index * size, size);
  // A bool in memory that is neither 0 nor 1 must not pass for 1.
  return dtype_ == DType::kBool ? bits : canonical_bits(dtype_, bits);
}

void HostBuffer::set(size_t index, uint64_t bits) {
  const auto size = static_cast<size_t>(dtype_size_bytes(dtype_));
  ::memcpy(memory_.get() + index * size, &bits, size);
}

Arguments make_arguments(const LinearProgram& program, const ArgumentOptions& options) {
  Arguments result;
  std::mt19937_64 random(options.seed);
  for (const Argument& argument : program.signature.arguments) {
    const DType dtype = argument.dtype;
    const std::vector<uint64_t> special = special_values(dtype);
    const auto number = [&]() -> uint64_t {
      if (argument.name == options.indices) return random() % 64;
      if (options.has_special_values && random() % 3 == 0) {
        return special[random() % special.size()];
      }
      if (is_float(dtype)) {
        const double value = static_cast<double>(static_cast<int64_t>(random() % 4001) - 2000) / 8;
        return double_to_float(value, dtype);
      }
      return canonical_bits(dtype, dtype == DType::kBool ? random() & 1 : random());
    };
    if (!argument.is_buffer) {
      const bool ranged = is_int(dtype);
      const auto span = static_cast<uint64_t>(argument.max - argument.min) + 1;
      const uint64_t bits =
          ranged ? static_cast<uint64_t>(argument.min) + (span == 0 ? 0 : random() % span)
                 : number();
      result.values.push_back({.is_buffer = false, .dtype = dtype, .bits = bits});
      result.packed.push_back(bits);
      continue;
    }
    HostBuffer buffer(dtype, static_cast<size_t>(argument.num_elements));
    if (argument.access != ArgumentAccess::kWrite) {
      for (size_t i = 0; i < buffer.size(); ++i)
        buffer.set(i, number());
    }
    result.values.push_back({.is_buffer = true,
                             .dtype = dtype,
                             .address = buffer.data(),
                             .size_bytes = argument.num_elements * dtype_size_bytes(dtype)});
    result.packed.push_back(buffer.address());
    result.buffers.push_back(std::move(buffer));
  }
  return result;
}

std::vector<Op> linear_ops_of(DType dtype, const Target& target) {
  std::vector<Op> ops;
  for (const OpInfo& info : all_ops()) {
    const Op op = info.op;
    if (!is_elementwise(op) || !has_level(op, kLinearLevel) || is_bounded_class(op)) continue;
    if (op == Op::kCast || op == Op::kBitcast || !takes(op, dtype)) continue;
    if (!is_optional(op) || target.is_native(op)) ops.push_back(op);
  }
  return ops;
}

bool same_value(DType dtype, uint64_t a, uint64_t b) {
  if (a == b || !is_float(dtype)) return a == b;
  const double x = float_to_double(a, dtype);
  const double y = float_to_double(b, dtype);
  return x != x && y != y;
}

std::vector<uint64_t> special_values(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  std::vector<uint64_t> values;
  if (is_float(dtype)) {
    for (const double value : {0.0,
                               1.0,
                               0.5,
                               1.5,
                               2.5,
                               3.0,
                               127.0,
                               127.5,
                               128.0,
                               255.5,
                               256.0,
                               1e-3,
                               32767.5,
                               65504.0,
                               65519.0,
                               65520.0,
                               65535.5,
                               16777217.0,
                               2147483520.0,
                               2147483647.0,
                               2147483648.0,
                               4294967296.0,
                               4294967295.0,
                               9.2233715e18,
                               9.2233720368547758e18,
                               1.8446744073709550e19,
                               1.8446744073709552e19,
                               3.4028234e38,
                               1.1754944e-38,
                               1e-40,
                               6.1e-5,
                               5.9e-8,
                               1e300,
                               1e-310,
                               0.1,
                               0.33333333333333331}) {
      values.push_back(double_to_float(value, dtype));
      values.push_back(double_to_float(-value, dtype));
    }
    const FloatFormat format = float_format(dtype);
    const uint64_t inf = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint64_t sign = uint64_t{1} << (dtype_bits(dtype) - 1);
    for (const uint64_t bits : {inf, inf | sign, inf | 1, inf | (inf >> 1), uint64_t{1}, sign | 1})
      values.push_back(bits);
    return values;
  }
  for (const int64_t value : {0,  1,  2,  3,  5,   7,  8,  9,  15, 16, 17,  31,  32,  33,
                              63, 64, 65, 85, 127, -1, -2, -3, -7, -8, -31, -64, -100}) {
    values.push_back(canonical_bits(dtype, static_cast<uint64_t>(value)));
  }
  for (const uint64_t bits :
       {int_min_bits(dtype), int_min_bits(dtype) + 1, int_max_bits(dtype), int_max_bits(dtype) - 1,
        int_max_bits(dtype) / 3, uint64_t{0x9e3779b97f4a7c15}, uint64_t{0x0123456789abcdef},
        uint64_t{0x8000000080000001}, uint64_t{16777217}, uint64_t{0x7fffff8000000001}}) {
    values.push_back(canonical_bits(dtype, bits));
  }
  return values;
}

}  // namespace tenon::testing
