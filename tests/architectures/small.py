"""Small configurations that leave the defaults in every way that changes tensors, by family.

A family without an entry is compared with its defaults alone. Rope parameters stand where a class does
not build without them.
"""

from __future__ import annotations

from typing import Any

ROPE: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
SMALL: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 224,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 352,
}
EXPERTS: dict[str, Any] = {**SMALL, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
LATENT: dict[str, Any] = {
    **SMALL,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
}
ROUTED: dict[str, Any] = {
    "moe_intermediate_size": 40,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
MAMBA: dict[str, Any] = {
    "mamba_n_heads": 6,
    "mamba_d_head": 32,
    "mamba_n_groups": 1,
    "mamba_d_state": 16,
    "mamba_expand": 2,
}
CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 32,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
SIGLIP = {**CLIP, "model_type": "siglip_vision_model", "vision_use_head": False}
PIXTRAL = {**CLIP, "model_type": "pixtral", "head_dim": 8}
QWEN_VISION = {"depth": 2, "num_heads": 4, "hidden_size": 32, "patch_size": 14}
ENCODER = {
    "hidden_size": 96,
    "intermediate_size": 224,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "vocab_size": 352,
    "max_position_embeddings": 1100,
}
PAIR = {
    "d_model": 96,
    "d_ff": 224,
    "num_layers": 2,
    "num_heads": 6,
    "d_kv": 16,
    "vocab_size": 352,
    "decoder_start_token_id": 0,
}
TWO_SIDES = {
    "d_model": 96,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 224,
    "decoder_ffn_dim": 224,
    "vocab_size": 352,
    "max_position_embeddings": 1100,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}
SAM: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 64,
    "global_attn_indexes": [1],
    "window_size": 2,
    "mlp_dim": 72,
}
WHISPER = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 80,
    "num_mel_bins": 16,
    "max_source_positions": 100,
}


OPT = {
    "model_type": "opt",
    "hidden_size": 96,
    "ffn_dim": 224,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "vocab_size": 352,
    "word_embed_proj_dim": 96,
    "max_position_embeddings": 1100,
    "pad_token_id": 0,
}
BLIP_VISION = {
    "hidden_size": 32,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
QFORMER = {
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "encoder_hidden_size": 32,
    "vocab_size": 100,
}


def text(kind: str, **more: Any) -> dict[str, Any]:
    return {"model_type": kind, **SMALL, **more}


_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
COMPASS: dict[str, Any] = {
    **text("cohere_compass_text"),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    "rope_parameters": {"full_attention": None, "sliding_attention": _SECTIONS},
}


GLM_4V: dict[str, Any] = {
    "text_config": text("glm4v_text", pad_token_id=0),
    "vision_config": {
        **QWEN_VISION,
        "model_type": "glm4v_vision",
        "out_hidden_size": 96,
        "intermediate_size": 80,
        "image_size": 56,
    },
}


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "cohere_compass_text": [COMPASS],
    "cohere_compass": [
        {
            "text_config": COMPASS,
            "vision_config": {
                **QWEN_VISION,
                "intermediate_size": 60,
                "out_hidden_size": 96,
                "deepstack_visual_indexes": [0, 1],
            },
        }
    ],
    "kolibri1": [{**EXPERTS, "head_dim": 16, "shared_expert_intermediate_size": 48, "pad_token_id": 0}],
    "florence2": [
        {
            "text_config": {"model_type": "bart", **TWO_SIDES, "bos_token_id": 0, "eos_token_id": 0},
            "vision_config": {
                "depths": [1, 1, 2, 1],
                "embed_dim": [16, 24, 32, 48],
                "num_heads": [2, 2, 4, 4],
                "num_groups": [2, 2, 4, 4],
                "projection_dim": 96,
            },
        }
    ],
    "blip-2": [
        {"text_config": OPT, "vision_config": BLIP_VISION, "qformer_config": QFORMER},
        {"text_config": {"model_type": "t5", **PAIR}, "vision_config": BLIP_VISION, "qformer_config": QFORMER},
    ],
    "instructblip": [{"text_config": OPT, "vision_config": BLIP_VISION, "qformer_config": QFORMER}],
    "modernbert-decoder": [
        {
            **ENCODER,
            "norm_bias": True,
            "classifier_bias": True,
            "mlp_bias": True,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0),
        }
    ],
    "esm": [
        {**ENCODER, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 1, "pad_token_id": 0},
        {**ENCODER, "pad_token_id": 0},
    ],
    "megatron-bert": [ENCODER],
    "albert": [{**ENCODER, "embedding_size": 48, "inner_group_num": 2}, ENCODER],
    "minimax": [
        {**SMALL, "num_local_experts": 3, **ROPE},
        {**SMALL, "num_local_experts": 3, "layer_types": ["linear_attention"] * 2 + ["full_attention"], **ROPE},
    ],
    "recurrent_gemma": [
        {**SMALL, "num_hidden_layers": 4, "lru_width": 120},
        {**SMALL, "block_types": ["attention", "recurrent"], "attention_bias": True},
    ],
    "led": [{**TWO_SIDES, "attention_window": [64, 64], "max_encoder_position_embeddings": 2048}],
    "longt5": [
        {**PAIR, "feed_forward_proj": "gated-gelu", "encoder_attention_type": "transient-global"},
        {**PAIR, "encoder_attention_type": "local"},
    ],
    "switch_transformers": [
        {**PAIR, "num_layers": 4, "num_decoder_layers": 4, "num_sparse_encoder_layers": 2, "num_experts": 3},
        {**PAIR, "num_sparse_encoder_layers": 0, "num_sparse_decoder_layers": 2, "num_experts": 3},
    ],
    "layoutlm": [ENCODER],
    "roformer": [{**ENCODER, "embedding_size": 48}, ENCODER],
    "rembert": [{**ENCODER, "input_embedding_size": 48, "output_embedding_size": 120}],
    "deberta": [
        {**ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
        {**ENCODER, "talking_head": True},
    ],
    "longformer": [ENCODER],
    "big_bird": [{**ENCODER, "use_bias": False}, {**ENCODER, "attention_type": "original_full"}],
    "xlnet": [{"d_model": 96, "n_layer": 3, "n_head": 6, "d_inner": 224, "vocab_size": 352}],
    "roberta-prelayernorm": [ENCODER],
    "xlm-roberta-xl": [ENCODER],
    "llama": [
        {**SMALL, "attention_bias": True, "mlp_bias": True, "head_dim": 20},
        {**SMALL, "tie_word_embeddings": True},
    ],
    "mistral": [{**SMALL, "head_dim": 24, "tie_word_embeddings": True}],
    "ministral": [{**SMALL, "head_dim": 16, **ROPE}],
    "ministral3": [{**SMALL, "head_dim": 24}],
    "qwen2": [{**SMALL, "tie_word_embeddings": True}, {**SMALL, "use_sliding_window": True, "max_window_layers": 1}],
    "qwen3": [{**SMALL, "head_dim": 24, "attention_bias": True}],
    "granite": [{**SMALL, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}],
    "gemma": [{**SMALL, "head_dim": 24, "attention_bias": True}],
    "gemma2": [{**SMALL, "head_dim": 24, "tie_word_embeddings": False}],
    "gemma3_text": [{**SMALL, "head_dim": 24, "num_hidden_layers": 8}],
    "cohere": [{**SMALL, "use_qk_norm": True}, {**SMALL, "attention_bias": True}],
    "cohere2": [{**SMALL, "num_hidden_layers": 5}],
    "phi": [{**SMALL, "qk_layernorm": True}],
    "phi3": [{**SMALL, "tie_word_embeddings": True, "pad_token_id": 0}],
    "stablelm": [
        {**SMALL, "use_parallel_residual": True, "qk_layernorm": True},
        {**SMALL, "use_qkv_bias": True},
    ],
    "starcoder2": [{**SMALL, "use_bias": False, "tie_word_embeddings": False}],
    "glm": [{**SMALL, "attention_bias": True, "head_dim": 16, "pad_token_id": 0}],
    "glm4": [{**SMALL, "attention_bias": True, "head_dim": 16, "pad_token_id": 0}],
    "ernie4_5": [{**SMALL, "use_bias": True}],
    "exaone4": [{**SMALL, "num_hidden_layers": 5}],
    "apertus": [{**SMALL, "attention_bias": True, "mlp_bias": True}],
    "arcee": [{**SMALL, "attention_bias": True, "mlp_bias": True}],
    "bitnet": [SMALL],
    "hunyuan_v1_dense": [{**SMALL, "head_dim": 16, **ROPE}, {**SMALL, "attention_bias": True, "head_dim": 16, **ROPE}],
    "hyperclovax": [{**SMALL, "use_post_norm": True}, {**SMALL, "use_post_norm": False}],
    "nemotron": [{**SMALL, "head_dim": 16, "attention_bias": True}],
    "olmo": [{**SMALL, "attention_bias": True}],
    "olmo2": [SMALL],
    "olmo3": [{**SMALL, "num_hidden_layers": 5}],
    "seed_oss": [{**SMALL, "attention_bias": True, "attention_out_bias": True, "head_dim": 16}],
    "smollm3": [{**SMALL, "attention_bias": True, "mlp_bias": True, "pad_token_id": 0}],
    "vaultgemma": [{**SMALL, "head_dim": 16}],
    "gpt2": [{"n_embd": 48, "n_layer": 2, "n_head": 4, "n_inner": 100, "vocab_size": 100, "n_positions": 32}],
    "gpt_bigcode": [{"n_embd": 48, "n_layer": 2, "n_head": 4, "n_inner": 100, "vocab_size": 100, "multi_query": False}],
    "gpt_neo": [{"hidden_size": 48, "num_layers": 4, "num_heads": 4, "attention_types": [[["global", "local"], 2]]}],
    "gpt_neox": [{**SMALL, "num_key_value_heads": None, "attention_bias": False, "tie_word_embeddings": True}],
    "gptj": [{"n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 100, "rotary_dim": 8, "vocab_size": 100}],
    "codegen": [{"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8, "vocab_size": 100}],
    "opt": [
        {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 90, "word_embed_proj_dim": 24},
        {"hidden_size": 48, "num_attention_heads": 4, "ffn_dim": 90, "word_embed_proj_dim": 48, "enable_bias": False},
        {"do_layer_norm_before": False, "layer_norm_elementwise_affine": False},
    ],
    "bloom": [{"hidden_size": 48, "n_layer": 3, "n_head": 4, "vocab_size": 100}],
    "falcon": [
        {"new_decoder_architecture": True, "hidden_size": 64, "num_attention_heads": 8, "num_kv_heads": 2},
        {"new_decoder_architecture": True, "hidden_size": 64, "num_attention_heads": 8, "num_ln_in_parallel_attn": 1},
        {"multi_query": False, "parallel_attn": False, "bias": True, "hidden_size": 64, "num_attention_heads": 8},
    ],
    "mpt": [{"d_model": 48, "n_heads": 4, "n_layers": 2, "expansion_ratio": 3, "vocab_size": 100}],
    "mixtral": [{**SMALL, "num_local_experts": 3}],
    "qwen2_moe": [
        {**EXPERTS, "shared_expert_intermediate_size": 56, "decoder_sparse_step": 2},
        {**EXPERTS, "mlp_only_layers": [0]},
    ],
    "qwen3_moe": [{**EXPERTS, "head_dim": 16, "mlp_only_layers": [1]}],
    "olmoe": [EXPERTS],
    "laguna": [
        {
            **EXPERTS,
            "head_dim": 16,
            "shared_expert_intermediate_size": 24,
            "num_attention_heads_per_layer": [6, 8, 8],
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "sliding_window": 8,
            "gating": "per-head",
        }
    ],
    "granitemoe": [{**SMALL, "num_local_experts": 3, "tie_word_embeddings": True}],
    "granitemoeshared": [{**SMALL, "num_local_experts": 3, "shared_intermediate_size": 72}],
    "phimoe": [{**SMALL, "num_local_experts": 3, "attention_bias": True, "lm_head_bias": True}],
    "gpt_oss": [{**SMALL, "num_local_experts": 3, "head_dim": 16}],
    "ernie4_5_moe": [
        {
            **SMALL,
            "moe_num_experts": 4,
            "moe_intermediate_size": 40,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
            "use_bias": True,
        }
    ],
    "glm4_moe": [{**SMALL, **ROUTED, "use_qk_norm": True, "attention_bias": True, "head_dim": 16}],
    "sarvam_moe": [{**SMALL, **ROUTED, "head_dim": 16}],
    "sarvam_mla": [{**LATENT, **ROUTED, "num_key_value_heads": 6}],
    "dots1": [{**SMALL, **ROUTED}],
    "exaone_moe": [{**EXPERTS, "num_shared_experts": 2, "first_k_dense_replace": 2}],
    "hunyuan_v1_moe": [{**SMALL, "num_experts": 3, "head_dim": 16, **ROPE}],
    "llama4_text": [
        {**SMALL, "num_local_experts": 3, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 300, "head_dim": 16}
    ],
    "dbrx": [
        {
            "d_model": 64,
            "n_heads": 4,
            "n_layers": 2,
            "vocab_size": 100,
            "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
            "ffn_config": {"ffn_hidden_size": 80, "moe_num_experts": 3},
        }
    ],
    "deepseek_v2": [{**LATENT, **ROUTED}, {**LATENT, **ROUTED, "q_lora_rank": None}],
    "deepseek_v3": [{**LATENT, **ROUTED}, {**LATENT, **ROUTED, "q_lora_rank": None, "attention_bias": True}],
    "glm_moe_dsa": [
        {
            **LATENT,
            **ROUTED,
            "num_hidden_layers": 4,
            "index_n_heads": 2,
            "index_head_dim": 16,
            "index_topk_pattern": "FSFS",
            "pad_token_id": 0,
        }
    ],
    "deepseek_v4": [
        {
            "hidden_size": 96,
            "moe_intermediate_size": 40,
            "num_hidden_layers": 5,
            "num_attention_heads": 6,
            "head_dim": 32,
            "q_lora_rank": 24,
            "o_groups": 2,
            "o_lora_rank": 12,
            "index_n_heads": 2,
            "index_head_dim": 16,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "hc_mult": 2,
            "vocab_size": 352,
            "compress_ratios": [0, 128, 4, 128, 4],
        }
    ],
    "phi4_multimodal": [
        {
            **SMALL,
            "pad_token_id": 0,
            "eos_token_id": 1,
            "bos_token_id": 1,
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 72,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 56,
            },
            "audio_config": {
                "hidden_size": 32,
                "intermediate_size": 40,
                "num_blocks": 2,
                "num_attention_heads": 4,
                "ext_pw_out_channel": 32,
                "depthwise_separable_out_channel": 32,
                "nemo_conv_channels": 32,
            },
        }
    ],
    "gemma3n_text": [
        {
            **SMALL,
            "num_hidden_layers": 6,
            "head_dim": 16,
            "num_kv_shared_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"] * 3,
            "intermediate_size": [224] * 6,
            "activation_sparsity_pattern": [0.0] * 6,
            "vocab_size_per_layer_input": 352,
            "hidden_size_per_layer_input": 24,
            "laurel_rank": 8,
        }
    ],
    "kimi_k25": [
        {
            "text_config": {**LATENT, **ROUTED, "model_type": "deepseek_v3"},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 72,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
            },
            "projection_hidden_size": 32,
            "tie_word_embeddings": False,
        }
    ],
    "lfm2_vl": [
        {
            "text_config": {**SMALL, "model_type": "lfm2", "layer_types": ["conv", "full_attention", "conv"]},
            "vision_config": {**SIGLIP, "model_type": "siglip2_vision_model", "num_patches": 16, "patch_size": 4},
            "projector_hidden_size": 48,
        }
    ],
    "step3p7": [
        {
            "text_config": {
                **SMALL,
                "head_dim": 16,
                "n_routed_experts": 4,
                "moe_intermediate_size": 24,
                "share_expert_dim": 40,
                "num_experts_per_tok": 2,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
                "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                "sliding_window": 32,
                "num_sliding_attention_heads": 8,
            },
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 56,
                "mlp_ratio": 2.0,
            },
        }
    ],
    "cohere2_vision": [
        {"text_config": {**SMALL, "model_type": "cohere2"}, "vision_config": SIGLIP, "alignment_intermediate_size": 64}
    ],
    "aya_vision": [{"text_config": {**SMALL, "model_type": "cohere2"}, "vision_config": SIGLIP}],
    "glm4v_moe": [
        {
            "text_config": {**SMALL, **ROUTED, "head_dim": 16, "pad_token_id": 0},
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "num_heads": 4,
                "out_hidden_size": 96,
                "intermediate_size": 60,
                "image_size": 56,
            },
        }
    ],
    "qwen3_omni_moe_thinker": [
        {
            "text_config": {**EXPERTS, "head_dim": 16},
            "vision_config": {
                **QWEN_VISION,
                "intermediate_size": 60,
                "out_hidden_size": 96,
                "deepstack_visual_indexes": [0, 1],
            },
            "audio_config": {
                "d_model": 32,
                "encoder_layers": 2,
                "encoder_attention_heads": 4,
                "encoder_ffn_dim": 80,
                "num_mel_bins": 16,
                "output_dim": 96,
                "downsample_hidden_size": 12,
                "max_source_positions": 100,
            },
        }
    ],
    "bert": [ENCODER],
    "roberta": [ENCODER],
    "xlm-roberta": [ENCODER],
    "camembert": [ENCODER],
    "electra": [{**ENCODER, "embedding_size": 48}],
    "data2vec-text": [ENCODER],
    "ernie": [ENCODER, {**ENCODER, "use_task_id": True}],
    "eurobert": [{**SMALL, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "mask_token_id": 3}],
    "gte": [ENCODER],
    "jina_embeddings_v3": [ENCODER],
    "nomic_bert": [ENCODER],
    "deberta-v2": [
        {
            **ENCODER,
            "relative_attention": True,
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
        }
    ],
    "modernbert": [{**ENCODER, "pad_token_id": 0, "local_attention": 64}],
    "mpnet": [ENCODER],
    "distilbert": [
        {"dim": 96, "hidden_dim": 224, "n_layers": 3, "n_heads": 6, "vocab_size": 352, "max_position_embeddings": 1024}
    ],
    "t5": [{**PAIR, "feed_forward_proj": "gated-gelu"}, PAIR],
    "mt5": [PAIR],
    "umt5": [PAIR],
    "bart": [TWO_SIDES],
    "mbart": [TWO_SIDES],
    "pegasus": [TWO_SIDES],
    "marian": [TWO_SIDES],
    "m2m_100": [TWO_SIDES],
    "plbart": [TWO_SIDES],
    "blenderbot": [TWO_SIDES],
    "blenderbot-small": [TWO_SIDES],
    "whisper": [{**TWO_SIDES, "num_mel_bins": 16, "max_source_positions": 100, "max_target_positions": 1100}],
    "gemma4": [
        {
            "text_config": {
                **SMALL,
                "model_type": "gemma4_text",
                "num_hidden_layers": 6,
                "head_dim": 16,
                "global_head_dim": 32,
                "num_kv_shared_layers": 2,
                "layer_types": ["sliding_attention", "full_attention"] * 3,
                "vocab_size_per_layer_input": 352,
                "hidden_size_per_layer_input": 24,
            },
            "vision_config": None,
            "audio_config": None,
        }
    ],
    "gemma4_text": [
        {
            **SMALL,
            "num_hidden_layers": 7,
            "head_dim": 16,
            "global_head_dim": 32,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
        },
        {
            **SMALL,
            "num_hidden_layers": 7,
            "head_dim": 16,
            "global_head_dim": 32,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 24,
        },
    ],
    "gemma4_unified": [
        {
            "text_config": {
                **SMALL,
                "model_type": "gemma4_unified_text",
                "num_hidden_layers": 7,
                "head_dim": 16,
                "global_head_dim": 32,
                "num_global_key_value_heads": 1,
                "attention_k_eq_v": True,
            },
            "vision_config": {"patch_size": 4, "mm_embed_dim": 40, "mm_posemb_size": 6, "output_proj_dims": 40},
            "audio_config": {"audio_embed_dim": 24},
        }
    ],
    "minicpm3": [{**LATENT, "tie_word_embeddings": False}],
    "jamba": [{**SMALL, "num_hidden_layers": 8, "num_experts": 3, "mamba_dt_rank": 5}],
    "bamba": [{**SMALL, **MAMBA, "attn_layer_indices": [1]}],
    "falcon_h1": [
        {**SMALL, **MAMBA, "mamba_d_ssm": 192},
        {**SMALL, **MAMBA, "mamba_d_ssm": None, "mamba_rms_norm": True},
    ],
    "granitemoehybrid": [
        {**SMALL, **MAMBA, "num_local_experts": 0, "layer_types": ["mamba", "attention", "mamba"]},
        {**SMALL, **MAMBA, "num_local_experts": 3, "shared_intermediate_size": 48},
    ],
    "lfm2": [
        {**SMALL, "layer_types": ["conv", "full_attention", "conv"]},
        {**SMALL, "block_auto_adjust_ff_dim": False},
    ],
    "lfm3": [
        {**SMALL, "pad_token_id": 0, "head_dim": 24, "layer_types": ["conv", "sliding_attention", "full_attention"]},
        {
            **SMALL,
            "pad_token_id": 0,
            "num_hidden_layers": 6,
            "use_sandwich_norm": False,
            "use_attention_gate": False,
            "conv_bias": True,
        },
    ],
    "lfm2_moe": [{**EXPERTS, "layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1}],
    "nemotron_h": [
        {
            "hidden_size": 96,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "mamba_num_heads": 6,
            "mamba_head_dim": 16,
            "n_groups": 2,
            "vocab_size": 300,
            "hybrid_override_pattern": "M-M*-E",
            "moe_latent_size": 24,
            "moe_intermediate_size": 40,
        }
    ],
    "qwen3_next": [{**EXPERTS, "num_hidden_layers": 5, "shared_expert_intermediate_size": 48, "mlp_only_layers": [2]}],
    "qwen3_5_text": [{**SMALL, "num_hidden_layers": 5, "head_dim": 16}],
    "kimi_linear": [
        {
            **LATENT,
            "pad_token_id": 0,
            "num_experts": 5,
            "moe_intermediate_size": 40,
            "num_hidden_layers": 6,
            "q_lora_rank": None,
        }
    ],
    "llava": [
        {"text_config": text("llama"), "vision_config": CLIP},
        {"text_config": text("mistral", head_dim=24), "vision_config": PIXTRAL, "vision_feature_layer": -1},
        {"text_config": text("qwen2"), "vision_config": SIGLIP, "multimodal_projector_bias": False},
    ],
    "llava_next": [{"text_config": text("mistral", head_dim=16), "vision_config": CLIP}],
    "llava_next_video": [{"text_config": text("llama"), "vision_config": CLIP}],
    "llava_onevision": [{"text_config": text("qwen2"), "vision_config": SIGLIP}],
    "vipllava": [{"text_config": text("llama"), "vision_config": CLIP}],
    "internvl": [
        {
            "text_config": text("qwen2"),
            "vision_config": {**CLIP, "model_type": "internvl_vision", "attention_bias": True, "use_qk_norm": True},
            "tie_word_embeddings": False,
        }
    ],
    "qianfan_ocr": [
        {
            "text_config": text("qwen3", head_dim=16),
            "vision_config": {**CLIP, "model_type": "qianfan_ocr_vision", "attention_bias": True, "use_qk_norm": True},
            "tie_word_embeddings": False,
        }
    ],
    "ovis2": [
        {
            "text_config": text("qwen2"),
            "vision_config": {**CLIP, "model_type": "ovis2_vision", "vocab_size": 64, "hidden_stride": 2},
            "hidden_size": 96,
            "vocab_size": 352,
        }
    ],
    "deepseek_vl": [{"text_config": text("llama"), "vision_config": {**CLIP, "model_type": "siglip_vision_model"}}],
    "gemma3": [{"text_config": text("gemma3_text", head_dim=16), "vision_config": SIGLIP}],
    "shieldgemma2": [{"text_config": text("gemma3_text", head_dim=16), "vision_config": SIGLIP}],
    "paligemma": [
        {
            "text_config": text("gemma2", head_dim=16),
            "vision_config": {**SIGLIP, "projection_dim": 96},
            "projection_dim": 96,
        }
    ],
    "idefics3": [{"text_config": text("llama"), "vision_config": {**CLIP, "model_type": "idefics3_vision"}}],
    "smolvlm": [{"text_config": text("llama"), "vision_config": {**CLIP, "model_type": "smolvlm_vision"}}],
    "mistral3": [{"text_config": text("mistral", head_dim=16), "vision_config": PIXTRAL, "tie_word_embeddings": False}],
    "qwen2_vl": [
        {
            **SMALL,
            "vision_config": {"depth": 2, "embed_dim": 32, "num_heads": 4, "hidden_size": 96},
            "tie_word_embeddings": True,
        }
    ],
    "qwen2_5_vl": [{**SMALL, "vision_config": {**QWEN_VISION, "intermediate_size": 60, "out_hidden_size": 96}}],
    "qwen3_vl": [
        {
            "text_config": {**SMALL, "head_dim": 16},
            "vision_config": {
                **QWEN_VISION,
                "intermediate_size": 60,
                "out_hidden_size": 96,
                "deepstack_visual_indexes": [0, 1],
            },
        }
    ],
    "hunyuan_vl": [
        {
            "text_config": text("hunyuan_vl_text", head_dim=16),
            "vision_config": {
                **CLIP,
                "model_type": "hunyuan_vl_vision",
                "text_hidden_size": 96,
                "max_image_size": 56,
            },
        }
    ],
    "ernie4_5_vl_moe": [
        {
            "text_config": text(
                "ernie4_5_vl_moe_text",
                moe_num_experts=4,
                moe_k=2,
                moe_intermediate_size=[40, 24],
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]},
                tie_word_embeddings=True,
            ),
            "vision_config": {**QWEN_VISION, "intermediate_size": 72},
        }
    ],
    "qwen3_asr": [
        {
            "text_config": text("qwen3", head_dim=16, tie_word_embeddings=True),
            "audio_config": {
                **WHISPER,
                "model_type": "qwen3_asr_encoder",
                "downsample_hidden_size": 8,
                "output_dim": 96,
            },
        }
    ],
    "paddleocr_vl": [
        {
            "text_config": text("paddleocr_vl_text", head_dim=16, tie_word_embeddings=True),
            "vision_config": {**CLIP, "model_type": "paddleocr_vl_vision", "spatial_merge_size": 2},
        }
    ],
    "glm_ocr": [
        {
            "text_config": text("glm_ocr_text", head_dim=16, pad_token_id=0),
            "vision_config": {**QWEN_VISION, "intermediate_size": 72, "out_hidden_size": 96, "in_channels": 3},
        }
    ],
    "glm46v": [GLM_4V],
    "glmga": [GLM_4V],
    "lighton_ocr": [{"text_config": text("qwen3", head_dim=16), "vision_config": PIXTRAL}],
    "video_llava": [{"text_config": text("llama"), "vision_config": CLIP}],
    "exaone4_5": [
        {
            "text_config": text("exaone4"),
            "vision_config": {
                **QWEN_VISION,
                "num_key_value_heads": 2,
                "intermediate_size": 72,
                "out_hidden_size": 96,
                "fullatt_block_indexes": [1],
            },
        }
    ],
    "hyperclovax_vision_v2": [
        {
            "text_config": text("hyperclovax", use_post_norm=True),
            "vision_config": {
                **QWEN_VISION,
                "model_type": "qwen2_5_vl_vision",
                "intermediate_size": 72,
                "out_hidden_size": 80,
                "fullatt_block_indexes": [1],
            },
        }
    ],
    "idefics2": [
        {
            "text_config": text("mistral", head_dim=16),
            "vision_config": {**CLIP, "model_type": "idefics2_vision"},
            "perceiver_config": {
                "hidden_size": 96,
                "resampler_depth": 2,
                "resampler_n_heads": 4,
                "resampler_head_dim": 8,
            },
        }
    ],
    "minicpmv4_6": [
        {
            "text_config": text("qwen3_5_text", num_hidden_layers=4, head_dim=16),
            "vision_config": {**CLIP, "model_type": "minicpmv4_6_vision", "insert_layer_id": 1},
            "insert_layer_id": 1,
        }
    ],
    "minicpmv4_7": [
        {
            "text_config": text("qwen3_5_text", num_hidden_layers=4, head_dim=16),
            "vision_config": {**CLIP, "model_type": "minicpmv4_7_vision", "insert_layer_id": 1},
            "insert_layer_id": 1,
        }
    ],
    "minicpm_ocr": [
        {
            "text_config": text("qwen3_5_text", num_hidden_layers=4, head_dim=16),
            "vision_config": {**CLIP, "model_type": "minicpm_ocr_vision", "insert_layer_id": 1},
            "insert_layer_id": 1,
        }
    ],
    "qwen2_audio": [{"text_config": text("qwen2"), "audio_config": {"model_type": "qwen2_audio_encoder", **WHISPER}}],
    "voxtral": [
        {
            "text_config": text("llama", head_dim=16),
            "audio_config": {
                "model_type": "voxtral_encoder",
                "hidden_size": 32,
                "intermediate_size": 80,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_mel_bins": 16,
                "max_source_positions": 100,
            },
        }
    ],
    "muse_glimmer": [
        {
            "text_config": {**SMALL, "head_dim": 24, **ROPE},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 40,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "pos_emb_height": 6,
                "pos_emb_width": 6,
            },
            "projector_hidden_size": 48,
            "out_hidden_size": 128,
        }
    ],
    "video_llama_3": [
        {"text_config": text("qwen2"), "vision_config": {**CLIP, "model_type": "video_llama_3_vision"}},
    ],
    "lfm3_vl": [
        {
            "text_config": text("lfm3", pad_token_id=0),
            "vision_config": {
                **{name: CLIP[name] for name in ("hidden_size", "intermediate_size", "num_attention_heads")},
                "num_hidden_layers": 3,
                "num_key_value_heads": 2,
                "layer_types": ["conv", "full_attention", "conv"],
            },
            "projector_hidden_size": 48,
        }
    ],
    "granite_docling": [
        {
            "text_config": {**SMALL, "pad_token_id": 0},
            "vision_config": {**CLIP, "image_size": 64, "patch_size": 16, "model_type": "granite_docling_vision"}
            | {"out_hidden_size": 96, "deepstack_visual_indexes": [0, 1]},
            "pad_token_id": 0,
        }
    ],
    "granite4_vision": [
        {
            "text_config": {**SMALL, "num_hidden_layers": 4},
            "vision_config": {**SIGLIP, "hidden_size": 64},
            "downsample_rate": "1/2",
            "deepstack_layer_map": [[-1, 0], [-2, 1]],
            "spatial_target_layers": [0, 1, 2, 3],
        }
    ],
    "got_ocr2": [{"text_config": text("qwen2"), "vision_config": {**SAM, "output_channels": 16}}],
    "deepseek_vl_hybrid": [
        {
            "text_config": text("llama"),
            "vision_config": SIGLIP,
            "high_res_vision_config": {"model_type": "sam_vision_model", **SAM, "output_channels": 16},
        }
    ],
    "deepseek_ocr2": [
        {
            "text_config": {
                **SMALL,
                **ROUTED,
                "num_key_value_heads": 6,
                "mlp_layer_types": ["dense", "sparse", "sparse"],
            },
            "vision_config": {
                "sam_config": SAM,
                "encoder_config": {**SMALL, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2},
            },
        }
    ],
    "glmasr": [
        {
            "text_config": text("llama"),
            "audio_config": {
                "model_type": "glmasr_encoder",
                "hidden_size": 32,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_mel_bins": 16,
            },
        }
    ],
    "aria": [
        {
            "text_config": {**SMALL, "moe_num_experts": 5, "pad_token_id": 0},
            "vision_config": {**CLIP, "model_type": "idefics3_vision"},
            "projector_patch_to_query_dict": {"16": 9},
        }
    ],
    "aria_text": [{**SMALL, "moe_num_experts": 5, "pad_token_id": 0}],
    "granitemoe_swa": [{**SMALL, "num_local_experts": 4}],
    "molmo2": [
        {
            "text_config": {**SMALL, "head_dim": 16, "additional_vocab_size": 8},
            "vision_config": {**SIGLIP, "num_key_value_heads": 4, "head_dim": 8, "image_size": [56, 56]}
            | {"model_type": "molmo2_vision"},
            "adapter_config": {
                "hidden_size": 32,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 8,
                "intermediate_size": 72,
                "text_hidden_size": 96,
                "vision_feature_layer": [0, 1],
            },
        },
        {
            "text_config": {**SMALL, "head_dim": 16, "qkv_bias": True, "qk_norm_type": "olmo"},
            "vit_config": {
                "hidden_size": 32,
                "intermediate_size": 72,
                "num_hidden_layers": 5,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 8,
                "image_default_input_size": [56, 56],
                "image_num_pos": 16,
                "image_patch_size": 14,
            },
            "adapter_config": {"vit_layers": [-3, -2], "text_hidden_size": 96},
        },
    ],
    "fuyu": [{"text_config": text("persimmon"), "hidden_size": 96, "vocab_size": 352, "num_hidden_layers": 3}],
    "olmo_hybrid": [
        {
            **SMALL,
            "pad_token_id": 0,
            "num_hidden_layers": 4,
            "linear_num_key_heads": 3,
            "linear_num_value_heads": 6,
            "layer_types": ["linear_attention", "full_attention"] * 2,
        },
        {**SMALL, "pad_token_id": 0, **ROPE},
    ],
    "mllama": [
        {
            "text_config": {
                **SMALL,
                "num_hidden_layers": 5,
                "cross_attention_layers": [1, 3],
                "pad_token_id": 0,
                **ROPE,
            },
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 3,
                "num_global_layers": 2,
                "intermediate_size": 80,
                "attention_heads": 4,
            },
        }
    ],
}
# Classes that do not build from their defaults (their own validation, or a missing optional package).
NO_DEFAULTS = {"ministral", "hunyuan_v1_dense", "hunyuan_v1_moe", "nemotron", "dbrx", "dots1", "lfm2_moe"} | {
    "idefics3", "internvl", "llava", "llava_next", "llava_next_video", "llava_onevision", "mistral3", "paligemma",
    "qwen2_audio", "smolvlm", "vipllava", "voxtral", "shieldgemma2", "aya_vision", "cohere2_vision", "lfm2_vl",
    "kimi_k25", "mpnet", "video_llava", "lighton_ocr", "idefics2", "hyperclovax_vision_v2",
    "exaone4_5", "minicpmv4_6", "minicpmv4_7", "minicpm_ocr", "qianfan_ocr", "deepseek_vl", "ovis2", "hunyuan_vl",
    "qwen3_asr", "granite4_vision", "deepseek_ocr2", "lfm3_vl", "video_llama_3", "fuyu", "deepseek_vl_hybrid",
    "glmasr", "got_ocr2", "esm", "cohere_compass_text", "cohere_compass",
}  # fmt: skip
