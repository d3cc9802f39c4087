#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Java package against the library in build/dev/install (or MAGICUBE_PREFIX) and installs
# it, its natives under a classifier, into the local Maven repository.
#
#   packaging/install_java.sh [--tests] [options of mvn]
#
# --tests runs the suites as well. -Dmaven.repo.local=FOLDER names another repository than ~/.m2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip=-DskipTests
if [ "${1:-}" = --tests ]; then
    skip=-DskipTests=false
    shift
fi
prefix=${MAGICUBE_PREFIX:-$PWD/build/dev/install}
if [ ! -f "$prefix/include/magicube/magicube.h" ]; then
    echo "install_java: no Magicube is installed in $prefix; run cmake --install," \
        "or set MAGICUBE_PREFIX" >&2
    exit 1
fi
mvn -B -q -ntp -Dstyle.color=never -f bindings/java/pom.xml install "$skip" \
    -Drevision="$(cat VERSION)" -Dmagicube.prefix="$prefix" \
    -Dmagicube.native="$PWD/build/java/native" "$@"
