"""Measure an exported folder with a plain fp32 forward pass of its own (nothing is shared with model.py).

    python evaluate.py --model ../../models/demo [--transformers] [--device cuda]

Writes eval/reference.json and eval/logits.safetensors.  The rules of the figures are in eval/README.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import jinja2
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

MAX_TOKENS = 1024  # records of text.jsonl and chats.jsonl are cut here


class Reference:
    def __init__(self, folder: Path, device: str) -> None:
        self.c = json.loads((folder / "config.json").read_text())
        self.w = {k: v.float().to(device) for k, v in load_file(folder / "model.safetensors").items()}
        self.head = self.w["model.embed_tokens.weight"] if self.c["tie_word_embeddings"] else self.w["lm_head.weight"]
        self.device = device
        self.routed: Counter[tuple[str, int]] = Counter()

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def rope(self, x: Tensor) -> Tensor:  # [B,T,H,D]
        d, t = x.shape[-1], x.shape[1]
        f = self.c["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        angle = torch.outer(torch.arange(t, dtype=torch.float64), f)
        cos, sin = (g.float().to(self.device)[:, None, :] for g in (angle.cos(), angle.sin()))
        a, b = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(self, h: Tensor, p: str) -> Tensor:
        b, t, _ = h.shape
        q, k, v = (F.linear(h, self.w[f"{p}.{n}_proj.weight"]).view(b, t, -1, self.c["head_dim"]) for n in "qkv")
        q, k = self.rope(self.norm(q, p + ".q_norm")), self.rope(self.norm(k, p + ".k_norm"))
        k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], 2) for x in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.c["head_dim"])
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=self.device).triu(1), -torch.inf)
        o = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return F.linear(o.reshape(b, t, -1), self.w[p + ".o_proj.weight"])

    def moe(self, h: Tensor, p: str) -> Tensor:
        x = h.reshape(-1, h.shape[-1])
        top, chosen = F.linear(x, self.w[p + ".gate.weight"]).softmax(-1).topk(self.c["num_experts_per_tok"], -1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for e in range(self.c["num_experts"]):
            rows, slots = (chosen == e).nonzero(as_tuple=True)
            self.routed[p, e] += len(rows)
            g, u, d = (self.w[f"{p}.experts.{e}.{n}_proj.weight"] for n in ("gate", "up", "down"))
            y.index_add_(0, rows, F.linear(F.silu(F.linear(x[rows], g)) * F.linear(x[rows], u), d) * top[rows, slots, None])
        return y.view_as(h)

    def layer(self, x: Tensor, p: str) -> Tensor:
        x = x + self.attention(self.norm(x, p + ".input_layernorm"), p + ".self_attn")
        return x + self.moe(self.norm(x, p + ".post_attention_layernorm"), p + ".mlp")

    @torch.no_grad()
    def hidden(self, ids: Tensor) -> Tensor:
        """[B,T] -> final hidden states after the last norm."""
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(x, f"model.layers.{i}")
        return self.norm(x, "model.norm")

    @torch.no_grad()
    def draft(self, ids: Tensor, hidden: Tensor) -> Tensor:
        """MTP hidden states of the pairs (token p+1, hidden p), p = 0..T-2."""
        e = self.norm(self.w["model.embed_tokens.weight"][ids[:, 1:]], "mtp.pre_fc_norm_embedding")
        x = F.linear(torch.cat((e, self.norm(hidden[:, :-1], "mtp.pre_fc_norm_hidden")), -1), self.w["mtp.fc.weight"])
        return self.norm(self.layer(x, "mtp.layers.0"), "mtp.norm")

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.head)


class Front:
    """Tokenizer and chat template of the folder."""

    def __init__(self, folder: Path) -> None:
        self.tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
        self.template = env.from_string(json.loads((folder / "tokenizer_config.json").read_text())["chat_template"])
        self.eos = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]

    def encode(self, text: str) -> list[int]:
        return self.tok.encode(text, add_special_tokens=False).ids

    def chat(self, messages: list[dict], generate: bool = False) -> list[int]:
        return self.encode(self.template.render(messages=messages, add_generation_prompt=generate))

    def answer_mask(self, ids: list[int]) -> list[bool]:
        """Tokens of assistant turns: those after `<|im_start|>assistant\\n` up to and with the next `<|im_end|>`."""
        opening, close = self.encode("<|im_start|>assistant\n"), self.encode("<|im_end|>")[0]
        mask, inside = [False] * len(ids), False
        for i, t in enumerate(ids):
            mask[i] = inside
            if t == close:
                inside = False
            if ids[i - len(opening) + 1 : i + 1] == opening:
                inside = True
        return mask


def generate(model: Reference, front: Front, prompts: list[list[int]], limits: list[int], batch: int) -> list[str]:
    """Greedy, without a cache: each step runs the whole sequences, padded on the right."""
    out: list[str] = [""] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for at in range(0, len(order), batch):
        running = order[at : at + batch]
        seqs = {i: list(prompts[i]) for i in running}
        while running:
            longest = max(len(seqs[i]) for i in running)
            ids = torch.tensor([seqs[i] + [0] * (longest - len(seqs[i])) for i in running], device=model.device)
            last = torch.tensor([len(seqs[i]) - 1 for i in running], device=model.device)
            best = model.logits(model.hidden(ids)[torch.arange(len(running), device=model.device), last]).argmax(-1).tolist()
            still = []
            for i, t in zip(running, best):
                if t not in front.eos:
                    seqs[i].append(t)
                    if len(seqs[i]) - len(prompts[i]) < limits[i]:
                        still.append(i)
            running = still
        for i, seq in seqs.items():
            out[i] = front.tok.decode(seq[len(prompts[i]) :], skip_special_tokens=True)
    return out


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_tasks(model: Reference, front: Front, records: list[dict], batch: int) -> tuple[dict, list[dict]]:
    replies = generate(model, front, [front.chat(r["messages"], True) for r in records], [r["max_tokens"] for r in records], batch)
    right: dict[str, list[bool]] = defaultdict(list)
    wrong = []
    for r, reply in zip(records, replies):
        got = reply.strip()
        if r.get("extract") == "last_line":
            got = got.split("\n")[-1].strip()
        right[r["task"]].append(got == r["answer"])
        if got != r["answer"]:
            wrong.append({"task": r["task"], "prompt": r["messages"][-1]["content"], "answer": r["answer"], "got": reply.strip()})
    return {t: {"n": len(v), "accuracy": round(sum(v) / len(v), 4)} for t, v in right.items()}, wrong


def figures(nll: float, tokens: int) -> dict:
    return {"tokens": tokens, "nll": round(nll, 4), "ppl": round(math.exp(nll / tokens), 4)}


def run_text(model: Reference, rows: list[list[int]]) -> dict:
    nll, n = 0.0, 0
    for ids in rows:
        t = torch.tensor([ids], device=model.device)
        nll += F.cross_entropy(model.logits(model.hidden(t))[0, :-1].double(), t[0, 1:], reduction="sum").item()
        n += len(ids) - 1
    return figures(nll, n)


def run_chats(model: Reference, front: Front, rows: list[list[int]]) -> tuple[dict, dict, dict]:
    nll = {"all": 0.0, "answers": 0.0}
    count = {"all": 0, "answers": 0}
    hits = {"all": 0, "answers": 0}
    pairs = {"all": 0, "answers": 0}
    for ids in rows:
        t = torch.tensor([ids], device=model.device)
        hidden = model.hidden(t)
        logits = model.logits(hidden)[0]
        each = F.cross_entropy(logits[:-1].double(), t[0, 1:], reduction="none")
        hit = model.logits(model.draft(t, hidden))[0, :-1].argmax(-1) == logits[1:-1].argmax(-1)  # drafts of token p+2
        answer = torch.tensor(front.answer_mask(ids), device=model.device)
        for kind, keep in (("all", torch.ones_like(answer)), ("answers", answer)):
            nll[kind] += each[keep[1:]].sum().item()
            count[kind] += int(keep[1:].sum())
            hits[kind] += int(hit[keep[2:]].sum())
            pairs[kind] += int(keep[2:].sum())
    rate = lambda k: round(hits[k] / pairs[k], 4)  # noqa: E731
    mtp = {"acceptance": rate("answers"), "n": pairs["answers"], "acceptance_all_tokens": rate("all"), "n_all_tokens": pairs["all"]}
    return figures(nll["all"], count["all"]), figures(nll["answers"], count["answers"]), mtp


def compare_transformers(model: Reference, folder: Path, rows: list[list[int]]) -> float:
    from transformers import AutoTokenizer, Qwen3MoeForCausalLM

    other = Qwen3MoeForCausalLM.from_pretrained(folder, dtype=torch.float32).to(model.device).eval()
    worst = 0.0
    for ids in rows:
        t = torch.tensor([ids], device=model.device)
        with torch.no_grad():
            worst = max(worst, (other(t).logits - model.logits(model.hidden(t))).abs().max().item())
    tok = AutoTokenizer.from_pretrained(folder)
    front = Front(folder)
    m = [{"role": "user", "content": "What is 3 + 4?"}, {"role": "assistant", "content": "3 + 4 = 7"}, {"role": "user", "content": "Naïve?  I'LL\n\n try"}]
    ids = tok.apply_chat_template(m, add_generation_prompt=True, tokenize=False)
    assert tok(ids)["input_ids"] == front.chat(m, True), "tokenizers disagree"
    return worst


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", type=Path, required=True)
    ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--limit", type=int, help="only so many records of each task (nothing is written)")
    ap.add_argument("--transformers", action="store_true", help="compare the trunk with transformers")
    ap.add_argument("--wrong", type=Path, help="file for the wrong answers")
    a = ap.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model, front = Reference(a.model, a.device), Front(a.model)
    folder = a.model / "eval"
    chats = [front.chat(r["messages"])[:MAX_TOKENS] for r in read(folder / "chats.jsonl")]
    texts = [front.encode(r["text"])[:MAX_TOKENS] for r in read(folder / "text.jsonl")]
    records = read(folder / "tasks.jsonl")
    if a.limit:
        kept: Counter[str] = Counter()
        records = [r for r in records if (kept.update([r["task"]]) or kept[r["task"]] <= a.limit)]
        chats, texts = chats[:10], texts[:4]

    result: dict = {}
    text = run_text(model, texts)
    all_tokens, answers, mtp = run_chats(model, front, chats)
    result["perplexity"] = {"text": text, "chats": all_tokens, "chats_answers": answers}
    result["mtp"] = mtp
    total: Counter[str] = Counter()
    for (p, _), n in model.routed.items():
        total[p] += n
    result["expert_load"] = {
        "least": round(min(model.routed[k] / total[k[0]] for k in model.routed) * model.c["num_experts"], 3),
        "most": round(max(model.routed[k] / total[k[0]] for k in model.routed) * model.c["num_experts"], 3),
    }
    if a.transformers:
        result["transformers_max_abs_logit_difference"] = compare_transformers(model, a.model, [*chats[:6], *texts[:4]])
    result["tasks"], wrong = run_tasks(model, front, records, a.batch)
    samples = [
        ["Hello!"], ["Who are you?"], ["What does river mean?"], ["Tell me a story about a fox."], ["What is 4821 + 377?", "Thanks"], ["My name is Nina.", "Sort 31, 4, 270, 9", "What is my name?"],
        ["How many s's are in the word business?"], ["What day is 10 days after Tuesday?", "What is the capital of Norway?"], ["What is the opposite of brave?", "Convert 12 hours to minutes."],
    ]  # fmt: skip
    shown = []
    for asks in samples:
        messages: list[dict] = []
        for ask in asks:
            messages.append({"role": "user", "content": ask})
            messages.append({"role": "assistant", "content": generate(model, front, [front.chat(messages, True)], [160], 1)[0]})
        shown.append(messages)
    print(json.dumps(result, indent=1))
    if a.wrong:
        a.wrong.write_text("".join(json.dumps(w) + "\n" for w in wrong))
    for m in shown:
        print(" | ".join(x["content"] for x in m))
    if a.limit:
        return
    (folder / "reference.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "samples.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n")
    long = [c for c in chats if len(c) >= 48][:1] + [t for t in texts if len(t) >= 48][:1]
    ids = torch.tensor([x[:48] for x in long], device=model.device)
    save_file({"input_ids": ids.int().cpu(), "logits": model.logits(model.hidden(ids)).cpu()}, folder / "logits.safetensors")


if __name__ == "__main__":
    main()
