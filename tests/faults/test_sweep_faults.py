"""Sweeps that are killed, interrupted or run into a fault, with real Ray and real MLflow."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(DRIVER.with_name("audit"))]),
        "OMP_NUM_THREADS": "1",
        "AUDIT_FILE": str(output / "connections"),
    }
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
    output, errors = driver.communicate(timeout=300)
    assert output == ""
    return driver.returncode, errors


def wait_for_epoch(driver: subprocess.Popen, output: Path, training: str, epoch: int) -> None:
    """Waits until a training has come to an epoch; it is held there."""
    end = time.monotonic() + 300
    while len(epochs_run(output, training)) < epoch:
        if driver.poll() is not None or time.monotonic() > end:
            driver.kill()
            pytest.fail(f"the driver never came there: {finish(driver)}")
        time.sleep(0.02)


def epochs_run(output: Path, training: str) -> list[str]:
    """Returns every epoch that was ever run, in order."""
    file = output / "trainings" / training / "epochs_run"
    return file.read_text().split() if file.exists() else []


def test_a_killed_driver_goes_on_where_it_stopped_without_duplicates(tmp_path: Path) -> None:
    cells = prepare(tmp_path, ["", "", "hold", ""], epochs=8, mlflow=True, max_concurrent=1)
    (tmp_path / "hold").touch()
    driver = start(tmp_path)
    wait_for_epoch(driver, tmp_path, "training2", 3)
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


@dataclass(frozen=True)
class Ended:
    """A sweep's folder, plan, exit code and stderr after a driver has ended."""

    output: Path
    cells: list[PlannedCell]
    code: int
    errors: str

    def states(self) -> dict[str, tuple[str, str | None]]:
        """Returns state and reason of each cell."""
        return {s.cell.key: (s.state, s.reason) for s in scan(self.output, self.cells)}


BEHAVIOURS = ["", "fail", "die", "always die", "raise", "disk", "hold"]


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A sweep with trainings that go wrong in each way, the last but one for want of space."""
    output = tmp_path_factory.mktemp("paused")
    cells = prepare(output, BEHAVIOURS, epochs=5, max_concurrent=1)
    (output / "full").touch()
    return Ended(output, cells, *finish(start(output)))


@pytest.fixture(scope="module")
def interrupted(paused: Ended, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The same sweep run again with all causes mended, until a Ctrl-C in the last training."""
    output = tmp_path_factory.mktemp("interrupted") / "output"
    shutil.copytree(paused.output, output)
    (output / "full").unlink()
    (output / "hold").touch()
    for task in output.glob("trainings/*/task.json"):
        task.write_text(re.sub("always die|fail|raise", "", task.read_text()))
    plan = output / "plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "mlflow": True}))
    driver = start(output)
    wait_for_epoch(driver, output, "training6", 3)
    os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to the whole group
    return Ended(output, paused.cells, *finish(driver))


def test_faults_stay_with_their_training_and_quote_no_text(paused: Ended) -> None:
    states = paused.states()
    assert states["cell4"][1].startswith("ValueError at faults/dummy_training.py:")
    del states["cell4"]
    assert states == {
        "cell0": ("done", None),
        "cell1": ("failed", "no luck"),
        "cell2": ("done", None),  # its worker died once and was tried again
        "cell3": ("failed", DIED),
        "cell5": ("pending", None),
        "cell6": ("pending", None),
        "shared": ("done", None),
    }
    assert "Hansen" not in paused.errors


def test_no_process_speaks_to_another_machine(paused: Ended) -> None:
    lines = (paused.output / "connections").read_text().splitlines()
    spoken_to = {line for line in lines if line.startswith("connect ")}
    asked_for = {line for line in lines if line.startswith("lookup ")}
    assert lines, "Ray's own processes look each other up: the watch must have seen them"
    names = {"localhost", socket.gethostname(), socket.getfqdn(), "None", ""}
    own = {f"lookup {name}" for name in names}
    for line in (spoken_to | asked_for) - own:
        address = ipaddress.ip_address(line.split()[1])
        assert address.is_loopback or is_own(str(address)), line


def is_own(address: str) -> bool:
    """Returns whether this machine has the address: only then can a socket be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def test_a_full_disk_pauses_the_sweep_and_is_no_failure_of_a_cell(paused: Ended) -> None:
    assert paused.code == 1
    assert paused.errors.splitlines()[-1] == (
        f"{paused.output}: the disk is full, the sweep has paused. "
        "Make space. Run the same command: it goes on where it stopped."
    )


def test_the_next_run_tries_failed_and_pending_trainings_and_only_those(
    interrupted: Ended,
) -> None:
    done = {key for key, (state, _) in interrupted.states().items() if state == "done"}
    assert done == {"cell0", "cell1", "cell2", "cell3", "cell4", "cell5", "shared"}
    for number in range(6):
        assert epochs_run(interrupted.output, f"training{number}") == list("12345")
    assert not list(interrupted.output.glob("trials/*/failure.json"))


def test_ctrl_c_stops_cleanly_says_how_to_go_on_and_is_no_failure(interrupted: Ended) -> None:
    assert interrupted.code == 130
    assert interrupted.errors == (
        "stopped with 1 trainings unfinished. Run the same command: it goes on where it stopped.\n"
    )
    assert interrupted.states()["cell6"] == ("pending", None)


def test_no_run_of_mlflow_is_left_running_after_ctrl_c(interrupted: Ended) -> None:
    from mlflow import MlflowClient

    runs = MlflowClient(f"sqlite:///{interrupted.output}/mlflow.db").search_runs(["1"])
    status = {run.data.tags.get("deidsearch.cell"): run.info.status for run in runs}
    # cell0, cell2 and shared were done before MLflow was there; an interrupted run sends them next.
    assert status == {
        None: "KILLED",
        "cell1": "FINISHED",
        "cell3": "FINISHED",
        "cell4": "FINISHED",
        "cell5": "FINISHED",
        "cell6": "KILLED",
    }
