"""The choice of the best setting: on validation, by the mean over its seeds (METHOD §10)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEED = "training.seed"
Result = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """One point of the grid without its seed, and its finished cells.

    Attributes:
        key: the settings without the seed, as one string.
        settings: dotted path to value, without the seed.
        cells: its finished results, in the order of their seeds.
        mean, low, high: mean, lowest and highest of the metric over the seeds.
        num_missing: seeds that failed or haven't run.
    """

    key: str
    settings: Mapping[str, Any]
    cells: tuple[Result, ...]
    mean: float
    low: float
    high: float
    num_missing: int
    best_cell: Result


@dataclass(frozen=True)
class Choice:
    """The settings from best to worst, and the gold-trained ones apart."""

    ranking: tuple[Setting, ...]
    upper_bounds: tuple[Setting, ...]
    metric: str

    @property
    def best(self) -> Setting | None:
        return self.ranking[0] if self.ranking else None


def metric_of(result: Result, metric: str) -> float | None:
    """Returns a score of a result by its path ("validation/f1"), None where undefined."""
    value: Any = result
    for part in metric.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return float(value) if isinstance(value, (int, float)) else None


def setting_key(settings: Mapping[str, Any]) -> str:
    """Returns the settings without the seed as one string, equal for equal settings."""
    rest = {path: value for path, value in settings.items() if path != SEED}
    return json.dumps(rest, sort_keys=True, ensure_ascii=False, default=str)


def choose(
    results: Iterable[Result], metric: str = "validation/f1", *, min_recall: float | None = None
) -> Choice:
    """Returns the ranking of settings by the mean of a validation metric over seeds.

    Of equal means the setting that comes first among the results wins. The cell to export is the
    setting's best seed on the same metric. Cells trained on human annotation are no contenders.

    Args:
        results: results of all cells, failed and pending ones too.
        metric: path into a result; only validation may choose.
        min_recall: leave out settings whose validation recall doesn't surely reach it, share
            0-1: the lower ends of the intervals count, in the mean over seeds.

    Raises:
        ValueError: the metric is not one of validation.
    """
    if not metric.startswith("validation/"):
        raise ValueError(f"the metric {metric!r} is not one of validation, which alone may choose")
    grouped: dict[tuple[bool, str], list[Result]] = {}
    for result in results:
        group = (bool(result.get("upper_bound")), setting_key(result["settings"]))
        grouped.setdefault(group, []).append(result)
    ranking: list[Setting] = []
    bounds: list[Setting] = []
    for (is_bound, key), cells in grouped.items():
        setting = _setting(key, cells, metric)
        if setting is None:
            continue
        if is_bound:
            bounds.append(setting)
        elif min_recall is None or _sure_recall(setting) >= min_recall:
            ranking.append(setting)
    ranking.sort(key=lambda setting: -setting.mean)
    bounds.sort(key=lambda setting: -setting.mean)
    return Choice(tuple(ranking), tuple(bounds), metric)


def _setting(key: str, cells: list[Result], metric: str) -> Setting | None:
    scored = [(metric_of(cell, metric), cell) for cell in cells if cell.get("state") == "done"]
    scores = [(value, cell) for value, cell in scored if value is not None]
    if not scores:
        return None
    scores.sort(key=lambda item: str(item[1]["settings"].get(SEED, "")).zfill(20))
    values = [value for value, _ in scores]
    rest = {path: value for path, value in cells[0]["settings"].items() if path != SEED}
    return Setting(
        key=key,
        settings=rest,
        cells=tuple(cell for _, cell in scores),
        mean=sum(values) / len(values),
        low=min(values),
        high=max(values),
        num_missing=len(cells) - len(scores),
        best_cell=max(scores, key=lambda item: item[0])[1],
    )


def _sure_recall(setting: Setting) -> float:
    """Returns the mean over seeds of the lower end of validation recall's interval."""
    recalls = []
    for cell in setting.cells:
        bounds = (cell["validation"].get("interval") or {}).get("recall")
        recall = metric_of(cell, "validation/recall") or 0.0
        recalls.append(float(bounds[0]) if bounds else recall)
    return sum(recalls) / len(recalls)
