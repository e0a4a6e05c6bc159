"""Golden data for the chat templates, made with Jinja2 3.1.6, set up as Hugging Face's transformers do.

    python template_golden.py snippets OUT                 small templates with their output, or that they fail
    python template_golden.py chats TEMPLATE_FOLDER OUT    generated conversations, and what the released templates make of them

tests/data/template holds snippets.json and chats.json. The released templates (qwen3.jinja, qwen3-coder.jinja, qwen3.5.jinja) are not part
of the project: chats.json has the conversations and the 64-bit FNV-1a hash of each rendering (UTF-8), or "error".
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from template_snippets import CONTEXT, snippets

TEMPLATES = ("qwen3", "qwen3-coder", "qwen3.5")
NUM_CHATS = 1300
NUM_WITH_TEXT = 12


class TemplateRefused(Exception):
    """raise_exception was called."""


def environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message):
        raise TemplateRefused(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def render(env, source: str, context: dict) -> dict:
    """{"output": text}, or {"error": the message of raise_exception, or ""}."""
    try:
        return {"output": env.from_string(source).render(**copy.deepcopy(context))}
    except TemplateRefused as error:
        return {"error": str(error)}
    except Exception:  # noqa: BLE001 - any way to fail counts as one
        return {"error": ""}


def make_snippets(out: Path) -> None:
    env = environment()
    cases = [{"template": source, **render(env, source, CONTEXT)} for source in snippets()]
    cases = [c for c in cases if " at 0x" not in c.get("output", "")]  # addresses
    lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    out.write_text('{"context": ' + json.dumps(CONTEXT, ensure_ascii=False) + ',\n"cases": [\n' + lines + "\n]}\n")
    print(len(cases), "snippets,", sum("error" in c for c in cases), "of them fail")


WORDS = (
    "hello weather Paris 42 3.14 naïve façade Straße 你好 世界 こんにちは 🎉 👩‍👩‍👧 Привет مرحبا e\u0301 <think> </think> <tool_response> </tool_response>"
    " <|im_end|> <|im_start|> {\"a\":1} \\n \" ' & < > `code` the a of and is to in that it was for on are with as at be this have from"
).split(" ")
SPACES = [" ", " ", " ", " ", "\n", "\n\n", "\t", "  ", "\u00a0", "\u3000", "\r\n"]


class Chats:
    """Conversations of all shapes, by one seed."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)

    def text(self, longest: int = 12) -> str:
        r = self.r
        out = r.choice(SPACES) if r.random() < 0.15 else ""
        for _ in range(r.randint(0 if r.random() < 0.1 else 1, longest)):
            out += r.choice(WORDS) + r.choice(SPACES)
        return out if r.random() < 0.15 else out.rstrip(" ")

    def value(self, level: int = 0):
        r = self.r
        kind = r.randint(0, 8 if level < 3 else 6)
        if kind == 7:
            return [self.value(level + 1) for _ in range(r.randint(0, 3))]
        if kind == 8:
            return {self.name(): self.value(level + 1) for _ in range(r.randint(0, 3))}
        scalars = [None, True, False, r.randint(-(10**12), 10**12), round(r.uniform(-1e3, 1e3), 3), r.choice([1e16, 1e-7, 0.0, -0.5, 1e22, 5e-324, 100.0]), self.text(4)]
        return scalars[kind]

    def name(self) -> str:
        return self.r.choice(["get_weather", "search", "city", "unit", "query", "日期", "items", "x-y", "type", "n", "values", "it's", "name"])

    def arguments(self):
        arguments = {self.name(): self.value() for _ in range(self.r.randint(0, 4))}
        return json.dumps(arguments, ensure_ascii=self.r.random() < 0.5) if self.r.random() < 0.3 else arguments

    def call(self) -> dict:
        r = self.r
        function = {"name": self.name()}
        if r.random() < 0.97:
            function["arguments"] = self.arguments()
        if r.random() < 0.2:
            return function
        return {"id": f"call_{r.randint(0, 99)}", "type": "function", "function": function}

    def parameter(self, level: int = 0) -> dict:
        r = self.r
        out = {"type": r.choice(["string", "integer", "number", "boolean", "array", "object", ["string", "null"]])}
        if r.random() < 0.7:
            out["description"] = self.text(5)
        if r.random() < 0.3:
            out["enum"] = [self.value(3) for _ in range(r.randint(1, 3))]
        if r.random() < 0.3 and level < 2:
            out["items" if r.random() < 0.5 else "properties"] = {"x": self.parameter(level + 1)}
        if r.random() < 0.2:
            out["default"] = self.value(2)
        return out

    def tool(self) -> dict:
        r = self.r
        function = {"name": self.name()}
        if r.random() < 0.9:
            function["description"] = self.text(8)
        parameters = {"type": "object", "properties": {self.name(): self.parameter() for _ in range(r.randint(0, 4))}}
        if r.random() < 0.7:
            parameters["required"] = list(parameters["properties"])[:2]
        if r.random() < 0.2:
            parameters["additionalProperties"] = False
        function["parameters"] = parameters
        if r.random() < 0.2:
            function["strict"] = True
        return function if r.random() < 0.1 else {"type": "function", "function": function}

    def assistant(self) -> dict:
        r = self.r
        message = {"role": "assistant"}
        kind = r.random()
        if kind < 0.8:
            content = self.text()
            if r.random() < 0.3:
                content = r.choice(["", "<think>"]) + "\n" + self.text(6) + r.choice(["</think>", "\n</think>\n\n"]) + content
            message["content"] = content
        elif kind < 0.9:
            message["content"] = None
        if r.random() < 0.3:
            message["reasoning_content"] = r.choice([self.text(6), "", None, "\n\nwhy\n\n"])
        if r.random() < 0.35:
            message["tool_calls"] = [self.call() for _ in range(r.choice([0, 1, 1, 1, 2, 3]))]
        return message

    def chat(self) -> dict:
        r = self.r
        messages = []
        if r.random() < 0.5:
            messages.append({"role": "system", "content": self.text()})
        for _ in range(r.choice([0, 1, 1, 2, 3, 4])):
            user = self.text()
            if r.random() < 0.1:
                user = "<tool_response>" + user + "</tool_response>"
            messages.append({"role": "user", "content": user})
            if r.random() < 0.8:
                messages.append(self.assistant())
                for _ in range(r.choice([0, 0, 1, 2])):
                    messages.append({"role": "tool", "content": r.choice([self.text(5), json.dumps(self.value())])})
                if messages[-1]["role"] == "tool" and r.random() < 0.7:
                    messages.append(self.assistant())
        if r.random() < 0.05:
            messages.append({"role": r.choice(["system", "developer", "narrator"]), "content": self.text()})
        if r.random() < 0.7 and messages:
            messages.append({"role": "user", "content": self.text()})
        if r.random() < 0.03:
            messages.append({"role": "user"})
        chat = {"messages": messages, "add_generation_prompt": r.random() < 0.7}
        if r.random() < 0.4:
            chat["tools"] = [self.tool() for _ in range(r.randint(1, 3))]
        if r.random() < 0.4:
            chat["kwargs"] = {"enable_thinking": r.choice([True, False, False, None])}
        return chat


def prepared(messages: list) -> list:
    """What ChatTemplate does before rendering: content is a string, arguments are a mapping."""
    out = copy.deepcopy(messages)
    for message in out:
        if message.get("content") is None:
            message["content"] = ""
        for call in message.get("tool_calls") or []:
            function = call.get("function", call)
            if isinstance(function.get("arguments"), str):
                function["arguments"] = json.loads(function["arguments"])
    return out


def fnv(text: str) -> str:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def make_chats(folder: Path, out: Path) -> None:
    env = environment()
    templates = {name: env.from_string((folder / f"{name}.jinja").read_text()) for name in TEMPLATES}
    chats = Chats(7)
    lines = []
    failures = dict.fromkeys(TEMPLATES, 0)
    for i in range(NUM_CHATS):
        chat = chats.chat()
        variables = {"tools": chat.get("tools"), "documents": None, "add_generation_prompt": chat["add_generation_prompt"], **chat.get("kwargs", {})}
        for name in TEMPLATES:
            results = []
            for messages in (chat["messages"], prepared(chat["messages"])):  # as they are, and as ChatTemplate gives them
                try:
                    text = templates[name].render(messages=copy.deepcopy(messages), **copy.deepcopy(variables))
                    results.append(text if i < NUM_WITH_TEXT and messages is not chat["messages"] else fnv(text))
                except Exception:  # noqa: BLE001
                    results.append("error")
            failures[name] += results[1] == "error"
            chat[name] = results
        lines.append(json.dumps(chat, ensure_ascii=False, separators=(",", ":")))
    out.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(len(lines), "chats,", out.stat().st_size, "bytes; refused:", failures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("snippets").add_argument("out", type=Path)
    command = commands.add_parser("chats")
    command.add_argument("templates", type=Path)
    command.add_argument("out", type=Path)
    args = parser.parse_args()
    print("jinja2", jinja2.__version__)
    if args.command == "snippets":
        make_snippets(args.out)
    else:
        make_chats(args.templates, args.out)


if __name__ == "__main__":
    main()
