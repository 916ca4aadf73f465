"""Rows of a user's list of names or words: CSV, TSV, TXT or Parquet, plain or gzipped.

Either all rows of a file are returned, or one error lists the bad ones; nothing is half loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.errors import InputError, did_you_mean
from deidsearch.store.delimited import NUMBER, DelimitedTable, Faults, one_character, shown_sign
from deidsearch.store.encodings import read_bytes, read_text

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "txt", ".parquet": "parquet",
    ".pq": "parquet",
}  # fmt: skip
DEFAULT_COLUMN = "identifier"
DEFAULT_COUNT = "count"
# More than people or houses there are: beyond it a count is a slip, and sums would overflow.
_LARGEST_COUNT = 1e12


@dataclass(frozen=True, eq=False)
class SourceRows:
    """The rows of one file, none left out.

    Attributes:
        text: ``(rows,)`` entries as the file writes them; empty where a row has none.
        count: float64 ``(rows,)``, NaN where unknown.
        row: int64 ``(rows,)``, line of the file, 1 for its first (Parquet: number of the row).
    """

    text: pa.StringArray
    count: npt.NDArray[np.float64]
    row: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def read_source(
    path: Path | str,
    *,
    column: str | None = None,
    count: str | None = DEFAULT_COUNT,
    encoding: str | None = None,
    separator: str | None = None,
    default_column: str | None = DEFAULT_COLUMN,
) -> SourceRows:
    """Returns all rows of a list with their counts.

    Args:
        path: its ending names the format: csv, tsv, txt (one entry a line) or parquet; gz after it.
        column: column of the entries; None takes ``default_column``, else the first.
        count: column of the counts; None ignores counts, and so does the default name where the
            file has no such column.
        encoding: Python name; None is UTF-8.
        separator: one character; None goes by the ending. A txt file with one is a table.
        default_column: the column taken where none is named.

    Raises:
        InputError: lists what is wrong with the file, the first rows in full.
    """
    path = Path(path)
    kind = _format(path)
    if kind == "parquet":
        return _read_parquet(path, column or None, count, default_column)
    text = read_text(path, encoding)
    if kind == "txt" and separator is None:
        return _read_lines(path.name, text, column)
    sign = one_character(path.name, separator or ("\t" if kind == "tsv" else ","))
    table = DelimitedTable(path.name, text, sign)
    at = _column(path.name, table.header, column, default_column)
    count_at = _count_column(path.name, table.header, count)
    faults = Faults(path.name)
    columns = table.read(at, count_at, faults)
    counts = _parse_counts(columns.count, columns.row, faults)
    text = pa.array(columns.text, pa.string())
    _add_unprintable(text, columns.row, faults)
    faults.check()
    return SourceRows(text, counts, columns.row)


def read_word_list(
    path: Path | str,
    *,
    column: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
) -> SourceRows:
    """Returns all rows of a list of words or terms; by default of the file's first column.

    Raises:
        InputError: as for `read_source`.
    """
    return read_source(
        path,
        column=column,
        count=None,
        encoding=encoding,
        separator=separator,
        default_column=None,
    )


def _format(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    ending = Path(name).suffix
    if ending not in FORMATS:
        raise InputError(
            f"the ending {ending!r} names no known format" if ending else "the file has no ending",
            path.name,
            f"Known are {', '.join(FORMATS)}, each also with .gz.",
        )
    return FORMATS[ending]


def _read_lines(name: str, text: str, column: str | None) -> SourceRows:
    if column is not None:
        raise InputError(
            f"a txt file has no columns, so none is named {column!r}",
            f"{name}, line 1",
            "Set its separator, or take the column's name out.",
        )
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # The line end of the last line begins no other.
    if lines and not lines[-1]:
        lines.pop()
    if lines:
        for sign in ",;\t|":
            if DEFAULT_COLUMN in [field.strip().lower() for field in lines[0].split(sign)][:-1]:
                raise InputError(
                    "the first line is the header of a table",
                    f"{name}, line 1",
                    f"Set separator: {shown_sign(sign)}.",
                )
    row = np.arange(1, len(lines) + 1, dtype=np.int64)
    entries = pa.array(lines, pa.string())
    faults = Faults(name)
    _add_unprintable(entries, row, faults)
    faults.check()
    return SourceRows(entries, np.full(len(lines), np.nan), row)


def _column(
    name: str, header: Sequence[str], column: str | None, default_column: str | None
) -> int:
    if column is None:
        found = _find(name, header, default_column) if default_column is not None else None
        return 0 if found is None else found
    found = _find(name, header, column)
    if found is None:
        raise InputError(_no_column(column, header), name, did_you_mean(column, header))
    return found


def _count_column(name: str, header: Sequence[str], count: str | None) -> int | None:
    if count is None:
        return None
    found = _find(name, header, count)
    # The default name stands in every grid: a source without counts is no fault (METHOD §1.3).
    if found is None and count != DEFAULT_COUNT:
        raise InputError(
            _no_column(count, header),
            name,
            did_you_mean(count, header) + " Without counts set count: null.",
        )
    return found


def _no_column(column: str, header: Sequence[str]) -> str:
    names = ", ".join(field[:40] for field in header[:20])
    return f"there is no column {column!r}; the columns are: {names}"


def _find(name: str, header: Sequence[str], column: str) -> int | None:
    same: Sequence[str] = header
    if column not in header:
        column, same = column.lower(), [field.lower() for field in header]
    if same.count(column) > 1:
        raise InputError(f"two columns are called {column!r}", name, "Rename one of them.")
    return same.index(column) if column in same else None


def _add_unprintable(text: pa.StringArray, row: npt.NDArray[np.int64], faults: Faults) -> None:
    """Adds entries with a zero character, which show a damaged file or a wrong encoding."""
    bad = pc.match_substring(text, "\0").to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(bad.astype(bool)):
        faults.add(int(row[place]), "the entry holds a zero character", "Check the encoding.")


def _parse_counts(
    texts: list[str] | None, row: npt.NDArray[np.int64], faults: Faults
) -> npt.NDArray[np.float64]:
    """Returns the counts, float64 ``(rows,)``, NaN where empty; adds bad ones to the faults."""
    counts = np.full(len(row), np.nan)
    if texts is None or not len(row):
        return counts
    column = pc.utf8_trim_whitespace(pa.array(texts, pa.string()))
    given = pc.not_equal(column, "")
    good = pc.and_(given, pc.match_substring_regex(column, NUMBER))
    where = np.flatnonzero(good.to_numpy(zero_copy_only=False))
    # Python reads all that the pattern lets through, a plus sign and "5." too; Arrow doesn't.
    values = column.filter(good).to_pylist()
    counts[where] = np.array(values, dtype=np.float64) if values else np.empty(0)
    for place in _unclear(column, good):
        faults.add(
            int(row[place]),
            "the count may be a thousand written with a point, or a fraction",
            "Write it without the point (1000), or with other decimals (1.0).",
        )
    bad = np.flatnonzero(pc.and_not(given, good).to_numpy(zero_copy_only=False))
    _add_bad_counts(counts, bad, row, faults)
    return counts


def _unclear(column: pa.StringArray, good: pa.BooleanArray) -> list[int]:
    """Returns the places of counts like 1.000, where all counts with a point look so.

    Danes and Spaniards part thousands with points. Read as a fraction, a name that a thousand bear
    would be borne by one.
    """
    has_point = pc.and_(good, pc.match_substring(column, "."))
    in_threes = pc.match_substring_regex(column, r"^[1-9]\d{0,2}\.\d{3}$")
    if pc.any(pc.and_not(has_point, in_threes)).as_py():
        return []
    places = np.flatnonzero(pc.and_(has_point, in_threes).to_numpy(zero_copy_only=False))
    return [int(place) for place in places]


def _add_bad_counts(
    counts: npt.NDArray[np.float64],
    not_numbers: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    faults: Faults,
) -> None:
    faulty = {int(place): "the count is not a number" for place in not_numbers}
    faulty |= {int(place): "the count is negative" for place in np.flatnonzero(counts < 0)}
    too_large = f"the count is above {_LARGEST_COUNT:,.0f}"
    faulty |= {int(place): too_large for place in np.flatnonzero(counts > _LARGEST_COUNT)}
    for place in sorted(faulty):
        faults.add(
            int(row[place]), faulty[place], "Write it in digits, or leave it empty where unknown."
        )


def _read_parquet(
    path: Path, column: str | None, count: str | None, default_column: str | None
) -> SourceRows:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(read_bytes(path)))
        header = file.schema_arrow.names
        if not header:
            raise InputError("the file has no columns", path.name)
        at = _column(path.name, header, column, default_column)
        count_at = _count_column(path.name, header, count)
        wanted = [header[i] for i in (at, count_at) if i is not None]
        for name in wanted:
            if header.count(name) > 1:
                raise InputError(
                    f"two columns are called {name!r}", path.name, "Rename one of them."
                )
        table = file.read(columns=list(dict.fromkeys(wanted)))
        texts = table.column(header[at]).combine_chunks()
    except pa.ArrowException:
        raise InputError("it is not a whole Parquet file", path.name) from None
    try:
        text = texts.cast(pa.string()).fill_null("")
    except pa.ArrowException:
        raise InputError(
            f"the column {header[at]!r} holds {texts.type}, not text", path.name
        ) from None
    row = np.arange(1, len(text) + 1, dtype=np.int64)
    faults = Faults(path.name, "row")
    _add_unprintable(text, row, faults)
    counts = np.full(len(row), np.nan)
    if count_at is not None:
        values = table.column(header[count_at]).combine_chunks()
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            floats = values.cast(pa.float64(), safe=False).fill_null(np.nan)
            counts = floats.to_numpy(zero_copy_only=False).copy()
            _add_bad_counts(counts, np.empty(0, np.int64), row, faults)
        else:
            try:
                strings = values.cast(pa.string()).fill_null("").to_pylist()
            except pa.ArrowException:
                raise InputError(
                    f"the column {header[count_at]!r} holds {values.type}, not numbers", path.name
                ) from None
            counts = _parse_counts(strings, row, faults)
    faults.check()
    return SourceRows(text, counts, row)
