"""What decoder layers do otherwise than Llama's, by the beginning of their class name.

Sources are the models' own files in transformers 5.23 (models/<family>/modeling_<family>.py).
"""

from __future__ import annotations

# RMSNorms multiply by their weight before they cast back.
SCALES_IN_SINGLE = ("Olmo2", "Olmo3", "FlexOlmo", "NemotronH")
# Queries and keys are rotated before they are normed.
NORM_AFTER_ROTARY = ("HunYuan",)
# Queries and keys are cast to fp32 before they are rotated.
ROTATES_IN_SINGLE = ("Cohere", "Ernie4_5", "Glm4vVision", "Qwen2VLVision", "Qwen2_5_VLVision", "Qwen3VLVision")
# Pairs of fp32 numbers are rotated as complex ones, in one product.
ROTATES_AS_COMPLEX = ("Llama4Vision",)
# Two halves of a head are rotated on their own and joined.
ROTATES_BY_AXIS = ("Gemma4Vision",)
# Cosine and sine stay fp32, and so do the products with them.
SINGLE_COSINE = ("Olmo",)
# What is rotated is cast back to what it was; else it takes the wider dtype of cosine and sine.
CASTS_ROTATED = ("Olmo", "FlexOlmo", "Llama4", "DeepseekV2")
# `softmax(scores)` names no dtype: fp32 under autocast, else that of the scores.
SOFTMAX_AS_GIVEN = ("GPT2", "FalconDecoder", "Llama4", "BioGpt", "XGLM", "Block", "GPTNeoXJapanese", "InternVLVision")
# A column of sinks is joined to the scores and cut off behind the softmax, all in the scores' dtype.
JOINED_SINKS = ("GptOss",)
# Layers that return their attention weights, so that a checkpointed one gives them a gradient of zeros.
RETURNS_WEIGHTS = ("Bloom", "GPTJ", "CodeGen", "Mpt", "Bamba")
# Every expert reads every token, times a score that is zero for most.
EVERY_EXPERT = ("Llama4",)
# Routers whose scores stay fp32, and so do the experts' results times their score.
SINGLE_SCORES = ("Mixtral", "DeepseekV2", "MiniMaxM2", "Gemma4")
# The router's product is asked for in fp32, which autocast undoes, and nothing casts its scores afterwards.
SINGLE_PRODUCT = ("DeepseekV3", "Glm4Moe", "Dots1", "ExaoneMoe", "NemotronH")
# The query projection gives an output gate too.
GATED_QUERY = ("Qwen3Next", "Qwen3_5")
# Norms before the output projection of attention and before the down projection.
INNER_NORMS = ("BitNet",)
# Outside of FlashAttention each image (or window) attends on its own, and the results are joined.
ATTENDS_BY_IMAGE = ("Glm4vVision", "Qwen2VLVision", "Qwen2_5_VLVision", "Qwen3VLVision")
# Keys, gates and what the MLP and the state-space scan read and give are multiplied by numbers.
MULTIPLIES = ("FalconH1",)
