#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the Java package against the library in build/dev/install (or MAGICUBE_PREFIX):
# its suites and examples, javadoc, README.md's lines, what the jars hold, and a product of a
# stranger's that Maven builds from an empty folder. Afterwards build/java/calls.txt tells which
# test calls which function of the ABI, and build/parity/java.calls all that are called.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
version=$(cat VERSION)
platform=linux-$(uname -m)
repository=$root/build/java/repository
export MAGICUBE_JAVA_TRACE=$root/build/java/calls.txt
fail() { echo "java: $*" >&2; exit 1; }

mkdir -p build/java
rm -f "$MAGICUBE_JAVA_TRACE"
# Javadoc that finds a folder of its own from before says nothing of new warnings.
rm -rf bindings/java/target
log=build/java/maven.log
packaging/install_java.sh --tests -Dmaven.repo.local="$repository" >$log 2>&1 ||
    { cat $log; fail "the package does not build, or a test failed"; }
grep -h 'from Java' $log || true
reports=bindings/java/target/surefire-reports
count=$(cat $reports/*.xml | grep -c '<testcase ')
skipped=$(cat $reports/*.xml | grep -c '<skipped' || true)
[ "$count" -gt 100 ] || fail "only $count tests ran"

# For tests/packaging/parity.py: functions of the ABI that a test calls through the public API.
mkdir -p build/parity
sed -n 's/^call //p' "$MAGICUBE_JAVA_TRACE" | grep -Fx -f capi/symbols.txt | sort -u \
    >build/parity/java.calls
python3 tests/packaging/parity.py check java || fail "no test calls these functions"
unset MAGICUBE_JAVA_TRACE

# ---- what the jars hold --------------------------------------------------------------------------
folder=$repository/org/magicube/magicube/$version
jar=$folder/magicube-$version.jar
natives=$folder/magicube-$version-$platform.jar
for file in "$jar" "$natives" "$folder/magicube-$version-javadoc.jar" \
    "$folder/magicube-$version-sources.jar"; do
    [ -f "$file" ] || fail "$file is missing"
done
jar tf "$natives" | grep -q "org/magicube/natives/$platform/libmagicube_jni.so" ||
    fail "$natives holds no JNI library"
! jar tf "$jar" | grep -q '\.so' || fail "$jar holds native code, which belongs to a classifier"
! grep -rq finalize bindings/java/target/classes || fail "a class has a finalizer"
# shellcheck disable=SC2016
! grep -q '${' "$folder/magicube-$version.pom" || fail "the installed pom names properties"

# ---- the jars alone ------------------------------------------------------------------------------
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
java -Djava.io.tmpdir="$work" -cp "$jar:$natives" examples/java/Spmm.java >"$work/shown" 2>&1 ||
    { cat "$work/shown"; fail "an example does not run from the jars"; }
rm "$work/shown"
[ -z "$(ls -A "$work")" ] || fail "loading from the jar left $(ls -A "$work")"

# What README.md shows, on a matrix of ones.
{
    sed -n '/^```java$/,/^```$/p' README.md | sed '/^```/d' | grep '^import'
    echo 'class Readme { public static void main(String[] arguments) {
        int m = 8, k = 2, n = 2;
        byte[] w8 = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, x8 = {1, 2, 3, 4};
        float[] wScale = {1,1,1,1,1,1,1,0.5f}, xScale = {1, 10};'
    sed -n '/^```java$/,/^```$/p' README.md | sed '/^```/d' | grep -v '^import'
    echo 'System.out.println(java.util.Arrays.toString(java.util.Arrays.copyOf(result, 2))
        + result[15]); } }'
} >"$work/Readme.java"
shown=$(java -Djava.io.tmpdir="$work" -cp "$jar:$natives" "$work/Readme.java")
[ "$shown" = '[4.0, 60.0]30.0' ] || fail "README.md's lines print $shown"

# Internals are hidden from modules.
mkdir "$work/module"
echo 'module stranger { requires org.magicube; }' >"$work/module/module-info.java"
echo 'class Peep { long n = org.magicube.internal.Native.magicubeGetVersion(); }' \
    >"$work/module/Peep.java"
if javac --module-path "$jar" -d "$work/out" "$work"/module/*.java >"$work/shown" 2>&1; then
    fail "a module can reach org.magicube.internal"
fi
grep -q 'not exported\|does not export' "$work/shown" || { cat "$work/shown"; fail "unexpected"; }

# ---- a stranger's product ------------------------------------------------------------------------
cp -r tests/packaging/java "$work/product"
mvn -B -q -ntp -f "$work/product/pom.xml" -Dmaven.repo.local="$repository" \
    -Dmagicube.version="$version" -Dmagicube.platform="$platform" compile exec:java \
    >"$work/shown" 2>&1 || { cat "$work/shown"; fail "the stranger's product does not build"; }
grep -q '10.0 12.0 15.0 22.0' "$work/shown" || { cat "$work/shown"; fail "its result is wrong"; }

echo "java: $count tests passed ($skipped of them skipped)"
