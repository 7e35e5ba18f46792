# tenon_tool and what it is made of, for the command of this tree and, installed, for those of others.
# SPDX-License-Identifier: MIT

# tenon_registration(<file> <backend>...)
# Writes the source that registers these backends, in this order: all that links them by name.
function(tenon_registration file)
  set(declarations "")
  set(calls "")
  foreach(backend IN LISTS ARGN)
    string(APPEND declarations "void register_${backend}_backend();\n")
    string(APPEND calls "    register_${backend}_backend();\n")
  endforeach()
  file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT [[
#include <mutex>

#include "tenon/engine/backend.h"

namespace tenon {

@declarations@
void register_built_backends() {
  static std::once_flag once;
  std::call_once(once, [] {
@calls@  });
}

}  // namespace tenon
]])
endfunction()

# tenon_tool(NAME <n> BACKENDS <backend>...)
# The command `tenon`, under the name <n>, with these backends: those of the package (cpu, null, ...)
# and those that tenon_backend made.
function(tenon_tool)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "BACKENDS")
  if(NOT arg_NAME OR NOT arg_BACKENDS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_tool: NAME, BACKENDS missing or stray '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_backends.cpp")
  tenon_registration("${source}" ${arg_BACKENDS})
  add_executable(${arg_NAME} "${source}")
  target_link_libraries(${arg_NAME} PRIVATE tenon::main)
  foreach(backend IN LISTS arg_BACKENDS)
    if(NOT TARGET tenon::backend_${backend})
      message(FATAL_ERROR "tenon_tool: no backend is called '${backend}'; tenon_backend makes one")
    endif()
    target_link_libraries(${arg_NAME} PRIVATE tenon::backend_${backend})
  endforeach()
endfunction()
