"""MLflow's page over a sweep's store, on this machine only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from deidsearch.errors import InputError, RunError
from deidsearch.files import private_dir
from deidsearch.quiet import silence
from deidsearch.track.mlflow_tracker import store_uri


def serve(
    output: Path,
    uri: str | None,
    host: str = "127.0.0.1",
    port: int = 5000,
    *,
    experiment: str = "",
    metric: str = "validation/f1",
) -> int:
    """Returns the exit code of MLflow's server after the user has stopped it.

    Args:
        output: the sweep's folder.
        uri: the tracking store; None is the one in ``output``.
        experiment: name of the sweep's experiment, whose cells are linked to.
        metric: what the cells are sorted by.
        host: address to listen on.
        port: of the page.

    Raises:
        InputError: there is no sweep yet, or the port is taken.
        RunError: the server ended by itself.
    """
    if uri is None and not (output / "mlflow.db").exists():
        raise InputError(
            "there is no tracking store yet",
            str(output),
            "Run the sweep first: deidsearch run GRID",
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"port {port} on {host} cannot be used ({error.strerror})",
                "--port",
                "Choose another one.",
            ) from None
    silence()
    command = [
        sys.executable, "-m", "mlflow", "server",
        "--backend-store-uri", uri or store_uri(output),
        "--host", host, "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    log = private_dir(output / "mlflow") / "server.log"
    with open(log, "wb", opener=_private) as out:
        # A session of its own: the server's workers are ended with it, whoever ends us.
        process = subprocess.Popen(
            command, env=dict(os.environ), stdout=out, stderr=out, start_new_session=True
        )
    sys.stderr.write("MLflow is starting, which takes some seconds ...\n")
    try:
        while process.poll() is None and not _answers(host, port):
            time.sleep(0.2)
        if process.poll() is None:
            url = _link(f"http://{host}:{port}", experiment, metric)
            sys.stderr.write(f"Runs by {metric}: {url}\n")
            sys.stderr.write(f"Charts: {url}&compareRunsMode=CHART\nStop with Ctrl-C.\n")
            process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _end(process)
    raise RunError(
        f"MLflow's server ended by itself (exit code {process.returncode})",
        str(log),
        "Its log says why.",
    )


def _link(server: str, experiment: str, metric: str) -> str:
    """Returns the address of the experiment's cells, sorted by a metric.

    Of itself the page opens on tables for language models and folds all cells under their sweep.
    """
    query = urlencode({"experiment_name": experiment})
    path = "experiments"
    # An error of any kind only costs the short way: the page of all experiments has a list.
    with contextlib.suppress(OSError, ValueError, KeyError):
        address = f"{server}/api/2.0/mlflow/experiments/get-by-name?{query}"
        with urlopen(address, timeout=30) as answer:
            found = json.load(answer)["experiment"]["experiment_id"]
        path = f"experiments/{found}/runs"
    view = {
        "searchFilter": "tags.kind = 'cell'",
        "orderByKey": f"metrics.`{metric}`",
        "orderByAsc": "false",
        "workflowType": "machine_learning",
    }
    return f"{server}/#/{path}?{urlencode(view, quote_via=quote)}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            break
