"""Reads grid.yaml: all faults in one report, each with its line and how to mend it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from deidsearch.config.grid import GridConfig
from deidsearch.config.space import FIXED, field_fault, points, values_of, with_values
from deidsearch.config.yaml_lines import LinedYaml, Loc, load_yaml
from deidsearch.errors import InputError, did_you_mean

MAX_CELLS = 100_000
_MOST_FAULTS = 50


@dataclass(frozen=True)
class Cell:
    """One point of the grid: its whole configuration and the values of its axes."""

    config: GridConfig
    axes: dict[str, Any]
    upper_bound: bool = False


@dataclass(frozen=True)
class Grid:
    """A grid that was read and found right.

    Attributes:
        config: the configuration without the search space's values.
        cells: every point of the space, upper bounds last, duplicates merged.
        path: the file.
        base: the folder that relative paths start from.
        warnings: what the user should know though nothing is wrong.
        unset: environment variables that are named but have no value.
    """

    config: GridConfig
    cells: tuple[Cell, ...]
    path: Path
    base: Path
    warnings: tuple[str, ...] = ()
    unset: frozenset[str] = frozenset()
    places: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        """The sweep's folder."""
        return self.resolve(self.config.output or f"runs/{self.config.name}")

    def resolve(self, path: str) -> Path:
        """Returns a path of the grid, relative ones from the grid's own folder."""
        try:
            named = Path(path).expanduser()
        except RuntimeError:  # ~somebody who is not on this machine
            named = Path(path)
        return (self.base / named).absolute()

    def place(self, dotted: str) -> str:
        """Returns "grid.yaml:LINE" of a dotted field, or of its nearest parent."""
        while dotted and dotted not in self.places:
            dotted = dotted.rpartition(".")[0]
        return self.places.get(dotted, self.path.name)


def load_grid(path: Path | str, overrides: Sequence[str] = ()) -> Grid:
    """Returns the grid of a file with overrides applied.

    Raises:
        InputError: with every fault found, each with its line.
    """
    path = Path(path)
    lined = load_yaml(path, overrides)
    faults: list[InputError] = []
    config = _validated(lined.content, lined, faults)
    spaces = _spaces(lined, faults)
    if config is None or faults:
        raise InputError.many(_ordered(faults))
    for axes in spaces:
        _check_axes(axes, lined, faults)
    if faults:
        raise InputError.many(_ordered(faults))
    cells, warnings = _cells(config, spaces, lined)
    found: dict[str, InputError] = {}
    for cell in cells:
        of_cell: list[InputError] = []
        _check_rules(cell, lined, of_cell)
        found.update((str(fault), fault) for fault in of_cell)
        if len(found) >= _MOST_FAULTS:
            break
    if found:
        raise InputError.many(_ordered(list(found.values())))
    warnings += _same_gold(config, lined)
    warnings += _types_without_ceiling(cells, lined)
    places = {".".join(map(str, loc)): where for loc, where in lined.places.items()}
    return Grid(
        config,
        tuple(cells),
        path,
        path.absolute().parent,
        tuple(warnings),
        frozenset(lined.unset),
        places,
    )


def _ordered(faults: list[InputError]) -> list[InputError]:
    def line(fault: InputError) -> tuple[int, str]:
        number = (fault.where or "").rpartition(":")[2]
        return (int(number) if number.isdigit() else 0, str(fault))

    return sorted({str(fault): fault for fault in faults}.values(), key=line)


def _validated(
    content: dict[str, Any], lined: LinedYaml, faults: list[InputError]
) -> GridConfig | None:
    try:
        return GridConfig.model_validate(content)
    except ValidationError as error:
        items = error.errors(include_url=False)
        # A value that may be of two kinds fails twice; what a rule of ours says is what helps.
        ruled = {_own_loc(item["loc"]) for item in items if item["type"] == "value_error"}
        faults.extend(
            _fault(item, lined)
            for item in items
            if item["type"] == "value_error" or _own_loc(item["loc"]) not in ruled
        )
        return None


def _own_loc(loc: Loc) -> Loc:
    """Returns a path without the names that branches of a union add to it."""
    return tuple(
        part
        for part in loc
        if not (
            isinstance(part, str)
            and ("[" in part or part in ("bool", "str", "float", "int", "tuple"))
        )
    )


def _fault(item: Any, lined: LinedYaml) -> InputError:
    """Returns one of pydantic's findings in our words."""
    loc = _own_loc(item["loc"])
    if loc[:2] == ("gold", "test") and len(loc) > 2 and (*loc[:2], loc[2]) not in lined.places:
        loc = (*loc[:2], *loc[3:])
    where = lined.place(loc)
    name = str(loc[-1]) if loc else "the grid"
    parent = ".".join(map(str, loc[:-1]))
    inside = f" in {parent!r}" if parent else ""
    kind, context = item["type"], item.get("ctx", {})
    if kind == "extra_forbidden":
        section = _section(loc[:-1])
        choices = list(section.model_fields) if section else []
        return InputError(f"unknown key {name!r}{inside}", where, did_you_mean(name, choices))
    if kind == "missing":
        section = _section(loc[:-1])
        text = section.model_fields[name].description if section else None
        meaning = f" ({text})" if text else ""
        return InputError(f"{name!r} is missing{inside}{meaning}", where, "Add it.")
    value = item.get("input")
    got = type(value).__name__ if isinstance(value, (dict, list)) else repr(value)
    if kind == "value_error":
        return InputError(f"{name!r}{inside}: {context['error']}", where)
    if kind == "literal_error":
        return InputError(
            f"{name!r}{inside} is {got}", where, f"Choose from: {context['expected']}."
        )
    return InputError(f"{name!r}{inside} is {got}: {item['msg'].lower()}", where)


def _section(loc: Loc) -> type[BaseModel] | None:
    """Returns the model that a path lies in, or None where the path is open."""
    current: Any = GridConfig
    for part in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            info = current.model_fields.get(str(part))
            if info is None:
                return None
            current = _inner(info.annotation)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _inner(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner(argument)
        if found is not None:
            return found
    return None


Axes = dict[str, list[Any]]


def _spaces(lined: LinedYaml, faults: list[InputError]) -> list[Axes]:
    """Returns the axes of each space: ``search.space`` is one mapping, or a list of them."""
    search = lined.content.get("search")
    raw = search.get("space") if isinstance(search, dict) else None
    several = isinstance(raw, list)
    spaces: list[Axes] = []
    for number, space in enumerate(raw if several else [raw or {}]):  # type: ignore[arg-type]
        loc: Loc = ("search", "space", number) if several else ("search", "space")
        if not isinstance(space, dict):
            continue  # the model has already named this fault
        axes: Axes = {}
        for path, values in space.items():
            where = lined.place((*loc, path))
            wrong = field_fault(path, GridConfig)
            if wrong:
                faults.append(InputError(wrong, where))
                continue
            try:
                axes[path] = values_of(values)
            except ValueError as error:
                faults.append(InputError(f"axis {path!r}: {error}", where))
        spaces.append(axes)
    return spaces or [{}]


def _axis_place(path: str, lined: LinedYaml) -> str:
    for loc, where in lined.places.items():
        if loc[:2] == ("search", "space") and loc[-1] == path:
            return where
    return lined.place(("search", "space"))


def _check_axes(axes: Axes, lined: LinedYaml, faults: list[InputError]) -> None:
    """Notes each axis value that its field refuses."""
    for path, values in axes.items():
        where = _axis_place(path, lined)
        for value in values:
            try:
                GridConfig.model_validate(with_values(lined.content, {path: value}))
            except ValidationError as error:
                item = error.errors(include_url=False)[0]
                message = str(item.get("ctx", {}).get("error", item["msg"].lower()))
                faults.append(InputError(f"axis {path!r}, value {value!r}: {message}", where))
            except (ValueError, IndexError, AttributeError, TypeError):
                faults.append(InputError(f"axis {path!r} leads to no field of the grid", where))
                break


def _check_rules(cell: Cell, lined: LinedYaml, faults: list[InputError]) -> None:
    """Notes what is wrong between the fields of a cell."""
    config = cell.config
    if config.task == "documents":
        faults.append(
            InputError(
                "task 'documents' is not part of this version",
                lined.place(("task",)),
                "Use task: sentences.",
            )
        )
    if config.search.method == "optuna":
        faults.append(
            InputError(
                "search.method 'optuna' is not part of this version",
                lined.place(("search", "method")),
                "Use method: grid.",
            )
        )
    if config.model.head != "pure" and config.task == "sentences":
        faults.append(
            InputError(
                f"head {config.model.head!r} is for task: documents",
                lined.place(("model", "head")),
                "Use head: pure.",
            )
        )
    if config.training.source == "gold" and config.gold.train is None:
        faults.append(
            InputError(
                "training.source 'gold' needs gold.train",
                lined.place(("training", "source")),
                "Name the annotated sentences to train on under gold.train.",
            )
        )
    needs_dictionaries = config.training.source == "dictionary"
    if needs_dictionaries and not config.dictionaries:
        faults.append(
            InputError(
                "there are no dictionaries",
                lined.place(("dictionaries",)),
                "Name at least one type with its sources, or set training.source: gold.",
            )
        )
    if needs_dictionaries and config.corpus is None:
        faults.append(
            InputError(
                "there is no corpus", lined.place(("corpus",)), "Name the unannotated text there."
            )
        )
    for name, sources_of_type in config.dictionaries.items():
        if not sources_of_type:
            faults.append(
                InputError(
                    f"type {name!r} has no dictionary",
                    lined.place(("dictionaries", name)),
                    "Name a source, or take the type out.",
                )
            )
    names = [words.name for words in config.non_identifiers]
    for name in {name for name in names if names.count(name) > 1}:
        faults.append(
            InputError(
                f"two non-identifier lists are called {name!r}",
                lined.place(("non_identifiers",)),
                "Give each its own name.",
            )
        )
    if len(names) > 64:
        faults.append(
            InputError("more than 64 non-identifier lists", lined.place(("non_identifiers",)))
        )
    if len(config.dictionaries) > 64:
        faults.append(InputError("more than 64 types", lined.place(("dictionaries",))))
    _check_labels(config, lined, faults)


def _types_without_ceiling(cells: Sequence[Cell], lined: LinedYaml) -> list[str]:
    """Returns a warning where ceilings per type leave a type without one."""
    found: dict[str, None] = {}
    for cell in cells:
        ceiling = cell.config.annotation.ceiling
        if isinstance(ceiling, dict) and not cell.upper_bound:
            found |= dict.fromkeys(name for name in cell.config.types if name not in ceiling)
    where = lined.place(("annotation", "ceiling"))
    return [f"{where}: {name} has no ceiling, so none of its words is ruled out." for name in found]


def _same_gold(config: GridConfig, lined: LinedYaml) -> list[str]:
    """Returns a warning for each test set whose sentences also choose the best model."""
    validation = config.gold.validation
    warnings = []
    for name, test in config.gold.test.items():
        same = (test.path, test.part, test.where) == (
            validation.path, validation.part, validation.where
        )  # fmt: skip
        if same:
            loc: Loc = ("gold", "test", name)
            where = lined.place(loc if loc in lined.places else loc[:2])
            warnings.append(
                f"{where}: {name} is the validation set itself, so its scores are too good; "
                "give each its own `part` or file."
            )
    return warnings


def _check_labels(config: GridConfig, lined: LinedYaml, faults: list[InputError]) -> None:
    types = config.types
    if not types:
        faults.append(
            InputError(
                "no identifier types are known",
                lined.place(("gold", "validation")),
                "Name dictionaries, or give gold.validation its labels.",
            )
        )
        return
    if not config.dictionaries:
        return
    sets: dict[Loc, Any] = {("gold", "validation"): config.gold.validation}
    if config.gold.train is not None:
        sets[("gold", "train")] = config.gold.train
    for name, gold in config.gold.test.items():
        single = ("gold", "test", name) not in lined.places
        sets[("gold", "test") if single else ("gold", "test", name)] = gold
    for loc, gold in sets.items():
        for label, name in (gold.labels or {}).items():
            if name not in types:
                faults.append(
                    InputError(
                        f"label {label!r} is mapped to {name!r}, which has no dictionary",
                        lined.place((*loc, "labels", label)),
                        did_you_mean(name, types),
                    )
                )
    for field_name in ("ceiling", "multiword_ambiguous"):
        value = getattr(config.annotation, field_name)
        for name in value if isinstance(value, dict) else ():
            if name not in types:
                faults.append(
                    InputError(
                        f"annotation.{field_name} names {name!r}, which is no type",
                        lined.place(("annotation", field_name, name)),
                        did_you_mean(name, types),
                    )
                )


def _cells(
    config: GridConfig, spaces: list[Axes], lined: LinedYaml
) -> tuple[list[Cell], list[str]]:
    """Returns the cells, each once, and what to tell the user about them."""
    total = sum(math.prod(len(values) for values in axes.values()) for axes in spaces)
    where = lined.place(("search", "space"))
    if total > MAX_CELLS:
        raise InputError(f"the space has {total:,} cells", where, f"Keep it below {MAX_CELLS:,}.")
    cells: dict[str, Cell] = {}
    duplicates = 0
    for axes in spaces:
        for point in points(axes):
            cell_config = _cell_config(point, lined)
            cell = Cell(cell_config, point, cell_config.training.source == "gold")
            duplicates += identity(cell) in cells
            cells.setdefault(identity(cell), cell)
    warnings = []
    if duplicates:
        noun = "cell is" if duplicates == 1 else "cells are"
        warnings.append(f"{where}: {duplicates} duplicate {noun} merged with equal ones.")
    for cell in list(cells.values()):
        training = cell.config.training
        if config.gold.train and training.upper_bound and not cell.upper_bound:
            bound = _upper_bound(cell)
            cells.setdefault(identity(bound), bound)
    return list(cells.values()), warnings


def _cell_config(point: dict[str, Any], lined: LinedYaml) -> GridConfig:
    """Returns the configuration of one point.

    Raises:
        InputError: values that are right one by one are wrong together.
    """
    try:
        return GridConfig.model_validate(with_values(lined.content, point))
    except (ValidationError, ValueError, IndexError, AttributeError, TypeError) as error:
        message = "they lead to no field of the grid"
        if isinstance(error, ValidationError):
            item = error.errors(include_url=False)[0]
            message = str(item.get("ctx", {}).get("error", item["msg"].lower()))
        together = ", ".join(f"{path}: {value}" for path, value in point.items())
        raise InputError(
            f"these values do not go together: {together[:200]}: {message}",
            lined.place(("search", "space")),
        ) from None


def _upper_bound(cell: Cell) -> Cell:
    """Returns the gold-trained cell of the same model settings and seed."""
    axes = {
        path: value
        for path, value in cell.axes.items()
        if path.startswith(("model.", "training.", "text.lowercase"))
        and path not in ("training.sentences", "training.source", "training.upper_bound")
    }
    training = cell.config.training.model_copy(update={"source": "gold", "sentences": None})
    return Cell(cell.config.model_copy(update={"training": training}), axes, upper_bound=True)


def identity(cell: Cell) -> str:
    """Returns what makes a cell differ from others, as text."""
    config = cell.config
    drop = {"name", "output", "search", "ray", "tracking"}
    if cell.upper_bound:
        drop |= {"dictionaries", "non_identifiers", "placeholders", "corpus", "annotation"}
    return config.model_dump_json(exclude=drop)


def flat_settings(cell: Cell) -> dict[str, Any]:
    """Returns the cell's settings by dotted path, without places and names of files."""
    drop = {
        "dictionaries",
        "non_identifiers",
        "placeholders",
        "gold",
        *(name for name in FIXED if "." not in name),
    }
    if cell.upper_bound:
        drop |= {"annotation", "corpus"}
    content = cell.config.model_dump(mode="json", exclude=drop)
    flat: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)
        else:
            flat[path] = value

    walk(content, "")
    for path in ("corpus.path", "corpus.text", "corpus.id", "documents.annotators"):
        flat.pop(path, None)
    for path in [path for path in flat if path.startswith("documents.")]:
        flat.pop(path)
    if cell.upper_bound:
        flat.pop("training.sentences", None)
    for path, value in cell.axes.items():
        # Axes outside these sections (a dictionary's scale, say) tell cells apart as well.
        if path not in flat and not path.endswith(".path") and not isinstance(value, dict):
            flat[path] = value
    return flat
