"""``deidsearch explain``: why a word is or isn't annotated (METHOD §4, §5)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from deidsearch.annotate.ceilings import Rules, identifier_tags
from deidsearch.annotate.ratios import count_occurrences, sentence_ratios
from deidsearch.config.grid import GridConfig
from deidsearch.config.load import Cell, Grid
from deidsearch.errors import InputError
from deidsearch.pipeline.columns import column_faults
from deidsearch.pipeline.inputs import missing_files, require_variables, rules_of
from deidsearch.pipeline.prepare import Lexicon, Preparation
from deidsearch.pipeline.workspace import open_workspace
from deidsearch.progress import Console
from deidsearch.search.driver import driver_lock
from deidsearch.store.database import Database
from deidsearch.text.tokens import fold, tokenise


def explain_words(grid: Grid, words: Sequence[str], console: Console) -> list[dict[str, Any]]:
    """Returns for each word its types, counts, rates, ratio, sources and tags at each ceiling.

    Dictionaries, corpus and matches are made first where the sweep has not made them yet.
    """
    require_variables(grid)
    faults, _ = missing_files(grid)
    if not os.path.exists(grid.output / "plan.json"):
        faults += column_faults(grid)
    if faults:
        raise InputError.many(faults)
    for word in words:
        if not word_key(word, False):
            raise InputError(f"{word[:40]!r} holds no letter or digit", "WORD", "Name a word.")
    cells = [cell for cell in grid.cells if not cell.upper_bound]
    if not cells or not grid.config.dictionaries:
        raise InputError(
            "this grid trains on human annotation only, so no word is looked up",
            grid.path.name,
            "Name dictionaries and a corpus.",
        )
    workspace = open_workspace(grid)
    with driver_lock(workspace.root), Database(workspace.store, workspace.temporary) as database:
        preparation = Preparation(grid, workspace, database, console)
        return [_explain(preparation, cells, word) for word in words]


def word_key(word: str, fold_accents: bool) -> str:
    """Returns the dictionary key of a word or of several: folded tokens joined by one blank."""
    table = tokenise([word])
    names = table.vocabulary.to_pylist()
    return " ".join(fold(names[number], fold_accents) for number in table.token)


def _explain(preparation: Preparation, cells: list[Cell], word: str) -> dict[str, Any]:
    config = cells[0].config
    lexicon = preparation.lexicon(config)
    key = word_key(word, config.text.fold_accents)
    row = pc.index(lexicon.dictionary.key, key).as_py()
    if row < 0:
        return {
            "word": word,
            "key": key,
            "summary": "in no dictionary, so it is never annotated (but a model may find it)",
            "types": [],
            "non_identifier_sources": [],
            "sentences": [],
        }
    dictionary = lexicon.dictionary
    sources = [
        name
        for bit, name in enumerate(dictionary.sources)
        if int(dictionary.non_identifier[row]) >> bit & 1
    ]
    types = [
        {
            "type": name,
            "count": _number(dictionary.counts[row, column]),
            "rate": float(dictionary.rates[row, column]),
        }
        for column, name in enumerate(dictionary.types)
        if dictionary.rates[row, column] > 0
    ]
    return {
        "word": word,
        "key": key,
        "summary": _summary(types, sources, bool(lexicon.dictionary.is_ambiguous[row])),
        "types": types,
        "non_identifier_sources": sources,
        "is_variant": bool(dictionary.is_variant[row]),
        "sentences": [_at_sentences(preparation, lexicon, row, group) for group in _groups(cells)],
    }


def _summary(types: list[dict[str, Any]], sources: list[str], is_ambiguous: bool) -> str:
    names = " and ".join(row["type"] for row in types)
    if not is_ambiguous:
        return f"{names}, unambiguous: annotated wherever it stands"
    why = []
    if len(types) > 1:
        why.append("it has several types")
    if sources:
        why.append(f"it is a word of {', '.join(sources)}")
    return f"{names}, ambiguous: {' and '.join(why)}"


def _groups(cells: list[Cell]) -> list[list[Cell]]:
    """Returns the cells that share their rules and sentences, whatever their ceilings."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        annotation = cell.config.annotation.model_dump_json(exclude={"ceiling"})
        groups.setdefault(f"{annotation} {cell.config.training.sentences}", []).append(cell)
    return list(groups.values())


def _at_sentences(
    preparation: Preparation, lexicon: Lexicon, row: int, cells: list[Cell]
) -> dict[str, Any]:
    config: GridConfig = cells[0].config
    corpus = preparation.corpus(config)
    available = len(corpus.sentences.tokens)
    num = min(config.training.sentences or available, available)
    rules = rules_of(config.annotation)
    matches = preparation.matches(lexicon, corpus).until(num)
    occurrences = count_occurrences(matches, len(lexicon.dictionary.key))
    ratio = sentence_ratios(lexicon.dictionary, occurrences, num, rules.type_dominance)
    ceilings = list(
        {str(c.config.annotation.ceiling): c.config.annotation.ceiling for c in cells}.values()
    )
    ceilings.sort(key=lambda ceiling: ceiling if isinstance(ceiling, float) else math.inf)
    seen, value = int(occurrences[row]), float(ratio[row])
    corpus_rate = seen / num
    shown = "not seen" if np.isnan(value) else f"seen {seen:,} times, ratio {value:,.4g}"
    return {
        "summary": f"in {num:,} sentences {shown}{_rules_in_words(rules)}",
        "num_sentences": num,
        "occurrences": seen,
        "corpus_rate": corpus_rate,
        "population_rate": None if np.isnan(value) else corpus_rate / value,
        "ratio": _number(value),
        "rules": {
            name: sorted(setting) if isinstance(setting, frozenset) else setting
            for name, setting in dataclasses.asdict(rules).items()
        },
        "tags": [
            {
                "ceiling": _ceiling_in_words(tag.ceiling),
                "tags": _tags_in_words(tag.types, tag.non_identifier),
                "outcome": tag.outcome,
                "reason": tag.reason,
            }
            for tag in identifier_tags(lexicon.dictionary, row, ratio, rules, ceilings)
        ],
    }


def _rules_in_words(rules: Rules) -> str:
    default = Rules()
    changed = [
        f"{item.name} {getattr(rules, item.name)}"
        for item in dataclasses.fields(rules)
        if getattr(rules, item.name) != getattr(default, item.name)
    ]
    return f" ({', '.join(changed)})" if changed else ""


def _ceiling_in_words(ceiling: Any) -> str:
    if isinstance(ceiling, dict):
        return ", ".join(f"{name} {value:g}" for name, value in ceiling.items())
    return "none" if ceiling is None else f"{ceiling:g}"


def _tags_in_words(types: Sequence[str], non_identifier: bool) -> str:
    names = [*types, *(["non-identifier"] if non_identifier else [])]
    shown = " + ".join(names)
    return f"{shown} (ambiguous)" if len(names) > 1 else shown


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
