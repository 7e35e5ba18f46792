// SPDX-License-Identifier: MIT

#include "tenon/engine/shadow.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

LinearProgram lowered(const EngineDevice& device, const Kernel& kernel, const GivenPlans* plans) {
  CodegenOptions options;
  if (plans != nullptr) options.plan = plans->plan_for(kernel, device.target());
  return lower_for(device, kernel, options);
}

bool has_exact_values(const LinearProgram& program, const Target& target) {
  if (!target.deviations.empty()) return false;
  return std::none_of(program.insts.begin(), program.insts.end(), [&](const Inst& inst) {
    if (inst.op == Op::kMma) {
      return target.units[static_cast<size_t>(inst.imm)].sum == UnitSum::kFree;
    }
    return is_bounded_class(inst.op);
  });
}

ScalarBits element(const std::vector<std::byte>& bytes, size_t number, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + number * width, width);  // little-endian hosts only
  return canonical_bits(dtype, bits);
}

std::string number_text(ScalarBits bits, DType dtype) {
  if (is_float(dtype)) return concat(float_to_double(bits, dtype));
  return concat(static_cast<int64_t>(bits));
}

std::vector<std::byte> read(const Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.size_bytes()));
  buffer.copy_out(bytes);
  return bytes;
}

}  // namespace

Shadow::Shadow(const EngineDevice& device, const Kernel& kernel, const GivenPlans* plans)
    : Shadow(device, lowered(device, kernel, plans)) {}

Shadow::Shadow(const EngineDevice& device, LinearProgram program)
    : program_(std::move(program),
               {.fuses_mulacc = device.target().fuses_mulacc, .units = device.target().units}),
      device_(device.name()),
      is_exact_(has_exact_values(program_.program(), device.target())) {}

ShadowLaunch::ShadowLaunch(const Shadow& shadow, std::span<const Buffer> arguments)
    : shadow_(shadow) {
  const Signature& signature = shadow.program().program().signature;
  TENON_ASSERT(signature.arguments.size() == arguments.size(), "shadow launch of ",
               arguments.size(), " arguments; the program takes ", signature.arguments.size());
  int64_t total_bytes = 0;
  for (const Buffer& buffer : arguments)
    total_bytes += buffer.size_bytes();
  if (total_bytes > kMaxShadowBytes) return;
  std::vector<CheckedArgument> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_read = signature.arguments[i].access != ArgumentAccess::kWrite;
    const auto size = static_cast<size_t>(arguments[i].size_bytes());
    bytes_.push_back(is_read ? read(arguments[i]) : std::vector<std::byte>(size));
    written_.emplace_back(is_read ? 0 : size);
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    values.push_back({.bytes = bytes_[i], .written = written_[i]});
  const CheckedRun run = shadow.program().run(values, kMaxShadowOperations);
  if (run.fault) {
    fail(ErrorCode::kInternal, "the program for '", shadow.device(),
         "' is wrong: ", run.fault->text);
  }
  is_complete_ = run.is_complete;
}

void ShadowLaunch::compare(std::span<const Buffer> arguments) const {
  if (!is_complete_ || !shadow_.is_exact()) return;
  const Signature& signature = shadow_.program().program().signature;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = signature.arguments[i];
    if (argument.access == ArgumentAccess::kRead) continue;
    const std::vector<std::byte> got = read(arguments[i]);
    const auto width = static_cast<size_t>(dtype_size_bytes(argument.dtype));
    for (size_t k = 0; k < got.size() / width; ++k) {
      const bool is_written = written_[i].empty() || written_[i][k * width] != 0;
      const ScalarBits want = element(bytes_[i], k, argument.dtype);
      const ScalarBits have = element(got, k, argument.dtype);
      if (!is_written || want == have) continue;
      const bool are_nan = is_float(argument.dtype) &&
                           std::isnan(float_to_double(want, argument.dtype)) &&
                           std::isnan(float_to_double(have, argument.dtype));
      if (are_nan) continue;
      fail(ErrorCode::kDeviceFailed, "the device '", shadow_.device(),
           "' computes something else than the program says: argument ", i, " '", argument.name,
           "', element ", k, " is ", number_text(have, argument.dtype), ", expected ",
           number_text(want, argument.dtype));
    }
  }
}

}  // namespace tenon
