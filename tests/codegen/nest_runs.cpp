// SPDX-License-Identifier: MIT

#include "tests/codegen/nest_runs.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/codegen/choose_index_width.h"
#include "tenon/codegen/clean_linear.h"
#include "tenon/codegen/decompose.h"
#include "tenon/codegen/emit_linear.h"
#include "tenon/codegen/flatten_indices.h"
#include "tenon/codegen/lower_dtypes.h"
#include "tenon/codegen/place_guards.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::test {
namespace {

constexpr int64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xc3};
constexpr std::byte kPoison{0x9d};

uint64_t random_bits(DType dtype, std::mt19937_64& random, bool has_fractions) {
  const auto small = static_cast<int64_t>(random() % 10);
  if (dtype == DType::kBool) return static_cast<uint64_t>(small) & 1U;
  if (!is_float(dtype)) return static_cast<uint64_t>(small);
  const double whole = static_cast<double>(small) - 4;
  const double fraction = static_cast<double>(random() >> 11) * 0x1p-53;  // sums are rounded
  return double_to_float(has_fractions ? whole + fraction : whole, dtype);
}

}  // namespace

NestCase lower_nest(const Kernel& source, Target target, int max_vector_bytes) {
  target.max_vector_bytes = max_vector_bytes;
  target.max_local_bytes = 1 << 20;
  target.max_arguments = 64;
  Kernel nest = source;
  check_kernel(nest, KernelStage::kNest, &target);
  nest = place_guards(nest);
  nest = lower_dtypes(nest, target);
  nest = decompose(nest, target);
  check_kernel(nest, KernelStage::kNest, &target);
  nest = flatten_indices(nest);
  const DType width = choose_index_width(nest, target);
  nest = give_indices_width(nest, width);
  check_kernel(nest, KernelStage::kFlat, &target);
  NestCase result{.name = nest.name, .flat = nest, .emitted = {}, .cleaned = {}};
  result.emitted = emit_linear(nest, width);
  with_context([&] { check_linear(result.emitted); }, to_text(nest), to_text(result.emitted));
  result.cleaned = clean_linear(result.emitted);
  with_context([&] { check_linear(result.cleaned, &target); }, to_text(result.cleaned));
  return result;
}

NestCase lower_nest(std::string_view text, const Target& target) {
  return lower_nest(parse_kernel(text, "test"), target);
}

LinearProgram emit_unverified(std::string_view text) {
  const Kernel nest = flatten_indices(parse_kernel(text, "test"));
  return emit_linear(give_indices_width(nest, DType::kI32), DType::kI32);
}

Kernel golden_nest(const std::string& name) {
  const std::string path = std::string(TENON_SOURCE_DIR) + "/tests/golden/kernel/" + name;
  return parse_kernel(read_file(path), name);
}

NestMemory::NestMemory(const Kernel& nest, uint64_t seed, bool has_fractions) {
  std::mt19937_64 random(seed);
  for (const BufferDecl& buffer : nest.buffers) {
    if (buffer.access == BufferAccess::kTmp) continue;
    Block block{.name = buffer.name, .dtype = buffer.dtype};
    const int64_t width = dtype_size_bytes(buffer.dtype);
    block.size = layout_num_elements(buffer) * width;
    block.is_output = buffer.access != BufferAccess::kIn;
    block.bytes.assign(static_cast<size_t>(block.size + 2 * kGuardBytes + kBaseAlignBytes), kGuard);
    const auto address = reinterpret_cast<uintptr_t>(block.bytes.data() + kGuardBytes);
    block.begin = kGuardBytes + static_cast<int64_t>(-address % uintptr_t{kBaseAlignBytes});
    block.initial.assign(static_cast<size_t>(block.size), kPoison);
    for (int64_t i = 0; buffer.access != BufferAccess::kOut && i < block.size; i += width) {
      const uint64_t bits = random_bits(buffer.dtype, random, has_fractions);
      std::memcpy(block.initial.data() + i, &bits, static_cast<size_t>(width));
    }
    blocks_.push_back(std::move(block));
  }
  reset();
}

void NestMemory::reset() {
  for (Block& block : blocks_) {
    std::fill(block.bytes.begin(), block.bytes.end(), kGuard);
    std::copy(block.initial.begin(), block.initial.end(), block.bytes.begin() + block.begin);
  }
}

std::vector<KernelArgument> NestMemory::kernel_arguments() {
  std::vector<KernelArgument> arguments;
  for (Block& block : blocks_)
    arguments.push_back({.data = block.bytes.data() + block.begin, .size_bytes = block.size});
  return arguments;
}

std::vector<ArgumentValue> NestMemory::program_arguments(const Signature& signature) {
  std::vector<ArgumentValue> values;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    values.push_back({.is_buffer = true,
                      .dtype = signature.arguments[i].dtype,
                      .address = blocks_[i].bytes.data() + blocks_[i].begin,
                      .size_bytes = blocks_[i].size});
  }
  return values;
}

std::vector<std::byte> NestMemory::outputs() const {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks_) {
    if (!block.is_output) continue;
    const auto begin = block.bytes.begin() + block.begin;
    bytes.insert(bytes.end(), begin, begin + block.size);
  }
  return bytes;
}

std::string NestMemory::difference(const std::vector<std::byte>& expected) const {
  size_t at = 0;
  for (const Block& block : blocks_) {
    if (!block.is_output) continue;
    const int64_t width = dtype_size_bytes(block.dtype);
    for (int64_t i = 0; i < block.size; i += width, at += static_cast<size_t>(width)) {
      uint64_t want = 0;
      uint64_t got = 0;
      std::memcpy(&want, expected.data() + at, static_cast<size_t>(width));
      std::memcpy(&got, block.bytes.data() + block.begin + i, static_cast<size_t>(width));
      if (want == got) continue;
      return concat(block.name, '[', i / width, "] is ", got, ", expected ", want, " (bits)");
    }
  }
  return guard_finding();
}

std::string NestMemory::guard_finding() const {
  for (const Block& block : blocks_) {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto begin = block.bytes.begin() + block.begin;
    if (!std::all_of(block.bytes.begin(), begin, is_guard) ||
        !std::all_of(begin + block.size, block.bytes.end(), is_guard)) {
      return concat("the guard zone of ", block.name, " was written");
    }
  }
  return "";
}

std::string evaluate_nest(const NestCase& nest, uint64_t seed) {
  NestMemory memory(nest.flat, seed, true);
  eval_kernel(nest.flat, memory.kernel_arguments());
  const std::vector<std::byte> expected = memory.outputs();
  for (const LinearProgram* program : {&nest.emitted, &nest.cleaned}) {
    memory.reset();
    interpret(*program, memory.program_arguments(program->signature));
    const std::string found = memory.difference(expected);
    if (found.empty()) continue;
    return concat(nest.name, program == &nest.cleaned ? ", cleaned: " : ", emitted: ", found, '\n',
                  to_text(nest.flat), to_text(*program));
  }
  return "";
}

void run_kernel(CpuKernelFunction function, const LinearProgram& program,
                std::span<const ArgumentValue> values) {
  std::vector<uint64_t> addresses;
  for (const ArgumentValue& value : values)
    addresses.push_back(reinterpret_cast<uint64_t>(value.address));
  std::vector<std::byte> arguments = testing::pack_arguments(program.signature, addresses);
  arguments.resize(arguments.size() + 64);
  const auto scratch_bytes = static_cast<size_t>(program.scratch_bytes) + 64;
  const testing::HostBuffer scratch(DType::kU8, scratch_bytes);
  function(arguments.data(), 0, num_groups(program), scratch.data());
}

std::string run_compiled(const std::vector<Kernel>& nests) {
  for (const testing::RendererCase& with : testing::renderer_cases()) {
    const testing::CpuLevel& level = *with.level;
    if (!level.is_here || testing::why_not_compiled(*with.renderer)) continue;
    std::vector<NestCase> cases;
    std::vector<RenderedSource> sources;
    for (const Kernel& nest : nests) {
      cases.push_back(lower_nest(nest, level.target));
      sources.push_back(with.renderer->render(cases.back().cleaned, level.target));
    }
    const testing::KernelLibrary library(sources, with);
    if (!library.problems().empty()) return concat(with.name, ": ", library.problems());
    for (size_t i = 0; i < cases.size(); ++i) {
      const LinearProgram& program = cases[i].cleaned;
      NestMemory memory(cases[i].flat, 7 + i, true);
      interpret(program, memory.program_arguments(program.signature),
                {.fuses_mulacc = level.target.fuses_mulacc});
      const std::vector<std::byte> expected = memory.outputs();
      memory.reset();
      run_kernel(library.kernel(sources[i].entry), program,
                 memory.program_arguments(program.signature));
      const std::string found = memory.difference(expected);
      if (!found.empty()) {
        return concat(cases[i].name, ", ", with.name, ": ", found, '\n', to_text(program),
                      sources[i].text);
      }
    }
  }
  return "";
}

// NOLINTNEXTLINE(misc-no-recursion): regions nest at most 64 deep
}  // namespace tenon::test
