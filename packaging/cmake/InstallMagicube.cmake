# SPDX-License-Identifier: Apache-2.0
# cmake --install: library, headers, find_package(magicube) and magicube.pc.
include(CMakePackageConfigHelpers)

if(DEFINED MAGICUBE_INSTALL_LIBRARY_ONLY_TO)
    # Inside a Python wheel: the library next to the extension, nothing else.
    install(TARGETS magicube LIBRARY DESTINATION "${MAGICUBE_INSTALL_LIBRARY_ONLY_TO}"
            NAMELINK_SKIP)
    return()
endif()

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/magicube")
install(TARGETS magicube EXPORT magicube-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY capi/include/magicube DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT magicube-targets NAMESPACE magicube:: DESTINATION "${config_dir}"
        FILE magicube-config.cmake)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/magicube-config-version.cmake"
                                 COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/magicube-config-version.cmake"
        DESTINATION "${config_dir}")
configure_file(packaging/cmake/magicube.pc.in magicube.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/magicube.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
