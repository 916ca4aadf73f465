"""The commands that only read what a sweep has left: status, best, report.

They read files, never DuckDB, so they work while a sweep is running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from deidsearch.config.load import Grid
from deidsearch.errors import InputError, did_you_mean
from deidsearch.evaluate.choice import Setting, choose
from deidsearch.files import read_json, write_json
from deidsearch.pipeline.devices import available_cpus
from deidsearch.pipeline.workspace import Workspace, open_workspace
from deidsearch.store.ledger import (
    DONE,
    FAILED,
    PENDING,
    RUNNING,
    CellState,
    PlannedCell,
    count_states,
    is_locked,
    scan,
    seconds_left,
)

METRICS = ("validation/f1", "validation/precision", "validation/recall")


def save_plan(workspace: Workspace, cells: list[PlannedCell], axes: dict[str, Any]) -> None:
    """Writes the planned cells for the commands that only read.

    Args:
        workspace: the sweep's folder.
        cells: the plan.
        axes: cell key -> the values of its axes, and whether it is an upper bound.
    """
    write_json(
        workspace.plan,
        {"cells": [{**asdict(cell), **axes[cell.key]} for cell in cells]},
    )


def load_plan(workspace: Workspace) -> tuple[list[PlannedCell], dict[str, dict[str, Any]]]:
    """Returns the planned cells and, by cell key, ``axes`` and ``upper_bound``; empty before."""
    try:
        rows = read_json(workspace.plan)["cells"]
        cells = [PlannedCell(row["key"], row["training"], row["settings"]) for row in rows]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return [], {}  # absent or damaged: the next run writes it anew
    marks = {row["key"]: {"axes": row["axes"], "upper_bound": row["upper_bound"]} for row in rows}
    return cells, marks


def read_results(workspace: Workspace) -> tuple[list[CellState], list[dict[str, Any]]]:
    """Returns the state of every planned cell, and for each a result with at least its state."""
    cells, marks = load_plan(workspace)
    states = scan(workspace.root, cells)
    results = []
    for state in states:
        result = dict(state.result or {"cell": state.cell.key, "training": state.cell.training})
        result["settings"] = dict(state.cell.settings)
        result["state"] = state.state
        if state.reason:
            result["reason"] = state.reason
        result.update(marks[state.cell.key])
        results.append(result)
    return states, results


def sweep_status(grid: Grid) -> dict[str, Any]:
    """Returns the cells by state, the best so far, the seconds left and what failed."""
    workspace = open_workspace(grid, make=False)
    states, results = read_results(workspace)
    at_work = is_locked(workspace.root / "driver.lock")
    if not at_work:
        # Workers of a killed driver hold their locks for some seconds more.
        states = [replace(s, state=PENDING) if s.state == RUNNING else s for s in states]
    best = choose(results, grid.config.search.metric).best if results else None
    ray = grid.config.ray
    fitting = max(1, available_cpus() // ray.cpus_per_trial) if ray.address == "local" else 1
    at_once = min(grid.config.search.max_concurrent or fitting, fitting)
    left = seconds_left(workspace.root, states, at_once) if states else None
    return {
        "name": grid.config.name,
        "output": str(workspace.root),
        "grid": str(grid.path),
        "at_work": at_work,
        "cells": count_states(states),
        "trainings": len({state.cell.training for state in states}),
        "best": None if best is None else {"axes": _axes(best), "f1": best.mean},
        "seconds_left": left,
        "failed": [
            {"cell": result["cell"], "axes": result["axes"], "reason": result.get("reason", "")}
            for result in results
            if result["state"] == FAILED
        ],
    }


def best_of(
    grid: Grid, metric: str | None = None, min_recall: float | None = None
) -> dict[str, Any] | None:
    """Returns the best setting's best seed with its scores, or None where no cell is finished.

    Args:
        grid: the sweep's grid.
        metric: path of a validation score; default: the grid's, or precision with ``min_recall``.
        min_recall: only settings whose validation recall surely reaches this share: the lower
            end of its interval.

    Raises:
        InputError: an unknown metric, or no setting reaches the recall.
    """
    if metric is not None and metric not in METRICS:
        raise InputError(
            f"the metric {metric!r} cannot choose", "--metric", did_you_mean(metric, METRICS)
        )
    if metric is None:
        metric = "validation/precision" if min_recall is not None else grid.config.search.metric
    workspace = open_workspace(grid, make=False)
    _, results = read_results(workspace)
    best = choose(results, metric, min_recall=min_recall).best
    if best is None and min_recall is not None and any(r["state"] == DONE for r in results):
        raise InputError(
            f"no setting's validation recall surely reaches {min_recall:g}",
            "--min-recall",
            "Ask for less, or add cells to the grid.",
        )
    return None if best is None else describe_best(workspace, best, metric)


def describe_best(workspace: Workspace, best: Setting, metric: str) -> dict[str, Any]:
    """Returns the document that ``best --json`` prints."""
    cell = best.best_cell
    tests = cell.get("tests") or {}
    exported = workspace.best / "sweep.json"
    model = workspace.root / "trainings" / str(cell["training"])
    if exported.is_file() and read_json(exported).get("training") == cell["training"]:
        model = workspace.best
    return {
        "cell": cell["cell"],
        "training": cell["training"],
        "axes": _axes(best),
        "settings": dict(cell["settings"]),
        "metric": metric,
        "mean": best.mean,
        "seeds": len(best.cells),
        "lowest": best.low,
        "highest": best.high,
        "validation": cell["validation"],
        "test": cell.get("test"),
        "tests": tests,
        "dictionary": cell.get("dictionary"),
        "training_sentences": cell.get("training_sentences"),
        "seconds": cell.get("seconds"),
        "model": str(model),
        "versions": cell.get("versions"),
        "digests": cell.get("digests"),
    }


def _axes(setting: Setting) -> dict[str, Any]:
    axes: Mapping[str, Any] = setting.best_cell.get("axes") or {}
    return dict(axes)


def write_sweep_report(grid: Grid) -> Path:
    """Returns the path of the page after the report of what is finished has been written.

    Raises:
        InputError: nothing is finished yet.
    """
    from deidsearch.report.page import write_report

    workspace = open_workspace(grid, make=False)
    _, results = read_results(workspace)
    if not any(result["state"] == DONE for result in results):
        raise InputError(
            "no cell is finished yet, so there is nothing to report",
            grid.path.name,
            f"Run it first: deidsearch run {grid.path}",
        )
    return write_report(results, describe_sweep(grid), workspace.report)


def describe_sweep(grid: Grid) -> dict[str, Any]:
    """Returns what the report says of the sweep as a whole."""
    return {
        "name": grid.config.name,
        "types": list(grid.config.types),
        "metric": grid.config.search.metric,
        "command": f"deidsearch run {grid.path.name}",
    }
