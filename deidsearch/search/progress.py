"""How far a sweep is, and what it tells whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from deidsearch.store.ledger import CellState


class Progress:
    """The work of a sweep's pending trainings, in sentences times epochs at most.

    Args:
        work: training key -> sentences of one epoch times the most epochs.
        num_cells: cells of the sweep.
        num_done: those done before.
    """

    def __init__(self, work: Mapping[str, float], num_cells: int, num_done: int) -> None:
        self.num_cells = num_cells
        self.num_done = num_done
        self.num_failed = 0
        self.num_trainings = len(work)
        self.num_over = 0
        self._work = dict(work)
        self._share = dict.fromkeys(work, 0.0)  # of each training, 0-1
        self._first_s: float | None = None  # clock and work when the first epoch ended
        self._first_work = 0.0

    def advance(self, training: str, share: float) -> None:
        """Notes that this share of a training is done (1: it is over)."""
        if training not in self._share:
            return
        self._share[training] = min(1.0, max(self._share[training], share))
        if self._first_s is None:
            # Earlier time went into start-up, and a resumed training had work done before.
            self._first_s, self._first_work = time.monotonic(), self._done_work()

    def end(self, training: str) -> None:
        """Notes that a training is over, done or failed."""
        if training in self._share:
            self.num_over += 1
            self.advance(training, 1.0)

    def share(self) -> float:
        """Returns the share of the work that is done, 0-1."""
        total = sum(self._work.values())
        return self._done_work() / total if total else 1.0

    def seconds_left(self) -> float | None:
        """Returns the seconds left at the pace so far, or None before a pace is known."""
        if self.num_over == self.num_trainings:
            return 0.0
        if self._first_s is None:
            return None
        done = self._done_work() - self._first_work
        if done <= 0:
            return None
        left = sum(self._work.values()) - self._done_work()
        return (time.monotonic() - self._first_s) / done * left

    def _done_work(self) -> float:
        return sum(self._work[key] * share for key, share in self._share.items())


class Reporter(Protocol):
    """Who shows a sweep as it goes on; ``progress`` is alive and may be asked at any time."""

    def sweep_started(self, progress: Progress) -> None:
        """The plan is known."""

    def training_started(self, key: str, cells: int) -> None:
        """A training begins (or begins again) for this many cells."""

    def epoch_ended(self, key: str, record: Mapping[str, Any]) -> None:
        """One epoch of a training is over."""

    def training_ended(self, key: str, state: str, reason: str | None) -> None:
        """A training is done or failed."""

    def cell_ended(self, state: CellState) -> None:
        """A cell is done or failed."""

    def sweep_ended(self, counts: Mapping[str, int]) -> None:
        """The sweep is over or interrupted; the number of cells by state."""


class SilentReporter:
    """Shows nothing."""

    def sweep_started(self, progress: Progress) -> None:
        """Does nothing."""

    def training_started(self, key: str, cells: int) -> None:
        """Does nothing."""

    def epoch_ended(self, key: str, record: Mapping[str, Any]) -> None:
        """Does nothing."""

    def training_ended(self, key: str, state: str, reason: str | None) -> None:
        """Does nothing."""

    def cell_ended(self, state: CellState) -> None:
        """Does nothing."""

    def sweep_ended(self, counts: Mapping[str, int]) -> None:
        """Does nothing."""
