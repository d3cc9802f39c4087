#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists what the typemaps of magicube.i apply to, as SWIG reads it, from the headers of the ABI.
#   declarations.sh INCLUDE_DIR >declarations.i
set -euo pipefail
folder=$1/magicube
# Lines that a backslash continues are one line.
headers() { cat "$folder"/*.h | sed -e ':again' -e '/\\$/{N;s/\\\n//;b again}'; }

# typedef struct magicubeContext* magicubeHandle_t;
headers | sed -nE 's/^typedef (const )?struct [A-Za-z]+\* ([A-Za-z]+_t);.*/\2/p' |
    while read -r type; do echo "MAGICUBE_ADDRESS($type) MAGICUBE_OUT($type*)"; done
# typedef enum magicubeDevice { ... } magicubeDevice_t;
headers | sed -nE 's/^typedef enum ([A-Za-z]+) .*/MAGICUBE_OUT(\1_t*)/p'
# #define MAGICUBE_DEVICE_INFO_INIT { sizeof(magicubeDeviceInfo_t), ... }
headers | tr -s ' \n' ' ' | grep -oE '#define MAGICUBE_[A-Z0-9_]+_INIT \{ sizeof\([A-Za-z]+_t\)' |
    sed -E 's/#define (\w+) \{ sizeof\((\w+)_t\)/MAGICUBE_STRUCT(\2, \1)/'

# Those that the others use come first.
first=(types status handle matrix)
for name in "${first[@]}"; do echo "%include \"magicube/$name.h\""; done
for header in "$folder"/*.h; do
    name=$(basename "$header" .h)
    case " ${first[*]} export magicube " in
        *" $name "*) ;;
        *) echo "%include \"magicube/$name.h\"" ;;
    esac
done
