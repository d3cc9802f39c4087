# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from cuda_arrays import MAKERS
from stand_in import StandIn

hypothesis.settings.register_profile(
    "magicube",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("magicube")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that differ from test to test and are the same in every run."""
    seed = [ord(letter) for letter in request.node.nodeid]
    return np.random.default_rng(seed)


@pytest.fixture(params=list(MAKERS))
def lib(request: pytest.FixtureRequest) -> Any:
    """A library of arrays on the GPU."""
    return MAKERS[request.param]()


@pytest.fixture(params=[*MAKERS, "stand_in"])
def any_lib(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, or a stand-in for CuPy."""
    if request.param == "stand_in":
        return StandIn(monkeypatch)
    return MAKERS[request.param]()
