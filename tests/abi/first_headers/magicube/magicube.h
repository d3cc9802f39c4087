/* SPDX-License-Identifier: Apache-2.0 */
/* Magicube: sparse low-precision matrix products on Tensor Cores and CPUs. This header includes all
 * others. */
#ifndef MAGICUBE_H
#define MAGICUBE_H

#include "magicube/convert.h"
#include "magicube/handle.h"
#include "magicube/log.h"
#include "magicube/matrix.h"
#include "magicube/memory.h"
#include "magicube/prune.h"
#include "magicube/quantize.h"
#include "magicube/sddmm.h"
#include "magicube/softmax.h"
#include "magicube/spmm.h"
#include "magicube/status.h"
#include "magicube/types.h"
#include "magicube/version.h"

#endif
