"""Errors a user can meet, each saying what is wrong, where it is and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class DeidsearchError(Exception):
    """Base of every error raised on purpose.

    Args:
        what: the fault, without note text or identifiers.
        where: file, line, row or field it was found at.
        mend: the next step for the user, a whole sentence.
    """

    exit_code = 1

    def __init__(self, what: str, where: str | None = None, mend: str | None = None) -> None:
        self.what = what
        self.where = where
        self.mend = mend
        super().__init__(what, where, mend)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.mend:
            text = f"{text.rstrip('.')}. {self.mend}"
        return text if text.endswith((".", "?", "!")) else f"{text}."


class InputError(DeidsearchError):
    """The user's input is wrong (exit code 2)."""

    exit_code = 2

    @classmethod
    def many(cls, faults: Sequence[DeidsearchError], total: int | None = None) -> InputError:
        """Returns one error that lists all faults, one a line.

        Args:
            faults: the faults to print; a single one is returned in its own words.
            total: how many there are, where only the first were kept.
        """
        total = len(faults) if total is None else total
        lines = [str(fault) for fault in faults]
        if total > len(faults):
            lines.append(f"... and {total - len(faults)} more faults like these.")
        return _Faults("\n".join(lines))


class _Faults(InputError):
    """Several faults in one report; its text is already complete."""

    def __str__(self) -> str:
        return self.what


class MissingExtraError(InputError):
    """A library of an optional extra is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"the package {library!r} is not installed",
            mend=f"Install it with: pip install 'deidsearch[{extra}]'",
        )


class RunError(DeidsearchError):
    """Something failed while running although the input was fine (exit code 1)."""


class Interrupted(DeidsearchError):
    """The user stopped the run; what is finished is kept (exit code 130)."""

    exit_code = 130


def closest(word: str, choices: Iterable[str]) -> str | None:
    """Returns the choice nearest to a misspelt word, or None where nothing is near."""
    found = difflib.get_close_matches(str(word), list(choices), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Returns "Did you mean 'x'?" or the list of choices, as the last sentence of an error."""
    choices = list(choices)
    near = closest(word, choices)
    if near is not None:
        return f"Did you mean {near!r}?"
    return "Choose from: " + ", ".join(sorted(choices)) + "."
