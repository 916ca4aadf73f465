"""Sentences with token spans as JSON Lines, and PURE's own documents.

A sentence: ``{"id", "tokens", "ner": [[first, last_inclusive, "TYPE"]]}``. A document of PURE:
``{"doc_key", "sentences": [[token, ...], ...], "ner": [[[first, last_inclusive, "TYPE"], ...],
...]}`` with token numbers that run through the whole document. Inside deidsearch ends are
exclusive and count from the sentence. Source: PURE.md, Zhong & Chen 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deidsearch.errors import InputError
from deidsearch.formats.jsonl import is_new, parse_id
from deidsearch.formats.labelled import LabelledTokens, TokenSpan
from deidsearch.formats.lines import (
    FaultList,
    json_kind,
    open_output,
    read_objects,
    to_json_line,
    without_surrogates,
)


def read_pure(path: Path | str, *, need_spans: bool = False) -> Iterator[LabelledTokens]:
    """Yields the sentences of a file; faults are raised together after the last one.

    Args:
        path: the file.
        need_spans: a record without the key "ner" is a fault (it may be unannotated).

    Raises:
        InputError: lists the faults, each with its line.
    """
    faults = FaultList()
    name = Path(path).name
    seen: dict[str, int] = {}
    for line, record in read_objects(path, faults):
        sentences = parse_pure(record, f"{name}:{line}", faults, need_spans)
        if sentences is None:
            continue
        identity = sentences[0].document or sentences[0].id if sentences else None
        if identity is None or is_new(identity, line, name, seen, faults):
            yield from sentences
    faults.raise_if_any()


def is_pure(record: Mapping[str, Any]) -> bool:
    """Returns whether an object holds tokens rather than text."""
    return "text" not in record and ("tokens" in record or "sentences" in record)


def parse_pure(
    record: Mapping[str, Any], where: str, faults: FaultList, need_spans: bool = False
) -> list[LabelledTokens] | None:
    """Returns the sentences of a JSON object, or None after its faults are told."""
    if "sentences" in record:
        return _parse_document(record, where, faults, need_spans)
    before = faults.total
    identity = parse_id(record, "id", where, faults)
    tokens = _parse_tokens(record.get("tokens"), "'tokens'", where, faults)
    ner = _parse_ner(record, where, faults, need_spans)
    if faults.total > before or identity is None or tokens is None or ner is None:
        return None
    spans = _parse_spans(ner, 0, tokens, "", where, faults)
    if faults.total > before:
        return None
    return [LabelledTokens(identity, tokens, spans)]


def _parse_document(
    record: Mapping[str, Any], where: str, faults: FaultList, need_spans: bool
) -> list[LabelledTokens] | None:
    before = faults.total
    key = "doc_key" if "doc_key" in record or "id" not in record else "id"
    identity = parse_id(record, key, where, faults)
    raw = record["sentences"]
    if not isinstance(raw, list):
        faults.add(InputError(f"'sentences' must be a list, got {json_kind(raw)}", where))
        return None
    ner = _parse_ner(record, where, faults, need_spans)
    if ner and len(ner) != len(raw):
        what = f"'ner' has {len(ner)} lists, 'sentences' has {len(raw)}"
        faults.add(InputError(what, where, "Write one list a sentence."))
        return None
    sentences = []
    first = 0
    for number, words in enumerate(raw):
        place = f"sentence {number + 1}, "
        tokens = _parse_tokens(words, f"sentence {number + 1}", where, faults)
        if tokens is None:
            return None
        own = ner[number] if ner else []
        if not isinstance(own, list):
            what = f"{place}'ner' must be a list, got {json_kind(own)}"
            faults.add(InputError(what, where))
            return None
        spans = _parse_spans(own, first, tokens, place, where, faults)
        if faults.total == before and identity is not None:
            sentences.append(LabelledTokens(f"{identity}-{number}", tokens, spans, identity))
        first += len(tokens)
    return sentences if faults.total == before else None


def _parse_tokens(value: Any, what: str, where: str, faults: FaultList) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return tuple(without_surrogates(token) for token in value)
    if value is None:
        faults.add(InputError(f"the key {what} is missing", where))
    else:
        faults.add(InputError(f"{what} must be a list of strings", where))
    return None


def _parse_ner(
    record: Mapping[str, Any], where: str, faults: FaultList, need_spans: bool
) -> list[Any] | None:
    ner = record.get("ner")
    if ner is None:
        # Text without labels is normal input, but not where gold is expected.
        if need_spans:
            mend = 'Write "ner": [] where a sentence has no mention.'
            faults.add(InputError("the key 'ner' is missing", where, mend))
        return []
    if not isinstance(ner, list):
        faults.add(InputError(f"'ner' must be a list, got {json_kind(ner)}", where))
        return None
    return ner


def _parse_spans(
    ner: list[Any], first: int, tokens: Sequence[str], place: str, where: str, faults: FaultList
) -> tuple[TokenSpan, ...]:
    """Returns the spans of one sentence whose first token has the number ``first``."""
    spans = []
    for number, entry in enumerate(ner, 1):
        shown = f"{place}span {number}"
        if not isinstance(entry, list) or len(entry) < 3:
            faults.add(InputError(f"{shown} must be [first, last, type]", where))
            continue
        start, last, label = entry[:3]
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (start, last))
        if not whole or not isinstance(label, str) or not label:
            faults.add(InputError(f"{shown} must be [first, last, type]", where))
        elif not first <= start <= last < first + len(tokens):
            what = f"{shown} covers tokens {start} to {last}"
            what += f", the sentence has {first} to {first + len(tokens) - 1}"
            faults.add(InputError(what, where, "Both ends are inclusive and count from 0."))
        elif not "".join(tokens[start - first : last - first + 1]).strip():
            faults.add(InputError(f"{shown} covers blank tokens only", where))
        else:
            spans.append(TokenSpan(start - first, last - first + 1, label))
    return tuple(spans)


def write_pure(path: Path | str, sentences: Iterable[LabelledTokens]) -> int:
    """Returns the number of sentences written, one a line, ends inclusive."""
    count = 0
    with open_output(path) as out:
        for sentence in sentences:
            ner = [[span.start_token, span.end_token - 1, span.label] for span in sentence.spans]
            record = {"id": sentence.id, "tokens": list(sentence.tokens), "ner": ner}
            out.write(to_json_line(record))
            count += 1
    return count
