"""Cheap looks into data files for ``check``: headers, first records, labels."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from deidsearch.config.load import Grid
from deidsearch.errors import DeidsearchError, InputError
from deidsearch.pipeline.inputs import (
    corpus_sources,
    gold_sets,
    identifier_sources,
    load_gold_set,
    no_mention,
    path_fault,
    word_lists,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deidsearch.config.grid import GridConfig

_LOOKED_AT = 200  # records of a corpus: enough to find a wrong column, encoding or separator


def column_faults(grid: Grid) -> list[InputError]:
    """Returns what is wrong inside the files that are there: columns, encodings, labels.

    Dictionaries are read whole (they are small beside a corpus), gold is parsed, and of the
    corpus only its first records are looked at.
    """
    from deidsearch.store.documents import read_documents
    from deidsearch.store.tables import read_source, read_word_list

    faults: dict[str, InputError] = {}

    def note(error: DeidsearchError, field: str) -> None:
        if str(error) not in faults:
            faults[str(error)] = _placed(error, grid.place(field))

    seen: set[str] = set()

    def is_new(*what: object) -> bool:
        key = repr(what)
        if "${" in key or key in seen:
            return False
        seen.add(key)
        return True

    for cell in grid.cells:
        config = cell.config
        for name, sources in identifier_sources(grid, config).items():
            entries: list[pa.StringArray] | None = []
            for number, source in enumerate(sources):
                field = f"dictionaries.{name}.{number}.path"
                if not is_new(name, source) or not os.path.isfile(source.path):
                    entries = None  # looked at before, or missing
                    continue
                try:
                    rows = read_source(
                        source.path,
                        column=source.identifier,
                        count=source.count,
                        encoding=source.encoding,
                        separator=source.separator,
                    )
                    if entries is not None:
                        entries.append(rows.text)
                    if not len(rows.text):
                        entries = None
                        note(InputError("the dictionary is empty", source.path.name), field)
                except DeidsearchError as error:
                    entries = None
                    note(error, field)
            if entries and not _holds_entries(entries, config):
                what = f"no entry of the type {name!r} is left after cleaning"
                mend = "Check the column and the format."
                note(InputError(what, mend=mend), f"dictionaries.{name}")
        for number, words in enumerate(word_lists(grid, config)):
            if is_new(words) and os.path.isfile(words.path):
                try:
                    read_word_list(
                        words.path,
                        column=words.column,
                        encoding=words.encoding,
                        separator=words.separator,
                    )
                except DeidsearchError as error:
                    note(error, f"non_identifiers.{number}.path")
        num_records: int | None = 0
        for corpus in corpus_sources(grid, config) if config.corpus is not None else ():
            if not is_new(corpus) or path_fault(Path(corpus.path), is_corpus=True) is not None:
                num_records = None
                continue
            try:
                unreadable: list[tuple[str, int, str]] = []
                documents = read_documents(corpus, lambda *row: unreadable.append(row))  # noqa: B023
                with contextlib.closing(documents):
                    num = sum(1 for _ in itertools.islice(documents, _LOOKED_AT))
                if num_records is not None:
                    num_records += num
                if not num and unreadable:
                    file, line, reason = unreadable[0]
                    fault = InputError(f"no record can be read: {reason}", f"{file}, row {line}")
                    note(fault, "corpus.path")
                    num_records = None
            except DeidsearchError as error:
                num_records = None
                note(error, "corpus.path")
        if config.corpus is not None and num_records == 0:
            note(InputError("the corpus holds no document", mend="Check it."), "corpus.path")
        for name, gold in gold_sets(config).items():
            path = grid.resolve(gold.path)
            if not is_new(name, gold.model_dump(), config.types, config.text) or not os.path.isfile(
                path
            ):
                continue
            field = f"gold.{name}.path" if name in ("validation", "train") else "gold.test"
            try:
                loaded = load_gold_set(grid, config, name, gold)
                if name == "validation" and not len(loaded.mentions):
                    note(no_mention(loaded), field)
            except DeidsearchError as error:
                note(error, field)
    return list(faults.values())


def _holds_entries(texts: list[pa.StringArray], config: GridConfig) -> bool:
    """Returns whether cleaning leaves any entry of a type."""
    from deidsearch.store.entries import PLACEHOLDERS, entry_keys, placeholder_keys

    fold_accents = config.text.fold_accents
    chosen = PLACEHOLDERS if config.placeholders is None else config.placeholders
    placeholders = placeholder_keys(chosen, fold_accents)
    return any(entry_keys(text, fold_accents, placeholders).kept.any() for text in texts)


def _placed(error: DeidsearchError, place: str) -> InputError:
    """Returns the error with the line of the grid that names the file."""
    if error.where is None and "\n" not in error.what:
        return InputError(error.what, place, error.mend)
    if error.where is None:  # several faults in one, each with its place in the file
        return InputError(f"{error}\n(named in {place})")
    where = error.where if error.where.startswith(place) else f"{error.where} ({place})"
    return InputError(error.what, where, error.mend)
