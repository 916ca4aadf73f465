"""What the figures draw: points by ceiling and by available sentences, from the results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deidsearch.evaluate.bootstrap import SentenceCounts, mean_interval
from deidsearch.evaluate.choice import SEED, Choice, Setting, metric_of

CEILING = "annotation.ceiling"
SENTENCES = "training.sentences"
Result = Mapping[str, Any]
CellCounts = Mapping[str, tuple[SentenceCounts, SentenceCounts | None]]


@dataclass(frozen=True)
class Score:
    """One system's F1 at one point: the mean over seeds, each seed, and the interval over
    sentences of that mean; shares 0-1.
    """

    mean: float
    seeds: tuple[float, ...]
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Point:
    """One value of an axis.

    Attributes:
        value: the setting as it stands in the grid.
        label: how the axis names it.
        model, dictionary: their scores, None where no cell finished or F1 is undefined.
        training_sentences, mentions: size of the training set, mean over seeds.
        is_best: True where it belongs to the chosen setting.
    """

    value: Any
    label: str
    model: Score | None
    dictionary: Score | None
    training_sentences: float | None
    mentions: float | None
    is_best: bool


@dataclass(frozen=True)
class Curve:
    """Points along one axis, all other settings held fixed.

    Attributes:
        fixed: the settings all points share.
        upper_bound: F1 of the same model trained on human annotation, None where there is none.
        holds_best: True where the chosen setting is one of the points.
    """

    axis: str
    set_name: str
    points: tuple[Point, ...]
    fixed: Mapping[str, Any]
    upper_bound: Score | None
    holds_best: bool

    @property
    def num_scored(self) -> int:
        return sum(point.model is not None for point in self.points)


def ceiling_label(value: Any) -> str:
    """Returns how a ceiling is named: "512", "none", "NAME 512, STREET 64"."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {ceiling_label(limit)}" for name, limit in value.items())
    return f"{value:,g}" if isinstance(value, float) and value != int(value) else f"{int(value):,}"


def by_ceiling(
    results: Sequence[Result],
    choice: Choice,
    set_name: str = "validation",
    counts: CellCounts | None = None,
) -> Curve | None:
    """Returns the curve over ceilings, or None where no cell has a ceiling.

    Of the slices through the grid (all settings but ceiling and seed equal) the one with the
    most ceilings is drawn; of several the one that holds the best setting.

    Args:
        results: all cells, failed ones too.
        choice: the ranking of the settings.
        set_name: "validation", "test" or a named test set.
        counts: per cell the sentence counts on this set, for intervals of means over seeds.
    """
    slices = _slices(results, CEILING)
    if not slices:
        return None
    best = choice.best
    best_rest = _rest(best.settings, CEILING) if best else None

    def rank(item: tuple[str, list[Result]]) -> tuple[int, bool, float]:
        rest, cells = item
        values = {_name(cell["settings"].get(CEILING)) for cell in cells}
        scores = [metric_of(cell, choice.metric) or 0.0 for cell in cells]
        return len(values), rest == best_rest, max(scores)

    rest, cells = max(slices.items(), key=rank)
    return _curve(cells, CEILING, set_name, choice, counts, rest == best_rest)


def by_sentences(
    results: Sequence[Result],
    choice: Choice,
    set_name: str = "validation",
    counts: CellCounts | None = None,
) -> list[Curve]:
    """Returns one curve over available sentences per ceiling, those with two sizes or more.

    Of the other settings those of the best setting hold, so curves differ in ceiling alone.
    """
    best = choice.best
    if best is None:
        return []
    kept = _rest(best.settings, CEILING, SENTENCES)
    cells = [r for r in results if _rest(r["settings"], CEILING, SENTENCES) == kept]
    curves = []
    for rest, members in _slices(cells, SENTENCES).items():
        sizes = {_name(cell["settings"].get(SENTENCES)) for cell in members}
        if len(sizes) < 2:
            continue
        holds = rest == _rest(best.settings, SENTENCES)
        curves.append(_curve(members, SENTENCES, set_name, choice, counts, holds))
    return sorted(curves, key=lambda curve: _order(curve.fixed.get(CEILING)))


def thinned(curves: Sequence[Curve], most: int = 7) -> list[Curve]:
    """Returns no more curves than a reader can tell apart, the best one's among them.

    The others are spread evenly over the rest, the lowest and highest ceilings included.
    """
    others = [curve for curve in curves if not curve.holds_best]
    room = most - (len(curves) - len(others))
    if len(others) > room:
        step = (len(others) - 1) / (room - 1)
        others = [others[round(place * step)] for place in range(room)]
    return [curve for curve in curves if curve.holds_best or curve in others]


def available_sentences(results: Iterable[Result], value: Any) -> float | None:
    """Returns how many sentences a cell had, where the setting may say null for all."""
    for result in results:
        if result["settings"].get(SENTENCES) == value and result.get("available_sentences"):
            return float(result["available_sentences"])
    return float(value) if isinstance(value, (int, float)) else None


def varied(results: Sequence[Result]) -> list[str]:
    """Returns the paths of the settings that differ between cells, ceiling and size first."""
    values: dict[str, set[str]] = {}
    contenders = [result for result in results if not result.get("upper_bound")]
    for result in contenders:
        for path, value in result["settings"].items():
            values.setdefault(path, set()).add(_name(value))
    # A path that some cells lack differs too.
    num_with = {path: sum(path in r["settings"] for r in contenders) for path in values}
    found = [p for p in values if len(values[p]) > 1 or num_with[p] < len(contenders)]
    first = [CEILING, SENTENCES]
    return [p for p in first if p in found] + [p for p in found if p not in first]


def is_log(curve: Curve) -> bool:
    """Returns whether the points stand by the logarithm of their value: all positive numbers,
    but for "none".
    """
    numbers = [point.value for point in curve.points if point.value is not None]
    return bool(numbers) and all(isinstance(v, (int, float)) and v > 0 for v in numbers)


def positions(curve: Curve) -> list[float]:
    """Returns where each point stands on the axis: log2 of numbers, else one by one.

    "none" (no ceiling) stands one step past the highest ceiling.
    """
    values = [point.value for point in curve.points]
    if not is_log(curve):
        return [float(place) for place in range(len(values))]
    places = [math.nan if value is None else math.log2(value) for value in values]
    known = [place for place in places if not math.isnan(place)]
    gaps = [b - a for a, b in zip(known, known[1:], strict=False)]
    step = min(gaps) if gaps else 1.0
    return [known[-1] + 1.5 * step if math.isnan(place) else place for place in places]


def _slices(results: Iterable[Result], axis: str) -> dict[str, list[Result]]:
    """Returns the contenders' cells grouped by all settings but one axis and the seed."""
    slices: dict[str, list[Result]] = {}
    for result in results:
        if not result.get("upper_bound") and axis in result["settings"]:
            slices.setdefault(_rest(result["settings"], axis), []).append(result)
    return slices


def _curve(
    cells: Sequence[Result],
    axis: str,
    set_name: str,
    choice: Choice,
    counts: CellCounts | None,
    holds_best: bool,
) -> Curve:
    groups: dict[str, list[Result]] = {}
    for cell in cells:
        groups.setdefault(_name(cell["settings"].get(axis)), []).append(cell)
    best_value = _name(choice.best.settings.get(axis)) if choice.best and holds_best else None
    points = []
    for name, members in groups.items():
        value = members[0]["settings"].get(axis)
        done = [cell for cell in members if cell.get("state") == "done"]
        size = available_sentences(members, value) if axis == SENTENCES else None
        points.append(
            Point(
                value=value if axis == CEILING else size,
                label=ceiling_label(value if axis == CEILING else size),
                model=_score(done, set_name, counts, 0),
                dictionary=_score(done, set_name, counts, 1),
                training_sentences=_mean(done, "training_sentences"),
                mentions=_mean(done, "mentions"),
                is_best=name == best_value,
            )
        )
    points.sort(key=lambda point: _order(point.value))
    fixed = {
        path: value for path, value in cells[0]["settings"].items() if path not in (axis, SEED)
    }
    bound = _upper_bound(fixed, set_name, choice)
    return Curve(axis, set_name, tuple(points), fixed, bound, holds_best)


def _upper_bound(fixed: Mapping[str, Any], set_name: str, choice: Choice) -> Score | None:
    """Returns the gold-trained score of the same model, the best one where none is the same."""
    if not choice.upper_bounds:
        return None

    def agreement(setting: Setting) -> int:
        paths = [p for p in setting.settings if p.startswith(("model.", "training."))]
        return sum(setting.settings[path] == fixed.get(path) for path in paths)

    # max() keeps the first of equals, and they come from best to worst.
    return _score(max(choice.upper_bounds, key=agreement).cells, set_name, None, 0)


def block_of(result: Result, set_name: str, system: int = 0) -> Mapping[str, Any] | None:
    """Returns a result's scores on a set: of the model (0) or of the dictionary (1)."""
    home: Any = result if system == 0 else result.get("dictionary") or {}
    block = home.get(set_name)
    if block is None:
        block = (home.get("tests") or {}).get(set_name)
    return block if isinstance(block, Mapping) else None


def _score(
    cells: Iterable[Result], set_name: str, counts: CellCounts | None, system: int
) -> Score | None:
    found = []
    for cell in cells:
        block = block_of(cell, set_name, system)
        if block and block.get("f1") is not None:
            found.append((cell, block))
    if not found:
        return None
    seeds = tuple(float(block["f1"]) for _, block in found)
    pairs = [(counts or {}).get(cell.get("cell", "")) for cell, _ in found]
    known = [pair[system] for pair in pairs if pair is not None]
    per_seed = [one for one in known if one is not None]
    bounds: Sequence[float] | None = None
    if len(per_seed) == len(found):
        bounds = mean_interval(per_seed, resamples=1000)
    else:
        # Without counts: the mean of the seeds' own bounds.
        own = [(block.get("interval") or {}).get("f1") for _, block in found]
        whole = [pair for pair in own if pair]
        if len(whole) == len(found):
            bounds = [sum(pair[side] for pair in whole) / len(whole) for side in (0, 1)]
    return Score(sum(seeds) / len(seeds), seeds, None if bounds is None else (bounds[0], bounds[1]))


def _mean(cells: Sequence[Result], field: str) -> float | None:
    values = [cell[field] for cell in cells if cell.get(field) is not None]
    return sum(values) / len(values) if values else None


def _name(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _rest(settings: Mapping[str, Any], *axes: str) -> str:
    return _name({p: v for p, v in settings.items() if p not in (*axes, SEED)})


def _order(value: Any) -> tuple[int, float, str]:
    """Returns a sorting key: numbers ascending, then ceilings per type, no ceiling last."""
    if isinstance(value, (int, float)):
        return 0, float(value), ""
    return (2, 0.0, "") if value is None else (1, 0.0, _name(value))
