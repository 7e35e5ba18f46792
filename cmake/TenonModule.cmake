# The functions every folder's CMakeLists.txt uses: tenon_module, tenon_test, tenon_add_folder; with
# TenonBackend.cmake, which the installed package has too, tenon_backend and tenon_tool.
# DEPS are names of modules and nothing else; they are what tools/lint.py holds includes against.
# SPDX-License-Identifier: MIT

# tenon_module(NAME <n> SOURCES <file>... [DEPS <module>...] [LIBS <external target>...])
# Makes the static library tenon_<n> with alias tenon::<n>, and installs it under the latter name.
# Without SOURCES it is header only.
function(tenon_module)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;LIBS")
  if(NOT arg_NAME OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_module: NAME missing or stray words '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target tenon_${arg_NAME})
  list(TRANSFORM arg_DEPS PREPEND tenon:: OUTPUT_VARIABLE modules)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:tenon_flags>)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                             "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${modules} ${arg_LIBS})
  add_library(tenon::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  install(TARGETS ${target} EXPORT TenonTargets)
  # The layer record: what tools/lint.py --build compares with its own reading.
  file(WRITE "${PROJECT_BINARY_DIR}/layers/${arg_NAME}.txt"
       "folder ${CMAKE_CURRENT_SOURCE_DIR}\ndeps ${arg_DEPS}\n")
endfunction()

# tenon_plants_faults(<file>...)
# Sources of this folder in which tests may plant faults (tenon/base/planted_fault.h). The modules
# hold none: these sources are compiled a second time for tenon_planted.
function(tenon_plants_faults)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY tenon_planted_sources ${ARGN})
endfunction()

# tenon_planted_objects(<module>...)
# The object library tenon_planted of all sources that tenon_plants_faults names, which belong to
# these modules. A program that links it takes its objects in place of the modules' own.
function(tenon_planted_objects)
  get_property(sources GLOBAL PROPERTY tenon_planted_sources)
  if(NOT sources)
    return()
  endif()
  add_library(tenon_planted OBJECT EXCLUDE_FROM_ALL ${sources})
  target_compile_definitions(tenon_planted PRIVATE TENON_PLANTED_FAULTS)
  target_link_libraries(tenon_planted PRIVATE tenon_flags)
  set(archives "")
  foreach(module IN LISTS ARGN)
    if(TARGET tenon_${module})
      target_link_libraries(tenon_planted PRIVATE tenon::${module})
      list(APPEND archives "$<TARGET_FILE:tenon_${module}>")
    endif()
  endforeach()
  add_test(NAME lint.planted COMMAND sh -c "! '${CMAKE_NM}' -uC \"$@\" | grep planted_fault" sh
                                     ${archives})
  set_tests_properties(lint.planted PROPERTIES LABELS lint)
endfunction()

# tenon_program(NAME <n> SOURCES <file>... [DEPS <module>...] [LIBS <target>...])
# An executable of that name at the top of the build folder.
function(tenon_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;LIBS")
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_program: NAME, SOURCES missing or stray '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  list(TRANSFORM arg_DEPS PREPEND tenon:: OUTPUT_VARIABLE modules)
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE ${modules} ${arg_LIBS} tenon_flags)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endfunction()

# tenon_backend(NAME <n> SOURCES <file>... [DEPS <module>...] [LIBS <target>...])
# The module backend_<n> of a folder of tenon/backend. The same call in a folder outside of this tree
# is that of TenonPackage.cmake.
function(tenon_backend)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;LIBS")
  tenon_module(NAME backend_${arg_NAME} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} LIBS ${arg_LIBS})
endfunction()

# tenon_test(NAME <n> SOURCES <file>... [DEPS <module>...] [LIBS <target>...]
#            [LABEL unit|golden|prop|conform|refuse|docs] [THREADED] [PARSER] [TIMEOUT <seconds>]
#            [DEVICES <name>...])
# One GoogleTest executable; each of its tests is a CTest test with that label, and THREADED ones
# with the label threads too (they run under the thread sanitizer in CI), PARSER ones with the label
# parser (under the address sanitizer). The target
# tests_<label> builds all executables of a label. Tests run with the IR verifier on and a compile
# cache below the build folder; TENON_SOURCE_DIR is defined for finding golden files. With DEVICES
# the executable runs once more, as one test, with each of them as the default device.
function(tenon_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "THREADED;PARSER" "NAME;LABEL;TIMEOUT"
                        "SOURCES;DEPS;LIBS;DEVICES")
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_test: NAME, SOURCES missing or stray '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_LABEL MATCHES "^(unit|golden|prop|conform|refuse|docs)$")
    message(FATAL_ERROR "tenon_test: unknown LABEL '${arg_LABEL}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(labels ${arg_LABEL})
  if(arg_THREADED)
    list(APPEND labels threads)
  endif()
  if(arg_PARSER)
    list(APPEND labels parser)
  endif()
  list(TRANSFORM arg_DEPS PREPEND tenon:: OUTPUT_VARIABLE modules)
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${arg_NAME} PRIVATE "TENON_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
  target_link_libraries(${arg_NAME} PRIVATE ${modules} ${arg_LIBS} GTest::gtest_main GTest::gmock
                                            tenon_flags)
  foreach(label IN LISTS labels)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${arg_NAME})
  endforeach()
  include(GoogleTest)
  gtest_discover_tests(${arg_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  # A list as a property does not survive gtest_discover_tests of CMake 3.25, so properties are
  # set by a file that CTest reads after the tests are known.
  set(properties_file "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_properties.cmake")
  file(CONFIGURE OUTPUT "${properties_file}" @ONLY CONTENT [[
foreach(test IN LISTS @arg_NAME@_TESTS)
  set_tests_properties("${test}" PROPERTIES LABELS "@labels@" TIMEOUT @arg_TIMEOUT@ ENVIRONMENT
    "TENON_VERIFY_IR=1;TENON_CACHE_DIR=@PROJECT_BINARY_DIR@/test-cache/@arg_NAME@")
endforeach()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties_file}")
  foreach(device IN LISTS arg_DEVICES)
    add_test(NAME ${arg_NAME}.${device} COMMAND ${arg_NAME} --gtest_brief=1)
    set_tests_properties(
      ${arg_NAME}.${device}
      PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT
                 "TENON_VERIFY_IR=1;TENON_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache/${arg_NAME};DEV=${device}")
  endforeach()
endfunction()

# tenon_fuzz(NAME <n> SOURCES <file>... [DEPS <module>...])
# A libFuzzer executable in fuzz/ of the build folder, where TENON_FUZZ is on and its modules are
# built. All of them: target fuzzers.
function(tenon_fuzz)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS")
  foreach(module IN LISTS arg_DEPS)
    if(NOT TENON_FUZZ OR NOT TARGET tenon::${module})
      return()
    endif()
  endforeach()
  tenon_program(NAME ${arg_NAME} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS})
  target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${arg_NAME})
endfunction()

# Adds <root>/<folder> if it describes itself and TENON_ONLY does not exclude it. Build files of
# tenon/ go below modules/, since the command `tenon` lies at the top of the build folder.
function(tenon_add_folder root folder)
  if(TENON_ONLY AND NOT folder IN_LIST TENON_ONLY)
    return()
  endif()
  set(source_folder "${PROJECT_SOURCE_DIR}/${root}/${folder}")
  string(REGEX REPLACE "^tenon$" "modules" build_root "${root}")
  if(EXISTS "${source_folder}/CMakeLists.txt")
    add_subdirectory("${source_folder}" "${PROJECT_BINARY_DIR}/${build_root}/${folder}")
  endif()
endfunction()
