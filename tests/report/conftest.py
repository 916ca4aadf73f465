"""A made-up sweep whose results come from the real evaluation of made-up predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from deidsearch.evaluate.bootstrap import save_counts
from deidsearch.evaluate.summary import GoldView, evaluate
from deidsearch.files import write_json
from deidsearch.records import SpanTable
from deidsearch.text.tokens import tokenise

TYPES = ("NAME", "STREET", "LOCATION")
ALL_SENTENCES = 147_000


class FakeSet:
    """Sentences of made-up words with gold mentions that are easy or hard to find."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        words = [f"ord{n}" for n in range(400)]
        texts = [" ".join(rng.choice(words, 12)) for _ in range(size)]
        tokens = tokenise(texts)
        mentioned = np.flatnonzero(rng.random(size) < 0.6)
        second = mentioned[rng.random(len(mentioned)) < 0.4]
        sentence = np.concatenate([mentioned, second])
        start = np.concatenate([rng.integers(0, 4, len(mentioned)), np.full(len(second), 7)])
        width = rng.choice([1, 1, 2], len(sentence))
        order = np.lexsort((start, sentence))
        self.sentence, self.start = sentence[order], start[order]
        self.end = self.start + width[order]
        self.label = rng.choice(3, len(order), p=[0.55, 0.15, 0.3]).astype(np.int16)
        reason = (rng.random(len(order)) < 0.01).astype(np.uint8) * 2
        self.group = rng.choice(3, len(order), p=[0.5, 0.4, 0.1]).astype(np.uint8)
        self.hardness = rng.random(len(order))
        first = tokens.offsets[self.sentence]
        gold: Any = SimpleNamespace(
            types=TYPES,
            document=[str(n // 10) for n in range(size)],
            text=texts,
            start_char=np.concatenate([np.arange(size) % 10 * 200]),
            tokens=tokens,
            sentence=self.sentence,
            start_char_m=tokens.start_char[first + self.start],
            end_char_m=tokens.end_char[first + self.end - 1],
            start_token=np.where(reason, -1, self.start),
            end_token=np.where(reason, -1, self.end),
            label=self.label,
            reason=reason,
        )
        self.view = GoldView.of(gold, group=self.group)
        self.size = size

    def predict(self, recall: list[float], wrong: float, seed: int, scored: bool) -> SpanTable:
        """Returns spans that find each group with about its recall, plus wrong ones."""
        rng = np.random.default_rng(seed)
        ease = self.hardness + rng.normal(0, 0.05, len(self.hardness))
        found = ease < np.asarray(recall)[self.group]
        amount = int(wrong * len(found))
        sentence = np.concatenate([self.sentence[found], rng.integers(0, self.size, amount)])
        start = np.concatenate([self.start[found], np.full(amount, 9)])
        end = np.concatenate([self.end[found], np.full(amount, 10)])
        label = np.concatenate([self.label[found], rng.integers(0, 3, amount)])
        score = np.concatenate([1 - 0.4 * ease[found].clip(0, 1), rng.random(amount)])
        return SpanTable.build(sentence, start, end, label, score if scored else None)


def quality(ceiling: float | None, sentences: int) -> tuple[list[float], float]:
    """Returns recall by group and the share of wrong spans, best near 512 as in L22."""
    far = (17 if ceiling is None else np.log2(ceiling)) - (9 if sentences > 8000 else 6)
    loss = 0.006 * far**2 * (1.6 if far < 0 else 1) + 0.6 * np.exp(-sentences / 5000)
    return [0.97 - 0.3 * loss, 0.9 - 0.6 * loss, 0.7 - 0.6 * loss], 0.08 + 0.1 * loss


@pytest.fixture(scope="session")
def fake_sweep() -> Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Returns a function that makes results under a folder, as a sweep leaves them."""

    def make(
        output: Path,
        ceilings: list[Any],
        sizes: list[int | None],
        seeds: list[int],
        *,
        num_sentences: int = 300,
        upper_bound: bool = True,
        failed: int = 0,
        tests: tuple[str, ...] = ("test",),
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        sets = {
            name: FakeSet(num_sentences, place) for place, name in enumerate(("validation", *tests))
        }
        plan: list[tuple[Any, int | None, int, bool]] = [
            (c, n, s, False) for n in sizes for c in ceilings for s in seeds
        ]
        if upper_bound:
            plan += [(None, None, seed, True) for seed in seeds]
        results = []
        for place, (ceiling, size, seed, is_bound) in enumerate(plan):
            settings: dict[str, Any] = {
                "annotation.floor": 1.0,
                "model.encoder": "Maltehb/danish-bert-botxo",
                "model.head": "pure",
                "training.learning_rate": 1e-5,
                "training.seed": seed,
            }
            if not is_bound:
                settings |= {"annotation.ceiling": ceiling, "training.sentences": size}
            cell = f"{place:04x}f00d5eed"
            result: dict[str, Any] = {
                "cell": cell,
                "training": f"{place:04x}beef",
                "settings": settings,
                "upper_bound": is_bound,
            }
            results.append(result)
            if place < failed:
                result |= {"state": "failed", "reason": "did not learn: F1 stayed 0 for 10 epochs"}
                continue
            number = ceiling if isinstance(ceiling, (int, float)) else None
            recall, wrong = quality(512 if is_bound else number, size or ALL_SENTENCES)
            if is_bound:
                recall, wrong = [0.98, 0.95, 0.85], 0.04
            result |= {
                "state": "done",
                "available_sentences": size or ALL_SENTENCES,
                "training_sentences": int(
                    (size or ALL_SENTENCES) * (0.5 - 0.025 * np.log2(number or 2**18))
                ),
                "mentions": 30_000,
                "seconds": 840.5,
                "dictionary": {},
                "tests": {},
                "versions": {"deidsearch": "0.1.0", "torch": "2.9.0"},
                "digests": {"dictionary": "ab" * 16, "corpus": "cd" * 16},
            }
            thresholds = None
            for name, one in sets.items():
                pred = one.predict(recall, wrong, 100 * seed + place, scored=True)
                low = [min(r, g) for r, g in zip(recall, (0.95, 0.35, 0.0), strict=True)]
                base = one.predict(low, 0.1 + wrong, 1, scored=False)
                found = evaluate(
                    one.view, pred, None if is_bound else base, max_span_width=8,
                    thresholds=thresholds, resamples=300,
                )  # fmt: skip
                thresholds = thresholds or found.model["operating"]
                home = result if name in ("validation", "test") else result["tests"]
                home[name] = found.model
                if found.dictionary:
                    result["dictionary"][name] = found.dictionary
                folder = output / "trials" / cell
                save_counts(folder / f"counts-{name}", found.counts, found.dictionary_counts)
            write_json(output / "trials" / cell / "result.json", result)
        sweep = {
            "name": "danish-ceilings",
            "types": TYPES,
            "metric": "validation/f1",
            "command": "deidsearch run grid.yaml",
        }
        return results, sweep

    return make
