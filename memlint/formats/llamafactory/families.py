"""What LLaMA-Factory (v0.9.5 and main at ff6d4d12e) does for some model families, by model_type."""

from __future__ import annotations

# src/llamafactory/model/model_utils/visual.py:213-451, _register_composite_model: where the freeze_* switches work.
COMPOSITE_MODELS = frozenset(
    {
        *("dots_ocr", "gemma3", "gemma3n", "gemma4", "glm4v", "glm4v_moe", "glm_ocr", "internvl", "interns1", "Keye"),
        *("kimi_vl", "llama4", "llava", "llava_next", "llava_next_video", "minicpmv", "minicpmv4_6", "minicpmo"),
        *("mistral3", "moss_vl", "mllama", "paligemma", "qwen2_audio", "qwen2_5_omni_thinker", "qwen2_vl"),
        *("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker", "qwen3_5", "qwen3_5_moe"),
        "video_llava",
    }
)

# model_utils/liger_kernel.py:42-92: every other model_type gets no Liger kernel, with a warning in the log.
LIGER_MODELS = frozenset(
    {
        *("gemma", "gemma2", "gemma3", "gemma3_text", "glm", "glm4", "glm4v", "granite", "llama", "llava", "mistral"),
        *("mixtral", "mllama", "olmo2", "paligemma", "phi3", "qwen2", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe"),
        *("qwen3_next", "qwen3_5", "qwen3_5_moe", "gpt_oss"),
    }
)
# liger_kernel 0.8.5 monkey_patch.py:184: `fused_linear_cross_entropy: bool = False`, `cross_entropy: bool = True`.
LIGER_WITHOUT_FUSED_LOSS = frozenset({"granite"})

# src/llamafactory/v1/plugins/model_plugins/kernels/liger_kernel_ops.py:33
LIGER_MODELS_V1 = frozenset(
    {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}
)

SHIFT_ATTENTION_MODELS = frozenset({"llama"})  # extras/constants.py:136

# model_utils/attention.py:34 and :46. FlashAttention 3 whatever is asked for; `auto` means FlashAttention 2 where
# flash-attn is installed, else eager; `auto` and `sdpa` mean eager.
LOADS_FLASH_3 = frozenset({"gpt_oss"})
AUTO_IS_FLASH_2_OR_EAGER = frozenset({"gemma2"})
EAGER_UNLESS_FLASH = frozenset({"youtu", "youtu_vl"})

WITHOUT_CHECKPOINTING = frozenset({"gemma3n"})  # model/patcher.py:477
