"""Recall at a chosen precision, and the reverse, from the scores of the predicted spans.

Source: METHOD §9. Who de-identifies wants recall. The threshold on the span score is found on
validation and then used as it is on test: a threshold chosen on test would flatter it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.evaluate.metrics import GoldMentions, score
from deidsearch.records import SpanTable

PRECISIONS = (0.90, 0.95, 0.99)
RECALLS = (0.90, 0.95, 0.99)
BETAS = (0.5, 2.0)


def operating_points(
    gold: GoldMentions,
    pred: SpanTable,
    *,
    precisions: Sequence[float] = PRECISIONS,
    recalls: Sequence[float] = RECALLS,
) -> list[dict[str, Any]]:
    """Returns for each target the threshold that serves it best, with the scores it gives.

    For a precision target: of the thresholds that reach it the one of highest recall. For a
    recall target: of those that reach it the one of highest precision. ``threshold`` is None
    where none reaches it.
    """
    if pred.score is None or not len(pred):
        return [
            _point(name, target, None, None, None)
            for name, targets in (("precision", precisions), ("recall", recalls))
            for target in targets
        ]
    threshold, precision, recall = curve(gold, pred)
    rows = []
    for name, targets, reached, other in (
        ("precision", precisions, precision, recall),
        ("recall", recalls, recall, precision),
    ):
        for target in targets:
            enough = np.flatnonzero(reached >= target)
            if not len(enough):
                rows.append(_point(name, target, None, None, None))
                continue
            best = enough[np.argmax(other[enough])]
            rows.append(
                _point(
                    name,
                    target,
                    float(threshold[best]),
                    float(precision[best]),
                    float(recall[best]),
                )
            )
    return rows


def curve(
    gold: GoldMentions, pred: SpanTable
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns thresholds from high to low with the precision and recall of spans at or above.

    Recall is 0 throughout where there is no gold mention.
    """
    assert pred.score is not None
    order = np.argsort(-pred.score, kind="stable")
    right = _is_right(gold, pred)[order]
    scores = pred.score[order]
    # Spans of equal score enter together: a threshold can't part them.
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    tp = np.cumsum(right)[ends]
    return scores[ends], tp / (ends + 1), tp / max(1, len(gold))


def at_threshold(
    gold: GoldMentions, pred: SpanTable, types: Sequence[str], points: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns the scores on another set at the thresholds found on validation."""
    rows = []
    for point in points:
        threshold = point["threshold"]
        if threshold is None or pred.score is None:
            rows.append(_point(point["metric"], point["target"], threshold, None, None))
            continue
        kept = score(gold, pred.take(pred.score >= np.float32(threshold)), types).overall
        rows.append(
            _point(point["metric"], point["target"], threshold, kept.precision, kept.recall)
        )
    return rows


def _point(
    metric: str,
    target: float,
    threshold: float | None,
    precision: float | None,
    recall: float | None,
) -> dict[str, Any]:
    return {
        "metric": metric,
        "target": target,
        "threshold": threshold,
        "precision": precision,
        "recall": recall,
    }


def _is_right(gold: GoldMentions, pred: SpanTable) -> npt.NDArray[np.bool_]:
    """Returns which predictions equal a gold mention, ``(spans,)``."""
    wanted = SpanTable.build(gold.sentence, gold.start_token, gold.end_token, gold.label)
    keys = {row for row in wanted.keys().tolist() if row[1] >= 0}
    return np.fromiter((row in keys for row in pred.keys().tolist()), bool, len(pred))
