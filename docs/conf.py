# SPDX-License-Identifier: Apache-2.0
"""Sphinx: the pages of this folder, and the reference of the installed Python package."""

from pathlib import Path

project = "Magicube"
author = "the Magicube authors"
project_copyright = author
release = version = (Path(__file__).parents[1] / "VERSION").read_text().split()[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "none"  # docstrings tell types
autodoc_member_order = "bysource"
napoleon_google_docstring = False
html_theme = "furo"
html_title = f"Magicube {version}"
