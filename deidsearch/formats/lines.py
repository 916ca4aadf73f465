"""Lines of text files with their numbers, faults collected on the way, whole files written."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from deidsearch.errors import InputError
from deidsearch.files import private_dir

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# json reads these bytes of another encoding as faults; say which encoding it may be.
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class FaultList:
    """The faults of one input: the first are kept, all are counted, none stops the reading."""

    def __init__(self, limit: int = 20) -> None:
        self.limit = limit
        self.total = 0
        self.kept: list[InputError] = []

    def add(self, fault: InputError) -> None:
        """Keeps a fault."""
        self.total += 1
        if len(self.kept) < self.limit:
            self.kept.append(fault)

    def raise_if_any(self) -> None:
        """Raises one error that lists the faults.

        Raises:
            InputError: there is at least one.
        """
        if self.total:
            raise InputError.many(self.kept, self.total)


def open_bytes(path: Path | str) -> BinaryIO:
    """Returns the content of a file, unpacked where its name ends in ``.gz``.

    Raises:
        InputError: there is no such file, or it may not be read.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        return open(path, "rb")  # noqa: SIM115 (the caller closes it)
    except FileNotFoundError:
        raise InputError(f"there is no file {path.name!r}", str(path.parent)) from None
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", path.name) from None


def read_lines(path: Path | str, faults: FaultList) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its end) of a UTF-8 file that isn't blank.

    Only LF and CRLF end a line: a JSON string may hold U+2028 as it is. A byte order mark before
    the first line is no part of it.
    """
    name = Path(path).name
    number = 0
    with contextlib.closing(open_bytes(path)) as file:
        try:
            for number, raw in enumerate(file, 1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                try:
                    line = raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    mend = "Save it as UTF-8."
                    if number == 1 and raw.startswith(_UTF16_MARKS):
                        mend = "It looks like UTF-16; save it as UTF-8."
                    what = f"byte {error.start + 1} of the line is not UTF-8"
                    faults.add(InputError(what, f"{name}:{number}", mend))
                    continue
                if line.strip():
                    yield number, line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            what = "the compressed data end early or are damaged"
            faults.add(InputError(what, f"{name}:{number + 1}", "Make the file anew."))


def read_objects(path: Path | str, faults: FaultList) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) of a JSON Lines file; lines that hold none become faults."""
    name = Path(path).name
    for number, line in read_lines(path, faults):
        where = f"{name}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            place = (
                f" (character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
            )
            mend = "Write one JSON object a line."
            faults.add(InputError(f"the line is not JSON{place}", where, mend))
            continue
        except RecursionError:
            faults.add(InputError("the line is nested too deeply", where))
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            what = f"expected a JSON object, got {json_kind(record)}"
            faults.add(InputError(what, where, "Write one JSON object a line."))


def json_kind(value: Any) -> str:
    """Returns what a JSON value is, in words that don't quote it."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    kinds |= {int: "a number", float: "a number", type(None): "null"}
    return kinds.get(type(value), "another value")


def without_surrogates(text: str) -> str:
    """Returns the text with lone surrogates as U+FFFD, one for one, so that offsets hold.

    JSON can name half a character ("\\ud83d"), but no UTF-8 file can store it.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@contextlib.contextmanager
def open_output(path: Path | str) -> Iterator[TextIO]:
    """Yields a UTF-8 text file that appears under its name, mode 0600, once it is whole.

    Line ends are written as given. A name that ends in ``.gz`` is packed.
    """
    path = Path(path)
    private_dir(path.parent)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            if path.suffix.lower() == ".gz":
                # No time stamp and no name inside: equal contents give equal files.
                packed = gzip.GzipFile("", "wb", 6, raw, mtime=0)
                with packed:
                    out = io.TextIOWrapper(cast(BinaryIO, packed), "utf-8", newline="")
                    yield out
                    out.flush()
                    out.detach()
            else:
                out = io.TextIOWrapper(raw, "utf-8", newline="")
                yield out
                out.flush()
                out.detach()
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def to_json_line(record: Any) -> str:
    """Returns a record as one line of JSON with its line end."""
    line = json.dumps(record, ensure_ascii=False)
    if not line.isascii() and any("\ud800" <= character <= "\udfff" for character in line):
        line = json.dumps(record)  # a lone surrogate survives as its escape
    return line + "\n"
