"""The sweep: what is pending is trained, scored, written, tracked and entered in the ledger.

Each step leaves a file that says it is done, so a sweep that was killed anywhere goes on there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deidsearch.errors import Interrupted
from deidsearch.search.driver import driver_lock
from deidsearch.search.faults import failure_reason, is_disk_full
from deidsearch.search.progress import Progress, Reporter, SilentReporter
from deidsearch.search.session import Resources
from deidsearch.search.task import TrainingTask
from deidsearch.search.tune import TARGET, Listener, RaySession, disk_is_full, run_trainings
from deidsearch.store.ledger import (
    DONE,
    FAILED,
    CellState,
    PlannedCell,
    count_states,
    read_training,
    rebuild_cells,
    scan,
    training_folder,
    write_failure,
    write_result,
    write_training,
)
from deidsearch.track.tracker import NoopTracker, Tracker

if TYPE_CHECKING:
    from deidsearch.store.database import Database

Score = Callable[[PlannedCell], Mapping[str, Any]]

log = logging.getLogger(__name__)


class Sweep:
    """All cells of a grid, brought to their results.

    Args:
        output: the sweep's folder; ``trainings/<key>/task.json`` stands there for every cell.
        cells: the plan.
        score: the result of a cell whose training is done (METHOD §9), called in the driver.
        name: of the sweep as tracked.
        params: settings that all cells share, tracked on the parent.
        session: where trainings run and with what; a local Ray by default.
        tracker: told of all; nothing by default.
        reporter: shows progress; nothing by default.
        database: gets the ``cells`` table where given.
        finish: called when nothing is pending any more, with the tracker still open: reports.
        target: ``module:function`` that trains one folder.
    """

    def __init__(
        self,
        output: Path,
        cells: Sequence[PlannedCell],
        score: Score,
        *,
        name: str,
        params: Mapping[str, Any] | None = None,
        session: RaySession | None = None,
        tracker: Tracker | None = None,
        reporter: Reporter | None = None,
        database: Database | None = None,
        finish: Callable[[Tracker], None] | None = None,
        target: str = TARGET,
    ) -> None:
        self._output = Path(output).absolute()
        self._cells = list(cells)
        self._score = score
        self._name = name
        self._params = dict(params or {})
        self._session = session or RaySession(Resources(), self._output / "tmp")
        self._tracker: Tracker = tracker or NoopTracker()
        self._reporter: Reporter = reporter or SilentReporter()
        self._database = database
        self._finish_sweep = finish
        self._target = target
        self._open: dict[str, list[PlannedCell]] = {}  # training -> its cells without a result
        self._progress = Progress({}, 0, 0)

    def run(self) -> list[CellState]:
        """Returns the state of every cell after all that was pending has been run.

        Raises:
            Interrupted: stopped by the user; what is finished is kept.
            RunError: another driver runs this sweep, or the disk is full.
        """
        with driver_lock(self._output):
            self._tracker.start_sweep(self._name, self._params, {})
            status = "KILLED"
            try:
                self._plan()
                self._settle_trained()
                self._train_pending()
                self._track_missing()
                if self._finish_sweep is not None:
                    self._finish_sweep(self._tracker)
                counts = count_states(self.states())
                status = "FINISHED" if counts[DONE] == len(self._cells) else "FAILED"
            except KeyboardInterrupt as error:
                raise Interrupted(
                    "stopped", mend="Run the same command: it goes on where it stopped."
                ) from error
            finally:
                states = self.states()
                if self._database is not None:
                    rebuild_cells(self._database, states)
                self._tracker.finish_sweep(status)
                self._reporter.sweep_ended(count_states(states))
        return states

    def states(self) -> list[CellState]:
        """Returns the state of every cell as the files show it."""
        return scan(self._output, self._cells)

    # -- the steps ---------------------------------------------------------------------------

    def _plan(self) -> None:
        states = self.states()
        self._open = {}
        for state in states:
            if state.state != DONE:
                self._open.setdefault(state.cell.training, []).append(state.cell)
        work = {}
        for key in self._open:
            if read_training(self._folder(key)).state != DONE:
                task = TrainingTask.load(self._folder(key))
                work[key] = float(task.num_sentences * task.max_epochs)
        self._progress = Progress(work, len(states), count_states(states)[DONE])
        self._reporter.sweep_started(self._progress)

    def _settle_trained(self) -> None:
        """Scores the cells whose training another driver finished and left."""
        for key in list(self._open):
            if read_training(self._folder(key)).state == DONE:
                self._open_runs(key)
                self._settle(key)

    def _train_pending(self) -> None:
        listener = Listener(self._started, self._epoch, self._settle, self._died)
        run_trainings(
            [self._folder(key) for key in self._open if not self._is_trained(key)],
            listener,
            self._session,
            target=self._target,
        )

    def _track_missing(self) -> None:
        """Sends the tracker what it does not show: a logging failure loses nothing."""
        done = {state.cell.key: state for state in self.states() if state.state == DONE}
        for key in self._tracker.unfinished(list(done)):
            state = done[key]
            training = read_training(self._folder(state.cell.training))
            self._tracker.start_cell(key, state.cell.settings)
            self._tracker.epochs(key, training.record.get("curve", ()))
            self._tracker.finish_cell(key, state.result or {})

    # -- what happens to one training --------------------------------------------------------

    def _started(self, key: str) -> None:
        self._open_runs(key)
        self._reporter.training_started(key, len(self._open[key]))

    def _epoch(self, key: str, record: Mapping[str, Any]) -> None:
        for cell in self._open[key]:
            self._tracker.epochs(cell.key, [record])
        most = TrainingTask.load(self._folder(key)).max_epochs
        self._progress.advance(key, float(record["epoch"]) / max(1, most))
        self._reporter.epoch_ended(key, record)

    def _died(self, key: str, reason: str) -> None:
        write_training(self._folder(key), {"key": key, "state": FAILED, "reason": reason})
        self._settle(key)

    def _settle(self, key: str) -> None:
        """Brings the cells of a training that is over to their results or failures."""
        training = read_training(self._folder(key))
        reason = None if training.state == DONE else training.reason or "left no result"
        self._progress.end(key)
        self._reporter.training_ended(key, FAILED if reason else DONE, reason)
        for cell in self._open[key]:
            self._tracker.epochs(cell.key, training.record.get("curve", ()))
            state = self._fail(cell, reason) if reason else self._finish(cell)
            self._progress.num_done += state.state == DONE
            self._progress.num_failed += state.state == FAILED
            self._reporter.cell_ended(state)

    def _finish(self, cell: PlannedCell) -> CellState:
        try:
            result = write_result(self._output, cell, self._score(cell))
        except Exception as error:
            if is_disk_full(error, self._output):
                raise disk_is_full(self._output) from error
            # One cell that cannot be scored is kept apart from the others.
            return self._fail(cell, f"scoring failed: {failure_reason(error)}")
        self._tracker.finish_cell(cell.key, result)
        return CellState(cell, DONE, None, result)

    def _fail(self, cell: PlannedCell, reason: str) -> CellState:
        write_failure(self._output, cell, reason)
        self._tracker.fail_cell(cell.key, reason)
        log.info("cell %s failed: %s", cell.key, reason)
        return CellState(cell, FAILED, reason)

    def _open_runs(self, key: str) -> None:
        for cell in self._open[key]:
            self._tracker.start_cell(cell.key, cell.settings)

    def _is_trained(self, key: str) -> bool:
        return read_training(self._folder(key)).state == DONE

    def _folder(self, key: str) -> Path:
        return training_folder(self._output, key)
