"""From the grid's cells to trainings: annotation, training sets and the dictionary baselines.

Cells that differ only in their ceiling share one matching pass and one pass of tags (METHOD §5).
Cells whose training sets come out identical, and whose other settings are the same, share one
training (METHOD §7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch import __version__
from deidsearch.annotate.ceilings import MAX_CEILINGS, Rules, tag_identifiers
from deidsearch.annotate.postprocess import Annotation, annotate
from deidsearch.annotate.ratios import count_occurrences, sentence_ratios
from deidsearch.annotate.training_sets import TrainingSet, training_set
from deidsearch.config.grid import GridConfig
from deidsearch.config.load import Cell, flat_settings, identity
from deidsearch.dataset.gold import GoldSet
from deidsearch.dataset.pieces import EncodedSentences
from deidsearch.evaluate.groups import mention_groups
from deidsearch.evaluate.positions import Positions
from deidsearch.evaluate.summary import GoldView
from deidsearch.files import digest
from deidsearch.pipeline.inputs import rules_of
from deidsearch.pipeline.prepare import PIPELINE_VERSION, CorpusPart, Lexicon, Preparation
from deidsearch.records import SpanTable
from deidsearch.search.task import TrainingTask
from deidsearch.store.ledger import PlannedCell, training_folder
from deidsearch.store.ratios import save_ratios
from deidsearch.text.hashing import key_hashes, sentence_hashes, splitmix64
from deidsearch.text.tokens import TokenTable, fold_vocabulary

# Settings that choose the training set; the set's own content stands for them in the key.
_CHOOSES_DATA = {"source", "upper_bound", "sentences"}


@dataclass(frozen=True, eq=False)
class CellPlan:
    """One cell, ready to be trained and scored.

    Attributes:
        planned: its keys and settings.
        cell: its configuration.
        training_sentences: sentences of its training set.
        training_mentions: mentions in them.
        available_sentences: sentences the training set was drawn from.
        baselines: the dictionary's spans by gold set; empty for an upper bound.
        views: the gold sets by name, as evaluation wants them.
        digests: what the cell was made from, by name.
    """

    planned: PlannedCell
    cell: Cell
    training_sentences: int
    training_mentions: int
    available_sentences: int
    baselines: dict[str, SpanTable]
    views: dict[str, GoldView]
    digests: dict[str, str]

    @property
    def marks(self) -> dict[str, Any]:
        """What the plan's file says of the cell beside its key and settings."""
        return {"axes": self.cell.axes, "upper_bound": self.cell.upper_bound}


@dataclass
class _Group:
    """Cells that share everything but their ceiling and what comes after annotation."""

    lexicon: Lexicon
    corpus: CorpusPart
    rules: Rules
    num_sentences: int
    cells: list[Cell] = field(default_factory=list)


class Planner:
    """Turns cells into plans and writes the folders of their trainings.

    Args:
        preparation: the shared steps.
    """

    def __init__(self, preparation: Preparation) -> None:
        self.preparation = preparation
        self._views: dict[tuple[str, str, bool], GoldView] = {}
        self._written: set[str] = set()
        self._contents: dict[str, str] = {}

    def plan(self, cells: Iterable[Cell]) -> list[CellPlan]:
        """Returns a plan for each distinct cell, dictionary cells first, in the grid's order."""
        cells = list(cells)
        labelled = [cell for cell in cells if cell.config.training.source == "dictionary"]
        plans: dict[str, CellPlan] = {}
        order = {id(cell): number for number, cell in enumerate(cells)}
        found: list[CellPlan] = []
        with self.preparation.console.step("annotating", len(cells)) as advance:
            for group in self._groups(labelled):
                for plan in self._annotated(group):
                    found.append(plan)
                    advance(1)
            for cell in cells:
                if cell.config.training.source == "gold":
                    found.append(self._upper_bound(cell))
                    advance(1)
        found.sort(key=lambda plan: order[id(plan.cell)])
        for plan in found:
            plans.setdefault(plan.planned.key, plan)
        return list(plans.values())

    # -- dictionary cells --------------------------------------------------------------------

    def _groups(self, cells: list[Cell]) -> list[_Group]:
        groups: dict[str, _Group] = {}
        clipped: dict[int, int] = {}
        merged: dict[str, Cell] = {}
        for cell in cells:
            lexicon = self.preparation.lexicon(cell.config)
            corpus = self.preparation.corpus(cell.config)
            available = len(corpus.sentences.tokens)
            wanted = cell.config.training.sentences
            if wanted is not None and wanted > available:
                clipped[wanted] = available
            num = available if wanted is None else min(wanted, available)
            whole = _with_sentences(cell, num)
            if merged.setdefault(identity(whole), cell) is not cell:
                continue
            rules = rules_of(cell.config.annotation)
            key = digest(lexicon.digest, corpus.digest, dataclasses.asdict(rules), num)
            group = groups.setdefault(key, _Group(lexicon, corpus, rules, num))
            group.cells.append(cell)
        for wanted, available in clipped.items():
            self.preparation.console.warn(
                f"training.sentences {wanted:,}: the corpus has {available:,} available sentences; "
                "the cell is the one of all sentences"
            )
        return list(groups.values())

    def _annotated(self, group: _Group) -> Iterator[CellPlan]:
        lexicon, corpus, rules = group.lexicon, group.corpus, group.rules
        dictionary = lexicon.dictionary
        matches = self.preparation.matches(lexicon, corpus).until(group.num_sentences)
        occurrences = count_occurrences(matches, len(dictionary.key))
        ratio = sentence_ratios(dictionary, occurrences, group.num_sentences, rules.type_dominance)
        save_ratios(
            self.preparation.database,
            lexicon.digest,
            corpus.digest,
            occurrences,
            ratio,
            group.num_sentences,
            rules.type_dominance,
        )
        tokens = first_sentences(corpus.sentences.tokens, group.num_sentences)
        ceilings = list({str(c.config.annotation.ceiling): c for c in group.cells}.values())
        for start in range(0, len(ceilings), MAX_CEILINGS):
            part = [cell.config.annotation.ceiling for cell in ceilings[start:][:MAX_CEILINGS]]
            tags = tag_identifiers(dictionary, ratio, rules, part)
            annotation = annotate(matches, tokens, corpus.sentences.key, dictionary, tags, rules)
            baselines: dict[tuple[str, str], Annotation] = {}
            for number, ceiling in enumerate(part):
                found = training_set(annotation, number, corpus.sentences.keep)
                for cell in group.cells:
                    if cell.config.annotation.ceiling == ceiling:
                        yield self._dictionary_cell(cell, group, found, tags, number, baselines)

    def _dictionary_cell(
        self,
        cell: Cell,
        group: _Group,
        found: TrainingSet,
        tags: Any,
        number: int,
        baselines: dict[tuple[str, str], Annotation],
    ) -> CellPlan:
        gold = self._measures(cell.config)
        fold_accents = cell.config.text.fold_accents
        spans = {}
        for name, gold_set in gold.items():
            key = (name, gold_set.digest)
            if key not in baselines:
                baselines[key] = annotate(
                    self.preparation.gold_matches(group.lexicon, gold_set, fold_accents),
                    gold_set.tokens,
                    fold_vocabulary(gold_set.tokens.vocabulary, fold_accents),
                    group.lexicon.dictionary,
                    tags,
                    group.rules,
                )
            spans[name] = baselines[key].baseline(number, cell.config.evaluation.ambiguous)
        pieces = self.preparation.pieces(
            group.corpus.sentences.tokens, group.corpus.digest, cell.config, "the corpus"
        )
        views = {
            name: self._view(gold_set, group.lexicon, fold_accents)
            for name, gold_set in gold.items()
        }
        digests = {"dictionary": group.lexicon.digest, "corpus": group.corpus.digest}
        whole = _with_sentences(cell, group.num_sentences)
        return self._finish(
            whole, cell, found.sentence, found.mentions, pieces, group.num_sentences, spans,
            views, digests,
        )  # fmt: skip

    # -- upper bounds ------------------------------------------------------------------------

    def _upper_bound(self, cell: Cell) -> CellPlan:
        """Returns the plan of a cell that trains on human annotation.

        Its training set follows the same rule as the others: gold sentences that also stand in a
        measure are out, and sentences without a mention are down-sampled (METHOD §7).
        """
        config = cell.config
        train = self.preparation.gold(config)["train"]
        measures = self._measures(config)
        held_out = set().union(*(gold.sentence_hashes for gold in measures.values()))
        keys = fold_vocabulary(train.tokens.vocabulary, config.text.fold_accents)
        hashes = sentence_hashes(train.tokens, key_hashes(keys))
        free = ~np.isin(hashes, np.array(sorted(held_out), dtype=np.uint64))
        seed = config.corpus.seed if config.corpus else 1
        priority = splitmix64(np.arange(len(train.tokens)), seed)
        order = np.argsort(priority, kind="stable")
        order = order[free[order]]
        if config.training.sentences is not None:
            order = order[: config.training.sentences]
        chosen = np.sort(order)
        spans = train.flat().of_sentences(chosen)
        with_mention = np.unique(spans.sentence)
        without = np.setdiff1d(np.arange(len(chosen)), with_mention)
        if len(without) > len(with_mention):
            without = without[np.argsort(priority[chosen[without]])][: len(with_mention)]
        rows = np.sort(np.concatenate([with_mention, without])).astype(np.int64)
        pieces = self.preparation.pieces(train.tokens, train.digest, config, "gold.train")
        views = {
            name: self._view(gold, None, config.text.fold_accents)
            for name, gold in measures.items()
        }
        return self._finish(
            cell, cell, chosen[rows], spans.of_sentences(rows), pieces, len(chosen), {}, views,
            {"gold.train": train.digest},
        )  # fmt: skip

    # -- both --------------------------------------------------------------------------------

    def _finish(
        self,
        whole: Cell,
        cell: Cell,
        sentence: npt.NDArray[np.int64],
        mentions: SpanTable,
        pieces: str,
        available: int,
        baselines: dict[str, SpanTable],
        views: dict[str, GoldView],
        digests: dict[str, str],
    ) -> CellPlan:
        config = whole.config
        gold = self._measures(config)
        ref, encoder = self.preparation.encoder(config)
        gold_pieces = {
            name: self.preparation.pieces(gold_set.tokens, gold_set.digest, config, name)
            for name, gold_set in gold.items()
        }
        model = config.model.model_dump(mode="json", exclude={"encoder", "head"})
        training = config.training.model_dump(mode="json", exclude=_CHOOSES_DATA)
        validation = gold["validation"]
        key = digest(
            "training",
            self._content(pieces, sentence),
            mentions.columns(),
            self._content(gold_pieces["validation"], None),
            validation.mentions.columns(),
            len(validation.label),
            list(config.types),
            encoder,
            model,
            training,
            config.text.lowercase,
            __version__,
        )
        digests = {
            **digests,
            "encoder": encoder,
            **{f"gold.{name}": gold_set.digest for name, gold_set in gold.items()},
        }
        settings = flat_settings(whole)
        if not whole.upper_bound:
            settings["training.sentences"] = available
        cell_key = digest("cell", identity(whole), digests, __version__, PIPELINE_VERSION)
        planned = PlannedCell(cell_key, key, settings)
        self._write(planned, config, ref, model, training, sentence, mentions, pieces, gold_pieces)
        return CellPlan(
            planned, cell, len(sentence), len(mentions), available, baselines, views, digests
        )

    def _write(
        self,
        planned: PlannedCell,
        config: GridConfig,
        ref: Any,
        model: dict[str, Any],
        training: dict[str, Any],
        sentence: npt.NDArray[np.int64],
        mentions: SpanTable,
        pieces: str,
        gold_pieces: dict[str, str],
    ) -> None:
        """Writes the training's folder once; other cells of the same training only name it."""
        if planned.training in self._written:
            return
        self._written.add(planned.training)
        folder = training_folder(self.preparation.workspace.root, planned.training)
        validation = self._measures(config)["validation"]
        task = TrainingTask(
            key=planned.training,
            version=__version__,
            types=config.types,
            encoder=dataclasses.asdict(ref),
            model=model,
            training={**training, "lowercase": config.text.lowercase},
            train_pieces=pieces,
            validation_pieces=gold_pieces["validation"],
            validation_support=len(validation.label),
            test_pieces={k: v for k, v in gold_pieces.items() if k != "validation"},
            log_text=config.tracking.log_text,
        )
        task.save(folder, sentence, mentions, validation.mentions)

    def _measures(self, config: GridConfig) -> dict[str, GoldSet]:
        """Returns the sets that are scored: validation and the tests."""
        return {k: v for k, v in self.preparation.gold(config).items() if k != "train"}

    def _view(self, gold: GoldSet, lexicon: Lexicon | None, fold_accents: bool) -> GoldView:
        key = (gold.name + gold.digest, lexicon.digest if lexicon else "", fold_accents)
        if key not in self._views:
            group = None
            if lexicon is not None:
                group = mention_groups(
                    Positions.of(gold),
                    gold.tokens,
                    fold_vocabulary(gold.tokens.vocabulary, fold_accents),
                    lexicon.dictionary.key,
                    lexicon.dictionary.is_ambiguous,
                )
            self._views[key] = GoldView.of(gold, group=group, fold_accents=fold_accents)
        return self._views[key]

    def _content(self, pieces: str, rows: npt.NDArray[np.int64] | None) -> str:
        """Returns the digest of what the encoder will see of these sentences."""
        if rows is None and pieces in self._contents:
            return self._contents[pieces]
        encoded = EncodedSentences.load(self.preparation.workspace.root / pieces)
        if rows is not None:
            encoded = encoded.take(rows)
        content = digest(
            np.asarray(encoded.piece),
            np.diff(encoded.piece_offsets),
            np.asarray(encoded.first_piece),
            np.diff(encoded.token_offsets),
        )
        if rows is None:
            self._contents[pieces] = content
        return content


def first_sentences(tokens: TokenTable, num: int) -> TokenTable:
    """Returns the first sentences of a table without copying its tokens."""
    if num >= len(tokens):
        return tokens
    end = int(tokens.offsets[num])
    return TokenTable(
        tokens.vocabulary,
        tokens.token[:end],
        tokens.start_char[:end],
        tokens.end_char[:end],
        tokens.offsets[: num + 1],
    )


def _with_sentences(cell: Cell, num: int) -> Cell:
    """Returns the cell with the number of available sentences it really has."""
    training = cell.config.training.model_copy(update={"sentences": num})
    return dataclasses.replace(cell, config=cell.config.model_copy(update={"training": training}))
