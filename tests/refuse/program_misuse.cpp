// What must not compile with programs, buffers and devices, and beside it what must.
// See must_not_compile.py. SPDX-License-Identifier: MIT

#include "tenon/device/program.h"

#include "tenon/device/buffer_pool.h"
#include "tenon/engine/engine_device.h"

namespace tenon {

void use_programs(DeviceDriver& device, const ProgramObject& object,
                  const std::vector<std::byte>& bytes) {
  Program program(device, object);
  Program parsed(device, parse_program_object(bytes));
  Program moved = std::move(program);
  const std::string name = "kernel";
#ifdef MISUSE
  Program unsigned_program(name, bytes);
#endif
#ifdef MISUSE
  Program unsigned_program(device, name, bytes);
#endif
#ifdef MISUSE
  Program unsigned_program(device, bytes);
#endif
#ifdef MISUSE
  Program homeless(object);
#endif
#ifdef MISUSE
  Program copy = moved;
#endif
#ifdef MISUSE
  parsed.launch(std::vector<void*>{nullptr});
#endif
}

// Both have constructors for derived classes only, so only these can try to copy them.
#ifdef MISUSE
struct CopiedDevice : Device {
  explicit CopiedDevice(const Device& device) : Device(device) {}
};
#endif
#ifdef MISUSE
struct CopiedDriver : DeviceDriver {
  explicit CopiedDriver(const DeviceDriver& driver) : DeviceDriver(driver) {}
};
#endif

void use_buffers(BufferPool& pool, Device& device, void* address) {
  const Buffer buffer = pool.allocate(20);
  const Buffer same = buffer;  // shares the bytes
  const Buffer none;
  if (none) return;
#ifdef MISUSE
  Buffer made(address);
#endif
#ifdef MISUSE
  const int number = buffer;
#endif
#ifdef MISUSE
  BufferPool copy = pool;
#endif
#ifdef MISUSE
  ScopedDefaultDevice scope(device);
  ScopedDefaultDevice copy = scope;
#endif
  static_cast<void>(same);
  static_cast<void>(device);
  static_cast<void>(address);
}

}  // namespace tenon
