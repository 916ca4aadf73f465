"""The encoder: found without a hub, described without torch, loaded without unpickling.

A name in a grid is ``package:NAME`` (weights that an installed package ships), a local folder, or
a name of the Hugging Face hub.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deidsearch.errors import InputError
from deidsearch.files import digest, file_digest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "package:"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spm.model",
)
# Their positions begin after the padding's number: the table holds pad + 1 rows more than it seems.
_OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer", "mpnet", "bigbird"}
)
_FIELD = "model.encoder"


@dataclass(frozen=True, slots=True)
class EncoderRef:
    """Where an encoder is.

    Attributes:
        name: as the grid says it.
        kind: ``package``, ``folder`` or ``hub``.
        path: its folder on this machine; None where the hub must be asked.
    """

    name: str
    kind: str
    path: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as they are saved."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> EncoderRef:
        """Returns the encoder that was saved, looked up again where its folder isn't here."""
        ref = cls(**content)
        if ref.kind == "package" and not (ref.path and Path(ref.path).is_dir()):
            return resolve_encoder(ref.name)
        return ref

    @property
    def source(self) -> str:
        """What transformers loads from."""
        return self.path or self.name


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What an encoder's files say about it.

    Attributes:
        model_type: the architecture's name in transformers.
        num_layers: layers it has.
        hidden_size: width of its last layer.
        max_pieces: longest input in pieces, special ones included.
        lowercases: whether its tokenizer lower-cases; None where the files don't say.
        num_bytes: size of its weights.
    """

    model_type: str
    num_layers: int
    hidden_size: int
    max_pieces: int
    lowercases: bool | None
    num_bytes: int


def resolve_encoder(name: str, base: Path | None = None, *, online: bool = False) -> EncoderRef:
    """Returns where the encoder of a grid is; nothing is imported or fetched.

    Args:
        name: ``package:NAME``, a folder, or a hub name.
        base: folder that relative paths start from, the grid's own.
        online: accept a hub name that is not in the local cache.

    Raises:
        InputError: there is no such package, folder or cached model.
    """
    if name.startswith(PACKAGE):
        return EncoderRef(name, "package", str(_package_folder(name.removeprefix(PACKAGE))))
    with contextlib.suppress(RuntimeError):  # ~somebody who is not on this machine
        name = str(Path(name).expanduser()) if name.startswith("~") else name
    folder = (base or Path.cwd()) / name
    if os.path.isdir(folder):
        return EncoderRef(name, "folder", str(folder.resolve()))
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise InputError(
            f"there is no encoder folder {name!r}",
            _FIELD,
            f"Looked in {folder.parent}; paths start from the grid's folder.",
        )
    cached = _cached_folder(name)
    if cached is None and not online:
        raise InputError(
            f"the encoder {name!r} is no folder and not in the local Hugging Face cache",
            _FIELD,
            "Give a local folder or package:NAME, or fetch it once while online.",
        )
    return EncoderRef(name, "hub", cached)


def _package_folder(name: str) -> Path:
    package, _, inner = name.partition("/")
    # find_spec of a top-level name looks for it without running its code.
    package = package.replace("-", "_")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the package {package!r} of the encoder is not installed",
            _FIELD,
            f"Install it with: pip install {package.replace('_', '-')}",
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    folders = sorted(
        (config.parent for config in (root / inner).rglob("config.json")),
        key=lambda folder: (len(folder.parts), str(folder)),
    )
    for folder in folders:
        if any(folder.glob("*.safetensors")):
            return folder
    raise InputError(
        f"the package {package!r} holds no encoder (config.json beside *.safetensors)",
        _FIELD,
        "Name a package that ships one.",
    )


def _cached_folder(name: str) -> str | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return str(Path(found).parent) if isinstance(found, str) else None


def describe_encoder(ref: EncoderRef) -> EncoderFacts:
    """Returns what the encoder's files say, without loading torch.

    Raises:
        InputError: a file that loading will need is missing or no JSON.
    """
    if ref.path is None:
        raise InputError(
            f"the encoder {ref.name!r} is not on this machine", _FIELD, "Fetch it first."
        )
    folder = Path(ref.path)
    config = _read_config(ref, folder / "config.json")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise InputError(
            f"the encoder {ref.name!r} has no *.safetensors weights",
            _FIELD,
            "Other formats can run code when loaded: convert it with save_pretrained().",
        )
    for file in weights:
        _check_weights(ref, file, config)
    _check_architecture(ref, config)
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        raise InputError(
            f"the encoder {ref.name!r} has no tokenizer file",
            _FIELD,
            "Save its tokenizer into the same folder.",
        )
    num_layers = _first(config, "num_hidden_layers", "n_layers", "num_layers")
    hidden_size = _first(config, "hidden_size", "dim", "d_model")
    if not num_layers or not hidden_size:
        raise InputError(
            f"the config.json of the encoder {ref.name!r} names no layers or no hidden size",
            _FIELD,
            "Is it a transformer encoder?",
        )
    return EncoderFacts(
        model_type=str(config.get("model_type", "")),
        num_layers=int(num_layers),
        hidden_size=int(hidden_size),
        max_pieces=max_pieces_of(config),
        lowercases=_lowercases(folder),
        num_bytes=sum(file.stat().st_size for file in weights),
    )


def architecture_modules(ref: EncoderRef) -> list[str]:
    """Returns the modules that loading the encoder will import, none where nobody can say."""
    try:
        name = describe_encoder(ref).model_type.replace("-", "_")
    except InputError:
        return []
    known = importlib.util.find_spec(f"transformers.models.{name}") if name.isidentifier() else None
    return [f"transformers.models.{name}.modeling_{name}"] if known else []


def max_pieces_of(config: Mapping[str, Any]) -> int:
    """Returns the longest input in pieces, special ones included, that a configuration allows."""
    positions = int(config.get("max_position_embeddings") or 512)
    if config.get("model_type") in _OFFSET_POSITIONS:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return positions


def _first(config: Mapping[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if config.get(name)), None)


def _read_config(ref: EncoderRef, file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"the encoder {ref.name!r} has no config.json", _FIELD, "Name a model's own folder."
        ) from None
    except ValueError:
        raise InputError(
            f"the config.json of the encoder {ref.name!r} is not JSON", _FIELD
        ) from None
    return content if isinstance(content, dict) else {}


def _check_weights(ref: EncoderRef, file: Path, config: Mapping[str, Any]) -> None:
    """Raises an error where a file of weights is cut or belongs to another configuration.

    Only its header is read, so that this costs nothing even for large encoders.
    """
    size = file.stat().st_size
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = dict(json.loads(opened.read(length))) if 8 + length <= size else {}
        tensors = {name: about for name, about in header.items() if name != "__metadata__"}
        end = max(about["data_offsets"][1] for about in tensors.values())
        shapes = {name: about["shape"] for name, about in tensors.items()}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        end, shapes = -1, {}
    if end < 0 or 8 + length + end != size:
        raise InputError(
            f"{file.name} of the encoder {ref.name!r} is not a whole safetensors file",
            _FIELD,
            "Copy or fetch it again.",
        )
    widths = {config.get(name) for name in ("hidden_size", "dim", "embedding_size")}
    for name, shape in shapes.items():
        if name.endswith("word_embeddings.weight") and len(shape) == 2 and shape[1] not in widths:
            raise InputError(
                f"{file.name} of the encoder {ref.name!r} is not of its config.json: its words "
                f"have {shape[1]} numbers, the configuration says {config.get('hidden_size')}",
                _FIELD,
                "Copy both files of one model.",
            )


def _check_architecture(ref: EncoderRef, config: Mapping[str, Any]) -> None:
    """Raises an error where transformers has no such architecture (without importing it)."""
    kind = str(config.get("model_type", ""))
    spec = importlib.util.find_spec("transformers")
    root = Path(next(iter(spec.submodule_search_locations or ["."]))) if spec else Path()
    if kind and (root / "models" / kind.replace("-", "_")).is_dir():
        return
    if kind:
        # A few names differ from their folder's; only those are worth the import.
        from transformers import CONFIG_MAPPING

        if kind in CONFIG_MAPPING:
            return
    raise InputError(
        f"the config.json of the encoder {ref.name!r} names "
        + (f"an unknown architecture ({kind[:40]!r})" if kind else "no architecture (model_type)"),
        _FIELD,
        "It must be one that transformers knows.",
    )


def _lowercases(folder: Path) -> bool | None:
    """Returns whether the tokenizer lower-cases, from the file that decides it."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        try:
            content = json.loads((folder / name).read_bytes())
        except FileNotFoundError:
            continue
        except ValueError:
            content = None
        if not isinstance(content, dict) or (name == "tokenizer.json" and "model" not in content):
            raise InputError(
                f"the {name} of the encoder is damaged", _FIELD, "Copy or fetch it again."
            )
        if name == "tokenizer.json":
            normalizer = content.get("normalizer") or {}
            steps = normalizer.get("normalizers", [normalizer])
            return any(s.get("type") == "Lowercase" or bool(s.get("lowercase")) for s in steps)
        if "do_lower_case" in content:
            return bool(content["do_lower_case"])
    return None


def encoder_digest(ref: EncoderRef) -> str:
    """Returns 32 hex digits that name the encoder's weights, configuration and tokenizer."""
    if ref.path is None:
        return digest("hub", ref.name)
    folder = Path(ref.path)
    files = [folder / name for name in ("config.json", *_TOKENIZER_FILES)]
    files += sorted(folder.glob("*.safetensors"))
    return digest([[file.name, file_digest(file)] for file in files if file.is_file()])


def load_tokenizer(ref: EncoderRef) -> PreTrainedTokenizerBase:
    """Returns the encoder's tokenizer.

    Raises:
        InputError: it can't be loaded.
    """
    return tokenizer_of(ref.source, ref.name, offline=ref.path is not None)


def tokenizer_of(
    source: str | Path, name: str | None = None, *, offline: bool = True
) -> PreTrainedTokenizerBase:
    """Returns the tokenizer whose files stand in a folder.

    Raises:
        InputError: it can't be loaded.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            str(source), use_fast=True, trust_remote_code=False, local_files_only=offline
        )
    except Exception as error:  # the tokenizers library raises nothing more exact
        raise InputError(
            f"the tokenizer of {name or source} cannot be loaded ({type(error).__name__})",
            _FIELD,
            "Check that its folder holds tokenizer.json.",
        ) from error


def load_encoder(ref: EncoderRef, *, layers: int | None = None) -> PreTrainedModel:
    """Returns the encoder in float32, without a pooler.

    Args:
        ref: which.
        layers: keep the first N layers; None keeps all.

    Raises:
        InputError: it has fewer layers, no safe weights, or code of its own.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    offline = ref.path is not None
    common: dict[str, Any] = {"trust_remote_code": False, "local_files_only": offline}
    try:
        config = AutoConfig.from_pretrained(ref.source, **common)
        if layers is not None:
            if layers > config.num_hidden_layers:
                raise InputError(
                    f"{layers} layers asked for, {ref.name} has {config.num_hidden_layers}",
                    "model.encoder_layers",
                    "Ask for fewer, or null for all.",
                )
            config.num_hidden_layers = layers
        with _quiet_loading():
            model, about = AutoModel.from_pretrained(
                ref.source,
                config=config,
                # Files in float16 would else be trained in float16.
                dtype=torch.float32,
                use_safetensors=True,
                output_loading_info=True,
                **_pooler_free(config),
                **common,
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"the encoder {ref.name!r} cannot be loaded ({type(error).__name__})",
            _FIELD,
            "It needs config.json, model.safetensors and an architecture known to transformers.",
        ) from error
    # transformers would fill what the file lacks with random numbers, and only warn.
    if about["missing_keys"]:
        raise InputError(
            f"the weights of the encoder {ref.name!r} lack {len(about['missing_keys'])} tensors "
            "that its config.json calls for",
            _FIELD,
            "Copy both files of one model.",
        )
    return cast("PreTrainedModel", model)


def empty_encoder(config: Any) -> PreTrainedModel:
    """Returns an encoder of this configuration with random weights, without a pooler."""
    import torch
    from transformers import AutoModel

    with _quiet_loading():
        return AutoModel.from_config(
            config, dtype=torch.float32, trust_remote_code=False, **_pooler_free(config)
        )


def _pooler_free(config: Any) -> dict[str, bool]:
    from transformers import MODEL_MAPPING

    # Only some architectures take the word; others have no pooler to leave out.
    known = inspect.signature(MODEL_MAPPING[type(config)].__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in known else {}


class _quiet_loading:
    """Silences what loading only a part of a checkpoint would print."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self._level, self._bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *error: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self._level)
        if self._bars:
            logging.enable_progress_bar()
