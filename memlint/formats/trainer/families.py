"""What PEFT, and so the Trainer and TRL with it, does for some model families."""

from __future__ import annotations

# What LoRA targets when nothing is said (peft 0.21.2 utils/constants.py).
DEFAULT_LORA_TARGETS = {
    **dict.fromkeys(("bloom", "gpt_neox", "chatglm", "falcon", "RefinedWeb", "RefinedWebModel"), ("query_key_value",)),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), ("c_attn",)),
    **dict.fromkeys(("t5", "mt5"), ("q", "v")),
    "mpt": ("Wqkv",),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "codegen": ("qkv_proj",),
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
MOST_LORA_TARGETS = ("q_proj", "v_proj")  # of all others that are not listed

# Those that no transformers 4 has: 4.57.6, the last, has neither models/qwen3_5 nor models/gemma4.
ONLY_IN_TRANSFORMERS_5 = frozenset(
    {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "gemma4", "gemma4_text"}
)

# Their own code makes each layer in the `torch_dtype` of config.json, whatever from_pretrained's default is
# (modeling_chatglm.py of chatglm2, chatglm3 and glm-4, `_config_to_kwargs`). Up to 4.48.3 transformers leaves that
# value as it is where no dtype is asked for (modeling_utils.py:4037).
MADE_IN_DTYPE_OF_CONFIG = frozenset({"chatglm"})
LEAVES_DTYPE_OF_CONFIG = (4, 48)
