"""Matching of very large corpora: shards of sentences in Ray actors.

Below about a million sentences the walk in one process is faster than starting Ray. Results are
equal either way.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from deidsearch.annotate.matches import Matches, join_matches
from deidsearch.annotate.trie import Trie, find_matches, number_tokens, walk
from deidsearch.errors import RunError
from deidsearch.files import load_arrays, private_dir, save_arrays
from deidsearch.quiet import hushed_ray, runtime_env, silence
from deidsearch.text.tokens import TokenTable

SHARDING_PAYS = 1_000_000  # sentences


def match_corpus(
    trie: Trie,
    tokens: TokenTable,
    key: pa.StringArray,
    *,
    folder: Path | str,
    threshold: int = SHARDING_PAYS,
    num_actors: int | None = None,
    address: str = "local",
) -> Matches:
    """Returns the matches of a corpus: in this process, or sharded above the threshold.

    Args:
        trie: the compiled dictionary.
        tokens: the sentences.
        key: ``(surfaces,)`` folded keys.
        folder: private folder for shards, which hold no text but numbers of words.
        threshold: sentences above which Ray is used.
        num_actors: at most this many; None means one per CPU.
        address: of the Ray cluster.
    """
    actors = num_actors or os.cpu_count() or 1
    if len(tokens) <= threshold or actors < 2:
        return find_matches(trie, tokens, key)
    private_dir(folder)
    work = Path(tempfile.mkdtemp(prefix="shards-", dir=folder))
    try:
        trie_folder = trie.save(work / "trie")
        return find_matches_sharded(
            trie_folder, tokens, key, folder=work, num_actors=actors, address=address
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def find_matches_sharded(
    trie_folder: Path | str,
    tokens: TokenTable,
    key: pa.StringArray,
    *,
    folder: Path | str,
    num_actors: int,
    sentences_per_shard: int | None = None,
    address: str = "local",
) -> Matches:
    """Returns the matches of a corpus, found by Ray actors over memory-mapped shards.

    Args:
        trie_folder: a saved trie; each actor maps it once.
        tokens: the sentences.
        key: ``(surfaces,)`` folded keys.
        folder: private folder that driver and actors see; shards and results are written there.
        num_actors: how many actors, one CPU each.
        sentences_per_shard: None gives each actor four shards, so that a slow one is evened out.
        address: "local" starts a Ray of its own (never joins one that happens to run).

    Raises:
        RunError: a shard could not be matched; it is named.
    """
    folder = private_dir(folder)
    num_actors = max(1, num_actors)
    size = sentences_per_shard or max(1, math.ceil(len(tokens) / (4 * num_actors)))
    number = number_tokens(Trie.load(trie_folder), tokens, key)
    names = []
    for first in range(0, len(tokens), size):
        block = tokens.offsets[first : first + size + 1]
        names.append(f"{first:012d}")
        save_arrays(
            folder / "input" / names[-1],
            number=number[block[0] : block[-1]],
            offsets=block - block[0],
        )
    # Only what crosses to the actors is paths: the arrays are mapped there.
    _run_actors(Path(trie_folder), folder, names, num_actors, address)
    parts = [Matches.load(folder / "output" / name) for name in names]
    return join_matches(parts)


def match_shard(trie: Trie, folder: Path, name: str) -> str:
    """Returns the name of a shard after its matches stand in the output folder.

    Idempotent: the result appears whole or not at all, and a repetition replaces it with the same.
    """
    arrays = load_arrays(folder / "input" / name)
    walk(trie, arrays["number"], arrays["offsets"]).save(folder / "output" / name)
    return name


def _run_actors(
    trie_folder: Path, folder: Path, names: list[str], num_actors: int, address: str
) -> None:
    silence()
    import ray

    if not names:
        return
    started = not ray.is_initialized()
    if started:
        settings: dict[str, Any] = {}
        if address == "local":
            settings = {"num_cpus": num_actors, "include_dashboard": False}
        with hushed_ray(ray):
            ray.init(
                address=address, runtime_env=runtime_env(), log_to_driver=False,
                logging_level="ERROR", **settings,
            )  # fmt: skip
    try:
        # max_restarts alone would lose the calls that wait at an actor when it dies.
        remote = ray.remote(num_cpus=1, max_restarts=3, max_task_retries=3)(_ShardActor)
        count = min(num_actors, len(names))
        actors = [remote.remote(str(trie_folder), str(folder)) for _ in range(count)]
        idle = list(actors)
        pending: dict[Any, tuple[Any, str]] = {}
        queue = list(reversed(names))
        while queue or pending:
            while queue and idle:
                actor, name = idle.pop(), queue.pop()
                pending[actor.match.remote(name)] = (actor, name)
            done, _ = ray.wait(list(pending))
            for reference in done:
                actor, name = pending.pop(reference)
                try:
                    ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise RunError(
                        f"matching failed ({type(error).__name__})", where=f"shard {name}"
                    ) from error
                idle.append(actor)
        for actor in actors:
            ray.kill(actor)
    finally:
        if started:
            ray.shutdown()


class _ShardActor:
    """Holds one mapped trie and matches the shards it is given."""

    def __init__(self, trie_folder: str, folder: str) -> None:
        self._trie = Trie.load(trie_folder)
        self._folder = Path(folder)

    def match(self, name: str) -> str:
        """Returns the name of the shard when its matches are written."""
        return match_shard(self._trie, self._folder, name)
