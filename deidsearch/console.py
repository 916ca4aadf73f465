"""What a person sees: progress on stderr, answers on stdout, as text or as one JSON document."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from deidsearch.progress import Console

if TYPE_CHECKING:
    from deidsearch.search.progress import Progress as SweepProgress
    from deidsearch.store.ledger import CellState


_SILENCE_S = 60.0  # between lines in a log file


def _err() -> RichConsole:
    return RichConsole(stderr=True, highlight=False)


def _out() -> RichConsole:
    return RichConsole(highlight=False)


def print_json(content: Any) -> None:
    """Prints one JSON document on stdout."""
    import click

    click.echo(json.dumps(content, ensure_ascii=False, indent=1, default=str))


class RunConsole(Console):
    """Draws the steps and the trials of a run on stderr, and plain lines where no terminal is."""

    def __init__(self) -> None:
        self._console = _err()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._sweep: SweepProgress | None = None
        self._sweep_bar: TaskID | None = None
        self._trainings: dict[str, int] = {}
        self._started_s = self._said_s = time.monotonic()

    def __enter__(self) -> RunConsole:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def say(self, message: str) -> None:
        self._console.print(escape(message), soft_wrap=True)

    def warn(self, message: str) -> None:
        self._console.print(f"[yellow]Note:[/] {escape(message)}", soft_wrap=True)

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        start_s = time.monotonic()
        bar = self._bars.add_task(escape(title), total=total)
        try:
            yield lambda done: self._bars.advance(bar, done)
        finally:
            self._bars.remove_task(bar)
        self.say(f"{title} ({time.monotonic() - start_s:.1f} s)")

    # -- the sweep's reporter ----------------------------------------------------------------

    def sweep_started(self, progress: SweepProgress) -> None:
        """Shows how much there is to do."""
        self._sweep = progress
        self.say(
            f"{_counted(progress.num_cells, 'cell')}, {progress.num_done} done; "
            f"{_counted(progress.num_trainings, 'training')} to run"
        )
        self._sweep_bar = self._bars.add_task("trainings", total=1000)

    def training_started(self, key: str, cells: int) -> None:
        """Notes a training by a short number."""
        self._trainings.setdefault(key, len(self._trainings) + 1)

    def epoch_ended(self, key: str, record: Mapping[str, Any]) -> None:
        """Shows validation F1 and the time left after each epoch."""
        score = record.get("validation/f1")
        shown = f"validation F1 {score:.3f}" if isinstance(score, float) else "no score"
        self._update(
            f"training {self._trainings.get(key, '?')}, epoch {record.get('epoch')}: {shown}"
        )
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said_s > _SILENCE_S and self._sweep:
            self._said_s = now
            self.say(f"{self._sweep.share():.0%} of the trainings' work{self._time_left()}")

    def training_ended(self, key: str, state: str, reason: str | None) -> None:
        """Says that a training is over."""
        over = self._sweep
        shown = f"{over.num_over} of {_counted(over.num_trainings, 'training')}" if over else ""
        failed = "" if state == "done" else f"; this one {state}: {reason or 'no reason known'}"
        self.say(f"{shown} over{failed}{self._time_left()}")
        self._update("trainings")

    def cell_ended(self, state: CellState) -> None:
        """Counts a cell; the training's line has said what came out."""

    def sweep_ended(self, counts: Mapping[str, int]) -> None:
        """Says how the sweep ended."""
        if self._sweep_bar is not None:
            self._bars.remove_task(self._sweep_bar)
            self._sweep_bar = None
        shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        self.say(f"cells: {shown} ({_duration(time.monotonic() - self._started_s)})")

    def _update(self, text: str) -> None:
        if self._sweep is None or self._sweep_bar is None:
            return
        self._bars.update(
            self._sweep_bar,
            completed=int(1000 * self._sweep.share()),
            description=escape(text + self._time_left()),
        )

    def _time_left(self) -> str:
        seconds = self._sweep.seconds_left() if self._sweep else None
        return f"; about {_duration(seconds)} left" if seconds else ""


def _counted(count: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> _counted(1, "cell"), _counted(1200, "cell")
    ('1 cell', '1,200 cells')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    """Returns seconds as people say them.

    >>> _duration(42), _duration(135), _duration(7380)
    ('42 s', '2 min', '2 h 3 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def show_check(report: Mapping[str, Any], as_json: bool) -> None:
    """Prints the plan of a grid."""
    if as_json:
        print_json(report)
        return
    out = _out()
    plan = report["plan"]
    out.print(f"[bold]{escape(report['grid'])}[/] is valid.")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("cells", f"{plan['cells']:,}")
    exact = "" if plan["trainings_exact"] else "at most "
    table.add_row("distinct trainings", f"{exact}{plan['trainings']:,}")
    table.add_row("already done", f"{plan['done']:,} cells")
    table.add_row("types", ", ".join(report["types"]))
    table.add_row("encoder", escape("; ".join(report["encoders"])))
    table.add_row("each trial", escape(report["resources"]))
    table.add_row("output", escape(report["output"]))
    table.add_row("tracking", escape(report["tracking"]))
    table.add_row("disk", f"about {_size(plan['disk_bytes'])}, {_size(plan['disk_free'])} free")
    out.print(table)
    out.print("Steps: " + ", ".join(plan["steps"]) + ".")
    for warning in report["warnings"]:
        _err().print(f"[yellow]Warning:[/] {escape(warning)}")


def show_status(report: Mapping[str, Any], as_json: bool) -> None:
    """Prints the cells by state."""
    if as_json:
        print_json(report)
        return
    out = _out()
    counts = report["cells"]
    out.print(", ".join(f"{count} {state}" for state, count in counts.items()) or "no cells yet")
    if not report["at_work"] and counts.get("pending"):
        out.print(f"nobody is at work on it; go on with: deidsearch run {escape(report['grid'])}")
    left = report.get("seconds_left")
    if left:
        out.print(f"about {_duration(left)} left")
    if report.get("best"):
        best = report["best"]
        out.print(f"best so far: {_axes(best['axes'])}: validation F1 {_share(best['f1'])}")
    for failure in report["failed"]:
        out.print(f"[red]failed[/] {_axes(failure['axes'])}: {escape(failure['reason'])}")


def _axes(axes: Mapping[str, Any]) -> str:
    if not axes:
        return "the only setting"
    return escape(", ".join(f"{path.rpartition('.')[2]} {_plain(v)}" for path, v in axes.items()))


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "all" if value is None else str(value)


def show_best(
    report: Mapping[str, Any] | None,
    as_json: bool,
    *,
    report_path: Path | None = None,
    num_failed: int = 0,
) -> None:
    """Prints the best trial: settings, scores with intervals, the dictionary beside it."""
    if as_json:
        print_json(report)
        return
    out = _out()
    if report is None:
        out.print("No cell has a score yet.")
        return
    out.print(f"[bold]Best:[/] {_axes(report['axes'])}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "F1", "95 %", "precision", "recall", "dictionary F1"):
        table.add_column(title)
    names = ["validation", *report["tests"]]
    for name in names:
        block = report["validation"] if name == "validation" else report["tests"][name]
        interval = (block.get("interval") or {}).get("f1")
        shown = f"{interval[0]:.3f}-{interval[1]:.3f}" if interval else ""
        dictionary = (report.get("dictionary") or {}).get(name) or {}
        table.add_row(
            name,
            _share(block.get("f1")),
            shown,
            _share(block.get("precision")),
            _share(block.get("recall")),
            _share(dictionary.get("f1")),
        )
    out.print(table)
    groups = _groups(report)
    if groups is not None:
        out.print(groups)
    out.print(f"training set: {report['training_sentences']:,} sentences")
    below = [name for name in names if _is_below(report, name)]
    if below:
        sure = any(_is_clear(report, name) for name in below)
        out.print(
            f"[yellow]On {escape(' and '.join(below))} the dictionary alone scores higher[/]"
            f"{'' if sure else ', though by no more than chance may do'}. More sentences, epochs "
            "or a larger encoder may change that."
        )
    if report.get("model"):
        out.print(f"model: {escape(str(report['model']))}")
    if report_path is not None:
        out.print(f"report: {escape(str(report_path))}")
    if num_failed:
        out.print(f"[red]{_counted(num_failed, 'cell')} failed[/]; see: deidsearch status")


def _is_below(report: Mapping[str, Any], name: str) -> bool:
    block = report["validation"] if name == "validation" else report["tests"][name]
    own, theirs = block.get("f1"), ((report.get("dictionary") or {}).get(name) or {}).get("f1")
    return own is not None and theirs is not None and own < theirs


def _is_clear(report: Mapping[str, Any], name: str) -> bool:
    block = report["validation"] if name == "validation" else report["tests"][name]
    difference = (block.get("versus_dictionary") or {}).get("f1_difference") or {}
    return bool(difference.get("is_clear"))


def _groups(report: Mapping[str, Any]) -> Table | None:
    """Returns the table of recall on what dictionaries know and don't know."""
    for name, block in report["tests"].items():
        groups = block.get("groups")
        if not groups:
            continue
        table = Table(box=None, padding=(0, 2, 0, 0))
        for title in (f"found on {name}", "mentions", "model", "dictionary"):
            table.add_column(title)
        for group, row in groups.items():
            table.add_row(
                group,
                str(row["support"]),
                _share(row.get("model", {}).get("recall")),
                _share(row.get("dictionary", {}).get("recall")),
            )
        return table
    return None


def show_path(what: str, path: Path, as_json: bool) -> None:
    """Prints where something was written."""
    if as_json:
        print_json({what: str(path)})
    else:
        _out().print(f"{what}: {escape(str(path))}")


def show_explanations(found: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Prints for each word what it is and how it is tagged at each ceiling."""
    if as_json:
        print_json(list(found))
        return
    out = _out()
    for word in found:
        shown = "".join(c if c.isprintable() else "\ufffd" for c in word["word"])
        out.print(f"[bold]{escape(shown)}[/]: {escape(word['summary'])}")
        if word["types"]:
            table = Table(box=None, padding=(0, 2, 0, 2))
            for title in ("type", "count", "rate in the population"):
                table.add_column(title)
            for row in word["types"]:
                count = "unknown" if row["count"] is None else f"{row['count']:,.0f}"
                table.add_row(row["type"], count, f"{row['rate']:.3g}")
            out.print(table)
        for sentences in word["sentences"]:
            out.print(f"  {escape(sentences['summary'])}")
            table = Table(box=None, padding=(0, 2, 0, 4))
            for title in ("ceiling", "tagged", "because"):
                table.add_column(title)
            for row in sentences["tags"]:
                table.add_row(escape(row["ceiling"]), escape(row["tags"]), escape(row["reason"]))
            out.print(table)
