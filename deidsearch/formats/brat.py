"""Documents as brat's standoff files: NAME.txt with the text as it is, NAME.ann with the spans.

brat stores a span over a line break as fragments ("NAME 0 6;7 13") whose texts it joins by a
blank. Offsets are code points of the file as stored: byte order marks and CRs count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from deidsearch.errors import InputError
from deidsearch.files import atomic_dir
from deidsearch.formats.lines import FaultList
from deidsearch.records import Document, Span

_BLANKS = re.compile(r"\s+")
_LONGEST_NAME = 180


def write_brat(folder: Path | str, documents: Iterable[Document]) -> int:
    """Returns the number of documents written, two files each; the folder appears once it is whole.

    A file's name is the document's id with what file systems refuse percent-encoded.

    Raises:
        InputError: two documents have one id; nothing is written.
    """
    count = 0
    with atomic_dir(folder, sync=False) as temporary:
        for document in documents:
            name = _file_name(document.id)
            if (temporary / f"{name}.txt").exists():
                # The id may name a patient, so it is not repeated.
                raise InputError(
                    "two documents have the same id",
                    f"documents up to number {count + 1}",
                    "Give each its own id.",
                )
            # newline: the text's own line ends stay.
            with open(temporary / f"{name}.txt", "x", encoding="utf-8", newline="") as out:
                out.write(document.text)
            with open(temporary / f"{name}.ann", "x", encoding="utf-8", newline="") as out:
                out.writelines(_lines(document))
            count += 1
    return count


def _lines(document: Document) -> Iterator[str]:
    for number, span in enumerate(document.spans, 1):
        fragments = _fragments(document.text, span)
        places = ";".join(f"{start} {end}" for start, end in fragments)
        shown = " ".join(document.text[start:end] for start, end in fragments)
        shown = shown.replace("\t", " ")  # a tab ends the column
        label = "_".join(span.label.split())
        yield f"T{number}\t{label} {places}\t{shown}\n"


def read_brat(folder: Path | str) -> Iterator[Document]:
    """Yields the documents of a folder by name; faults are raised together after the last one.

    Fragments with only blanks between them are one span again. The text stored in the annotation
    must equal the text at its offsets, line breaks apart.

    Raises:
        InputError: lists the faults, each with file and line.
    """
    folder = Path(folder)
    texts = sorted(folder.glob("*.txt"))
    if not texts:
        raise InputError("the folder holds no .txt file", folder.name)
    faults = FaultList()
    for path in texts:
        try:
            # Bytes are decoded as they are: nothing is translated, no mark is dropped.
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            faults.add(InputError("the text is not UTF-8", path.name, "Save it as UTF-8."))
            continue
        before = faults.total
        spans = tuple(_read_spans(path.with_suffix(".ann"), text, faults))
        if faults.total == before:
            yield Document(unquote(path.stem), text, spans)
    faults.raise_if_any()


def _read_spans(path: Path, text: str, faults: FaultList) -> Iterator[Span]:
    if not path.exists():
        faults.add(InputError(f"there is no {path.name} beside the text", path.parent.name))
        return
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        faults.add(InputError("the annotations are not UTF-8", path.name))
        return
    for number, line in enumerate(content.split("\n"), 1):
        line = line.rstrip("\r").lstrip("\ufeff")
        if not line.startswith("T"):
            continue  # relations, notes and attributes say nothing about spans
        where = f"{path.name}:{number}"
        parts = line.split("\t", 2)
        found = re.fullmatch(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)", parts[1]) if len(parts) > 1 else None
        if found is None:
            faults.add(InputError("expected: T1, tab, label start end, tab, text", where))
            continue
        pairs = [tuple(map(int, pair.split())) for pair in found[2].split(";")]
        fragments = [(pair[0], pair[1]) for pair in pairs]
        if any(not 0 <= start < end <= len(text) for start, end in fragments):
            what = f"the span ends at character {fragments[-1][1]}, text has {len(text)}"
            faults.add(InputError(what, where, "Check line endings."))
            continue
        if any(
            first[1] > second[0] or text[first[1] : second[0]].strip()
            for first, second in zip(fragments, fragments[1:], strict=False)
        ):
            faults.add(InputError("the span is in parts with other text between", where))
            continue
        stored = parts[2] if len(parts) > 2 else None
        shown = " ".join(text[start:end] for start, end in fragments)
        if stored is not None and stored.split() != shown.split():
            what = "the stored text is not the text at its offsets"
            mend = "Check line endings and byte order marks."
            faults.add(InputError(what, where, mend))
            continue
        yield Span(fragments[0][0], fragments[-1][1], found[1])


def _fragments(text: str, span: Span) -> list[tuple[int, int]]:
    """Returns the parts of a span between line breaks, none of them blank."""
    fragments = []
    start = span.start
    for found in _BLANKS.finditer(text, span.start, span.end):
        if "\n" not in found[0] and "\r" not in found[0]:
            continue
        if found.start() > start:
            fragments.append((start, found.start()))
        start = found.end()
    if start < span.end:
        fragments.append((start, span.end))
    return fragments or [(span.start, span.end)]


def _file_name(identity: str) -> str:
    name = quote(identity, safe=" ()+,=@").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _LONGEST_NAME:
        # Too long for file systems: cut, with a digest that keeps names apart.
        name = name[:_LONGEST_NAME] + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return name
