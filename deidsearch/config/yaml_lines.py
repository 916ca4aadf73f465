"""Safe YAML that remembers the line of every key, and merges settings from the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deidsearch.errors import InputError

Loc = tuple[str | int, ...]
_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MOST_LEVELS, _MOST_VALUES = 30, 200_000
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass
class LinedYaml:
    """A YAML document as plain values, with the place of each of them.

    Attributes:
        content: the values.
        places: "file:line" (or "--set") of each key and list item, by path.
        unset: variables without a value and without a default, by name.
    """

    content: dict[str, Any]
    name: str
    places: dict[Loc, str] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)

    def place(self, loc: Sequence[str | int]) -> str:
        """Returns where a path stands, or its nearest enclosing key."""
        loc = tuple(loc)
        while loc and loc not in self.places:
            loc = loc[:-1]
        return self.places.get(loc, self.name)


def load_yaml(path: Path, overrides: Sequence[str] = ()) -> LinedYaml:
    """Returns the content of a YAML file with lines, after ``${VAR:-default}`` and overrides.

    Args:
        path: the file.
        overrides: "dotted.key=value" texts; values are read as YAML.

    Raises:
        InputError: no such file, not UTF-8, not YAML, a key given twice, a bad override.
    """
    name = path.name
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            "there is no such grid", where=str(path), mend="Write one with: deidsearch init"
        ) from None
    except IsADirectoryError:
        raise InputError("this is a folder", where=str(path), mend="Name the grid file.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start} is not UTF-8", where=name, mend="Save the file as UTF-8."
        ) from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or "not readable"
        raise InputError(
            f"not valid YAML: {problem}", where=where, mend="Check indentation and quotes there."
        ) from None
    except RecursionError:
        raise InputError("nested too deeply", name, "Write the grid flatter.") from None
    if not isinstance(node, yaml.MappingNode):
        raise InputError("a grid is a mapping of keys", where=name, mend="See: deidsearch init")
    lined = LinedYaml({}, name)
    faults: list[InputError] = []
    lined.content = _build(node, (), lined, faults)
    if faults:
        raise InputError.many(faults)
    for override in overrides:
        _override(lined, override)
    return lined


def _build(node: yaml.Node, loc: Loc, lined: LinedYaml, faults: list[InputError]) -> Any:
    where = f"{lined.name}:{node.start_mark.line + 1}"
    lined.places.setdefault(loc, where)
    # An alias that holds itself never ends, and a few nested ones can stand for billions of values.
    if len(loc) > _MOST_LEVELS or len(lined.places) > _MOST_VALUES:
        raise InputError("too many levels or values", where, "Take out nested aliases (*name).")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
        raise InputError(f"the tag {node.tag!r} is not allowed in a grid", where, "Take it out.")
    if isinstance(node, yaml.MappingNode):
        _note_duplicates(node, lined, faults)
        # Resolves merge keys (<<: *defaults): what is merged comes first, the own keys win.
        try:
            yaml.constructor.SafeConstructor().flatten_mapping(node)  # type: ignore[no-untyped-call]
        except (yaml.YAMLError, RecursionError):
            mend = "Write <<: *name of a mapping (&name) further up."
            raise InputError("<< merges something that is no mapping", where, mend) from None
        content: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node, f"{lined.name}:{key_node.start_mark.line + 1}")
            if not isinstance(key, (str, int, float, bool)):
                raise InputError("a key must be a plain word", where=where)
            # YAML 1.1 reads NO and ON as booleans; as keys they are words.
            key = key_node.value if isinstance(key, bool) else str(key)
            lined.places[(*loc, key)] = f"{lined.name}:{key_node.start_mark.line + 1}"
            content[key] = _build(value_node, (*loc, key), lined, faults)
        return content
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(item, (*loc, number), lined, faults) for number, item in enumerate(node.value)
        ]
    value = _scalar(node, where)
    return expand_variables(value, lined.unset) if isinstance(value, str) else value


def _note_duplicates(node: yaml.MappingNode, lined: LinedYaml, faults: list[InputError]) -> None:
    seen: set[str] = set()
    for key_node, _ in node.value:
        name = str(key_node.value)
        if name in seen:
            where = f"{lined.name}:{key_node.start_mark.line + 1}"
            faults.append(InputError(f"the key {name!r} is given twice", where=where))
        seen.add(name)


def _scalar(node: yaml.Node, where: str) -> Any:
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node, deep=True)  # type: ignore[no-untyped-call]
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # What looks like a date or a number (2026-13-45, 0b2) and is none is a ValueError.
        reason = getattr(error, "problem", None) or "it is neither a number, a date nor a word"
        raise InputError(
            f"this value cannot be used: {reason}", where, "Put it in quotes if it is text."
        ) from None
    finally:
        loader.dispose()  # type: ignore[no-untyped-call]
    # 1e-5 without a point is text in YAML 1.1, a number to everybody who writes it.
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def expand_variables(text: str, unset: set[str]) -> str:
    """Returns the text with ``${VAR}`` and ``${VAR:-default}`` replaced; notes unset names."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1]) or match[2]
        if found is None:
            unset.add(match[1])
            return match[0]
        return found

    return _VARIABLE.sub(value, text)


def is_index(part: str) -> bool:
    """Returns whether a part of a dotted path is the number of a list's item."""
    return part.isascii() and part.isdecimal() and len(part) < 10


def _override(lined: LinedYaml, text: str) -> None:
    key, equals, raw = text.partition("=")
    keys = key.strip().split(".")
    where = f"--set {key.strip()}"
    if not equals or not all(keys):
        raise InputError(f"{text!r} is not key=value", where="--set", mend="Write --set a.b=value.")
    if keys[0] != "search" and "[" in key:
        raise InputError("items of a list are counted with points", where, "Write NAME.0.path.")
    try:
        node = yaml.compose(raw, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        raise InputError("the value is not valid YAML", where=where) from None
    scratch = LinedYaml({}, where)
    faults: list[InputError] = []
    value = None if node is None else _build(node, (), scratch, faults)
    if faults:
        raise InputError.many(faults)
    lined.unset |= scratch.unset
    content: Any = lined.content
    # The keys of search.space are dotted paths themselves.
    if keys[:2] == ["search", "space"] and len(keys) > 2:
        keys = ["search", "space", ".".join(keys[2:])]
    loc: Loc = ()
    for part in keys[:-1]:
        step: str | int = int(part) if isinstance(content, list) and is_index(part) else part
        loc = (*loc, step)
        if isinstance(content, list) and isinstance(step, int) and step < len(content):
            content = content[step]
            continue
        if not isinstance(content, dict):
            raise InputError(f"{'.'.join(map(str, loc[:-1]))} has no parts", where=where)
        if not isinstance(content.get(part), (dict, list)):
            content[part] = {}
        content = content[part]
    if isinstance(content, dict):
        content[keys[-1]] = value
    elif isinstance(content, list) and is_index(keys[-1]) and int(keys[-1]) < len(content):
        content[int(keys[-1])] = value
    else:
        raise InputError("there is no such item in the list", where=where)
    lined.places[(*loc, keys[-1])] = where
