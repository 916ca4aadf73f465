"""The report's numbers as CSV: every cell, and the points of each figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deidsearch.report.data import CEILING, Curve, Result, Score, block_of

SCORES = ("precision", "recall", "f1")


def cells_csv(results: Sequence[Result], set_names: Sequence[str]) -> str:
    """Returns one row per cell: state, settings, scores of model and dictionary with bounds.

    An undefined score is an empty field; so is one of a cell that hasn't finished.
    """
    paths = list(dict.fromkeys(path for result in results for path in result["settings"]))
    systems = (("", 0), ("dictionary/", 1))
    scores = [
        (f"{prefix}{name}/{metric}", name, system, metric)
        for prefix, system in systems
        for name in set_names
        for metric in SCORES
    ]
    head = ["cell", "training", "state", "reason", "upper_bound", *paths]
    head += ["available_sentences", "training_sentences", "mentions", "seconds"]
    for column, _, _, metric in scores:
        head.append(column)
        if metric == "f1":
            head += [f"{column}/low", f"{column}/high"]
    rows = []
    for result in results:
        row = [result.get(name) for name in ("cell", "training", "state", "reason")]
        row.append(bool(result.get("upper_bound")))
        row += [result["settings"].get(path, "") for path in paths]
        row += [
            result.get(name)
            for name in ("available_sentences", "training_sentences", "mentions", "seconds")
        ]
        for _, name, system, metric in scores:
            block = block_of(result, name, system) or {}
            row.append(block.get(metric))
            if metric == "f1":
                low_high = (block.get("interval") or {}).get("f1") or (None, None)
                row += list(low_high)
        rows.append(row)
    return _csv(head, rows)


def curves_csv(curves: Iterable[Curve]) -> str:
    """Returns one row per point, system and set of a figure."""
    head = [
        "set", "ceiling", "available_sentences", "system", "mean_f1", "low", "high",
        "lowest_seed", "highest_seed", "seeds", "training_sentences", "mentions", "best",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for curve in curves:
        for point in curve.points:
            is_ceiling = curve.axis == CEILING
            ceiling = point.value if is_ceiling else curve.fixed.get(CEILING)
            size = curve.fixed.get("training.sentences") if is_ceiling else point.value
            where = [curve.set_name, "none" if ceiling is None else ceiling]
            where.append("all" if size is None else size)
            tail = [point.training_sentences, point.mentions, point.is_best]
            for system, score in (("model", point.model), ("dictionary", point.dictionary)):
                rows.append([*where, system, *_score_fields(score), *tail])
        if curve.upper_bound is not None:
            row = [curve.set_name, "", "", "trained on gold", *_score_fields(curve.upper_bound)]
            rows.append([*row, None, None, False])
    return _csv(head, rows)


def _score_fields(score: Score | None) -> list[Any]:
    if score is None:
        return [None] * 6
    low, high = score.interval or (None, None)
    return [score.mean, low, high, min(score.seeds), max(score.seeds), len(score.seeds)]


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_field(value) for value in row] for row in rows)
    return buffer.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        # A spreadsheet would run it as a formula.
        return "'" + value
    return value
