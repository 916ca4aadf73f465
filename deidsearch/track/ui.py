"""MLflow's page over a sweep's store, on this machine only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deidsearch.errors import InputError
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
    """
    import os
    import socket

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
    sys.stderr.write(f"Runs and charts: http://{host}:{port}/#/experiments (stop with Ctrl-C)\n")
    command = [
        sys.executable, "-m", "mlflow", "server",
        "--backend-store-uri", uri or store_uri(output),
        "--host", host, "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=dict(os.environ))
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return 0
