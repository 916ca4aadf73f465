"""Entries of lists as keys: cleaned, tokenised like a note, folded, with their variants.

Source: METHOD §1.2, §1.5 and §5b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.text.tokens import fold_vocabulary, is_word, tokenise

# What registers write where a person or a place has no name. Compared as keys, so case doesn't
# matter. Only what nobody is called: "Na", "Nan" and "Barn" are names somewhere.
PLACEHOLDERS: tuple[str, ...] = (
    "-", "000", "xx", "xxx", "xxxx", "xxxxx", "null", "none", "n/a", "n.a.", "nn", "n.n.",
    # Danish
    "ukendt", "ukendt navn", "navn ukendt", "ukendt fornavn", "ukendt efternavn",
    "ukendt adresse", "ej navn", "ej fornavn", "ej efternavn", "ej mellemnavn", "intet navn",
    "intet fornavn", "intet efternavn", "uden navn", "uden fornavn", "uden efternavn", "uoplyst",
    "ikke oplyst", "ej oplyst", "ikke navngivet", "ingen",
    # Spanish
    "desconocido", "desconocida", "se desconoce", "nombre desconocido", "apellido desconocido",
    "sin nombre", "sin apellido", "sin apellidos", "sin segundo apellido", "sin datos",
    "sin especificar", "sin informar", "no consta", "no aplica", "no procede", "no informado",
    "no disponible", "ninguno", "ninguna", "s/n", "s/d",
    # German
    "unbekannt", "name unbekannt", "nicht bekannt", "ohne name", "ohne namen", "ohne nachname",
    "ohne nachnamen", "ohne vorname", "ohne vornamen", "ohne angabe", "keine angabe",
    "keine angaben", "k. a.", "o. a.", "entfällt", "kein name", "kein nachname", "kein vorname",
    # English
    "unknown", "not known", "name unknown", "unnamed", "no name", "no first name",
    "no last name", "no surname", "no family name", "no given name", "not available",
    "not applicable", "not stated", "not given", "missing", "undefined",
)  # fmt: skip

EMPTY = "empty"
PLACEHOLDER = "placeholder"
SINGLE_LETTER = "single letter"
NO_LETTER = "no letter"
DAMAGED = "can never match (damaged text)"
# Position + 1 is the code of a reason; 0 means the entry stays.
REASONS = (EMPTY, PLACEHOLDER, SINGLE_LETTER, NO_LETTER, DAMAGED)


@dataclass(frozen=True, eq=False)
class EntryKeys:
    """The keys of entries.

    Attributes:
        key: ``(entries,)`` folded tokens joined by one blank.
        token_key: ``(surfaces,)`` folded tokens of all entries; some may be equal.
        reason: uint8 ``(entries,)``, 0 or 1 + the index of why an entry is removed.
    """

    key: pa.StringArray
    token_key: pa.StringArray
    reason: npt.NDArray[np.uint8]

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """True where an entry stays, ``(entries,)``."""
        kept: npt.NDArray[np.bool_] = self.reason == 0
        return kept

    @property
    def words(self) -> pa.StringArray:
        """Distinct folded tokens with a letter or digit, ``(words,)``."""
        return pc.unique(self.token_key.filter(pa.array(is_word(self.token_key))))


def entry_keys(
    text: pa.StringArray, fold_accents: bool = False, placeholders: pa.StringArray | None = None
) -> EntryKeys:
    """Returns the keys of entries and why some can't be identifiers.

    Args:
        text: ``(entries,)`` as a file writes them.
        fold_accents: drop accents in keys.
        placeholders: keys (of `placeholder_keys`) that are no entries; None removes nothing but
            empty entries.
    """
    table = tokenise(text)
    folded = fold_vocabulary(table.vocabulary, fold_accents)
    flat = folded.take(pa.array(table.token))
    offsets = pa.array(table.offsets.astype(np.int32))
    key = pc.binary_join(pa.ListArray.from_arrays(offsets, flat), " ")
    reason = np.zeros(len(key), dtype=np.uint8)

    def remove(mask: npt.NDArray[np.bool_], why: str) -> None:
        reason[mask & (reason == 0)] = 1 + REASONS.index(why)

    def per_entry(of_surface: pa.Array) -> npt.NDArray[np.int64]:
        # Looked up once per distinct token, then summed over each entry's own.
        values = np.asarray(of_surface.to_numpy(zero_copy_only=False), dtype=np.int64)
        total = np.concatenate(([0], np.cumsum(values[table.token])))
        return total[table.offsets[1:]] - total[table.offsets[:-1]]

    remove(np.diff(table.offsets) == 0, EMPTY)
    if placeholders is not None:
        is_placeholder = pc.is_in(key, value_set=placeholders)
        remove(is_placeholder.to_numpy(zero_copy_only=False), PLACEHOLDER)
        # Counted before folding: one letter may fold to two (ß). "J." is one letter as well. A
        # token's second letter is as good as all that follow.
        letters = per_entry(pc.match_substring_regex(table.vocabulary, r"\pL"))
        letters += per_entry(pc.match_substring_regex(table.vocabulary, r"\pL.*\pL"))
        digits = per_entry(pc.match_substring_regex(table.vocabulary, r"\pN"))
        remove((letters == 1) & (digits == 0), SINGLE_LETTER)
        remove(letters == 0, NO_LETTER)
        # U+FFFD stands where an earlier program lost a letter; no note has it in that place. A
        # token of invisible characters alone folds to nothing.
        is_damaged = pc.or_(pc.match_substring(table.vocabulary, "\ufffd"), pc.equal(folded, ""))
        remove(per_entry(is_damaged) > 0, DAMAGED)
    return EntryKeys(key, folded, reason)


def placeholder_keys(placeholders: Sequence[str], fold_accents: bool = False) -> pa.StringArray:
    """Returns the placeholders as keys."""
    return entry_keys(pa.array(placeholders, pa.string()), fold_accents).key


@dataclass(frozen=True, eq=False)
class Variants:
    """Other spellings of entries.

    Attributes:
        key: ``(variants,)`` keys.
        entry: int64 ``(variants,)``, index of the entry each was made from.
        reason: uint8 ``(variants,)``, as in `EntryKeys`.
    """

    key: pa.StringArray
    entry: npt.NDArray[np.int64]
    reason: npt.NDArray[np.uint8]


def make_variants(
    key: pa.StringArray,
    suffixes: Sequence[str],
    variants: Mapping[str, Sequence[str]],
    fold_accents: bool,
    placeholders: pa.StringArray,
) -> Variants:
    """Returns the variants of entries, those equal to their own entry left out (METHOD §5b).

    Args:
        key: ``(entries,)`` keys.
        suffixes: each is appended to an entry's last token: "keld" + "s".
        variants: a word (or words) of an entry -> what it is replaced by, everywhere in the entry:
            "calle mayor" -> "c/ mayor". Replacements are not combined with suffixes.
        fold_accents: as for the keys.
        placeholders: keys that are no entries.

    >>> # ["s"] and {"calle": ["c/"]} on "calle mayor" -> "calle mayors", "c / mayor"
    """
    texts: list[pa.StringArray] = []
    entries: list[npt.NDArray[np.int64]] = []
    if suffixes:
        # An ending belongs to a word: "dr." has no genitive.
        ends_in_word = pc.match_substring_regex(key, r"[\pL\pN\pM]$")
        rows = np.flatnonzero(ends_in_word.to_numpy(zero_copy_only=False))
        base = key.take(pa.array(rows))
        for suffix in suffixes:
            texts.append(pc.binary_join_element_wise(base, suffix, ""))
            entries.append(rows)
    if variants:
        # Doubled blanks, so that neighbouring words don't share the one between them.
        padded = pc.binary_join_element_wise("  ", pc.replace_substring(key, " ", "  "), "  ", "")
        words = placeholder_keys(list(variants), fold_accents).to_pylist()
        for word, spellings in zip(words, variants.values(), strict=True):
            if not word:
                continue
            pattern = f" {word.replace(' ', '  ')} "
            found = pc.match_substring(padded, pattern).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(found)
            base = padded.take(pa.array(rows))
            for spelling in spellings:
                texts.append(pc.replace_substring(base, pattern, f" {spelling} "))
                entries.append(rows)
    if not texts:
        nothing = np.empty(0, np.int64)
        return Variants(pa.array([], pa.string()), nothing, np.empty(0, np.uint8))
    entry = np.concatenate(entries).astype(np.int64)
    # Cut and folded anew: a replacement is text as a user writes it.
    made = entry_keys(pa.concat_arrays(texts), fold_accents, placeholders)
    own = pc.equal(made.key, key.take(pa.array(entry))).to_numpy(zero_copy_only=False)
    keep = pa.array(~own)
    return Variants(made.key.filter(keep), entry[~own], made.reason[~own])
