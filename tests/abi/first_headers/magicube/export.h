/* SPDX-License-Identifier: Apache-2.0 */
/* MAGICUBE_API marks every entry point: exported from the shared library, C linkage, never
 * throwing. */
#ifndef MAGICUBE_EXPORT_H
#define MAGICUBE_EXPORT_H

#define MAGICUBE_EXPORTED __attribute__((visibility("default")))

#if defined(__cplusplus)
#define MAGICUBE_API extern "C" MAGICUBE_EXPORTED
#define MAGICUBE_NOEXCEPT noexcept
#else
#define MAGICUBE_API extern MAGICUBE_EXPORTED
#define MAGICUBE_NOEXCEPT
#endif

#endif
