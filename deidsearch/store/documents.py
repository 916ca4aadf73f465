"""Documents of a corpus, streamed from CSV, TSV, JSON Lines, Parquet or plain text, packed or not.

A row that cannot be read is told and left out whole; the rows around it are read.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import json
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa

from deidsearch.errors import InputError, did_you_mean
from deidsearch.formats.lines import json_kind, open_bytes, without_surrogates
from deidsearch.store.delimited import LONGEST_FIELD, one_character, shown_sign
from deidsearch.store.encodings import codec_name

# Told of a row that can't be read: file, line (0: the whole file), reason.
Unreadable = Callable[[str, int, str], None]
Unit = Literal["document", "sentence"]

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
}
# Half a surrogate pair: no decoder makes one, so it marks bytes that are not of the encoding.
_MARK = "\udcff"
_NOT_TEXT = "bytes that are not"
_DAMAGED = (EOFError, zlib.error, OSError)


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _MARK, error.end


codecs.register_error("deidsearch.mark", _mark_undecodable)


@dataclass(frozen=True)
class CorpusSource:
    """Where unannotated text lies.

    Attributes:
        path: a file, a folder (all files of known endings in it) or a glob pattern.
        text: column or key of the text; None takes "text", or the only column.
        id: column or key of the document's id; None takes "id" where there is one, else the row.
        unit: what a record is.
        encoding: of text files; None is UTF-8.
        separator: of CSV fields; None goes by the ending.
    """

    path: Path | str
    text: str | None = None
    id: str | None = None
    unit: Unit = "document"
    encoding: str | None = None
    separator: str | None = None


def source_files(source: CorpusSource) -> list[tuple[str, Path]]:
    """Returns the files of a source as (name within it, path), in a fixed order.

    Raises:
        InputError: there is none, or its ending is none of the known ones.
    """
    path = Path(source.path)
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.is_file() and _kind(file) is not None]
        files = [file for file in files if not file.name.startswith(".")]
        named = [(file.relative_to(path).as_posix(), file) for file in files]
    elif path.exists():
        named = [(path.name, path)]
    else:
        files = [Path(file) for file in glob.glob(str(path), recursive=True)]
        named = [(file.name, file) for file in files if file.is_file()]
        names = {name for name, _ in named}
        if len(names) < len(named):  # equal names in several folders
            named = [(str(file), file) for _, file in named]
    known = ", ".join(_ENDINGS)
    if not named:
        what = "the folder holds no file of a known format" if path.is_dir() else "there is no file"
        raise InputError(f"{what} for the corpus", path.name, f"Known endings: {known}, and .gz.")
    for name, file in named:
        if _kind(file) is None:
            raise InputError("the ending names no known format", name, f"Known: {known}, and .gz.")
    return sorted(named)


def read_documents(
    source: CorpusSource, unreadable: Unreadable
) -> Generator[tuple[str, str], None, None]:
    """Yields (id, text) of each document of a source, in order; an empty text is a document too.

    Args:
        source: where they lie.
        unreadable: told of each row that is left out.

    Raises:
        InputError: a file lacks the column, is damaged, or its encoding is not known or evidently
            wrong.
    """
    tally = _Tally(unreadable)
    for name, file in source_files(source):
        kind = _kind(file)
        encoding = _encoding(source, name)
        _refuse_disguised_utf8(file, name, encoding)
        if kind == "parquet":
            rows = _read_parquet(source, name, file, tally.add)
        elif kind == "jsonl":
            rows = _read_jsonl(source, name, file, encoding, tally.add)
        elif kind == "txt":
            rows = _read_text(source, name, file, encoding, tally.add)
        else:
            rows = _read_delimited(source, name, file, encoding, kind == "tsv", tally.add)
        for identity, text in rows:
            tally.num_beyond_ascii += not text.isascii()
            yield identity, text
        if not (kind == "txt" and source.unit == "document"):  # there the folder is the table
            tally.check(encoding)
            tally = _Tally(unreadable)
    tally.check(_encoding(source, ""))


class _Tally:
    """Tells a wrong encoding from a few broken rows.

    In a file of another encoding every row with an accented letter fails, and the rows that are
    left are a biased half of it; in a broken one most of such rows are fine.
    """

    def __init__(self, unreadable: Unreadable) -> None:
        self.num_beyond_ascii = 0  # rows that were read
        self.num_undecodable = 0
        self._unreadable = unreadable
        self._first = ""

    def add(self, file: str, line: int, reason: str) -> None:
        if reason.startswith(_NOT_TEXT):
            self._first = self._first or (f"{file}, line {line}" if line else file)
            self.num_undecodable += 1
        self._unreadable(file, line, reason)

    def check(self, encoding: str) -> None:
        if self.num_undecodable > self.num_beyond_ascii:
            shown = "UTF-8" if encoding == "utf-8-sig" else encoding
            mend = "Set corpus.encoding to what it was saved in, for example latin-1 or cp1252."
            if ".parquet" in self._first:
                mend = "Write the file anew: strings of Parquet are UTF-8."
            raise InputError(
                f"the text is not {shown} (this and {self.num_undecodable - 1:,} other rows)",
                self._first,
                mend,
            )


def _damaged(name: str, line: int) -> InputError:
    return InputError(
        "the compressed data end early or are damaged",
        f"{name}, line {line}" if line else name,
        "Copy or pack the file anew.",
    )


def _kind(file: Path) -> str | None:
    name = file.name.lower().removesuffix(".gz")
    return _ENDINGS.get(Path(name).suffix)


def _encoding(source: CorpusSource, name: str) -> str:
    codec = codec_name(source.encoding, name)
    # A byte order mark before the first character of a file is not text.
    return "utf-8-sig" if codec == "utf-8" else codec


def _refuse_disguised_utf8(file: Path, name: str, encoding: str) -> None:
    """Raises an error where a file is UTF-8 but would be read, letter by letter, as something else.

    Raises:
        InputError: says so; nothing has been stored yet.
    """
    if encoding.startswith(("utf-8", "utf-7")) or _kind(file) == "parquet":
        return
    with closing(open_bytes(file)) as raw:
        try:
            start = raw.read(1 << 20)
        except _DAMAGED:
            return
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return
    # Bytes of UTF-16 and UTF-32 make nonsense of any text, and theirs hold zeros.
    is_wide = encoding.startswith(("utf-16", "utf-32"))
    if ("\0" not in text) if is_wide else not text.isascii():
        what = f"it is UTF-8; read as {encoding} its letters would be garbled"
        raise InputError(what, name, "Take corpus.encoding out.")


def _open_text(file: Path, encoding: str, newline: str | None) -> io.TextIOWrapper:
    raw = cast(Any, open_bytes(file))
    return io.TextIOWrapper(raw, encoding, errors="deidsearch.mark", newline=newline)


def _not_text(encoding: str) -> str:
    shown = "UTF-8" if encoding == "utf-8-sig" else encoding
    return f"{_NOT_TEXT} {shown}"


def _columns(source: CorpusSource, name: str, header: list[str]) -> tuple[int, int | None]:
    """Returns the places of the text and of the id among the columns.

    Raises:
        InputError: a column that was asked for isn't there.
    """
    text = source.text
    if text is None and len(header) == 1:
        text = header[0]
    text = text or "text"
    for column in (text, source.id or "id"):
        if header.count(column) > 1:
            raise InputError(f"two columns are called {column!r}", name, "Rename one of them.")
    if text not in header:
        near = (
            did_you_mean(source.text, header)
            if source.text
            else f"Set corpus.text to the \
column of the text: {', '.join(header)}."
        )
        raise InputError(f"there is no column {text!r}", name, near)
    if source.id is not None and source.id not in header:
        what = f"there is no column {source.id!r}"
        raise InputError(what, name, did_you_mean(source.id, header))
    identity = source.id or "id"
    return header.index(text), header.index(identity) if identity in header else None


def _read_delimited(
    source: CorpusSource, name: str, file: Path, encoding: str, is_tsv: bool, unreadable: Unreadable
) -> Iterator[tuple[str, str]]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
    separator = one_character(name, source.separator or ("\t" if is_tsv else ","))
    with _open_text(file, encoding, "") as lines:
        # strict: what isn't CSV is told and not guessed at.
        reader = csv.reader(lines, delimiter=separator, strict=True)
        line = 1
        try:
            header = [column.strip() for column in next(reader, [])]
            if not header:
                unreadable(name, 0, "the file is empty")
                return
            _check_one_column(header, name, separator)
            text, identity = _columns(source, name, header)
            while True:
                line = reader.line_num + 1
                try:
                    row = next(reader, None)
                except csv.Error as error:
                    unreadable(name, line, _csv_reason(error))
                    continue
                if row is None:
                    return
                if not row:
                    continue
                if len(row) != len(header):
                    unreadable(name, line, f"{len(row)} fields, the header has {len(header)}")
                    continue
                own = row[identity] if identity is not None else ""
                if _MARK in row[text] or _MARK in own:
                    unreadable(name, line, _not_text(encoding))
                    continue
                shown = own or f"{name}:{line}"
                yield without_surrogates(shown), without_surrogates(row[text])
        except csv.Error as error:
            unreadable(name, line, _csv_reason(error))
        except _DAMAGED:
            raise _damaged(name, line) from None


def _check_one_column(header: list[str], name: str, separator: str) -> None:
    """Raises an error where a table's only column looks like several, or like a note."""
    if len(header) != 1:
        return
    other = next((sign for sign in ";\t|," if sign in header[0] and sign != separator), None)
    if other is not None:
        raise InputError(
            f"its one column looks like several, separated by {shown_sign(other)}",
            f"{name}, line 1",
            f"Set corpus.separator: {shown_sign(other)}.",
        )
    if " " in header[0] or len(header[0]) > 64:
        raise InputError(
            "the first line looks like text, not like the name of a column",
            f"{name}, line 1",
            "Add a line above it: text",
        )


def _csv_reason(error: csv.Error) -> str:
    # The words of the module hold no text of the file, but its field limit needs explaining.
    if "field larger" in str(error) or "unexpected end" in str(error):
        return "a quotation mark opens a field that does not end"
    return "quotation marks inside a field are not doubled"


def _read_jsonl(
    source: CorpusSource, name: str, file: Path, encoding: str, unreadable: Unreadable
) -> Iterator[tuple[str, str]]:
    key = source.text or "text"
    number = 0
    # Only LF ends a line: a JSON string may hold U+2028 and others as they are.
    with _open_text(file, encoding, "\n") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                found = _json_document(source, key, line, f"{name}:{number}", encoding)
                if isinstance(found, str):
                    unreadable(name, number, found)
                else:
                    yield found
        except _DAMAGED:
            raise _damaged(name, number + 1) from None


def _json_document(
    source: CorpusSource, key: str, line: str, fallback: str, encoding: str
) -> tuple[str, str] | str:
    """Returns (id, text) of a line, or the reason why it can't be read."""
    if _MARK in line:
        return _not_text(encoding)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(record, dict):
        return f"expected a JSON object, got {json_kind(record)}"
    if key not in record:
        return f"the key {key!r} is missing"
    text = record[key]
    if text is None:
        text = ""
    if not isinstance(text, str):
        return f"{key!r} is {json_kind(text)}, not a string"
    identity = record.get(source.id or "id")
    if source.id is not None and identity is None:
        return f"the key {source.id!r} is missing"
    if isinstance(identity, (dict, list)):
        return f"{source.id or 'id'!r} is {json_kind(identity)}, not a string or number"
    shown = fallback if identity is None or identity == "" else str(identity)
    return without_surrogates(shown), without_surrogates(text)


def _read_text(
    source: CorpusSource, name: str, file: Path, encoding: str, unreadable: Unreadable
) -> Iterator[tuple[str, str]]:
    number = 0
    if source.unit == "document":
        with _open_text(file, encoding, "") as whole:
            try:
                text = whole.read()
            except _DAMAGED:
                raise _damaged(name, 0) from None
        if _MARK in text:
            unreadable(name, 0, _not_text(encoding))
        else:
            yield name, without_surrogates(text)
        return
    with _open_text(file, encoding, None) as lines:
        try:
            for number, line in enumerate(lines, 1):
                if _MARK in line:
                    unreadable(name, number, _not_text(encoding))
                elif not line.isspace():
                    yield f"{name}:{number}", without_surrogates(line.rstrip("\n"))
        except _DAMAGED:
            raise _damaged(name, number + 1) from None


def _read_parquet(
    source: CorpusSource, name: str, file: Path, unreadable: Unreadable
) -> Iterator[tuple[str, str]]:
    import pyarrow.parquet as pq

    try:
        if file.suffix.lower() == ".gz":
            with gzip.open(file, "rb") as packed:
                parquet = pq.ParquetFile(io.BytesIO(packed.read()))
        else:
            parquet = pq.ParquetFile(file)
    except (pa.ArrowException, *_DAMAGED):
        what = "it is not a whole Parquet file"
        raise InputError(what, name, "Copy or write it anew.") from None
    row = 0
    with parquet:
        header = parquet.schema_arrow.names
        text, identity = _columns(source, name, header)
        kind = parquet.schema_arrow.field(text).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind)):
            what = f"the column {header[text]!r} holds {kind}, not text"
            raise InputError(what, name, "Set corpus.text to the column of the text.")
        wanted = [header[text]] + ([header[identity]] if identity is not None else [])
        try:
            for batch in parquet.iter_batches(batch_size=2048, columns=list(dict.fromkeys(wanted))):
                texts = _values(batch.column(header[text]))
                own = [None] * len(texts)
                if identity is not None:
                    own = _values(batch.column(header[identity]))
                for content, shown in zip(texts, own, strict=True):
                    row += 1
                    if _MARK in (content or "") or _MARK in str(shown):
                        unreadable(name, row, _not_text("utf-8-sig"))
                        continue
                    fallback = f"{name}:{row}"
                    yield fallback if shown in (None, "") else str(shown), content or ""
        except (pa.ArrowException, OSError):
            what = "the Parquet file is damaged from here on"
            raise InputError(what, f"{name}, row {row + 1}", "Copy or write it anew.") from None


def _is_view(kind: pa.DataType) -> bool:
    return bool(getattr(pa.types, "is_string_view", lambda kind: False)(kind))


def _values(column: pa.Array) -> list[Any]:
    """Returns a column's values; what is no UTF-8 in a string is marked."""
    try:
        return cast(list[Any], column.to_pylist())
    except UnicodeDecodeError:  # writers don't check what they call a string
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        return [
            None if raw is None else raw.decode("utf-8", "deidsearch.mark")
            for raw in column.cast(binary).to_pylist()
        ]
