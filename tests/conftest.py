"""What all tests share: few threads, and the real data where they are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before numpy and torch are imported: several tests start processes of their own.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# How long an example takes says more about the machine than about the code.
settings.register_profile(
    "deidsearch",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("deidsearch")

_BESIDE = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the real dictionaries, corpora and encoder; skips the test where it is not.

    It is looked for in ``DEIDSEARCH_SHARED``, else beside the checkout.
    """
    folder = Path(os.environ.get("DEIDSEARCH_SHARED") or _BESIDE)
    if not (folder / "data").is_dir():
        pytest.skip("real data not found: set DEIDSEARCH_SHARED to the folder that holds data/")
    return folder.resolve()
