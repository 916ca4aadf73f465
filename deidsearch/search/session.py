"""A Ray for the length of a sweep: private, silent, and no larger than what exists.

The module ``ray`` is handed in by `search.tune`, its one door here.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from deidsearch.errors import InputError
from deidsearch.files import private_dir, private_umask
from deidsearch.quiet import hushed_ray, runtime_env

_OBJECT_STORE = 100 << 20  # bytes: trainings get paths, so hardly anything goes through the store
_FOLDERS = ("ray", "spill", "tune")  # below the private folder; the store keeps others beside them

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resources:
    """Where trainings run and what each of them gets.

    Attributes:
        address: ``local`` starts Ray here; else that of a cluster.
        cpus: cores of one training.
        gpus: GPUs of one training; fractions share one.
        max_concurrent: trainings at once; None is as many as fit.
    """

    address: str = "local"
    cpus: int = 2
    gpus: float = 0.0
    max_concurrent: int | None = None


def cap_resources(
    cpus: int, gpus: float, have_cpus: float, have_gpus: float
) -> tuple[int, float, list[str]]:
    """Returns cores and GPUs of a training as they can be had, and warnings on what was cut.

    >>> cap_resources(8, 0.25, 2, 0)[:2]
    (2, 0.0)
    """
    warnings = []
    if cpus > have_cpus:
        most = max(1, int(have_cpus))
        warnings.append(f"ray.cpus_per_trial: {cpus} asked for, {most} exist; using {most}.")
        cpus = most
    if gpus > 0 and have_gpus <= 0:
        warnings.append(f"ray.gpus_per_trial: {gpus:g} asked for, no GPU exists; using 0.")
        gpus = 0.0
    elif gpus > have_gpus:
        warnings.append(
            f"ray.gpus_per_trial: {gpus:g} asked for, {have_gpus:g} exist; using {have_gpus:g}."
        )
        gpus = float(have_gpus)
    return cpus, gpus, warnings


def granted(ray: ModuleType, resources: Resources) -> tuple[int, float]:
    """Returns cores and GPUs of a training in the running Ray, after warning of what was cut."""
    # A training runs on one node, so the largest node is the cap.
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    have_cpus = max((node.get("CPU", 0) for node in nodes), default=0)
    have_gpus = max((node.get("GPU", 0) for node in nodes), default=0)
    cpus, gpus, warnings = cap_resources(resources.cpus, resources.gpus, have_cpus, have_gpus)
    for warning in warnings:
        log.warning(warning)
    return cpus, gpus


@contextlib.contextmanager
def ray_session(
    ray: ModuleType, address: str, tmp: Path, preload: Sequence[str] = ()
) -> Iterator[None]:
    """Starts or joins Ray for the length of the block.

    Args:
        ray: the module.
        address: ``local``, or that of a cluster.
        tmp: private folder for all that Ray writes here, emptied before and after.
        preload: modules that the workers of a local Ray import while they stand by.

    Raises:
        InputError: no cluster answers at the address.
    """
    private_dir(tmp)
    _empty(tmp)
    with contextlib.ExitStack() as stack:
        stack.callback(_empty, tmp)
        if address == "local":
            options = _local_options(tmp.absolute(), preload, stack)
        else:
            # Workers of a local Ray inherit the variables set here; those of a cluster don't.
            options = {"runtime_env": runtime_env()}
        stack.enter_context(hushed_ray(ray))
        stack.callback(ray.shutdown)
        with private_umask():
            try:
                ray.init(
                    address=address,
                    logging_level=logging.CRITICAL,
                    log_to_driver=False,
                    **options,
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"no Ray cluster answers ({type(error).__name__})",
                    where="ray.address",
                    mend="Use 'local', or start the cluster.",
                ) from error
        yield


def _local_options(
    tmp: Path, preload: Sequence[str], stack: contextlib.ExitStack
) -> dict[str, Any]:
    # Ray's sockets lie below its folder, and a socket's path has 107 characters at most: a short
    # link leads to the private folder, whatever that one is called.
    for left in Path(tempfile.gettempdir()).glob("ds-*"):
        # Of a driver that was killed: its link leads nowhere any more.
        if (left / "r").is_symlink() and not (left / "r").exists():
            shutil.rmtree(left, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix="ds-"))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    (home / "r").symlink_to(private_dir(tmp / "ray"))
    return {
        "include_dashboard": False,
        "object_store_memory": _OBJECT_STORE,
        "_temp_dir": str(home / "r"),
        "object_spilling_directory": str(private_dir(tmp / "spill")),
        "_system_config": {"preload_python_modules": list(preload)},
    }


def _empty(tmp: Path) -> None:
    for name in _FOLDERS:
        shutil.rmtree(tmp / name, ignore_errors=True)
