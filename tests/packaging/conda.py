# SPDX-License-Identifier: Apache-2.0
"""What the tests do with conda packages, without conda.

    conda.py unpack PACKAGE PREFIX     puts the files into PREFIX
    conda.py depends PACKAGE NAME      prints whether it requires NAME: yes or no
"""

import io
import json
import sys
import tarfile
import zipfile

import zstandard


def archive(package: str, part: str) -> tarfile.TarFile:
    """The part of a package whose name starts so."""
    with zipfile.ZipFile(package) as whole:
        (name,) = (n for n in whole.namelist() if n.startswith(part))
        with zstandard.ZstdDecompressor().stream_reader(whole.open(name)) as stream:
            return tarfile.open(fileobj=io.BytesIO(stream.read()))


def main() -> None:
    action, package, argument = sys.argv[1:]
    if action == "unpack":
        with archive(package, "pkg-") as files:
            files.extractall(argument, filter="tar")
        return
    with archive(package, "info-") as info:
        index = info.extractfile("info/index.json")
        assert index is not None
        depends = json.load(index)["depends"]
    print("yes" if any(d.split()[0] == argument for d in depends) else "no")


if __name__ == "__main__":
    main()
