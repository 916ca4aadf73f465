"""The commented grid that ``deidsearch init`` writes."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from deidsearch.errors import InputError
from deidsearch.files import write_atomic


def template() -> str:
    """Returns the text of the template."""
    return (files("deidsearch.config") / "template.yaml").read_text(encoding="utf-8")


def write_template(path: Path) -> None:
    """Writes the template; a file that stands there is never overwritten.

    Raises:
        InputError: the file exists, or its folder can't be written to.
    """
    if os.path.lexists(path):
        raise InputError("this file exists", str(path), "Choose another name.")
    try:
        write_atomic(path, template())
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", str(path)) from None
