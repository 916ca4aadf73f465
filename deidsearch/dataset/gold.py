"""Human-annotated sentences: mentions on token bounds, and those that no model could reach.

Source: METHOD §3, §6 and §9 (Laursen et al. 2022, §3.4). Every mention is kept and stays in
recall's denominator; the reason why one is out of reach is kept beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from deidsearch.dataset.gold_records import GoldDocument, read_gold_documents
from deidsearch.errors import InputError, did_you_mean
from deidsearch.files import digest
from deidsearch.formats.jsonl import SpanFilter
from deidsearch.formats.lines import FaultList
from deidsearch.records import SpanTable
from deidsearch.text.hashing import key_hashes, sentence_hashes
from deidsearch.text.sentences import LineBreaks, split_sentences, trim
from deidsearch.text.tokens import TokenTable, fold_vocabulary, tokenise

# Why a mention can't be found: cut by the sentence splitter, bounds inside a token, inside another.
REASONS = ("reachable", "split", "alignment", "nested")
_REACHABLE, _SPLIT, _ALIGNMENT, _NESTED = range(4)
# Raise it when equal files give other gold sets.
GOLD_VERSION = 1

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GoldSet:
    """One set of sentences with human mentions.

    Attributes:
        name: of the set, as in the grid.
        types: the identifier types.
        document: id of the document of each sentence.
        text: each sentence, a slice of the original.
        start_char: int64 ``(sentences,)`` where it starts in its document.
        tokens: of the sentences.
        sentence: int32 ``(mentions,)``; a mention cut by the splitter belongs to its start's.
        start_char_m: int64 ``(mentions,)``, from the start of the sentence.
        end_char_m: int64 ``(mentions,)``, half-open; past the sentence's end where it is cut.
        start_token: int32 ``(mentions,)``, -1 where the mention isn't on token bounds.
        end_token: int32 ``(mentions,)``, half-open, -1 as well.
        label: int16 ``(mentions,)``, index into the types.
        reason: uint8 ``(mentions,)``, index into ``REASONS``.
        ignored: what was left out, counted: labels without a type, equal spans, inner spans.
        fold_accents: whether keys have no accents.
        digest: names the content.

    Mentions are sorted by sentence, start, end and label; equal ones are one.
    """

    name: str
    types: tuple[str, ...]
    document: list[str]
    text: list[str]
    start_char: npt.NDArray[np.int64]
    tokens: TokenTable
    sentence: Ints
    start_char_m: Ints
    end_char_m: Ints
    start_token: Ints
    end_token: Ints
    label: Ints
    reason: npt.NDArray[np.uint8]
    ignored: Mapping[str, int]
    fold_accents: bool
    digest: str

    @cached_property
    def mentions(self) -> SpanTable:
        """Mentions on token bounds, nested ones too."""
        return self._table(self.start_token >= 0)

    @cached_property
    def sentence_hashes(self) -> set[int]:
        """Hashes of the sentences' folded tokens: none like these may be in a training set."""
        hashes = key_hashes(fold_vocabulary(self.tokens.vocabulary, self.fold_accents))
        return set(sentence_hashes(self.tokens, hashes).tolist())

    def flat(self) -> SpanTable:
        """Returns the reachable mentions, none inside another: for training on gold."""
        return self._table(self.reason == _REACHABLE)

    def unreachable(self) -> dict[str, int]:
        """Returns how many mentions are out of reach, by reason."""
        counts = np.bincount(self.reason, minlength=len(REASONS)).tolist()
        return dict(zip(REASONS[1:], counts[1:], strict=True))

    def _table(self, chosen: npt.NDArray[np.bool_]) -> SpanTable:
        columns = (self.sentence, self.start_token, self.end_token, self.label)
        return SpanTable.build(*(column[chosen] for column in columns))


def read_gold(
    name: str,
    path: Path | str,
    *,
    types: Sequence[str],
    labels: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    part: tuple[int, int] | None = None,
    nested: Literal["outer", "all"] = "all",
    unit: Literal["document", "sentence"] = "document",
    line_breaks: LineBreaks = "auto",
    fold_accents: bool = False,
) -> GoldSet:
    """Returns a gold set of documents with character spans or of sentences with token spans.

    Args:
        name: of the set.
        path: JSON Lines in one of the forms of INTERFACE, Files; each record says its form.
        types: the identifier types, in the grid's order.
        labels: label in the file to type; other labels are ignored and counted. None: labels are
            the types, and any other label is a fault.
        where: only spans whose extra keys have these values.
        part: (k, n), the k-th of n contiguous blocks of documents.
        nested: "outer" leaves mentions inside others out, counted.
        unit: a record of text is a document to split, or a sentence.
        line_breaks: which line breaks end a sentence, see `split_sentences`.
        fold_accents: keys without accents.

    Raises:
        InputError: lists what is wrong with the file.
    """
    file = Path(path).name
    if labels is not None:
        _check_labels(labels, types, file)
    keep = SpanFilter(where)
    faults = FaultList()
    documents = list(read_gold_documents(path, keep, faults))
    if labels is None:
        _check_types(documents, types, file, faults)
    faults.raise_if_any()
    if keep.num_spans or any(document.spans for document in documents):
        _check_where(keep, file)
    if part is not None:
        documents = _block(documents, part, file)
    if not documents:
        raise InputError("the file holds no record", file)
    ignored: Counter[str] = Counter()
    if keep.num_dropped:
        ignored["spans not where asked"] = keep.num_dropped
    sentences = _Sentences(documents, unit, line_breaks)
    mapping = {label: label for label in types} if labels is None else dict(labels)
    spans = _collect(documents, sentences, mapping, types, ignored)
    return _assemble(name, tuple(types), sentences, spans, nested, fold_accents, ignored)


_LABEL = re.compile(r"[A-Za-z][\w./:-]{0,30}")


def _check_labels(labels: Mapping[str, str], types: Sequence[str], file: str) -> None:
    for label, kind in labels.items():
        if kind not in types:
            what = (
                f"the label {label!r} is mapped to {kind!r}, which is no type of the dictionaries"
            )
            raise InputError(what, file, did_you_mean(kind, types))


def _check_types(
    documents: Sequence[GoldDocument], types: Sequence[str], file: str, faults: FaultList
) -> None:
    known = set(types)
    seen: set[str] = set()
    for document in documents:
        for _, _, label in document.spans:
            if label not in known and label not in seen:
                seen.add(label)
                # In a damaged file anything may stand where a label should, a name too.
                shown = f"the label {label!r}" if _LABEL.fullmatch(label) else "a label"
                what = f"{shown} is none of the types {', '.join(types)}"
                mend = "Say what it means, or leave it out, with labels: {label: TYPE}."
                faults.add(InputError(what, f"{file}:{document.line}", mend))


def _check_where(keep: SpanFilter, file: str) -> None:
    """Raises an error for a key that no span has: it would quietly empty the set."""
    for key in keep.where:
        if key not in keep.keys:
            extra = sorted(keep.keys - {"start", "end", "label"})
            mend = did_you_mean(key, extra) if extra else "Spans here have no extra keys."
            raise InputError(f"no span has the key {key!r} of 'where'", file, mend)


def _block(
    documents: Sequence[GoldDocument], part: tuple[int, int], file: str
) -> list[GoldDocument]:
    block, blocks = part
    if blocks > len(documents):
        what = f"{len(documents)} documents cannot be parted into {blocks} blocks"
        raise InputError(what, file)
    size = len(documents)
    return list(documents[(block - 1) * size // blocks : block * size // blocks])


class _Sentences:
    """The sentences of documents on one line of characters, each document after the other."""

    def __init__(
        self, documents: Sequence[GoldDocument], unit: str, line_breaks: LineBreaks
    ) -> None:
        self.document: list[str] = []
        self.text: list[str] = []
        start: list[int] = []
        self.base: list[int] = []  # of each document on the line
        line: list[int] = []
        position = 0
        for document in documents:
            self.base.append(position)
            if document.sentences is not None:
                ranges = [trim(document.text, *own) for own in document.sentences]
            elif unit == "sentence":
                ranges = [trim(document.text)]
            else:
                ranges = split_sentences(document.text, line_breaks=line_breaks)
            for first, last in ranges:
                if first < last:
                    self.document.append(document.id)
                    self.text.append(document.text[first:last])
                    start.append(first)
                    line.append(position + first)
            position += len(document.text) + 1
        self.start_char = np.array(start, dtype=np.int64)
        # Where each sentence starts and ends on the line.
        self.line_start = np.array(line, dtype=np.int64)
        lengths = np.fromiter(map(len, self.text), np.int64, len(self.text))
        self.line_end = self.line_start + lengths
        self.tokens = tokenise(self.text)


def _collect(
    documents: Sequence[GoldDocument],
    sentences: _Sentences,
    mapping: Mapping[str, str],
    types: Sequence[str],
    ignored: Counter[str],
) -> npt.NDArray[np.int64]:
    """Returns the spans as int64 rows ``(mentions, 3)``: start and end on the line, label.

    Blanks at a span's ends are no part of it; equal spans are one, the others are counted.
    """
    number = {kind: place for place, kind in enumerate(types)}
    rows = []
    for document, base in zip(documents, sentences.base, strict=True):
        for start, end, label in document.spans:
            kind = mapping.get(label)
            if kind is None:
                ignored[label] += 1
                continue
            start, end = trim(document.text, start, end)
            if start == end:
                ignored["blank spans"] += 1
            else:
                rows.append((base + start, base + end, number[kind]))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    distinct = np.unique(table, axis=0)
    if len(distinct) < len(table):
        ignored["equal spans"] = len(table) - len(distinct)
    return distinct


def _assemble(
    name: str,
    types: tuple[str, ...],
    sentences: _Sentences,
    spans: npt.NDArray[np.int64],
    nested: str,
    fold_accents: bool,
    ignored: Counter[str],
) -> GoldSet:
    is_inner = _inner(spans)
    if nested == "outer" and is_inner.any():
        ignored["inner spans"] = int(is_inner.sum())
        spans, is_inner = spans[~is_inner], np.zeros(int((~is_inner).sum()), dtype=bool)
    start, end, label = spans.T
    sentence = np.searchsorted(sentences.line_start, start, "right") - 1
    start_token, end_token = _align(sentences, sentence, start, end)
    is_split = end > sentences.line_end[sentence] if len(spans) else np.zeros(0, dtype=bool)
    is_misaligned = start_token < 0
    reason = np.select([is_split, is_misaligned, is_inner], [_SPLIT, _ALIGNMENT, _NESTED], 0)
    line_start = sentences.line_start[sentence] if len(spans) else start
    columns = {
        "sentence": sentence.astype(np.int32),
        "start_char_m": start - line_start,
        "end_char_m": end - line_start,
        "start_token": start_token,
        "end_token": end_token,
        "label": label.astype(np.int16),
        "reason": reason.astype(np.uint8),
    }
    order = np.lexsort((columns["label"], columns["end_char_m"], start))
    columns = {key: values[order] for key, values in columns.items()}
    tokens = sentences.tokens
    content = digest(
        "gold",
        GOLD_VERSION,
        list(types),
        fold_accents,
        sentences.document,
        sentences.text,
        sentences.start_char,
        tokens.start_char,
        tokens.end_char,
        tokens.offsets,
        *columns.values(),
    )
    return GoldSet(
        name=name,
        types=types,
        document=sentences.document,
        text=sentences.text,
        start_char=sentences.start_char,
        tokens=tokens,
        ignored=dict(sorted(ignored.items())),
        fold_accents=fold_accents,
        digest=content,
        **columns,
    )


def _inner(spans: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Returns which spans lie inside another, bool ``(mentions,)``.

    Of spans with equal bounds and different labels the first type of the grid is the outer one.
    """
    start, end, label = spans.T
    # Outer before inner: by start, then the longest, then the label.
    order = np.lexsort((label, -end, start))
    inner = np.zeros(len(spans), dtype=bool)
    if len(spans):
        furthest = np.maximum.accumulate(end[order])
        # Whatever came before starts no later; does one of them end no sooner?
        inner[order[1:]] = furthest[:-1] >= end[order[1:]]
    return inner


def _align(
    sentences: _Sentences, sentence: Ints, start: Ints, end: Ints
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Returns the tokens of each span, half-open within its sentence, or -1 where it cuts one."""
    tokens = sentences.tokens
    if not len(start):
        return np.empty(0, np.int32), np.empty(0, np.int32)
    shift = np.repeat(sentences.line_start, tokens.lengths)
    token_start, token_end = tokens.start_char + shift, tokens.end_char + shift
    first = np.searchsorted(token_start, start)
    last = np.searchsorted(token_end, end)  # inclusive
    on_bounds = (first < tokens.num_tokens) & (last < tokens.num_tokens)
    on_bounds[on_bounds] &= token_start[first[on_bounds]] == start[on_bounds]
    on_bounds[on_bounds] &= token_end[last[on_bounds]] == end[on_bounds]
    on_bounds &= last < tokens.offsets[sentence + 1]  # not cut by the splitter
    base = tokens.offsets[sentence]
    start_token = np.where(on_bounds, first - base, -1).astype(np.int32)
    end_token = np.where(on_bounds, last + 1 - base, -1).astype(np.int32)
    return start_token, end_token
