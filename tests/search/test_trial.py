"""One training as files: it learns, resumes, fails without quoting, and is never done twice."""

from __future__ import annotations

import errno
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from deidsearch.files import lock, read_json
from deidsearch.records import SpanTable
from deidsearch.search.faults import failure_reason, is_disk_full
from deidsearch.search.task import (
    TrainingTask,
    load_gold,
    load_predictions,
    load_training_set,
    save_predictions,
)
from deidsearch.search.trial import run_training, validation_f1
from deidsearch.store.ledger import DONE, FAILED, PENDING, read_training
from deidsearch.train.encoder import EncoderRef
from tests.train.tiny import TYPES, encode, f1, make_encoder, make_sentences, span_table

TRAINING = {
    "epochs": 6,
    "patience": None,
    "batch_size": 8,
    "learning_rate": 2e-3,
    "head_learning_rate": 1e-2,
    "seed": 7,
    "lowercase": True,
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EncoderRef:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def prepare(output: Path, encoder: EncoderRef, gold: SpanTable | None = None, **training) -> Path:
    """Returns the folder of a training on every second sentence of a planted pattern."""
    texts, mentions = make_sentences(120)
    valid_texts, valid_mentions = make_sentences(30, seed=1000)
    encode(texts)[1].save(output / "cache" / "train")
    encode(valid_texts)[1].save(output / "cache" / "validation")
    rows = np.arange(0, 120, 2)
    gold = span_table(valid_mentions) if gold is None else gold
    task = TrainingTask(
        key="key",
        version="1",
        types=TYPES,
        encoder=encoder.to_json(),
        model={"max_span_width": 4},
        training={**TRAINING, **training},
        train_pieces="cache/train",
        validation_pieces="cache/validation",
        validation_support=len(gold),
        test_pieces={"test": "cache/validation"},
    )
    folder = output / "trainings" / "key"
    task.save(folder, rows, span_table(mentions).of_sentences(rows), gold)
    return folder


@pytest.fixture(scope="module")
def trained(encoder: EncoderRef, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepare(tmp_path_factory.mktemp("output"), encoder)
    run_training(folder, threads=1)
    return folder


def test_a_training_leaves_predictions_a_model_and_its_record(trained: Path) -> None:
    training = read_training(trained)
    assert training.state == DONE, training.reason
    record = training.record
    assert [epoch["epoch"] for epoch in record["curve"]] == [1, 2, 3, 4, 5, 6]
    assert record["num_sentences"] == 60
    assert record["best_f1"] > 0.3
    assert record["versions"]["torch"]
    # The predictions are the best checkpoint's, by the same measure.
    predictions = load_predictions(trained, "validation")
    assert f1(load_gold(trained), predictions) == pytest.approx(record["best_f1"])
    assert predictions.keys().tolist() == load_predictions(trained, "test").keys().tolist()
    from deidsearch.train.saved import load_model

    assert load_model(trained / "model").types == TYPES
    assert (trained / "checkpoint" / "curve.jsonl").is_file()
    assert not list(trained.glob("checkpoint/*.safetensors"))  # nothing is kept twice


def test_a_finished_training_is_not_run_again(trained: Path) -> None:
    before = (trained / "training.json").stat().st_mtime_ns
    epochs: list[object] = []
    assert run_training(trained, report=epochs.append).state == DONE
    assert epochs == []
    assert (trained / "training.json").stat().st_mtime_ns == before


def test_a_worker_left_behind_is_waited_for(trained: Path) -> None:
    # Workers outlive a killed driver by seconds, and hold the lock of what they train.
    with ThreadPoolExecutor(1) as pool:
        with lock(trained / "lock"):
            waiting = pool.submit(run_training, trained)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        assert waiting.result(timeout=60).state == DONE


def test_damaged_predictions_make_a_training_pending(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "trainings" / "key"
    shutil.copytree(trained, copy)
    save_predictions(copy, "test", SpanTable.empty())
    assert read_training(copy).state == PENDING


def test_a_training_broken_off_goes_on_and_ends_like_an_unbroken_one(
    encoder: EncoderRef, trained: Path, tmp_path: Path
) -> None:
    folder = prepare(tmp_path, encoder)

    class Killed(BaseException):
        """Not an error of the training: the process ends here."""

    def kill_after_three(epoch: dict) -> None:
        if epoch["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        run_training(folder, report=kill_after_three, threads=1)
    assert read_training(folder).state == PENDING
    epochs: list[int] = []
    run_training(folder, report=lambda epoch: epochs.append(epoch["epoch"]), threads=1)
    assert epochs == [4, 5, 6]
    one, other = read_training(folder).record, read_training(trained).record
    assert one["digests"] == other["digests"]
    assert one["best_f1"] == other["best_f1"]


def test_a_training_that_does_not_learn_fails_with_its_reason(
    encoder: EncoderRef, tmp_path: Path
) -> None:
    beyond_reach = SpanTable.build([0], [100], [101], [0])
    folder = prepare(tmp_path, encoder, beyond_reach, epochs=1)
    training = run_training(folder, threads=1)
    assert training.state == FAILED
    assert training.reason.startswith("did not learn: validation F1 stayed 0 over 1 epochs.")
    assert len(training.record["curve"]) == 1


def test_a_failure_is_tried_again_and_says_no_text(encoder: EncoderRef, tmp_path: Path) -> None:
    folder = prepare(tmp_path, encoder)

    def report(epoch: dict) -> None:
        raise ValueError("Hans Hansen")

    training = run_training(folder, report=report, threads=1)
    assert training.state == FAILED
    assert training.reason.startswith("ValueError at search/test_trial.py:")
    assert "Hansen" not in json.dumps(training.record)
    assert any("loop.py" in place for place in training.record["trace"])
    assert run_training(folder, threads=1).state == DONE


def test_a_full_disk_leaves_the_training_unfinished(encoder: EncoderRef, tmp_path: Path) -> None:
    folder = prepare(tmp_path, encoder, epochs=2)

    def report(epoch: dict) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run_training(folder, report=report, threads=1)
    assert read_training(folder).state == PENDING


def test_a_missing_task_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "trainings" / "key"
    folder.mkdir(parents=True)
    assert run_training(folder).reason == (
        "trainings/key: the training has no whole task.json. "
        "Run the sweep again, which prepares it."
    )


def test_a_task_is_read_as_it_was_written(encoder: EncoderRef, tmp_path: Path) -> None:
    folder = prepare(tmp_path, encoder)
    task = TrainingTask.load(folder)
    assert task.num_sentences == 60
    assert task.max_epochs == 6
    rows, mentions = load_training_set(folder)
    assert rows.tolist() == list(range(0, 120, 2))
    assert mentions.sentence.max() < 60
    assert read_json(folder / "task.json")["encoder"]["kind"] == "folder"


def test_validation_f1_counts_gold_out_of_reach() -> None:
    gold = SpanTable.build([0, 0, 1], [0, 3, 0], [1, 5, 2], [0, 1, 0])
    assert validation_f1(gold, 3)(gold) == 1.0
    assert validation_f1(gold, 5)(gold) == 2 * 3 / (5 + 3)
    wrong_label = SpanTable.build([0, 0], [0, 3], [1, 5], [0, 0])
    assert validation_f1(gold, 3)(wrong_label) == 2 * 1 / (3 + 2)
    assert validation_f1(gold, 3)(SpanTable.empty()) == 0.0
    assert validation_f1(SpanTable.empty(), 0)(SpanTable.empty()) == 0.0


def test_reasons_quote_only_what_speaks_of_the_machine() -> None:
    assert failure_reason(KeyError("Hansen")) == "KeyError at unknown place"
    assert failure_reason(KeyError("Hansen"), log_text=True) == "KeyError: 'Hansen'"
    denied = OSError(errno.EACCES, "Permission denied", "/patients/hansen.txt")
    assert failure_reason(denied) == "PermissionError: Permission denied"
    assert failure_reason(MemoryError("9 GB")) == "MemoryError: 9 GB"


def test_a_full_disk_is_known_in_all_its_words(tmp_path: Path) -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "x"), tmp_path)
    assert is_disk_full(Exception("No space left on device (os error 28)"), tmp_path)
    assert not is_disk_full(OSError("10 requested and 0 written"), tmp_path)  # there is space here
    assert not is_disk_full(ValueError("x"), tmp_path)
