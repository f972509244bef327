"""Routers that several families have (transformers 5.23 models/*/modeling_*.py, classes with Router in their names)."""

from __future__ import annotations

from memlint.memory.families.traits import RouterTraits

# models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3TopkRouter: `F.linear(x.type(fp32), weight.type(fp32))`,
# a sigmoid, and nothing that casts afterwards
SIGMOID_IN_FP32 = RouterTraits(fp32_product=True, scores="product", result="scores")
# models/deepseek_v2/modeling_deepseek_v2.py, DeepseekV2TopkRouter
SOFTMAX_IN_FP32 = RouterTraits(fp32_product=True, result="scores")
# models/mixtral/modeling_mixtral.py, MixtralTopKRouter; models/minimax_m2/modeling_minimax_m2.py, MiniMaxM2TopKRouter
KEEPS_FP32 = RouterTraits(result="scores")
# models/jamba/modeling_jamba.py, JambaTopKRouter
IN_INPUT_DTYPE = RouterTraits(result="input")
# models/granitemoe/modeling_granitemoe.py, GraniteMoeTopKRouter
CHOSEN_FIRST = RouterTraits(result="input", chosen_first=True)
# models/ernie4_5_moe/modeling_ernie4_5_moe.py, Ernie4_5_MoeTopKRouter
OUTSIDE_AUTOCAST = RouterTraits(fp32_product=True, leaves_autocast=True, result="input")
