"""The page: said once it answers, and gone with whoever started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from deidsearch.errors import InputError
from deidsearch.track.mlflow_tracker import MlflowTracker
from deidsearch.track.ui import serve


def test_the_address_is_said_once_it_answers_and_a_sigterm_ends_the_server(tmp_path: Path) -> None:
    MlflowTracker(tmp_path).start_sweep("small", {}, {})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = (
        "import sys; from pathlib import Path; from deidsearch.cli import _end_like_ctrl_c\n"
        "from deidsearch.track.ui import serve; _end_like_ctrl_c()\n"
        f"sys.exit(serve(Path({str(tmp_path)!r}), None, '127.0.0.1', {port}, experiment='small'))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert "starting" in process.stderr.readline()
        told = process.stderr.readline()
        assert f"Runs by validation/f1: http://127.0.0.1:{port}/#/experiments/1/runs?" in told
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            assert page.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    log = tmp_path / "mlflow/server.log"
    assert log.stat().st_mode & 0o777 == 0o600


def test_no_sweep_and_a_taken_port_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tracking store yet"):
        serve(tmp_path, None)
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="cannot be used"):
            serve(tmp_path, None, "127.0.0.1", taken.getsockname()[1])
