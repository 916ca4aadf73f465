"""What a dictionary is made of: sources, lists of words, and the compiled columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deidsearch.errors import InputError
from deidsearch.files import digest, file_digest
from deidsearch.store.entries import PLACEHOLDERS

# Raise it when equal files and settings compile to something else.
DICTIONARY_VERSION = 1

REPORT_SCHEMA = pa.schema([("source", pa.string()), ("row", pa.int64()), ("reason", pa.string())])


@dataclass(frozen=True)
class Source:
    """One file of identifiers of a type.

    Attributes:
        path: CSV, TSV, TXT or Parquet, plain or .gz.
        identifier: column of the entries; None takes "identifier", else the first.
        count: column of the population counts; None leaves all counts unknown.
        scale: factor on the counts before they are summed.
        encoding: Python name; None is UTF-8.
        separator: one character; None goes by the ending.
        suffixes: endings that make further identifiers ("keld" + "s").
        variants: word of an entry -> its other spellings.
    """

    path: Path
    identifier: str | None = None
    count: str | None = "count"
    scale: float = 1.0
    encoding: str | None = None
    separator: str | None = None
    suffixes: Sequence[str] = ()
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class WordList:
    """One list of words and terms that are no identifiers (METHOD §2).

    Attributes:
        name: how counts and explanations call it.
        path: TXT (one a line), CSV, TSV or Parquet, plain or .gz.
        column: column of the terms; None takes the first.
        encoding: Python name; None is UTF-8.
        separator: one character; None goes by the ending.
        split: the single words of multi-word terms count too.
        lowercase_entries_only: skip entries whose first letter is a capital.
    """

    name: str
    path: Path
    column: str | None = None
    encoding: str | None = None
    separator: str | None = None
    split: bool = False
    lowercase_entries_only: bool = False


def empty_report() -> pa.Table:
    """Returns a report of no rows."""
    return REPORT_SCHEMA.empty_table()


@dataclass(frozen=True, eq=False)
class Dictionary:
    """All identifiers of a grid, one row each, whatever number of types they have.

    Attributes:
        types: identifier types in the grid's order.
        sources: names of the non-identifier lists, in the order of their bits.
        key: ``(identifiers,)`` folded tokens joined by one blank, unique.
        token_key: ``(token_keys,)`` distinct folded tokens.
        tokens: int32 ``(flat,)``, into ``token_key``.
        offsets: int64 ``(identifiers + 1,)``, token range of each identifier.
        rates: float64 ``(identifiers, types)``, population rate, 0 where it lacks the type.
        counts: float64 ``(identifiers, types)``, scaled counts, NaN where unknown. A variant has
            those of its entry.
        non_identifier: uint64 ``(identifiers,)``, bit s: list s has it.
        all_words_common: bool ``(identifiers,)``, two or more words, each in some list.
        is_variant: bool ``(identifiers,)``, no source lists it, it is another spelling.
        removed: source, row and reason of each row that was left out.
        digest: names the files and settings it was compiled from.
        remarks: source, row and reason of rows that stayed but were not taken as written.
    """

    types: tuple[str, ...]
    sources: tuple[str, ...]
    key: pa.StringArray
    token_key: pa.StringArray
    tokens: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    rates: npt.NDArray[np.float64]
    counts: npt.NDArray[np.float64]
    non_identifier: npt.NDArray[np.uint64]
    all_words_common: npt.NDArray[np.bool_]
    is_variant: npt.NDArray[np.bool_]
    removed: pa.Table
    digest: str
    remarks: pa.Table = field(default_factory=empty_report)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def type_mask(self) -> npt.NDArray[np.uint64]:
        """Bit t is set where an identifier has type t, uint64 ``(identifiers,)``."""
        bits = np.uint64(1) << np.arange(len(self.types), dtype=np.uint64)
        mask: npt.NDArray[np.uint64] = np.where(self.rates > 0, bits, np.uint64(0)).sum(
            axis=1, dtype=np.uint64
        )
        return mask

    @property
    def is_ambiguous(self) -> npt.NDArray[np.bool_]:
        """True where an identifier has several types or is in a list of words (METHOD §2)."""
        several = (self.rates > 0).sum(axis=1) > 1
        ambiguous: npt.NDArray[np.bool_] = several | (self.non_identifier != 0)
        return ambiguous


def dictionary_digest(
    types: Mapping[str, Sequence[Source]],
    non_identifiers: Sequence[WordList] = (),
    *,
    fold_accents: bool = False,
    placeholders: Sequence[str] = PLACEHOLDERS,
) -> str:
    """Returns what names a dictionary: its files' content, its settings and the code's version.

    Nothing is compiled, and it does not matter which folder the files lie in.

    Raises:
        InputError: lists the files that aren't there.
    """
    faults: list[InputError] = []
    settings = [
        [name, [[*_content(source.path, faults), *_settings(source)] for source in sources]]
        for name, sources in types.items()
    ]
    lists = [
        [
            words.name, *_content(words.path, faults), words.column, words.encoding,
            words.separator, words.split, words.lowercase_entries_only,
        ]
        for words in non_identifiers
    ]  # fmt: skip
    if faults:
        raise InputError.many(faults)
    return digest(
        "dictionary", DICTIONARY_VERSION, settings, lists, fold_accents, list(placeholders)
    )


def _settings(source: Source) -> list[object]:
    # Pairs, not a mapping: digests sort keys, and the order of variants is part of the settings.
    variants = [[word, list(spellings)] for word, spellings in source.variants.items()]
    return [
        source.identifier, source.count, float(source.scale), source.encoding, source.separator,
        list(source.suffixes), variants,
    ]  # fmt: skip


def _content(path: Path, faults: list[InputError]) -> list[str]:
    """Returns the file's name (its ending names the format) and the digest of its content."""
    path = Path(path)
    try:
        return [path.name, file_digest(path)]
    except OSError:
        faults.append(
            InputError(
                f"there is no readable file {path.name!r}",
                mend="Check the path; it starts at the grid's folder.",
            )
        )
        return []
