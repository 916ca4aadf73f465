"""What a sweep tells its tracker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """Where a sweep is made visible. The files stay the truth: a tracker may miss anything."""

    def start_sweep(self, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Opens the sweep, or opens it again; runs that a killed process left open are closed."""

    def unfinished(self, cells: Sequence[str]) -> list[str]:
        """Returns those of the cells that the tracker does not show as finished."""

    def start_cell(self, cell: str, params: Mapping[str, Any]) -> None:
        """Opens a cell's run, or opens it again."""

    def epochs(self, cell: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Logs the epochs that the cell's run does not show yet; each record has ``epoch``."""

    def finish_cell(self, cell: str, result: Mapping[str, Any]) -> None:
        """Logs the result's scores and closes the run as finished."""

    def fail_cell(self, cell: str, reason: str) -> None:
        """Closes the run as failed."""

    def artifacts(self, folder: Path) -> None:
        """Logs a folder of figures and tables on the sweep."""

    def finish_sweep(self, status: str) -> None:
        """Closes the sweep as ``FINISHED``, ``FAILED`` or ``KILLED``, and all runs still open."""


class NoopTracker:
    """Tracks nothing."""

    def start_sweep(self, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Does nothing."""

    def unfinished(self, cells: Sequence[str]) -> list[str]:
        """Returns no cell: there is nothing to catch up on."""
        return []

    def start_cell(self, cell: str, params: Mapping[str, Any]) -> None:
        """Does nothing."""

    def epochs(self, cell: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Does nothing."""

    def finish_cell(self, cell: str, result: Mapping[str, Any]) -> None:
        """Does nothing."""

    def fail_cell(self, cell: str, reason: str) -> None:
        """Does nothing."""

    def artifacts(self, folder: Path) -> None:
        """Does nothing."""

    def finish_sweep(self, status: str) -> None:
        """Does nothing."""
