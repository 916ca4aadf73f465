"""Why something failed, told without any text that an error may quote."""

from __future__ import annotations

import errno
import shutil
import traceback
from pathlib import Path

from deidsearch.errors import DeidsearchError

LOW_DISK = 32 << 20  # bytes: below this an unexplained failure is blamed on the disk
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def failure_reason(error: BaseException, log_text: bool = False) -> str:
    """Returns why something failed.

    Our own errors quote no text. Of others the class and place are said, and the message only
    where ``log_text`` allows it or the class is known to speak of the machine.
    """
    if isinstance(error, DeidsearchError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{kind}: {error.strerror}"
    if log_text or isinstance(error, MemoryError) or "OutOfMemory" in kind:
        return f"{kind}: {error}"
    return f"{kind} at {failure_trace(error)[-1]}"


def failure_trace(error: BaseException) -> list[str]:
    """Returns the places the error came through, outermost first: code, never data."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}"
        for frame in frames
    ]
    return places or ["unknown place"]


def is_disk_full(error: BaseException, folder: Path) -> bool:
    """Returns whether the error says, in whatever words, that the folder's disk is full."""
    if isinstance(error, OSError):
        if error.errno in _DISK_FULL:
            return True
        # numpy says only how many bytes it could not write.
        if error.errno is None and shutil.disk_usage(folder).free < LOW_DISK:
            return True
    # Libraries written in Rust raise their own classes.
    return "No space left on device" in str(error) or "os error 28" in str(error)
