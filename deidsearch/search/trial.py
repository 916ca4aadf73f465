"""One training from its folder to its folder: a plain function that knows no Ray."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deidsearch import __version__
from deidsearch.files import file_digest, lock
from deidsearch.quiet import silence
from deidsearch.records import SpanTable
from deidsearch.search.faults import failure_reason, failure_trace, is_disk_full
from deidsearch.search.task import (
    TrainingTask,
    load_gold,
    load_training_set,
    save_predictions,
)
from deidsearch.store.ledger import DONE, FAILED, TrainingState, read_training, write_training

if TYPE_CHECKING:
    from deidsearch.train.loop import TrainOutcome
    from deidsearch.train.span_model import SpanModel

Report = Callable[[Mapping[str, Any]], None]
# What a training imports, so that a worker can do so before there is one: it takes seconds.
PRELOAD = (
    "ray.tune",
    "deidsearch.search.trial",
    "deidsearch.train.loop",
    "deidsearch.train.predict",
    "deidsearch.train.saved",
)
_VERSIONED = ("torch", "transformers", "numpy", "ray")


def run_training(
    folder: Path, report: Report | None = None, threads: int | None = None
) -> TrainingState:
    """Returns the state of the training after it has been run, or gone on with, to its end.

    A failure is a state too: it is written, not raised, so that other trainings go on. A worker
    that a killed driver left behind still holds the folder's lock: this one waits for it.

    Args:
        folder: ``trainings/<key>``, prepared by `TrainingTask.save`.
        report: told of each epoch.
        threads: of torch; default: as it is.

    Raises:
        OSError: the disk is full; the training is unfinished and can be gone on with.
    """
    silence()
    folder = Path(folder)
    with lock(folder / "lock"):
        if read_training(folder).state == DONE:
            return read_training(folder)
        # What an earlier attempt failed of is no longer so.
        (folder / "training.json").unlink(missing_ok=True)
        log_text = False
        try:
            task = TrainingTask.load(folder)
            log_text = task.log_text
            record = _train(task, folder, report, threads)
        except Exception as error:
            if is_disk_full(error, folder):
                raise
            record = {
                "state": FAILED,
                "reason": failure_reason(error, log_text),
                "trace": failure_trace(error),
                "curve": getattr(error, "curve", []),
            }
        write_training(folder, {"key": folder.name, **record, "versions": versions()})
        if record["state"] == DONE:
            # Last of all: until training.json stands, a restart goes on from these.
            for weights in (folder / "checkpoint").glob("*.safetensors"):
                weights.unlink()  # the model's folder holds them now
    gc.collect()  # the worker goes on with the next training
    return read_training(folder)


def validation_f1(gold: SpanTable, support: int) -> Callable[[SpanTable], float]:
    """Returns the scorer of a training: strict micro-F1 of predictions, 0-1 (METHOD §9).

    Args:
        gold: the validation mentions that token bounds can express.
        support: all validation mentions, those out of reach too: they stay in the denominator.
    """
    expected = np.unique(gold.keys())

    def f1(predictions: SpanTable) -> float:
        found = np.unique(predictions.keys())
        tp = len(np.intersect1d(expected, found, assume_unique=True))
        return 2 * tp / max(1, support + len(found))

    return f1


def versions() -> dict[str, str]:
    """Returns the versions that a training depends on."""
    found = {"deidsearch": __version__, "python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _train(
    task: TrainingTask, folder: Path, report: Report | None, threads: int | None
) -> dict[str, Any]:
    """Returns the record of a finished training, whose model and predictions are written."""
    from deidsearch.dataset.pieces import EncodedSentences
    from deidsearch.train.encoder import EncoderRef, load_tokenizer
    from deidsearch.train.loop import TrainingData, train
    from deidsearch.train.saved import save_model
    from deidsearch.train.settings import ModelSettings, TrainSettings
    from deidsearch.train.span_model import build_model

    # After the imports: what a training itself takes, told by `started` and `elapsed`.
    started, clock = time.time(), time.monotonic()
    output = folder.parent.parent
    encoder = EncoderRef.from_json(task.encoder)
    settings = TrainSettings.of(task.training)
    model = build_model(encoder, len(task.types), ModelSettings.of(task.model), seed=settings.seed)
    rows, mentions = load_training_set(folder)
    outcome = train(
        model,
        TrainingData(
            EncodedSentences.load(output / task.train_pieces).take(rows),
            mentions,
            EncodedSentences.load(output / task.validation_pieces),
        ),
        settings=settings,
        scorer=validation_f1(load_gold(folder), task.validation_support),
        folder=folder / "checkpoint",
        reporter=None if report is None else lambda epoch: report(epoch.as_dict()),
        threads=threads,
    )
    files = _predict(task, folder, model, settings.precision)
    save_model(
        folder / "model",
        model,
        load_tokenizer(encoder),
        types=task.types,
        lowercase=bool(task.training.get("lowercase", True)),
        extra={"training": task.key, "encoder": encoder.name, "versions": versions()},
    )
    elapsed = time.monotonic() - clock
    return {**_record(task, folder, outcome, files), "started": started, "elapsed": elapsed}


def _predict(task: TrainingTask, folder: Path, model: SpanModel, precision: str) -> list[Path]:
    from deidsearch.dataset.pieces import EncodedSentences
    from deidsearch.train.predict import predict

    output = folder.parent.parent
    files = []
    for name, pieces in {"validation": task.validation_pieces, **task.test_pieces}.items():
        spans = predict(model, EncodedSentences.load(output / pieces), precision=precision)
        files += save_predictions(folder, name, spans)
    return files


def _record(
    task: TrainingTask, folder: Path, outcome: TrainOutcome, files: list[Path]
) -> dict[str, Any]:
    return {
        "state": DONE,
        "best_epoch": outcome.best_epoch,
        "best_f1": outcome.best_f1,
        "epochs": outcome.epochs,
        "finished": outcome.finished,
        "seconds": outcome.seconds,
        "num_sentences": task.num_sentences,
        "counts": dict(outcome.counts),
        "curve": outcome.curve,
        "digests": {file.relative_to(folder).as_posix(): file_digest(file) for file in files},
    }
