# What `cmake --install` puts beside the modules and the command: headers, data, the package Tenon.
# SPDX-License-Identifier: MIT
if(TENON_ONLY)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Tenon")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/TenonConfig.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TenonConfig.cmake" "${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/TenonTool.cmake"
        DESTINATION "${package}")
install(EXPORT TenonTargets NAMESPACE tenon:: DESTINATION "${package}")
# Nobody includes a backend.
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/tenon"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "*.def"
  PATTERN backend EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/data" DESTINATION "${CMAKE_INSTALL_DATADIR}/tenon")
