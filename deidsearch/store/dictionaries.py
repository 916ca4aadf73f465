"""Compiling dictionaries: from files to one table of identifiers with rates and non-identifiers.

Source: METHOD §1, §2 and §5b (Laursen et al. 2022, §3.1.2, §3.1.3). All work is on whole columns:
no Python step is taken per entry, so half a million entries take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.errors import DeidsearchError, InputError
from deidsearch.store.cleaning import Cleaner, Report
from deidsearch.store.dictionary_records import (
    Dictionary,
    Source,
    WordList,
    dictionary_digest,
)
from deidsearch.store.dictionary_tables import load_dictionary, save_dictionary, split_keys
from deidsearch.store.entries import PLACEHOLDERS, placeholder_keys
from deidsearch.store.tables import SourceRows, read_source, read_word_list
from deidsearch.text.tokens import is_word

__all__ = [
    "PLACEHOLDERS",
    "Dictionary",
    "Source",
    "WordList",
    "compile_dictionary",
    "dictionary_digest",
    "load_dictionary",
    "save_dictionary",
]

# Types and lists are bits of a 64-bit number.
MOST_BITS = 64


def compile_dictionary(
    types: Mapping[str, Sequence[Source]],
    non_identifiers: Sequence[WordList] = (),
    *,
    fold_accents: bool = False,
    placeholders: Sequence[str] = PLACEHOLDERS,
) -> Dictionary:
    """Returns the identifiers of all types with their rates, and which word lists have them.

    Args:
        types: type -> its files, in the grid's order.
        non_identifiers: lists of the general language and of the clinic.
        fold_accents: keys without accents.
        placeholders: entries that stand for a missing name.

    Raises:
        InputError: all faults of all files in one report; nothing is compiled then.
    """
    _check_settings(types, non_identifiers)
    name = dictionary_digest(
        types, non_identifiers, fold_accents=fold_accents, placeholders=placeholders
    )
    rows, terms = _read_all(types, non_identifiers)
    removed, remarks = Report(), Report()
    cleaner = Cleaner(fold_accents, placeholder_keys(placeholders, fold_accents), removed, remarks)
    entries = [cleaner.type_entries(kind, types[kind], rows[kind]) for kind in types]

    encoded = pa.concat_arrays([part.key for part in entries]).dictionary_encode()
    key = encoded.dictionary
    place = encoded.indices.to_numpy(zero_copy_only=False)
    rates = np.zeros((len(key), len(types)))
    counts = np.full((len(key), len(types)), np.nan)
    is_listed = np.zeros(len(key), dtype=np.bool_)
    first = 0
    for column, part in enumerate(entries):
        where = place[first : first + len(part.key)]
        rates[where, column] = part.rate
        counts[where, column] = part.count
        is_listed[where[: part.num_listed]] = True
        first += len(part.key)

    token_key, tokens, offsets = split_keys(key)
    term, term_bits = _union(
        [cleaner.terms(words, rows) for words, rows in zip(non_identifiers, terms, strict=True)]
    )
    bits, is_common = (_bits_of(array, term, term_bits) for array in (key, token_key))
    return Dictionary(
        types=tuple(types),
        sources=tuple(words.name for words in non_identifiers),
        key=key,
        token_key=token_key,
        tokens=tokens,
        offsets=offsets,
        rates=rates,
        counts=counts,
        non_identifier=bits,
        all_words_common=_all_words_common(token_key, tokens, offsets, is_common != 0),
        is_variant=~is_listed,
        removed=removed.table(),
        digest=name,
        remarks=remarks.table(),
    )


def _union(lists: Sequence[pa.StringArray]) -> tuple[pa.StringArray, npt.NDArray[np.uint64]]:
    """Returns the distinct terms of all lists, and for each the bits of the lists that have it."""
    encoded = pa.concat_arrays([pa.array([], pa.string()), *lists]).dictionary_encode()
    place = encoded.indices.to_numpy(zero_copy_only=False)
    bits = np.zeros(len(encoded.dictionary), dtype=np.uint64)
    first = 0
    for number, terms in enumerate(lists):
        bits[place[first : first + len(terms)]] |= np.uint64(1) << np.uint64(number)
        first += len(terms)
    return encoded.dictionary, bits


def _bits_of(
    key: pa.StringArray, term: pa.StringArray, term_bits: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Returns the bits of the lists that have each key, uint64 ``(keys,)``."""
    found = pc.index_in(key, value_set=term).fill_null(len(term))
    # A key in no list gets the number behind the last term: no bit.
    padded = np.append(term_bits, np.uint64(0))
    bits: npt.NDArray[np.uint64] = padded[found.to_numpy(zero_copy_only=False)]
    return bits


def _all_words_common(
    token_key: pa.StringArray,
    tokens: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    is_common: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Returns where an identifier has two or more words, each of them a non-identifier."""
    words = is_word(token_key)

    def per_identifier(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        total = np.concatenate(([0], np.cumsum(flags[tokens], dtype=np.int64)))
        return total[offsets[1:]] - total[offsets[:-1]]

    is_multiword = per_identifier(words) >= 2
    common: npt.NDArray[np.bool_] = is_multiword & (per_identifier(words & ~is_common) == 0)
    return common


def _check_settings(
    types: Mapping[str, Sequence[Source]], non_identifiers: Sequence[WordList]
) -> None:
    faults: list[DeidsearchError] = []
    if not types:
        faults.append(InputError("there is no identifier type", mend="Name a dictionary."))
    for name, sources in types.items():
        if not sources:
            faults.append(InputError(f"the type {name!r} has no file", mend="Name one."))
        for source in sources:
            if not 0 < source.scale < float("inf"):
                faults.append(
                    InputError(f"scale must be above 0, got {source.scale}", Path(source.path).name)
                )
    names = [words.name for words in non_identifiers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(
            InputError(f"two non-identifier lists are called {name!r}", mend="Rename one.")
        )
    for kind, number in (("types", len(types)), ("non-identifier lists", len(names))):
        if number > MOST_BITS:
            faults.append(InputError(f"there are {number} {kind}, more than {MOST_BITS}"))
    if faults:
        raise InputError.many(faults)


def _read_all(
    types: Mapping[str, Sequence[Source]], non_identifiers: Sequence[WordList]
) -> tuple[dict[str, list[SourceRows]], list[SourceRows]]:
    """Returns the rows of all files, or raises one error with the faults of all."""
    faults: list[DeidsearchError] = []
    rows: dict[str, list[SourceRows]] = {name: [] for name in types}
    terms: list[SourceRows] = []
    for name, sources in types.items():
        for source in sources:
            try:
                table = read_source(
                    source.path,
                    column=source.identifier,
                    count=source.count,
                    encoding=source.encoding,
                    separator=source.separator,
                )
                if not len(table):
                    raise InputError("the file has no entry", Path(source.path).name)
                rows[name].append(table)
            except InputError as error:
                faults.append(error)
    for words in non_identifiers:
        try:
            terms.append(
                read_word_list(
                    words.path,
                    column=words.column,
                    encoding=words.encoding,
                    separator=words.separator,
                )
            )
        except InputError as error:
            faults.append(error)
    if faults:
        raise InputError.many(faults)
    return rows, terms
