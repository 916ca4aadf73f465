"""The ledger: states come from whole files alone, and the table is a copy of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deidsearch.files import lock, write_json
from deidsearch.store.database import Database
from deidsearch.store.ledger import (
    PlannedCell,
    count_states,
    is_locked,
    read_training,
    rebuild_cells,
    scan,
    seconds_left,
    training_folder,
    trial_folder,
    write_failure,
    write_result,
    write_training,
)

CELLS = [PlannedCell(f"cell{n}", f"training{n // 2}", {"training.seed": n}) for n in range(6)]
RESULT = {
    "validation": {"precision": None, "recall": 0.5, "f1": 0.25},
    "test": {"precision": 0.5, "recall": 0.5, "f1": 0.5},
    "dictionary": {"test": {"f1": 0.125}},
    "training_sentences": 10,
    "seconds": 1.5,
}


def finish(output: Path, key: str, **record: object) -> None:
    write_training(training_folder(output, key), {"key": key, "state": "done", **record})


def test_states_follow_from_files(tmp_path: Path) -> None:
    finish(tmp_path, "training0")
    write_result(tmp_path, CELLS[0], RESULT)
    write_failure(tmp_path, CELLS[1], "scoring failed")
    folder = training_folder(tmp_path, "training1")
    write_training(folder, {"key": "training1", "state": "failed", "reason": "did not learn"})
    running = training_folder(tmp_path, "training2") / "lock"
    with lock(running):
        states = scan(tmp_path, CELLS)
        assert [(state.state, state.reason) for state in states] == [
            ("done", None),
            ("failed", "scoring failed"),
            ("failed", "did not learn"),
            ("failed", "did not learn"),
            ("running", None),
            ("running", None),
        ]
    assert count_states(scan(tmp_path, CELLS)) == {
        "pending": 2, "running": 0, "done": 1, "failed": 3,
    }  # fmt: skip


def test_a_result_carries_its_cell_and_removes_an_earlier_failure(tmp_path: Path) -> None:
    write_failure(tmp_path, CELLS[0], "no space")
    result = write_result(tmp_path, CELLS[0], RESULT)
    folder = trial_folder(tmp_path, "cell0")
    assert [file.name for file in folder.iterdir()] == ["result.json"]
    assert json.loads((folder / "result.json").read_text()) == result
    assert (result["cell"], result["training"]) == ("cell0", "training0")
    assert result["settings"] == {"training.seed": 0}


@pytest.mark.parametrize("content", ["", '{"state": "do', "[]", "null", "\x00\x00"])
def test_damaged_files_count_as_absent(tmp_path: Path, content: str) -> None:
    for file in (
        trial_folder(tmp_path, "cell0") / "result.json",
        training_folder(tmp_path, "training0") / "training.json",
    ):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    assert scan(tmp_path, CELLS[:1])[0].state == "pending"


def test_a_training_whose_files_have_gone_is_pending(tmp_path: Path) -> None:
    finish(tmp_path, "training0", digests={"predictions/test/label.npy": "0" * 32})
    assert read_training(training_folder(tmp_path, "training0")).state == "pending"


def test_the_table_is_made_anew_from_the_files(tmp_path: Path) -> None:
    write_result(tmp_path, CELLS[0], RESULT)
    with Database(tmp_path / "store.duckdb", tmp_path / "tmp") as database:
        for _ in range(2):
            rebuild_cells(database, scan(tmp_path, CELLS))
        rows = database.query("SELECT * FROM cells ORDER BY cell").to_pylist()
        assert len(rows) == len(CELLS)
        assert rows[0]["state"] == "done"
        assert rows[0]["validation_precision"] is None
        assert (rows[0]["test_f1"], rows[0]["dictionary_test_f1"]) == (0.5, 0.125)
        assert json.loads(rows[0]["settings"]) == {"training.seed": 0}
        rebuild_cells(database, [])
        assert database.query("SELECT count(*) AS n FROM cells").to_pylist() == [{"n": 0}]


def test_time_left_is_in_proportion_to_sentences(tmp_path: Path) -> None:
    assert seconds_left(tmp_path, scan(tmp_path, [])) == 0.0
    for number, sentences in enumerate((100, 300, 500)):
        folder = training_folder(tmp_path, f"training{number}")
        write_json(folder / "task.json", {"num_sentences": sentences})
    assert seconds_left(tmp_path, scan(tmp_path, CELLS)) is None
    finish(tmp_path, "training0", seconds=20.0, num_sentences=100)
    assert seconds_left(tmp_path, scan(tmp_path, CELLS)) == pytest.approx(160.0)
    assert seconds_left(tmp_path, scan(tmp_path, CELLS), concurrency=2) == pytest.approx(80.0)


def test_a_lock_is_seen_only_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_locked(file)
    with lock(file):
        assert is_locked(file)
    assert not is_locked(file)
