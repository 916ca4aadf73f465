"""From scored spans to predictions: greedily without overlap, or each span by itself.

Source: PURE.md, "decoding". The reference keeps overlapping predictions ("independent").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.records import SpanTable

DECODINGS = ("greedy", "independent")


def decode(spans: SpanTable, how: str = "greedy") -> SpanTable:
    """Returns the predictions among scored candidates.

    ``greedy`` takes spans by falling score and skips what overlaps one taken before; equal scores
    go to the span that starts first, then to the longer one. So the predictions above a threshold
    are the same whether the candidates or the predictions are cut at it.

    Args:
        spans: candidates with scores, none of them "none".
        how: ``greedy`` or ``independent``.
    """
    if how not in DECODINGS:
        raise ValueError(f"unknown decoding {how!r}, choose from {', '.join(DECODINGS)}")
    if how == "independent" or len(spans) < 2:
        return spans
    assert spans.score is not None
    keep = _is_alone(spans)
    rest = np.flatnonzero(~keep)
    order = np.lexsort(
        (
            spans.label[rest],
            -spans.end_token[rest],
            spans.start_token[rest],
            spans.sentence[rest],
            -spans.score[rest].astype(np.float64),
        )
    )
    taken: dict[int, list[tuple[int, int]]] = {}
    rest = rest[order]
    for row, sentence, start, end in zip(
        rest.tolist(),
        spans.sentence[rest].tolist(),
        spans.start_token[rest].tolist(),
        spans.end_token[rest].tolist(),
        strict=True,
    ):
        others = taken.setdefault(sentence, [])
        if all(end <= other_start or other_end <= start for other_start, other_end in others):
            others.append((start, end))
            keep[row] = True
    return spans.take(keep)


def _is_alone(spans: SpanTable) -> npt.NDArray[np.bool_]:
    """Returns which spans of a sorted table overlap no other, ``(spans,)``."""
    # On one line where sentences follow each other with a gap, a running maximum finds overlaps.
    stride = int(spans.end_token.max()) + 1
    base: npt.NDArray[Any] = spans.sentence.astype(np.int64) * stride
    start, end = base + spans.start_token, base + spans.end_token
    reach = np.maximum.accumulate(end)
    apart = start[1:] >= reach[:-1]
    return np.append(True, apart) & np.append(apart, True)
