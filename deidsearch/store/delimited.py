"""Rows of delimited text, each with the line it begins at; bad ones are gathered, not fatal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.errors import InputError

NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
# More than any note: a quotation mark that never closes must not swallow a file into memory.
LONGEST_FIELD = 1 << 24
# Faults printed in full; the rest are counted.
SHOWN_FAULTS = 20
# Stands for a row whose quotation marks can't be read; told apart by identity.
_BROKEN: list[str] = []


@dataclass(frozen=True)
class Columns:
    """The wanted columns as raw text, with the line of each row."""

    text: list[str]
    count: list[str] | None
    row: npt.NDArray[np.int64]


class Faults:
    """The bad rows of a file: the first ones in full, the others counted."""

    def __init__(self, name: str, unit: str = "line") -> None:
        self.name, self.unit = name, unit
        self.shown: list[InputError] = []
        self.total = 0

    def add(self, row: int, what: str, mend: str) -> None:
        self.total += 1
        if len(self.shown) < SHOWN_FAULTS:
            self.shown.append(InputError(what, f"{self.name}, {self.unit} {row}", mend))

    def check(self) -> None:
        if self.total:
            raise InputError.many(self.shown, self.total)


class DelimitedTable:
    """A CSV or TSV file, its header read and checked."""

    def __init__(self, name: str, text: str, sign: str) -> None:
        self.sign = sign
        self._text = text
        self.reader = self._open()
        try:
            header: list[str] = next(self.reader, [])
        except csv.Error:
            header = []
        if not any(header):
            mend = "Add a line: identifier,count"
            raise InputError("the file has no header", f"{name}, line 1", mend)
        self.header = [field.strip() for field in header]
        _check_header(name, self.header, sign)

    def _open(self) -> Any:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
        # strict: a quotation mark that is never closed is an error, not one huge entry.
        return csv.reader(io.StringIO(self._text, newline=""), delimiter=self.sign, strict=True)

    def read(self, at: int, count_at: int | None, faults: Faults) -> Columns:
        """Returns the wanted columns of all good rows; adds the others to the faults."""
        lines, rows = self._rows()
        width = len(self.header)
        good = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) == width
        for place in np.flatnonzero(~good).tolist():
            fields, line = rows[place], int(lines[place])
            if fields is _BROKEN:
                faults.add(
                    line,
                    "its quotation marks are not in pairs",
                    "Close them, and double the ones inside a quoted field.",
                )
            elif len(fields) <= 1 and not "".join(fields).strip():
                rows[place] = [""] * width  # a blank line is an empty entry
                good[place] = True
            else:
                had = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
                faults.add(
                    line,
                    f"the row has {had}, the header has {width}",
                    f"The separator here is {shown_sign(self.sign)}; quote a field that holds one.",
                )
        if not good.all():
            rows = [rows[place] for place in np.flatnonzero(good)]
        texts = [fields[at] for fields in rows]
        counts = None if count_at is None else [fields[count_at] for fields in rows]
        return Columns(texts, counts, lines[good])

    def _rows(self) -> tuple[npt.NDArray[np.int64], list[list[str]]]:
        """Returns the line that each row begins at, and the rows, `_BROKEN` where unreadable."""
        first = self.reader.line_num + 1
        try:
            rows = list(self.reader)
        except csv.Error:
            return self._rows_one_by_one()
        if self.reader.line_num - first + 1 != len(rows):  # a field runs over lines
            return self._rows_one_by_one()
        return np.arange(first, first + len(rows), dtype=np.int64), rows

    def _rows_one_by_one(self) -> tuple[npt.NDArray[np.int64], list[list[str]]]:
        self.reader = self._open()
        next(self.reader)
        lines: list[int] = []
        rows: list[list[str]] = []
        while True:
            line = self.reader.line_num + 1
            try:
                fields = next(self.reader)
            except StopIteration:
                return np.array(lines, dtype=np.int64), rows
            except csv.Error:
                fields = _BROKEN
            lines.append(line)
            rows.append(fields)


def _check_header(name: str, header: Sequence[str], sign: str) -> None:
    """Raises an error where the first line is evidently cut wrongly or no header."""
    if len(header) == 1:
        for other in ";\t|,":
            if other in header[0] and other != sign:
                raise InputError(
                    f"its one column looks like several, separated by {shown_sign(other)}",
                    f"{name}, line 1",
                    f"Set separator: {shown_sign(other)}.",
                )
    is_number = pc.match_substring_regex(pa.array(header, pa.string()), NUMBER)
    if pc.any(is_number).as_py():
        raise InputError(
            "the first line holds a number, so it is no header",
            f"{name}, line 1",
            "Add a line above it that names the columns: identifier,count",
        )


_NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t"}


def one_character(name: str, separator: str) -> str:
    """Returns the separator of a file's fields, "tab" as the character.

    Raises:
        InputError: it is none that can part fields.
    """
    sign = _NAMED_SEPARATORS.get(separator.lower(), separator)
    if len(sign) != 1 or sign in '\r\n"\0':
        raise InputError(
            f"the separator {separator!r} is not one character",
            name,
            'Set for example ";" or "tab".',
        )
    return sign


def shown_sign(sign: str) -> str:
    return '"tab"' if sign == "\t" else f'"{sign}"'
