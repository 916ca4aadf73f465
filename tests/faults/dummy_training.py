"""A training that learns nothing but leaves the files of one; run in Ray's workers by name."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path

from deidsearch.files import lock, write_json
from deidsearch.store.ledger import DONE, FAILED, read_training, write_training


def train(folder: Path, report=None, threads: int = 1) -> None:
    """Counts epochs, resuming from its checkpoint; ``behaviour`` in task.json can go wrong."""
    task = json.loads((folder / "task.json").read_text())
    behaviour = task["training"].get("behaviour", "")
    with lock(folder / "lock"):
        if read_training_done(folder):
            return
        with open(folder / "attempts", "a") as attempts:
            attempts.write(f"{os.getpid()}\n")
        if behaviour == "disk" and (folder.parent.parent / "full").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        if behaviour == "die" and len((folder / "attempts").read_text().split()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "always die":
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "fail":
            write_training(folder, {"key": folder.name, "state": FAILED, "reason": "no luck"})
            return
        if behaviour == "raise":
            raise ValueError("no such name: Hansen")
        curve = []
        checkpoint = folder / "checkpoint.json"
        if checkpoint.exists():
            curve = json.loads(checkpoint.read_text())
        for epoch in range(len(curve) + 1, task["training"]["epochs"] + 1):
            while behaviour == "hold" and epoch == 4 and (folder.parent.parent / "hold").exists():
                time.sleep(0.05)
            curve.append({"epoch": epoch, "loss": 1.0 / epoch, "f1": epoch / 10})
            with open(folder / "epochs_run", "a") as epochs:
                epochs.write(f"{epoch}\n")
            write_json(checkpoint, curve)
            if report is not None:
                report(curve[-1])
        write_training(
            folder,
            {"key": folder.name, "state": DONE, "curve": curve, "seconds": 1.0, "digests": {}},
        )


def read_training_done(folder: Path) -> bool:
    """Returns whether the training is done; a failed one is tried again."""
    record = folder / "training.json"
    if record.exists() and json.loads(record.read_text())["state"] == FAILED:
        record.unlink()
    return read_training(folder).state == DONE
