# SPDX-License-Identifier: Apache-2.0
"""Builds the conda packages from files that are built already.

    build.py --cuda PREFIX [--cpu PREFIX] --wheel WHEEL --out FOLDER

PREFIX is where `cmake --install` put a library; without --cpu the package for machines without a
GPU holds the library of --cuda, which runs there too, and only asks for no GPU. WHEEL is that of
the Python package (packaging/wheels.sh). Prints the packages.
"""

import argparse
import os
import sys
from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cuda", type=Path, required=True)
    parser.add_argument("--cpu", type=Path)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    tag = given.wheel.name.split("-")[2]  # cp311
    os.environ.update(
        MAGICUBE_VERSION=(ROOT / "VERSION").read_text().split()[0],
        MAGICUBE_CUDA_PREFIX=str(given.cuda.resolve()),
        MAGICUBE_CPU_PREFIX=str((given.cpu or given.cuda).resolve()),
        MAGICUBE_WHEEL=str(given.wheel.resolve()),
        MAGICUBE_PYTHON=f"{tag[2]}.{tag[3:]}",
        MAGICUBE_UNPACK_PYTHON=sys.executable,
    )
    recipe = Stage0Recipe.from_file(Path(__file__).with_name("recipe.yaml"))
    # The Python package is the same for both, but comes up with each.
    built: set[str] = set()
    for output in recipe.render(VariantConfig({"variant": ["cpu", "cuda"]})):
        name = output.recipe.package.name
        if name == "magicube" and name in built:
            continue
        built.add(name)
        for package in output.run_build(output_dir=given.out, channels=[]).packages:
            print(package)


if __name__ == "__main__":
    main()
