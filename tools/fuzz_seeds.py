#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets, in the form that each fuzz/fuzz_NAME.cpp describes: fuzz_seeds.py OUT_DIR"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
OUT = pathlib.Path(sys.argv[1])
BYTES_MAX = 300_000


def write(target: str, seeds: list[bytes]) -> None:
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(seeds):
        (folder / f"seed_{i:04}").write_bytes(seed)


def files(pattern: str, *folders: pathlib.Path) -> list[bytes]:
    found = sorted(path for folder in folders for path in folder.rglob(pattern))
    return [path.read_bytes() for path in found if path.stat().st_size <= BYTES_MAX]


def dump(value) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def safetensors_headers() -> list[bytes]:
    """The headers of larger files too: all that is parsed."""
    found = files("*.safetensors", DATA)
    for path in sorted(DATA.rglob("*.safetensors")):
        with path.open("rb") as file:
            length = file.read(8)
            if int.from_bytes(length, "little") <= BYTES_MAX:
                found.append(length + file.read(int.from_bytes(length, "little")))
    return found


chats = json.loads((DATA / "template" / "chats.json").read_text())[:200]
snippets = json.loads((DATA / "template" / "snippets.json").read_text())
chat_template = json.loads((ROOT / "models" / "demo" / "tokenizer_config.json").read_text())["chat_template"].encode()

write("safetensors", safetensors_headers())
write("config", files("*config.json", DATA, ROOT / "models"))
# A mode byte: 0 and a file, 1 and a text, 2 and both.
small = (DATA / "tokenizer" / "small" / "tokenizer.json").read_bytes()
texts = [message["content"].encode() for chat in chats for message in chat["messages"] if isinstance(message.get("content"), str)]
write("tokenizer", [b"\0" + small, b"\2" + small + b"\0" + texts[0]] + [b"\1" + text for text in texts[:200]])
# A template, a zero byte, and its variables or messages.
write("template", [case["template"].encode() + b"\0" + dump(snippets["context"]) for case in snippets["cases"]]
      + [chat_template + b"\0" + dump(chat["messages"]) for chat in chats[:50]])
bodies = [{"model": "m", "messages": chat["messages"], **({"tools": chat["tools"]} if chat.get("tools") else {})} for chat in chats[:100]]
options = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "stop": ["a", "b"], "seed": 1, "n": 2, "stream": True,
           "logit_bias": {"3": 1.5}, "logprobs": True, "top_logprobs": 3, "stream_options": {"include_usage": True}}
write("http_body", [dump(body) for body in bodies] + [dump({**bodies[0], **options}), dump({"model": "m", "prompt": "Hi", **options, "logprobs": 2}),
                                                     dump({"model": "m", "prompt": [[1, 2], [3]], "echo": True}), dump({"model": "m", "tokens": [1, 2]})])
