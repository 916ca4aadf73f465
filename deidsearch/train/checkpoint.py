"""The state of a training on disk: whole at every moment, and never unpickled.

``state.json`` is the one file that counts. It is replaced at once, names the tensor files that
belong to it with their digests, and only then are older ones removed. So a process killed anywhere
leaves the state after the last whole epoch.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor, nn, optim

from deidsearch.files import file_digest, private_dir, read_json, write_atomic, write_json

_STATE = "state.json"
_CURVE = "curve.jsonl"
_VERSION = 1

log = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainState:
    """How far a training is.

    Attributes:
        epoch: whole epochs done.
        step: optimiser steps done.
        best_epoch: epoch of the best F1 so far, 0 before any above 0.
        best_f1: that F1.
        finished: why training ended (``epochs``, ``patience``), or None while it goes on.
        curve: one record an epoch.
    """

    epoch: int = 0
    step: int = 0
    best_epoch: int = 0
    best_f1: float = 0.0
    finished: str | None = None
    curve: list[dict[str, Any]] = field(default_factory=list)


class CheckpointFolder:
    """The folder that holds the state of one training.

    Args:
        folder: its own; made when first saved to.
        fingerprint: names data and settings; a state of other ones is not gone on from.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._files: dict[str, tuple[str, str]] = {}  # role -> file name, digest

    def load(self) -> TrainState | None:
        """Returns the state to go on from, or None where there is none that is whole."""
        try:
            content = read_json(self.folder / _STATE)
        except (FileNotFoundError, ValueError):
            return None
        if content.get("version") != _VERSION or content.get("fingerprint") != self._fingerprint:
            log.warning("the checkpoint is of other data or settings; training starts anew")
            return None
        files = {role: (name, known) for role, (name, known) in content["files"].items()}
        for name, known in files.values():
            path = self.folder / name
            if not path.is_file() or file_digest(path) != known:
                log.warning("the checkpoint file %s is damaged; training starts anew", name)
                return None
        self._files = files
        return TrainState(**content["state"])

    def save(self, state: TrainState, model: nn.Module, optimiser: optim.Optimizer) -> None:
        """Writes the state after an epoch; its weights are kept as the best ones if they are."""
        private_dir(self.folder)
        names = trainable_names(model)
        files = {
            "weights": self._write(f"weights-{state.epoch:04d}", _weights(model)),
            "optimiser": self._write(f"optimiser-{state.epoch:04d}", _moments(optimiser, names)),
        }
        if state.best_epoch == state.epoch:
            files["best"] = files["weights"]
        elif "best" in self._files:
            files["best"] = self._files["best"]
        self._commit(state, files)

    def finish(self, state: TrainState) -> None:
        """Writes the final state and removes what only going on would need."""
        self._commit(state, {role: self._files[role] for role in ("best",) if role in self._files})

    def restore(self, model: nn.Module, optimiser: optim.Optimizer) -> None:
        """Loads the weights and moments of the last epoch."""
        self._load_weights("weights", model)
        _load_moments(optimiser, load_file(self._path("optimiser")), trainable_names(model))

    def restore_best(self, model: nn.Module) -> None:
        """Loads the weights of the best epoch."""
        self._load_weights("best", model)

    def _load_weights(self, role: str, model: nn.Module) -> None:
        wrong = model.load_state_dict(load_file(self._path(role)), strict=False)
        assert not wrong.unexpected_keys, "the checkpoint holds weights the model lacks"

    def _path(self, role: str) -> Path:
        return self.folder / self._files[role][0]

    def _write(self, stem: str, tensors: Mapping[str, Tensor]) -> tuple[str, str]:
        path = write_atomic(self.folder / f"{stem}.safetensors", save(dict(tensors)))
        return path.name, file_digest(path)

    def _commit(self, state: TrainState, files: dict[str, tuple[str, str]]) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in state.curve)
        write_atomic(self.folder / _CURVE, lines)
        content = {
            "version": _VERSION,
            "fingerprint": self._fingerprint,
            "state": dataclasses.asdict(state),
            "files": files,
        }
        write_json(self.folder / _STATE, content)
        self._files = files
        kept = {name for name, _ in files.values()}
        for path in self.folder.glob("*.safetensors*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)


def trainable_names(model: nn.Module) -> dict[int, str]:
    """Returns the name of each trainable parameter by its identity."""
    return {id(value): name for name, value in model.named_parameters() if value.requires_grad}


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: value.detach().cpu().contiguous()
        for name, value in model.named_parameters()
        if value.requires_grad
    }


def _moments(optimiser: optim.Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    tensors = {}
    for parameter, state in optimiser.state.items():
        for key, value in state.items():
            tensors[f"{names[id(parameter)]}/{key}"] = value.detach().cpu().contiguous()
    return tensors


def _load_moments(
    optimiser: optim.Optimizer, tensors: Mapping[str, Tensor], names: Mapping[int, str]
) -> None:
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, part = key.rpartition("/")
        parts.setdefault(name, {})[part] = value
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state = {
        number: parts[names[id(parameter)]]
        for number, parameter in enumerate(parameters)
        if names[id(parameter)] in parts
    }
    content = optimiser.state_dict()
    optimiser.load_state_dict({"state": state, "param_groups": content["param_groups"]})
