"""Tiny models with random weights, one for each way in which engines keep state of requests."""

import json
from pathlib import Path
from typing import Any

VOCABULARY = 512
END_OF_TEXT = 256

_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "bos_token_id": END_OF_TEXT,
    "eos_token_id": END_OF_TEXT,
}

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}

CONFIGS: dict[str, dict[str, Any]] = {
    "dense": {
        **_COMMON,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
    },
    "experts": {
        **_COMMON,
        **_EXPERTS,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": 3,
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
    },
    "sliding-window": {
        **_COMMON,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": 7,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "layer_types": [*["sliding_attention"] * 5, "full_attention", "sliding_attention"],
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 32,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
    },
    "latent-attention": {
        **_COMMON,
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "first_k_dense_replace": 2,
        "moe_layer_freq": 1,
    },
    "gated-deltanet": {
        **_COMMON,
        **_EXPERTS,
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "layer_types": [*["linear_attention"] * 3, "full_attention"],
        "shared_expert_intermediate_size": 64,
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
        "partial_rotary_factor": 0.25,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
    },
    "mamba2": {
        **_COMMON,
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "hidden_size": 128,  # the model itself divides by heads where others read head_dim
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "mamba", "attention", "mamba"],
        "shared_intermediate_size": 128,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "position_embedding_type": "nope",
        "attention_multiplier": 0.1,
        "embedding_multiplier": 1.0,
        "residual_multiplier": 1.0,
        "logits_scaling": 1.0,
        "mamba_n_heads": 8,
        "mamba_d_head": 32,
        "mamba_n_groups": 1,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_chunk_size": 256,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
    },
}


def write_model(name: str, folder: Path) -> Path:
    """Write the configuration and a byte-level tokenizer of a tiny model; no weights are needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files(name).items():
        (folder / file).write_text(content, encoding="utf-8")
    return folder


def files(name: str) -> dict[str, str]:
    """The files of a tiny model by name."""
    return {
        "config.json": json.dumps(CONFIGS[name], indent=1),
        "tokenizer.json": json.dumps(_tokenizer()),
        "tokenizer_config.json": json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<s>",
                "eos_token": "<s>",
                "model_max_length": 4096,
            }
        ),
    }


def _tokenizer() -> dict[str, Any]:
    """A byte-level tokenizer without merges: one token for each byte."""
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    end = {
        "id": END_OF_TEXT,
        "content": "<s>",
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {character: at for at, character in enumerate(_byte_alphabet())}
        | {"<s>": END_OF_TEXT},
        "merges": [],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": model,
    }


def _byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level tokenizers (GPT-2's table)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in visible)
    return [*map(chr, visible), *(chr(256 + at) for at, _ in enumerate(hidden))]
