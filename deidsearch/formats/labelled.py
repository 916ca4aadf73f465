"""Sentences that come as tokens with labels, and their way to and from plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deidsearch.records import Document, Span


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A labelled run of tokens, half-open."""

    start_token: int
    end_token: int
    label: str

    def __post_init__(self) -> None:
        if not 0 <= self.start_token < self.end_token:
            bounds = f"{self.start_token} and {self.end_token}"
            raise ValueError(f"a token span needs 0 <= start < end, got {bounds}")


@dataclass(frozen=True, slots=True)
class LabelledTokens:
    """One sentence as tokens with labelled spans.

    Attributes:
        id: names the sentence.
        tokens: as the source gave them.
        spans: labelled runs of tokens; they may nest.
        document: names the document that the sentence is part of.
    """

    id: str
    tokens: tuple[str, ...]
    spans: tuple[TokenSpan, ...] = ()
    document: str | None = None

    def __post_init__(self) -> None:
        for span in self.spans:
            if span.end_token > len(self.tokens):
                raise ValueError(
                    f"a span ends at token {span.end_token}, the sentence has {len(self.tokens)}"
                )

    def to_document(self) -> Document:
        """Returns the tokens joined by single blanks, with the spans as characters."""
        starts = []
        position = 0
        for token in self.tokens:
            starts.append(position)
            position += len(token) + 1
        spans = tuple(
            Span(
                starts[span.start_token],
                starts[span.end_token - 1] + len(self.tokens[span.end_token - 1]),
                span.label,
            )
            for span in self.spans
        )
        return Document(self.id, " ".join(self.tokens), spans)


def outermost(spans: Iterable[TokenSpan]) -> tuple[list[TokenSpan], int]:
    """Returns spans that don't overlap, the longest first chosen, and how many were dropped.

    Formats with one label per token can hold no more.
    """
    chosen: list[TokenSpan] = []
    taken: set[int] = set()
    dropped = 0
    for span in sorted(spans, key=lambda s: (s.start_token - s.end_token, s.start_token, s.label)):
        tokens = range(span.start_token, span.end_token)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            chosen.append(span)
        else:
            dropped += 1
    return sorted(chosen, key=lambda span: span.start_token), dropped


def iob_tags(num_tokens: int, spans: Sequence[TokenSpan]) -> list[str]:
    """Returns IOB2 tags of spans that don't overlap."""
    tags = ["O"] * num_tokens
    for span in spans:
        tags[span.start_token] = f"B-{span.label}"
        for token in range(span.start_token + 1, span.end_token):
            tags[token] = f"I-{span.label}"
    return tags


def spans_of_tags(tags: Sequence[str]) -> tuple[TokenSpan, ...]:
    """Returns the spans of IOB2 tags; an I- without its B- opens a span of its own."""
    spans = []
    start, label = 0, ""
    for token, tag in enumerate([*tags, "O"]):
        kind, _, name = tag.partition("-")
        goes_on = kind == "I" and name == label
        if label and not goes_on:
            spans.append(TokenSpan(start, token, label))
            label = ""
        if kind in ("B", "I") and not goes_on:
            start, label = token, name
    return tuple(spans)
