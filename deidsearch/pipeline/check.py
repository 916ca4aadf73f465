"""``deidsearch check``: what is wrong and what would be done, without doing any of it.

Only cheap looks: headers of files, first records, the encoder's config. No heavy library is loaded.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from deidsearch.config.load import Grid
from deidsearch.errors import DeidsearchError, InputError
from deidsearch.files import require_writable
from deidsearch.pipeline.columns import column_faults
from deidsearch.pipeline.devices import available_cpus, available_gpus, cluster_fault
from deidsearch.pipeline.inputs import data_paths, missing_files, tracking_faults
from deidsearch.pipeline.results import load_plan
from deidsearch.pipeline.workspace import Workspace, open_workspace
from deidsearch.store.ledger import DONE, scan
from deidsearch.train.encoder import describe_encoder, resolve_encoder
from deidsearch.train.hub import is_hub_name

_STEPS = (
    "compile dictionaries", "read the corpus", "match", "annotate at every ceiling",
    "train what is distinct", "score each cell", "report",
)  # fmt: skip


def check_grid(grid: Grid) -> dict[str, Any]:
    """Returns the plan and the warnings of a grid in which nothing is wrong.

    Raises:
        InputError: all that is wrong, in one report.
    """
    faults, warnings = missing_files(grid)
    warnings = [*grid.warnings, *warnings]
    faults += column_faults(grid)
    encoders, model_bytes = _encoders(grid, faults, warnings)
    resources = _resources(grid, warnings)
    tracking = grid.config.tracking.uri or "SQLite in the output folder"
    faults += tracking_faults(grid)
    done, trainings, is_exact = 0, 0, False
    try:
        if os.path.exists(grid.output):
            done, trainings, is_exact = _so_far(grid, open_workspace(grid, make=False))
    except InputError as error:
        faults.append(error)
    try:
        require_writable(grid.output, grid.place("output"))
    except InputError as error:
        faults.append(error)
    if faults:
        raise InputError.many(faults)
    trainings = trainings if is_exact else len(grid.cells)
    needed = disk_needed(grid, trainings, model_bytes)
    free = shutil.disk_usage(_existing(grid.output)).free
    if needed > free:
        warnings.append("the disk may be too small for this sweep.")
    return {
        "grid": grid.path.name,
        "name": grid.config.name,
        "output": str(grid.output),
        "types": list(grid.config.types),
        "encoders": encoders,
        "resources": resources,
        "tracking": tracking,
        "plan": {
            "cells": len(grid.cells),
            "upper_bounds": sum(cell.upper_bound for cell in grid.cells),
            "trainings": trainings,
            "trainings_exact": is_exact,
            "done": done,
            "steps": list(_STEPS),
            "disk_bytes": needed,
            "disk_free": free,
        },
        "warnings": warnings,
    }


def _so_far(grid: Grid, workspace: Workspace) -> tuple[int, int, bool]:
    """Returns finished cells, distinct trainings, and whether the plan is this grid's."""
    cells, _ = load_plan(workspace)
    done = sum(state.state == DONE for state in scan(workspace.root, cells))
    return done, len({cell.training for cell in cells}), len(cells) == len(grid.cells)


def disk_needed(grid: Grid, trainings: int, model_bytes: int) -> int:
    """Returns about how many bytes a sweep will take.

    A finished training keeps its model; one that runs has weights and two moments besides. Text
    becomes sentences, tokens, matches and pieces.

    Args:
        grid: the grid.
        trainings: how many models are kept.
        model_bytes: of the largest encoder's weights.
    """
    at_once = grid.config.search.max_concurrent or available_cpus()
    return (trainings + 3 * min(trainings, at_once)) * model_bytes + 4 * _data_bytes(grid)


def _encoders(grid: Grid, faults: list[InputError], warnings: list[str]) -> tuple[list[str], int]:
    """Returns the encoders in words, and the bytes of the largest one's weights."""
    shown, largest = [], 100_000_000
    where = grid.place("model.encoder")
    seen: set[tuple[str, bool]] = set()
    for cell in grid.cells:
        model, lowercase = cell.config.model, cell.config.text.lowercase
        if (model.encoder, lowercase) in seen:
            continue
        seen.add((model.encoder, lowercase))
        if "${" in model.encoder:
            warnings.append(f"{where}: encoder not verified, a variable has no value.")
            continue
        try:
            about = describe_encoder(resolve_encoder(model.encoder, grid.base))
        except DeidsearchError as error:
            if not is_hub_name(model.encoder, grid.base):
                faults.append(InputError(error.what, where, error.mend))
                continue
            warnings.append(
                f"{where}: encoder {model.encoder!r} is not on this machine; not verified."
            )
            shown.append(f"{model.encoder} (from the hub, not verified)")
            continue
        largest = max(largest, about.num_bytes)
        layers = model.encoder_layers
        if layers is not None and layers > about.num_layers:
            faults.append(
                InputError(
                    f"encoder_layers is {layers}, the encoder has {about.num_layers} layers",
                    grid.place("model.encoder_layers"),
                )
            )
        if about.lowercases is not None and about.lowercases != lowercase:
            kind = "uncased" if about.lowercases else "cased, yet the text is lower-cased"
            warnings.append(
                f"{where}: the encoder is {kind}. "
                f"Set text.lowercase: {'false' if lowercase else 'true'}."
            )
        shown.append(f"{model.encoder} ({layers or about.num_layers} layers)")
    return shown, largest


def _resources(grid: Grid, warnings: list[str]) -> str:
    ray = grid.config.ray
    if ray.address != "local":
        wrong = cluster_fault(ray.address)
        if wrong is not None:
            warnings.append(f"ray.address: {wrong}.")
        return f"{ray.cpus_per_trial} CPUs, {ray.gpus_per_trial:g} GPUs on {ray.address}"
    cpus, gpus = available_cpus(), available_gpus()
    wanted_gpus = ray.gpus_per_trial
    if wanted_gpus > 0 and not gpus:
        warnings.append("ray.gpus_per_trial: this machine has no GPU; trials run on the CPU.")
        wanted_gpus = 0
    if ray.cpus_per_trial > cpus:
        warnings.append(f"ray.cpus_per_trial: {ray.cpus_per_trial} is capped at {cpus}.")
    return f"{min(ray.cpus_per_trial, cpus)} of {cpus} CPUs, {wanted_gpus:g} of {gpus} GPUs"


def _data_bytes(grid: Grid) -> int:
    sizes = {}
    for cell in grid.cells:
        for _, written in data_paths(grid, cell.config):
            path = grid.resolve(written)
            sizes[written] = path.stat().st_size if os.path.isfile(path) else 0
    return sum(sizes.values())


def _existing(path: Path) -> Path:
    while not os.path.exists(path):
        path = path.parent
    return path
