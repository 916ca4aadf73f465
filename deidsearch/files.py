"""Private, atomic files: 0600 files and 0700 folders that are whole or absent."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deidsearch.errors import InputError

_CHUNK = 1 << 20


def private_dir(path: Path | str) -> Path:
    """Returns the folder, made (with its parents) readable by its owner alone.

    Folders that exist already keep the mode their owner gave them.
    """
    path = Path(path)
    missing = []
    folder = path
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    return path


def require_writable(path: Path | str, where: str | None = None) -> None:
    """Returns where a file or folder of this name can be made: tried before the work, not after.

    Args:
        path: what will be written; it need not exist, nor its folder.
        where: field or option that names it; default: the path itself.

    Raises:
        InputError: it cannot be made.
    """
    folder = Path(path).absolute()
    try:
        while not folder.is_dir():
            if folder != Path(path).absolute() and folder.exists():
                raise NotADirectoryError(0, f"{folder.name!r} is a file, not a folder")
            # A name that is too long for the disk is told now; a missing one is fine.
            with contextlib.suppress(FileNotFoundError):
                folder.lstat()
            folder = folder.parent
        # Rights say little (root, read-only disks): what counts is whether it works.
        os.rmdir(tempfile.mkdtemp(prefix=".deidsearch-", dir=folder))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no path"
        raise InputError(
            f"{path} cannot be written ({reason})", where, "Name another place."
        ) from None


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """Lets every file that is made in the block be its owner's alone, those of libraries too."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _sync_dir(path: Path) -> None:
    # A rename is durable only once its folder has reached the disk.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path | str, data: bytes | str) -> Path:
    """Returns the path after the whole content stands there under mode 0600."""
    path = Path(path)
    private_dir(path.parent)
    raw = data.encode("utf-8") if isinstance(data, str) else data
    # mkstemp makes 0600 files whatever the umask.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_dir(path.parent)
    return path


def write_json(path: Path | str, content: Any) -> Path:
    """Returns the path after the content stands there as JSON (NaN is refused)."""
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False, default=_plain)
    return write_atomic(path, text + "\n")


def read_json(path: Path | str) -> Any:
    """Returns the content of a JSON file.

    Raises:
        FileNotFoundError: there is no such file.
        json.JSONDecodeError: the file is not whole.
    """
    return json.loads(Path(path).read_bytes())


@contextlib.contextmanager
def atomic_dir(path: Path | str, *, sync: bool = True) -> Iterator[Path]:
    """Yields a temporary folder that becomes ``path`` when the block ends without an error.

    A folder that stands there already is replaced.

    Args:
        path: of the folder.
        sync: wait until each file has reached the disk. An export that can be made again need not.
    """
    path = Path(path)
    private_dir(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            file.chmod(0o700 if file.is_dir() else 0o600)
            if sync and file.is_file():
                _sync_dir(file)
        if path.exists():
            # rename() refuses a folder that isn't empty: move the old one aside first.
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
            os.replace(path, old / "content")
            os.replace(temporary, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(temporary, path)
        _sync_dir(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def save_arrays(folder: Path | str, **arrays: np.ndarray) -> Path:
    """Returns the folder, which holds one ``.npy`` file per array (so that each can be mapped)."""
    with atomic_dir(folder) as temporary:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
    return Path(folder)


def load_arrays(folder: Path | str, mmap: bool = True) -> dict[str, np.ndarray]:
    """Returns the arrays of a folder by name, mapped read-only unless ``mmap`` is false."""
    arrays = {}
    for file in sorted(Path(folder).glob("*.npy")):
        # A mapping of zero bytes is refused by the system, so empty arrays are read.
        is_mapped = mmap and file.stat().st_size > 256
        arrays[file.stem] = np.load(file, mmap_mode="r" if is_mapped else None, allow_pickle=False)
    return arrays


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def digest(*parts: Any) -> str:
    """Returns 32 hex digits that name the content of the parts (JSON values, bytes, arrays)."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(f"array {part.dtype.str} {part.shape} ".encode())
            state.update(np.ascontiguousarray(part).data)
        elif isinstance(part, (bytes, bytearray, memoryview)):
            state.update(f"bytes {len(part)} ".encode())
            state.update(part)
        else:
            text = json.dumps(part, sort_keys=True, ensure_ascii=False, default=_plain)
            raw = text.encode("utf-8", "surrogatepass")
            state.update(f"json {len(raw)} ".encode())
            state.update(raw)
    return state.hexdigest()


def file_digest(path: Path | str) -> str:
    """Returns the 32 hex digits that name a file's content."""
    state = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


@contextlib.contextmanager
def lock(path: Path | str, wait: bool = True) -> Iterator[int]:
    """Yields the handle of a file that this process alone holds locked.

    The system frees the lock when the process ends, however it ends.

    Raises:
        BlockingIOError: another process holds it and ``wait`` is false.
    """
    path = Path(path)
    private_dir(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    finally:
        os.close(handle)
