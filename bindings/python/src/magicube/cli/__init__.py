# SPDX-License-Identifier: Apache-2.0
"""The command `magicube`. What it needs beside NumPy comes with the extra `cli`."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Run the command line."""
    try:
        from magicube.cli._app import app
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in ("typer", "rich", "click"):
            raise
        print(
            f"magicube: the command line needs the Python package {error.name}; "
            "install it with: pip install 'magicube[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    app(prog_name="magicube")


def __getattr__(name: str) -> Any:
    if name == "app":
        from magicube.cli._app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
