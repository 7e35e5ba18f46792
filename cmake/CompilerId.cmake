# Writes compiler_id.cpp: the version and the hash of all sources that decide what a kernel compiles
# to. Run by tenon/engine/CMakeLists.txt as cmake -DROOT= -DVERSION= -DOUTPUT= -P.
# SPDX-License-Identifier: MIT
set(hashes "")
foreach(folder base types ir rules schedule codegen render engine)
  file(GLOB sources "${ROOT}/tenon/${folder}/*.h" "${ROOT}/tenon/${folder}/*.cpp"
       "${ROOT}/tenon/${folder}/*.def")
  list(SORT sources)
  foreach(source IN LISTS sources)
    file(SHA256 "${source}" hash)
    file(RELATIVE_PATH name "${ROOT}" "${source}")
    string(APPEND hashes "${name} ${hash}\n")
  endforeach()
endforeach()
string(SHA256 id "${hashes}")
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
#include "tenon/engine/compiler_id.h"

namespace tenon {

std::string_view tenon_version() {
  return "@VERSION@";
}
std::string_view compiler_id() {
  return "@id@";
}

}  // namespace tenon
]])
file(TOUCH_NOCREATE "${OUTPUT}")
