"""The environment that keeps every library offline and silent, here and in Ray's workers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

# Each library reads its switches when it is imported, so they are set before any import of it.
_SWITCHES = {
    # No usage statistics: all of these phone home by default.
    "RAY_USAGE_STATS_ENABLED": "0",  # exactly 0: any other word still sends a message
    # A node that `ray start` started even then tells Ray's server that it is off: to nowhere.
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",  # MLflow does not take 1
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # No hub: `allow_hub` lifts these where the grid's encoder names one.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # A tracking server that is down must not stop a sweep for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    # Its page needs none of the processes that run jobs for language models.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # Ray: only who has the token may speak to the ports that it opens on all interfaces.
    "RAY_AUTH_MODE": "token",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Tune's newer output ignores `verbose=0` for errors and prints to stdout.
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # No bars and chatter of loading on stderr.
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
_HUB = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def silence() -> None:
    """Sets the switches; a value that the user has set already is left alone."""
    for name, value in _SWITCHES.items():
        if name == "RAY_AUTH_MODE" and "ray" in sys.modules:
            # Ray read it when it was imported; its processes would read another one now. A local
            # ray.init() turns tokens on by itself.
            continue
        os.environ.setdefault(name, value)


def allow_hub() -> None:
    """Lets the Hugging Face hub be asked; to be called before its libraries are imported."""
    for name in _HUB:
        os.environ[name] = "0"


def worker_environment() -> dict[str, str]:
    """Returns the switches as they stand here: workers do not see the driver's variables."""
    return {name: os.environ.get(name, value) for name, value in _SWITCHES.items()}


def runtime_env() -> dict[str, dict[str, str]]:
    """Returns Ray's ``runtime_env`` that carries the switches to its workers."""
    return {"env_vars": worker_environment()}


@contextlib.contextmanager
def hushed_ray(ray: ModuleType) -> Iterator[None]:
    """Keeps a local Ray from speaking to other machines and from printing what failed in workers.

    No setting does either. Even without dashboard and statistics, Ray starts a process that asks
    the cloud's metadata address who owns this machine; and errors of workers, which may quote
    notes, go to stdout whatever ``log_to_driver`` says. Two more processes, for adding machines and
    for those messages, have nothing to do here and cost seconds of start-up.

    Args:
        ray: the module, given by one of the doors that may import it.
    """
    private = ray._private
    with contextlib.ExitStack() as stack:
        for owner, name, result in (
            (private.services, "start_api_server", (None, None)),
            (private.worker, "print_to_stdstream", None),
            (private.node.Node, "start_monitor", None),
            (private.node.Node, "start_log_monitor", None),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, lambda *args, result=result, **kwargs: result)
        yield
