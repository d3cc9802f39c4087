# SPDX-License-Identifier: Apache-2.0
"""Uses an installed Python package: the right version, right products, nothing on stderr.

    installed.py VERSION [--without-scipy] [--site FOLDER]     FOLDER: of the requirements
"""

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("version")
parser.add_argument("--without-scipy", action="store_true")
parser.add_argument("--site")
given = parser.parse_args()
if given.site:
    sys.path.append(given.site)

# issue_01, issue_16: importing needs no GPU and says nothing.
code = "import sys; sys.path.append(sys.argv[1]); import magicube"
imported = subprocess.run(
    [sys.executable, *(["-S"] if sys.flags.no_site else []), "-c", code, given.site or "."],
    capture_output=True,
    check=False,
)
assert imported.returncode == 0, imported.stderr.decode()
assert imported.stdout == imported.stderr == b"", (imported.stdout, imported.stderr)

import numpy as np  # noqa: E402

import magicube as mc  # noqa: E402

assert mc.__version__ == given.version, mc.__version__
repository = Path(__file__).resolve().parents[2]
assert not Path(mc.__file__).is_relative_to(repository / "bindings"), mc.__file__
stderr = io.StringIO()
with contextlib.redirect_stderr(stderr):
    rng = np.random.default_rng(7)
    dense = rng.integers(-128, 128, (48, 72), dtype=np.int8)
    dense[rng.random((6, 72)).repeat(8, axis=0) < 0.8] = 0
    x = rng.integers(-128, 128, (72, 5), dtype=np.int8)
    a = mc.SrBcrs.from_dense(dense, vector_length=8)
    assert (mc.spmm(a, x) == dense.astype(np.int32) @ x.astype(np.int32)).all()
    try:
        mc.Handle("cuda")
    except mc.MagicubeError as error:
        assert str(error), "an error without a message"
    try:
        matrix = a.to_scipy()
    except ImportError as error:
        assert given.without_scipy and "scipy" in str(error).lower(), error
    else:
        assert not given.without_scipy, "SciPy is there"
        assert (matrix.toarray() == dense).all()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        a.save(path)
        assert (mc.SrBcrs.load(path).to_dense() == dense).all()
assert stderr.getvalue() == "", stderr.getvalue()
