"""The switches that keep libraries silent and offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHOW = (
    "import os; {before}from deidsearch.quiet import silence, allow_hub; silence(); {after}"
    "print(os.environ.get('RAY_USAGE_STATS_ENABLED'), os.environ.get('HF_HUB_OFFLINE'),"
    " os.environ.get('RAY_AUTH_MODE'))"
)


def show(before: str = "", after: str = "", **environment: str) -> str:
    """Returns the values after a fresh process has called `silence`."""
    names = ("RAY_USAGE_STATS_ENABLED", "HF_HUB_OFFLINE", "RAY_AUTH_MODE")
    base = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(before=before, after=after)],
        env={**base, **environment},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_all_is_off_by_default() -> None:
    assert show() == "0 1 token"


def test_a_users_own_choice_stays() -> None:
    assert show(RAY_AUTH_MODE="disabled") == "0 1 disabled"


def test_the_hub_is_allowed_only_where_asked_for() -> None:
    assert show(after="allow_hub(); ") == "0 0 token"


def test_ray_that_was_imported_before_keeps_its_mode() -> None:
    # Its processes would otherwise ask for a token that it doesn't have.
    assert show(before="import sys; sys.modules['ray'] = sys; ") == "0 1 None"
