"""Bulk matching: a trie over token numbers, walked level by level for all places at once.

A match is a run of whole tokens equal to an identifier's tokens (METHOD §4). The walk costs one
array step per level, whatever the number of sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deidsearch.annotate.matches import (
    Bool,
    Int32,
    Int64,
    Matches,
    join_matches,
    select_leftmost_longest,
)
from deidsearch.files import load_arrays, save_arrays
from deidsearch.text.tokens import TokenTable

if TYPE_CHECKING:
    from deidsearch.store.dictionaries import Dictionary

# Tokens walked at once: bounds the memory and keeps the arrays in the processor's cache.
_BLOCK_TOKENS = 1 << 20


@dataclass(frozen=True, eq=False)
class Trie:
    """All identifiers as paths of token numbers; nodes are numbered level by level.

    Attributes:
        token_key: ``(token_keys,)`` folded tokens, the dictionary's own numbering.
        first: int32 ``(token_keys,)``, node of an identifier's first token, -1 where none.
        edge: int64 ``(inner nodes,)``, ascending: ``parent * token_keys + token`` of each node
            that is not a first one. Node ``num_first + i`` has ``edge[i]``, so an edge's place
            is its node.
        identifier: int32 ``(nodes,)``, the identifier that ends here, -1 where none does.
        has_children: bool ``(nodes,)``, True where some identifier goes on.
        inner: bool ``(token_keys,)``, True where some identifier has the token behind its first.
        digest: names the dictionary that was compiled.
    """

    token_key: pa.StringArray
    first: Int32
    edge: Int64
    identifier: Int32
    has_children: Bool
    inner: Bool
    digest: str

    @property
    def num_first(self) -> int:
        """Nodes of the first level."""
        return len(self.identifier) - len(self.edge)

    @classmethod
    def compile(cls, dictionary: Dictionary) -> Trie:
        """Returns the trie of a dictionary's token sequences."""
        tokens = np.asarray(dictionary.tokens, dtype=np.int32)
        offsets = np.asarray(dictionary.offsets, dtype=np.int64)
        num_keys = len(dictionary.token_key)
        lengths = np.diff(offsets)
        # An entry without tokens can never match, and has no place in the trie.
        rows = np.flatnonzero(lengths > 0)
        heads = tokens[offsets[rows]]
        present = np.zeros(num_keys, dtype=np.bool_)
        present[heads] = True
        first = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)

        node = first[heads].astype(np.int64)
        num_nodes, depth = int(present.sum()), 1
        edges: list[Int64] = []
        ends: list[tuple[Int64, Int64]] = []
        while len(rows):
            is_end = lengths[rows] == depth
            ends.append((node[is_end], rows[is_end]))
            rows, node = rows[~is_end], node[~is_end]
            edge = node * num_keys + tokens[offsets[rows] + depth]
            distinct, place = np.unique(edge, return_inverse=True)
            edges.append(distinct)
            node = place.astype(np.int64) + num_nodes
            num_nodes += len(distinct)
            depth += 1

        identifier = np.full(num_nodes, -1, dtype=np.int32)
        for nodes, owners in ends:
            identifier[nodes] = owners
        # Parents of a level are all above those of the level before, so this is ascending.
        edge = np.concatenate([np.empty(0, np.int64), *edges])
        has_children = np.zeros(num_nodes, dtype=np.bool_)
        inner = np.zeros(num_keys, dtype=np.bool_)
        if len(edge):
            has_children[edge // num_keys] = True
            inner[edge % num_keys] = True
        return cls(
            dictionary.token_key, first, edge, identifier, has_children, inner, dictionary.digest
        )

    def save(self, folder: Path | str) -> Path:
        """Returns the folder, which holds the trie as array files that can be mapped."""
        keys = pa.concat_arrays([self.token_key.cast(pa.string())])  # offsets start at 0
        _, starts, content = keys.buffers()
        return save_arrays(
            folder,
            first=self.first,
            edge=self.edge,
            identifier=self.identifier,
            has_children=self.has_children,
            inner=self.inner,
            key_start=np.frombuffer(starts or b"\0\0\0\0", np.int32)[: len(keys) + 1],
            key_bytes=np.frombuffer(content or b"", np.uint8),
            digest=np.frombuffer(self.digest.encode(), np.uint8),
        )

    @classmethod
    def load(cls, folder: Path | str, mmap: bool = True) -> Trie:
        """Returns the trie saved in a folder, mapped read-only unless ``mmap`` is false."""
        arrays = load_arrays(folder, mmap=mmap)
        token_key = pa.StringArray.from_buffers(
            len(arrays["key_start"]) - 1,
            pa.py_buffer(np.ascontiguousarray(arrays["key_start"])),
            pa.py_buffer(np.ascontiguousarray(arrays["key_bytes"])),
        )
        names = ("first", "edge", "identifier", "has_children", "inner")
        columns = {name: arrays[name] for name in names}
        return cls(token_key=token_key, digest=arrays["digest"].tobytes().decode(), **columns)


def find_matches(trie: Trie, tokens: TokenTable, key: pa.StringArray) -> Matches:
    """Returns every occurrence of every identifier in the sentences.

    Args:
        trie: the compiled dictionary.
        tokens: the sentences.
        key: ``(surfaces,)`` folded key of each surface of the table's vocabulary, folded as the
            dictionary was.
    """
    return walk(trie, number_tokens(trie, tokens, key), tokens.offsets)


def number_tokens(trie: Trie, tokens: TokenTable, key: pa.StringArray) -> Int32:
    """Returns the dictionary's number of each token, int32 ``(tokens,)``, -1 where it has none."""
    if len(key) != len(tokens.vocabulary):
        raise ValueError(f"{len(key)} keys for a vocabulary of {len(tokens.vocabulary)}")
    if not len(key):
        return np.empty(0, dtype=np.int32)
    found = pc.index_in(key, value_set=trie.token_key)
    number: Int32 = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return number[tokens.token]


def walk(trie: Trie, number: Int32, offsets: npt.NDArray[np.int64]) -> Matches:
    """Returns the matches in sentences of token numbers.

    Args:
        trie: the compiled dictionary.
        number: int32 ``(tokens,)``, the dictionary's number of each token, -1 where it has none.
        offsets: int64 ``(sentences + 1,)``, token range of each sentence.
    """
    num_sentences = len(offsets) - 1
    parts, first = [], 0
    while first < num_sentences:
        stop = int(np.searchsorted(offsets, offsets[first] + _BLOCK_TOKENS, side="right")) - 1
        stop = min(max(stop, first + 1), num_sentences)
        block = offsets[first : stop + 1]
        parts.append(_walk_block(trie, number[block[0] : block[-1]], block - block[0]))
        first = stop
    return join_matches(parts)


def _walk_block(trie: Trie, number: Int32, offsets: Int64) -> Matches:
    # The entry behind the last one is what number -1 finds: no node.
    node_of = np.append(trie.first, np.int32(-1))
    inner = np.append(trie.inner, False)
    is_last = np.zeros(len(number) + 1, dtype=np.bool_)
    is_last[offsets[1:][np.diff(offsets) > 0] - 1] = True

    node = node_of[number]
    start = np.flatnonzero(node >= 0)
    node, depth = node[start], 1
    starts, lengths, identifiers = [], [], []
    while len(start):
        identifier = trie.identifier[node]
        found = identifier >= 0
        starts.append(start[found])
        identifiers.append(identifier[found])
        lengths.append(np.full(len(starts[-1]), depth, dtype=np.int64))
        # Go on where an identifier does, inside the sentence, over a token that can come next.
        alive = trie.has_children[node] & ~is_last[start + depth - 1]
        start, node = start[alive], node[alive]
        token = number[start + depth]
        alive = inner[token]
        start, node, token = start[alive], node[alive], token[alive]
        edge = node.astype(np.int64) * len(trie.first) + token
        place = np.searchsorted(trie.edge, edge)
        place[place == len(trie.edge)] = 0
        alive = trie.edge[place] == edge if len(edge) else np.empty(0, np.bool_)
        start = start[alive]
        node = (place[alive] + trie.num_first).astype(np.int32)
        depth += 1

    flat_start = np.concatenate([np.empty(0, np.int64), *starts])
    length = np.concatenate([np.empty(0, np.int64), *lengths])
    # Levels come in order of length, so a stable sort by start leaves the ends ascending.
    order = np.argsort(flat_start, kind="stable")
    flat_start, length = flat_start[order], length[order]
    identifier = np.concatenate([np.empty(0, np.int32), *identifiers])[order]
    selected = select_leftmost_longest(flat_start, flat_start + length)
    sentence_of = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    sentence = sentence_of[flat_start]
    start_token = (flat_start - offsets[sentence]).astype(np.int32)
    return Matches(
        sentence,
        start_token,
        start_token + length.astype(np.int32),
        identifier,
        selected,
        len(offsets) - 1,
    )
