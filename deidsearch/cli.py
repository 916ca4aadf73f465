"""The commands: arguments in, exit codes out, no logic of their own.

Heavy libraries are imported by the steps that need them, so that ``--help`` answers at once.
Exit codes: 0 fine, 1 failed, 2 the input is wrong, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from deidsearch import __version__
from deidsearch.errors import DeidsearchError

_INTERRUPTED = "Interrupted. Run the same command again to go on."
_signals: list[int] = []  # those that asked this process to stop
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="deidsearch")
def cli() -> None:
    """Find the ratio ceiling that trains the best de-identification model.

    You own dictionaries, text and a small gold set; a grid file names them:

    \b
      deidsearch init grid.yaml     write a commented grid to start from
      deidsearch check grid.yaml    what would be done, and what is wrong
      deidsearch run grid.yaml      do it; run again after a stop and it goes on
      deidsearch best grid.yaml     the best model, with its scores
    """


def _grid_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the grid argument and ``--set`` to a command."""
    function = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a field of the grid by its dotted path; may be repeated.",
    )(function)
    return click.argument("grid", type=click.Path(path_type=Path), metavar="GRID")(function)


_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else."
)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("grid.yaml"))
def init(file: Path) -> None:
    """Write a commented grid to start from (default: grid.yaml)."""
    from deidsearch.config.template import write_template

    write_template(file)
    click.echo(f"Wrote {file}. Fill in your files, then: deidsearch check {file}")


@cli.command()
@_grid_command
@_json
def check(grid: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Validate all of GRID and print the plan; runs nothing."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import show_check
    from deidsearch.pipeline.check import check_grid

    show_check(check_grid(load_grid(grid, overrides)), as_json)


@cli.command()
@_grid_command
@_json
@click.option("--fresh", is_flag=True, help="Start over: remove what the sweep has made so far.")
@click.option("--yes", is_flag=True, help="Do not ask before --fresh removes anything.")
def run(grid: Path, overrides: tuple[str, ...], as_json: bool, fresh: bool, yes: bool) -> None:
    """Run the whole sweep of GRID, or go on where it stopped."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import RunConsole, show_best
    from deidsearch.pipeline.run import run_grid

    loaded = load_grid(grid, overrides)
    if fresh and not yes and os.path.exists(loaded.output):
        click.confirm(f"Remove what the sweep made in {loaded.output}?", abort=True, err=True)
    with RunConsole() as console:
        outcome = run_grid(loaded, console, console, fresh=fresh)
    show_best(outcome.best, as_json, report_path=outcome.report, num_failed=outcome.failed)
    if outcome.failed:
        sys.exit(1)


@cli.command()
@_grid_command
@_json
def status(grid: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Cells by state, the best so far, time left."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import show_status
    from deidsearch.pipeline.results import sweep_status

    show_status(sweep_status(load_grid(grid, overrides)), as_json)


def _share(value: float | None) -> float | None:
    if value is not None and value != value:  # nan passes every range
        raise click.BadParameter("nan is no share; write a number from 0 to 1.")
    return value


@cli.command()
@_grid_command
@_json
@click.option("--metric", help="What is best: validation/f1, validation/recall, ...")
@click.option(
    "--min-recall",
    type=click.FloatRange(0, 1),
    callback=lambda context, option, value: _share(value),
    help="Best precision among settings whose validation recall reaches this surely "
    "(the lower end of its interval).",
)
def best(
    grid: Path,
    overrides: tuple[str, ...],
    as_json: bool,
    metric: str | None,
    min_recall: float | None,
) -> None:
    """The best trial: settings, validation and test scores, model path."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import show_best
    from deidsearch.pipeline.results import best_of

    show_best(best_of(load_grid(grid, overrides), metric, min_recall), as_json)


@cli.command()
@_grid_command
@_json
def report(grid: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Write one self-contained HTML page and PNG/CSV of each figure."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import show_path
    from deidsearch.pipeline.results import write_sweep_report

    show_path("report", write_sweep_report(load_grid(grid, overrides)), as_json)


@cli.command()
@_grid_command
@click.option("--port", default=5000, show_default=True, help="Port of the page.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
def ui(grid: Path, overrides: tuple[str, ...], port: int, host: str) -> None:
    """MLflow's page over the sweep's tracking store, on this machine only."""
    from deidsearch.config.load import load_grid
    from deidsearch.track.mlflow_tracker import resolve_uri
    from deidsearch.track.ui import serve

    if host not in ("127.0.0.1", "localhost", "::1"):
        click.echo(f"Warning: {host} lets other machines read this sweep without a key.", err=True)
    loaded = load_grid(grid, overrides)
    tracking = loaded.config.tracking
    sys.exit(
        serve(
            loaded.output,
            resolve_uri(tracking.uri, loaded.base),
            host,
            port,
            experiment=tracking.experiment or loaded.config.name,
            metric=loaded.config.search.metric,
        )
    )


@cli.command()
@_grid_command
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@_json
def explain(grid: Path, words: tuple[str, ...], overrides: tuple[str, ...], as_json: bool) -> None:
    """Why a WORD is or isn't annotated at each ceiling."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import RunConsole, show_explanations
    from deidsearch.pipeline.explain import explain_words

    with RunConsole() as console:
        found = explain_words(load_grid(grid, overrides), words, console)
    show_explanations(found, as_json)


@cli.command()
@_grid_command
@click.option("--ceiling", required=True, help="A number, or NAME=512,STREET=64.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File (or folder).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "pure", "conll", "brat"]),
    help="Default: conll for a name that ends in .conll, else jsonl.",
)
@click.option("--training", is_flag=True, help="Only the training set of that ceiling.")
def annotate(
    grid: Path,
    overrides: tuple[str, ...],
    ceiling: str,
    out: Path,
    form: str | None,
    training: bool,
) -> None:
    """Write the corpus's sentences as annotated under one ceiling."""
    from deidsearch.config.load import load_grid
    from deidsearch.console import RunConsole
    from deidsearch.pipeline.export import annotate_corpus, parse_ceiling

    loaded = load_grid(grid, overrides)
    if form is None:
        form = "conll" if out.suffix.lower() == ".conll" else "jsonl"
    with RunConsole() as console:
        count = annotate_corpus(
            loaded, parse_ceiling(ceiling, loaded.config.types), out, form, training, console
        )
    click.echo(f"Wrote {count:,} sentences to {out}.", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and leaves with its exit code."""
    # All that is written is its owner's alone, what libraries write when they like (DuckDB's log
    # of changes, MLflow's artifacts) too.
    os.umask(0o077)
    _end_like_ctrl_c()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows ASCII alone gets escapes, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(args=arguments, prog_name="deidsearch", standalone_mode=False)
    except click.exceptions.Abort as stop:
        if isinstance(stop.__cause__, KeyboardInterrupt):
            click.echo(_INTERRUPTED, err=True)
        else:  # a question was answered with no
            click.echo("Stopped; nothing was changed.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except DeidsearchError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (deidsearch status | head).
        _forget_stdout()
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            _show_crash(error)
        else:
            reason = (error.strerror or "the disk is full").lower()
            click.echo(f"Error: {reason}: make space and run it again.", err=True)
            _forget_stdout()
        sys.exit(1)
    except Exception as error:
        if _signals:
            # A Ctrl-C that came while a library called back into Python is raised as its error.
            click.echo(_INTERRUPTED, err=True)
            sys.exit(130)
        _show_crash(error)
        sys.exit(1)


def _end_like_ctrl_c() -> None:
    """Lets a SIGTERM or a closed terminal stop a command as cleanly as a Ctrl-C.

    Python's own way is to die on the spot, which leaves half-written files with note text.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        _signals.append(number)
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL)
        if number == signal.SIGINT or ignored:  # a shell's background jobs ignore Ctrl-C
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)  # whoever handles a Ctrl-C now handles this

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # nohup ignores SIGHUP, and that stays so.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)


def _forget_stdout() -> None:
    """Keeps Python from failing once more when it flushes stdout at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_crash(error: Exception) -> None:
    """Prints where an unforeseen error arose, without its message: that may quote a note."""
    import traceback

    if os.environ.get("DEIDSEARCH_DEBUG") == "1":
        traceback.print_exception(error)
        return
    frames = traceback.extract_tb(error.__traceback__)
    for frame in frames[-4:]:
        click.echo(f"  {frame.filename}:{frame.lineno} in {frame.name}", err=True)
    click.echo(
        f"Error: {type(error).__name__}, a fault of deidsearch itself. Its message may quote your "
        "text and is not shown; set DEIDSEARCH_DEBUG=1 to see it.",
        err=True,
    )


if __name__ == "__main__":
    main()
