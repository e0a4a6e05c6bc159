"""Fetch the source texts (Debian packages) and reduce them to one JSON file.

Nothing but the packages named in PACKAGES is used.  Licences: see README.md.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import subprocess
import zlib
from collections import defaultdict
from pathlib import Path

PACKAGES = ["wordnet-base", "r-cran-janeaustenr", "bible-kjv", "bible-kjv-text", "dict-devil", "dict-elements", "bsdgames"]

POS_NAMES = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
RUDE = re.compile(
    r"offensive|disparag|obscene|slur|vulgar|slang|sexual|prostitut|genital|derogatory|contempt|copulat|intercourse|ni[g]{2}er|penis|vagina|ethnic",
    re.I,
)
FUNCTION_WORDS = set(
    "the and but for not are was were been has had have did does done can could may might must shall should will would a an as at by in "
    "into of on or to up with be is am it its he she him her his they them their you your who whom whose which what that this these those "
    "there here then than so if such some any all each both more most much many other another very too also just only no nor yet".split()
)


def fetch(work: Path) -> Path:
    """Download and unpack the packages below `work`; nothing is installed."""
    debs, root = work / "debs", work / "x"
    debs.mkdir(parents=True, exist_ok=True)
    if not list(debs.glob("*.deb")):
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True)
    return root


def read_wordnet(root: Path) -> dict:
    """Words with their most frequent sense, plus every synset once."""
    folder = root / "usr/share/wordnet"
    pos_of = {1: "n", 2: "v", 3: "a", 4: "r", 5: "a"}
    count: dict[tuple[str, str, int], int] = {}
    for line in (folder / "cntlist.rev").read_text().splitlines():
        key, number, tags = line.split()
        lemma, rest = key.split("%")
        count[lemma, pos_of[int(rest[0])], int(number)] = int(tags)

    synsets: dict[tuple[str, int], dict] = {}
    for pos, name in (("n", "noun"), ("v", "verb"), ("a", "adj"), ("r", "adv")):
        for line in (folder / f"data.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            head, _, gloss = line.partition(" | ")
            f = head.split()
            n = int(f[3], 16)
            words = [re.sub(r"\(\w+\)$", "", f[4 + 2 * i]).replace("_", " ") for i in range(n)]
            at = 4 + 2 * n
            links = [f[at + 1 + 4 * i : at + 5 + 4 * i] for i in range(int(f[at]))]
            examples = re.findall(r'"([^"]+)"', gloss)
            text = re.split(r';\s*"|:\s*"|--', gloss)[0].strip().rstrip(";: ")
            if '"' in text or not text:
                continue
            synsets[pos, int(f[0])] = {"pos": POS_NAMES[f[2]], "words": words, "gloss": text, "examples": examples, "links": links}

    total: dict[str, int] = defaultdict(int)
    best: dict[str, tuple[int, tuple[str, int]]] = {}
    for pos, name in (("n", "noun"), ("v", "verb"), ("a", "adj"), ("r", "adv")):
        for line in (folder / f"index.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):
                continue
            f = line.split()
            offsets = [int(o) for o in f[-int(f[2]) :]]
            for i, offset in enumerate(offsets):
                c = count.get((f[0], pos, i + 1), 0)
                total[f[0]] += c
                if (pos, offset) in synsets and (f[0] not in best or c > best[f[0]][0]):
                    best[f[0]] = (c, (pos, offset))

    words = []
    for lemma, (c, key) in best.items():
        s = synsets[key]
        gloss = s["gloss"] if len(s["gloss"]) <= 90 else re.split(r";", s["gloss"])[0]
        shown = next((w for w in s["words"] if w.lower() == lemma.replace("_", " ")), lemma.replace("_", " "))
        if RUDE.search(s["gloss"]) or RUDE.search(lemma) or len(gloss) > 160:
            continue
        antonym = hypernym = None
        for symbol, offset, pos, ends in s["links"]:
            target = synsets.get((pos.replace("s", "a"), int(offset)))
            if not target:
                continue
            if symbol == "@" and not hypernym:
                hypernym = target["words"][0]
            # An antonym links one word with one word: `ends` has their numbers in the two synsets.
            if symbol == "!" and not antonym and shown in s["words"] and int(ends[:2], 16) == s["words"].index(shown) + 1:
                antonym = target["words"][int(ends[2:], 16) - 1]
        words.append(
            {
                "word": shown,
                "pos": s["pos"],
                "gloss": gloss,
                "count": total[lemma],
                "examples": [e for e in s["examples"] if re.search(rf"\b{re.escape(shown)}", e)][:2],
                "synonyms": [w for w in s["words"] if w != shown][:2],
                "hypernym": hypernym,
                "antonym": antonym,
            }
        )
    words.sort(key=lambda w: (-w["count"], w["word"]))
    irregular = dict(
        reversed(line.split()[:2]) for line in (folder / "noun.exc").read_text().splitlines() if "_" not in line and "-" not in line
    )
    return {"words": words, "irregular_plurals": irregular}


def read_austen(root: Path) -> dict[str, list[str]]:
    """The novels, from R's lazy-load data base: zlib records of serialised character vectors."""
    data = (root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    at, books = 0, {}
    while at < len(data):
        z = zlib.decompressobj()
        raw = z.decompress(data[at + 4 :])
        at = len(data) - len(z.unused_data)
        lines, p = [], 31
        while (p := raw.find(b"\x00\x04\x00\x09", p)) >= 0:  # flags of an ASCII or UTF-8 CHARSXP
            n = struct.unpack(">i", raw[p + 4 : p + 8])[0]
            if not 0 <= n < 500:
                p += 1
                continue
            lines.append(raw[p + 8 : p + 8 + n].decode("utf-8", "replace"))
            p += 8 + n
        paragraphs = [" ".join(x.split()) for x in "\n".join(lines).split("\n\n")]
        books[lines[0].title()] = [x.replace("_", "") for x in paragraphs if len(x) > 20]
    return books


def read_bible(root: Path) -> list[str]:
    """Chapters as running text (verse numbers removed)."""
    out = subprocess.run([root / "usr/bin/bible", "-l", "9000", "-p", root / "usr/lib", "gen1:1-rev22:21"], capture_output=True, text=True, check=True)
    chapters: list[list[str]] = []
    for line in out.stdout.splitlines():
        if re.fullmatch(r"(?:\d )?[A-Z][A-Za-z ]+ \d+", line):
            chapters.append([])
        elif m := re.match(r"\s*\d+ (.*)", line):
            chapters[-1].append(m[1].strip())
    return [" ".join(c) for c in chapters if c]


def read_devil(root: Path) -> list[list[str]]:
    """[word, definition] pairs of the short prose entries."""
    text = gzip.open(root / "usr/share/dictd/devil.dict.dz").read().decode("utf-8", "replace")
    entries = re.findall(r"^([A-Z][A-Z'-]+), (?:n|adj|v\.t|v\.i|adv)\.  (.+?)(?=\n\n|\Z)", text, re.M | re.S)
    return [[w.lower(), " ".join(d.split()).replace("_", "")] for w, d in entries if 30 < len(d) < 420]


def read_facts(root: Path) -> dict:
    """Capitals, chemical symbols and the young of animals, from the quiz of bsdgames."""
    quiz = root / "usr/share/games/bsdgames/quiz"
    plain = lambda s: bool(re.fullmatch(r"[A-Za-z .'-]+", s))  # noqa: E731
    rows = lambda name: [r.split(":") for r in (quiz / name).read_text(encoding="latin-1").splitlines() if ":" in r]  # noqa: E731
    capitals = {r[0]: r[1] for name in ("africa", "america", "asia", "europe") for r in rows(name) if plain(r[0]) and plain(r[1])}
    state = lambda s: re.sub(r"[{}]", "", s.split("|")[0])  # noqa: E731 - braces mark letters that a player may leave out
    capitals |= {state(r[0]): r[1] for r in rows("state") if len(r) > 1 and plain(r[1]) and state(r[0]) != "Georgia"}
    symbols = {r[3].lower(): r[0] for r in rows("elements") if len(r) > 3 and plain(r[3]) and plain(r[0])}
    return {"capitals": capitals, "symbols": symbols}


def read_elements(root: Path) -> list[str]:
    text = gzip.open(root / "usr/share/dictd/elements.dict.dz").read().decode("utf-8", "replace")
    return [" ".join(p.split()) for p in text.split("\n\n") if "Atomic number" in p]


def build(work: Path) -> Path:
    root = fetch(work)
    data = read_wordnet(root) | {
        "austen": read_austen(root),
        "bible": read_bible(root),
        "devil": read_devil(root),
        "elements": read_elements(root),
    }
    data |= read_facts(root)
    path = work / "sources.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data, ensure_ascii=False).encode(), 9, mtime=0))
    return path


def load(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def common_words(data: dict, n: int, longest: int = 9) -> list[str]:
    """Words for lists, spelling and so on: common, short, plain lower-case words."""
    found = [w["word"] for w in data["words"][:9000] if re.fullmatch(r"[a-z]{3,%d}" % longest, w["word"]) and w["word"] not in FUNCTION_WORDS]
    return found[:n]
