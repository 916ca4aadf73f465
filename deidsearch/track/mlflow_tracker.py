"""The sweep in MLflow: one experiment, a parent run, one child run per cell found by its tag.

Only the driver logs, into the store it opened itself, so that workers neither migrate a database at
the same time nor write into a stray one. What could not be logged is sent again at the next start,
from the files of the sweep.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deidsearch.errors import InputError, MissingExtraError
from deidsearch.files import private_dir, private_umask, write_atomic
from deidsearch.quiet import silence
from deidsearch.track.names import (
    MAX_PARAM,
    epoch_metrics,
    metric_name,
    public_settings,
    result_metrics,
    run_name,
    setting_metrics,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

CELL_TAG = "deidsearch.cell"
SWEEP_TAG = "deidsearch.sweep"
_SQLITE = "sqlite:///"
_KIND_TAG = "mlflow.experimentKind"
_PAUSE_S = 60.0  # without tries after a failure: a server that is down must not slow the sweep
_METRICS_A_BATCH = 1000
_PARAMS_A_BATCH = 100

log = logging.getLogger(__name__)


class MlflowTracker:
    """Logs to an MLflow store.

    Args:
        output: the sweep's folder, which holds the default store.
        uri: tracking store; None is SQLite in ``output``.
        experiment: its name; None is the sweep's.
        log_text: whether data paths may be parameters.

    Raises:
        InputError: the store cannot be opened.
    """

    def __init__(
        self,
        output: Path,
        *,
        uri: str | None = None,
        experiment: str | None = None,
        log_text: bool = False,
    ) -> None:
        self._output = Path(output).absolute()
        self._is_default = uri is None
        self._uri = store_uri(self._output) if uri is None else uri
        self._experiment_name = experiment
        self._log_text = log_text
        self._runs: dict[str, str] = {}  # cell -> run id
        self._steps: dict[str, set[int]] = {}  # cell -> epochs logged
        self._paused_until = 0.0
        self._client = _open_store(self._output, self._uri, self._is_default)
        self._experiment = ""
        self._parent = ""
        self._sweep = ""

    def start_sweep(self, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Opens the sweep's run, and closes as killed what a killed driver left running.

        Raises:
            InputError: the store does not take the sweep.
        """
        from mlflow.exceptions import MlflowException

        try:
            with private_umask():
                self._open_sweep(name, params, tags)
        except (MlflowException, OSError) as error:
            raise InputError(
                f"the tracking store does not answer ({type(error).__name__})",
                where="tracking.uri",
                mend="Start the server, or leave tracking.uri out to track in the output folder.",
            ) from error

    def _open_sweep(self, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self._sweep = self._sweep_id()
        self._experiment = self._find_experiment(self._experiment_name or name)
        self._close_running("KILLED")
        found = self._search(f"tags.`{SWEEP_TAG}` = '{self._sweep}' and tags.kind = 'sweep'")
        parent = next(found, None)
        if parent is None:
            parent = self._client.create_run(
                self._experiment,
                run_name=name,
                tags={SWEEP_TAG: self._sweep, "kind": "sweep", **tags},
            )
        else:
            self._client.update_run(parent.info.run_id, status="RUNNING")
        self._parent = parent.info.run_id
        self._log_params(parent, params)

    def unfinished(self, cells: Sequence[str]) -> list[str]:
        """Returns those of the cells without a finished run; none where the store is silent."""
        found: list[str] = []

        def search() -> None:
            runs = self._search(
                f"tags.`{SWEEP_TAG}` = '{self._sweep}' and attributes.status = 'FINISHED'"
            )
            finished = {run.data.tags.get(CELL_TAG) for run in runs}
            found.extend(cell for cell in cells if cell not in finished)

        self._try("look up finished runs", search)
        return found

    def start_cell(self, cell: str, params: Mapping[str, Any]) -> None:
        """Opens the cell's run, or opens it again and counts the attempt."""

        def start() -> None:
            run = self._run_of(cell)
            if run is None:
                # The tags go in with the creation: a kill in between leaves no unknown run.
                run = self._client.create_run(
                    self._experiment,
                    run_name=run_name(cell, params),
                    tags={
                        CELL_TAG: cell,
                        SWEEP_TAG: self._sweep,
                        "kind": "cell",
                        "deidsearch.attempts": "1",
                        "mlflow.parentRunId": self._parent,
                    },
                )
            else:
                run_id = run.info.run_id
                attempts = int(run.data.tags.get("deidsearch.attempts", "1")) + 1
                self._client.update_run(run_id, status="RUNNING")
                self._client.set_tag(run_id, "deidsearch.attempts", str(attempts))
            run_id = run.info.run_id
            self._log_params(run, params)
            self._log_metrics(run_id, setting_metrics(params), step=0)
            self._steps[cell] = {
                metric.step
                for name in ("train/loss", "validation/f1")
                if name in run.data.metrics
                for metric in self._client.get_metric_history(run_id, name)
            }
            self._runs[cell] = run_id

        self._try("open a run", start)

    def epochs(self, cell: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Logs the epochs that the cell's run lacks, in one batch."""
        from mlflow.entities import Metric

        if cell not in self._runs:
            return
        now = int(time.time() * 1000)
        steps = self._steps[cell]
        new = [record for record in records if int(record["epoch"]) not in steps]
        metrics = [
            Metric(metric_name(name), value, now, int(record["epoch"]))
            for record in new
            for name, value in epoch_metrics(record).items()
        ]
        if metrics and self._try("log epochs", lambda: self._batch(self._runs[cell], metrics)):
            steps.update(int(record["epoch"]) for record in new)

    def finish_cell(self, cell: str, result: Mapping[str, Any]) -> None:
        """Logs the final scores one step after the last epoch and closes the run."""

        def finish() -> None:
            run_id = self._runs[cell]
            metrics, undefined = result_metrics(result)
            # One step on: the run's table shows the last step, which is then the best checkpoint.
            self._log_metrics(run_id, metrics, step=max(self._steps[cell], default=0) + 1)
            tags = {"deidsearch.training": str(result.get("training", ""))}
            if undefined:
                tags["deidsearch.undefined"] = ", ".join(undefined)[:MAX_PARAM]
            for name, value in tags.items():
                self._client.set_tag(run_id, name, value)
            self._client.set_terminated(run_id, "FINISHED")
            del self._runs[cell]

        if cell in self._runs:
            self._try("close a run", finish)

    def fail_cell(self, cell: str, reason: str) -> None:
        """Closes the run as failed, with the reason as a tag."""

        def fail() -> None:
            run_id = self._runs[cell]
            self._client.set_tag(run_id, "deidsearch.reason", reason[:MAX_PARAM])
            self._client.set_terminated(run_id, "FAILED")
            del self._runs[cell]

        if cell in self._runs:
            self._try("close a run", fail)

    def artifacts(self, folder: Path) -> None:
        """Logs the folder's files on the parent run."""
        if self._parent and Path(folder).is_dir():
            self._try(
                "log artifacts",
                lambda: self._client.log_artifacts(self._parent, str(folder), Path(folder).name),
            )

    def finish_sweep(self, status: str) -> None:
        """Closes the parent, and as killed the runs of cells still open."""

        def finish() -> None:
            self._client.set_terminated(self._parent, status)
            self._close_running("KILLED")
            self._runs.clear()

        # The last word is tried even where the store was silent a moment ago.
        self._paused_until = 0.0
        if self._parent:
            self._try("close the sweep", finish)

    # -- the store ---------------------------------------------------------------------------

    def _try(self, what: str, action: Callable[[], None]) -> bool:
        """Returns whether it worked: tracking that fails never stops a sweep."""
        if time.monotonic() < self._paused_until:
            return False
        try:
            with private_umask():
                action()
        except Exception as error:  # any fault of a store or of the network to it
            self._paused_until = time.monotonic() + _PAUSE_S
            log.warning(
                "MLflow could not %s (%s); results are kept in files and sent again later",
                what,
                type(error).__name__,
            )
            return False
        return True

    def _sweep_id(self) -> str:
        # Two sweeps of one name may share a server, so the name does not identify.
        file = self._output / "mlflow" / "sweep.id"
        if not file.exists():
            write_atomic(file, uuid.uuid4().hex)
        return file.read_text().strip()

    def _find_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is None:
            place = None  # a server knows where its artifacts go
            if self._is_default or not self._uri.startswith(("http:", "https:")):
                # MLflow's own choice beside a database is ./mlruns of whoever calls.
                place = private_dir(self._output / "mlflow-artifacts").as_uri()
            made = str(self._client.create_experiment(name, artifact_location=place))
            if self._is_default:
                with contextlib.suppress(MlflowException):
                    self._client.delete_experiment("0")  # the empty "Default", which only confuses
            # Otherwise the page opens on tables for traces of language models.
            self._client.set_experiment_tag(made, _KIND_TAG, "custom_model_development")
            return made
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _search(self, condition: str) -> Iterator[Run]:
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment], condition, max_results=500, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def _run_of(self, cell: str) -> Run | None:
        runs = list(
            self._search(f"tags.`{SWEEP_TAG}` = '{self._sweep}' and tags.`{CELL_TAG}` = '{cell}'")
        )
        runs.sort(key=lambda run: run.info.status != "FINISHED")
        return runs[0] if runs else None

    def _close_running(self, status: str) -> None:
        running = self._search(
            f"tags.`{SWEEP_TAG}` = '{self._sweep}' and attributes.status = 'RUNNING'"
        )
        for run in list(running):
            self._client.set_terminated(run.info.run_id, status)

    def _log_params(self, run: Run, params: Mapping[str, Any]) -> None:
        """Logs what the run lacks: MLflow refuses a second value of a parameter."""
        from mlflow.entities import Param

        shown = public_settings(params, self._log_text)
        run_id = run.info.run_id
        new = {n: v for n, v in shown.items() if metric_name(n) not in run.data.params}
        long = {name: value for name, value in new.items() if len(value) > MAX_PARAM}
        short = [Param(metric_name(name), value) for name, value in new.items() if name not in long]
        for first in range(0, len(short), _PARAMS_A_BATCH):
            self._client.log_batch(run_id, params=short[first : first + _PARAMS_A_BATCH])
        if long:
            self._client.log_dict(run_id, long, "long_settings.json")

    def _log_metrics(self, run_id: str, metrics: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._batch(run_id, [Metric(metric_name(n), v, now, step) for n, v in metrics.items()])

    def _batch(self, run_id: str, metrics: Sequence[Any]) -> None:
        for first in range(0, len(metrics), _METRICS_A_BATCH):
            self._client.log_batch(run_id, metrics=metrics[first : first + _METRICS_A_BATCH])


def store_uri(output: Path) -> str:
    """Returns the address of the default store, SQLite in the output folder."""
    return f"sqlite:///{Path(output).absolute() / 'mlflow.db'}"


def resolve_uri(uri: str | None, base: Path) -> str | None:
    """Returns a tracking address with a relative SQLite file taken from the grid's folder.

    >>> resolve_uri("sqlite:///runs.db", Path("/data"))
    'sqlite:////data/runs.db'
    """
    if uri is None or not uri.startswith(_SQLITE) or uri.startswith(_SQLITE + "/"):
        return uri
    return f"{_SQLITE}{Path(base).absolute() / uri.removeprefix(_SQLITE)}"


def check_store(output: Path, uri: str | None) -> None:
    """Returns where the tracking store answers; a default one is not made.

    Raises:
        InputError: it does not answer.
    """
    if uri is not None:
        _open_store(Path(output), uri, is_default=False)


def _open_store(output: Path, uri: str, is_default: bool) -> MlflowClient:
    silence()
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        raise MissingExtraError("mlflow", "track") from error

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if is_default:
        private_dir(output)
        # SQLite takes over the mode of the file it finds; an empty one is a new database.
        os.close(os.open(output / "mlflow.db", os.O_RDWR | os.O_CREAT, 0o600))
    try:
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)  # opens and migrates the store: a proof it works
    except Exception as error:
        # The address may hold a password, so it is not repeated.
        raise InputError(
            f"the tracking store cannot be opened ({type(error).__name__})",
            where="tracking.uri",
            mend="Give a server that is up (http://host:port) or sqlite:///FILE, or leave it out.",
        ) from error
    return client
