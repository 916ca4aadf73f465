"""The search space: dotted fields and their values, and the cells they span.

Source: INTERFACE, grid.yaml; METHOD §10.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from deidsearch.config.yaml_lines import is_index
from deidsearch.errors import did_you_mean

# Fields that say where and how to run or what to call it: they cannot make cells differ.
FIXED = ("name", "output", "task", "search", "ray", "tracking", "evaluation.resamples")
_SAMPLED = ("uniform", "log_uniform", "int")


def values_of(raw: Any) -> list[Any]:
    """Returns the values of one axis.

    ``[a, b, c]`` is a choice, ``{pow2: [0, 18]}`` the powers 2^0 ... 2^18 (a third number is the
    step), ``{range: [a, b, step]}`` an arithmetic row that includes b.

    Raises:
        ValueError: the axis has none of these forms, or is empty.

    >>> values_of({"pow2": [0, 6, 3]}), values_of({"range": [1, 2, 0.5]})
    ([1, 8, 64], [1, 1.5, 2.0])
    """
    if isinstance(raw, list):
        if not raw:
            raise ValueError("the list is empty. Give at least one value.")
        return raw
    if isinstance(raw, dict) and len(raw) == 1:
        ((kind, numbers),) = raw.items()
        if kind in _SAMPLED:
            raise ValueError(f"{{{kind}: ...}} is for search.method optuna; a grid needs values")
        if kind not in ("pow2", "range"):
            raise ValueError(f"unknown form {kind!r}. {did_you_mean(kind, ['pow2', 'range'])}")
        if not isinstance(numbers, list) or not all(
            isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers
        ):
            raise ValueError(f"{{{kind}: ...}} needs a list of numbers")
        if len(numbers) not in (2, 3):
            raise ValueError(f"{{{kind}: ...}} needs [first, last] or [first, last, step]")
        row = _row(*numbers)
        if kind == "range":
            return row
        if not all(-1000 <= exponent <= 1000 for exponent in row):
            raise ValueError("exponents go from -1000 to 1000")
        return [2**exponent if exponent >= 0 else 2.0**exponent for exponent in row]
    if isinstance(raw, (dict, type(None))):
        raise ValueError("write a list of values, {pow2: [a, b]} or {range: [a, b, step]}")
    return [raw]


def _row(first: float, last: float, step: float = 1) -> list[Any]:
    if not all(abs(number) < 1e300 for number in (first, last, step)):
        raise ValueError("its numbers must be finite")
    if not step > 0:
        raise ValueError(f"the step must be above 0, got {step!r}")
    if last < first:
        raise ValueError(f"the last value ({last!r}) is below the first ({first!r})")
    steps = (last - first) / step
    if steps > 10_000:
        raise ValueError("more than 10,000 values are too many for one axis")
    count = math.floor(steps + 1e-9) + 1
    return [first + number * step for number in range(count)]


def field_fault(path: str, model: type[BaseModel]) -> str | None:
    """Returns what is wrong with a dotted path, or None where it names a field."""
    if any(path == fixed or path.startswith(fixed + ".") for fixed in FIXED):
        return f"{path!r} cannot be an axis: it does not change what is computed"
    current: Any = model
    walked = ""
    for part in path.split("."):
        if isinstance(current, type) and issubclass(current, BaseModel):
            if part not in current.model_fields:
                inside = f" in {walked!r}" if walked else ""
                return f"unknown field {part!r}{inside}. {did_you_mean(part, current.model_fields)}"
            current = _model_in(current.model_fields[part].annotation)
        elif current is None:
            return f"{walked!r} has no field {part!r}"
        walked = f"{walked}.{part}" if walked else part
    return None


def _model_in(annotation: Any) -> Any:
    """Returns the section inside an annotation, ``dict`` for open mappings, None for values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if annotation is dict or getattr(annotation, "__origin__", None) in (dict, tuple):
        return dict
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def points(axes: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yields every combination of the axes' values, the last axis fastest."""
    names = list(axes)
    for combination in itertools.product(*axes.values()):
        yield dict(zip(names, combination, strict=True))


def with_values(content: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the grid's content with the point's values in their places."""
    changed = copy.deepcopy(dict(content))
    for path, value in point.items():
        *parents, last = path.split(".")
        current: Any = changed
        for part in parents:
            if isinstance(current, list) and is_index(part):
                current = current[int(part)]
                continue
            # A number where the path wants a mapping (ceiling: 512 -> ceiling.NAME) gives way.
            if not isinstance(current.get(part), (dict, list)):
                current[part] = {}
            current = current[part]
        if isinstance(current, list):
            current[int(last)] = value
        else:
            current[last] = value
    return changed
