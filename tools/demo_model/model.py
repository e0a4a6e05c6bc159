"""Qwen3-MoE with one MTP layer, in plain torch, for training.

The experts are small (16 of 128), so the layer computes all of them in two large products and weights each expert's
activations with its routing weight, which is 0 for the experts that were not chosen: the same function as sparse routing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

Mask = BlockMask | Tensor  # which keys a query sees: block mask for CUDA, booleans [B,1,T,T] for the CPU


@dataclass
class Config:
    vocab_size: int = 8192
    hidden_size: int = 256
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 64
    num_experts: int = 16
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 128
    rope_theta: float = 100000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048

    def as_dict(self) -> dict:
        return asdict(self)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """q [B,Hq,T,D], k and v [B,Hkv,T,D] -> [B,Hq,T,D]"""
    if isinstance(mask, BlockMask):
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def linear(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w.to(x.dtype))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [B,H,T,D]; cos, sin [B,1,T,D/2]; the two halves of a head form the pairs."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class RMSNorm(nn.Module):
    def __init__(self, n: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def matrix(*shape: int, std: float) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * std)


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        q, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
        std = c.hidden_size**-0.5
        self.head_dim = c.head_dim
        self.q_proj, self.k_proj, self.v_proj = (matrix(n, c.hidden_size, std=std) for n in (q, kv, kv))
        self.o_proj = matrix(c.hidden_size, q, std=0.2 * q**-0.5)
        self.q_norm, self.k_norm = RMSNorm(c.head_dim, c.rms_norm_eps), RMSNorm(c.head_dim, c.rms_norm_eps)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Mask) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (linear(x, w).view(b, t, -1, self.head_dim) for w in (self.q_proj, self.k_proj, self.v_proj))
        q = rotate(self.q_norm(q).transpose(1, 2), *rope).to(x.dtype)
        k = rotate(self.k_norm(k).transpose(1, 2), *rope).to(x.dtype)
        return linear(attend(q, k, v.transpose(1, 2), mask).transpose(1, 2).reshape(b, t, -1), self.o_proj)


class MoE(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        e, i, h = c.num_experts, c.moe_intermediate_size, c.hidden_size
        self.top_k = c.num_experts_per_tok
        self.gate = matrix(e, h, std=0.02)
        self.gate_proj, self.up_proj = matrix(e, i, h, std=h**-0.5), matrix(e, i, h, std=h**-0.5)
        self.down_proj = matrix(e, h, i, std=0.2 * i**-0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output and the load-balancing loss (1 when the load is even)."""
        e, i, h = self.gate_proj.shape
        p = linear(x.float(), self.gate).softmax(-1)
        top, chosen = p.topk(self.top_k, -1)
        top = top / top.sum(-1, keepdim=True)
        weight = torch.zeros_like(p).scatter(-1, chosen, top)
        load = (weight.detach() > 0).float().mean((0, 1)) / self.top_k
        balance = e * (load * p.mean((0, 1))).sum()
        a = F.silu(linear(x, self.gate_proj.view(e * i, h))) * linear(x, self.up_proj.view(e * i, h))
        a = (a.unflatten(-1, (e, i)) * weight.to(x.dtype).unsqueeze(-1)).flatten(-2)
        return linear(a, self.down_proj.permute(1, 0, 2).reshape(h, e * i)), balance


class Layer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps), RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn, self.mlp = Attention(c), MoE(c)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Mask, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = x + self.self_attn(self.input_layernorm(x).to(dtype), rope, mask)
        y, balance = self.mlp(self.post_attention_layernorm(x).to(dtype))
        return x + y, balance


class MTP(nn.Module):
    """Drafts token p+2 from token p+1 and the trunk's final hidden state at p."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        h = c.hidden_size
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (RMSNorm(h, c.rms_norm_eps) for _ in range(3))
        self.fc = matrix(h, 2 * h, std=(2 * h) ** -0.5)
        self.layers = nn.ModuleList([Layer(c)])

    def forward(self, embedded: Tensor, hidden: Tensor, rope: tuple[Tensor, Tensor], mask: Mask, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = torch.cat((self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)), -1)
        x, balance = self.layers[0](linear(x.to(dtype), self.fc).float(), rope, mask, dtype)
        return self.norm(x), balance


class Model(nn.Module):
    """Embedding and output matrix are shared."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.config = c
        self.embed_tokens = matrix(c.vocab_size, c.hidden_size, std=0.02)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mtp = MTP(c)
        f = c.rope_theta ** (-torch.arange(0, c.head_dim, 2).float() / c.head_dim)
        self.register_buffer("angles", torch.outer(torch.arange(c.max_position_embeddings).float(), f), persistent=False)

    def forward(self, ids: Tensor, positions: Tensor, mask: Mask, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Final hidden states of the trunk and of the MTP layer (both normed), and the mean balancing loss.

        The MTP layer takes the token after the last one to be ids[:, 0]: its last position means nothing."""
        a = self.angles[positions].unsqueeze(1)
        rope = (a.cos(), a.sin())
        embedded = F.embedding(ids, self.embed_tokens)
        x, balance = embedded, torch.zeros((), device=ids.device)
        for layer in self.layers:
            x, b = layer(x, rope, mask, dtype)
            balance = balance + b
        hidden = self.norm(x)
        draft, b = self.mtp(embedded.roll(-1, 1), hidden, rope, mask, dtype)
        return hidden, draft, (balance + b) / (len(self.layers) + 1)
