"""Golden data for the tokenizer, made with Hugging Face's `tokenizers` (see requirements.txt).

    python tokenizer_golden.py train OUT                      a small byte-level BPE tokenizer.json with Qwen's structure
    python tokenizer_golden.py strings OUT                    the strings that are encoded (the same for every tokenizer)
    python tokenizer_golden.py ids TOKENIZER STRINGS OUT      their ids for any tokenizer.json with that structure
    python tokenizer_golden.py classes OUT                    the characters that \\p{L}, \\p{M}, \\p{N} and \\s match

tests/data/tokenizer holds: small/tokenizer.json (train), strings.json (strings), classes.json (classes) and, made by `ids`,
small.json, demo.json (models/demo/tokenizer.json) and qwen3.json (the released Qwen3 vocabulary, which is not part of the project).

An `ids` file has for every string the 64-bit FNV-1a hash of its ids (four bytes each, low byte first), and the ids themselves for the
first ones. "as_text" (no added tokens) and "qwen35" (split pattern of Qwen3.5) hold the hashes that differ from the plain ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import unicodedata
from pathlib import Path

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>"]
PLAIN_ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>", "<|fim_pad|>"]
NUM_STRINGS = 10_400
NUM_WITH_IDS = 1_000
NUM_DECODES = 400

# Where tokenizers and ICU 72 (Debian 12) know different versions of Unicode, and so can't agree.
# Classes: tokenizers' regular expressions know Unicode 16, ICU 72 knows 15: assigned since then.
NEWER_CLASSES = """
0897 1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D69-10D6D 10D6F-10D85 10EC2-10EC4 10EFC 11380-11389 1138B 1138E
11390-113B5 113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D3 113E1-113E2 116D0-116E3 11BC0-11BE0 11BF0-11BF9 11F5A 13460-143FA
16100-16139 16D40-16D6C 16D70-16D79 18CFF 1CCF0-1CCF9 1E5D0-1E5F1 1E5F1-1E5FA 2EBF0-2EE5D
"""
# Normal form C: tokenizers' normaliser knows Unicode 9 or so: combining marks, and the parts of compositions, that came later.
NEWER_MARKS = """
07FD 0898-089F 08CA-08D3 09FE 0C3C 0D3B-0D3C 0EBA 1715 1ABF-1ACE 1DF6-1DFA A82C 10D24-10D27 10EAB-10EAC 10EFD-10EFF 10F46-10F50
10F82-10F85 11070 1133B 1145E 11839-1183A 11930-11943 119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 16FF0-16FF1
1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF
"""


def ranges(text: str) -> list[tuple[int, int]]:
    return [(int(low, 16), int(high or low, 16)) for low, _, high in (part.partition("-") for part in text.split())]


EXCLUDED = {c for low, high in ranges(NEWER_CLASSES + NEWER_MARKS) for c in range(low, high + 1)} | set(range(0xD800, 0xE000))

WORDS = {
    "english": "the quick brown fox jumps over a lazy dog and then it isn't there when we'll look for what they've said I'd think so "
    "model token prefill decode server request answer question number there's you're Hello World How are you today please write",
    "german": "über größer Straße Mädchen schön öffnen natürlich vielleicht Übung weiß",
    "french": "où être naïve garçon c'est l'été aujourd'hui œuvre déjà Noël",
    "turkish": "ığdır İstanbul çağrı şeker gülümse",
    "vietnamese": "tiếng Việt người được không những",
    "polish": "zażółć gęślą jaźń źródło łódź",
    "russian": "привет мир быстрая лиса сегодня Москва ещё объект",
    "greek": "καλημέρα κόσμε γλώσσα Ἑλλάς ἀρχή ΐ",
    "hebrew": "שלום עולם בְּרֵאשִׁית",
    "arabic": "مرحبا بالعالم السَّلامُ عليكم ١٢٣",
    "hindi": "नमस्ते दुनिया हिन्दी क्षेत्र १२३",
    "bengali": "বাংলা ভাষা কেমন আছো",
    "tamil": "தமிழ் மொழி வணக்கம்",
    "thai": "สวัสดีชาวโลก ภาษาไทย ๑๒๓",
    "khmer": "ភាសាខ្មែរ សួស្តី",
    "georgian": "გამარჯობა მსოფლიო",
    "armenian": "բարեւ աշխարհ",
    "amharic": "ሰላም ዓለም",
    "chinese": "你好世界 今天天气很好 人工智能 模型服务器 请写一首诗 一二三",
    "japanese": "こんにちは世界 カタカナ ひらがな ﾊﾝｶｸ が か\u3099 日本語",
    "korean": "안녕하세요 세계 한국어 각 \u1100\u1161\u11a8",
    "code": "def return import if (x == 1): int main() { return 0; } for (auto& v : xs) // comment std::vector<int> #include a[i] += b->c; "
    '=> === != && || $x @y `cmd` \\n \\t 0xFF 1e-9 SELECT * FROM t WHERE id=1; <div class="a"></div> {"key": [1, 2.5, null, true]}',
}
SPACES = " \t\n\r\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
DIGITS = "0123456789٠١٩۰۹०९๐๙０９²½Ⅷ①㊿〇一𝟘𝟿🄀〡꧑"
CONTRACTIONS = [
    "'",
    "''",
    "’",
    "ʼ",
    "'s",
    "'S",
    "'ſ",
    "'t",
    "'T",
    "'re",
    "'RE",
    "'rE",
    "'ve",
    "'Ve",
    "'m",
    "'ll",
    "'lL",
    "'l",
    "'r",
    "'d",
    "'D",
    "'é",
]
EMOJI = ["😀", "👨\u200d👩\u200d👧", "🏳️\u200d🌈", "👍🏽", "🇩🇪", "🇩", "1️⃣", "☃️", "❤️\u200d🔥", "🧑🏿\u200d🚀", "🫠", "©️"]
SINGLETONS = (
    "\u212b\u2126\u212a\u0344\u0340\u0f73\u0f75\u0f81\u0958\u2adc\U0001d15e\uf900\ufa19\U0002f800\u1e9b\u01d6\u1fee\u0958\ufb1d\ufb2a"
)
SCRIPTS = [
    (0x20, 0x7E),
    (0x00, 0x9F),
    (0xA0, 0x24F),
    (0x250, 0x36F),
    (0x370, 0x52F),
    (0x590, 0x6FF),
    (0x700, 0x8FF),
    (0x900, 0xDFF),
    (0xE00, 0x109F),
    (0x10A0, 0x137F),
    (0x1100, 0x11FF),
    (0x13A0, 0x18AF),
    (0x1900, 0x1CFF),
    (0x1D00, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x2C00, 0x2FFF),
    (0x3000, 0x33FF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xABFF),
    (0xAC00, 0xD7FF),
    (0xE000, 0xFAFF),
    (0xFB00, 0xFFFF),
    (0x10000, 0x11FFF),
    (0x12000, 0x1BCFF),
    (0x1D000, 0x1E943),
    (0x1F000, 0x1FAFF),
    (0x20000, 0x2FA1F),
    (0x30000, 0x3134F),
    (0xE0000, 0xE01EF),
    (0x10FFF0, 0x10FFFF),
]


class Strings:
    """Random strings of many kinds; every kind is a method."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.words = {name: text.split() for name, text in WORDS.items()}
        self.marks = [chr(c) for c in range(0x110000) if c not in EXCLUDED and unicodedata.combining(chr(c))]
        self.added = SPECIAL + PLAIN_ADDED

    def many(self, pick, low: int, high: int) -> str:
        return "".join(pick() for _ in range(self.random.randint(low, high)))

    def character(self, low: int = 0, high: int = 0x10FFFF) -> str:
        while (c := self.random.randint(low, high)) in EXCLUDED:
            pass
        return chr(c)

    def one(self, choices) -> str:
        return self.random.choice(choices)

    def sentence(self) -> str:
        words = self.words[self.one(list(self.words))]
        return self.many(lambda: self.one(words) + self.one([" ", " ", " ", " ", "", ", ", ". ", "\n", "  ", "!\n\n", "'s ", "\t"]), 1, 9)

    def mixed(self) -> str:
        return self.many(lambda: self.one(self.words[self.one(list(self.words))]) + self.one(["", " ", "  ", "\r\n"]), 1, 6)

    def code(self) -> str:
        return self.many(
            lambda: (
                self.one(["", "  ", "    ", "\t\t"])
                + self.many(lambda: self.one(self.words["code"]) + " ", 1, 4)
                + self.one(["\n", "\r\n", ";\n\n", ""])
            ),
            1,
            3,
        )

    def script(self) -> str:
        low, high = self.one(SCRIPTS)
        return self.many(lambda: self.character(low, high) if self.random.random() < 0.85 else self.one([" ", "\n", "'", "1", "a"]), 1, 12)

    def anything(self) -> str:
        return self.many(lambda: self.character(*self.one(SCRIPTS)), 1, 10)

    def anywhere(self) -> str:
        return self.many(self.character, 1, 6)

    def ascii(self) -> str:
        return self.many(lambda: chr(self.random.randint(0, 127)) if self.random.random() < 0.3 else self.one("abcXYZ019 .,'-\n"), 1, 24)

    def spaces(self) -> str:
        return self.many(lambda: self.one(SPACES) if self.random.random() < 0.6 else self.one(" \n\r\ta.é1!中"), 1, 16)

    def newlines(self) -> str:
        return self.many(lambda: self.one(["\r\n", "\n", "\r", " ", "  ", "\t", "x", "!", "\n\n"]), 1, 12)

    def added_tokens(self) -> str:
        def near() -> str:
            token = self.one(self.added)
            cut = self.random.randint(1, len(token))
            return self.one(
                [
                    token,
                    token,
                    token[:cut],
                    token[cut:],
                    token + token,
                    " " + token + " ",
                    token.upper(),
                    token[:cut] + " " + token[cut:],
                    "<" + token,
                    token + ">",
                    token[:cut] + "\u0301" + token[cut:],
                    token + "\u0301",
                    "e" + token + "\u0301",
                    "<|",
                    "|>",
                    "\n",
                    "user\n",
                    "'s",
                ]
            )

        return self.many(near, 1, 5)

    def contractions(self) -> str:
        return self.many(lambda: self.one(["it", "I", "we", " ", "", "1", "é", "LL", "\n", "!", "ſ", "x "]) + self.one(CONTRACTIONS), 1, 6)

    def digits(self) -> str:
        return self.many(lambda: self.one(DIGITS) if self.random.random() < 0.8 else self.one(" .,a-\u0301中"), 1, 14)

    def combining(self) -> str:
        return self.many(
            lambda: (
                self.one(["e", "a", "A", "ö", "ǖ", "क", "か", "ا", "ש", " ", "1", "\u0627", "\u1100", "\u0f40"] + list(SINGLETONS))
                + self.many(
                    lambda: (
                        self.one(self.marks) if self.random.random() < 0.7 else self.one("\u0301\u0323\u0327\u0308\u3099\u094d\u0f72\u0f71")
                    ),
                    0,
                    4,
                )
            ),
            1,
            5,
        )

    def long_marks(self) -> str:
        return self.one("aé ") + self.many(lambda: self.one(self.marks + list("\u0344\u0f73\u0f75\u0f81") * 20), 30, 70)

    def jamo(self) -> str:
        return self.many(
            lambda: self.one(
                [
                    chr(self.random.randint(0x1100, 0x1112)),
                    chr(self.random.randint(0x1161, 0x1175)),
                    chr(self.random.randint(0x11A7, 0x11C2)),
                    chr(self.random.randint(0xAC00, 0xD7A3)),
                    " ",
                    chr(self.random.randint(0x3131, 0x318E)),
                ]
            ),
            1,
            14,
        )

    def emoji(self) -> str:
        return self.many(lambda: self.one(EMOJI + [" ", "a", "\u200d", "\ufe0f", "!"]), 1, 8)

    def controls(self) -> str:
        return self.many(
            lambda: chr(self.random.choice([0, 1, 7, 8, 9, 10, 11, 12, 13, 27, 28, 31, 127, 128, 133, 159, 173, 65, 32])), 1, 12
        )

    def runs(self) -> str:
        return self.many(
            lambda: (
                self.one([" ", "a", "=", "-", "\n", "1", "中", "!", "é", "\t", "ab", "\r\n", "\u3000", "the "]) * self.random.randint(2, 70)
            ),
            1,
            3,
        )

    def long_text(self) -> str:
        return self.many(self.one([self.sentence, self.code, self.mixed]), 20, 60)

    def make(self, count: int) -> list[str]:
        kinds = [
            self.sentence,
            self.sentence,
            self.mixed,
            self.code,
            self.script,
            self.script,
            self.anything,
            self.anywhere,
            self.ascii,
            self.spaces,
            self.newlines,
            self.added_tokens,
            self.contractions,
            self.digits,
            self.combining,
            self.combining,
            self.long_marks,
            self.jamo,
            self.emoji,
            self.controls,
            self.runs,
        ]
        strings = [
            "",
            " ",
            "\n",
            "a",
            "'",
            "<",
            "\u0301",
            "\ufeff",
            "\ufffd",
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ]
        while len(strings) < count:
            text = kinds[len(strings) % len(kinds)]() if len(strings) % 113 else self.long_text()
            assert not EXCLUDED & set(map(ord, text))
            strings.append(text)
        return strings


def byte_level_spec(model_spec: dict, added: list[str]) -> dict:
    first = len(model_spec["model"]["vocab"])
    model_spec["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    model_spec["added_tokens"] = [{"id": first + i, "content": t} | flags | {"special": t in SPECIAL} for i, t in enumerate(added)]
    return model_spec


def train(out: Path) -> None:
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    byte_level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN3), "isolated"), pre_tokenizers.ByteLevel(**byte_level)])
    tok.decoder = decoders.ByteLevel(**byte_level)
    tok.post_processor = processors.ByteLevel(**byte_level)
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    strings = Strings(1)
    tok.train_from_iterator([strings.sentence() for _ in range(20_000)] + strings.make(4_000), trainer)
    spec = byte_level_spec(json.loads(tok.to_str()), SPECIAL + PLAIN_ADDED)
    out.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")


def fnv(ids: list[int]) -> str:
    value = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def variant(spec: dict, **changes) -> Tokenizer:
    spec = json.loads(json.dumps(spec))
    if "pattern" in changes:
        spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = changes["pattern"]
    if "added_tokens" in changes:
        spec["added_tokens"] = changes["added_tokens"]
    return Tokenizer.from_str(json.dumps(spec))


def ids(tokenizer: Path, strings_path: Path, out: Path) -> None:
    spec = json.loads(tokenizer.read_text(encoding="utf-8"))
    texts = json.loads(strings_path.read_text(encoding="utf-8"))["strings"]
    plain = Tokenizer.from_file(str(tokenizer))
    pattern = spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    assert pattern == QWEN3, pattern
    encodings = [e.ids for e in plain.encode_batch(texts)]
    hashes = [fnv(e) for e in encodings]
    others = {"as_text": variant(spec, added_tokens=[]), "qwen35": variant(spec, pattern=QWEN35)}
    differing = {}
    for name, other in others.items():
        pairs = ((i, fnv(e.ids)) for i, e in enumerate(other.encode_batch(texts)))
        differing[name] = {str(i): h for i, h in pairs if h != hashes[i]}
        assert differing[name], name
    rng = random.Random(3)
    size = plain.get_vocab_size()
    added = [t["id"] for t in spec["added_tokens"]]
    decodes = []
    for _ in range(NUM_DECODES):
        pick = [lambda: rng.randrange(size), lambda: rng.randrange(256), lambda: rng.choice(added)]
        some = [rng.choices(pick, [4, 4, 1])[0]() for _ in range(rng.randint(1, 12))]
        decodes.append([some, plain.decode(some, skip_special_tokens=False), plain.decode(some, skip_special_tokens=True)])
    golden = {
        "made_with": f"tokenizers {tokenizers.__version__}",
        "tokenizer_sha256": hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
        "strings_sha256": hashlib.sha256(strings_path.read_bytes()).hexdigest(),
        "size": size,
        "ids": encodings[:NUM_WITH_IDS],
        "hashes": hashes,
    } | differing
    golden["decodes"] = decodes
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def classes(out: Path) -> None:
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text = "".join(map(chr, points))
    found = {}
    for name, regex in (("L", r"\p{L}"), ("M", r"\p{M}"), ("N", r"\p{N}"), ("S", r"\s")):
        for _, (begin, end) in pre_tokenizers.Split(Regex(f"[^{regex}]"), "removed").pre_tokenize_str(text):
            for i in range(begin, end):
                assert found.setdefault(points[i], name) == name
    runs: list[list] = []
    for c in sorted(found):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == found[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, found[c]])
    golden = {"made_with": f"tokenizers {tokenizers.__version__}", "newer_than_icu": ranges(NEWER_CLASSES), "classes": runs}
    out.write_text(json.dumps(golden, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, arguments in (("train", ["out"]), ("strings", ["out"]), ("ids", ["tokenizer", "strings", "out"]), ("classes", ["out"])):
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(argument, type=Path)
    args = parser.parse_args()
    if args.command == "train":
        train(args.out)
    elif args.command == "strings":
        args.out.write_text(
            json.dumps({"strings": Strings(20250601).make(NUM_STRINGS)}, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
        )
    elif args.command == "ids":
        ids(args.tokenizer, args.strings, args.out)
    else:
        classes(args.out)
