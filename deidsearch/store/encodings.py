"""Bytes of a user's file as text, with a wrong encoding noticed before anything is stored."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import re
import zlib
from pathlib import Path

from deidsearch.errors import InputError
from deidsearch.formats.lines import without_surrogates

# C1 controls: no list of names holds them, but Windows' curly quotes read as Latin-1 become them.
_C1 = re.compile("[\x80-\x84\x86-\x9f]")
# Of names of hosts, or of nothing at all.
_NO_FILES = ("undefined", "punycode", "idna")
_GZIP_MARK = b"\x1f\x8b"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_bytes(path: Path) -> bytes:
    """Returns the content of a file, unpacked where its name ends in ``.gz``.

    Raises:
        InputError: it can't be read.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path.name!r}",
            mend="Check the path; it starts at the grid's folder.",
        ) from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise InputError(f"the file cannot be read ({reason})", path.name) from None
    if path.suffix.lower() != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        raise InputError(
            "it is not a whole gzip file", path.name, "Pack it again, or take .gz off its name."
        ) from None


def read_text(path: Path, encoding: str | None = None) -> str:
    """Returns the text of a file; a byte order mark isn't part of it, line ends stay.

    Args:
        path: plain or ``.gz``.
        encoding: a Python encoding name; None means UTF-8.

    Raises:
        InputError: the file can't be read, or the encoding is evidently another one.
    """
    raw = read_bytes(path)
    if raw.startswith(_GZIP_MARK):
        raise InputError("it is packed with gzip", path.name, "Add .gz to its name.")
    codec = codec_name(encoding, path.name)
    if codec in ("utf-8", "utf-8-sig"):
        if raw.startswith(_UTF16_MARKS):
            raise InputError("it is UTF-16, not UTF-8", path.name, "Set encoding: utf-16.")
        codec = "utf-8-sig"
    elif (
        # Bytes of UTF-16 and UTF-32 make nonsense of any text, and theirs hold zeros.
        _is_utf8(raw) and b"\0" not in raw
        if codec.startswith(("utf-16", "utf-32"))
        else not codec.startswith(("utf", "iso2022", "hz")) and not raw.isascii() and _is_utf8(raw)
    ):
        raise InputError(
            f"it is UTF-8; read as {encoding} its letters would be garbled",
            path.name,
            "Take the field encoding out.",
        )
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        mend = (
            "Set encoding: latin-1 (or whatever it was saved in)."
            if codec == "utf-8-sig"
            else "Set the encoding that it was saved in."
        )
        raise InputError(
            f"byte {error.start + 1} (0x{raw[error.start]:02x}) is no {encoding or 'UTF-8'}",
            f"{path.name}, line {line}",
            mend,
        ) from None
    except (LookupError, ValueError):
        raise InputError(
            f"{encoding!r} is no encoding of text", path.name, "Take for example utf-8 or latin-1."
        ) from None
    text = without_surrogates(text)
    if codec.startswith("iso8859") and (found := _C1.search(text)):
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(
            f"it is not {encoding}, which prints nothing for 0x{ord(found.group()):02x}",
            f"{path.name}, line {line}",
            "Set encoding: cp1252.",
        )
    return text


def codec_name(encoding: str | None, where: str) -> str:
    """Returns Python's own name of an encoding of text; None is UTF-8.

    Raises:
        InputError: there is none of that name, or it is none that files are written in.
    """
    with contextlib.suppress(LookupError, ValueError):
        codec = codecs.lookup(encoding or "utf-8")
        if getattr(codec, "_is_text_encoding", True) and codec.name not in _NO_FILES:
            return codec.name
    raise InputError(
        f"there is no encoding {encoding!r}", where, "Take for example utf-8 or latin-1."
    )


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
