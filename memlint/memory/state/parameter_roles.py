"""The part of each parameter in its layer (query, gate, ...), with its adapter, bias and dtype."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from memlint._record import NamedTuple
from memlint.identity_cache import IdentityCache
from memlint.memory.autograd.tape import Parameter
from memlint.memory.state.adapters import LINEAR_ROUTERS, matches
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor

# The last component of a module's name -> its part in the block. Names of transformers 5.23 models.
_PARTS = {
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "o_proj": "output",
    "out_proj": "output",
    "projection_layer": "output",
    "wo": "output",
    "qkv_proj": "query_key_value",
    "query_key_value": "query_key_value",
    "Wqkv": "query_key_value",
    "c_attn": "query_key_value",
    "W_pack": "query_key_value",
    "wqkv": "query_key_value",
    "qkv": "query_key_value",
    "att_proj": "query_key_value",
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
    "gate_up_proj": "gate_up",
    "fc1": "up",
    "fc2": "down",
    "c_fc": "up",
    "c_fc_0": "gate",
    "c_fc_1": "up",
    "dense_h_to_4h": "up",
    "dense_4h_to_h": "down",
    "fc_in": "up",
    "fc_out": "down",
    "w1": "gate",
    "w3": "up",
    "w2": "down",
    "linear_fc1": "up",
    "linear_fc2": "down",
    "input_linear": "gate_up",
    "output_linear": "down",
    "q_a_proj": "query_down",
    "q_b_proj": "query_up",
    "kv_a_proj_with_mqa": "latent_down",
    "kv_b_proj": "latent_up",
    "in_proj": "in_projection",
    "in_proj_qkvz": "in_projection",
    "in_proj_ba": "gate_projection",
    "q_lin": "query",
    "k_lin": "key",
    "v_lin": "value",
    "out_lin": "output",
    "query_proj": "query",
    "key_proj": "key",
    "value_proj": "value",
    "lin1": "up",
    "lin2": "down",
    "Wi": "gate_up",
    "wi": "up",
    "wi_0": "gate",
    "wi_1": "up",
    "vocab_transform": "transform",
    "x_proj": "x_projection",
    "dt_proj": "dt_projection",
}
# Names with one meaning in attention and another one in the MLP.
_AMBIGUOUS = {
    "dense": ("output", "down"),
    "c_proj": ("output", "down"),
    "proj": ("output", "down"),
    "Wo": ("output", "down"),
}
_PROJECTIONS = ("linear", "head", "embedding")
_ATTENTION_OWNERS = ("self_attn", "attn", "attention", "self_attention", "mixer", "temporal_block")


ROUTER = "router"
_EXPERT_PREFIX = "expert_"
_OUTPUT_GATES = ("self_attn.gate_proj", "self_attn.g_proj")  # of attention, a projection of its own
_HEAD_NORMS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_layernorm", "key_layernorm")


class Linear(NamedTuple):
    """One projection: its weight, and its adapter if it has one. `rank` names the adapter's activation extent."""

    weight: Parameter
    bias: Parameter | None = None
    rank: str = ""
    down: Parameter | None = None  # lora_A
    up: Parameter | None = None  # lora_B
    dropout: bool = False
    magnitude: Parameter | None = None  # DoRA
    casts: bool = True  # the adapter's input is cast to the adapter's dtype, also under autocast
    rotation: Parameter | None = None  # OFT
    fused: bool = False  # one op with its adapter (blocks/fused_adapter.py)


class Roles(NamedTuple):
    """A layer's projections by part, and its other parameters. Layers with equal roles run the same code."""

    linears: tuple[tuple[str, Linear], ...]
    norm: Parameter | None
    head_norm: Parameter | None
    experts: tuple[tuple[str, Parameter], ...] = ()
    router: Parameter | None = None
    convolution: Parameter | None = None
    scale: Parameter | None = None  # LayerScale: a vector that multiplies the output of attention and MLP (`lambda_1`)
    expert_linears: tuple[tuple[str, Linear], ...] = ()  # adapted; read where experts are linear layers


def part_of(name: str) -> str:
    """The part of a weight in its layer: "query" for "self_attn.q_proj.weight"."""
    names = name.split(".")
    is_parameter = names[-1] not in ("weight", "bias")  # stacked experts are parameters of their own
    module = names[-1] if is_parameter or len(names) == 1 else names[-2]
    shared = "shared_" if any("shared" in piece for piece in names) else ""
    found = _PARTS.get(module)
    if found is None and module in _AMBIGUOUS:
        found = _AMBIGUOUS[module][0 if names[0] in _ATTENTION_OWNERS else 1]
    return shared + (found or module)


_MAGNITUDE = ".lora_magnitude_vector"
_ROTATION = ".oft_R"
# PEFT's layers over these cast the input without autocast only; over dense and GPTQ ones always (peft 0.21.2
# tuners/lora/bnb.py:543, awq.py:70, aqlm.py:71, hqq.py:172, eetq.py:80; layer.py:1100, gptq.py:93).
_ALWAYS_CASTS = ("gptq",)
_PART_CACHE = IdentityCache(16)
_ROLE_CACHE = IdentityCache(16)


def part_names(tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
    """The part of each tensor; an adapter's tensors have the part of their base weight as a prefix."""
    known: tuple[str, ...] | None = _PART_CACHE.get(tensors)
    return known if known is not None else _PART_CACHE.put(_parts_by_structure(_structure(tensors), tensors), tensors)


Structure = tuple[tuple[str, str, str, bool], ...]


def _structure(tensors: tuple[Tensor, ...]) -> Structure:
    """What parts and roles depend on: all but sizes. Models of one family under one method have the same structure."""
    return tuple([(tensor.name, tensor.kind, tensor.dtype, tensor.trainable) for tensor in tensors])


_PARTS_BY_STRUCTURE: dict[tuple[Structure, tuple[str, ...]], tuple[str, ...]] = {}
_ROLES_BY_STRUCTURE: dict[tuple[Structure, tuple[str, ...], bool], Roles] = {}
_MAX_STRUCTURES = 512


def _parts_by_structure(structure: Structure, tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
    exceptions = _exceptional_parts(tensors)
    known = _PARTS_BY_STRUCTURE.get((structure, tuple(exceptions)))
    if known is None:
        known = _part_names(tensors)
        if len(_PARTS_BY_STRUCTURE) < _MAX_STRUCTURES:
            _PARTS_BY_STRUCTURE[structure, tuple(exceptions)] = known
    return known


def _part_names(tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
    known: dict[str, str] = {}
    found = []
    exceptions = _exceptional_parts(tensors)
    for tensor in tensors:
        base, _, branch = tensor.name.rpartition(".")
        if tensor.kind == "adapter" and base in known:
            found.append(f"{known[base]}.{branch}")
            continue
        key = known[tensor.name] = _part_name(tensor, exceptions)
        found.append(key)
    return tuple(found)


# Qwen 1 (Qwen/Qwen-7B modeling_qwen.py, QWenMLP.forward): `c_proj(w1(x) * silu(w2(x)))`.
_QWEN_1 = {"mlp.w1": "up", "mlp.w2": "gate"}
# Falcon-H1 has two mixers in a layer, each with an output projection.
_FALCON_H1 = {"mamba.out_proj": "scan_output"}
# ChatGLM 2 to 4 (THUDM/chatglm3-6b modeling_chatglm.py, MLP): swiglu chunks `dense_h_to_4h` into gate and up.
_CHATGLM = {"mlp.dense_h_to_4h": "gate_up"}


# BERT: `intermediate.dense` is the first projection of the MLP, `output.dense` the second.
_BERT = {"intermediate.dense": "up", "output.dense": "down"} | {
    f"attention.attn.{short}": part  # MPNet's
    for short, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output"))
}
# What is before the scores of masked words (modeling_bert.py, BertPredictionHeadTransform, and its relatives).
_WORD_HEADS = dict.fromkeys(
    ("cls.predictions.transform.dense", "lm_head.dense", "generator_predictions.dense", "head.dense"), "transform"
)
# A tower's projections that are called by one letter (modeling_qwen2_5_omni.py, Qwen2_5OmniVisionAttention).
_SHORT = {"attn.q": "query", "attn.k": "key", "attn.v": "value"}
# T5's blocks and BART's decoder layers (modeling_t5.py, T5Block; modeling_bart.py, BartDecoderLayer).
_CROSS = {"q": "query", "k": "key", "v": "value", "o": "output"}
_T5 = (
    {f"layer.0.SelfAttention.{short}": part for short, part in _CROSS.items()}
    | {f"layer.1.EncDecAttention.{short}": "cross_" + part for short, part in _CROSS.items()}
    | {f"layer.{index}.DenseReluDense.wo": "down" for index in (1, 2)}
)
_BART = {f"encoder_attn.{short}_proj": "cross_" + part for short, part in _CROSS.items() if short != "o"} | {
    "encoder_attn.out_proj": "cross_output"
}


def _exceptional_parts(tensors: tuple[Tensor, ...]) -> dict[str, str]:
    """Parts by module name, for layers whose other names show that a name has another meaning there."""
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    if "layer.0.SelfAttention.q.weight" in shapes:
        return _T5
    if "intermediate.dense.weight" in shapes:
        return _BERT
    if any(name + ".weight" in shapes for name in _WORD_HEADS):
        return _WORD_HEADS
    if "attn.q.weight" in shapes:
        return _SHORT
    if "encoder_attn.q_proj.weight" in shapes:
        return _BART
    if "mlp.c_proj.weight" in shapes and "mlp.w2.weight" in shapes:
        return _QWEN_1
    if "mamba.out_proj.weight" in shapes and "self_attn.o_proj.weight" in shapes:
        return _FALCON_H1
    wide, narrow = shapes.get("mlp.dense_h_to_4h.weight"), shapes.get("mlp.dense_4h_to_h.weight")
    return _CHATGLM if wide and narrow and len(wide) == len(narrow) == 2 and wide[0] == 2 * narrow[1] else {}


def _part_name(tensor: Tensor, exceptions: dict[str, str]) -> str:
    if tensor.kind in ("embedding", "head", "position", "fixed"):
        return tensor.kind
    name = tensor.name
    if tensor.kind == "router":  # `mlp.gate` is no gate projection
        return ROUTER + ".bias" if name.endswith("bias") else ROUTER
    if tensor.kind == "norm":
        return "head_norm" if any(piece in name for piece in _HEAD_NORMS) else "norm"
    if tensor.kind == "experts":  # the layer may have a dense MLP as well
        return _EXPERT_PREFIX + part_of(name)
    if name.rpartition(".")[0] in _OUTPUT_GATES:
        return "output_gate"
    part = (exceptions.get(name.rpartition(".")[0]) if exceptions else None) or part_of(name)
    return part + ".bias" if tensor.kind == "bias" else part


def extents(tensors: tuple[Tensor, ...], tokens: int) -> dict[str, int]:
    """Numbers of elements of parameters and of adapters' low-rank activations, by the extents that `roles` names."""
    weights, others = _extent_names(part_names(tensors))
    found = {name: tensor.numel for name, tensor in zip(weights, tensors)}
    for index, kind, part in others:
        tensor = tensors[index]
        if kind == "rank":
            found["rank:" + part] = tensor.shape[0] * tokens
        elif kind == "eye":  # DoRA multiplies the adapter with an identity as wide as the layer's input
            found["eye:" + part] = (found["w:" + part] // max(1, tensor.numel)) ** 2
        else:
            block = (1 + isqrt(1 + 8 * tensor.shape[1])) // 2
            found["blocks:" + part] = tensor.shape[0] * block * block
    return found


_EXTENT_KINDS = {".lora_A": "rank", _MAGNITUDE: "eye", _ROTATION: "blocks"}
Extents = tuple[tuple[str, ...], tuple[tuple[int, str, str], ...]]


@lru_cache(maxsize=_MAX_STRUCTURES)
def _extent_names(parts: tuple[str, ...]) -> Extents:
    """The extents of the weights; and for each other extent the index of its tensor, its kind and its part."""
    found = [
        (index, kind, part[: -len(ending)])
        for index, part in enumerate(parts)
        for ending, kind in _EXTENT_KINDS.items()
        if part.endswith(ending)
    ]
    return tuple("w:" + part for part in parts), tuple(found)


def roles(tensors: tuple[Tensor, ...], dropout: bool) -> Roles:
    """The roles of one unit's tensors. They are equal for all layers that run the same code on equal dtypes."""
    known: Roles | None = _ROLE_CACHE.get(tensors, dropout)
    return known if known is not None else _ROLE_CACHE.put(_roles_by_structure(tensors, dropout), tensors, dropout)


def _roles_by_structure(tensors: tuple[Tensor, ...], dropout: bool) -> Roles:
    key = _structure(tensors), part_names(tensors), dropout
    known = _ROLES_BY_STRUCTURE.get(key)
    if known is None:
        known = _roles(tensors, dropout)
        if len(_ROLES_BY_STRUCTURE) < _MAX_STRUCTURES:
            _ROLES_BY_STRUCTURE[key] = known
    return known


def _roles(tensors: tuple[Tensor, ...], dropout: bool) -> Roles:
    weights: dict[str, Parameter] = {}
    kinds: dict[str, str] = {}
    dtypes: dict[str, str] = {}
    for key, tensor in zip(part_names(tensors), tensors, strict=True):
        kinds[key] = tensor.kind
        dtypes[key] = tensor.dtype
        width = BYTES.get(tensor.dtype, 0)
        int8 = tensor.dtype == "int8"
        weights[key] = Parameter("w:" + key, width, tensor.trainable, width == 0 or int8, int8_product=int8)
    adapted_routers = _adapted_routers(tensors)
    linears = tuple(
        (key, _linear(key, weights, dropout, dtypes[key]))
        for key, kind in kinds.items()
        if kind in _PROJECTIONS or key in adapted_routers
    )
    experts = tuple(
        (key.removeprefix(_EXPERT_PREFIX), _with_adapter(key, weights))
        for key, kind in kinds.items()
        if kind == "experts"
    )
    expert_linears = tuple(
        (key, _linear(key, weights, dropout, dtypes[key]))
        for key, kind in kinds.items()
        if kind == "experts" and key + ".lora_A" in weights
    )
    router = _with_adapter(ROUTER, weights) if ROUTER in weights else None
    convolution = next((weights[key] for key, kind in kinds.items() if kind == "conv"), None)
    scale = weights.get("lambda_1")
    return Roles(
        linears, weights.get("norm"), weights.get("head_norm"), experts, router, convolution, scale, expert_linears
    )


def _adapted_routers(tensors: tuple[Tensor, ...]) -> tuple[str, ...]:
    """The router where it is a linear layer with an adapter of its own."""
    names = [tensor.name for tensor in tensors if tensor.kind == "adapter"]
    modules = [name.rpartition(".")[0].removesuffix(".weight") for name in names]
    return (ROUTER,) if any(matches(module, LINEAR_ROUTERS) for module in modules) else ()


def _with_adapter(key: str, weights: dict[str, Parameter]) -> Parameter:
    """A weight that PEFT adapts as a parameter, without a layer around it."""
    factor = weights.get(key + ".lora_A")
    return weights[key]._replace(adapter_width=factor.width if factor else 0)


def _linear(key: str, weights: dict[str, Parameter], dropout: bool, dtype: str) -> Linear:
    bias = weights.get(key + ".bias")
    down = weights.get(key + ".lora_A")
    if down is None:
        rotation = weights.get(key + _ROTATION)
        return Linear(weights[key], bias, "blocks:" + key if rotation else "", rotation=rotation)
    up = weights[key + ".lora_B"]
    casts = not weights[key].quantized or dtype.startswith(_ALWAYS_CASTS)
    return Linear(weights[key], bias, "rank:" + key, down, up, dropout, weights.get(key + _MAGNITUDE), casts)
