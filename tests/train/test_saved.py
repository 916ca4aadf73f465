"""Saved models stand by themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from deidsearch.dataset.pieces import encode_sentences
from deidsearch.errors import InputError
from deidsearch.train.encoder import load_tokenizer
from deidsearch.train.predict import predict
from deidsearch.train.saved import load_model, save_model
from deidsearch.train.settings import ModelSettings
from deidsearch.train.span_model import build_model
from tests.train.tiny import TYPES, encode, make_encoder, make_sentences


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, object]:
    """A saved model's folder, and the model; its encoder's folder is gone."""
    ref = make_encoder(tmp_path / "encoder")
    settings = ModelSettings(max_span_width=5, decode="independent", encoder_layers=1)
    model = build_model(ref, 2, settings, seed=5).eval()
    texts, _ = make_sentences(5)
    model.compact_embeddings(np.unique(encode(texts)[1].piece))
    save_model(
        tmp_path / "model",
        model,
        load_tokenizer(ref),
        types=TYPES,
        lowercase=True,
        extra={"licence": "MIT"},
    )
    shutil.rmtree(tmp_path / "encoder")
    return tmp_path / "model", model


def test_loaded_model_predicts_the_same_without_its_encoder(saved) -> None:
    folder, model = saved
    loaded = load_model(folder, device="cpu")
    assert loaded.types == TYPES and loaded.lowercase is True
    assert loaded.extra == {"licence": "MIT"}
    assert loaded.model.settings == model.settings
    texts, _ = make_sentences(20, seed=3)
    tokens, encoded = encode(texts)
    again = encode_sentences(tokens, loaded.tokenizer, max_pieces=loaded.model.max_pieces)
    np.testing.assert_array_equal(again.piece, encoded.piece)
    expected = predict(model, encoded, min_score=0.2)
    found = predict(loaded.model, again, min_score=0.2)
    assert len(found) > 20
    assert found.keys().tolist() == expected.keys().tolist()
    np.testing.assert_array_equal(found.score, expected.score)


def test_model_folder_is_private_and_holds_no_pickle_and_no_foreign_path(saved, tmp_path) -> None:
    folder, _ = saved
    names = {file.name for file in folder.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "settings.json"} <= names
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    for file in folder.glob("*.json"):
        assert str(tmp_path) not in file.read_text(), file.name


def test_saving_again_replaces_the_folder_whole(saved) -> None:
    folder, model = saved
    (folder / "stray").write_text("")
    save_model(folder, model, load_model(folder).tokenizer, types=TYPES, lowercase=False)
    assert not (folder / "stray").exists()
    assert load_model(folder).lowercase is False


def test_folder_without_a_model_says_what_to_give(tmp_path) -> None:
    with pytest.raises(InputError) as error:
        load_model(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: this folder holds no model (no settings.json). "
        "Give the folder of an exported model, such as OUTPUT/models/best."
    )


@pytest.mark.parametrize("damage", ["cut", "missing", "other shape"])
def test_damaged_weights_are_an_input_error(saved, damage: str) -> None:
    folder, _ = saved
    file = folder / "model.safetensors"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "missing":
        file.unlink()
    else:
        content = json.loads((folder / "settings.json").read_text())
        content["types"] = ["A", "B", "C"]
        (folder / "settings.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="the model's files are damaged or missing"):
        load_model(folder)
