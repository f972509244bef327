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

# model/loader.py:180 (0.9.4): of these models the thinker alone is kept, and its model_type is looked up above.
PART_THAT_TRAINS = {"qwen2_5_omni": "qwen2_5_omni_thinker", "qwen3_omni_moe": "qwen3_omni_moe_thinker"}

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

# Chat templates of the main branch after 0.9.5 alone.
NEWER_TEMPLATES = frozenset({"gpt", "moss_vl"})
# Chat templates of releases 0.9.0 to 0.9.5 (data/template.py, `register_template`), and of 0.8.
TEMPLATES = frozenset(
    {
        *("aeva", "alpaca", "aquila", "atom", "baichuan", "baichuan2", "bailing", "bailing_v2", "belle"),
        *("bluelm", "breeze", "chatglm2", "chatglm3", "chatml", "chatml_de", "codegeex2", "codegeex4"),
        *("cohere", "cpm", "cpm3", "cpm4", "custom", "dbrx", "deepseek", "deepseek3", "deepseekcoder"),
        *("deepseekr1", "default", "dots_ocr", "empty", "ernie", "ernie_nothink", "ernie_vl", "exaone"),
        *("falcon", "falcon_h1", "fewshot", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4n"),
        *("glm4", "glm4_5v", "glm4_7", "glm4_moe", "glm4v", "glm_ocr", "glmz1", "gpt_oss", "granite3"),
        *("granite3_vision", "granite4", "hunyuan", "hunyuan_small", "hy3", "index", "intern", "intern2"),
        *("intern_s1", "intern_vl", "keye_vl", "kimi_vl", "lfm2", "lfm2_vl", "llama2", "llama2_zh", "llama3"),
        *("llama4", "llava", "llava_next", "llava_next_llama3", "llava_next_mistral", "llava_next_qwen"),
        *("llava_next_video", "llava_next_video_mistral", "llava_next_video_yi", "llava_next_yi", "marco"),
        *("mimo", "mimo_v2", "mimo_vl", "minicpm_o", "minicpm_v", "minicpm_v_4_6", "minimax1", "minimax2"),
        *("ministral", "ministral3", "mistral", "mistral_small", "mllama", "moonlight", "olmo", "openchat"),
        *("openchat-3.6", "opencoder", "orion", "paligemma", "paligemma_chat", "phi", "phi4", "phi4_mini"),
        *("phi_small", "pixtral", "qwen", "qwen2_audio", "qwen2_omni", "qwen2_vl", "qwen3", "qwen3_5"),
        *("qwen3_5_nothink", "qwen3_6", "qwen3_nothink", "qwen3_omni", "qwen3_omni_nothink", "qwen3_vl"),
        *("qwen3_vl_nothink", "sailor", "seed_coder", "seed_oss", "skywork_o1", "smollm", "smollm2", "solar"),
        *("starchat", "telechat", "telechat2", "vanilla", "vicuna", "video_llava", "xuanyuan", "xverse"),
        *("yayi", "yi", "yi_vl", "youtu", "youtu_vl", "yuan", "zephyr", "ziya"),
    }
)
# Those whose plug-in takes images or videos (0.9.5 data/template.py, `mm_plugin=` with an `image_token`). Any other
# refuses a sample with an image (data/mm_plugin.py, _validate_input), and gets no dummy image (data/collator.py).
IMAGE_TEMPLATES = frozenset(
    {
        *("dots_ocr", "ernie_vl", "gemma3", "gemma3n", "gemma4", "gemma4n", "glm4_5v", "glm4v", "glm_ocr"),
        *("granite3_vision", "intern_s1", "intern_vl", "keye_vl", "kimi_vl", "lfm2_vl", "llama4", "llava"),
        *("llava_next", "llava_next_llama3", "llava_next_mistral", "llava_next_qwen", "llava_next_video"),
        *("llava_next_video_mistral", "llava_next_video_yi", "llava_next_yi", "mimo_vl", "minicpm_o", "minicpm_v"),
        *("minicpm_v_4_6", "ministral3", "mistral_small", "mllama", "paligemma", "paligemma_chat", "pixtral"),
        *("qwen2_omni", "qwen2_vl", "qwen3_5", "qwen3_5_nothink", "qwen3_6", "qwen3_omni", "qwen3_omni_nothink"),
        *("qwen3_vl", "qwen3_vl_nothink", "video_llava", "yi_vl", "youtu_vl"),
    }
)
# What models are called, where the template has another name.
MEANT_TEMPLATES = {
    **dict.fromkeys(("qwen2", "qwen2.5", "qwen2_5", "qwen1.5", "qwen1_5", "qwen25"), "qwen"),
    **dict.fromkeys(("llama3.1", "llama31", "llama3_1", "llama3.2", "llama3.3", "llama-3.1"), "llama3"),
    **dict.fromkeys(("qwen2.5_vl", "qwen2_5_vl", "qwen2.5-vl", "qwen25_vl"), "qwen2_vl"),
}
