"""Time and memory from sentences in Parquet to 19 annotated ceilings, beside pyahocorasick.

    python experiments/bench/matching.py [--quick]

Dictionary and sentences are generated from a seed: 470,000 identifiers and 150,000 sentences as in
Laursen et al. 2022. Each contender runs in processes of its own, in turn, and starts from what is
compiled once: the saved trie, or the saved automaton. Both read the same Parquet file, cut it into
the same tokens and must find the same matches. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deidsearch.annotate.matches import select_leftmost_longest
from deidsearch.annotate.trie import Trie
from deidsearch.store.database import Database
from deidsearch.store.dictionaries import Dictionary, load_dictionary, save_dictionary
from deidsearch.store.dictionary_records import empty_report
from deidsearch.text.tokens import fold_vocabulary, tokenise

TYPES = ("NAME", "STREET", "LOCATION")
SEED = 20260101
SYLLABLES = (
    "an ber bo da el er fa gi ha in jo ka la ma ne ol pe ra sa ta ul va ves ylt æs øst ås "
    "chr lund borg rup sen bæk holm dal gård skov sø strand mark by"
).split()


def words_of(rng: np.random.Generator, size: int) -> list[str]:
    """Returns distinct words of two to five syllables."""
    words: dict[str, None] = {}
    while len(words) < size:
        lengths = rng.integers(2, 6, size)
        picks = rng.integers(0, len(SYLLABLES), (size, 5))
        for length, row in zip(lengths.tolist(), picks.tolist(), strict=True):
            words["".join(SYLLABLES[place] for place in row[:length])] = None
    return list(words)[:size]


def make_dictionary(rng: np.random.Generator, size: int, words: list[str]) -> Dictionary:
    """Returns a dictionary of ``size`` identifiers: 8 of 9 are one word, the others 2 or 3.

    Three of ten words of the text are identifiers too, as they are in Danish.
    """
    num_text = num_text_words(words)
    common = rng.permutation(num_text)[: num_text * 3 // 10]
    rare = num_text + rng.permutation(len(words) - num_text)
    single = np.concatenate([common, rare])[: size * 8 // 9]
    seen = {(int(word),) for word in single}
    # Words of several-word identifiers follow the frequencies of the text, so that they occur.
    while len(seen) < size:
        length = 2 if rng.random() < 0.8 else 3
        seen.add(tuple(frequent_words(rng, length, num_text)))
    keys = list(seen)
    lengths = np.array([len(key) for key in keys])
    flat = np.array([word for key in keys for word in key], dtype=np.int32)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    kind = rng.choice(3, size, p=[0.85, 0.11, 0.04])
    rates = np.zeros((size, 3))
    rates[np.arange(size), kind] = rng.lognormal(-13, 2, size)
    also = rng.random(size) < 0.01
    rates[also, (kind[also] + 1) % 3] = rng.lognormal(-13, 2, int(also.sum()))
    # Names that are words too are mostly among the words of the text.
    share = np.where((lengths == 1) & (flat[offsets[:-1]] < num_text), 0.5, 0.02)
    return Dictionary(
        types=TYPES,
        sources=("words",),
        key=pa.array([" ".join(words[word] for word in key) for key in keys]),
        token_key=pa.array(words),
        tokens=flat,
        offsets=offsets,
        rates=rates,
        counts=np.full((size, 3), np.nan),
        non_identifier=(rng.random(size) < share).astype(np.uint64),
        all_words_common=np.zeros(size, dtype=np.bool_),
        is_variant=np.zeros(size, dtype=np.bool_),
        removed=empty_report(),
        digest="bench",
    )


def num_text_words(words: list[str]) -> int:
    """Returns how many of the words the text uses: a quarter."""
    return len(words) // 4


def frequent_words(rng: np.random.Generator, size: int, num_text: int) -> list[int]:
    """Returns words drawn with a probability that falls as one over the rank (Zipf)."""
    ranks: list[int] = (num_text ** rng.random(size)).astype(int).tolist()
    return [rank - 1 for rank in ranks]


def make_sentences(rng: np.random.Generator, size: int, words: list[str]) -> list[str]:
    """Returns sentences of 8 to 50 words, frequent words first, capitals and punctuation."""
    sentences = []
    for length in rng.integers(8, 51, size).tolist():
        text = [words[place] for place in frequent_words(rng, length, num_text_words(words))]
        text[0] = text[0].capitalize()
        if length % 3 == 0:
            text[length // 2] = text[length // 2].title() + ","
        sentences.append(" ".join(text) + ".")
    return sentences


def padded(words: list[str]) -> str:
    """Returns words with doubled separators, so that touching matches share none."""
    return "".join(f" {word} " for word in words)


def prepare(folder: Path, num_identifiers: int, num_sentences: int) -> dict[str, Any]:
    """Returns what preparing measured, after data, trie and automaton are saved in the folder."""
    import ahocorasick

    rng = np.random.default_rng(SEED)
    words = words_of(rng, num_identifiers * 6 // 5)
    dictionary = make_dictionary(rng, num_identifiers, words)
    sentences = make_sentences(rng, num_sentences, words)
    pq.write_table(pa.table({"text": sentences}), folder / "sentences.parquet")

    began = time.process_time()
    Trie.compile(dictionary).save(folder / "trie")
    build_seconds = time.process_time() - began
    with Database(folder / "store.duckdb", folder) as database:
        save_dictionary(database, dictionary)

    began = time.process_time()
    automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS)
    for number, key in enumerate(dictionary.key.to_pylist()):
        automaton.add_word(padded(key.split(" ")), number)
    automaton.make_automaton()
    automaton.save(str(folder / "automaton.bin"))
    np.save(folder / "num_tokens.npy", np.diff(dictionary.offsets))
    return {
        "build_seconds": round(build_seconds, 2),
        "pyahocorasick_build_seconds": round(time.process_time() - began, 2),
    }


def run_product(folder: Path) -> dict[str, Any]:
    """Returns the measures of the product: Parquet to 19 annotated ceilings."""
    from deidsearch.annotate.ceilings import Rules, tag_identifiers
    from deidsearch.annotate.postprocess import annotate
    from deidsearch.annotate.ratios import count_occurrences, sentence_ratios
    from deidsearch.annotate.trie import find_matches

    steps, clock = {}, time.process_time

    def step(name: str, began: float) -> float:
        steps[name] = round(clock() - began, 3)
        return clock()

    began = clock()
    with Database(folder / "store.duckdb", folder, read_only=True) as database:
        dictionary = load_dictionary(database, "bench")
    assert dictionary is not None
    store_seconds = clock() - began

    began = at = clock()
    trie = Trie.load(folder / "trie")
    texts = pq.ParquetFile(folder / "sentences.parquet").read()["text"]
    at = step("load trie and texts", at)
    table = tokenise(texts)
    at = step("tokenise", at)
    key = fold_vocabulary(table.vocabulary)
    at = step("fold", at)
    matches = find_matches(trie, table, key)
    at = step("match", at)
    to_matches = clock() - began
    occurrences = count_occurrences(matches, len(dictionary.rates))
    ratio = sentence_ratios(dictionary, occurrences, len(table))
    ceilings = [2.0**power for power in range(19)]
    rules = Rules()
    tags = tag_identifiers(dictionary, ratio, rules, ceilings)
    at = step("ratios and tags", at)
    annotation = annotate(matches, table, key, dictionary, tags, rules)
    at = step("postprocess", at)
    mentions = sum(len(annotation.mentions(number)) for number in range(len(ceilings)))
    step("mentions of 19 ceilings", at)
    cpu_seconds = clock() - began
    return {
        "cpu_seconds": cpu_seconds, "to_matches": to_matches, "store": store_seconds,
        "steps": steps, "matches": checksum(table.offsets, matches), "mentions": mentions,
        "tokens": table.num_tokens, "peak_mb": peak_mb(),
    }  # fmt: skip


def run_pyahocorasick(folder: Path) -> dict[str, Any]:
    """Returns the measures of pyahocorasick: Parquet to the same matches, over the same tokens."""
    import ahocorasick

    began = time.process_time()
    automaton = ahocorasick.load(str(folder / "automaton.bin"), int)
    num_tokens = np.load(folder / "num_tokens.npy")
    table = tokenise(pq.ParquetFile(folder / "sentences.parquet").read()["text"])
    keys = fold_vocabulary(table.vocabulary).to_pylist()
    # One long text is its fastest way; a word that is in no dictionary parts the sentences.
    keys.append("\0")
    token = np.insert(table.token, table.offsets[1:], len(keys) - 1)
    place = np.arange(len(token)) - np.repeat(np.arange(len(table)), table.lengths + 1)
    last_char = np.cumsum(np.array([len(key) + 2 for key in keys])[token]) - 1
    text = padded([keys[number] for number in token.tolist()])
    hits = np.fromiter(itertools.chain.from_iterable(automaton.iter(text)), np.int64)
    end_at, identifier = hits.reshape(-1, 2).T
    end = place[np.searchsorted(last_char, end_at)] + 1
    start = end - num_tokens[identifier]
    order = np.lexsort((end, start))
    start, end, found = start[order], end[order], identifier[order]
    selected = select_leftmost_longest(start, end)
    seconds = time.process_time() - began
    total = int((start * 31 + end * 17 + found * 7 + selected).sum())
    return {"to_matches": seconds, "matches": [len(found), total], "peak_mb": peak_mb()}


def checksum(offsets: np.ndarray, matches: Any) -> list[int]:
    """Returns the number of matches and a sum over all their columns."""
    base = offsets[matches.sentence]
    start, end = base + matches.start_token, base + matches.end_token
    total = start * 31 + end * 17 + matches.identifier.astype(np.int64) * 7 + matches.selected
    return [len(matches), int(total.sum())]


def peak_mb() -> float:
    """Returns the most memory this process held at a time, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(contender: str, folder: Path) -> dict[str, Any]:
    """Returns the measures of one contender in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", contender, "--folder", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{contender} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Prints the table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", choices=["product", "pyahocorasick"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    out = sys.stdout.write
    if options.child:
        run = run_product if options.child == "product" else run_pyahocorasick
        out(json.dumps(run(options.folder)) + "\n")
        return
    scale = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = prepare(folder, 470_000 // scale, 150_000 // scale)
        ours, theirs = [], []
        for _ in range(max(options.repeats, 3)):
            ours.append(child("product", folder))
            theirs.append(child("pyahocorasick", folder))
    if ours[0]["matches"] != theirs[0]["matches"]:
        raise SystemExit(f"other matches: {ours[0]['matches']} and {theirs[0]['matches']}")

    def median(runs: list[dict[str, Any]], field: str) -> float:
        return statistics.median(run[field] for run in runs)

    out(f"{470_000 // scale:,} identifiers, {150_000 // scale:,} sentences, ")
    out(f"{ours[0]['tokens']:,} tokens, {ours[0]['matches'][0]:,} matches (the same of both)\n\n")
    out(f"{'':34}{'CPU s':>8}{'peak MB':>10}\n")
    rows = (("product, to matches", ours), ("pyahocorasick, to matches", theirs))
    for title, runs in rows:
        out(f"{title:34}{median(runs, 'to_matches'):8.2f}{median(runs, 'peak_mb'):10.0f}\n")
    out(f"{'product, to 19 ceilings':34}{median(ours, 'cpu_seconds'):8.2f}\n")
    for name in ours[0]["steps"]:
        seconds = statistics.median(run["steps"][name] for run in ours)
        out(f"{'  ' + name:34}{seconds:8.2f}\n")
    out(f"{'apart: compiling the trie':34}{figures['build_seconds']:8.2f}\n")
    out(f"{'apart: dictionary from the store':34}{median(ours, 'store'):8.2f}\n")
    ratio = median(theirs, "to_matches") / median(ours, "to_matches")
    out(f"\npyahocorasick takes {ratio:.1f} times as long.\n")
    result = {
        "benchmark": "matching",
        "quick": options.quick,
        "cpu_seconds": round(median(ours, "cpu_seconds"), 3),
        "cpu_seconds_to_matches": round(median(ours, "to_matches"), 3),
        "store_seconds": round(median(ours, "store"), 3),
        "peak_mb": round(max(run["peak_mb"] for run in ours), 1),
        "ratio_vs_pyahocorasick": round(ratio, 2),
        "pyahocorasick_cpu_seconds": round(median(theirs, "to_matches"), 3),
        **figures,
    }
    out(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
