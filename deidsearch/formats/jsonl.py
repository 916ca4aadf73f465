"""Documents with spans as JSON Lines: ``{"id", "text", "spans": [{"start", "end", "label"}]}``.

Offsets are Unicode code points of the text as given, end exclusive. Other keys of a document are
kept untouched; other keys of a span can be asked for with ``where``. Gzip by ending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deidsearch.errors import InputError
from deidsearch.formats.lines import (
    FaultList,
    json_kind,
    open_output,
    read_objects,
    to_json_line,
    without_surrogates,
)
from deidsearch.records import Document, Span


class SpanFilter:
    """Keeps spans whose extra keys have the given values, and counts the others.

    Args:
        where: key of a span to the value it must have, as ``{"layer": 1}``.
    """

    def __init__(self, where: Mapping[str, Any] | None = None) -> None:
        self.where = dict(where or {})
        self.num_dropped = 0
        self.num_spans = 0
        self.keys: set[str] = set()

    def keeps(self, span: Mapping[str, Any]) -> bool:
        """Returns whether a span is wanted."""
        self.num_spans += 1
        if not self.where:
            return True
        self.keys.update(span)
        wanted = all(
            key in span
            and span[key] == value
            and isinstance(span[key], bool) == isinstance(value, bool)
            for key, value in self.where.items()
        )
        self.num_dropped += not wanted
        return wanted


def read_jsonl(
    path: Path | str,
    *,
    where: Mapping[str, Any] | SpanFilter | None = None,
    need_spans: bool = False,
) -> Iterator[Document]:
    """Yields the documents of a file; faults are raised together after the last one.

    Args:
        path: the file.
        where: keep only spans with these values.
        need_spans: a document without the key "spans" is a fault (it may be unannotated).

    Raises:
        InputError: lists the faults, each with its line.
    """
    faults = FaultList()
    keep = where if isinstance(where, SpanFilter) else SpanFilter(where)
    seen: dict[str, int] = {}
    name = Path(path).name
    for line, record in read_objects(path, faults):
        document = parse_document(record, f"{name}:{line}", faults, keep, need_spans)
        if document is not None and is_new(document.id, line, name, seen, faults):
            yield document
    faults.raise_if_any()


def is_new(identity: str, line: int, name: str, seen: dict[str, int], faults: FaultList) -> bool:
    """Returns whether an id is the first of its kind; a repeated one becomes a fault."""
    first = seen.setdefault(identity, line)
    if first != line:
        what = f"the id is that of line {first} too"
        faults.add(InputError(what, f"{name}:{line}", "Give each record an id of its own."))
    return first == line


def parse_document(
    record: Mapping[str, Any],
    where: str,
    faults: FaultList,
    keep: SpanFilter,
    need_spans: bool = False,
) -> Document | None:
    """Returns the document of a JSON object, or None after its faults are told.

    Args:
        record: the object.
        where: file and line.
        faults: where faults are kept.
        keep: which spans are wanted.
        need_spans: the key "spans" must be there.
    """
    before = faults.total
    identity = parse_id(record, "id", where, faults)
    text = record.get("text")
    if "text" not in record:
        faults.add(InputError("the key 'text' is missing", where))
    elif not isinstance(text, str):
        faults.add(InputError(f"'text' must be a string, got {json_kind(text)}", where))
    raw = record.get("spans")
    if raw is None:
        raw = []
        if need_spans:
            mend = 'Write "spans": [] where a document has no mention.'
            faults.add(InputError("the key 'spans' is missing", where, mend))
    elif not isinstance(raw, list):
        faults.add(InputError(f"'spans' must be a list, got {json_kind(raw)}", where))
    if faults.total > before or identity is None or not isinstance(text, str):
        return None
    spans = []
    for number, span in enumerate(raw, 1):
        parsed = _parse_span(span, number, len(text), where, faults)
        if parsed is not None and keep.keeps(span):
            spans.append(parsed)
    if faults.total > before:
        return None
    fields = {key: value for key, value in record.items() if key not in ("id", "text", "spans")}
    return Document(identity, without_surrogates(text), tuple(spans), fields)


def parse_id(record: Mapping[str, Any], key: str, where: str, faults: FaultList) -> str | None:
    """Returns the id of a record as a string, or None after a fault is told."""
    identity = record.get(key)
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if isinstance(identity, str) and identity:
        return without_surrogates(identity)
    if key not in record:
        faults.add(InputError(f"the key {key!r} is missing", where))
    elif identity == "":
        faults.add(InputError(f"{key!r} is empty", where))
    else:
        what = f"{key!r} must be a string or a whole number, got {json_kind(identity)}"
        faults.add(InputError(what, where))
    return None


def _parse_span(span: Any, number: int, length: int, where: str, faults: FaultList) -> Span | None:
    def fault(what: str, mend: str | None = None) -> None:
        faults.add(InputError(f"span {number} {what}", where, mend))

    if not isinstance(span, dict):
        fault(f"must be an object, got {json_kind(span)}")
        return None
    missing = [key for key in ("start", "end", "label") if key not in span]
    if missing:
        fault(f"lacks {' and '.join(map(repr, missing))}")
        return None
    start, end, label = span["start"], span["end"], span["label"]
    for key, value in (("start", start), ("end", end)):
        if isinstance(value, bool) or not isinstance(value, int):
            fault(f"needs a whole number as {key!r}, got {json_kind(value)}")
            return None
    if not isinstance(label, str) or not label:
        fault("needs a name as 'label'")
        return None
    if start < 0:
        fault(f"starts at character {start}", "Count from 0.")
    elif end <= start:
        fault(
            f"ends at character {end}, before or where it starts ({start})", "Ends are exclusive."
        )
    elif end > length:
        mend = "Check line endings and count code points, not bytes or UTF-16 units."
        fault(f"ends at character {end}, text has {length}", mend)
    else:
        score, source = span.get("score"), span.get("source")
        is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
        return Span(
            start,
            end,
            label,
            float(score) if score is not None and is_number else None,
            source if isinstance(source, str) else None,
        )
    return None


def document_record(document: Document) -> dict[str, Any]:
    """Returns the JSON form of a document, its other fields included."""
    spans = []
    for span in document.spans:
        shown: dict[str, Any] = {"start": span.start, "end": span.end, "label": span.label}
        if span.score is not None:
            shown["score"] = span.score
        if span.source is not None:
            shown["source"] = span.source
        spans.append(shown)
    return {"id": document.id, "text": document.text, **document.fields, "spans": spans}


def write_jsonl(path: Path | str, documents: Iterable[Document]) -> int:
    """Returns the number of documents written, one a line."""
    count = 0
    with open_output(path) as out:
        for document in documents:
            out.write(to_json_line(document_record(document)))
            count += 1
    return count
