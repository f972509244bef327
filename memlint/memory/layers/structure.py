"""What the recording of a decoder layer depends on: its structure, not its sizes.

A recording names the sizes of tensors and never reads them, so that models of one family share it. Of most numbers of
a layer the code only asks whether they are there at all, and of the kernels only those that the layer runs.
"""

from __future__ import annotations

from memlint.architectures.model import DecoderLayer, Mlp, TokenMixer
from memlint.memory.families.lookup import of_layer
from memlint.memory.layers.kernel_config import FLASH, KernelConfig
from memlint.memory.state.parameter_roles import Roles


def structure(layer: DecoderLayer) -> DecoderLayer:
    """The layer with every size replaced by the least one that gives the same recording, without its weights."""
    beside = layer.parallel_ssm
    return layer._replace(
        attention=_mixer(layer.attention),
        mlp=_mlp(layer.mlp),
        weights=(),
        parallel_ssm=None if beside is None else _mixer(beside),
    )


def _mixer(mixer: TokenMixer) -> TokenMixer:
    """Heads: as many as keys and values have, or more. Heads of values: as wide as those of queries, or not. Rotary
    embedding: over none, a part or all of each head."""
    partly_rotated = 0 < mixer.rotary_fraction < 1
    return mixer._replace(
        heads=1 if mixer.heads == mixer.kv_heads else 2,
        kv_heads=1,
        head_dim=_is_there(mixer.head_dim),
        value_head_dim=_is_there(mixer.value_head_dim) + (mixer.value_head_dim not in (0, mixer.head_dim)),
        q_lora_rank=_is_there(mixer.q_lora_rank),
        kv_lora_rank=_is_there(mixer.kv_lora_rank),
        rope_head_dim=_is_there(mixer.rope_head_dim),
        sliding_window=0,
        rotary_fraction=0.5 if partly_rotated else float(mixer.rotary_fraction >= 1),
        dropout=float(mixer.dropout > 0),
        conv_kernel=_is_there(mixer.conv_kernel),
        state_size=_is_there(mixer.state_size),
        chunk_size=_is_there(mixer.chunk_size),
        relative_rows=_is_there(mixer.relative_rows),
    )


def _mlp(mlp: Mlp) -> Mlp:
    return mlp._replace(
        intermediate_size=_is_there(mlp.intermediate_size),
        dropout=float(mlp.dropout > 0),
        experts=_is_there(mlp.experts),
        experts_per_token=_is_there(mlp.experts_per_token),
        expert_intermediate_size=_is_there(mlp.expert_intermediate_size),
        expert_hidden_size=_is_there(mlp.expert_hidden_size),
        shared_intermediate_size=_is_there(mlp.shared_intermediate_size),
    )


_DEFAULTS = KernelConfig()


def kernels_in_use(layer: DecoderLayer, roles: Roles, kernels: KernelConfig) -> KernelConfig:
    """The kernels with defaults for those that the layer does not run."""
    kinds = (layer.attention.kind, layer.parallel_ssm.kind if layer.parallel_ssm is not None else "")
    if "gated_delta" not in kinds:
        kernels = kernels._replace(delta_rule=_DEFAULTS.delta_rule)
    if "mamba2" not in kinds:
        kernels = kernels._replace(scan=_DEFAULTS.scan)
    if not layer.mlp.experts:
        kernels = kernels._replace(experts=_DEFAULTS.experts)
    if not any(weight.quantized for _, weight in roles.experts):
        kernels = kernels._replace(dequantized_width=_DEFAULTS.dequantized_width)
    if kernels.unpacks_with and not any(linear.weight.quantized for _, linear in roles.linears):
        kernels = kernels._replace(unpacks_with=_DEFAULTS.unpacks_with)
    if kernels.fused_adapters and not any(linear.down for _, linear in roles.linears):
        kernels = kernels._replace(fused_adapters=_DEFAULTS.fused_adapters)
    if kernels.keeps_linear_inputs and not _has_frozen_linear(roles):
        kernels = kernels._replace(keeps_linear_inputs=_DEFAULTS.keeps_linear_inputs)
    if kernels.attention in FLASH and not _depends_on_fused_kernel(layer):
        kernels = kernels._replace(attention=_DEFAULTS.attention)
    if kernels.attention != "eager":
        kernels = kernels._replace(softmax_keeps_dtype=_DEFAULTS.softmax_keeps_dtype, returns_weights=False)
        if not any(linear.weight.int8_product for _, linear in roles.linears):
            kernels = kernels._replace(bfloat16=_DEFAULTS.bfloat16)
    return kernels


def _depends_on_fused_kernel(layer: DecoderLayer) -> bool:
    """Whether fused kernels of attention differ in what they keep: where values are padded to the width of queries,
    where the keys to attend to are a mask, and where images of a packed sequence are attended to one by one."""
    mixer = layer.attention
    pads = mixer.value_head_dim not in (0, mixer.head_dim)
    return pads or mixer.masks_choice or of_layer(layer.class_name).attention.image_by_image


def _has_frozen_linear(roles: Roles) -> bool:
    """Whether a product of the layer may have a weight that is neither trained nor quantised: of others autograd keeps
    the input anyway, or the quantised product is another function."""
    linears = (part for _, one in roles.linears for part in (one.weight, one.down, one.up, one.rotation))
    weights = (*linears, *(one for _, one in roles.experts), roles.router)
    return any(one is not None and not one.trainable and not one.quantized for one in weights)


def _is_there(size: int) -> int:
    return int(size > 0)
