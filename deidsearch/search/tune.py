"""Trainings run by Ray Tune: the one place of the search that knows Ray.

Tune is the executor of what is pending and no more. What is done is told by files (store.ledger),
so Tune's own snapshots, restore and retries are not relied on.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deidsearch.errors import InputError, Interrupted, RunError
from deidsearch.files import private_dir
from deidsearch.quiet import runtime_env, silence
from deidsearch.search.faults import LOW_DISK, failure_reason, is_disk_full

if TYPE_CHECKING:
    from ray import tune
    from ray.tune.experiment import Trial

TARGET = "deidsearch.search.trial:run_training"
DIED = "the worker process died twice: killed (out of memory?) or crashed"
_OBJECT_STORE = 100 << 20  # bytes: trainings get paths, so hardly anything goes through the store
_GO_ON = "Run the same command: it goes on where it stopped."

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


@dataclass(frozen=True)
class Listener:
    """What is called in the driver as trainings go on; each first gets the training's key."""

    started: Callable[[str], None]
    epoch: Callable[[str, Mapping[str, Any]], None]
    ended: Callable[[str], None]  # it has written its training.json
    died: Callable[[str, str], None]  # it has not, and why

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as one that tells nobody: Tune saves its callbacks, and what hears ours is alive
        in this process alone."""
        return Listener, (_ignore, _ignore, _ignore, _ignore)


def _ignore(*words: Any) -> None:
    """Takes no notice."""


def run_trainings(
    folders: Sequence[Path],
    listener: Listener,
    *,
    resources: Resources,
    tmp: Path,
    target: str = TARGET,
) -> None:
    """Runs the trainings of these folders, as many at once as the resources allow.

    Args:
        folders: one a training, named by its key; ``target`` gets nothing else.
        listener: told of each training as it goes on.
        resources: where they run.
        tmp: private folder for Ray's session and Tune's state, emptied before and after.
        target: ``module:function`` run in the worker as ``function(folder, report, threads)``.

    Raises:
        Interrupted: the user stopped the run, or the system asked it to end.
        RunError: the disk is full.
    """
    if not folders:
        return
    with _silent_ray(), _ray_session(resources.address, tmp):
        cpus, gpus = _granted(resources)
        watcher = _make_watcher(listener, folders[0].parent)
        tuner = _make_tuner(folders, target, cpus, gpus, resources.max_concurrent, tmp, watcher)
        with _ended_like_ctrl_c():
            tuner.fit()
    if watcher.error is not None:
        raise watcher.error
    if watcher.disk_full:
        raise disk_is_full(tmp.parent)
    # fit() returns as if all were well after a Ctrl-C.
    if len(watcher.over) < len(folders):
        raise Interrupted(
            f"stopped with {len(folders) - len(watcher.over)} trainings unfinished", mend=_GO_ON
        )


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


def disk_is_full(output: Path) -> RunError:
    """Returns the error of a sweep that waits for space."""
    return RunError("the disk is full, the sweep has paused", str(output), f"Make space. {_GO_ON}")


def _granted(resources: Resources) -> tuple[int, float]:
    import ray

    # A training runs on one node, so the largest node is the cap.
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    have_cpus = max((node.get("CPU", 0) for node in nodes), default=0)
    have_gpus = max((node.get("GPU", 0) for node in nodes), default=0)
    cpus, gpus, warnings = cap_resources(resources.cpus, resources.gpus, have_cpus, have_gpus)
    for warning in warnings:
        log.warning(warning)
    return cpus, gpus


def _make_tuner(
    folders: Sequence[Path],
    target: str,
    cpus: int,
    gpus: float,
    max_concurrent: int | None,
    tmp: Path,
    watcher: Any,
) -> tune.Tuner:
    from ray import tune

    config = {
        "folder": tune.grid_search([str(folder) for folder in folders]),
        "target": target,
        "threads": cpus,
    }
    return tune.Tuner(
        tune.with_resources(_make_trainable(), {"cpu": cpus, "gpu": gpus}),
        param_space=config,
        tune_config=tune.TuneConfig(
            reuse_actors=True,  # starting actors dominates small trainings
            max_concurrent_trials=max_concurrent,
            trial_name_creator=_key,
            trial_dirname_creator=_key,
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(private_dir(tmp / "tune")),
            callbacks=[watcher, _make_mute()],
            stop=watcher.stopper,
            verbose=0,
            # A worker that dies (killed, out of memory) is tried once more from its checkpoint.
            failure_config=tune.FailureConfig(max_failures=1),
        ),
    )


def _key(trial: Trial) -> str:
    return Path(trial.config["folder"]).name


def _make_trainable() -> Callable[[dict[str, Any]], None]:
    """Returns the function that a worker runs; made anew because ``with_resources`` alters it."""

    def training(config: dict[str, Any]) -> None:
        from ray import tune

        os.umask(0o077)
        try:
            module, _, name = config["target"].partition(":")
            function = getattr(importlib.import_module(module), name)
            function(
                Path(config["folder"]),
                report=lambda record: tune.report({"record": dict(record)}),
                threads=config["threads"],
            )
        except Exception as error:
            # Ray logs, prints and pickles what is raised here, with texts it may quote.
            if is_disk_full(error, Path(config["folder"])):
                tune.report({"disk_full": True})
            else:
                tune.report({"crashed": failure_reason(error)})

    return training


def _make_watcher(listener: Listener, disk: Path) -> Any:
    """Returns Tune's callback that tells the listener, and stops all on a full disk or a fault."""
    from ray.tune import Callback, Stopper

    class StopAll(Stopper):
        wanted = False

        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return False

        def stop_all(self) -> bool:
            return self.wanted

    class Watcher(Callback):
        def __init__(self) -> None:
            self.stopper = StopAll()
            self.over: set[str] = set()
            self.crashed: dict[str, str] = {}  # key -> reason
            self.disk_full = False
            self.error: BaseException | None = None

        def tell(self, call: Callable[..., None], *words: Any) -> None:
            if self.error is not None:
                return
            try:
                call(*words)
            except BaseException as error:
                # Tune would wrap it and go on; it is raised again after fit().
                self.error = error
                self.stopper.wanted = True

        def pause(self) -> None:
            self.disk_full = True
            self.stopper.wanted = True

        def on_trial_start(
            self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
        ) -> None:
            self.tell(listener.started, _key(trial))

        def on_trial_result(
            self, iteration: int, trials: list[Trial], trial: Trial, result: Any, **info: Any
        ) -> None:
            if result.get("disk_full"):
                self.pause()
            elif result.get("crashed"):
                self.crashed[_key(trial)] = result["crashed"]
            elif result.get("record") and not result.get("done"):
                self.tell(listener.epoch, _key(trial), result["record"])

        def on_trial_complete(
            self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
        ) -> None:
            # Once all is to stop, a trial may come here without having run to its end.
            if self.stopper.wanted:
                return
            key = _key(trial)
            self.over.add(key)
            if key in self.crashed:
                self.tell(listener.died, key, self.crashed[key])
            else:
                self.tell(listener.ended, key)

        def on_trial_error(
            self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
        ) -> None:
            if shutil.disk_usage(disk).free < LOW_DISK:
                self.pause()
                return
            self.over.add(_key(trial))
            self.tell(listener.died, _key(trial), DIED)

    return Watcher()


def _make_mute() -> Any:
    """Returns a callback in place of the one that Tune adds, which prints whatever `verbose` is."""
    from ray.tune.progress_reporter import TrialProgressCallback

    class Mute(TrialProgressCallback):
        def _print(self, msg: str) -> None:
            pass

    return Mute()


@contextlib.contextmanager
def _ray_session(address: str, tmp: Path) -> Iterator[None]:
    """Starts or joins Ray for the length of the block; its files lie under ``tmp``."""
    silence()
    import ray

    private_dir(tmp)
    _empty(tmp)
    link_home = None
    try:
        with _private_umask():
            if address == "local":
                # Ray's sockets lie below its folder, and a socket's path has 107 characters at
                # most: a short link leads to the private folder, whatever that one is called.
                link_home = Path(tempfile.mkdtemp(prefix="ds-"))
                (link_home / "r").symlink_to(private_dir(tmp.absolute() / "ray"))
                options: dict[str, Any] = {
                    "include_dashboard": False,
                    "object_store_memory": _OBJECT_STORE,
                    "_temp_dir": str(link_home / "r"),
                    "object_spilling_directory": str(private_dir(tmp.absolute() / "spill")),
                }
            else:
                # Workers of a local Ray inherit the variables set here; those of a cluster don't.
                options = {"runtime_env": runtime_env()}
            try:
                ray.init(
                    address=address,
                    logging_level=logging.CRITICAL,
                    log_to_driver=False,
                    **options,
                )
            except ConnectionError as error:
                raise InputError(
                    f"no Ray cluster answers ({type(error).__name__})",
                    where="ray.address",
                    mend="Use 'local', or start the cluster.",
                ) from error
        yield
    finally:
        ray.shutdown()
        _empty(tmp)
        if link_home is not None:
            shutil.rmtree(link_home, ignore_errors=True)


@contextlib.contextmanager
def _silent_ray() -> Iterator[None]:
    """Keeps Ray from printing what went wrong in workers: it may quote notes, and stdout is ours.

    ``log_to_driver=False`` stops the workers' output only; errors still go to stdout, and no
    setting stops them.
    """
    silence()
    from ray._private import worker

    printer = getattr(worker, "print_to_stdstream", None)
    worker.print_to_stdstream = lambda *args, **kwargs: None
    try:
        yield
    finally:
        worker.print_to_stdstream = printer


def _empty(tmp: Path) -> None:
    # Only what this module put there: the store keeps its temporary files beside it.
    for name in ("ray", "spill", "tune"):
        shutil.rmtree(tmp / name, ignore_errors=True)


@contextlib.contextmanager
def _private_umask() -> Iterator[None]:
    # Ray's processes and the workers inherit it.
    old = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(old)


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Lets a SIGTERM (of a container or batch system) stop the sweep as cleanly as a Ctrl-C."""
    try:
        old = signal.signal(signal.SIGTERM, lambda number, frame: os.kill(os.getpid(), 2))
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
