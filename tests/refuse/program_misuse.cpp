// What must not compile with programs, buffers and devices, and beside it what must.
// See must_not_compile.py. SPDX-License-Identifier: MIT

#include "tenon/device/program.h"

#include "tenon/device/buffer_pool.h"
#include "tenon/engine/engine_device.h"

namespace tenon {

void use_programs(Device& device, const ProgramObject& object,
                  const std::vector<std::byte>& bytes) {
  Program program(device, object);
  Program parsed(device, parse_program_object(bytes));
  Program moved = std::move(program);
  const std::string name = "kernel";
#ifdef MISUSE_program_from_name_and_bytes
  Program unsigned_program(name, bytes);
#endif
#ifdef MISUSE_program_from_device_name_and_bytes
  Program unsigned_program(device, name, bytes);
#endif
#ifdef MISUSE_program_from_bytes
  Program unsigned_program(device, bytes);
#endif
#ifdef MISUSE_program_without_device
  Program homeless(object);
#endif
#ifdef MISUSE_program_copied
  Program copy = moved;
#endif
#ifdef MISUSE_launch_with_addresses
  parsed.launch(std::vector<void*>{nullptr});
#endif
}

void use_buffers(BufferPool& pool, EngineDevice& device, void* address) {
  const Buffer buffer = pool.allocate(20);
  const Buffer same = buffer;  // shares the bytes
  const Buffer none;
  if (none) return;
#ifdef MISUSE_buffer_from_address
  Buffer made(address);
#endif
#ifdef MISUSE_buffer_as_number
  const int number = buffer;
#endif
#ifdef MISUSE_pool_copied
  BufferPool copy = pool;
#endif
#ifdef MISUSE_device_copied
  EngineDevice copy = device;
#endif
#ifdef MISUSE_default_device_copied
  ScopedDefaultDevice scope(device);
  ScopedDefaultDevice copy = scope;
#endif
  static_cast<void>(same);
  static_cast<void>(device);
  static_cast<void>(address);
}

}  // namespace tenon
