"""Train the byte-level BPE vocabulary; tokenizer.json has the structure of Qwen3's.

    python train_tokenizer.py --work WORK --out ../../models/demo
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import build_data
import chats

VOCAB = 8192
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN_ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def train(work: Path, out: Path) -> None:
    added = SPECIAL + PLAIN_ADDED
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    byte_level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(**byte_level)])
    tok.decoder = decoders.ByteLevel(**byte_level)
    tok.post_processor = processors.ByteLevel(**byte_level)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(added), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(build_data.tokenizer_corpus(work), trainer)

    spec = json.loads(tok.to_str())
    spec["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": ""}
    first = len(spec["model"]["vocab"])
    assert first + len(added) == VOCAB, first
    spec["added_tokens"] = [
        {"id": first + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": t in SPECIAL}
        for i, t in enumerate(added)
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False))
    config = {
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in spec["added_tokens"]},
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "chat_template": chats.CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 2048,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    tok = Tokenizer.from_file(str(out / "tokenizer.json"))
    for text in ("Hello, world!", "e\u0301 12345 I'LL\r\n\r\nq  leading", "<|im_start|>user\nnaïve 你好 😀<|im_end|>\n"):
        assert tok.decode(tok.encode(text).ids, skip_special_tokens=False) == tok.normalizer.normalize_str(text)
    assert tok.token_to_id("<|endoftext|>") == first and len(tok.encode("12345").ids) == 5


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--work", type=Path, required=True)
    ap.add_argument("--out", type=Path, required=True)
    args = ap.parse_args()
    train(args.work, args.out)
