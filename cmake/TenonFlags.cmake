# The interface target tenon_flags: the only place where compiler and linker flags are set.
# Every target made by tenon_module or tenon_test links it privately.
# SPDX-License-Identifier: MIT

add_library(tenon_flags INTERFACE)
# No contraction: a*b+c must round twice, as the meaning of the IR says.
target_compile_options(
  tenon_flags
  INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wswitch-enum -Wno-missing-field-initializers
            -ffp-contract=off
            "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
# fmt 9 checks format strings in consteval code that newer clangs refuse; g++ still checks them.
target_compile_definitions(tenon_flags INTERFACE "$<$<CXX_COMPILER_ID:Clang>:FMT_CONSTEVAL=>")
# std::stable_sort of libstdc++ 12 calls a function that clang 22 reports as deprecated.
target_compile_options(tenon_flags
                       INTERFACE "$<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>")
if(TENON_WERROR)
  target_compile_options(tenon_flags INTERFACE -Werror)
endif()

if(TENON_SANITIZE)
  string(REPLACE ";" "," sanitizers "${TENON_SANITIZE}")
  target_compile_options(tenon_flags INTERFACE "-fsanitize=${sanitizers}" -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  target_link_options(tenon_flags INTERFACE "-fsanitize=${sanitizers}")
  # With sanitizers g++ 12 calls the insides of std::regex uninitialized.
  target_compile_options(tenon_flags
                         INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
endif()

if(TENON_FUZZ)
  target_compile_options(tenon_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
