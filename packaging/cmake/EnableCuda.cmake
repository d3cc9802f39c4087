# SPDX-License-Identifier: Apache-2.0
# Finds CUDA's compiler and enables the language. FindCUDAToolkit is not used: it does not know the
# layout of the PyPI wheels that packaging/bootstrap.sh installs. Sets MAGICUBE_HAS_CUDA and
# MAGICUBE_ARCHITECTURE_NAMES, and defines magicube_configure_cuda(target).
set(MAGICUBE_HAS_CUDA OFF)
set(MAGICUBE_ARCHITECTURE_NAMES "")

if(MAGICUBE_CUDA STREQUAL "EMULATED")
    set(MAGICUBE_HAS_CUDA ON)
    set(MAGICUBE_ARCHITECTURE_NAMES "sm_90a")
elseif(NOT MAGICUBE_CUDA STREQUAL "OFF")
    if(NOT CMAKE_CUDA_COMPILER)
        find_program(MAGICUBE_NVCC nvcc HINTS ENV CUDACXX
            PATHS "${CMAKE_CURRENT_SOURCE_DIR}/build/cuda/bin" /usr/local/cuda/bin)
        if(MAGICUBE_NVCC)
            # A symbolic link hides the toolkit around nvcc from CMake's search.
            file(REAL_PATH "${MAGICUBE_NVCC}" CMAKE_CUDA_COMPILER)
        endif()
    endif()
    if(CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
        set(CMAKE_CUDA_ARCHITECTURES ${MAGICUBE_CUDA_ARCHITECTURES})
        enable_language(CUDA)
        set(CMAKE_CUDA_STANDARD 17)
        set(CMAKE_CUDA_STANDARD_REQUIRED ON)
        set(MAGICUBE_HAS_CUDA ON)
        # "80-real;90a" -> "sm_80 sm_90a compute_90a": without -real PTX is kept too
        foreach(architecture IN LISTS MAGICUBE_CUDA_ARCHITECTURES)
            string(REGEX REPLACE "-(real|virtual)$" "" number "${architecture}")
            if(NOT architecture MATCHES "-virtual$")
                list(APPEND MAGICUBE_ARCHITECTURE_NAMES "sm_${number}")
            endif()
            if(NOT architecture MATCHES "-real$")
                list(APPEND MAGICUBE_ARCHITECTURE_NAMES "compute_${number}")
            endif()
        endforeach()
        list(JOIN MAGICUBE_ARCHITECTURE_NAMES " " MAGICUBE_ARCHITECTURE_NAMES)
    elseif(MAGICUBE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "MAGICUBE_CUDA is ON but no nvcc was found; put it on PATH, set "
                            "CMAKE_CUDA_COMPILER, or run packaging/bootstrap.sh")
    else()
        message(STATUS "No nvcc found: building the CPU back end alone")
    endif()
endif()

# A device that runs on the CPU, for tests: .cu files are C++ there.
function(magicube_emulate_cuda target)
    # Its headers hide those of CUDA, and core/device/cuda/ptx.cuh.
    target_include_directories(${target} BEFORE PUBLIC
        ${PROJECT_SOURCE_DIR}/tests/emulation/include)
    target_link_libraries(${target} PUBLIC magicube_emulation)
    target_compile_definitions(${target} PUBLIC MAGICUBE_EMULATED)
    set(warnings -Wno-unknown-pragmas -Wno-missing-field-initializers)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX
        COMPILE_DEFINITIONS "__CUDA_ARCH__=900;__CUDA_ARCH_FEAT_SM90_ALL"
        COMPILE_OPTIONS "-include;cuda_runtime.h;-O1;${warnings}")
endfunction()

function(magicube_configure_cuda target)
    if(NOT MAGICUBE_HAS_CUDA)
        return()
    endif()
    target_compile_definitions(${target} PRIVATE MAGICUBE_HAS_CUDA)
    if(MAGICUBE_CUDA STREQUAL "EMULATED")
        magicube_emulate_cuda(${target})
        return()
    endif()
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-fvisibility=hidden>"
        "$<$<COMPILE_LANGUAGE:CUDA>:--threads=2>"
        # A fifth of the size; a kernel's code is unpacked when a plan loads it.
        "$<$<COMPILE_LANGUAGE:CUDA>:-Xfatbin=-compress-all>"
        # constexpr functions, of std::numeric_limits too, are called on the device
        "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
    set_target_properties(${target} PROPERTIES CUDA_VISIBILITY_PRESET hidden)
endfunction()
