"""The arithmetic behind an estimate: each component of a phase as products and sums that a person can redo.

A term is `tensors x [factor x factor x ...] / divisor` bytes. With `tensors` above 0, the product in brackets is one
tensor, which the allocator rounds up to 512 bytes. The terms of a component add up to its figure in the table; a part
without a formula in this module is a separate term, "the rest", with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import memlint.memory.card.device as device
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, TokenMixer
from memlint.memory.autograd.tape import PeakCandidates, counters
from memlint.memory.autograd.walk import PeakPosition, TensorBytes, component
from memlint.memory.estimate import StepParts, step_parts
from memlint.memory.evaluation import forward_position, held_while_layers_run
from memlint.memory.phases import inputs_bytes, masks_bytes
from memlint.memory.segments.encoder_decoder import bias_bytes, shares_biases
from memlint.memory.segments.step import TrainingStep
from memlint.memory.state.optimizers import entry_of
from memlint.memory.state.storage import ALIGNMENT, BYTES, rounded
from memlint.memory.values import Estimate, Phase, Tensor
from memlint.run import SERVERS, Run

# Bytes of one element of a state, by the state's kind in optimizers.json.
_STATE_WIDTHS: Mapping[str, float] = {
    "float32": 4,
    "bfloat16": 2,
    "bnb8": 1 + 4 / 256,
    "bnb8_double": 2 + 8 / 256,
    "ao8": 1 + 4 / 256,
    "ao4": 0.5 + 4 / 128,
    "aofp8": 1 + 4 / 256,
}
_BITS = {"nf4": 4, "fp4": 4, "int8": 8}
_BUFFERS = 1 << 20  # bytes; larger sizes are gradients or buffers of whole tensors


class Factor(NamedTuple):
    """A number and what it counts: (4096, "tokens")."""

    value: int | float
    name: str


class Term(NamedTuple):
    """`bytes` = tensors x product of `factors` / divisor; `tensors` 0: the product is not rounded. A term without
    factors is a sum that other code made. See the module."""

    label: str
    bytes: int
    factors: tuple[Factor, ...] = ()
    tensors: int = 0
    divisor: int = 1
    component: str = ""  # that it belongs to, where the walk over the step found it


class ComponentMath(NamedTuple):
    """One component of the phase, as in the table. The terms add up to `bytes`."""

    name: str
    bytes: int
    terms: tuple[Term, ...]


class Arithmetic(NamedTuple):
    """The peak of a run. `facts`: the model's dimensions. The components add up to `allocated`."""

    phase: str
    facts: tuple[Factor, ...]
    components: tuple[ComponentMath, ...]
    allocated: int


def arithmetic(run: Run, estimate: Estimate) -> Arithmetic | None:
    """The arithmetic of the peak phase of `estimate`, the estimate of `run`; None if it has no figure."""
    peak = next((phase for phase in estimate.phases if phase.name == estimate.peak_phase), None)
    if peak is None:
        return None
    found = _components(run, peak)
    return Arithmetic(peak.name, _facts(run), tuple(found), peak.allocated_bytes)


def _components(run: Run, peak: Phase) -> Iterator[ComponentMath]:
    parts = step_parts(run)
    walked = tuple(_walked(run, parts, peak))
    for name, size in peak.components.items():
        if size:
            found = (*_resident(name, run, parts, peak), *(one for one in walked if one.component == name))
            terms = tuple(one for one in found if one.bytes)
            rest = size - sum(one.bytes for one in terms)
            term = _in_elements(_rest_of(name, run, rest) if terms else _UNTOLD.get(name, "as its code gives it"), rest)
            yield ComponentMath(name, size, (*terms, term._replace(component=name)) if rest else terms)


_UNTOLD = {
    "communication": "buckets and flat buffers of the engine",
    "temporaries": "what is allocated for a moment and freed again",
    "gradients": "gradients that are alive at this moment",
    "kv_cache": "keys and values, or states, of every layer",
}


def _rest_of(name: str, run: Run, rest: int) -> str:
    """The description of a component's remainder."""
    if rest < 0:
        return "of these, not on the card in this phase: in host memory or on other cards"
    if name == "weights" and run.method.extra_models:
        return "further models of the run, rotary frequencies, rounding of each tensor to 512 bytes"
    if name == "weights":
        whole = "parameters that are kept whole, " if _cards(run, 3) > 1 else ""
        return f"{whole}rotary frequencies, rounding of each tensor to 512 bytes"
    if name == "optimizer_states":
        return "rounding of each tensor to 512 bytes, states of another kind"
    return "the rest"


def _in_elements(label: str, size: int, width: int = 2) -> Term:
    """A size as a number of elements of `width` bytes, if it is a multiple and large enough to be buffers."""
    if size < _BUFFERS or size % width:
        return Term(label, size)
    return Term(label, size, (Factor(size // width, "elements"), Factor(width, "bytes")))


def _resident(name: str, run: Run, parts: StepParts, peak: Phase) -> Iterator[Term]:
    """The terms of a component that do not depend on which layer is running."""
    if name == "weights":
        yield from _weights(run, parts)
        yield from _reference(run, parts)
    elif name == "optimizer_states":
        yield from _states(run, parts)
    elif name == "gradients" and peak.name == "optimizer_step":
        yield from _gradients(run, parts)
    elif name == "kv_cache":
        yield from _cache(run, parts, peak)
    elif name == "engine" and peak.name == "rollout" and run.hardware.gpu and isinstance(run.rollout.share, float):
        whole = run.hardware.gpu.usable_bytes
        factors = (Factor(run.rollout.share, "of"), Factor(whole, "bytes of the card"))
        yield Term("share of the inference engine", int(run.rollout.share * whole), factors)
    elif name == "activations" and peak.name in ("forward", "backward", "prefill"):
        yield from _inputs(parts, "padding mask" if peak.name == "prefill" else "labels")


# --- the model and its state ---------------------------------------------------------------------------------------


def _facts(run: Run) -> tuple[Factor, ...]:
    """Dimensions, as a config.json has them."""
    architecture: Architecture = run.model.architecture
    found = [Factor(len(architecture.layer_type_ids), "layers"), Factor(architecture.hidden_size, "hidden size")]
    shapes = [kind.attention for kind in architecture.layer_types if kind.attention.kind in ("attention", "mla")]
    if shapes:
        found += [Factor(shapes[0].heads, "heads"), Factor(shapes[0].kv_heads, "key-value heads")]
        found.append(Factor(shapes[0].head_dim, "head size"))
    inner = max((kind.mlp.intermediate_size for kind in architecture.layer_types), default=0)
    if inner:
        found.append(Factor(inner, "MLP size"))
    return (*found, Factor(architecture.vocab_size, "words"))


def _each(parts: StepParts) -> Iterator[tuple[Tensor, int]]:
    """(tensor, how many there are) for every tensor of the model on this card before sharding."""
    for unit in parts.units:
        for tensor in unit.tensors:
            yield tensor, tensor.copies * unit.repeat


def _cards(run: Run, from_stage: int) -> int:
    """The number of cards over which ZeRO shards a component from this stage on; 1 if it is not sharded."""
    parallelism = run.parallelism
    world = parallelism.data_parallel_size if isinstance(parallelism.data_parallel_size, int) else 1
    stage = parallelism.zero.stage if parallelism.engine == "deepspeed" else 3 if parallelism.engine == "fsdp" else 0
    return max(1, world) if isinstance(stage, int) and stage >= from_stage else 1


def _weights(run: Run, parts: StepParts) -> Iterator[Term]:
    """Parameters x bytes by dtype, what quantisation adds, what rounding adds."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for tensor, number in _each(parts):
        kind = (tensor.dtype, tensor.trainable)
        counted, stored = groups.get(kind, [0, 0])
        groups[kind] = [counted + tensor.numel * number, stored + tensor.stored_bytes * number]
    cards = _cards(run, 3)
    for (dtype, trains), (counted, stored) in groups.items():
        label = f"{'trainable' if trains else 'frozen'}, {dtype}"
        width = _BITS[dtype] / 8 if dtype in _BITS else BYTES.get(dtype)
        if width is None:
            yield Term(label, stored // cards, (Factor(stored, "bytes as stored"),), 0, cards)
            continue
        plain = int(counted * width) // cards
        yield Term(label, plain, (Factor(counted, "parameters"), Factor(width, "bytes")), 0, cards)
        if dtype in _BITS and stored // cards > plain:
            yield Term(f"scales of {dtype} and rounding", stored // cards - plain)


def _reference(run: Run, parts: StepParts) -> Iterator[Term]:
    """A frozen copy of the model, without adapters, in the dtype that it is loaded in."""
    if run.method.reference_model != "copy":
        return
    width, cards = BYTES[str(run.model.weights_dtype)], _cards(run, 3)
    counted = sum(tensor.numel * number for tensor, number in _each(parts) if tensor.kind != "adapter")
    factors = (Factor(counted, "parameters"), Factor(width, "bytes"))
    yield Term(f"reference model, {run.model.weights_dtype}", counted * width // cards, factors, 0, cards)


def _trainable(parts: StepParts) -> dict[str, int]:
    """Trainable parameters by dtype."""
    found: dict[str, int] = {}
    for tensor, number in _each(parts):
        if tensor.trainable:
            found[tensor.dtype] = found.get(tensor.dtype, 0) + tensor.numel * number
    return found


def _states(run: Run, parts: StepParts) -> Iterator[Term]:
    """Trainable parameters x bytes of each state; an engine's fp32 copy of the weights."""
    entry, cards = entry_of(run.optimizer), _cards(run, 1)
    for dtype, counted in _trainable(parts).items():
        shared = Factor(counted, "parameters")
        if run.precision.master_weights is True:
            width: float = BYTES[run.precision.master_dtype]
            yield Term("master weights", int(counted * width) // cards, (shared, Factor(width, "bytes")), 0, cards)
        names = list(entry["states"]) + (["param"] if entry.get("momentum") and run.optimizer.momentum else [])
        for number, name in enumerate(names, 1):
            wide = _STATE_WIDTHS.get(name)
            if name == "param":
                master = run.precision.master_dtype if run.precision.master_weights is True else dtype
                wide = BYTES[run.optimizer.state_dtype or master]
            if wide is not None:
                label = f"state {number} ({name})"
                yield Term(label, int(counted * wide) // cards, (shared, Factor(wide, "bytes")), 0, cards)


def _gradients(run: Run, parts: StepParts) -> Iterator[Term]:
    cards = _cards(run, 2)
    for dtype, counted in _trainable(parts).items():
        width = BYTES[run.precision.grad_dtype or dtype]
        factors = (Factor(counted, "trainable parameters"), Factor(width, "bytes"))
        yield Term(f"of {dtype} parameters", counted * width // cards, factors, 0, cards)


# --- activations ----------------------------------------------------------------------------------------------------


def _inputs(parts: StepParts, beside: str) -> Iterator[Term]:
    """Input ids and labels or padding mask, rotary tables, eager attention's masks until the recomputation."""
    step = parts.step
    if step is None:
        return
    count = step.tokens.count
    tokens = Factor(count, "tokens")
    for label in ("input ids", beside):
        yield Term(label, rounded(8 * count), (tokens, Factor(8, "bytes")), 1)
    counted = masks_bytes(step) if step.run.checkpointing.mode != "none" else 0
    yield Term("attention masks", masks_bytes(step) if step.run.purpose == "inference" else counted)
    rotary = inputs_bytes(step) - 2 * rounded(8 * count) - counted
    yield from _positions(step, rotary)


def _positions(step: TrainingStep, size: int) -> Iterator[Term]:
    """Rotary tables; of T5 its biases of scores, or the distances of tokens that they were looked up by."""
    if not shares_biases(step):
        yield Term("cosine and sine of the rotary embedding", size)
        return
    if step.run.checkpointing.mode == "none":
        pairs = Factor(step.tokens.length**2, "pairs of positions")
        yield Term("distances between positions", size, (pairs, Factor(8, "bytes")), 2)
        return
    for label, each in zip(("the encoder's scores", "the decoder's scores", "scores between them"), bias_bytes(step)):
        yield _in_elements(f"position biases of {label}", each, 2)


def _walked(run: Run, parts: StepParts, peak: Phase) -> Iterator[Term]:
    """The tensors alive at the peak of a forward or backward: saved by other layers, and of the layer that runs."""
    if parts.step is None or not parts.segments:
        return
    if parts.walk is None:
        if peak.name == "prefill":
            index = forward_position(parts.segments, parts.step)
            if 0 < index < len(parts.segments) - 1:
                held = held_while_layers_run(parts.step)
                yield Term("held while the layers run: the embedding's output", held, component="activations")
            yield from _at_work(parts, index, backward=False)
        return
    if peak.name not in ("forward", "backward"):
        return
    backward = peak.name == "backward"
    position = (parts.walk.backward if backward else parts.walk.forward).position
    saved = tuple(_saved_by_others(parts, position, backward))
    yield from saved
    rest = position.activations - sum(one.bytes for one in saved)
    yield Term("held besides, around the loss or by the training loop", rest, component="activations")
    if not position.without_own:
        yield from _at_work(parts, position.position, backward)
    width = BYTES.get(str(run.precision.compute), 2)
    gathered = _in_elements("gathered whole for the layers at work", position.gathered, width)
    yield gathered._replace(component="weights")
    yield from _resident_gradients(run, parts)
    yield _done_gradients("gradients of layers that are done", run, parts, position.gradients)


def _at_work(parts: StepParts, position: int, backward: bool) -> Iterator[Term]:
    """The tensors of the segment that runs at the peak."""
    running = parts.segments[position]
    candidates = running.profile.backward if backward else running.profile.forward
    name = "embedding" if position == 0 else "head and loss" if position == len(parts.segments) - 1 else "layer"
    yield from _live(parts, running.sizes, candidates, f"the {name} at work", 1)


def _resident_gradients(run: Run, parts: StepParts) -> Iterator[Term]:
    """Gradients that exist before the backward: of earlier micro batches, or in an engine's flat buffers."""
    resident = parts.state.gradients_resident
    every = tuple(_gradients(run, parts))
    if resident and sum(one.bytes for one in every) == resident:
        yield from (one._replace(component="gradients") for one in every)
    else:
        yield _done_gradients("gradients of earlier micro batches", run, parts, resident)


def _done_gradients(label: str, run: Run, parts: StepParts, size: int) -> Term:
    """Gradients as trainable parameters by the bytes of each."""
    widths = {BYTES[run.precision.grad_dtype or dtype] for dtype in _trainable(parts)}
    return _in_elements(label, size, min(widths, default=2))._replace(component="gradients")


def _saved_by_others(parts: StepParts, position: PeakPosition, backward: bool) -> Iterator[Term]:
    """The tensors saved by earlier segments, and by repetitions of the running segment that wait for their backward."""
    left = position.activations
    for index, segment in enumerate(parts.segments[: position.position + 1]):
        profile = segment.profile
        candidates = profile.live_until_backward if backward else profile.live_in_forward
        one = segment.sizes.peak(candidates) + segment.held_until_backward
        waiting = min(segment.repeat, segment.repeat if index < position.position else left // one) if one else 0
        if waiting:
            who = "the embedding" if index == 0 else f"{waiting} layers" if waiting > 1 else "1 layer"
            yield from _live(parts, segment.sizes, candidates, f"saved by {who}", waiting)
            if segment.held_until_backward:
                kept = _in_elements(f"more inputs that {who} keep", waiting * segment.held_until_backward, 2)
                yield kept._replace(component="activations")
            left -= waiting * one
    if backward and left > 0 and parts.step is not None and parts.step.architecture.encoder_decoder:
        yield _in_elements("gradients that several layers sum", left, 2)._replace(component="activations")


def _live(parts: StepParts, sizes: TensorBytes, candidates: PeakCandidates, label: str, times: int) -> Iterator[Term]:
    """The tensors of the largest of some live sets, `times` over: one term for each size."""
    each = sizes.by_size(candidates)
    best = max(candidates.packed, key=lambda packed: sum(n * size for n, size in zip(counters(packed), each)))
    for index, number in enumerate(counters(best)):
        if number and each[index]:
            size = candidates.tensor_sizes[index]
            factors = (*_elements(parts, sizes.counts[size.name], size.name), Factor(size.width, "bytes"))
            extent = f"{label}: {_words(size.name)}"
            yield Term(extent, number * times * each[index], factors, number * times, 1, component(size.extent))


def _elements(parts: StepParts, count: int, extent: str) -> tuple[Factor, ...]:
    """A number of elements as factors: (tokens, elements per token) if it is a multiple of the tokens."""
    tokens = parts.step.tokens.count if parts.step is not None else 0
    if tokens and count >= tokens and count % tokens == 0 and not extent.startswith("w:"):
        return Factor(tokens, "tokens"), Factor(count // tokens, "a token")
    return (Factor(count, "elements"),)


_EXTENTS = {
    "hidden": "hidden states",
    "rows": "a number for each token",
    "scalar": "a scalar",
    "intermediate": "inside the MLP",
    "mixed": "attention's output",
    "scores": "attention scores",
}


def _words(extent: str) -> str:
    """The name of a tensor's size in words: "w:gate" is a copy of that weight, or its gradient."""
    kind, colon, name = extent.partition(":")
    if colon:
        return {"w": f"copy or gradient of the weight {name}", "rank": f"adapter of {name}"}.get(kind, extent)
    return _EXTENTS.get(extent, extent)


# --- the KV cache ---------------------------------------------------------------------------------------------------


def _cache(run: Run, parts: StepParts, peak: Phase) -> Iterator[Term]:
    """Layers x keys and values x positions, by kind of layer; for a server, what remains of its share of the card."""
    if run.parallelism.engine in SERVERS:
        yield from _share_left(run, peak)
        return
    if not isinstance(run.batch.micro_batch_size, int):
        return
    length = run.sequence.length if isinstance(run.sequence.length, int) else 0
    if peak.name == "decode":
        length += run.sequence.max_new_tokens or run.evaluation.max_new_tokens
    sequences = run.batch.micro_batch_size * max(1, run.evaluation.num_beams)
    width = BYTES[str(run.precision.compute)]
    architecture: Architecture = run.model.architecture
    for kind, layer in enumerate(architecture.layer_types):
        layers = architecture.layer_type_ids.count(kind)
        factors = _cached(layer.attention, length, peak.name == "decode")
        if factors:
            every = (Factor(layers, "layers"), Factor(sequences, "sequences"), *factors, Factor(width, "bytes"))
            yield Term("keys and values", int(prod(one.value for one in every)), every)


def _share_left(run: Run, peak: Phase) -> Iterator[Term]:
    """A server's cache: its share of the card minus everything else in the share."""
    gpu, share = run.hardware.gpu, run.serving.memory_share
    if gpu is None or not isinstance(share, float):
        return
    named = ("weights", "activations", "logits") if run.parallelism.engine == "vllm" else ("weights",)
    outside = device.context_bytes(run) + device.nccl_bytes(run) if run.parallelism.engine == "sglang" else 0
    whole = gpu.usable_bytes - outside
    about = "bytes of the card" if not outside else "bytes free at the start"
    yield Term(f"share of {run.parallelism.engine}", int(share * whole), (Factor(share, "of"), Factor(whole, about)))
    yield from (Term(f"less {label}", -peak.components[label]) for label in named)


def _cached(shape: TokenMixer, length: int, decodes: bool) -> tuple[Factor, ...]:
    """The cached elements of one sequence in one layer, as factors; () for states of constant size."""
    if shape.kind == "mla" and not shape.shares_kv:
        return Factor(length, "positions"), Factor(shape.kv_lora_rank + shape.rope_head_dim, "of a latent")
    if shape.kind != "attention" or shape.shares_kv:
        return ()
    positions = min(length, shape.sliding_window) if shape.sliding_window and decodes else length
    both = shape.head_dim + (shape.value_head_dim or shape.head_dim)
    return (
        Factor(positions, "positions"),
        Factor(shape.kv_heads, "key-value heads"),
        Factor(both, "of a key and a value"),
    )


def redone(term: Term) -> int:
    """The bytes of a term from its numbers alone."""
    if not term.factors:
        return term.bytes
    product = prod(one.value for one in term.factors)
    if term.tensors:
        return term.tensors * (-(-int(product) // ALIGNMENT) * ALIGNMENT)
    return int(product) // term.divisor
