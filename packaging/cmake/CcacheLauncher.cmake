# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache where there is one, unless the user chose a launcher.
find_program(MAGICUBE_CCACHE ccache)
if(MAGICUBE_CCACHE)
    foreach(language C CXX CUDA)
        if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
            set(CMAKE_${language}_COMPILER_LAUNCHER ${MAGICUBE_CCACHE})
        endif()
    endforeach()
endif()
