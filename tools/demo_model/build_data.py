"""Build the data: sources, tokenised training shards, evaluation files.  Everything follows from the seed.

    python build_data.py sources --work WORK                     # downloads Debian packages
    python build_data.py shards  --work WORK --tokenizer ../../models/demo/tokenizer.json [--shards 100]
    python build_data.py eval    --work WORK --out ../../models/demo/eval
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import sources
import tasks
from chats import CHAT_TEMPLATE, Chatter, render, render_tools

ROW = 2048  # tokens of a training row
ROWS = 1024  # rows of a shard
N_WORDS = 1500  # words used by the list and letter tasks
BOOK_COPIES = 3  # how often the books occur in one epoch
END = "<|endoftext|>"


def books(data: dict, held_out: bool) -> list[list[str]]:
    """Blocks of consecutive paragraphs, about 8,500 characters each; one block in thirty is held out."""
    texts = [p for book in data["austen"].values() for p in book + [""]] + [p for p in data["bible"]]
    blocks: list[list[str]] = [[]]
    for p in texts:
        if not p or sum(map(len, blocks[-1])) + len(p) > 8500:
            blocks.append([])
        if p:
            blocks[-1].append(p)
    side = lambda b: int(hashlib.sha256(b[0].encode()).hexdigest(), 16) % 30 == 0  # noqa: E731
    return [b for b in blocks if b and side(b) == held_out]


def dictionary_line(w: dict) -> str:
    text = f"{w['word']} ({w['pos']}): {w['gloss']}"
    return text + (f". Example: {w['examples'][0]}" if w["examples"] else "")


class Corpus:
    def __init__(self, work: Path) -> None:
        data = sources.load(work / "sources.json.gz")
        self.data = data
        self.train_books, self.test_books = books(data, False), books(data, True)
        # Continuation chats must not quote held-out blocks.
        data["austen"] = {"": [p for b in self.train_books for p in b if len(p) < 600]}
        self.lex = tasks.make_lexicon(data, sources.common_words(data, N_WORDS))
        self.chatter = Chatter(data, self.lex)

    def documents(self) -> list[str]:
        """The plain texts of one epoch."""
        r = random.Random("documents")
        docs = ["\n\n".join(b) for b in self.train_books] * BOOK_COPIES
        words = list(self.data["words"])
        r.shuffle(words)
        docs += ["\n".join(dictionary_line(w) for w in words[i : i + 16]) for i in range(0, len(words), 16)]
        docs += [f"{w}: {d}" for w, d in self.data["devil"]] * 2 + self.data["elements"] * 2
        r.shuffle(docs)
        return docs

    def chat_text(self, r: random.Random) -> str:
        if r.random() < 0.025:
            return render_tools(*self.chatter.tool_chat(r)) + END
        return render(self.chatter.chat(r)) + END


CORPUS: Corpus | None = None


def start_worker(work: Path) -> None:
    global CORPUS
    CORPUS = Corpus(work)


def tokenizer_corpus(work: Path) -> Iterator[str]:
    """Books, dictionary and chats in about equal parts, without the special tokens."""
    corpus = Corpus(work)
    r = random.Random("tokenizer")
    yield from ("\n\n".join(b) for b in corpus.train_books)
    yield from (dictionary_line(w) for w in corpus.data["words"][:60000])
    for _ in range(12000):
        for m in corpus.chatter.chat(r):
            yield m["content"]
    for _ in range(1500):
        for part in render_tools(*corpus.chatter.tool_chat(r)).split("<|im_end|>"):
            yield part.split("<|im_start|>")[-1]


def write_shard(job: tuple[int, int, Path, Path]) -> int:
    """Shard `index` of `total`: rows of whole documents; a text longer than the row goes on in the next one."""
    import numpy as np
    from tokenizers import Tokenizer

    index, total, work, tokenizer = job
    assert CORPUS
    tok = Tokenizer.from_file(str(tokenizer))
    r = random.Random(f"shard {index}")
    docs = [d + END for d in CORPUS.documents()[index::total]]
    rows = np.zeros((ROWS, ROW), dtype=np.uint16)
    share = len(docs) / (ROWS * 9.0)  # texts are spread over the shard: a row has room for some nine chats more
    row: list[int] = []
    n = 0
    while n < ROWS:
        texts, is_text = [], []
        for _ in range(512):
            use = bool(docs) and r.random() < share
            texts.append(docs.pop() if use else CORPUS.chat_text(r))
            is_text.append(use)
        for enc, text in zip(tok.encode_batch(texts, add_special_tokens=False), is_text):
            row += enc.ids
            while len(row) >= ROW and n < ROWS:
                rows[n], row = row[:ROW], row[ROW:] if text else []
                n += 1
    np.save(work / "shards" / f"{index:03}.npy", rows)
    return len(docs)


def write_shards(work: Path, tokenizer: Path, total: int, first: int, procs: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    (work / "shards").mkdir(exist_ok=True)
    jobs = [(i, total, work, tokenizer) for i in range(first)]
    with ProcessPoolExecutor(procs, initializer=start_worker, initargs=(work,)) as pool:
        left = sum(pool.map(write_shard, jobs))
    print(f"{len(jobs)} shards of {ROWS * ROW} tokens; {left} texts did not fit")


def write_eval(work: Path, out: Path, per_task: int = 200) -> None:
    corpus = Corpus(work)
    out.mkdir(parents=True, exist_ok=True)
    line = lambda o: json.dumps(o, ensure_ascii=False, separators=(",", ":")) + "\n"  # noqa: E731

    with (out / "tasks.jsonl").open("w") as f:
        for task in [*tasks.TASKS, "define"]:
            r = random.Random(f"eval {task}")
            seen: set[str] = set()
            for _ in range(100_000):
                if len(seen) == per_task:
                    break
                if task == "define":
                    prompt, reply = corpus.chatter.define(r, corpus.chatter.common)
                    if not tasks.is_held_out(task, prompt):
                        continue
                else:
                    prompt, reply = tasks.sample(r, corpus.lex, task, True)
                if prompt in seen:
                    continue
                seen.add(prompt)
                steps = {"extract": "last_line"} if "\n" in reply else {}
                record = {"task": task, "messages": [{"role": "user", "content": prompt}], "answer": reply.split("\n")[-1], "max_tokens": 64} | steps
                f.write(line(record))
            assert len(seen) == per_task, task

    r = random.Random("eval chats")
    held_out = [corpus.chatter.chat(r, held_out=True) for _ in range(120)]
    (out / "chats.jsonl").write_text("".join(line({"messages": m}) for m in held_out))
    blocks = corpus.test_books
    random.Random("eval text").shuffle(blocks)
    (out / "text.jsonl").write_text("".join(line({"text": "\n\n".join(b)[:4000]}) for b in blocks[:30]))


def check_template(work: Path) -> None:
    """render() and render_tools() are what the template gives in jinja2."""
    import jinja2

    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    template = env.from_string(CHAT_TEMPLATE)
    corpus, r = Corpus(work), random.Random(1)
    for _ in range(200):
        m = corpus.chatter.chat(r)
        assert template.render(messages=m) == render(m)
        assert template.render(messages=m[:-1], add_generation_prompt=True) == render(m[:-1], generate=True)
        m, t = corpus.chatter.tool_chat(r)
        assert template.render(messages=m, tools=t) == render_tools(m, t)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("stage", choices=["sources", "shards", "eval", "check"])
    ap.add_argument("--work", type=Path, required=True)
    ap.add_argument("--tokenizer", type=Path)
    ap.add_argument("--out", type=Path)
    ap.add_argument("--shards", type=int, default=100, help="shards of an epoch")
    ap.add_argument("--first", type=int, help="write only so many of them")
    ap.add_argument("--procs", type=int, default=os.cpu_count() or 1)
    a = ap.parse_args()
    if a.stage == "sources":
        sources.build(a.work)
    elif a.stage == "shards":
        write_shards(a.work, a.tokenizer, a.shards, a.first or a.shards, a.procs)
    elif a.stage == "eval":
        write_eval(a.work, a.out)
    else:
        check_template(a.work)
