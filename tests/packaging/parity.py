# SPDX-License-Identifier: Apache-2.0
"""Which function of the C ABI the tests of each language call: capi/symbols.txt x language.

    parity.py run LANGUAGE --library LIBRARY -- COMMAND...   runs tests, and records their calls
    parity.py table [LANGUAGE...]                            prints the table; fails on a gap
    parity.py check [LANGUAGE...]                            the same, but prints the gaps alone

Calls are seen by the dynamic linker: `run` makes a library with one entry for every symbol, which
notes that it was called and jumps to the function, and loads it before all others. So a cell is
filled by nothing but a call. Whether tests reach the functions through the safe public API is
checked in their sources: Rust's must forbid unsafe code, without which no raw function can be
called, and Python's must not load the library themselves.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "parity"

# What a language does not offer, and why.
ARRAYS = "arrays bring memory and streams of their own"
DESCRIPTORS = "each call describes anew, and read-only, the arrays that its matrices hold"
STRINGS = "types and versions are strings"
NUMBERS = "numbers are passed by value"
EXEMPT = {
    "python": {
        "magicubeMemcpy": ARRAYS,
        "magicubeMemset": ARRAYS,
        "magicubeStreamCreate": ARRAYS,
        "magicubeStreamDestroy": ARRAYS,
        "magicubeSetStream": ARRAYS,
        "magicubeGetStream": ARRAYS,
        "magicubeGetDevice": "a handle knows the device that it was made for",
        "magicubeSetPointerMode": NUMBERS,
        "magicubeGetPointerMode": NUMBERS,
        "magicubeGetDataTypeBits": STRINGS,
        "magicubeGetDataTypeName": STRINGS,
        "magicubeGetVersion": STRINGS,
        **dict.fromkeys(
            (
                "magicubeBsrGet",
                "magicubeBsrSetPointers",
                "magicubeConstDnMatSetValues",
                "magicubeConstKroneckerSetValues",
                "magicubeConstSpMatSetValues",
                "magicubeCreateBsr",
                "magicubeCreateCsr",
                "magicubeCreateSrBcrs",
                "magicubeCreateVnm",
                "magicubeCsrGet",
                "magicubeCsrSetPointers",
                "magicubeDnMatGet",
                "magicubeDnMatGetStridedBatch",
                "magicubeDnMatSetCols",
                "magicubeDnMatSetValues",
                "magicubeKroneckerGet",
                "magicubeKroneckerGetFactor",
                "magicubeKroneckerSetValues",
                "magicubeSpMatGet",
                "magicubeSpMatGetBatch",
                "magicubeSpMatSetValues",
                "magicubeSrBcrsGet",
                "magicubeSrBcrsSetPointers",
                "magicubeVnmGet",
                "magicubeVnmSetPointers",
            ),
            DESCRIPTORS,
        ),
    },
    "rust": {},
    # tests/java.sh records the calls: the JNI library notes them itself.
    "java": {"magicubeStreamDestroy": "there is no stream without a GPU"},
}

ENTRIES = {
    "x86_64": """
    ".globl {name}\\n.type {name}, @function\\n{name}:\\n"
    "movb $1, called+{i}(%rip)\\n"
    "jmp *target+8*{i}(%rip)\\n"
""",
    "aarch64": """
    ".globl {name}\\n.type {name}, %function\\n{name}:\\n"
    "adrp x16, called+{i}\\nadd x16, x16, :lo12:called+{i}\\nmov w17, #1\\nstrb w17, [x16]\\n"
    "adrp x16, target+8*{i}\\nadd x16, x16, :lo12:target+8*{i}\\nldr x16, [x16]\\nbr x16\\n"
""",
}

RECORDER = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))
enum {{ COUNT = {count} }};
HIDDEN unsigned char called[COUNT];
HIDDEN void* target[COUNT];
static const char* const names[COUNT] = {{{names}}};

__asm__(".text\\n"
{entries});

__attribute__((constructor)) static void load(void) {{
    void* library = dlopen(getenv("MAGICUBE_RECORDED"), RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < COUNT; ++i) {{
        target[i] = library ? dlsym(library, names[i]) : NULL;
        if (!target[i]) {{
            fprintf(stderr, "recorder: %s\\n", dlerror());
            abort();
        }}
    }}
}}

__attribute__((destructor)) static void report(void) {{
    const char* path = getenv("MAGICUBE_CALLS");
    const int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
    for (int i = 0; file >= 0 && i < COUNT; ++i) {{
        char line[128];
        const int length = snprintf(line, sizeof line, "%s\\n", names[i]);
        if (called[i] && write(file, line, (size_t)length) != length) abort();
    }}
    if (file >= 0) close(file);
}}
"""


def symbols():
    return (ROOT / "capi" / "symbols.txt").read_text().split()


def build_recorder():
    """Compiles the recorder, unless it is there for the same symbols."""
    entry = ENTRIES.get(platform.machine())
    if entry is None:
        sys.exit(f"parity: no recorder for {platform.machine()}")
    names = symbols()
    source = RECORDER.format(
        count=len(names),
        names=", ".join(f'"{name}"' for name in names),
        entries="".join(entry.format(name=name, i=i) for i, name in enumerate(names)),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    file, library = FOLDER / "recorder.c", FOLDER / "recorder.so"
    if not library.exists() or not file.exists() or file.read_text() != source:
        file.write_text(source)
        compiler = os.environ.get("CC", "cc")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, file, "-ldl"]
        subprocess.run(command, check=True)
    return library


def run(language, library, command):
    recorder = build_recorder()
    calls = FOLDER / f"{language}.calls"
    calls.unlink(missing_ok=True)
    environment = dict(
        os.environ,
        LD_PRELOAD=str(recorder),
        MAGICUBE_RECORDED=str(Path(library).resolve()),
        MAGICUBE_CALLS=str(calls),
    )
    status = subprocess.run(command, env=environment).returncode
    found = sorted(set(calls.read_text().split())) if calls.exists() else []
    calls.write_text("".join(f"{name}\n" for name in found))
    print(f"parity: {language} calls {len(found)} of {len(symbols())} functions")
    return status


def check_sources():
    """Complaints about tests that could reach the functions past the safe public API."""
    complaints = []
    rust = sorted((ROOT / "bindings/rust/magicube/tests").glob("*.rs"))
    for file in rust:
        if "\n#![forbid(unsafe_code)]\n" not in file.read_text():
            complaints.append(f"{file.relative_to(ROOT)}: does not forbid unsafe code")
    if not rust:
        complaints.append("bindings/rust/magicube/tests: no tests")
    loads = re.compile(r"^\s*(import|from)\s+(ctypes|cffi)\b|CDLL\(", re.M)
    for file in sorted((ROOT / "bindings/python/tests").glob("*.py")):
        if loads.search(file.read_text()):
            complaints.append(f"{file.relative_to(ROOT)}: loads libraries itself")
    return complaints


def table(languages, whole):
    complaints = check_sources()
    called = {}
    for language in languages:
        calls = FOLDER / f"{language}.calls"
        if not calls.exists():
            sys.exit(f"parity: {language} was not recorded; `parity.py run {language}` does it")
        called[language] = set(calls.read_text().split())
    lines = [f"| function | {' | '.join(languages)} |", "|--" * (len(languages) + 1) + "|"]
    for name in symbols():
        cells = []
        for language in languages:
            exempt = EXEMPT[language].get(name)
            if name in called[language]:
                cells.append("yes")
                if exempt:
                    complaints.append(f"{name}: {language} is exempt and calls it")
            elif exempt:
                cells.append("n/a")
            else:
                cells.append("MISSING")
                complaints.append(f"{name}: no test in {language} calls it")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    (FOLDER / "parity.md").write_text(text)
    if whole:
        print(text, end="")
    for complaint in complaints:
        print("parity:", complaint)
    return 1 if complaints else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("language", choices=sorted(EXEMPT))
    running.add_argument("--library", required=True)
    for name in ("table", "check"):
        commands.add_parser(name).add_argument("languages", nargs="*", default=[])
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    if given.command != "run":
        return table(given.languages or sorted(EXEMPT), whole=given.command == "table")
    return run(given.language, given.library, words[end + 1 :])


if __name__ == "__main__":
    sys.exit(main())
