// SPDX-License-Identifier: MIT

#include "tenon/conform/launch_record.h"

#include <fmt/format.h>

#include "tenon/base/text.h"

namespace tenon {
namespace {

std::string_view access_words(ArgumentAccess access) {
  switch (access) {
    case ArgumentAccess::kRead: return "read";
    case ArgumentAccess::kWrite: return "written";
    case ArgumentAccess::kReadWrite: return "read and written";
  }
  return "";
}

std::string argument_line(size_t number, const Argument& argument, uint32_t offset,
                          const ArgumentValue& value) {
  std::string line =
      fmt::format("  argument {} {}, bytes {} to {} of the block: ", number, quoted(argument.name),
                  offset, offset + (argument.is_buffer ? 7 : dtype_size_bytes(argument.dtype) - 1));
  if (!argument.is_buffer) {
    line += fmt::format("{} with bits 0x{:x}", dtype_name(argument.dtype), value.bits);
    if (!is_float(argument.dtype)) append(line, ", range ", argument.min, "..", argument.max);
    return line + "\n";
  }
  const int64_t wanted = argument.num_elements * dtype_size_bytes(argument.dtype);
  const auto address = reinterpret_cast<uint64_t>(value.address);
  line += fmt::format("address 0x{:x}, {} bytes; {}[{}] needs {}, {}", address, value.size_bytes,
                      dtype_name(argument.dtype), argument.num_elements, wanted,
                      access_words(argument.access));
  if (value.size_bytes < wanted) append(line, "; TOO SMALL by ", wanted - value.size_bytes);
  if (address % kBaseAlignBytes != 0) append(line, "; NOT ALIGNED to ", kBaseAlignBytes);
  return line + "\n";
}

/// "  lanes (4,2): 8, at most 4: TOO MANY"; without a limit where `most` is 0.
std::string size_line(std::string_view what, int64_t size, int64_t most) {
  std::string line = concat("  ", what, ": ", size);
  if (most > 0) append(line, ", the Target has at most ", most);
  if (most > 0 && size > most) line += ": TOO MANY";
  return line + "\n";
}

}  // namespace

std::string launch_record(const LinearProgram& program, const std::vector<ArgumentValue>& values,
                          const Target& target) {
  const Signature& signature = program.signature;
  const ArgumentLayout layout = layout_arguments(signature);
  std::string text = concat("launch of ", quoted(program.name), "\n");
  for (size_t i = 0; i < signature.arguments.size() && i < values.size(); ++i)
    text += argument_line(i, signature.arguments[i], layout.offsets[i], values[i]);
  if (const auto reason = why_arguments_differ(signature, values)) {
    append(text, "  the signature is not met: ", *reason, "\n");
  }
  append(text, size_line("arguments", std::ssize(values), target.max_arguments));
  append(text, size_line(concat("groups (", join(program.grid, ","), ")"), num_groups(program), 0));
  append(text, size_line(concat("lanes of a group (", join(program.lanes, ","), ")"),
                         num_lanes(program), target.max_lanes));
  append(text, size_line("bytes of group memory", program.scratch_bytes, target.max_local_bytes));
  return text;
}

}  // namespace tenon
