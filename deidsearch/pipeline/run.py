"""The whole sweep of a grid: prepare, plan, train, score, export, report."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deidsearch import __version__
from deidsearch.config.load import Grid
from deidsearch.errors import InputError, RunError
from deidsearch.evaluate.bootstrap import save_counts
from deidsearch.evaluate.choice import choose
from deidsearch.evaluate.summary import Evaluation, evaluate
from deidsearch.files import atomic_dir, private_dir, require_writable, write_atomic, write_json
from deidsearch.pipeline.check import disk_needed
from deidsearch.pipeline.columns import column_faults
from deidsearch.pipeline.devices import cluster_fault
from deidsearch.pipeline.inputs import missing_files, require_variables, tracking_faults
from deidsearch.pipeline.plan import CellPlan, Planner
from deidsearch.pipeline.prepare import Preparation
from deidsearch.pipeline.results import (
    best_of,
    load_plan,
    read_results,
    save_plan,
    write_sweep_report,
)
from deidsearch.pipeline.workspace import Workspace, open_workspace
from deidsearch.progress import Console
from deidsearch.search.driver import driver_lock, require_space
from deidsearch.search.progress import Reporter
from deidsearch.search.sweep import Sweep
from deidsearch.search.task import load_predictions
from deidsearch.search.trial import PRELOAD
from deidsearch.search.tune import RaySession, Resources
from deidsearch.store.database import Database
from deidsearch.store.ledger import (
    DONE,
    FAILED,
    CellState,
    PlannedCell,
    read_training,
    scan,
    training_folder,
    trial_folder,
)
from deidsearch.track.tracker import Tracker
from deidsearch.train.encoder import architecture_modules, describe_encoder
from deidsearch.train.hub import require_encoder


@dataclass(frozen=True)
class Outcome:
    """What a run has come to: the best trial, the report's page, cells that failed."""

    best: dict[str, Any] | None
    report: Path | None
    failed: int


def run_grid(
    grid: Grid, console: Console, reporter: Reporter | None = None, *, fresh: bool = False
) -> Outcome:
    """Returns the outcome after every pending cell of the grid has been run.

    Args:
        grid: the grid.
        console: told of the steps.
        reporter: told of the trainings as they go on.
        fresh: start over; what the sweep has made is removed once all checks have passed.

    Raises:
        InputError: the grid, its files or its output folder are wrong; nothing was written.
        RunError: another driver is at work, or the disk is full.
        Interrupted: stopped by the user; run again to go on.
    """
    require_variables(grid)
    faults, _ = missing_files(grid)
    if fresh or not (grid.output / "plan.json").exists():
        # Before the first step, so that nothing is half done when the last file is found wrong.
        faults += column_faults(grid)
    faults += encoder_faults(grid)
    faults += tracking_faults(grid)
    wrong = cluster_fault(grid.config.ray.address)
    if wrong is not None:
        mend = "Start the cluster, or use ray.address: local."
        faults.append(InputError(wrong, grid.place("ray.address"), mend))
    if faults:
        raise InputError.many(faults)
    for warning in grid.warnings:
        console.warn(warning)
    require_writable(grid.output, grid.place("output"))
    workspace = open_workspace(grid)
    with driver_lock(workspace.root):
        if fresh:
            workspace.remove_made()
        workspace.empty_temporary()
        try:
            return _run_locked(grid, workspace, console, reporter)
        finally:
            workspace.empty_temporary()


def encoder_faults(grid: Grid) -> list[InputError]:
    """Returns a fault for each encoder that is nowhere; a hub's is fetched if it can be."""
    faults: list[InputError] = []
    for name in dict.fromkeys(cell.config.model.encoder for cell in grid.cells):
        try:
            describe_encoder(require_encoder(name, grid.base))
        except InputError as error:
            faults.append(InputError(error.what, grid.place("model.encoder"), error.mend))
    return faults


def _run_locked(
    grid: Grid, workspace: Workspace, console: Console, reporter: Reporter | None
) -> Outcome:
    private_dir(workspace.temporary)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database(workspace.store, workspace.temporary))
        preparation = Preparation(grid, workspace, database, console)
        preparation.read_inputs(grid.cells)
        session = stack.enter_context(
            contextlib.closing(_ray_session(grid, workspace, preparation))
        )
        if _something_pends(workspace) and not preparation.has_shards(grid.cells):
            session.begin()  # it comes up while the rest is prepared
        plans = Planner(preparation).plan(grid.cells)
        by_key = {plan.planned.key: plan for plan in plans}
        cells = [plan.planned for plan in plans]
        states = scan(workspace.root, cells)
        pending = {state.cell.training for state in states if state.state != DONE}
        size = max(describe_encoder(preparation.encoder(c.config)[0]).num_bytes for c in grid.cells)
        require_space(workspace.root, disk_needed(grid, len(pending), size) if pending else 0)
        # What a reading command shows must be the plan that is being run.
        save_plan(workspace, cells, {key: plan.marks for key, plan in by_key.items()})
        write_atomic(
            workspace.root / "grid.resolved.yaml",
            yaml.safe_dump(
                grid.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True
            ),
        )
        sweep = Sweep(
            workspace.root,
            cells,
            lambda cell: score_cell(workspace, by_key[cell.key]),
            name=grid.config.name,
            params=_shared_settings(cells),
            session=session,
            tracker=_tracker(grid, workspace),
            reporter=reporter,
            database=database,
            finish=lambda tracker: _conclude(grid, workspace, tracker),
        )
        states = sweep.run()
    return _outcome(grid, workspace, states)


def _ray_session(grid: Grid, workspace: Workspace, preparation: Preparation) -> RaySession:
    resources = Resources(
        address=grid.config.ray.address,
        cpus=grid.config.ray.cpus_per_trial,
        gpus=grid.config.ray.gpus_per_trial,
        max_concurrent=grid.config.search.max_concurrent,
    )
    modules: dict[str, None] = dict.fromkeys(PRELOAD)
    for cell in grid.cells:
        modules |= dict.fromkeys(architecture_modules(preparation.encoder(cell.config)[0]))
    return RaySession(resources, workspace.temporary, list(modules))


def _something_pends(workspace: Workspace) -> bool:
    """Returns whether a training is likely to be run, as far as the last plan can tell."""
    cells, _ = load_plan(workspace)
    return not cells or any(state.state != DONE for state in scan(workspace.root, cells))


def _tracker(grid: Grid, workspace: Workspace) -> Tracker:
    from deidsearch.track.mlflow_tracker import MlflowTracker, resolve_uri

    tracking = grid.config.tracking
    return MlflowTracker(
        workspace.root,
        uri=resolve_uri(tracking.uri, grid.base),
        experiment=tracking.experiment or grid.config.name,
        log_text=tracking.log_text,
    )


def _shared_settings(cells: list[PlannedCell]) -> dict[str, Any]:
    """Returns the settings that all cells have in common."""
    first = dict(cells[0].settings) if cells else {}
    return {
        path: value
        for path, value in first.items()
        if all(cell.settings.get(path) == value for cell in cells)
    }


def score_cell(workspace: Workspace, plan: CellPlan) -> dict[str, Any]:
    """Returns a cell's result from the predictions that its training left (METHOD §9).

    Validation comes first: the operating points found there are the ones that tests are held to.
    """
    folder = training_folder(workspace.root, plan.planned.training)
    record: Mapping[str, Any] = read_training(folder).record
    config = plan.cell.config
    blocks: dict[str, Evaluation] = {}
    for name in ("validation", *(name for name in plan.views if name != "validation")):
        thresholds = blocks["validation"].model.get("operating") if blocks else None
        blocks[name] = evaluate(
            plan.views[name],
            load_predictions(folder, name),
            plan.baselines.get(name),
            max_span_width=config.model.max_span_width,
            thresholds=thresholds,
            resamples=config.evaluation.resamples,
            seed=config.evaluation.seed,
        )
        save_counts(
            trial_folder(workspace.root, plan.planned.key) / f"counts-{name}",
            blocks[name].counts,
            blocks[name].dictionary_counts,
        )
    tests = {name: block.model for name, block in blocks.items() if name != "validation"}
    dictionary = {
        name: block.dictionary for name, block in blocks.items() if block.dictionary is not None
    }
    if tests and next(iter(tests)) in dictionary:
        # "test" is the first of the sets, whatever its name.
        dictionary.setdefault("test", dictionary[next(iter(tests))])
    return {
        **plan.marks,
        "validation": blocks["validation"].model,
        "test": next(iter(tests.values()), None),
        "tests": tests,
        "dictionary": dictionary or None,
        "training_sentences": plan.training_sentences,
        "mentions": plan.training_mentions,
        "available_sentences": plan.available_sentences,
        "seconds": record.get("seconds"),
        "best_epoch": record.get("best_epoch"),
        "versions": {"deidsearch": __version__, **(record.get("versions") or {})},
        "digests": plan.digests,
        "model": f"trainings/{plan.planned.training}",
    }


def _conclude(grid: Grid, workspace: Workspace, tracker: Tracker) -> None:
    """Exports the best model and writes the report, also to the tracker."""
    _, results = read_results(workspace)
    choice = choose(results, grid.config.search.metric)
    if choice.best is None:
        return
    export_best(workspace, dict(choice.best.best_cell))
    write_sweep_report(grid)
    tracker.artifacts(workspace.report)


def export_best(workspace: Workspace, result: Mapping[str, Any]) -> Path:
    """Returns the folder of the best model, which needs neither the sweep nor a hub.

    Raises:
        RunError: the training's files are gone.
    """
    folder = training_folder(workspace.root, str(result["training"]))
    model = folder / "model"
    if not model.is_dir():
        raise RunError(
            "the best model's files are gone",
            where=f"trainings/{folder.name}",
            mend="Run the sweep again: it trains this model anew.",
        )
    with atomic_dir(workspace.best) as temporary:
        shutil.copytree(model, temporary, dirs_exist_ok=True)
        write_json(
            temporary / "sweep.json",
            {
                "cell": result["cell"],
                "training": result["training"],
                "settings": dict(result["settings"]),
                "validation": result["validation"],
                "versions": result["versions"],
                "digests": result["digests"],
            },
        )
    return workspace.best


def _outcome(grid: Grid, workspace: Workspace, states: list[CellState]) -> Outcome:
    page = workspace.report / "report.html"
    return Outcome(
        best=best_of(grid),
        report=page if page.is_file() else None,
        failed=sum(state.state == FAILED for state in states),
    )
