# SPDX-License-Identifier: Apache-2.0
# Finds CUDA's compiler and enables the language. FindCUDAToolkit is not used: it does not know the
# layout of the PyPI wheels that packaging/bootstrap.sh installs. Sets MAGICUBE_HAS_CUDA and
# MAGICUBE_ARCHITECTURE_NAMES, and defines magicube_configure_cuda(target).
set(MAGICUBE_HAS_CUDA OFF)
set(MAGICUBE_ARCHITECTURE_NAMES "")

if(NOT MAGICUBE_CUDA STREQUAL "OFF")
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

function(magicube_configure_cuda target)
    if(NOT MAGICUBE_HAS_CUDA)
        return()
    endif()
    target_compile_options(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-fvisibility=hidden>"
        "$<$<COMPILE_LANGUAGE:CUDA>:--threads=2>"
        # constexpr functions, of std::numeric_limits too, are called on the device
        "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
    target_compile_definitions(${target} PRIVATE MAGICUBE_HAS_CUDA)
    set_target_properties(${target} PROPERTIES CUDA_VISIBILITY_PRESET hidden)
endfunction()
