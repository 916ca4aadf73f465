"""From grid.yaml to the report through the command line: real DuckDB, Ray, MLflow and training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.small_world import write_world

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def deidsearch(*arguments: object, cwd: Path, check: int | None = 0) -> subprocess.CompletedProcess:
    process = subprocess.run(
        [sys.executable, "-m", "deidsearch.cli", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=400, env=_environment(),
    )  # fmt: skip
    if check is not None:
        assert process.returncode == check, process.stderr[-3000:]
    return process


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """The folder of a world whose sweep has run to its end."""
    folder = tmp_path_factory.mktemp("swept")
    write_world(folder)
    deidsearch("run", "grid.yaml", cwd=folder)
    return folder


def mlflow_runs(folder: Path) -> list:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'runs/small/mlflow.db'}")
    experiments = [e.experiment_id for e in client.search_experiments()]
    return list(client.search_runs(experiments, max_results=1000))


def cell_runs(folder: Path) -> list:
    return [run for run in mlflow_runs(folder) if "deidsearch.cell" in run.data.tags]


def table(folder: Path) -> list[tuple]:
    """The final table of a sweep: what every cell is and what it came to."""
    rows = []
    for file in sorted((folder / "runs/small/trials").glob("*/result.json")):
        result = json.loads(file.read_text())
        rows.append((result["cell"], result["training"], result["validation"]["f1"],
                     result["test"]["f1"], result["training_sentences"]))  # fmt: skip
    return rows


def test_the_best_trial_beats_its_dictionary_on_what_no_dictionary_holds(swept):
    best = json.loads(deidsearch("best", "grid.yaml", "--json", cwd=swept).stdout)
    assert best["settings"]["annotation.ceiling"] in (1, 1000000)
    assert best["validation"]["f1"] > best["dictionary"]["validation"]["f1"]
    assert best["test"]["f1"] > best["dictionary"]["test"]["f1"]
    unlisted = best["test"]["groups"]["unlisted"]
    assert unlisted["dictionary"]["tp"] == 0
    assert unlisted["model"]["recall"] > 0.3
    low, high = best["test"]["interval"]["f1"]
    assert low <= best["test"]["f1"] <= high
    assert Path(best["model"]).name == "best"


def test_there_is_one_finished_run_per_cell_with_numbers_that_sort(swept):
    runs = cell_runs(swept)
    cells = [run.data.tags["deidsearch.cell"] for run in runs]
    assert len(cells) == len(set(cells)) == 5
    assert {run.info.status for run in mlflow_runs(swept)} == {"FINISHED"}
    labelled = [run for run in runs if "annotation.ceiling" in run.data.metrics]
    assert {run.data.metrics["annotation.ceiling"] for run in labelled} == {1, 1000000}
    assert {run.data.metrics["training.sentences"] for run in labelled} == {150, 300}
    assert all("test/f1" in run.data.metrics for run in runs)


def test_all_files_are_private_and_nothing_temporary_is_left(swept):
    output = swept / "runs/small"
    for path in [output, *output.rglob("*")]:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o077 == 0, path
    assert not any((output / "tmp").iterdir())


def test_no_note_text_reaches_mlflow_or_the_records(swept):
    words = ("quirin", "zelda", "lindevej", "algade")
    for run in mlflow_runs(swept):
        shown = json.dumps([run.data.params, run.data.tags]).lower()
        assert not any(word in shown for word in words)
    output = swept / "runs/small"
    files = [*output.glob("trials/*/*.json"), *output.glob("trainings/*/*.json"),
             *output.glob("report/*.html"), *output.glob("report/*.csv"),
             *(output / "mlflow-artifacts").rglob("*.html")]  # fmt: skip
    assert files
    for file in files:
        assert not any(word in file.read_text(encoding="utf-8").lower() for word in words), file


def test_reading_commands_answer_from_the_files(swept):
    status = json.loads(deidsearch("status", "grid.yaml", "--json", cwd=swept).stdout)
    assert status["cells"]["done"] == 5
    report = json.loads(deidsearch("report", "grid.yaml", "--json", cwd=swept).stdout)
    page = Path(report["report"]).read_text(encoding="utf-8")
    assert "<html" in page and "http://" not in page.replace("http://www.w3.org", "")
    checked = json.loads(deidsearch("check", "grid.yaml", "--json", cwd=swept).stdout)
    assert checked["plan"]["done"] == 5 and checked["plan"]["trainings_exact"]


def test_explain_says_why_a_word_is_tagged_at_one_ceiling_and_not_at_another(swept):
    found = json.loads(
        deidsearch("explain", "grid.yaml", "hans", "bent", "--json", cwd=swept).stdout
    )
    hans = found[0]
    assert hans["non_identifier_sources"] == ["words"]
    outcomes = [row["outcome"] for row in hans["sentences"][0]["tags"]]
    assert outcomes == ["non-identifier", "ambiguous"]
    assert hans["sentences"][0]["tags"][0]["reason"] == "ratio above the ceiling"
    assert found[1]["summary"].startswith("NAME, unambiguous")


@pytest.mark.parametrize("form", ["jsonl", "pure", "conll", "brat"])
def test_annotated_sentences_come_out_in_every_format(swept, form, tmp_path):
    out = tmp_path / "out"
    deidsearch("annotate", "grid.yaml", "--ceiling", "1", "--training", "--format", form,
               "--out", out, cwd=swept)  # fmt: skip
    content = "".join(f.read_text() for f in (out.glob("*") if out.is_dir() else [out]))
    assert "NAME" in content and "STREET" in content


def test_running_again_does_nothing_twice(swept):
    before = {file: file.stat().st_mtime_ns for file in (swept / "runs/small").rglob("result.json")}
    deidsearch("run", "grid.yaml", cwd=swept)
    after = {file: file.stat().st_mtime_ns for file in (swept / "runs/small").rglob("result.json")}
    assert before == after
    assert len(cell_runs(swept)) == 5


def test_a_killed_driver_goes_on_to_the_table_of_an_unbroken_run(swept, tmp_path):
    write_world(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "deidsearch.cli", "run", "grid.yaml"],
        cwd=tmp_path, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    trainings = tmp_path / "runs/small/trainings"
    deadline = time.monotonic() + 200
    while len(list(trainings.glob("*/training.json"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, "the sweep ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first = {f: f.stat().st_mtime_ns for f in trainings.glob("*/training.json")}
    deidsearch("run", "grid.yaml", cwd=tmp_path)
    assert {f: f.stat().st_mtime_ns for f in first} == first
    assert table(tmp_path) == table(swept)
    cells = [run.data.tags["deidsearch.cell"] for run in cell_runs(tmp_path)]
    assert len(cells) == len(set(cells)) == 5
    assert {run.info.status for run in mlflow_runs(tmp_path)} == {"FINISHED"}
