"""Trainings run by Ray Tune: the one place of the search that knows Ray.

Tune is the executor of what is pending and no more. What is done is told by files (store.ledger),
so Tune's own snapshots, restore and retries are not relied on.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from deidsearch.errors import Interrupted, RunError
from deidsearch.files import private_dir
from deidsearch.quiet import silence
from deidsearch.search.faults import LOW_DISK, failure_reason, is_disk_full
from deidsearch.search.session import Resources, granted, ray_session

if TYPE_CHECKING:
    from ray import tune
    from ray.tune.experiment import Trial

TARGET = "deidsearch.search.trial:run_training"
DIED = "the worker process died twice: killed (out of memory?) or crashed"
_GO_ON = "Run the same command: it goes on where it stopped."


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


class RaySession:
    """Ray for one sweep, which can come up in the background while the sweep is prepared.

    To start Ray and to import torch in its workers takes longer than many a training, and most of
    it is waiting. A block ``with session:`` waits for it, and lets it go in the background.

    Args:
        resources: where it runs.
        tmp: private folder for Ray's session and Tune's state, emptied before and after.
        preload: modules that the workers of a local Ray import while they stand by.
    """

    def __init__(
        self,
        resources: Resources,
        tmp: Path,
        preload: Sequence[str] = (),
    ) -> None:
        self.resources = resources
        self.tmp = private_dir(tmp)
        self._preload = tuple(preload)
        self._ready, self._over = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Starts Ray in the background, once."""
        if self._thread is not None:
            return
        silence()
        import ray

        # Ray's processes die with the thread that started them, so it stays to the end.
        self._thread = threading.Thread(target=self._own, args=(ray,), name="ray session")
        self._thread.start()
        # Starting is mostly waiting: meanwhile the rest of Ray is imported here.
        importlib.import_module("ray.tune")

    def close(self) -> None:
        """Stops Ray, and waits until it is gone."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.begin()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def _own(self, ray: ModuleType) -> None:
        try:
            with ray_session(ray, self.resources.address, self.tmp, self._preload):
                self._ready.set()
                self._over.wait()
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()


def run_trainings(
    folders: Sequence[Path],
    listener: Listener,
    session: RaySession,
    *,
    target: str = TARGET,
) -> None:
    """Runs the trainings of these folders, as many at once as the resources allow.

    Args:
        folders: one a training, named by its key; ``target`` gets nothing else.
        listener: told of each training as it goes on.
        session: where they run; begun here if it is not yet.
        target: ``module:function`` run in the worker as ``function(folder, report, threads)``.

    Raises:
        Interrupted: the user stopped the run, or the system asked it to end.
        RunError: the disk is full.
    """
    if not folders:
        return
    with session:
        import ray

        resources, tmp = session.resources, session.tmp
        cpus, gpus = granted(ray, resources)
        watcher = _make_watcher(listener, folders[0].parent)
        tuner = _make_tuner(folders, target, cpus, gpus, resources.max_concurrent, tmp, watcher)
        with _ended_like_ctrl_c():
            tuner.fit()
    if watcher.error is not None:
        raise watcher.error
    if watcher.disk_full:
        raise disk_is_full(session.tmp.parent)
    # fit() returns as if all were well after a Ctrl-C.
    if len(watcher.over) < len(folders):
        raise Interrupted(
            f"stopped with {len(folders) - len(watcher.over)} trainings unfinished", mend=_GO_ON
        )


def disk_is_full(output: Path) -> RunError:
    """Returns the error of a sweep that waits for space."""
    return RunError("the disk is full, the sweep has paused", str(output), f"Make space. {_GO_ON}")


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
    from ray.tune.execution import class_cache

    # Tune gives its actors a variable for PyTorch Lightning, and with it an environment in which
    # no worker stands by: each would be started and import torch anew.
    class_cache.DEFAULT_ENV_VARS.pop("PL_DISABLE_FORK", None)
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
