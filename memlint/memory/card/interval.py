"""The lowest and the highest peak among the runs that a file may describe, where it leaves something open."""

from __future__ import annotations

import memlint.memory.card.deviations as deviations
import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, Mlp
from memlint.memory.phases import phases, phases_with_images
from memlint.memory.segments.step import training_step
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.state.storage import BYTES
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run, replace

# What Triton writes between two tries of a kernel that tunes itself, to empty the L2 cache (triton 3.9
# backends/nvidia/driver.py, get_empty_cache_for_benchmark). It tunes in the first step.
_TUNING_BUFFER = 256 * 2**20
# Of cuBLAS, on Hopper and later (transformer_engine 2.20.2 pytorch/cpp_extensions/gemm.py).
_TE_WORKSPACE = 32 * 2**20
# MXFP8 has a byte of scale for so many elements of a copy (Transformer Engine 2.20 pytorch/tensor/mxfp8_tensor.py:140).
_ELEMENTS_OF_A_SCALE = 32


def peak_interval(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> tuple[int, int]:
    """The lowest and the highest peak, bytes.

    They follow from how far the closed form is from simulated steps of the model family, and from features that are
    modelled at more memory than they may need.
    """
    low, high = deviations.bounds(run, found)
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        return unsloth.peak_interval(run, units, state, found)
    if run.model.quantization.experts_on_load:  # a checkpoint with stacked experts loads without a second copy
        low = min(low, max(_after_loading(run, units), *(_allocated(one) for one in found if one.name != "load")))
    if _loads_packed_weights_whole(run):
        high = max(high, sum(weight_bytes(unit) * unit.repeat for unit in units))
    if _loads_faster_than_it_quantises(run):
        import memlint.memory.host as host

        high = max(high, host.base_elements(units) * BYTES.get(str(run.model.weights_dtype), 2))
    if run.stack.expert_kernel:
        high += _TUNING_BUFFER
    if run.stack.use_ktransformers:
        high += _gathered_for_the_host(run, units)
    if run.precision.fp8 in ("te", "te_mxfp8"):
        high += _TE_WORKSPACE + _head_in_fp8(run)
    if run.precision.fp8 == "te_mxfp8":
        high += high // _ELEMENTS_OF_A_SCALE
    if run.checkpointing.mlp_tiles:
        high += _tiling_temporaries(run, units)
    traits = families.of(run.model.architecture).attention
    if (traits.eager_at_first or traits.position_bias) and run.attention.implementation == "sdpa":
        eager = replace(run, {"attention.implementation": "eager"})
        eager_phases, _ = phases(training_step(eager, units), units, state)
        high = max(high, deviations.bounds(eager, eager_phases + found[len(eager_phases) :])[1])
    least_run = _least_memory_variant(run)
    if least_run is not None:
        least_phases, _ = phases(training_step(least_run, units), units, state)
        low = min(low, max(map(_allocated, least_phases + found[len(least_phases) :])))
    return low, high


def _head_in_fp8(run: Run) -> int:
    """Bytes of the head's weight in fp8, as it is and transposed, which Transformer Engine keeps for the backward."""
    architecture: Architecture = run.model.architecture
    return 2 * architecture.vocab_size * architecture.hidden_size


def _after_loading(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of weights that are whole on each card when loading ends, even if they are sharded later. Axolotl 0.19.0
    requests that for 4 bits (loaders/model.py:708); for 8 bits transformers chooses the device."""
    return sum(weight_bytes(unit) * unit.repeat for unit in units) if run.model.quantization.bits <= 4 else 0


_PACKS_ON_THE_CARD = (5,)


def _loads_packed_weights_whole(run: Run) -> bool:
    """Whether every rank quantises the whole model on its own card before FSDP shards it.

    By default bitsandbytes' weights go to the current card (transformers 5.23 quantizers/quantizer_bnb_4bit.py:94), on
    all ranks (modeling_utils.py:4853, `not is_quantized`; axolotl 0.19.0 loaders/model.py:708). transformers 4 moved
    each to the host again where `cpu_ram_efficient_loading` asks for it (4.57.6 modeling_utils.py:779). In a test,
    two CPU ranks of transformers 5.23 each held all packed weights after loading; that they are on the card follows
    from the source code only, so it counts for the high end.
    """
    fsdp = run.parallelism.engine == "fsdp" and not run.parallelism.fsdp.loads_packed_on_host
    older = () < run.stack.transformers < _PACKS_ON_THE_CARD and run.parallelism.fsdp.cpu_ram_efficient_loading
    return fsdp and run.model.quantization.method == "bnb" and not older


_LOADS_IN_THREADS = ((5,), (5, 4))


def _loads_faster_than_it_quantises(run: Run) -> bool:
    """Whether threads may have put the whole checkpoint on the card before its first weights are quantised.

    transformers 5.0 to 5.3 give every tensor to a pool of threads, each of which ends on the card, and then quantise
    one after another (5.3.0 core_model_loading.py:1110 and :1199). 5.4 reads them one after another again
    (core_model_loading.py:1106; huggingface/transformers#43032: a model that loaded in 9 GB died above 15).
    """
    quantization, parallel = run.model.quantization, run.parallelism
    since, until = _LOADS_IN_THREADS
    meta = parallel.engine == "deepspeed" and parallel.zero.stage == 3
    on_host = parallel.engine == "fsdp" and parallel.fsdp.loads_packed_on_host
    on_the_fly = quantization.method in ("bnb", "hqq", "eetq", "quanto") and not quantization.prequantized
    return on_the_fly and not meta and not on_host and since <= run.stack.transformers < until


def peak_with_images(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> int:
    """The highest peak, bytes, when every token belongs to an image."""
    import memlint.memory.vision.images as images
    import memlint.memory.vision.towers as towers

    architecture: Architecture = run.model.architecture
    if not towers.are_modelled(architecture):  # a known number of images counts in `max_image_bytes`
        return deviations.bounds(run, found)[1] + images.max_image_bytes(run)
    if run.sequence.images == 0:
        return 0
    image_phases = phases_with_images(training_step(run, units), units, state)
    return deviations.bounds(run, image_phases + found[len(image_phases) :])[1]


def images_counted(run: Run, units: tuple[Unit, ...]) -> int:
    """The number of images per sample that the central figure assumes: as many as are stated; else one if a tower or a
    projector trains, since only images train it; else none."""
    import memlint.memory.vision.towers as towers

    if not towers.are_modelled(run.model.architecture):
        return 0
    stated = run.sequence.images
    return stated if isinstance(stated, int) else int(towers.trains(units))


def with_images_counted(run: Run, units: tuple[Unit, ...]) -> Run:
    """The run with the images that the central figure assumes. Where nobody says how many there are, none has more
    tokens than a sequence holds: the step would fail."""
    stated, sequence = isinstance(run.sequence.images, int), run.sequence
    sequence = sequence._replace(images=images_counted(run, units))
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    pixels, length = sequence.image_max_pixels, sequence.length
    if not stated and tower is not None and isinstance(pixels, int) and isinstance(length, int):
        most = length * (tower.patch_size * tower.merge_size) ** 2
        sequence = sequence._replace(image_max_pixels=min(pixels, most))
    return run._replace(sequence=sequence)


def without_images(run: Run) -> Run | None:
    """The run with batches without images: its tower counts as frozen. None if every step has an image.

    A tower without images gets no gradients, so the optimizer creates no states for it. The same holds for a tower that
    a script froze.
    """
    has_images = isinstance(run.sequence.images, int) and run.sequence.images > 0
    if run.sequence.always_has_images or has_images:
        return None
    return replace(run, {"method.freeze_vision_tower": True, "method.freeze_multi_modal_projector": True})


def _least_memory_variant(run: Run) -> Run | None:
    """A run with the least memory that this one may need; None if all its features are modelled exactly.

    How much some features save is not modelled, so the most that they can save is assumed. Selective checkpointing and
    offloaded activations keep at least the input of a layer; torch.compile keeps what its fused kernels need; a loss in
    chunks what a fused loss does; tiled MLPs one tile; layers of a framework's own what fused norms do.
    flash-linear-attention and mamba_ssm may be installed although the file does not name them.
    """
    changes: dict[str, object] = {}
    if (run.checkpointing.mode == "selective" and not run.checkpointing.keeps) or run.stack.compile:
        changes["checkpointing.mode"] = "full"
    if run.stack.own_layers:
        changes["loss.liger_kernels"] = True
    if run.offload.activations != "none" and run.checkpointing.mode == "none":
        changes |= {"checkpointing.mode": "full", "checkpointing.offload": True}
    if run.precision.fp8 == "te":
        changes["precision.fp8"] = "te_rowwise"
    if may_have_kernels(run):
        changes["stack.linear_attention"] = "kernels"
    if (run.stack.compile or run.loss.in_chunks) and run.loss.kind == "plain":
        changes["loss.kind"] = "fused_ce"
    if run.model.architecture.encoder_only and run.loss.kind == "plain":  # a classifier builds no logits
        changes |= {"loss.kind": "chunked", "loss.chunk_tokens": 1}
    # Tiles of adapted MLPs hold none of autocast's copies in the backward: half of a tile is a floor.
    tiles = run.checkpointing.mlp_tiles * (2 if run.method.kind == "lora" else 1)
    if tiles > 1:
        changes["model.architecture"] = _with_tiled_mlps(run.model.architecture, tiles)
    return replace(run, changes) if changes else None


def _gathered_for_the_host(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes on the first GPU of a node, whose process computes the experts for all: every rank's tokens, their results,
    and these cut by rank (kt-kernel 0.7.2 python/sft/autograd.py:172-201, KTMoEFunction.forward)."""
    from memlint.memory.sharding.zero.layout import ranks_per_node

    ranks = ranks_per_node(run)
    if ranks < 2:
        return 0
    step = training_step(run, units)
    return 3 * ranks * step.tokens.count * step.architecture.hidden_size * step.width


def _tiling_temporaries(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes that tiled MLPs allocate beyond what they save: the gradient of their input, their output concatenated from
    tiles, and sums of their parameters' gradients (axolotl 0.19.0 monkeypatch/tiled_mlp/base.py, TiledMLP)."""
    tokens = training_step(run, units).tokens.count
    sums = (sum(t.numel * BYTES.get(t.dtype, 0) for t in unit.tensors if t.trainable) for unit in units)
    architecture: Architecture = run.model.architecture
    return 2 * 4 * tokens * architecture.hidden_size + max(sums, default=0) + _adapters_in_fp32(run, tokens)


def _adapters_in_fp32(run: Run, tokens: int) -> int:
    """Bytes in fp32 that the adapters of one tile take. The backward recomputes the tile outside of autocast, where
    PEFT casts the input of an adapter to the adapter's dtype (peft 0.21.2 tuners/lora/layer.py, Linear.forward): the
    inputs of gate and up; the input and product of down."""
    if run.method.kind != "lora" or not run.precision.autocast or run.method.adapter_dtype != "float32":
        return 0
    architecture: Architecture = run.model.architecture
    inner = max(kind.mlp.intermediate_size for kind in architecture.layer_types)
    tile = -(-tokens // run.checkpointing.mlp_tiles)
    return 2 * 4 * tile * (architecture.hidden_size + inner)


def _with_tiled_mlps(architecture: Architecture, tiles: int) -> Architecture:
    """The architecture with MLPs so small that their activations are those of one tile of the sequence."""
    layer_types = tuple(
        layer_type._replace(mlp=_tile(layer_type.mlp, tiles)) for layer_type in architecture.layer_types
    )
    return architecture._replace(layer_types=layer_types)


def _tile(mlp: Mlp, tiles: int) -> Mlp:
    return mlp._replace(
        intermediate_size=mlp.intermediate_size // tiles, shared_intermediate_size=mlp.shared_intermediate_size // tiles
    )


def may_have_kernels(run: Run) -> bool:
    """Whether layers may run kernels of packages that may be installed although the file does not name them."""
    layers = run.model.architecture.layer_types
    kinds = {mixer.kind for layer in layers for mixer in (layer.attention, layer.parallel_ssm) if mixer is not None}
    package = run.stack.linear_attention
    return ("mamba2" in kinds and package in ("", "fla")) or ("gated_delta" in kinds and not package)


def _allocated(phase: Phase) -> int:
    return phase.allocated_bytes
