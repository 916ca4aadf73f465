"""Progress: shares of the work, and the time left at the pace so far."""

from __future__ import annotations

import pytest

from deidsearch.search import progress as module
from deidsearch.search.progress import Progress
from deidsearch.search.session import cap_resources


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_time_left_follows_the_pace_since_the_first_epoch(clock: list[float]) -> None:
    progress = Progress({"small": 100, "large": 300}, num_cells=2, num_done=0)
    assert progress.seconds_left() is None
    progress.advance("small", 0.5)  # start-up time up to here is no pace
    assert progress.seconds_left() is None
    clock[0] += 10
    progress.end("small")
    assert progress.share() == pytest.approx(0.25)
    assert progress.seconds_left() == pytest.approx(60)
    progress.end("large")
    assert (progress.share(), progress.seconds_left()) == (1.0, 0.0)


def test_nothing_to_do_is_all_done() -> None:
    progress = Progress({}, num_cells=4, num_done=4)
    progress.end("trained before")
    assert (progress.share(), progress.seconds_left(), progress.num_over) == (1.0, 0.0, 0)


def test_a_share_never_falls() -> None:
    progress = Progress({"one": 1}, 1, 0)
    progress.advance("one", 0.5)
    progress.advance("one", 0.25)  # tried again after its worker died
    assert progress.share() == 0.5


@pytest.mark.parametrize(
    ("asked", "have", "granted", "warnings"),
    [
        ((2, 0.0), (4, 0), (2, 0.0), []),
        ((8, 0.0), (4, 0), (4, 0.0), ["ray.cpus_per_trial: 8 asked for, 4 exist; using 4."]),
        ((1, 0.25), (1, 0), (1, 0.0), [
            "ray.gpus_per_trial: 0.25 asked for, no GPU exists; using 0.",
        ]),
        ((1, 0.25), (1, 1), (1, 0.25), []),
        ((1, 2.0), (1, 1), (1, 1.0), ["ray.gpus_per_trial: 2 asked for, 1 exist; using 1."]),
    ],
)  # fmt: skip
def test_more_than_exists_is_capped_with_a_warning(asked, have, granted, warnings) -> None:
    assert cap_resources(*asked, *have) == (*granted, warnings)
