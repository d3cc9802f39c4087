#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library holds code for the architectures it says, at most 250 kernels of each, in at most
# 20 MB an architecture. Exit status 77: there is no cuobjdump to look with.
#   kernels.sh LIBRARY "ARCHITECTURES"
set -euo pipefail
library=$1 expected=$2
most_kernels=250 most_bytes=$((20 * 1000 * 1000))
failures=0

export PATH="${CUOBJDUMP_FOLDER:-}:$PATH:/usr/local/cuda/bin"
if ! command -v cuobjdump >/dev/null; then
    echo "kernels: skipped, no cuobjdump here"
    exit 77
fi

# "sm_80 44": kernels by architecture
counts=$(cuobjdump -res-usage "$library" 2>&1 | awk '
    $1 == "arch" { architecture = $3 }
    $1 == "Function" { ++kernels[architecture] }
    END { for (a in kernels) print a, kernels[a] }' | LC_ALL=C sort)
found=$(awk '{ print $1 }' <<<"$counts" | tr '\n' ' ')
wanted=$(tr ' ' '\n' <<<"$expected" | grep '^sm_' | LC_ALL=C sort | tr '\n' ' ')
if [ "$found" != "$wanted" ]; then
    echo "FAILED: the library holds code for '$found', and says '$wanted'"
    failures=1
fi
while read -r architecture kernels; do
    echo "kernels: $kernels for $architecture"
    if [ "$kernels" -gt $most_kernels ]; then
        echo "FAILED: there may be $most_kernels an architecture"
        failures=1
    fi
done <<<"$counts"

bytes=$(stat -L -c %s "$library")
architectures=$(wc -w <<<"$expected")
echo "kernels: the library has $bytes bytes"
if [ "$bytes" -gt $((most_bytes * architectures)) ]; then
    echo "FAILED: it may have $most_bytes an architecture"
    failures=1
fi
exit "$failures"
