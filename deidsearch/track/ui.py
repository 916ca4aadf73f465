"""MLflow's page over a sweep's store, on this machine only."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from deidsearch.errors import InputError, RunError
from deidsearch.files import private_dir
from deidsearch.quiet import silence
from deidsearch.track.mlflow_tracker import store_uri


def serve(output: Path, uri: str | None, host: str = "127.0.0.1", port: int = 5000) -> int:
    """Returns the exit code of MLflow's server after the user has stopped it.

    Args:
        output: the sweep's folder.
        uri: the tracking store; None is the one in ``output``.
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
            url = f"http://{host}:{port}/#/experiments"
            sys.stderr.write(f"Runs and charts: {url} (stop with Ctrl-C)\n")
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
