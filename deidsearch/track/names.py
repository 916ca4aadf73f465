"""How settings, epochs and results are named where a sweep is tracked."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from typing import Any

# The settings that may leave the output folder: none of them is text, a word list or a data path.
_PUBLIC = (
    "annotation.",
    "documents.",
    "evaluation.",
    "model.",
    "search.",
    "text.",
    "training.",
    "corpus.sample",
    "corpus.seed",
)
MAX_PARAM = 500  # characters; a longer one goes to an artifact


def run_name(cell: str, params: Mapping[str, Any]) -> str:
    """Returns a name that a reader can place: ceiling, sentences and seed where known.

    >>> run_name("9f3a", {"annotation.ceiling": 512.0, "training.seed": 1})
    'ceiling=512 seed=1'
    """
    parts = []
    for key, short in (
        ("annotation.ceiling", "ceiling"),
        ("training.sentences", "sentences"),
        ("training.seed", "seed"),
    ):
        value = params.get(key)
        if isinstance(value, (int, float)):
            parts.append(f"{short}={value:g}" if value < 1e6 else f"{short}={int(value)}")
    if params.get("training.source") == "gold":
        parts.insert(0, "gold")
    return " ".join(parts) or cell


def metric_name(name: str) -> str:
    """Returns the name with what MLflow does not take in it replaced."""
    clean = re.sub(r"[^\w.\- :/]", "_", name)
    return posixpath.normpath(clean).lstrip("/") or "_"


def public_settings(settings: Mapping[str, Any], log_text: bool = False) -> dict[str, str]:
    """Returns the settings that may be shown as parameters, as text.

    Paths of data and word lists are left out unless ``log_text`` is true.

    >>> public_settings({"annotation.ceiling": 512.0, "corpus.path": "notes.csv"})
    {'annotation.ceiling': '512.0'}
    """
    shown = {}
    for name, value in settings.items():
        if log_text or name.startswith(_PUBLIC):
            shown[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return shown


def setting_metrics(settings: Mapping[str, Any]) -> dict[str, float]:
    """Returns ceiling and sentences as numbers: as parameters they would sort as text.

    >>> setting_metrics({"annotation.ceiling": {"NAME": 512, "STREET": 64}})
    {'annotation.ceiling/NAME': 512.0, 'annotation.ceiling/STREET': 64.0}
    """
    metrics: dict[str, float] = {}
    for name in ("annotation.ceiling", "training.sentences"):
        value = settings.get(name)
        if isinstance(value, Mapping):
            for label, number in value.items():
                _put(metrics, f"{name}/{label}", number)
        else:
            _put(metrics, name, value)
    return metrics


def epoch_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns one epoch's metrics under their tracked names; undefined ones are left out."""
    names = {
        "loss": "train/loss",
        "train_loss": "train/loss",
        "f1": "validation/f1",
        "validation_f1": "validation/f1",
        "seconds": "train/seconds",
    }
    metrics: dict[str, float] = {}
    for name, value in record.items():
        if name in names:
            _put(metrics, names[name], value)
        elif "/" in name:
            _put(metrics, name, value)
    return metrics


def result_metrics(result: Mapping[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Returns a result's metrics by tracked name, and the names of the undefined ones."""
    metrics: dict[str, float] = {}
    undefined: list[str] = []
    parts: dict[str, Any] = {name: result.get(name) for name in ("validation", "test")}
    for name, scores in (result.get("tests") or {}).items():
        # The first test set is `test` already.
        parts.setdefault(f"tests/{name}", scores)
    for name, scores in (result.get("dictionary") or {}).items():
        parts[f"dictionary/{name}"] = scores
    for part, scores in parts.items():
        if not isinstance(scores, Mapping):
            continue
        for measure in ("precision", "recall", "f1"):
            if measure in scores:
                _put(metrics, f"{part}/{measure}", scores[measure], undefined)
        for label, by_type in (scores.get("per_type") or {}).items():
            if isinstance(by_type, Mapping) and "f1" in by_type:
                _put(metrics, f"{part}/{label}/f1", by_type["f1"], undefined)
    for name in ("training_sentences", "mentions", "seconds"):
        _put(metrics, name, result.get(name))
    return metrics, undefined


def _put(
    metrics: dict[str, float], name: str, value: Any, undefined: list[str] | None = None
) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        metrics[name] = float(value)
    elif undefined is not None:
        undefined.append(name)
