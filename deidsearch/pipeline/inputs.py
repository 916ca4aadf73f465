"""From the grid's sections to the plain arguments of the steps, files checked on the way."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from deidsearch.config.grid import Annotation, GoldSet, GridConfig
from deidsearch.config.load import Grid
from deidsearch.errors import InputError

if TYPE_CHECKING:
    from deidsearch.annotate.ceilings import Rules
    from deidsearch.dataset.gold import GoldSet as LoadedGold
    from deidsearch.store.corpus import CorpusSource
    from deidsearch.store.dictionaries import Source, WordList


def data_paths(grid: Grid, config: GridConfig) -> Iterable[tuple[str, str]]:
    """Yields (dotted field, path as written) of every data file that a cell reads."""
    for name, sources in config.dictionaries.items():
        for number, source in enumerate(sources):
            yield f"dictionaries.{name}.{number}.path", source.path
    for number, words in enumerate(config.non_identifiers):
        yield f"non_identifiers.{number}.path", words.path
    if config.corpus is not None:
        paths = config.corpus.path
        for path in (paths,) if isinstance(paths, str) else paths:
            yield "corpus.path", path
    yield "gold.validation.path", config.gold.validation.path
    for name, gold in config.gold.test.items():
        yield f"gold.test.{name}.path", gold.path
    if config.gold.train is not None:
        yield "gold.train.path", config.gold.train.path


def missing_files(grid: Grid) -> tuple[list[InputError], list[str]]:
    """Returns faults for files that aren't there, and warnings for those that can't be verified.

    A path under a variable without a value may exist on the machine where the grid will run.
    """
    faults: list[InputError] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for cell in grid.cells:
        for field, written in data_paths(grid, cell.config):
            if written in seen:
                continue
            seen.add(written)
            where = grid.place(field)
            if "${" in written:
                warnings.append(f"{where}: not verified, a variable in {written!r} has no value.")
                continue
            fault = path_fault(grid.resolve(written), written, is_corpus=field == "corpus.path")
            if fault is not None:
                faults.append(InputError(fault.what, where, fault.mend))
    return faults, warnings


def no_mention(gold: LoadedGold) -> InputError:
    """Returns the error of a validation set that cannot choose, with the labels in its file."""
    found = ", ".join(f"{name} ({count})" for name, count in gold.ignored.items())
    return InputError(
        "the validation set has no mention of any type, so no model can be chosen",
        mend="Check its labels" + (f"; the file holds {found}." if found else "."),
    )


def path_fault(
    path: Path, written: str | None = None, *, is_corpus: bool = False
) -> InputError | None:
    """Returns why a data file cannot be read, or None.

    Args:
        path: of the file; of a corpus also a folder or a glob pattern.
        written: the path as the grid says it.
        is_corpus: whether it is a corpus's.
    """
    written = written or path.name
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if is_corpus and any(sign in written for sign in "*?["):
            if next(glob.iglob(str(path), recursive=True), None) is not None:
                return None
            return InputError(f"no file matches {written!r}")
        return InputError(
            f"there is no file {written!r}",
            mend=f"Looked in {path.parent}; paths start from the grid's folder.",
        )
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        return InputError(f"{written[:200]!r} cannot be looked at ({reason})")
    if stat.S_ISDIR(mode):
        return None if is_corpus else InputError(f"{written!r} is a folder", mend="Name a file.")
    if not stat.S_ISREG(mode):
        return InputError(
            f"{written!r} is no regular file", mend="It is read more than once: save it first."
        )
    if not os.access(path, os.R_OK):
        return InputError(f"{written!r} may not be read", mend="Ask for the right to read it.")
    return None


def tracking_faults(grid: Grid) -> list[InputError]:
    """Returns what is wrong with the tracking address as far as can be told without asking it."""
    uri, where = grid.config.tracking.uri, grid.place("tracking.uri")
    if uri is None:
        return []
    known = ("http://", "https://", "sqlite:", "postgresql", "mysql", "mssql", "databricks")
    if not uri.startswith(known):
        mend = "Use sqlite:///file.db or http://host:port, or leave it out."
        return [InputError(f"tracking.uri {uri!r} is no store of MLflow", where, mend)]
    if uri.startswith("sqlite:"):
        file = grid.resolve(uri.removeprefix("sqlite:///"))
        if not file.parent.is_dir():
            return [InputError(f"there is no folder {str(file.parent)!r}", where, "Make it first.")]
        if file.is_file() and file.stat().st_size:
            with file.open("rb") as opened:
                if opened.read(16) != b"SQLite format 3\0":
                    what = f"{file.name!r} is no SQLite database"
                    return [InputError(what, where, "Name another file.")]
    return []


def require_variables(grid: Grid) -> None:
    """Raises an error for variables that the grid names and the environment lacks.

    Raises:
        InputError: names them.
    """
    if grid.unset:
        names = ", ".join(sorted(grid.unset))
        raise InputError(
            f"the grid uses variables without a value: {names}",
            grid.path.name,
            "Set them, or give a default: ${NAME:-value}.",
        )


def identifier_sources(grid: Grid, config: GridConfig) -> dict[str, list[Source]]:
    """Returns the dictionary sources of each type, with absolute paths."""
    from deidsearch.store.dictionaries import Source

    return {
        name: [
            Source(
                path=grid.resolve(source.path),
                identifier=source.identifier,
                count=source.count,
                scale=source.scale,
                encoding=source.encoding,
                separator=source.separator,
                suffixes=source.suffixes,
                variants=source.variants,
            )
            for source in sources
        ]
        for name, sources in config.dictionaries.items()
    }


def word_lists(grid: Grid, config: GridConfig) -> list[WordList]:
    """Returns the non-identifier lists, with absolute paths."""
    from deidsearch.store.dictionaries import WordList

    return [
        WordList(
            name=words.name,
            path=grid.resolve(words.path),
            column=words.column,
            encoding=words.encoding,
            separator=words.separator,
            split=words.split,
            lowercase_entries_only=words.lowercase_entries_only,
        )
        for words in config.non_identifiers
    ]


def corpus_sources(grid: Grid, config: GridConfig) -> list[CorpusSource]:
    """Returns the corpus's files, with absolute paths."""
    from deidsearch.store.corpus import CorpusSource

    corpus = config.corpus
    assert corpus is not None
    paths = (corpus.path,) if isinstance(corpus.path, str) else corpus.path
    return [
        CorpusSource(
            path=grid.resolve(path),
            text=corpus.text,
            id=corpus.id,
            unit=corpus.unit,
            encoding=corpus.encoding,
            separator=corpus.separator,
        )
        for path in paths
    ]


def rules_of(annotation: Annotation) -> Rules:
    """Returns the annotation rules apart from the ceiling."""
    from deidsearch.annotate.ceilings import Rules

    chosen = annotation.multiword_ambiguous
    multiword: bool | frozenset[str] = False
    if isinstance(chosen, dict):
        multiword = frozenset(name for name, is_on in chosen.items() if is_on) or False
    else:
        multiword = chosen
    return Rules(
        floor=annotation.floor,
        scope=annotation.scope,
        type_dominance=annotation.type_dominance,
        multiword_ambiguous=multiword,
        initials=annotation.initials,
    )


def gold_sets(config: GridConfig) -> dict[str, GoldSet]:
    """Returns the gold sets by name: "validation", the tests, and "train" where there is one."""
    sets = {"validation": config.gold.validation, **config.gold.test}
    if config.gold.train is not None:
        sets["train"] = config.gold.train
    return sets


def gold_unit(config: GridConfig, gold: GoldSet) -> Literal["document", "sentence"]:
    """Returns what a record of a gold set is: as for the corpus unless it says otherwise."""
    if gold.unit is not None:
        return gold.unit
    return config.corpus.unit if config.corpus is not None else "document"


def load_gold_set(grid: Grid, config: GridConfig, name: str, gold: GoldSet) -> LoadedGold:
    """Returns a gold set read as the grid says.

    Raises:
        InputError: lists what is wrong with its file.
    """
    from deidsearch.dataset.gold import read_gold

    return read_gold(
        name,
        grid.resolve(gold.path),
        types=config.types,
        labels=gold.labels,
        where=gold.where,
        part=gold.part,
        nested=gold.nested,
        unit=gold_unit(config, gold),
        line_breaks=config.text.line_breaks,
        fold_accents=config.text.fold_accents,
    )
