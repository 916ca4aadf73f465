"""Sweeps that are killed, interrupted or run into a fault, with real Ray and real MLflow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from deidsearch.search.task import TrainingTask
from deidsearch.search.tune import DIED
from deidsearch.store.ledger import PlannedCell, count_states, scan

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("driver.py")


def prepare(output: Path, behaviours: list[str], *, epochs=3, **plan) -> list:
    """Returns the planned cells: one a training, and a second one that shares the first's."""
    cells = []
    for number, behaviour in enumerate(behaviours):
        training = f"training{number}"
        folder = output / "trainings" / training
        task = TrainingTask(
            key=training,
            version="1",
            types=("NAME",),
            encoder={},
            model={},
            training={"epochs": epochs, "behaviour": behaviour},
            train_pieces="",
            validation_pieces="",
            validation_support=1,
            num_sentences=10,
        )
        folder.mkdir(parents=True)
        (folder / "task.json").write_text(json.dumps(task.__dict__))
        settings = {"annotation.ceiling": 2.0**number, "training.seed": 1}
        cells.append({"key": f"cell{number}", "training": training, "settings": settings})
    cells.append({"key": "shared", "training": "training0", "settings": {"training.seed": 1}})
    (output / "plan.json").write_text(json.dumps({"cells": cells, **plan}))
    return [PlannedCell(**cell) for cell in cells]


def start(output: Path) -> subprocess.Popen:
    """Returns the running driver, leader of a process group of its own as in a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(output)],
        env=environment,
        cwd=output,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(driver: subprocess.Popen) -> tuple[int, str]:
    """Returns the driver's exit code and what it wrote to stderr; stdout must be left alone."""
    output, errors = driver.communicate(timeout=120)
    assert output == ""
    return driver.returncode, errors


def wait_for(condition, timeout_s: float = 60.0) -> None:
    """Waits until the condition holds."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def epochs_run(output: Path, training: str) -> list[str]:
    """Returns every epoch that was ever run, in order."""
    file = output / "trainings" / training / "epochs_run"
    return file.read_text().split() if file.exists() else []


def test_a_killed_driver_goes_on_where_it_stopped_without_duplicates(tmp_path: Path) -> None:
    cells = prepare(tmp_path, ["", "", "hold", ""], epochs=8, mlflow=True, max_concurrent=1)
    (tmp_path / "hold").touch()
    driver = start(tmp_path)
    wait_for(lambda: len(epochs_run(tmp_path, "training2")) == 3)
    code, errors = finish(start(tmp_path))
    assert code == 1
    owner = f"process {driver.pid} on host {os.uname().nodename}"
    assert errors == (
        f"{tmp_path}: {owner} is running this sweep. "
        "Wait for it or stop it; `deidsearch status` shows how far it is.\n"
    )
    driver.kill()  # SIGKILL, in the middle of the third training
    finish(driver)
    (tmp_path / "hold").unlink()
    before = count_states(scan(tmp_path, cells))
    assert before["done"] == 3  # two trainings, one of them with two cells
    results = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trials/*/result.json")}

    code, errors = finish(start(tmp_path))

    assert (code, errors) == (0, "")
    assert count_states(scan(tmp_path, cells))["done"] == 5
    for path, changed in results.items():
        assert path.stat().st_mtime_ns == changed, "a finished cell was touched again"
    for number in range(4):
        # Each epoch once: nothing was trained again, and the third went on from its checkpoint.
        assert epochs_run(tmp_path, f"training{number}") == [str(n) for n in range(1, 9)]
    check_runs(tmp_path, {cell.key for cell in cells})
    assert list(tmp_path.glob("mlruns")) == []  # nothing strays into the working folder
    assert list(tmp_path.glob("tmp/*")) == []


def check_runs(output: Path, cells: set[str]) -> None:
    """One finished run a cell and one of the sweep, each epoch logged once."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{output}/mlflow.db")
    experiment = client.get_experiment_by_name("faults")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    by_cell = Counter(run.data.tags.get("deidsearch.cell") for run in runs)
    assert by_cell == Counter([None, *cells])
    for run in runs:
        if "deidsearch.cell" in run.data.tags:
            steps = [m.step for m in client.get_metric_history(run.info.run_id, "train/loss")]
            assert sorted(steps) == list(range(1, 9))


def test_ctrl_c_stops_cleanly_says_how_to_go_on_and_is_not_a_failure(tmp_path: Path) -> None:
    cells = prepare(tmp_path, ["hold", ""], epochs=8, mlflow=True, max_concurrent=1)
    (tmp_path / "hold").touch()
    driver = start(tmp_path)
    wait_for(lambda: len(epochs_run(tmp_path, "training0")) == 3)
    os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to the whole group
    code, errors = finish(driver)

    assert code == 130
    assert errors == (
        "stopped with 2 trainings unfinished. "
        "Run the same command: it goes on where it stopped.\n"
    )
    assert count_states(scan(tmp_path, cells)) == {
        "pending": 3, "running": 0, "done": 0, "failed": 0,
    }
    from mlflow import MlflowClient

    runs = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db").search_runs(["1"])
    assert {run.info.status for run in runs} == {"KILLED"}


def test_faults_stay_apart_a_full_disk_pauses_and_the_next_run_mends_all(tmp_path: Path) -> None:
    behaviours = ["", "fail", "die", "always die", "raise", "disk", ""]
    cells = prepare(tmp_path, behaviours, epochs=2, max_concurrent=1)
    (tmp_path / "full").touch()

    code, errors = finish(start(tmp_path))

    assert code == 1
    assert errors.splitlines()[-1] == (
        f"{tmp_path}: the disk is full, the sweep has paused. "
        "Make space. Run the same command: it goes on where it stopped."
    )
    assert "Hansen" not in errors
    states = {state.cell.key: (state.state, state.reason) for state in scan(tmp_path, cells)}
    assert states.pop("cell4")[1].startswith("ValueError at faults/dummy_training.py:")
    assert states == {
        "cell0": ("done", None),
        "cell1": ("failed", "no luck"),
        "cell2": ("done", None),  # its worker died once and was tried again
        "cell3": ("failed", DIED),
        "cell5": ("pending", None),
        "cell6": ("pending", None),
        "shared": ("done", None),
    }

    # The causes are mended: the next run tries the failed and the pending ones, and only those.
    (tmp_path / "full").unlink()
    for task in tmp_path.glob("trainings/*/task.json"):
        task.write_text(re.sub("always die|fail|raise", "", task.read_text()))
    assert finish(start(tmp_path)) == (0, "")
    assert count_states(scan(tmp_path, cells))["done"] == len(cells)
    assert all(epochs_run(tmp_path, f"training{n}") == ["1", "2"] for n in range(len(behaviours)))
    assert not list(tmp_path.glob("trials/*/failure.json"))
