"""The one driver of an output folder: its lock and the space it needs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from deidsearch.errors import RunError
from deidsearch.files import lock, private_dir

_TRIES = 10  # a tenth of a second apart: a glance of `status` at the lock is no owner
_held: dict[Path, int] = {}  # output folder -> how often this process holds it


@contextlib.contextmanager
def driver_lock(output: Path) -> Iterator[None]:
    """Holds the output folder for this process; within it, blocks may nest.

    The system frees the lock however the process ends, so a killed driver leaves none behind.

    Raises:
        RunError: another driver holds it; says its process and host.
    """
    output = private_dir(output).resolve()
    if output in _held:
        _held[output] += 1
        try:
            yield
        finally:
            _held[output] -= 1
        return
    file = output / "driver.lock"
    with contextlib.ExitStack() as stack:
        handle = _take(stack, file)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        _held[output] = 1
        try:
            yield
        finally:
            del _held[output]
            os.ftruncate(handle, 0)


def _take(stack: contextlib.ExitStack, file: Path) -> int:
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            return stack.enter_context(lock(file, wait=False))
        time.sleep(0.1)
    words = file.read_text().split()
    owner = f"process {words[0]} on host {words[1]}" if len(words) == 2 else "another process"
    raise RunError(
        f"{owner} is running this sweep",
        where=str(file.parent),
        mend="Wait for it or stop it; `deidsearch status` shows how far it is.",
    )


def require_space(folder: Path, num_bytes: int) -> None:
    """Returns where the disk of the folder has that much space left.

    Raises:
        RunError: it has not; says how much there is and is needed.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise RunError(
            f"the sweep needs about {num_bytes / 1e9:.1f} GB of disk, {free / 1e9:.1f} GB are free",
            where=str(folder),
            mend="Make space, or set another `output`.",
        )
