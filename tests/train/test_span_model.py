"""The product's model against the plain reference, with copied weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deidsearch.dataset.batches import SpanBatches
from deidsearch.errors import InputError
from deidsearch.records import SpanTable
from deidsearch.train.loop import make_optimiser, rate_factor
from deidsearch.train.predict import predict
from deidsearch.train.settings import ModelSettings, TrainSettings
from deidsearch.train.span_model import SpanModel, build_model
from tests.oracle.plain_pure import PlainPure, Samples, Updates
from tests.oracle.plain_pure import predict as plain_predict
from tests.train.tiny import encode, make_encoder, make_sentences, make_tokenizer, span_table

NUM_TYPES = 2


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory):
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def _pair(encoder, *, dropout: float | None = None, **settings) -> tuple[SpanModel, PlainPure]:
    """Returns the product's model and the reference with the same weights."""
    model = build_model(encoder, NUM_TYPES, ModelSettings(**settings), seed=3)
    plain = PlainPure(
        build_model(encoder, NUM_TYPES, ModelSettings(**settings)).encoder, NUM_TYPES + 1
    )
    head, feed = model.head, plain.ner_classifier[0].layers
    for ours, theirs in (
        (head.first_layer, feed[0]),
        (head.second_layer, feed[1]),
        (head.output, plain.ner_classifier[1]),
        (head.width, plain.width_embedding),
    ):
        theirs.load_state_dict(ours.state_dict())
    if dropout is not None:
        for module in (*model.modules(), *plain.modules()):
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        model.state_dropout = head.dropout = dropout
    return model, plain


def _data(num: int, seed: int = 0):
    texts, mentions = make_sentences(num, seed)
    tokens, encoded = encode(texts)
    words = [
        [tokens.vocabulary[int(k)].as_py() for k in tokens.token[a:b]]
        for a, b in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True)
    ]
    theirs = [[(start, end - 1, label + 1) for start, end, label in found] for found in mentions]
    return encoded, span_table(mentions), Samples(words, theirs, make_tokenizer())


def _batches(encoded, mentions=None) -> SpanBatches:
    return SpanBatches(encoded, max_pieces=64, max_span_width=8, mentions=mentions)


def test_logits_equal_the_unfactorised_reference(encoder) -> None:
    model, plain = _pair(encoder)
    model.eval()
    plain.eval()
    encoded, _, samples = _data(7)
    batch = _batches(encoded).batch(np.arange(7))
    inputs = samples.collate(range(7))
    with torch.no_grad():
        ours = model(batch)
        theirs = plain(inputs["input_ids"], inputs["attention_mask"], inputs["spans"])
    theirs = theirs[inputs["spans_mask"] == 1]
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("token_budget", [4096, 64, 1])
def test_loss_and_gradients_equal_the_reference_however_the_step_is_cut(
    encoder, token_budget: int
) -> None:
    model, plain = _pair(encoder, dropout=0.0)
    model.train()
    plain.train()
    encoded, mentions, samples = _data(16, seed=5)
    expected = plain.loss(samples.collate(range(16)))
    expected.backward()
    batches = _batches(encoded, mentions)
    slices = batches.slices(np.arange(16), token_budget)
    assert len(slices) > 1 or token_budget == 4096
    total = 0.0
    for rows in slices:
        loss = model.loss(batches.batch(rows))
        loss.backward()
        total += float(loss.detach())
    assert total == pytest.approx(float(expected.detach()), rel=1e-5)
    ours = dict(model.encoder.named_parameters())
    for name, parameter in plain.bert.named_parameters():
        torch.testing.assert_close(ours[name].grad, parameter.grad, rtol=1e-4, atol=1e-5)
    theirs = plain.ner_classifier
    head = model.head
    for mine, other in (
        (head.first_layer, theirs[0].layers[0]),
        (head.second_layer, theirs[0].layers[1]),
        (head.output, theirs[1]),
    ):
        torch.testing.assert_close(mine.weight.grad, other.weight.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine.bias.grad, other.bias.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.width.weight.grad, plain.width_embedding.weight.grad)


def test_updates_equal_the_reference_over_some_steps(encoder) -> None:
    model, plain = _pair(encoder, dropout=0.0)
    encoded, mentions, samples = _data(24, seed=6)
    batches = _batches(encoded, mentions)
    settings = TrainSettings(learning_rate=1e-3, head_learning_rate=5e-3)
    model.compact_embeddings(batches.used_pieces())
    optimiser = make_optimiser(model, settings)
    updates = Updates(plain, 12, settings.learning_rate, settings.head_learning_rate)
    model.train()
    for step in range(12):
        chosen = np.arange(24)[step % 3 * 8 : step % 3 * 8 + 8]
        for group in optimiser.param_groups:
            group["lr"] = group["base"] * rate_factor(step, 12, 0.1)
        optimiser.zero_grad()
        for rows in batches.slices(chosen, 64):
            model.loss(batches.batch(rows)).backward()
        optimiser.step()
        updates.step(samples.collate(chosen.tolist()))
    model.expand_embeddings()
    ours = dict(model.encoder.named_parameters())
    # Where a gradient is near 0, Adam turns rounding into a whole step: single weights may differ.
    for name, parameter in plain.bert.named_parameters():
        away = (ours[name] - parameter).detach().abs()
        assert float(away.mean()) < 2e-4, name
    torch.testing.assert_close(
        model.head.output.weight, plain.ner_classifier[1].weight, rtol=0, atol=2e-3
    )


def test_independent_predictions_equal_the_reference(encoder) -> None:
    model, plain = _pair(encoder)
    with torch.no_grad():  # make "none" unlikely, so that there is something to predict
        for bias in (model.head.output.bias, plain.ner_classifier[1].bias):
            bias[0] = -0.01
    encoded, _, samples = _data(30, seed=2)
    spans = predict(model, encoded, decoding="independent")
    ours: list[set] = [set() for _ in range(30)]
    for sentence, start, end, label in spans.keys().tolist():
        ours[sentence].add((start, end - 1, label + 1))
    assert ours == plain_predict(plain, samples)
    assert len(spans) > 50
    assert spans.score.min() > 0 and spans.score.max() < 1


def test_predictions_above_a_threshold_hang_on_no_lower_minimum(encoder) -> None:
    model, _ = _pair(encoder)
    with torch.no_grad():
        model.head.output.weight.mul_(40)  # spread the scores of an untrained head
    encoded, _, _ = _data(20, seed=4)
    many = predict(model, encoded, min_score=0.3)
    threshold = np.float32(np.median(many.score))
    few = predict(model, encoded, min_score=float(threshold))
    assert 0 < len(few) < len(many)
    for spans in (few, predict(model, encoded, min_score=0.1)):
        above = spans.take(spans.score >= threshold)
        assert above.keys().tolist() == many.take(many.score >= threshold).keys().tolist()


def test_batch_order_and_slices_do_not_change_predictions(encoder) -> None:
    model, _ = _pair(encoder)
    encoded, _, _ = _data(40, seed=8)
    whole = predict(model, encoded, min_score=0.3, token_budget=100_000)
    cut = predict(model, encoded, min_score=0.3, token_budget=20)
    assert whole.keys().tolist() == cut.keys().tolist()
    np.testing.assert_allclose(whole.score, cut.score, rtol=1e-4)


def test_no_sentences_give_no_spans(encoder) -> None:
    model, _ = _pair(encoder)
    _, encoded = encode(["", "  "])
    assert len(predict(model, encoded)) == 0
    assert len(predict(model, encoded.take(np.array([], int)))) == 0


def test_frozen_layers_and_what_lies_under_them_get_no_gradient(encoder) -> None:
    model = build_model(encoder, NUM_TYPES, ModelSettings(freeze_layers=1))
    encoded, mentions, _ = _data(4)
    model.train()
    model.loss(_batches(encoded, mentions).batch(np.arange(4))).backward()
    with_gradient = {name for name, value in model.named_parameters() if value.grad is not None}
    assert not any("embeddings" in name or "layer.0." in name for name in with_gradient)
    assert any("layer.1." in name for name in with_gradient)


def test_frozen_embeddings_stay_while_layers_train(encoder) -> None:
    model = build_model(encoder, NUM_TYPES, ModelSettings(freeze_embeddings=True))
    names = set(model.trainable())
    assert "encoder.embeddings.word_embeddings.weight" not in names
    assert "encoder.embeddings.position_embeddings.weight" in names


def test_more_layers_than_there_are_is_an_input_error(encoder) -> None:
    with pytest.raises(InputError, match="3 layers asked for, .* has 2"):
        build_model(encoder, NUM_TYPES, ModelSettings(encoder_layers=3))
    with pytest.raises(InputError, match="3 layers to freeze, the encoder has 2"):
        build_model(encoder, NUM_TYPES, ModelSettings(freeze_layers=3))


def test_first_layers_are_those_of_the_whole_encoder(encoder) -> None:
    whole = build_model(encoder, NUM_TYPES, ModelSettings()).encoder.state_dict()
    cut = build_model(encoder, NUM_TYPES, ModelSettings(encoder_layers=1)).encoder.state_dict()
    assert cut.keys() < whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in cut.items())
    assert all(value.dtype == torch.float32 for value in cut.values())


def test_seed_alone_decides_the_initial_head(encoder) -> None:
    first, again, other = (
        build_model(encoder, NUM_TYPES, ModelSettings(), seed=seed).head.state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["output.weight"], other["output.weight"])


def test_settings_that_make_no_span_model_are_refused() -> None:
    with pytest.raises(InputError, match="context of 100 words"):
        ModelSettings(context_window=100)
    with pytest.raises(InputError, match="the head 'linear' does not score spans"):
        ModelSettings(head="linear")
    with pytest.raises(InputError, match="Did you mean 'greedy'"):
        ModelSettings(decode="greed")
    assert ModelSettings.of({"encoder": "x", "max_span_width": 4}).max_span_width == 4


def test_long_sentence_predicts_in_windows_what_short_ones_do(encoder) -> None:
    """With position and attention out of play, windows must give what one pass would."""
    model, _ = _pair(encoder)
    with torch.no_grad():
        for layer in model.encoder.encoder.layer:
            layer.attention.output.dense.weight.zero_()
        model.encoder.embeddings.position_embeddings.weight.zero_()
    texts, _ = make_sentences(30, seed=9)
    _, long = encode([" ".join(texts)])
    model.max_pieces = 10_000
    once = _scores(model, long)
    model.max_pieces = 40
    windowed = _scores(model, long)
    assert once.keys() == windowed.keys()
    np.testing.assert_allclose(list(once.values()), list(windowed.values()), rtol=1e-4)


def _scores(model: SpanModel, encoded) -> dict:
    model.encoder.config.max_position_embeddings = 10_000
    size = model.encoder.embeddings.position_embeddings.weight.shape[1]
    model.encoder.embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(
        torch.zeros(10_000, size)
    )
    model.encoder.embeddings.position_ids = torch.arange(10_000)[None]
    model.encoder.embeddings.token_type_ids = torch.zeros(1, 10_000, dtype=torch.long)
    spans: SpanTable = predict(model, encoded, decoding="independent", min_score=0.0)
    keys = spans.keys().tolist()
    assert len(keys) == len(set(keys)), "a span came from two windows"
    return dict(zip(keys, spans.score.tolist(), strict=True))


def test_builds_over_an_architecture_without_pooler_switch(tmp_path: Path) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    tokenizer = make_tokenizer()
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=2, n_heads=4, hidden_dim=64,
        max_position_embeddings=64,
    )  # fmt: skip
    DistilBertModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    from deidsearch.train.encoder import resolve_encoder

    model = build_model(
        resolve_encoder(str(tmp_path)), NUM_TYPES, ModelSettings(encoder_layers=1, freeze_layers=1)
    )
    encoded, mentions, _ = _data(3)
    model.train()
    assert model.loss(_batches(encoded, mentions).batch(np.arange(3))).item() > 0
