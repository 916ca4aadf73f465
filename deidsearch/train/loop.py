"""The training loop: gets its scorer and reporter as arguments, and knows no sweep.

Source: METHOD §8; PURE.md, "optimiser", "order", "choice"; Laursen et al. 2022, §3.5.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import optim

from deidsearch.dataset.batches import SLICE_COST, SpanBatches
from deidsearch.dataset.pieces import EncodedSentences, Int64
from deidsearch.errors import RunError
from deidsearch.files import digest
from deidsearch.records import SpanTable
from deidsearch.train.checkpoint import CheckpointFolder, TrainState
from deidsearch.train.predict import predict_batches
from deidsearch.train.settings import TrainSettings
from deidsearch.train.span_model import SpanModel, autocast

_ADAM_EPS = 1e-6
_FINITE_EVERY = 20  # steps between looks at the loss: each look makes a GPU wait


class TrainingFailed(RunError):
    """A training ended without a model that is of use.

    Attributes:
        curve: its epochs.
    """

    def __init__(self, what: str, mend: str | None = None) -> None:
        super().__init__(what, mend=mend)
        self.curve: list[dict[str, Any]] = []


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a training learns from and is chosen on.

    Attributes:
        train: the training sentences.
        mentions: their mentions; ``mentions.sentence`` is a position in ``train``.
        validation: the validation sentences.
    """

    train: EncodedSentences
    mentions: SpanTable
    validation: EncodedSentences


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch of a training.

    Attributes:
        epoch: from 1.
        loss: cross-entropy per training sentence, nats.
        f1: what the scorer said of the validation predictions, 0-1.
        best_f1: the best so far.
        best_epoch: its epoch; 0 before any F1 above 0.
        learning_rate: of the encoder, at the epoch's end.
        seconds: of the whole epoch.
        train_seconds: of its updates alone.
    """

    epoch: int
    loss: float
    f1: float
    best_f1: float
    best_epoch: int
    learning_rate: float
    seconds: float
    train_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields by name."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class TrainOutcome:
    """What a training came to; the model it was given holds the best weights.

    Attributes:
        best_epoch: epoch of the best validation F1.
        best_f1: that F1, 0-1.
        epochs: epochs trained.
        finished: ``epochs`` or ``patience``.
        curve: one record an epoch, as `EpochRecord.as_dict`.
        seconds: of all epochs, those before a resume too.
        counts: sentences, windows, cut words and mentions of the training set, lost ones by reason.
    """

    best_epoch: int
    best_f1: float
    epochs: int
    finished: str
    curve: list[dict[str, Any]]
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


def train(
    model: SpanModel,
    data: TrainingData,
    *,
    settings: TrainSettings,
    scorer: Callable[[SpanTable], float | None],
    folder: Path,
    reporter: Callable[[EpochRecord], None] | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> TrainOutcome:
    """Returns how the training went; the model ends with its best weights.

    Training goes on from the last whole epoch that ``folder`` holds. Order and dropout follow from
    seed and epoch, so on a CPU a training that was broken off ends bit for bit like another.

    Args:
        model: untrained, from `build_model`.
        data: training and validation sentences.
        settings: of the training.
        scorer: the validation F1 of predictions; None (undefined) counts as 0.
        folder: of the checkpoint and ``curve.jsonl``, the training's own.
        reporter: told of each epoch, after it is safe on disk.
        device: ``cpu``, ``cuda``; default: a GPU where there is one.
        threads: of torch; default: as it is.

    Raises:
        TrainingFailed: nothing to learn from, loss not finite, or F1 at 0 throughout.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    run = _Training(model, data, settings, scorer, folder, place)
    try:
        return run.run(reporter)
    except TrainingFailed as failure:
        failure.curve = run.state.curve
        raise
    except torch.OutOfMemoryError as error:
        full = TrainingFailed(
            "the GPU's memory is full", "Lower training.token_budget, or share the GPU less."
        )
        full.curve = run.state.curve
        raise full from error


def rate_factor(step: int, num_steps: int, warmup: float) -> float:
    """Returns the factor 0-1 on the learning rates: a linear rise, then linear to 0.

    Args:
        step: steps done before this one.
        num_steps: steps of the whole training.
        warmup: share of them over which the rates rise.
    """
    rise = int(num_steps * warmup)
    if step < rise:
        return step / max(1, rise)
    return max(0.0, (num_steps - step) / max(1, num_steps - rise))


def make_optimiser(model: SpanModel, settings: TrainSettings) -> optim.Optimizer:
    """Returns AdamW over encoder and head, each with its own rate."""
    head: list[torch.nn.Parameter] = []
    encoder: list[torch.nn.Parameter] = []
    for name, parameter in model.trainable().items():
        (head if name.startswith("head.") else encoder).append(parameter)
    groups = [
        {"params": encoder, "lr": settings.learning_rate, "base": settings.learning_rate},
        {"params": head, "lr": settings.head_learning_rate, "base": settings.head_learning_rate},
    ]
    return optim.AdamW(
        [group for group in groups if group["params"]],
        betas=(0.9, 0.999),
        eps=_ADAM_EPS,
        weight_decay=settings.weight_decay,
        fused=True,
    )


class _Training:
    """The parts of one training, put together."""

    def __init__(
        self,
        model: SpanModel,
        data: TrainingData,
        settings: TrainSettings,
        scorer: Callable[[SpanTable], float | None],
        folder: Path,
        device: torch.device,
    ) -> None:
        self.model, self.settings, self.scorer = model, settings, scorer
        self.state = TrainState()
        make = partial(
            SpanBatches,
            max_pieces=model.max_pieces,
            max_span_width=model.settings.max_span_width,
        )
        self.train = make(data.train, mentions=data.mentions)
        self.validation = make(data.validation)
        _check_data(self.train)
        self.checkpoint = CheckpointFolder(folder, _fingerprint(model, data, settings))
        if settings.weight_decay == 0:
            model.compact_embeddings(self.train.used_pieces())
        model.to(device)
        # A GPU computes padding in less time than it takes to launch another slice.
        self.slice_cost = SLICE_COST if device.type == "cpu" else settings.token_budget
        self.optimiser = make_optimiser(model, settings)
        steps = len(self.train.steps(settings.batch_size, settings.seed, 1))
        self.num_steps = steps * settings.epochs

    def run(self, reporter: Callable[[EpochRecord], None] | None) -> TrainOutcome:
        """Returns the outcome after the epochs that are still to do."""
        state = self.checkpoint.load()
        if state is not None:
            self.state = state
            if not state.finished:
                self.checkpoint.restore(self.model, self.optimiser)
                self._end_if_due()  # broken off after the last epoch, before that was noted
        while self.state.finished is None:
            record = self._epoch()
            self.checkpoint.save(self.state, self.model, self.optimiser)
            if reporter is not None:
                reporter(record)
            self._end_if_due()
        state = self.state
        if not state.best_epoch:
            raise TrainingFailed(
                f"did not learn: validation F1 stayed 0 over {state.epoch} epochs",
                "Raise training.learning_rate or training.epochs.",
            )
        self.checkpoint.restore_best(self.model)
        self.model.expand_embeddings()
        self.model.eval()
        return TrainOutcome(
            best_epoch=state.best_epoch,
            best_f1=state.best_f1,
            epochs=state.epoch,
            finished=str(state.finished),
            curve=state.curve,
            seconds=sum(record["seconds"] for record in state.curve),
            counts=self.train.counts,
        )

    def _epoch(self) -> EpochRecord:
        state, settings = self.state, self.settings
        start = time.monotonic()
        epoch = state.epoch + 1
        loss = self._update(epoch)
        train_seconds = time.monotonic() - start
        predictions = predict_batches(
            self.model,
            self.validation,
            precision=settings.precision,
            token_budget=settings.token_budget,
        )
        f1 = float(self.scorer(predictions) or 0.0)
        state.epoch = epoch
        if f1 > state.best_f1:
            state.best_f1, state.best_epoch = f1, epoch
        record = EpochRecord(
            epoch=epoch,
            loss=loss,
            f1=f1,
            best_f1=state.best_f1,
            best_epoch=state.best_epoch,
            learning_rate=settings.learning_rate
            * rate_factor(state.step, self.num_steps, settings.warmup),
            seconds=time.monotonic() - start,
            train_seconds=train_seconds,
        )
        state.curve.append(record.as_dict())
        return record

    def _update(self, epoch: int) -> float:
        """Returns the loss per sentence of one epoch's updates."""
        settings, model, state = self.settings, self.model, self.state
        # The stream of dropout hangs on seed and epoch alone: nothing of it need be saved.
        stream = np.random.SeedSequence([settings.seed, epoch]).generate_state(1, np.uint64)
        torch.manual_seed(int(stream[0]) >> 1)
        model.train()
        steps = self.train.steps(settings.batch_size, settings.seed, epoch)
        total = torch.zeros((), device=model.device)
        for number, sentences in enumerate(steps, start=1):
            total += self._step(sentences)
            state.step += 1
            if number % _FINITE_EVERY == 0 or number == len(steps):
                self._require_finite(total, epoch)
        return float(total) / max(1, sum(len(sentences) for sentences in steps))

    def _step(self, sentences: Int64) -> torch.Tensor:
        """Returns the summed loss of a step's sentences after the step."""
        settings = self.settings
        factor = rate_factor(self.state.step, self.num_steps, settings.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = group["base"] * factor
        self.optimiser.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.model.device)
        for rows in self.train.slices(sentences, settings.token_budget, self.slice_cost):
            with autocast(settings.precision, self.model.device):
                loss = self.model.loss(self.train.batch(rows))
            loss.backward()
            total += loss.detach()
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.trainable().values(), settings.clip)
        self.optimiser.step()
        return total

    def _require_finite(self, total: torch.Tensor, epoch: int) -> None:
        if not math.isfinite(float(total)):
            raise TrainingFailed(
                f"the loss is not finite at epoch {epoch}",
                "Lower training.learning_rate, or set training.clip to 1.",
            )

    def _end_if_due(self) -> None:
        state, patience = self.state, self.settings.patience
        # A plateau at F1 0 comes before learning, so patience counts from the first F1 above 0.
        if patience is not None and state.best_epoch:
            if state.epoch - state.best_epoch >= patience:
                state.finished = "patience"
        if state.epoch >= self.settings.epochs:
            state.finished = "epochs"
        if state.finished:
            self.checkpoint.finish(state)


def _check_data(train: SpanBatches) -> None:
    counts = train.counts
    if not len(train.windows):
        raise TrainingFailed("the training set is empty", "Raise the ceiling or the sentences.")
    within = counts["mentions"] - counts["mentions_too_wide"] - counts["mentions_truncated"]
    if not within:
        raise TrainingFailed(
            "the training set has no mention that the model can reach",
            "Raise the ceiling, the sentences or max_span_width.",
        )


def _fingerprint(model: SpanModel, data: TrainingData, settings: TrainSettings) -> str:
    parts: list[Any] = [dataclasses.asdict(settings), dataclasses.asdict(model.settings)]
    parts += [model.num_types, *data.mentions.columns().values()]
    for encoded in (data.train, data.validation):
        parts += [encoded.piece, encoded.piece_offsets, encoded.first_piece, encoded.token_offsets]
    return digest(*parts)
