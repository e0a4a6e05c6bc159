"""Write the trained model in Hugging Face layout (bf16, one tensor per expert) and draw the loss curve.

    python export.py --trained WORK/trained.pt --out ../../models/demo
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer


def tensors(state: dict[str, torch.Tensor], n_experts: int) -> dict[str, torch.Tensor]:
    out: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        prefix = "" if name.startswith("mtp.") else "model."
        value = value.to(torch.bfloat16)
        if name.endswith(("gate_proj", "up_proj", "down_proj")):
            head, kind = name.rsplit(".", 1)
            for e in range(n_experts):
                out[f"{prefix}{head}.experts.{e}.{kind}.weight"] = value[e].clone()
        else:
            out[prefix + name + ("" if name.endswith(".weight") else ".weight")] = value.contiguous()
    return out


def draw(curve: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, left = plt.subplots(figsize=(7, 3.6), dpi=90)
    x = [c["tokens"] / 1e6 for c in curve]
    left.semilogy(x, [c["loss"] for c in curve], label="next token")
    left.semilogy(x, [c["mtp_loss"] for c in curve], label="MTP", alpha=0.7)
    left.set_xlabel("million tokens")
    left.set_ylabel("training loss")
    right = left.twinx()
    right.plot(x, [c["mtp_accept"] for c in curve], color="tab:green", alpha=0.6)
    right.set_ylabel("accepted drafts (green)")
    right.set_ylim(0, 1)
    left.legend(loc="center right")
    fig.tight_layout()
    fig.savefig(path)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--trained", type=Path, required=True)
    ap.add_argument("--out", type=Path, required=True)
    a = ap.parse_args()
    trained = torch.load(a.trained, weights_only=True)
    c = trained["config"]
    tok = Tokenizer.from_file(str(a.out / "tokenizer.json"))
    end, close = tok.token_to_id("<|endoftext|>"), tok.token_to_id("<|im_end|>")
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": end,
        "decoder_sparse_step": 1,
        "dtype": "bfloat16",
        "eos_token_id": close,
        "head_dim": c["head_dim"],
        "hidden_act": "silu",
        "hidden_size": c["hidden_size"],
        "initializer_range": 0.02,
        "intermediate_size": 4 * c["moe_intermediate_size"],
        "max_position_embeddings": c["max_position_embeddings"],
        "max_window_layers": c["num_hidden_layers"],
        "mlp_only_layers": [],
        "model_type": "qwen3_moe",
        "moe_intermediate_size": c["moe_intermediate_size"],
        "mtp_num_hidden_layers": 1,
        "norm_topk_prob": True,
        "num_attention_heads": c["num_attention_heads"],
        "num_experts": c["num_experts"],
        "num_experts_per_tok": c["num_experts_per_tok"],
        "num_hidden_layers": c["num_hidden_layers"],
        "num_key_value_heads": c["num_key_value_heads"],
        "output_router_logits": False,
        "rms_norm_eps": c["rms_norm_eps"],
        "rope_scaling": None,
        "rope_theta": c["rope_theta"],
        "router_aux_loss_coef": 0.01,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": c["vocab_size"],
    }
    generation = {"bos_token_id": end, "do_sample": True, "eos_token_id": [close, end], "pad_token_id": end, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    dump = lambda name, o: (a.out / name).write_text(json.dumps(o, indent=2) + "\n")  # noqa: E731
    dump("config.json", config)
    dump("generation_config.json", generation)
    save_file(tensors(trained["model"], c["num_experts"]), a.out / "model.safetensors", metadata={"format": "pt"})
    info = trained["training"]
    info["curve"] = [{k: round(v, 4) for k, v in p.items()} for p in info["curve"]]
    (a.out / "eval/training.json").write_text(json.dumps(info | {"curve": info["curve"][:: max(1, len(info["curve"]) // 60)]}) + "\n")
    draw(info["curve"], a.out / "loss.png")


if __name__ == "__main__":
    main()
