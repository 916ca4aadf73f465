"""The output folder of a sweep: what lies where, and whose it is."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deidsearch.config.load import Grid
from deidsearch.errors import InputError
from deidsearch.files import private_dir, read_json, write_json

_FOLDERS = (
    "cache", "mlflow", "mlflow-artifacts", "models", "report", "tmp", "trainings", "trials",
)  # fmt: skip
# What a sweep makes in its output; --fresh removes these and nothing else. The mark of whose
# folder it is and the lock that its driver holds stay.
_MADE = (
    *_FOLDERS, "grid.resolved.yaml", "mlflow.db", "plan.json", "store.duckdb", "store.duckdb.wal",
)  # fmt: skip


@dataclass(frozen=True)
class Workspace:
    """The places of a sweep's files under its output folder."""

    root: Path

    @property
    def store(self) -> Path:
        """Dictionaries, ratios, sentences and cells."""
        return self.root / "store.duckdb"

    @property
    def cache(self) -> Path:
        """Arrays of the steps, each in a folder named by its content digest."""
        return self.root / "cache"

    @property
    def temporary(self) -> Path:
        """Spill files; emptied at start and end, since they hold note text."""
        return self.root / "tmp"

    @property
    def plan(self) -> Path:
        """The planned cells, for the commands that only read."""
        return self.root / "plan.json"

    @property
    def report(self) -> Path:
        """The page and its figures."""
        return self.root / "report"

    @property
    def best(self) -> Path:
        """The exported best model."""
        return self.root / "models" / "best"

    def empty_temporary(self) -> None:
        """Removes what a run left in the folder for spill files."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        private_dir(self.temporary)

    def remove_made(self) -> None:
        """Removes what the sweep made here, and nothing else; its driver's lock must be held."""
        for name in _MADE:
            path = self.root / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def open_workspace(grid: Grid, make: bool = True) -> Workspace:
    """Returns the workspace of a grid, made where there is none.

    Args:
        grid: whose sweep it is.
        make: make the folder; otherwise a missing one is an error.

    Raises:
        InputError: the folder belongs to another sweep, or to somebody else's files.
    """
    root = grid.output
    where = grid.place("output")
    odd = next((sign for sign in "\\?" if sign in str(root)), None)
    if odd is not None:  # DuckDB takes one for a slash, the other for the start of options
        raise InputError(
            f"the output folder's path {root} holds {odd!r}, which the store cannot have in it",
            where,
            "Name another folder under 'output'.",
        )
    marker = root / "sweep.json"
    if os.path.isfile(marker):
        owner = _owner(marker)
        if owner is None:
            raise InputError(
                "the file that says whose sweep this is, is damaged",
                str(marker),
                f"If it is this grid's, write into it: {json.dumps({'name': grid.config.name})}",
            )
        if owner != grid.config.name:
            raise InputError(
                f"the output folder {root} belongs to the sweep {owner!r}, "
                f"this one is {grid.config.name!r}",
                where,
                "Name another folder under 'output', or give the grid its old name.",
            )
        for name in _FOLDERS:
            if (root / name).exists() and not (root / name).is_dir():
                raise InputError("this must be a folder", str(root / name), "Move it away.")
        return Workspace(root)
    if os.path.isfile(root) or (os.path.isdir(root) and any(root.iterdir())):
        raise InputError(
            f"the output folder {root} holds files that are not of a sweep",
            where,
            "Name a new folder under 'output'.",
        )
    if os.path.lexists(root) and not os.path.isdir(root):
        raise InputError(f"the output {root} is no folder", where, "Name a new folder.")
    if not make:
        raise InputError(
            f"there is no sweep in {root} yet", where, f"Start it: deidsearch run {grid.path}"
        )
    try:
        private_dir(root)
        write_json(marker, {"name": grid.config.name})
    except OSError as error:
        raise InputError(
            f"the output folder {root} cannot be made ({error.strerror})", where
        ) from None
    return Workspace(root)


def _owner(marker: Path) -> str | None:
    """Returns the name of the sweep that a folder belongs to, or None where it can't be read."""
    try:
        content = read_json(marker)
    except ValueError:
        return None
    name = content.get("name") if isinstance(content, dict) else None
    return name if isinstance(name, str) else None
