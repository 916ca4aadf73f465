"""What a sweep tells its tracker, and how results become parameters and metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

# The settings that may leave the output folder: none of them is text, a word list or a data path.
_PUBLIC = (
    "annotation.",
    "documents.",
    "evaluation.",
    "model.",
    "search.",
    "text.",
    "training.",
    "corpus.sample",
    "corpus.seed",
)
MAX_PARAM = 500  # characters; a longer one goes to an artifact


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


def public_settings(settings: Mapping[str, Any], log_text: bool = False) -> dict[str, str]:
    """Returns the settings that may be shown as parameters, as text.

    Paths of data and word lists are left out unless ``log_text`` is true.

    >>> public_settings({"annotation.ceiling": 512.0, "corpus.path": "notes.csv"})
    {'annotation.ceiling': '512.0'}
    """
    shown = {}
    for name, value in settings.items():
        if log_text or name.startswith(_PUBLIC):
            shown[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return shown


def setting_metrics(settings: Mapping[str, Any]) -> dict[str, float]:
    """Returns ceiling and sentences as numbers: as parameters they would sort as text.

    >>> setting_metrics({"annotation.ceiling": {"NAME": 512, "STREET": 64}})
    {'annotation.ceiling/NAME': 512.0, 'annotation.ceiling/STREET': 64.0}
    """
    metrics: dict[str, float] = {}
    for name in ("annotation.ceiling", "training.sentences"):
        value = settings.get(name)
        if isinstance(value, Mapping):
            for label, number in value.items():
                _put(metrics, f"{name}/{label}", number)
        else:
            _put(metrics, name, value)
    return metrics


def epoch_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns one epoch's metrics under their tracked names; undefined ones are left out."""
    names = {
        "loss": "train/loss",
        "train_loss": "train/loss",
        "f1": "validation/f1",
        "validation_f1": "validation/f1",
        "seconds": "train/seconds",
    }
    metrics: dict[str, float] = {}
    for name, value in record.items():
        if name in names:
            _put(metrics, names[name], value)
        elif "/" in name:
            _put(metrics, name, value)
    return metrics


def result_metrics(result: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Returns a result's metrics by tracked name, and the names of the undefined ones."""
    metrics: dict[str, float] = {}
    undefined: list[str] = []
    parts: dict[str, Any] = {name: result.get(name) for name in ("validation", "test")}
    for name, scores in (result.get("tests") or {}).items():
        # The first test set is `test` already.
        parts.setdefault(f"tests/{name}", scores)
    for name, scores in (result.get("dictionary") or {}).items():
        parts[f"dictionary/{name}"] = scores
    for part, scores in parts.items():
        if not isinstance(scores, Mapping):
            continue
        for measure in ("precision", "recall", "f1"):
            if measure in scores:
                _put(metrics, f"{part}/{measure}", scores[measure], undefined)
        for label, by_type in (scores.get("per_type") or {}).items():
            if isinstance(by_type, Mapping) and "f1" in by_type:
                _put(metrics, f"{part}/{label}/f1", by_type["f1"], undefined)
    for name in ("training_sentences", "mentions", "seconds"):
        _put(metrics, name, result.get(name))
    return metrics, undefined


def _put(
    metrics: dict[str, float], name: str, value: Any, undefined: list[str] | None = None
) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        metrics[name] = float(value)
    elif undefined is not None:
        undefined.append(name)
