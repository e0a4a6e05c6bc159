"""Train on one GPU for a given time.

    python train.py --work WORK --minutes 8 --out WORK/trained.pt

The number of steps is fixed once the first steps have been timed, so that the learning rate reaches its end in time.
Loss: next token (text inside user and system turns counts 0.1) + 0.2 * MTP + 0.01 * load balancing.  The MTP layer is
trained to predict the trunk's own best token, which is what a draft is compared with.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from model import Config, Mask, Model

WARMUP = 200  # steps
FLAT = 0.35  # part of the training before the learning rate goes down
PROMPT_WEIGHT, MTP_WEIGHT, BALANCE_WEIGHT = 0.1, 0.2, 0.01


class Muon:
    """Momentum whose update is orthogonalised (Newton-Schulz); matrices of one shape are handled as one batch."""

    def __init__(self, params: list[Tensor], lr: float, decay: float = 0.1, momentum: float = 0.95) -> None:
        self.lr, self.decay, self.momentum = lr, decay, momentum
        groups: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
        for p in params:
            groups[p.shape[-2], p.shape[-1]].append(p)
        self.groups = list(groups.values())
        self.buffers = [torch.zeros_like(self.stack(g)) for g in self.groups]

    @staticmethod
    def stack(tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(-1, *t.shape[-2:]) for t in tensors])

    @staticmethod
    def orthogonal(g: Tensor) -> Tensor:
        x = g.bfloat16()
        if flip := x.shape[-2] > x.shape[-1]:
            x = x.mT
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for a, b, c in ((3.4445, -4.7750, 2.0315),) * 5:
            y = x @ x.mT
            x = a * x + (b * y + c * y @ y) @ x
        return x.mT if flip else x

    @torch.no_grad()
    def step(self, scale: float) -> None:
        for group, buffer in zip(self.groups, self.buffers):
            grad = self.stack([p.grad for p in group])
            buffer.mul_(self.momentum).add_(grad, alpha=1 - self.momentum)
            update = self.orthogonal(grad.lerp(buffer, self.momentum)).float()
            rate = self.lr * scale
            at = 0
            for p in group:
                n = p.numel() // (p.shape[-2] * p.shape[-1])
                p.mul_(1 - rate * self.decay).add_(update[at : at + n].reshape(p.shape), alpha=-rate * 0.2 * max(p.shape[-2:]) ** 0.5)
                at += n


class Layout:
    """Documents, positions and loss weights, all read from the tokens of the rows."""

    def __init__(self, tokenizer: Path) -> None:
        tok = Tokenizer.from_file(str(tokenizer))
        self.end, self.open, self.close = (tok.token_to_id(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
        self.assistant = tok.encode("assistant").ids[0]
        assert len(tok.encode("assistant").ids) == 1

    def __call__(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, t = ids.shape
        at = torch.arange(t, device=ids.device).expand(b, t)
        is_start = F.pad(ids == self.end, (1, 0), value=True)[:, :-1]
        doc = is_start.cumsum(1)
        start = torch.where(is_start, at, 0).cummax(1).values
        is_prompt = (ids == self.open) & (F.pad(ids, (0, 1))[:, 1:] != self.assistant)
        opened = torch.where(is_prompt, at, -1).cummax(1).values
        closed = torch.where((ids == self.close) | (ids == self.end), at, -1).cummax(1).values
        weight = torch.where(opened > closed, PROMPT_WEIGHT, 1.0)
        return doc, at - start, weight


make_blocks = create_block_mask


def attention_mask(doc: Tensor) -> Mask:
    """Causal, inside each document."""
    if not doc.is_cuda:
        return (doc[:, None, :, None] == doc[:, None, None, :]).tril()

    def visible(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (doc[b, q] == doc[b, k])

    return make_blocks(visible, doc.shape[0], None, doc.shape[1], doc.shape[1], device=doc.device)


def losses(hidden: Tensor, draft: Tensor, embed: Tensor, ids: Tensor, doc: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean next-token loss, mean MTP loss, and the share of drafts that equal the trunk's choice (weighted alike)."""
    e = embed.to(torch.bfloat16 if hidden.is_cuda else hidden.dtype)
    logits = F.linear(hidden.to(e.dtype), e).float()
    one = (doc[:, 1:] == doc[:, :-1]) * weight[:, 1:]
    nll = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(one)
    choice = logits.detach()[:, 1:-1].argmax(-1)
    two = (doc[:, 2:] == doc[:, :-2]) * weight[:, 2:]
    drafts = F.linear(draft.to(e.dtype), e).float()[:, :-2]
    mtp = F.cross_entropy(drafts.flatten(0, 1), choice.flatten(), reduction="none").view_as(two)
    hit = (drafts.detach().argmax(-1) == choice) * two
    return (nll * one).sum() / one.sum(), (mtp * two).sum() / two.sum(), hit.sum() / two.sum()


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--work", type=Path, required=True)
    ap.add_argument("--tokenizer", type=Path, default=Path(__file__).parents[2] / "models/demo/tokenizer.json")
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--minutes", type=float, default=8.0)
    ap.add_argument("--steps", type=int, help="instead of --minutes")
    ap.add_argument("--batch", type=int, default=32, help="rows of 2,048 tokens")
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--row", type=int, default=2048, help="cut the rows (for tests)")
    ap.add_argument("--tiny", action="store_true", help="two layers (for tests)")
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()

    torch.manual_seed(a.seed)
    cuda = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if cuda else ("cpu", torch.float32)
    torch.set_float32_matmul_precision("high")
    data = np.concatenate([np.load(p) for p in sorted((a.work / "shards").glob("*.npy"))])[:, : a.row]
    rows = torch.from_numpy(np.ascontiguousarray(data).view(np.int16)).to(device)
    print(f"{rows.numel():,} tokens", flush=True)

    model = Model(Config(num_hidden_layers=2) if a.tiny else Config()).to(device)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    is_matrix = lambda n, p: p.ndim >= 2 and n != "embed_tokens" and not n.endswith("mlp.gate")  # noqa: E731
    muon = Muon([p for n, p in model.named_parameters() if is_matrix(n, p)], a.lr)
    adam = torch.optim.AdamW([p for n, p in model.named_parameters() if not is_matrix(n, p)], lr=a.lr / 2, betas=(0.9, 0.95), weight_decay=0.0, fused=cuda)
    layout, loss_fn = Layout(a.tokenizer), losses
    if cuda:
        global make_blocks
        make_blocks = torch.compile(create_block_mask)
        for layer in [*model.layers, model.mtp.layers[0]]:
            layer.compile()  # all layers share one compilation
        loss_fn = torch.compile(losses)
        layout = torch.compile(layout)
        muon.orthogonal = torch.compile(Muon.orthogonal)

    began = time.time()
    total = a.steps or 10**9
    curve: list[dict] = []
    order = torch.empty(0, dtype=torch.long)
    sums = torch.zeros(4, device=device)
    step = timed_at = 0
    timed = began
    while step < total:
        if len(order) < a.batch:
            order = torch.cat((order, torch.randperm(len(rows))))
        take, order = order[: a.batch], order[a.batch :]
        ids = rows[take.to(device)].long() & 0xFFFF
        doc, positions, weight = layout(ids)
        hidden, draft, balance = model(ids, positions, attention_mask(doc), dtype)
        lm, mtp, hit = loss_fn(hidden, draft, model.embed_tokens, ids, doc, weight)
        (lm + MTP_WEIGHT * mtp + BALANCE_WEIGHT * balance).backward()

        progress = step / total
        scale = min(1.0, (step + 1) / WARMUP) * min(1.0, (1 - progress) / (1 - FLAT))
        for group in adam.param_groups:
            group["lr"] = a.lr / 2 * scale
        torch.nn.utils.clip_grad_norm_(adam.param_groups[0]["params"], 1.0)
        adam.step()
        muon.step(scale)
        model.zero_grad(set_to_none=True)
        sums += torch.stack((lm.detach(), mtp.detach(), hit, balance.detach()))
        step += 1

        if step in (20, 120) and not a.steps:
            if cuda:
                torch.cuda.synchronize()
            if step == 120:
                each = (time.time() - timed) / (step - timed_at)
                total = step + int((a.minutes * 60 - (time.time() - began)) / each)
                print(f"{each * 1000:.1f} ms a step, {a.batch * a.row / each:,.0f} tokens/s: {total} steps", flush=True)
            timed, timed_at = time.time(), step
        every = 50 if total > 500 else 10
        if step % every == 0 or step == total:
            n = (step - 1) % every + 1
            means = (sums / n).tolist()
            curve.append({"step": step, "tokens": step * a.batch * a.row, "seconds": round(time.time() - began, 1), "loss": means[0], "mtp_loss": means[1], "mtp_accept": means[2], "balance": means[3]})
            if step % (every * 5) == 0 or step == total:
                print(json.dumps({k: round(v, 4) for k, v in curve[-1].items()}), flush=True)
            sums.zero_()
            assert np.isfinite(means[0]), "diverged"

    state = {k: v.detach().cpu() for k, v in model.state_dict().items()}
    machine = torch.cuda.get_device_name() if cuda else "CPU"
    info = {"steps": step, "tokens": step * a.batch * a.row, "unique_tokens": rows.numel(), "minutes": round((time.time() - began) / 60, 2), "machine": machine, "batch_tokens": a.batch * a.row, "lr": a.lr, "seed": a.seed, "curve": curve}
    torch.save({"config": model.config.as_dict(), "model": state, "training": info}, a.out)


if __name__ == "__main__":
    main()
