"""A trained model as a folder that needs no hub, no original encoder and no unpickling.

::

    model.safetensors   all weights of encoder and head
    config.json         of the encoder
    tokenizer*.json     of the encoder
    settings.json       types, settings, and what the caller adds (versions, digests, licence)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from deidsearch.errors import InputError
from deidsearch.files import atomic_dir, read_json, write_json
from deidsearch.train.encoder import empty_encoder, tokenizer_of
from deidsearch.train.settings import ModelSettings
from deidsearch.train.span_model import SpanModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FORMAT = 1
_WEIGHTS = "model.safetensors"
_SETTINGS = "settings.json"


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model with all that is needed to use it.

    Attributes:
        model: in evaluation mode.
        tokenizer: of its encoder.
        types: identifier types in label order.
        lowercase: whether the text was lower-cased for the tokenizer.
        extra: what else was saved with it.
    """

    model: SpanModel
    tokenizer: PreTrainedTokenizerBase
    types: tuple[str, ...]
    lowercase: bool
    extra: dict[str, Any] = field(default_factory=dict)


def save_model(
    folder: Path,
    model: SpanModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    types: Sequence[str],
    lowercase: bool,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Returns the folder, which holds the model whole; one that stood there is replaced.

    Args:
        folder: to be written.
        model: trained.
        tokenizer: of its encoder.
        types: identifier types in label order.
        lowercase: whether text is lower-cased for the tokenizer.
        extra: JSON values kept in settings.json (versions, digests, licence).
    """
    model.expand_embeddings()
    state = model.state_dict()
    tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    config = model.encoder.config.to_dict()
    config.pop("_name_or_path", None)
    config["dtype"] = "float32"
    with atomic_dir(folder) as temporary:
        save_file(tensors, temporary / _WEIGHTS)
        write_json(temporary / "config.json", config)
        tokenizer.save_pretrained(str(temporary))
        content = {
            "format": _FORMAT,
            "types": list(types),
            "lowercase": lowercase,
            "model": dataclasses.asdict(model.settings),
            "extra": dict(extra or {}),
        }
        write_json(temporary / _SETTINGS, content)
    return folder


def load_model(folder: Path, *, device: str | None = None) -> SavedModel:
    """Returns the model of a folder, in evaluation mode.

    Args:
        folder: written by `save_model`.
        device: ``cpu`` or ``cuda``; default: a GPU where there is one.

    Raises:
        InputError: the folder holds no whole model.
    """
    import torch
    from transformers import AutoConfig

    folder = Path(folder)
    content = _read_settings(folder)
    settings = ModelSettings.of(content["model"])
    try:
        config = AutoConfig.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        model = SpanModel(empty_encoder(config), len(content["types"]), settings)
        model.load_state_dict(load_file(folder / _WEIGHTS))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"the model's files are damaged or missing ({type(error).__name__})",
            str(folder),
            "Export the model again.",
        ) from error
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return SavedModel(
        model.to(place).eval(),
        tokenizer_of(folder),
        tuple(content["types"]),
        bool(content["lowercase"]),
        dict(content["extra"]),
    )


def _read_settings(folder: Path) -> dict[str, Any]:
    try:
        content = read_json(folder / _SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"this folder holds no model (no {_SETTINGS})",
            str(folder),
            "Give the folder of an exported model, such as OUTPUT/models/best.",
        ) from None
    except ValueError:
        raise InputError(f"{_SETTINGS} is not JSON", str(folder), "Export it again.") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(
            "the model is of another format", str(folder), "Use the version that wrote it."
        )
    return content
