"""The ledger of a sweep: the state of each cell, read from files that are the truth.

A cell is done when ``trials/<cell>/result.json`` stands whole; ``failure.json`` beside it says why
one failed. A training is over when ``trainings/<key>/training.json`` stands whole. Both are renamed
into place, so a killed process leaves either all of them or nothing. The ``cells`` table in DuckDB
is a copy for queries and is made again from the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deidsearch.files import file_digest, read_json, write_json

if TYPE_CHECKING:
    from deidsearch.store.database import Database

PENDING, RUNNING, DONE, FAILED = "pending", "running", "done", "failed"
STATES = (PENDING, RUNNING, DONE, FAILED)

CELLS_SQL = """
CREATE TABLE IF NOT EXISTS cells (
    cell VARCHAR PRIMARY KEY,
    training VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    reason VARCHAR,
    settings VARCHAR NOT NULL,
    training_sentences BIGINT,
    validation_precision DOUBLE,
    validation_recall DOUBLE,
    validation_f1 DOUBLE,
    test_precision DOUBLE,
    test_recall DOUBLE,
    test_f1 DOUBLE,
    dictionary_validation_f1 DOUBLE,
    dictionary_test_f1 DOUBLE,
    seconds DOUBLE
)
"""
_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("cell", "training", "state", "reason", "settings")),
        ("training_sentences", pa.int64()),
        *((f"validation_{name}", pa.float64()) for name in ("precision", "recall", "f1")),
        *((f"test_{name}", pa.float64()) for name in ("precision", "recall", "f1")),
        ("dictionary_validation_f1", pa.float64()),
        ("dictionary_test_f1", pa.float64()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True)
class PlannedCell:
    """One point of the grid, seed included.

    Attributes:
        key: names the cell's folder under ``trials/``.
        training: key of the training that it shares with its like.
        settings: dotted field -> value.
    """

    key: str
    training: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellState:
    """A cell as the files show it; ``result`` is there for a finished one."""

    cell: PlannedCell
    state: str
    reason: str | None = None
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TrainingState:
    """A training as the files show it; ``record`` is the content of its ``training.json``."""

    key: str
    state: str
    reason: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


def training_folder(output: Path, key: str) -> Path:
    """Returns the folder of a training."""
    return output / "trainings" / key


def trial_folder(output: Path, cell: str) -> Path:
    """Returns the folder of a cell."""
    return output / "trials" / cell


def read_training(folder: Path) -> TrainingState:
    """Returns the state of the training in a folder.

    A finished training whose files are no longer what it wrote counts as pending.
    """
    record = _whole(folder / "training.json")
    key = folder.name
    if record is None or record.get("state") not in (DONE, FAILED):
        return TrainingState(key, RUNNING if is_locked(folder / "lock") else PENDING)
    if record["state"] == FAILED:
        if is_locked(folder / "lock"):
            return TrainingState(key, RUNNING)
        return TrainingState(key, FAILED, str(record.get("reason")), record)
    for name, expected in record.get("digests", {}).items():
        file = folder / name
        if not file.is_file() or file_digest(file) != expected:
            return TrainingState(key, PENDING)
    return TrainingState(key, DONE, None, record)


def write_training(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes ``training.json``, the last file of a training."""
    write_json(folder / "training.json", dict(record))


def write_result(output: Path, cell: PlannedCell, result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result as it now stands in the cell's ``result.json``."""
    whole = {
        "cell": cell.key,
        "training": cell.training,
        "state": DONE,
        "settings": dict(cell.settings),
        **result,
    }
    folder = trial_folder(output, cell.key)
    write_json(folder / "result.json", whole)
    (folder / "failure.json").unlink(missing_ok=True)
    return whole


def write_failure(output: Path, cell: PlannedCell, reason: str) -> None:
    """Writes why a cell has no result; a later result removes it."""
    content = {
        "cell": cell.key,
        "training": cell.training,
        "state": FAILED,
        "reason": reason,
        "settings": dict(cell.settings),
    }
    write_json(trial_folder(output, cell.key) / "failure.json", content)


def scan(output: Path, cells: Iterable[PlannedCell]) -> list[CellState]:
    """Returns the state of each planned cell, in the order of the plan."""
    trainings: dict[str, TrainingState] = {}
    states = []
    for cell in cells:
        folder = trial_folder(output, cell.key)
        result = _whole(folder / "result.json")
        if result is not None and result.get("state") == DONE and result.get("cell") == cell.key:
            states.append(CellState(cell, DONE, None, result))
            continue
        if cell.training not in trainings:
            trainings[cell.training] = read_training(training_folder(output, cell.training))
        training = trainings[cell.training]
        failure = _whole(folder / "failure.json")
        if training.state in (RUNNING, PENDING):
            # A failure of an earlier attempt is over once its training is open again.
            states.append(CellState(cell, training.state))
        elif training.state == FAILED:
            states.append(CellState(cell, FAILED, training.reason))
        elif failure is not None:
            states.append(CellState(cell, FAILED, str(failure.get("reason"))))
        else:
            states.append(CellState(cell, PENDING))
    return states


def count_states(states: Iterable[CellState]) -> dict[str, int]:
    """Returns how many cells are in each state."""
    counts = dict.fromkeys(STATES, 0)
    for state in states:
        counts[state.state] += 1
    return counts


def seconds_left(output: Path, states: Sequence[CellState], concurrency: int = 1) -> float | None:
    """Returns the seconds that the unfinished trainings will take, or None where none is finished.

    A training takes time in proportion to its sentences: the finished ones give the rate.

    Args:
        output: the sweep's folder.
        states: its cells.
        concurrency: trainings that run at once.
    """
    seconds, sentences, left = 0.0, 0, 0
    for key in dict.fromkeys(state.cell.training for state in states):
        folder = training_folder(output, key)
        training = read_training(folder)
        if training.state in (DONE, FAILED):
            seconds += float(training.record.get("seconds") or 0.0)
            sentences += int(training.record.get("num_sentences") or 0)
        else:
            task = _whole(folder / "task.json") or {}
            left += int(task.get("num_sentences") or 0)
    if not left:
        return 0.0
    if not sentences:
        return None
    return seconds / sentences * left / max(1, concurrency)


def rebuild_cells(database: Database, states: Sequence[CellState]) -> None:
    """Makes the ``cells`` table anew from the states that the files gave."""
    rows = [_row(state) for state in states]
    table = pa.Table.from_pylist(rows, schema=_COLUMNS)
    with database.transaction():
        database.execute(CELLS_SQL)
        database.execute("DELETE FROM cells")
        if rows:
            database.insert("cells", table)


def is_locked(path: Path) -> bool:
    """Returns whether a living process holds the lock file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _row(state: CellState) -> dict[str, Any]:
    result: Mapping[str, Any] = state.result or {}
    row: dict[str, Any] = {
        "cell": state.cell.key,
        "training": state.cell.training,
        "state": state.state,
        "reason": state.reason,
        "settings": json.dumps(dict(state.cell.settings), sort_keys=True, ensure_ascii=False),
        "training_sentences": result.get("training_sentences"),
        "seconds": result.get("seconds"),
    }
    for part in ("validation", "test"):
        scores = result.get(part) or {}
        for name in ("precision", "recall", "f1"):
            row[f"{part}_{name}"] = scores.get(name)
        baseline = (result.get("dictionary") or {}).get(part) or {}
        row[f"dictionary_{part}_f1"] = baseline.get("f1")
    return row


def _whole(path: Path) -> dict[str, Any] | None:
    """Returns a file's JSON object, or None where it is absent or damaged."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
        content = read_json(path)
        if isinstance(content, dict):
            return content
    return None
