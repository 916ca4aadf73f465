"""Sentences as CoNLL columns: a token, a tab and its IOB2 tag a line; a blank line ends a sentence.

A comment ``# id = ...`` names the sentence. Nested spans cannot be told in one column: the outer
ones are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from deidsearch.errors import InputError
from deidsearch.formats.labelled import LabelledTokens, iob_tags, outermost, spans_of_tags
from deidsearch.formats.lines import FaultList, open_bytes, open_output

_ID = "# id = "


def write_conll(path: Path | str, sentences: Iterable[LabelledTokens]) -> tuple[int, int]:
    """Returns the number of sentences written and of spans left out because they overlap."""
    count = dropped = 0
    with open_output(path) as out:
        for sentence in sentences:
            spans, overlapping = outermost(sentence.spans)
            tags = iob_tags(len(sentence.tokens), spans)
            out.write(f"{_ID}{' '.join(sentence.id.split())}\n")
            for token, tag in zip(sentence.tokens, tags, strict=True):
                # A tab or a line end within a token would make two of it.
                out.write(f"{'_'.join(token.split()) or '_'}\t{tag}\n")
            out.write("\n")
            count += 1
            dropped += overlapping
    return count, dropped


def read_conll(path: Path | str) -> Iterator[LabelledTokens]:
    """Yields the sentences of a file: first column the token, last column the tag.

    Columns are parted by tabs, or by blanks where a line has no tab. Sentences without an id
    comment are numbered. Faults are raised together after the last sentence.

    Raises:
        InputError: lists the faults, each with its line.
    """
    faults = FaultList()
    name = Path(path).name
    identity: str | None = None
    tokens: list[str] = []
    tags: list[str] = []
    number = 0
    for line_number, line in _lines(path, faults):
        columns = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            if tokens:
                yield LabelledTokens(identity or str(number), tuple(tokens), spans_of_tags(tags))
                number += 1
            identity, tokens, tags = None, [], []
        elif columns[0] == "-DOCSTART-":
            continue
        elif line.startswith("#") and "\t" not in line:
            if line.startswith(_ID):
                identity = line.removeprefix(_ID).strip() or None
        elif len(columns) < 2:
            faults.add(InputError("expected a token and its tag", f"{name}:{line_number}"))
        elif not _is_tag(columns[-1]):
            mend = "Use O, B-TYPE and I-TYPE."
            faults.add(InputError("the last column is no IOB tag", f"{name}:{line_number}", mend))
        else:
            tokens.append(columns[0])
            tags.append(columns[-1])
    if tokens:
        yield LabelledTokens(identity or str(number), tuple(tokens), spans_of_tags(tags))
    faults.raise_if_any()


def _is_tag(tag: str) -> bool:
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def _lines(path: Path | str, faults: FaultList) -> Iterator[tuple[int, str]]:
    """Yields all lines, blank ones too."""
    name = Path(path).name
    with open_bytes(path) as file:
        for number, raw in enumerate(file, 1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            try:
                yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                what = "the line is not UTF-8"
                faults.add(InputError(what, f"{name}:{number}", "Save it as UTF-8."))
