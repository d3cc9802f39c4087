# SPDX-License-Identifier: Apache-2.0
"""The requirements of the Python package, for scikit-build-core."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REQUIREMENTS = ["numpy>=1.26", "ml_dtypes>=0.4"]


def dynamic_metadata(field: str, settings: Mapping[str, Any] | None = None) -> list[str]:
    """A wheel that is built with MAGICUBE_LIBRARY_WHEEL=1 takes the library from the wheel
    libmagicube of the same version; any other holds the library or knows where it is installed.
    """
    if field != "dependencies":
        raise ValueError(f"there is nothing to say about {field!r}; the only field is dependencies")
    if os.environ.get("MAGICUBE_LIBRARY_WHEEL") != "1":
        return _REQUIREMENTS
    version = (Path(__file__).parents[3] / "VERSION").read_text().split()[0]
    return [*_REQUIREMENTS, f"libmagicube=={version}"]
