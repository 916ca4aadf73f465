"""Runs a sweep of dummy trainings as a process of its own, which tests end in various ways.

Usage: driver.py OUTPUT; the plan is OUTPUT/plan.json: {"cells": [{key, training, settings}]}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deidsearch.errors import DeidsearchError
from deidsearch.search.sweep import Sweep
from deidsearch.search.tune import RaySession, Resources
from deidsearch.store.ledger import FAILED, PlannedCell, read_training
from deidsearch.track.mlflow_tracker import MlflowTracker


def main(output: Path) -> int:
    """Returns the exit code that the command line would give."""
    plan = json.loads((output / "plan.json").read_text())
    cells = [PlannedCell(**cell) for cell in plan["cells"]]

    def score(cell: PlannedCell) -> dict:
        curve = read_training(output / "trainings" / cell.training).record["curve"]
        scores = {"precision": None, "recall": 0.5, "f1": curve[-1]["f1"]}
        return {"validation": scores, "test": scores, "dictionary": {"test": scores}}

    sweep = Sweep(
        output,
        cells,
        score,
        name="faults",
        session=RaySession(
            Resources(cpus=1, max_concurrent=plan.get("max_concurrent")), output / "tmp"
        ),
        tracker=MlflowTracker(output) if plan.get("mlflow") else None,
        target="dummy_training:train",
    )
    try:
        states = sweep.run()
    except DeidsearchError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return int(any(state.state == FAILED for state in states))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
