"""Records of a gold file in any of its forms, brought to one: text with character spans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deidsearch.formats.jsonl import SpanFilter, is_new, parse_document
from deidsearch.formats.lines import FaultList, read_objects
from deidsearch.formats.pure import is_pure, parse_pure


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A document with its spans.

    Attributes:
        id: names it.
        text: original text; tokens joined by single blanks where the file gives tokens.
        spans: (start, end, label), half-open characters of the text.
        sentences: half-open ranges where the file gives sentences; None where text must be split.
        line: of the file.
    """

    id: str
    text: str
    spans: tuple[tuple[int, int, str], ...]
    sentences: tuple[tuple[int, int], ...] | None
    line: int


def read_gold_documents(
    path: Path | str, keep: SpanFilter, faults: FaultList
) -> Iterator[GoldDocument]:
    """Yields the documents of a JSON Lines file; each record says by its keys what form it has.

    Args:
        path: of documents with spans, of sentences with tokens, or of PURE's documents.
        keep: which spans are wanted; spans of tokens have no extra keys and are all kept.
        faults: where faults are kept.
    """
    name = Path(path).name
    seen: dict[str, int] = {}
    for line, record in read_objects(path, faults):
        where = f"{name}:{line}"
        if is_pure(record):
            document = _from_tokens(record, line, where, faults)
        else:
            parsed = parse_document(record, where, faults, keep, need_spans=True)
            if parsed is None:
                continue
            spans = tuple((span.start, span.end, span.label) for span in parsed.spans)
            document = GoldDocument(parsed.id, parsed.text, spans, None, line)
        if document is not None and is_new(document.id, line, name, seen, faults):
            yield document


def _from_tokens(
    record: dict[str, object], line: int, where: str, faults: FaultList
) -> GoldDocument | None:
    sentences = parse_pure(record, where, faults, need_spans=True)
    if not sentences:
        return None
    pieces: list[str] = []
    ranges = []
    spans = []
    position = 0
    for sentence in sentences:
        document = sentence.to_document()
        pieces.append(document.text)
        ranges.append((position, position + len(document.text)))
        spans += [(position + s.start, position + s.end, s.label) for s in document.spans]
        position += len(document.text) + 1
    identity = sentences[0].document or sentences[0].id
    return GoldDocument(identity, "\n".join(pieces), tuple(spans), tuple(ranges), line)
