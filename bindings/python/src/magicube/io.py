# SPDX-License-Identifier: Apache-2.0
"""Files: Matrix Market, .smtx, safetensors, and SR-BCRS matrices in .safetensors and .npz.

Every failure to read or write is a :class:`FileFormatError`, whose text names the file, the place
in it, the value found and the rule. Nothing is allocated on the word of a header alone.
"""

from __future__ import annotations

from magicube._io.common import FileFormatError
from magicube._io.matrix_market import read_matrix_market, write_matrix_market
from magicube._io.safetensors import load_safetensors, save_safetensors
from magicube._io.smtx import read_smtx
from magicube._io.sr_bcrs import list_sr_bcrs, load_sr_bcrs, save_sr_bcrs

__all__ = [
    "FileFormatError",
    "list_sr_bcrs",
    "load_safetensors",
    "load_sr_bcrs",
    "read_matrix_market",
    "read_smtx",
    "save_safetensors",
    "save_sr_bcrs",
    "write_matrix_market",
]
