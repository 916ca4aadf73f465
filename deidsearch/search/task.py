"""What a training is given and leaves: ``trainings/<key>/`` as files alone.

::

    task.json        settings and where the encoded sentences lie
    data/            the training set: ``sentence`` and the columns of its mentions
    gold/            the validation mentions, columns
    predictions/     a folder of columns for each gold set, by the best checkpoint
    training.json    written last: done or failed
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deidsearch.errors import RunError
from deidsearch.files import load_arrays, private_dir, read_json, save_arrays, write_json
from deidsearch.records import SpanTable


@dataclass(frozen=True)
class TrainingTask:
    """All that a training depends on; paths are relative to the output folder.

    Attributes:
        key: digest of the training set, validation set, settings and code version.
        version: of the code.
        types: identifier types, in label order.
        encoder: the resolved encoder, as `train.encoder.EncoderRef` saves itself.
        model: settings of the model.
        training: settings of the training.
        train_pieces: encoded sentences that ``data/sentence.npy`` points into.
        validation_pieces: encoded sentences of the validation set.
        validation_support: gold mentions of the validation set, unreachable ones too.
        test_pieces: name -> encoded sentences of a test set.
        num_sentences: sentences in the training set.
        log_text: whether error messages may quote what was worked on.
    """

    key: str
    version: str
    types: tuple[str, ...]
    encoder: Mapping[str, Any]
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    train_pieces: str
    validation_pieces: str
    validation_support: int
    test_pieces: Mapping[str, str] = field(default_factory=dict)
    num_sentences: int = 0
    log_text: bool = False

    @property
    def max_epochs(self) -> int:
        """The most epochs that the training takes."""
        return int(self.training.get("epochs", 1))

    def save(
        self,
        folder: Path,
        sentence: npt.NDArray[np.integer[Any]],
        mentions: SpanTable,
        gold: SpanTable,
    ) -> None:
        """Writes the folder's files; ``task.json`` last, so that it stands for all of them.

        Args:
            folder: ``trainings/<key>``.
            sentence: ``(sentences,)`` rows of ``train_pieces``.
            mentions: their mentions, sentences numbered by position in ``sentence``.
            gold: the validation mentions that token bounds can express.
        """
        private_dir(folder)
        task = dataclasses.replace(self, num_sentences=len(sentence))
        save_arrays(
            folder / "data", rows=np.asarray(sentence, dtype=np.int64), **mentions.columns()
        )
        save_arrays(folder / "gold", **gold.columns())
        write_json(folder / "task.json", dataclasses.asdict(task))

    @classmethod
    def load(cls, folder: Path) -> TrainingTask:
        """Returns the task of a folder.

        Raises:
            RunError: there is none.
        """
        try:
            content = read_json(folder / "task.json")
        except (FileNotFoundError, ValueError) as error:
            raise RunError(
                "the training has no whole task.json",
                where=f"trainings/{folder.name}",
                mend="Run the sweep again, which prepares it.",
            ) from error
        return cls(**{**content, "types": tuple(content["types"])})


def load_training_set(folder: Path) -> tuple[npt.NDArray[np.int64], SpanTable]:
    """Returns the rows ``(sentences,)`` of a training set and its mentions."""
    arrays = load_arrays(folder / "data")
    return arrays.pop("rows"), _spans(arrays)


def load_gold(folder: Path) -> SpanTable:
    """Returns the validation mentions of a training."""
    return _spans(load_arrays(folder / "gold"))


def save_predictions(folder: Path, name: str, spans: SpanTable) -> list[Path]:
    """Returns the files that hold the predictions for a gold set."""
    place = save_arrays(folder / "predictions" / name, **spans.columns())
    return sorted(place.glob("*.npy"))


def load_predictions(folder: Path, name: str) -> SpanTable:
    """Returns the predictions that a finished training left for a gold set."""
    return _spans(load_arrays(folder / "predictions" / name))


def _spans(arrays: dict[str, npt.NDArray[Any]]) -> SpanTable:
    return SpanTable(
        arrays["sentence"],
        arrays["start_token"],
        arrays["end_token"],
        arrays["label"],
        arrays.get("score"),
    )
