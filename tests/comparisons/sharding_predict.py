"""The closed form's answer to a setting of the grid: the same tiny model as a `Run`, placed and walked."""

from __future__ import annotations

from typing import Any, NamedTuple

from memlint.architectures.builder import from_config
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, Weight
from memlint.architectures.model import TokenMixer as Mixer
from memlint.memory.estimate import estimate
from memlint.memory.sharding import unsharded as single
from memlint.memory.sharding.fsdp import placement as fsdp
from memlint.memory.sharding.zero import placement as zero
from memlint.memory.state.parameters import units as place_tensors
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Estimate, ModelState, Moment, Unit
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Evaluation,
    Fsdp,
    Loss,
    Method,
    Model,
    Offload,
    Optimizer,
    Parallelism,
    Precision,
    Run,
    Saving,
    Sequence,
    Zero,
)

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, VOCABULARY = 256, 688, 8, 4, 2, 4096
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
PLACES = {
    "plain": single.place,
    "ulysses": single.place,
    "ring": single.place,
    "ddp": single.place,
    "deepspeed": zero.place,
    "fsdp1": fsdp.place,
    "fsdp2": fsdp.place,
}


EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 192, "head_dim": HIDDEN // HEADS}
STACKS = ("experts.gate_up_proj", "experts.down_proj")


def with_experts(layers: int) -> Architecture:
    """The tiny Qwen3 with stacked experts of model.py."""
    sizes = {"hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "vocab_size": VOCABULARY}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "num_hidden_layers": layers}
    return from_config({"model_type": "qwen3_moe", "tie_word_embeddings": False, **sizes, **heads, **EXPERTS})


def architecture(tied: bool = False, layers: int = LAYERS, vocabulary: int = VOCABULARY) -> Architecture:
    """The tiny Llama of model.py."""
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "self_attn.q_proj": (HIDDEN, HIDDEN),
        "self_attn.k_proj": (kv, HIDDEN),
        "self_attn.v_proj": (kv, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HIDDEN),
        "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
        "mlp.up_proj": (INTERMEDIATE, HIDDEN),
        "mlp.down_proj": (HIDDEN, INTERMEDIATE),
    }
    norms = (
        Weight("input_layernorm.weight", (HIDDEN,), "norm"),
        Weight("post_attention_layernorm.weight", (HIDDEN,), "norm"),
    )
    linears = tuple(Weight(f"{name}.weight", shape, "linear") for name, shape in shapes.items())
    layer = DecoderLayer(
        Mixer(heads=HEADS, kv_heads=KV_HEADS, head_dim=HIDDEN // HEADS),
        Mlp(intermediate_size=INTERMEDIATE),
        class_name="LlamaDecoderLayer",
        weights=(*linears, *norms),
    )
    outside = [
        Weight("embed_tokens.weight", (vocabulary, HIDDEN), "embedding"),
        Weight("norm.weight", (HIDDEN,), "norm"),
    ]
    if not tied:
        outside.append(Weight("lm_head.weight", (vocabulary, HIDDEN), "head"))
    return Architecture(
        "llama", "LlamaForCausalLM", HIDDEN, vocabulary, (layer,), (0,) * layers, tuple(outside), tied_embeddings=tied
    )


def _optimizer(kind: str) -> Optimizer:
    if kind == "muon":
        return Optimizer("muon", engine="deepspeed")
    return Optimizer("adamw_torch_fused" if kind == "fused" else "adamw_torch", foreach=kind == "foreach")


def run_of(setting: dict[str, Any]) -> Run:
    """The setting as the formats would hand it over."""
    engine = setting["engine"]
    sharded = engine.startswith("fsdp")
    dtype = setting.get("dtype", "float32" if sharded else "bfloat16")
    compute = setting.get("mixed") or dtype
    lora = setting.get("method") == "lora"
    kind = setting.get("optimizer", "single")
    return Run(
        format="benchmark",
        path=setting["name"],
        model=Model("tiny", _architecture(setting), dtype),
        method=_method(setting, dtype),
        precision=Precision(
            compute,
            autocast=sharded and compute != dtype,
            trainable_dtype=dtype,
            master_weights=engine == "deepspeed",
            grad_dtype="float32" if "data_types" in setting.get("config", {}) else "",
        ),
        batch=Batch(setting.get("micro_batch_size", 1), setting.get("accumulation", 1)),
        sequence=Sequence(setting.get("sequence", 64)),
        checkpointing=Checkpointing(
            "full" if setting.get("checkpointing", True) else "none", reentrant=setting.get("reentrant", False)
        ),
        optimizer=_optimizer(kind),
        parallelism=_parallelism(setting, lora),
        offload=_offload(setting.get("zero", {})),
        saving=Saving(gathers_full_weights=bool(setting.get("save"))),
    )


def _architecture(setting: dict[str, Any]) -> Architecture:
    layers = setting.get("layers", LAYERS)
    if setting.get("experts"):
        return with_experts(layers)
    return architecture(setting.get("tied", False), layers, setting.get("vocabulary", VOCABULARY))


def _method(setting: dict[str, Any], dtype: str) -> Method:
    if setting.get("method") == "lora":
        targets = LINEAR[:4] if setting.get("experts") else LINEAR
        stacks = STACKS if setting.get("experts") == "adapted" else ()
        rank = setting.get("rank", 8)
        return Method("lora", rank=rank, targets=targets, target_parameters=stacks, adapter_dtype=dtype)
    if setting.get("method") == "freeze":
        return Method("freeze", freeze_trainable_layers=setting.get("trainable_layers", 2))
    return Method()


def _parallelism(setting: dict[str, Any], lora: bool) -> Parallelism:
    world = setting.get("world", 2)
    if setting["engine"] == "ring":
        return Parallelism(world, gpus_per_node=world, data_parallel_size=1, context_parallel_size=world)
    if setting["engine"] == "ulysses":
        return Parallelism(world, gpus_per_node=world, data_parallel_size=1, sequence_parallel_size=world)
    engine = {"plain": "single", "fsdp1": "fsdp", "fsdp2": "fsdp"}.get(setting["engine"], setting["engine"])
    strategy = setting.get("strategy", "HYBRID_SHARD" if setting.get("hybrid") else "FULL_SHARD")
    version = {"fsdp1": 1, "fsdp2": 2}.get(setting["engine"], 0)
    return Parallelism(
        world,
        gpus_per_node=2 if "HYBRID" in strategy else world,
        data_parallel_size=world,
        engine=engine,
        zero=_zero(setting.get("zero", {})),
        fsdp=Fsdp(
            version,
            strategy,
            setting.get("reshard", True),
            setting.get("wrap", "transformer"),
            setting.get("min_num_params", 0),
            backward_prefetch=setting.get("backward_prefetch", "BACKWARD_PRE"),
            forward_prefetch=bool(setting.get("forward_prefetch", False)),
            use_orig_params=setting.get("use_orig_params", True),
            cpu_offload=setting.get("cpu_offload", False),
            reduce_dtype=setting.get("reduce", ""),
            upcasts_trainable=False,
        ),
        ddp_bucket_view=setting.get("bucket_view", False),
    )


def _zero(config: dict[str, Any]) -> Zero:
    """A ZeRO JSON section with the defaults of deepspeed 0.19.8 runtime/zero/config.py."""
    names = {"zero_hpz_partition_size": "hpz_partition_size"}
    values = {names.get(key, key.removeprefix("stage3_")): value for key, value in config.items()}
    values = {key: value for key, value in values.items() if key in Zero._fields}
    values.setdefault("overlap_comm", values.get("stage") == 3)
    return Zero(**values)


def _offload(config: dict[str, Any]) -> Offload:
    optimizer, parameters = config.get("offload_optimizer", {}), config.get("offload_param", {})
    return Offload(optimizer.get("device", "none"), False, 1.0, parameters.get("device", "none"))


def place(setting: dict[str, Any]) -> tuple[tuple[Unit, ...], ModelState]:
    """Units and their placement."""
    run = run_of(setting)
    found = place_tensors(run)
    return found, PLACES[setting["engine"]](run, found)


class Activations(NamedTuple):
    """Bytes that the model itself adds, measured without an engine: most in the forward up to the logits, in the loss,
    in the loss's backward, in the backward of the head, and in that of the layers."""

    forward: int
    loss: int
    loss_backward: int
    head: int
    layers: int


def predict(setting: dict[str, Any], activations: Activations) -> dict[str, int]:
    """Bytes by phase. On the CPU accelerator host and device are one: offloaded bytes are added."""
    units, state = place(setting)
    host = state.host_bytes // setting.get("world", 2)
    resting = state.weights + state.optimizer_states + host
    base = resting + state.gradients_resident + state.communication
    later = _host_gradients(setting, units)
    return {
        "rest": resting + state.communication + _kept_between_steps(setting, state) - later,
        "forward": base + _forward(state, activations) - later,
        "backward": base + _backward(setting, units, state, activations),
        "step": resting + state.gradients_at_step + state.communication_at_step + state.step_temporaries,
    }


def estimated(setting: dict[str, Any]) -> Estimate:
    """The whole estimate of a training step, without evaluation and saving."""
    run = run_of(setting)
    return estimate(
        run._replace(
            attention=Attention("sdpa"),
            loss=Loss("plain", upcast_logits=True),
            precision=run.precision._replace(outputs_to_fp32=False),
            evaluation=Evaluation(enabled=False),
            saving=Saving(enabled=False),
        )
    )


def estimated_bytes(setting: dict[str, Any]) -> dict[str, int]:
    """Bytes of the whole estimate by phase. On the CPU host and device are one: ZeRO's offloaded bytes are added, and
    FSDP2's are as if they were not offloaded, since its host figure is that of the step."""
    if setting.get("cpu_offload"):
        return estimated_bytes({**setting, "cpu_offload": False})
    phases = {phase.name: phase.allocated_bytes for phase in estimated(setting).phases}
    host = place(setting)[1].host_bytes // setting.get("world", 2)
    return {
        "forward": phases["forward"] + host,
        "backward": phases["backward"] + host,
        "step": phases["optimizer_step"] + host,
    }


def _host_gradients(setting: dict[str, Any], units: tuple[Unit, ...]) -> int:
    """FSDP2's offloaded gradients, which `zero_grad` frees: the host's peak counts them, a forward has none."""
    if setting["engine"] != "fsdp2" or not setting.get("cpu_offload"):
        return 0
    return PLACES["fsdp2"](run_of({**setting, "cpu_offload": False}), units).gradients_at_step


def _kept_between_steps(setting: dict[str, Any], state: ModelState) -> int:
    """Gradients that stay after the step: FSDP1 keeps them until the next forward, and accumulation buffers stay."""
    if setting["engine"] == "fsdp1" and setting.get("use_orig_params", True):
        return state.gradients_at_step
    stays = setting.get("accumulation", 1) == 1 or setting.get("zero", {}).get("stage") == 3
    return state.gradients_resident if stays else 0


def _forward(state: ModelState, activations: Activations) -> int:
    units = max(own.gathered_forward for own in state.units) + activations.forward
    return max(units, state.gathered_at_loss + activations.loss)


def _backward(setting: dict[str, Any], units: tuple[Unit, ...], state: ModelState, activations: Activations) -> int:
    """The loss, then from the head to the embedding. What layers keep shrinks from layer to layer: everything without
    checkpointing, else the layers' inputs."""
    compute = setting.get("mixed") or setting.get("dtype", "float32" if "fsdp" in setting["engine"] else "bfloat16")
    boundary = setting.get("micro_batch_size", 1) * setting.get("sequence", 64) * HIDDEN * BYTES[compute]
    shrinks = boundary if setting.get("checkpointing", True) else activations.layers // setting.get("layers", LAYERS)
    peak = state.gathered_at_loss_backward + activations.loss_backward
    kept = 0
    for index in range(len(units) - 1, -1, -1):
        own, left = state.units[index], kept
        for passed in range(units[index].repeat):
            alive = activations.layers - shrinks * passed if index else 0
            alive = activations.head if index == len(units) - 1 else alive
            whole = own.gradient_kept if setting["engine"] in ("plain", "ddp") else 0  # not in `gradient_live` there
            here = (left if own.moments else kept) + own.gathered_backward + whole
            moment = own.moments[passed] if own.moments else Moment(own.gradient_live, own.gradient_end)
            here -= moment.released
            peak = max(peak, here + moment.live + alive, here + moment.end)
            kept += own.gradient_kept
    return peak
