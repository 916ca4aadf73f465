"""What long steps tell whoever watches; silent by default."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Console:
    """Hears the progress of steps. This one keeps quiet; the command line draws bars."""

    def say(self, message: str) -> None:
        """Tells a fact that a user should know, without note text."""

    def warn(self, message: str) -> None:
        """Tells a user what may be wrong."""

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Yields a function that is called with the number of things just done.

        Args:
            title: what is being done.
            total: how many things there are; None where nobody knows.
        """
        yield lambda done: None
