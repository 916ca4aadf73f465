"""Encoders of the Hugging Face hub: the only thing that is ever fetched, and only when named."""

from __future__ import annotations

import re
from pathlib import Path

from deidsearch.errors import InputError
from deidsearch.quiet import allow_hub
from deidsearch.train.encoder import PACKAGE, EncoderRef, resolve_encoder

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# Weights that can run code when loaded (pickles) are not even fetched.
_WANTED = ["*.safetensors", "*.json", "*.txt", "*.model"]


def is_hub_name(name: str, base: Path) -> bool:
    """Returns whether an encoder's name can only be one of the hub."""
    return (
        not name.startswith(PACKAGE)
        and not (base / name).exists()
        and _HUB_NAME.fullmatch(name) is not None
    )


def require_encoder(name: str, base: Path) -> EncoderRef:
    """Returns the encoder, which now lies on this machine: a hub name is fetched if it must be.

    Raises:
        InputError: it is nowhere, or the hub cannot be reached.
    """
    try:
        return resolve_encoder(name, base)
    except InputError:
        if not is_hub_name(name, base):
            raise
    allow_hub()
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, allow_patterns=_WANTED)
    except Exception as error:
        # The hub's client has many errors of its own; for the user they are all one.
        raise InputError(
            f"the encoder {name!r} is no local folder and could not be fetched from the hub "
            f"({type(error).__name__})",
            "model.encoder",
            "Check the name and the network, or give a local folder or package:NAME.",
        ) from None
    return resolve_encoder(name, base)
