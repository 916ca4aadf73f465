"""One contract for all trackers, and what MLflow alone must hold to."""

from __future__ import annotations

import logging
import math
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deidsearch.errors import InputError
from deidsearch.files import write_atomic
from deidsearch.track.mlflow_tracker import MlflowTracker, check_store, resolve_uri
from deidsearch.track.names import (
    epoch_metrics,
    public_settings,
    result_metrics,
    run_name,
    setting_metrics,
)
from deidsearch.track.tracker import NoopTracker, Tracker

SETTINGS = {
    "annotation.ceiling": 512.0,
    "training.sentences": 8000,
    "training.seed": 1,
    "corpus.path": "/patients/notes.csv",
    "dictionaries.NAME": [{"path": "/patients/names.csv"}],
}
SCORES = {"precision": 0.9, "recall": 0.8, "f1": 0.85, "per_type": {"NAME": {"f1": 0.7}}}
RESULT = {
    "training": "abc",
    "validation": SCORES,
    "test": {**SCORES, "precision": None},
    "tests": {"test": SCORES, "other": {"f1": 0.5}},
    "dictionary": {"test": {"f1": 0.4}},
    "training_sentences": 1234,
}
EPOCHS = [{"epoch": n, "loss": 1 / n, "f1": n / 10, "seconds": 2.0} for n in (1, 2, 3)]

Open = Callable[[], Tracker]


@pytest.fixture(scope="module")
def new_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store: making its tables takes seconds, so they are made once."""
    folder = tmp_path_factory.mktemp("store")
    MlflowTracker(folder)
    return folder / "mlflow.db"


@pytest.fixture
def output(new_store: Path, tmp_path: Path) -> Path:
    """A sweep's folder with a store in it."""
    shutil.copy(new_store, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture(params=["noop", "mlflow"])
def open_tracker(request: pytest.FixtureRequest, output: Path) -> Open:
    """Opens the same store again and again, as resumed drivers do."""
    if request.param == "noop":
        return NoopTracker
    return lambda: MlflowTracker(output)


def track_cell(tracker: Tracker, cell: str, result: dict[str, Any] = RESULT) -> None:
    tracker.start_cell(cell, SETTINGS)
    for record in EPOCHS:
        tracker.epochs(cell, [record])
    tracker.finish_cell(cell, result)


def test_a_whole_sweep_can_be_tracked(open_tracker: Open, tmp_path: Path) -> None:
    tracker = open_tracker()
    tracker.start_sweep("sweep", SETTINGS, {"version": "1"})
    track_cell(tracker, "one")
    tracker.start_cell("two", SETTINGS)
    tracker.fail_cell("two", "did not learn")
    assert "one" not in tracker.unfinished(["one", "two"])
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "cells.csv").write_text("cell\n")
    tracker.artifacts(tmp_path / "report")
    tracker.finish_sweep("FINISHED")


def test_words_on_unknown_cells_are_harmless(open_tracker: Open) -> None:
    tracker = open_tracker()
    tracker.start_sweep("sweep", {}, {})
    tracker.epochs("never started", EPOCHS)
    tracker.finish_cell("never started", RESULT)
    tracker.fail_cell("never started", "?")
    tracker.finish_sweep("KILLED")


def test_a_sweep_can_be_opened_again_and_again(open_tracker: Open) -> None:
    for _ in range(2):
        tracker = open_tracker()
        tracker.start_sweep("sweep", SETTINGS, {})
        track_cell(tracker, "one")
        tracker.finish_sweep("FINISHED")
    assert open_tracker().unfinished([]) == []


# -- MLflow ----------------------------------------------------------------------------------


def client_of(output: Path) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{output}/mlflow.db")


def runs_by_cell(output: Path) -> dict[str | None, Any]:
    client = client_of(output)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    found = {run.data.tags.get("deidsearch.cell"): run for run in runs}
    assert len(found) == len(runs), "a cell has two runs"
    return found


@pytest.fixture
def tracker(output: Path) -> MlflowTracker:
    tracker = MlflowTracker(output)
    tracker.start_sweep("sweep", SETTINGS, {})
    return tracker


def test_a_cell_is_a_child_run_with_settings_scores_and_epochs(
    tracker: MlflowTracker, tmp_path: Path
) -> None:
    track_cell(tracker, "one")
    tracker.finish_sweep("FINISHED")
    runs = runs_by_cell(tmp_path)
    run, parent = runs["one"], runs[None]
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert run.data.params["annotation.ceiling"] == "512.0"
    # Parameters sort as text, so what users sort by is a metric too.
    assert run.data.metrics["annotation.ceiling"] == 512
    assert run.data.metrics["training.sentences"] == 8000
    assert run.data.metrics["test/f1"] == 0.85
    assert run.data.metrics["tests/other/f1"] == 0.5
    assert run.data.metrics["dictionary/test/f1"] == 0.4
    assert run.data.metrics["validation/f1"] == 0.85  # the best checkpoint's, not the last epoch's
    losses = client_of(tmp_path).get_metric_history(run.info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in losses] == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert (run.info.status, parent.info.status) == ("FINISHED", "FINISHED")
    assert run.info.run_name == "ceiling=512 sentences=8000 seed=1"


def test_no_path_of_data_is_logged(tracker: MlflowTracker, tmp_path: Path) -> None:
    track_cell(tracker, "one")
    for run in runs_by_cell(tmp_path).values():
        assert "patients" not in str(run.to_dictionary())


def test_a_killed_drivers_runs_are_closed_and_gone_on_with(
    tracker: MlflowTracker, tmp_path: Path
) -> None:
    tracker.start_cell("one", SETTINGS)
    tracker.epochs("one", EPOCHS[:2])
    # The driver is killed here; the next one resumes from the checkpoint.
    again = MlflowTracker(tmp_path)
    again.start_sweep("sweep", SETTINGS, {})
    assert runs_by_cell(tmp_path)["one"].info.status == "KILLED"
    again.start_cell("one", {**SETTINGS, "training.seed": 2})  # a changed parameter is no error
    again.epochs("one", EPOCHS)
    again.finish_cell("one", RESULT)
    again.finish_sweep("FINISHED")

    run = runs_by_cell(tmp_path)["one"]
    assert run.info.status == "FINISHED"
    assert run.data.params["training.seed"] == "1"
    assert run.data.tags["deidsearch.attempts"] == "2"
    losses = client_of(tmp_path).get_metric_history(run.info.run_id, "train/loss")
    assert [metric.step for metric in losses] == [1, 2, 3]


def test_undefined_metrics_are_left_out_and_named_in_a_tag(
    tracker: MlflowTracker, tmp_path: Path
) -> None:
    track_cell(tracker, "one", {"validation": {"f1": math.nan, "precision": None, "recall": 0.0}})
    run = runs_by_cell(tmp_path)["one"]
    assert run.data.metrics["validation/recall"] == 0
    assert "validation/precision" not in run.data.metrics
    assert run.data.tags["deidsearch.undefined"] == "validation/precision, validation/f1"


def test_an_over_long_setting_goes_to_an_artifact(tracker: MlflowTracker, tmp_path: Path) -> None:
    long = {"annotation.multiword_ambiguous": {f"TYPE{n}": True for n in range(500)}}
    tracker.start_cell("one", {**SETTINGS, **long})
    tracker.finish_cell("one", RESULT)
    run = runs_by_cell(tmp_path)["one"]
    assert "annotation.multiword_ambiguous" not in run.data.params
    assert run.data.metrics["test/f1"] == 0.85
    files = client_of(tmp_path).list_artifacts(run.info.run_id)
    assert [file.path for file in files] == ["long_settings.json"]


def test_the_default_store_is_private_and_nothing_strays(
    tracker: MlflowTracker, new_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    write_atomic(tmp_path / "report" / "cells.csv", "cell\n")
    tracker.artifacts(tmp_path / "report")
    long = {"annotation.multiword_ambiguous": {f"TYPE{n}": True for n in range(500)}}
    tracker.start_cell("one", {**SETTINGS, **long})
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(new_store.stat().st_mode) == 0o600
    artifacts = tmp_path / "mlflow-artifacts"
    for path in (artifacts, *artifacts.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    parent = runs_by_cell(tmp_path)[None].info.run_id
    files = client_of(tmp_path).list_artifacts(parent, "report")
    assert [file.path for file in files] == ["report/cells.csv"]


def test_artifacts_beside_a_database_elsewhere_stay_in_the_output_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    uri = resolve_uri("sqlite:///runs.db", tmp_path)
    tracker = MlflowTracker(tmp_path / "output", uri=uri)
    tracker.start_sweep("small", {}, {})
    write_atomic(tmp_path / "report" / "cells.csv", "cell\n")
    tracker.artifacts(tmp_path / "report")
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "runs.db").exists()
    assert list((tmp_path / "output/mlflow-artifacts").rglob("cells.csv"))


def test_two_sweeps_of_one_experiment_leave_each_other_alone(output: Path) -> None:
    tmp_path, uri = output, f"sqlite:///{output}/mlflow.db"
    first = MlflowTracker(tmp_path / "first", uri=uri, experiment="shared")
    first.start_sweep("sweep", {}, {})
    first.start_cell("one", SETTINGS)
    second = MlflowTracker(tmp_path / "second", uri=uri, experiment="shared")
    second.start_sweep("sweep", {}, {})
    track_cell(second, "one")
    second.finish_sweep("FINISHED")
    assert first.unfinished(["one"]) == ["one"]
    first.finish_cell("one", RESULT)
    assert first.unfinished(["one"]) == []


def test_a_store_that_fails_later_stops_nothing_and_is_caught_up_with(
    tracker: MlflowTracker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracker.start_cell("one", SETTINGS)
    database = tmp_path / "mlflow.db"
    whole = database.read_bytes()
    database.write_bytes(b"no database " * 1000)  # every query fails from here on
    with caplog.at_level(logging.WARNING):
        tracker.epochs("one", EPOCHS)
        tracker.finish_cell("one", RESULT)
        tracker.finish_sweep("FINISHED")
    assert "results are kept in files and sent again later" in caplog.text
    database.write_bytes(whole)

    again = MlflowTracker(tmp_path)
    again.start_sweep("sweep", SETTINGS, {})
    assert again.unfinished(["one"]) == ["one"]
    again.start_cell("one", SETTINGS)
    again.epochs("one", EPOCHS)
    again.finish_cell("one", RESULT)
    assert again.unfinished(["one"]) == []
    assert runs_by_cell(tmp_path)["one"].info.status == "FINISHED"


def test_a_store_that_cannot_be_opened_is_the_users_fault_and_its_password_stays_secret(
    tmp_path: Path,
) -> None:
    for uri in ("http://user:secret@127.0.0.1:9/", "sqlite:////proc/none/mlflow.db"):
        with pytest.raises(InputError) as error:
            check_store(tmp_path, uri)
        assert str(error.value).startswith("tracking.uri: the tracking store cannot be opened (")
        assert "secret" not in str(error.value)


def test_a_deleted_experiment_is_taken_up_again(tracker: MlflowTracker, tmp_path: Path) -> None:
    client = client_of(tmp_path)
    client.delete_experiment(client.get_experiment_by_name("sweep").experiment_id)
    again = MlflowTracker(tmp_path)
    again.start_sweep("sweep", {}, {})
    track_cell(again, "one")
    assert client.get_experiment_by_name("sweep").lifecycle_stage == "active"


def test_names_with_odd_letters_are_taken(tracker: MlflowTracker, tmp_path: Path) -> None:
    result = {"test": {"f1": 0.5, "per_type": {"NAVN/Å(1)": {"f1": 0.25}, "..": {"f1": 0.125}}}}
    track_cell(tracker, "one", result)
    metrics = runs_by_cell(tmp_path)["one"].data.metrics
    assert metrics["test/NAVN/Å_1_/f1"] == 0.25


# -- names and numbers -----------------------------------------------------------------------


def test_settings_by_type_are_metrics_of_their_own() -> None:
    assert setting_metrics({"annotation.ceiling": {"NAME": 512, "STREET": 64}}) == {
        "annotation.ceiling/NAME": 512.0,
        "annotation.ceiling/STREET": 64.0,
    }
    assert setting_metrics({"annotation.ceiling": None, "training.sentences": None}) == {}


def test_data_paths_are_shown_only_where_text_may_be_logged() -> None:
    assert set(public_settings(SETTINGS)) == {
        "annotation.ceiling",
        "training.sentences",
        "training.seed",
    }
    assert set(public_settings(SETTINGS, log_text=True)) == set(SETTINGS)


def test_epoch_records_become_metrics_and_undefined_ones_are_left_out() -> None:
    record = {"epoch": 3, "loss": 0.5, "f1": math.nan, "best_epoch": 2, "seconds": 1}
    assert epoch_metrics(record) == {"train/loss": 0.5, "train/seconds": 1.0}


def test_the_first_test_set_is_test_and_named_ones_have_their_own_names() -> None:
    metrics, undefined = result_metrics(RESULT)
    assert metrics["test/NAME/f1"] == 0.7
    assert undefined == ["test/precision"]
    assert "tests/test/f1" in metrics and "tests/other/f1" in metrics


def test_run_names_place_a_cell() -> None:
    assert run_name("9f3a", {"annotation.ceiling": 262144.0}) == "ceiling=262144"
    assert run_name("9f3a", {"training.source": "gold", "training.seed": 2}) == "gold seed=2"
    assert run_name("9f3a", {}) == "9f3a"
