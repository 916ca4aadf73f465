"""All measures of one cell on one set, as they stand in result.json."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from deidsearch.evaluate.groups import mention_groups
from deidsearch.evaluate.positions import Positions
from deidsearch.evaluate.summary import GoldView, evaluate, final_metrics
from deidsearch.files import read_json, write_json
from deidsearch.records import SpanTable
from deidsearch.text.tokens import fold_vocabulary, tokenise

TEXTS = ["Per bor i Odense", "20 mg per dag", "Hans Holm kom", "det er hans"]
TYPES = ("NAME", "LOCATION")


def gold_set() -> SimpleNamespace:
    tokens = tokenise(TEXTS)
    return SimpleNamespace(
        types=TYPES,
        document=["a", "a", "b", "b"],
        text=TEXTS,
        start_char=np.array([0, 17, 0, 14]),
        tokens=tokens,
        sentence=np.array([0, 0, 2]),
        start_char_m=np.array([0, 10, 0]),
        end_char_m=np.array([3, 16, 9]),
        start_token=np.array([0, 3, 0]),
        end_token=np.array([1, 4, 2]),
        label=np.array([0, 1, 0], np.int16),
        reason=np.zeros(3, np.uint8),
    )


@pytest.fixture
def view() -> GoldView:
    gold = gold_set()
    group = mention_groups(
        Positions.of(gold),
        gold.tokens,
        fold_vocabulary(gold.tokens.vocabulary),
        pa.array(["per", "hans", "odense"]),
        np.array([True, True, False]),
    )
    return GoldView.of(gold, group=group)


MODEL = SpanTable.build([0, 0, 2], [0, 3, 0], [1, 4, 2], [0, 1, 0], [0.9, 0.8, 0.7])
DICTIONARY = SpanTable.build([0, 3], [3, 2], [4, 3], [1, 0])


def test_model_and_dictionary_side_by_side(view: GoldView) -> None:
    found = evaluate(view, MODEL, DICTIONARY, max_span_width=8, resamples=200)
    model, dictionary = found.model, found.dictionary
    assert dictionary is not None
    assert (model["precision"], model["recall"], model["f1"]) == (1.0, 1.0, 1.0)
    assert dictionary["counts"] == {"tp": 1, "support": 3, "positives": 2, "sentences": 4}
    versus = model["versus_dictionary"]
    assert [versus[k] for k in ("both_right", "model_only", "dictionary_only", "both_wrong")] == [
        1,
        2,
        0,
        0,
    ]
    assert versus["p_value"] == 0.5
    assert model["groups"]["ambiguous"] == {
        "support": 1,
        "model": {"tp": 1, "recall": 1.0},
        "dictionary": {"tp": 0, "recall": 0.0},
    }
    assert model["groups"]["unlisted"]["support"] == 1
    assert model["shared_words"]["words"] == 2  # per, hans
    assert model["shared_words"]["dictionary"] == {"identifiers": 0.0, "non_identifiers": 0.5}
    assert model["leakage"]["mention_share"] == 1.0
    assert dictionary["leakage"]["hidden_mentions"] == 1
    assert found.counts.tp.tolist() == [2, 0, 1, 0]


def test_result_is_plain_json_without_words_of_the_text(view: GoldView, tmp_path) -> None:
    found = evaluate(view, MODEL, DICTIONARY, resamples=50)
    block = {"validation": found.model, "dictionary": found.dictionary}
    write_json(tmp_path / "result.json", block)
    assert read_json(tmp_path / "result.json") == json.loads(json.dumps(block))
    text = (tmp_path / "result.json").read_text().casefold()
    assert not any(word in text for word in ("odense", "holm", '"per"', "hans"))


def test_thresholds_of_validation_are_carried_to_test(view: GoldView) -> None:
    validation = evaluate(view, MODEL, resamples=10).model["operating"]
    test = evaluate(view, MODEL, resamples=10, thresholds=validation).model["operating"]
    assert [p["threshold"] for p in test] == [p["threshold"] for p in validation]


def test_without_dictionary_there_is_no_comparison(view: GoldView) -> None:
    found = evaluate(view, MODEL, resamples=10)
    assert found.dictionary is None and "versus_dictionary" not in found.model


def test_final_metrics_leave_undefined_ones_out(view: GoldView) -> None:
    nothing = evaluate(view, SpanTable.empty(), resamples=10).model
    assert final_metrics({"test": nothing}) == {"test/recall": 0.0, "test/f1": 0.0}
