# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hypothesis
import numpy as np
import pytest

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
