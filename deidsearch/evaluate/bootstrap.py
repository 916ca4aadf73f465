"""Bootstrap intervals over sentences, and paired differences between systems.

Source: METHOD §9. A resample draws as many sentences as the set has, with replacement, and the
scores come from the pooled counts of the drawn sentences. All systems compared meet the same
resamples, so what makes a sentence hard cancels out of a difference.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.files import load_arrays, save_arrays

Floats = npt.NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95
METRICS = ("precision", "recall", "f1")
# Weights of this many (resample, sentence) pairs are held at once: 32 MB.
_BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class SentenceCounts:
    """Counts of strict matches per sentence.

    Attributes:
        tp: int32 ``(sentences,)`` predicted mentions that are right.
        positives: int32 ``(sentences,)`` predicted mentions.
        support: int32 ``(sentences,)`` gold mentions.
    """

    tp: npt.NDArray[np.int32]
    positives: npt.NDArray[np.int32]
    support: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        assert self.tp.shape == self.positives.shape == self.support.shape

    def __len__(self) -> int:
        return len(self.tp)


def save_counts(
    folder: Path | str, model: SentenceCounts, dictionary: SentenceCounts | None = None
) -> Path:
    """Returns the folder, which holds the counts of a cell (``counts-<set>`` beside its result)."""
    arrays = {"tp": model.tp, "positives": model.positives, "support": model.support}
    if dictionary is not None:
        arrays["dictionary_tp"] = dictionary.tp
        arrays["dictionary_positives"] = dictionary.positives
    return save_arrays(folder, **arrays)


def load_counts(folder: Path | str) -> tuple[SentenceCounts, SentenceCounts | None]:
    """Returns the counts of the model and, where they were saved, of its dictionary.

    Raises:
        FileNotFoundError: the folder holds no counts.
    """
    arrays = load_arrays(folder, mmap=False)
    if "tp" not in arrays:
        raise FileNotFoundError(f"{folder}: no counts here")
    model = SentenceCounts(arrays["tp"], arrays["positives"], arrays["support"])
    if "dictionary_tp" not in arrays:
        return model, None
    dictionary = SentenceCounts(
        arrays["dictionary_tp"], arrays["dictionary_positives"], arrays["support"]
    )
    return model, dictionary


def resampled(
    systems: Sequence[SentenceCounts],
    metric: str = "f1",
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Floats:
    """Returns the metric of each system in each resample, ``(resamples, systems)``.

    NaN where it is 0/0 in a resample. The resamples depend on the seed and on the number of
    sentences only, so two calls over the same set are paired too.
    """
    totals = _resampled_totals(systems, resamples, seed)
    return _scores(totals[..., 0], totals[..., 1], totals[..., 2], metric)


def interval(
    counts: SentenceCounts,
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
    level: float = LEVEL,
) -> dict[str, Any]:
    """Returns the percentile interval of precision, recall and F1.

    ``{"f1": [low, high], ..., "level": 0.95, "resamples": 2000, "seed": 1}``; None in place of a
    pair where the score itself is undefined. Resamples in which it is 0/0 are left out.
    """
    totals = _resampled_totals([counts], resamples, seed)[:, 0]
    whole = np.array([counts.tp.sum(), counts.positives.sum(), counts.support.sum()], np.float64)
    result: dict[str, Any] = {}
    for metric in METRICS:
        values = _scores(totals[:, 0], totals[:, 1], totals[:, 2], metric)
        point = _scores(whole[0], whole[1], whole[2], metric)
        result[metric] = None if np.isnan(point) else _quantiles(values, level)
    return {**result, "level": level, "resamples": resamples, "seed": seed}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one system lies above another on the same sentences.

    Attributes:
        value: first minus second, on the whole set; None where either is undefined.
        low, high: bounds of the paired interval.
        is_clear: True where the interval excludes 0: only then is one called better.
    """

    value: float | None
    low: float | None
    high: float | None

    @property
    def is_clear(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_json(self) -> dict[str, Any]:
        """Returns ``{"value", "interval": [low, high] or None, "is_clear"}``."""
        bounds = None if self.low is None else [self.low, self.high]
        return {"value": self.value, "interval": bounds, "is_clear": self.is_clear}


def paired_difference(
    first: SentenceCounts | Sequence[SentenceCounts],
    second: SentenceCounts | Sequence[SentenceCounts],
    metric: str = "f1",
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
    level: float = LEVEL,
) -> Difference:
    """Returns the difference of two systems with its paired interval.

    A sequence holds one system's seeds: its metric is their mean within each resample.
    """
    systems = {"first": _as_seeds(first), "second": _as_seeds(second)}
    found = against(systems, "first", metric, resamples=resamples, seed=seed, level=level)
    return found["second"]


def against(
    systems: Mapping[str, Sequence[SentenceCounts]],
    reference: str,
    metric: str = "f1",
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
    level: float = LEVEL,
) -> dict[str, Difference]:
    """Returns how far the reference lies above each other system, by its name.

    Args:
        systems: per system the counts of each of its seeds, all on the same sentences.
        reference: name of the system the others are held against (the best one, mostly).
        metric: "precision", "recall" or "f1".
        resamples, seed, level: as in `interval`.
    """
    flat = [counts for seeds in systems.values() for counts in seeds]
    values = resampled(flat, metric, resamples=resamples, seed=seed)
    whole = np.array(
        [[c.tp.sum(), c.positives.sum(), c.support.sum()] for c in flat], dtype=np.float64
    ).reshape(-1, 3)
    points = _scores(whole[:, 0], whole[:, 1], whole[:, 2], metric)
    # A seed that is undefined makes its system's mean undefined: it isn't quietly left out.
    drawn, point, first = {}, {}, 0
    for name, seeds in systems.items():
        columns = slice(first, first + len(seeds))
        drawn[name] = values[:, columns].mean(axis=1)
        point[name] = float(points[columns].mean())
        first += len(seeds)
    result = {}
    for name in systems:
        if name == reference:
            continue
        value = point[reference] - point[name]
        bounds = None if np.isnan(value) else _quantiles(drawn[reference] - drawn[name], level)
        result[name] = (
            Difference(None, None, None) if bounds is None else Difference(value, *bounds)
        )
    return result


def mean_interval(
    seeds: Sequence[SentenceCounts],
    metric: str = "f1",
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
    level: float = LEVEL,
) -> list[float] | None:
    """Returns the interval over sentences of the mean over a setting's seeds, or None."""
    values = resampled(seeds, metric, resamples=resamples, seed=seed).mean(axis=1)
    return _quantiles(values, level)


def _as_seeds(counts: SentenceCounts | Sequence[SentenceCounts]) -> Sequence[SentenceCounts]:
    return [counts] if isinstance(counts, SentenceCounts) else counts


def _resampled_totals(systems: Sequence[SentenceCounts], resamples: int, seed: int) -> Floats:
    """Returns pooled (tp, positives, support), ``(resamples, systems, 3)``."""
    sizes = {len(counts) for counts in systems}
    if len(sizes) != 1:
        raise ValueError(f"systems on sets of different sizes: {sorted(sizes)} sentences")
    columns = np.stack(
        [column for c in systems for column in (c.tp, c.positives, c.support)], axis=1
    ).astype(np.float64)
    size = sizes.pop()
    is_small = size * resamples <= _BLOCK
    drawn = _kept_weights(size, resamples, seed) if is_small else _weights(size, resamples, seed)
    blocks = [weights @ columns for weights in drawn]
    return np.concatenate(blocks).reshape(resamples, len(systems), 3)


@functools.lru_cache(maxsize=2)
def _kept_weights(num_sentences: int, resamples: int, seed: int) -> list[Floats]:
    """Returns the weights as a list: the cells of a sweep all meet the same draws."""
    return list(_weights(num_sentences, resamples, seed))


def _weights(num_sentences: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yields how often each sentence is drawn, ``(some resamples, sentences)``."""
    rng = np.random.default_rng(seed)
    size = max(1, _BLOCK // max(1, num_sentences))
    for first in range(0, resamples, size):
        rows = min(size, resamples - first)
        if not num_sentences:
            yield np.zeros((rows, 0))
            continue
        drawn = rng.integers(0, num_sentences, size=(rows, num_sentences))
        drawn += np.arange(rows)[:, None] * num_sentences
        counted = np.bincount(drawn.ravel(), minlength=rows * num_sentences)
        yield counted.reshape(rows, num_sentences).astype(np.float64)


def _scores(tp: Floats, positives: Floats, support: Floats, metric: str) -> Floats:
    """Returns the metric elementwise, NaN where it is 0/0."""
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}, choose from {', '.join(METRICS)}")
    over, under = {
        "precision": (tp, positives),
        "recall": (tp, support),
        "f1": (2 * tp, positives + support),
    }[metric]
    with np.errstate(invalid="ignore"):
        return np.where(under > 0, over / np.where(under > 0, under, 1), np.nan)


def _quantiles(values: Floats, level: float) -> list[float] | None:
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return [float(low), float(high)]
