/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the library and how it was built. */
#ifndef MAGICUBE_VERSION_H
#define MAGICUBE_VERSION_H

#include "magicube/status.h"
#include "magicube/types.h"

/* 10000 * major + 100 * minor + patch of the library that is loaded. */
MAGICUBE_API
int32_t magicubeGetVersion(void) MAGICUBE_NOEXCEPT;

/* "major.minor.patch" of the library that is loaded. */
MAGICUBE_API
const char* magicubeGetVersionString(void) MAGICUBE_NOEXCEPT;

/*
 * One line that tells compiler, build type, the CUDA runtime and the architectures that the library
 * holds code for ("cuda: none" in a build without CUDA).
 */
MAGICUBE_API
const char* magicubeGetBuildInfo(void) MAGICUBE_NOEXCEPT;

#endif
