"""Makes the quick start's data: Danish-like notes, dictionaries and gold, all of it invented.

    python experiments/quickstart/generate.py

writes the files beside this script again, byte for byte. The lists under ``source/`` say what the
notes are made of. Three traits make the task a small likeness of the real one:

- many identifiers are words too ("Hans" and "hans", "Bang" and "bang"), and both are used;
- some words are borne by a handful of people ("Og", "At"), so their sentence ratio is enormous;
- some identifiers of the notes stand in no dictionary.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 20240
DOCUMENTS = {"corpus": 800, "validation": 75, "test": 150}
IDENTIFIERS = {"FIRST": "first", "LAST": "last", "STREET": "streets", "PLACE": "places"}
DICTIONARIES = {
    "names_first.csv": "FIRST",
    "names_last.csv": "LAST",
    "streets.csv": "STREET",
    "locations.csv": "PLACE",
}
LABELS = {
    "NAME": "NAME", "FIRST": "NAME", "LAST": "NAME", "STREET": "STREET", "PLACE": "LOCATION"
}  # fmt: skip
# Of the identifiers in the notes: those of gold come from another ward, with more names from abroad
# and new streets that no dictionary holds.
CORPUS_SHARES = {"plain": 0.70, "ambiguous": 0.25, "unlisted": 0.05}
GOLD_SHARES = {"plain": 0.42, "ambiguous": 0.30, "unlisted": 0.28}
FRAMES_STEP = 3  # of the frames that corpus and gold share, every third is used
MADE = 45  # names made of stems and endings, listed and as many unlisted
MIXUPS = {"o": "0", "l": "1", "i": "l", "e": "c", "m": "rn", "ø": "o", "å": "a"}  # as scanners do
SLOT = re.compile(r"\{([A-Z]+)\}")

Piece = tuple[str, str | None]  # text and its label


def sections(name: str) -> dict[str, list[str]]:
    """Returns the lines of a source file by section."""
    found: dict[str, list[str]] = {"": []}
    current = found[""]
    for line in (HERE / "source" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            current.append(line)
    return found


class Register:
    """The identifiers of one kind: what dictionaries list, and what notes draw from."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        parts = sections(f"{IDENTIFIERS[kind]}.txt")
        self.counts: dict[str, int] = {}
        self.shares = CORPUS_SHARES
        self.groups: dict[str, tuple[list[str], list[float]]] = {}
        for group in ("plain", "ambiguous", "rare"):
            rows = [line.rpartition(" ") for line in parts.get(group, [])]
            known = {word: int(count) for word, _, count in rows}
            self.counts.update(known)
            if group != "rare":
                # Drawn more evenly than people bear them, so that a small corpus shows most.
                self.groups[group] = (list(known), [count**0.6 for count in known.values()])
        made = self._made(parts, rng)
        for word in made[:MADE]:
            self.counts.setdefault(word, rng.randint(2, 60) * (1 if kind == "STREET" else 20))
        listed, weights = self.groups["plain"]
        self.groups["plain"] = (listed + made[:MADE], weights + [min(weights)] * len(made[:MADE]))
        unlisted = [word for word in parts["unlisted"] + made[MADE:] if word not in self.counts]
        self.groups["unlisted"] = (unlisted, [1.0] * len(unlisted))

    @staticmethod
    def _made(parts: dict[str, list[str]], rng: random.Random) -> list[str]:
        stems = " ".join(parts.get("stems", [])).split()
        endings = " ".join(parts.get("endings", [])).split()
        every = [stem + ending for stem in stems for ending in endings]
        return rng.sample(every, min(2 * MADE, len(every)))

    def draw(self, rng: random.Random) -> str:
        group = rng.choices(list(self.shares), list(self.shares.values()))[0]
        words, weights = self.groups[group]
        return rng.choices(words, weights)[0]


class Writer:
    """Writes notes: sentences from frames, with the places of the identifiers in them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.registers = {kind: Register(kind, self.rng) for kind in IDENTIFIERS}
        self.frames = sections("frames.txt")
        # Notes of one ward repeat themselves. With every frame in use, a corpus this small would
        # show each of them too seldom for trainings of a few seconds.
        for kind in ("identifiers", "ordinary"):
            self.frames[kind] = self.frames[kind][::FRAMES_STEP]
        self.fillers = sections("fillers.txt")

    def document(self, gold: bool) -> tuple[str, list[dict[str, int | str]]]:
        """Returns a note and its spans: paragraphs of a few sentences."""
        for register in self.registers.values():
            register.shares = GOLD_SHARES if gold else CORPUS_SHARES
        text, spans = "", []
        for number in range(self.rng.randint(2, 7)):
            if number:
                text += "\n" if self.rng.random() < 0.25 else " "
            for piece, label in self.sentence(gold):
                if label is not None:
                    spans.append(
                        {"start": len(text), "end": len(text) + len(piece), "label": label}
                    )
                text += piece
        return text, spans

    def sentence(self, gold: bool) -> list[Piece]:
        rng = self.rng
        kind = "identifiers" if rng.random() < 0.5 else "ordinary"
        frames = self.frames[kind]
        if gold and rng.random() < 0.1:
            frames = self.frames[f"{kind} gold-only"]
        # Short frames more often: notes are terse, and a quick start is short of time.
        frame = rng.choices(frames, [len(frame.split()) ** -1.5 for frame in frames])[0]
        if rng.random() < 0.1:
            frame = f"{rng.choice(self.frames['before'])} {frame[0].lower()}{frame[1:]}"
        if rng.random() < 0.12:
            frame += rng.choice(self.frames["after"])
        pieces = [self._noisy(*piece) for piece in self._filled(frame)]
        pieces.append((".", None))
        return self._cased(pieces)

    def _filled(self, frame: str) -> Iterator[Piece]:
        done = 0
        for slot in SLOT.finditer(frame):
            if slot.start() > done:
                yield frame[done : slot.start()], None
            yield self._fill(slot[1]), LABELS.get(slot[1])
            done = slot.end()
        if done < len(frame):
            yield frame[done:], None

    def _fill(self, slot: str) -> str:
        rng = self.rng
        if slot in self.fillers:
            return rng.choice(self.fillers[slot])
        if slot in self.registers:
            return self.registers[slot].draw(rng)
        if slot == "NAME":
            return self._name()
        simple = {
            "N": (2, 12), "NO": (1, 180), "AGE": (19, 94), "DOSE": (15, 500),
            "POST": (1000, 9900), "YEAR": (1968, 2022),
        }  # fmt: skip
        if slot in simple:
            return str(rng.randint(*simple[slot]))
        if slot == "DATE":
            return f"{rng.randint(1, 28)}.{rng.randint(1, 12):02}.{rng.randint(19, 23)}"
        if slot == "TIME":
            return f"{rng.randint(7, 22)}.{rng.choice(('00', '15', '30', '45'))}"
        if slot == "PHONE":
            return " ".join(f"{rng.randint(10, 99)}" for _ in range(4))
        if slot == "BP":
            return f"{rng.randint(105, 180)}/{rng.randint(60, 99)}"
        if slot == "TEMP":
            return f"{rng.randint(36, 40)},{rng.randint(0, 9)}"
        raise ValueError(f"frames.txt: nothing fills the slot {slot}")

    def _name(self) -> str:
        rng = self.rng
        first, last = self.registers["FIRST"].draw(rng), self.registers["LAST"].draw(rng)
        form = rng.random()
        if form < 0.55:
            return f"{first} {last}"
        if form < 0.70:
            return f"{first} {self.registers['FIRST'].draw(rng)} {last}"
        if form < 0.80:
            return f"{first} {self.registers['LAST'].draw(rng)[0]}. {last}"
        if form < 0.90:
            return first
        return last

    def _noisy(self, text: str, label: str | None) -> Piece:
        """Returns the piece, now and then with a letter misread as by a scanner."""
        rng = self.rng
        if rng.random() < 0.02:
            places = [place for place, letter in enumerate(text) if letter in MIXUPS]
            if places:
                place = rng.choice(places)
                text = text[:place] + MIXUPS[text[place]] + text[place + 1 :]
        return text, label

    def _cased(self, pieces: list[Piece]) -> list[Piece]:
        form = self.rng.random()
        if form < 0.12:
            return [(text.lower(), label) for text, label in pieces]
        if form < 0.20:
            return [(text.upper() if label else text, label) for text, label in pieces]
        return pieces

    def words(self) -> list[str]:
        """Returns the lower-case words of frames and fillers and the list of ordinary words."""
        parts = (self.frames, self.fillers)
        lines = [line for part in parts for rows in part.values() for line in rows]
        found = set(" ".join(sections("words.txt")[""]).split())
        for line in lines:
            # Capitals inside a frame begin a proper noun; only a frame's first word is lowered.
            line = SLOT.sub(" ", line)
            found.update(re.findall(r"[^\W\d_]{2,}", line[:1].lower() + line[1:]))
        return sorted(word for word in found if word.islower())


def write(folder: Path, seed: int) -> None:
    writer = Writer(seed)
    for name, kind in DICTIONARIES.items():
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("identifier", "count"))
            counts = writer.registers[kind].counts
            rows.writerows(sorted(counts.items(), key=lambda row: (-row[1], row[0])))
    lists = {
        "general.txt": writer.words(),
        "medicines.txt": sorted(writer.fillers["DRUG"]),
        "abbreviations.txt": sections("abbreviations.txt")[""],
    }
    for name, lines in lists.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, size in DOCUMENTS.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(size):
                text, spans = writer.document(gold=name != "corpus")
                record = {"id": f"{name}-{number:04}", "text": text}
                if name != "corpus":
                    record["spans"] = spans
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the files")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out, options.seed)


if __name__ == "__main__":
    main()
