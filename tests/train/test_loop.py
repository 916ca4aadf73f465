"""Training: it learns, stops when due, and goes on bit for bit after a break anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from deidsearch.files import file_digest, read_json
from deidsearch.records import SpanTable
from deidsearch.train.encoder import EncoderRef
from deidsearch.train.loop import (
    EpochRecord,
    TrainingData,
    TrainingFailed,
    TrainOutcome,
    rate_factor,
    train,
)
from deidsearch.train.predict import predict
from deidsearch.train.settings import ModelSettings, TrainSettings
from deidsearch.train.span_model import SpanModel, build_model
from tests.train.tiny import encode, f1, make_encoder, make_sentences, span_table

SETTINGS = TrainSettings(
    epochs=4, batch_size=8, learning_rate=2e-3, head_learning_rate=1e-2, seed=7
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EncoderRef:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def make_data(num: int = 60, seed: int = 0) -> tuple[TrainingData, SpanTable]:
    """Returns training data with a planted pattern, and the validation mentions."""
    texts, mentions = make_sentences(num, seed)
    valid_texts, valid_mentions = make_sentences(30, seed + 1000)
    data = TrainingData(encode(texts)[1], span_table(mentions), encode(valid_texts)[1])
    return data, span_table(valid_mentions)


def run(
    encoder: EncoderRef,
    folder: Path,
    settings: TrainSettings = SETTINGS,
    *,
    scorer=None,
    reporter=None,
    data: TrainingData | None = None,
    model_settings: ModelSettings | None = None,
) -> tuple[SpanModel, TrainOutcome]:
    """Returns the trained model and the outcome."""
    planted, gold = make_data()
    model = build_model(encoder, 2, model_settings or ModelSettings(), seed=settings.seed)
    outcome = train(
        model,
        data or planted,
        settings=settings,
        # A little above 0, so that few epochs count as learning.
        scorer=scorer or (lambda spans: 0.01 + f1(gold, spans)),
        folder=folder,
        reporter=reporter,
        device="cpu",
        threads=1,
    )
    return model, outcome


def rising(values: list[float]):
    """Returns a scorer that gives these F1 values, one an epoch."""
    rest = iter(values)
    return lambda spans: next(rest)


def weights_digest(model: SpanModel) -> str:
    """Returns what names all weights of a model."""
    state = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        state.update(name.encode())
        state.update(value.contiguous().numpy().tobytes())
    return state.hexdigest()


def timeless(curve: list[dict]) -> list[dict]:
    """Returns the curve without what the clock says."""
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in curve]


def test_learns_a_planted_pattern_and_predicts_it_on_new_sentences(encoder, tmp_path) -> None:
    settings = TrainSettings(
        epochs=15, batch_size=8, learning_rate=2e-3, head_learning_rate=1e-2, patience=None
    )
    model, outcome = run(encoder, tmp_path / "t", settings)
    assert outcome.best_f1 > 0.95
    assert outcome.curve[-1]["loss"] < outcome.curve[0]["loss"] / 5
    texts, mentions = make_sentences(40, seed=4242)
    assert f1(span_table(mentions), predict(model, encode(texts)[1])) > 0.9


def test_frozen_parts_keep_their_weights_and_the_rest_learns(encoder, tmp_path) -> None:
    settings = ModelSettings(freeze_layers=1)
    before = build_model(encoder, 2, settings).encoder.state_dict()
    model, outcome = run(encoder, tmp_path / "t", model_settings=settings)
    after = model.encoder.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("layer.1." in name for name in changed)


def test_embeddings_of_words_not_in_training_never_change(encoder, tmp_path) -> None:
    before = build_model(encoder, 2, ModelSettings()).encoder.get_input_embeddings().weight
    model, _ = run(encoder, tmp_path / "t")
    after = model.encoder.get_input_embeddings().weight
    data, _ = make_data()
    changed = (before != after).any(dim=1).nonzero().squeeze(1).tolist()
    assert changed
    assert set(changed) <= set(data.train.piece.tolist()) | {2, 3}


def test_best_model_is_the_one_with_the_best_f1_not_the_last(encoder, tmp_path) -> None:
    seen = {}

    def scorer(spans: SpanTable) -> float:
        seen[len(seen) + 1] = spans.keys().tolist()
        return [0.2, 0.6, 0.6, 0.5][len(seen) - 1]

    data, _ = make_data()
    model, outcome = run(encoder, tmp_path / "t", scorer=scorer)
    assert (outcome.best_epoch, outcome.best_f1, outcome.finished) == (2, 0.6, "epochs")
    assert predict(model, data.validation).keys().tolist() == seen[2]


def test_patience_counts_only_from_the_first_f1_above_zero(encoder, tmp_path) -> None:
    settings = TrainSettings(epochs=12, batch_size=30, patience=2)
    f1s = [0, 0, 0, 0, 0.1, 0.3, 0.3, 0.2, 0.9]
    _, outcome = run(encoder, tmp_path / "t", settings, scorer=rising(f1s))
    assert (outcome.epochs, outcome.best_epoch, outcome.finished) == (8, 6, "patience")


def test_undefined_f1_counts_as_zero_and_no_learning_is_said(encoder, tmp_path) -> None:
    with pytest.raises(TrainingFailed) as failure:
        run(encoder, tmp_path / "t", scorer=rising([None, 0.0, None, 0.0]))
    assert str(failure.value) == (
        "did not learn: validation F1 stayed 0 over 4 epochs. "
        "Raise training.learning_rate or training.epochs."
    )
    assert [record["epoch"] for record in failure.value.curve] == [1, 2, 3, 4]


def test_loss_that_is_not_finite_fails_with_its_epoch(encoder, tmp_path) -> None:
    settings = TrainSettings(epochs=3, batch_size=8, learning_rate=1e30, head_learning_rate=1e30)
    with pytest.raises(TrainingFailed, match="the loss is not finite at epoch 1. Lower training"):
        run(encoder, tmp_path / "t", settings)


def test_training_set_without_sentences_or_reachable_mentions_fails(encoder, tmp_path) -> None:
    data, _ = make_data()
    none = data.train.take(np.array([], int))
    with pytest.raises(TrainingFailed, match="the training set is empty"):
        run(encoder, tmp_path / "a", data=TrainingData(none, SpanTable.empty(), data.validation))
    with pytest.raises(TrainingFailed, match="no mention that the model can reach"):
        run(
            encoder,
            tmp_path / "b",
            data=TrainingData(data.train, SpanTable.empty(), data.validation),
        )


def test_each_epoch_is_reported_when_it_is_safe_on_disk(encoder, tmp_path) -> None:
    epochs = []

    def reporter(record: EpochRecord) -> None:
        assert read_json(tmp_path / "t" / "state.json")["state"]["epoch"] == record.epoch
        epochs.append(record.epoch)

    _, outcome = run(encoder, tmp_path / "t", reporter=reporter)
    lines = (tmp_path / "t" / "curve.jsonl").read_text().splitlines()
    assert epochs == [1, 2, 3, 4]
    assert [json.loads(line) for line in lines] == outcome.curve


def test_a_finished_training_keeps_its_best_weights_alone_and_private(encoder, tmp_path) -> None:
    _, outcome = run(encoder, tmp_path / "t", scorer=rising([0.5, 0.9, 0.1, 0.2]))
    names = sorted(path.name for path in (tmp_path / "t").iterdir())
    assert names == ["curve.jsonl", "state.json", "weights-0002.safetensors"]
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "t").iterdir()}
    assert modes == {0o600}
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o700


def test_a_finished_training_is_not_trained_again(encoder, tmp_path) -> None:
    first, outcome = run(encoder, tmp_path / "t")
    second, again = run(encoder, tmp_path / "t", reporter=lambda record: pytest.fail("trained"))
    assert again.curve == outcome.curve
    assert weights_digest(first) == weights_digest(second)


class Crash(BaseException):
    """Ends the process's work as a kill would: nothing after it runs."""


@pytest.mark.parametrize("broken_at", [*range(1, 17)])
def test_broken_at_any_write_it_goes_on_bit_for_bit(
    encoder, tmp_path, monkeypatch, broken_at: int
) -> None:
    settings = TrainSettings(epochs=3, batch_size=16, learning_rate=2e-3, head_learning_rate=1e-2)
    f1s = [0.3, 0.2, 0.4]
    whole, expected = run(encoder, tmp_path / "whole", settings, scorer=rising(f1s))
    replace, count = os.replace, 0

    def breaking(source, target) -> None:
        nonlocal count
        count += 1
        if count == broken_at:
            raise Crash
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("deidsearch.files.os.replace", breaking)
        # Three epochs of four files, and the two of the end.
        if broken_at <= 14:
            with pytest.raises(Crash):
                run(encoder, tmp_path / "broken", settings, scorer=rising(f1s))
        else:
            run(encoder, tmp_path / "broken", settings, scorer=rising(f1s))
    done = (broken_at - 1) // 4  # whole epochs before the break
    trained = []
    model, outcome = run(
        encoder,
        tmp_path / "broken",
        settings,
        scorer=rising(f1s[done:]),
        reporter=lambda record: trained.append(record.epoch),
    )
    assert trained == list(range(done + 1, 4))
    assert timeless(outcome.curve) == timeless(expected.curve)
    assert weights_digest(model) == weights_digest(whole)


def test_killed_hard_while_training_it_goes_on_bit_for_bit(encoder, tmp_path) -> None:
    whole, expected = run(encoder, tmp_path / "whole")
    code = (
        "import sys; from pathlib import Path; from tests.train import test_loop as t;"
        "from deidsearch.train.encoder import resolve_encoder;"
        "t.run(resolve_encoder(sys.argv[1]), Path(sys.argv[2]),"
        " reporter=lambda record: print(record.epoch, flush=True))"
    )
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code, encoder.path, str(tmp_path / "killed")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        cwd=root,
    )
    assert process.stdout is not None and process.stdout.readline() == b"1\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    trained = []
    model, outcome = run(
        encoder, tmp_path / "killed", reporter=lambda record: trained.append(record.epoch)
    )
    assert 1 not in trained
    assert timeless(outcome.curve) == timeless(expected.curve)
    assert weights_digest(model) == weights_digest(whole)


def test_a_damaged_checkpoint_is_not_gone_on_from(encoder, tmp_path, caplog) -> None:
    whole, expected = run(encoder, tmp_path / "whole")
    with pytest.raises(Crash):
        run(encoder, tmp_path / "t", reporter=_crash_at(2))
    file = tmp_path / "t" / "weights-0002.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    model, outcome = run(encoder, tmp_path / "t")
    assert "weights-0002.safetensors is damaged" in caplog.text
    assert weights_digest(model) == weights_digest(whole)


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(encoder, tmp_path, caplog) -> None:
    with pytest.raises(Crash):
        run(encoder, tmp_path / "t", reporter=_crash_at(2))
    other = TrainSettings(epochs=4, batch_size=8, learning_rate=1e-3, seed=7)
    trained = []
    run(
        encoder,
        tmp_path / "t",
        other,
        scorer=rising([0.1, 0.2, 0.3, 0.4]),
        reporter=lambda record: trained.append(record.epoch),
    )
    assert trained == [1, 2, 3, 4]
    assert "other data or settings" in caplog.text


def _crash_at(epoch: int):
    def reporter(record: EpochRecord) -> None:
        if record.epoch == epoch:
            raise Crash

    return reporter


def test_state_names_files_by_their_digests(encoder, tmp_path) -> None:
    run(encoder, tmp_path / "t")
    for name, known in read_json(tmp_path / "t" / "state.json")["files"].values():
        assert file_digest(tmp_path / "t" / name) == known


def test_loading_our_state_never_unpickles() -> None:
    root = Path(__file__).parents[2] / "deidsearch"
    for folder in ("train", "dataset"):
        for file in (root / folder).glob("*.py"):
            text = file.read_text()
            for word in ("import pickle", "torch.load", "torch.save", "allow_pickle=True"):
                assert word not in text, file.name


def test_clipping_and_weight_decay_are_heeded(encoder, tmp_path) -> None:
    plain, _ = run(encoder, tmp_path / "a", scorer=rising([0.1, 0.2, 0.3, 0.4]))
    changed = []
    for number, other in enumerate(({"clip": 1e-3}, {"weight_decay": 0.5})):
        settings = TrainSettings(
            epochs=4, batch_size=8, learning_rate=2e-3, head_learning_rate=1e-2, seed=7, **other
        )
        model, _ = run(
            encoder, tmp_path / f"b{number}", settings, scorer=rising([0.1, 0.2, 0.3, 0.4])
        )
        changed.append(weights_digest(model) != weights_digest(plain))
    assert changed == [True, True]


def test_bfloat16_learns_and_keeps_its_weights_in_float32(encoder, tmp_path) -> None:
    settings = TrainSettings(
        epochs=12, batch_size=8, learning_rate=2e-3, head_learning_rate=1e-2, precision="bf16"
    )
    model, outcome = run(encoder, tmp_path / "t", settings)
    assert outcome.best_f1 > 0.5
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_rates_rise_for_a_tenth_and_fall_to_zero() -> None:
    factors = [rate_factor(step, 100, 0.1) for step in range(100)]
    assert factors[0] == 0 and factors[5] == 0.5 and factors[10] == 1
    assert factors[55] == pytest.approx(0.5)
    assert rate_factor(100, 100, 0.1) == 0
    assert rate_factor(0, 5, 0.0) == 1


def test_counts_say_what_training_could_not_use(encoder, tmp_path) -> None:
    texts = ["hr jensen bor i odense"] * 20 + ["x " * 80 + "hr jensen", "hr " + "a" * 90]
    mentions = [[(1, 2, 0), (4, 5, 1)]] * 20 + [[(81, 82, 0), (0, 20, 0)], [(1, 2, 0), (1, 2, 1)]]
    data = TrainingData(encode(texts)[1], span_table(mentions), encode(texts)[1])
    _, outcome = run(
        encoder, tmp_path / "t", TrainSettings(epochs=1), scorer=rising([0.5]), data=data
    )
    assert outcome.counts == {
        "sentences": 22,
        "windowed_sentences": 2,
        "cut_words": 1,
        "mentions": 44,
        "mentions_too_wide": 1,
        "mentions_truncated": 0,
        "mentions_on_one_span": 1,
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_learns_on_a_gpu_and_goes_on_there(encoder, tmp_path) -> None:
    planted, gold = make_data()
    settings = TrainSettings(epochs=12, batch_size=8, learning_rate=2e-3, head_learning_rate=1e-2)
    for reporter in (_crash_at(6), None):
        model = build_model(encoder, 2, ModelSettings(), seed=settings.seed)
        try:
            outcome = train(
                model,
                planted,
                settings=settings,
                scorer=lambda spans: 0.01 + f1(gold, spans),
                folder=tmp_path / "t",
                reporter=reporter,
                device="cuda",
            )
        except Crash:
            continue
    assert outcome.epochs == 12 or outcome.finished == "patience"
    assert outcome.best_f1 > 0.9
