"""The parameter tensors that a run holds, before sharding: base weights, adapters, trainable copies; unit by unit."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TypeVar

import memlint.memory.families.lookup as families
import memlint.memory.state.adapters as adapters
from memlint.architectures.model import Architecture, Tower, Weight, layer_path
from memlint.memory.state.storage import (
    BYTES,
    dtype_name,
    is_quantized,
    numel,
    quantized_bytes,
    quantized_on_load,
    rounded,
)
from memlint.memory.values import Tensor, Unit
from memlint.run import Maybe, Quantization, Run, Unknown

T = TypeVar("T")

_EMBEDDING_KINDS = ("embedding", "position", "fixed")
_EMBEDDING_NAMES = ("embed", ".per_layer_", ".encoder.conv", ".altup_projections.")
_HEAD_NAME = "unembed"
_EMBEDDINGS_DTYPE_KINDS = ("embedding", "head", "norm")  # kinds of weights with `precision.embeddings_dtype`
# Names of modules that trl casts to bf16 (trl 0.25.1 models/utils.py:556, peft_module_casting_to_bf16).
VOCABULARY_NAMES = ("lm_head", "embed_tokens", "wte", "wpe")


class MissingValue(Exception):
    """A value is unknown without which parameters cannot be placed. `field`: dotted name. `reason`: what to do."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


def required(value: Maybe[T], field: str, reason: str) -> T:
    """`value` if it is known. Raises `MissingValue` with `field` and `reason` if it is not."""
    if isinstance(value, Unknown):
        raise MissingValue(field, reason)
    return value


# Fields of the method that determine what trains. A placeholder such as ${rank} leaves one unknown.
_TRAINING_FIELDS = ("kind", "rank", "targets", "dropout")


def _required_of_method(value: Maybe[T], field: str) -> T:
    """`value` of a field of the method. Raises `MissingValue` where it is unknown."""
    return required(value, f"method.{field}", "the value is filled in elsewhere: what trains cannot be counted")


def gives_scores(run: Run) -> bool:
    """Whether the model has a head of scores, or none, in place of the head of words: classifiers, reward models,
    embeddings."""
    is_reward_model = run.method.stage == "rm" and run.method.reward_head == "score"
    return is_reward_model or run.method.drops_language_head


def ties_head(run: Run) -> bool:
    """Whether the head of words reads the embedding's weight."""
    return bool(getattr(run.model.architecture, "tied_embeddings", False)) and not gives_scores(run)


def units(run: Run) -> tuple[Unit, ...]:
    """The run's units: embedding, towers, decoder layers, head. Consecutive equal layers are one unit with a count.

    Raises `MissingValue` when the architecture or a dtype is unknown.
    """
    architecture = run.model.architecture
    if not isinstance(architecture, Architecture):
        raise MissingValue("model.architecture", "the model's dimensions are unknown: give its config.json or its name")
    for field in _TRAINING_FIELDS:
        _required_of_method(getattr(run.method, field), field)
    if run.method.kind != "full":  # weights in few bits have no gradients
        reason = "whether its weights are loaded in few bits is not known"
        required(run.model.quantization.bits, "model.quantization.bits", reason)
    if any(layer.mlp.experts for layer in architecture.layer_types):
        _required_of_method(run.method.target_parameters, "target_parameters")
    builder = _UnitBuilder(run, architecture)
    before_layers, after_layers = _split_non_layer_weights(architecture)
    if gives_scores(run):
        after_layers = tuple(weight for weight in after_layers if weight.kind != "head")
    found = [Unit("embedding", builder.outside_layers(before_layers))]
    for tower in architecture.towers:
        found += _tower_units(tower, builder)
    if run.model.holds_speech and architecture.speech_weights:
        found.append(Unit("speech", builder.frozen(architecture.speech_weights)))
    found += _layer_units(builder)
    found.append(Unit("head", builder.outside_layers(after_layers) + builder.untied_head(before_layers)))
    if run.method.kind == "prefix":
        found[0] = found[0]._replace(tensors=found[0].tensors + builder.prefix())
    return tuple(found)


def surely_adapts(run: Run) -> bool:
    """Whether a linear weight of the first decoder layer gets LoRA's matrices, told without making any tensor. False
    where that needs more than its name."""
    method, architecture = run.method, run.model.architecture
    if method.kind not in adapters.LORA_KINDS or method.freeze_language_model or method.rank_pattern:
        return False
    if not isinstance(architecture, Architecture) or not architecture.layer_type_ids:
        return False
    if any(isinstance(getattr(method, field), Unknown) for field in _TRAINING_FIELDS) or method.rank < 1:
        return False
    method = adapters.with_stacked_experts(run)
    first = architecture.layer_types[architecture.layer_type_ids[0]]
    return any(
        weight.kind == "linear" and len(weight.shape) > 1 and adapters.is_target(weight, method, 0)
        for weight in first.weights
    )


def total(found: tuple[Unit, ...], trainable: bool = False) -> int:
    """Parameters in `found` (all, or only those that train)."""
    return sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in found
        for tensor in unit.tensors
        if tensor.trainable or not trainable
    )


def frozen_bytes(found: tuple[Unit, ...]) -> int:
    """Bytes of the frozen parameters in `found`, as they are stored."""
    frozen = ((unit.repeat, tensor) for unit in found for tensor in unit.tensors if not tensor.trainable)
    return sum(rounded(tensor.stored_bytes) * tensor.copies * repeat for repeat, tensor in frozen)


def trainable_layers(run: Run, count: int) -> frozenset[int]:
    """Indexes of the decoder layers that freeze tuning trains (LLaMA-Factory 0.9.5 model/adapter.py:69-87)."""
    method = run.method
    last = _required_of_method(method.freeze_trainable_layers, "freeze_trainable_layers")
    if method.use_llama_pro:
        stride = count // last if last and last <= count else 1
        return frozenset(range(stride - 1, count, stride))
    if last > 0:
        return frozenset(range(max(0, count - last), count))
    return frozenset(range(min(-last, count)))


def _split_non_layer_weights(architecture: Architecture) -> tuple[tuple[Weight, ...], tuple[Weight, ...]]:
    before: list[Weight] = []
    after: list[Weight] = []
    for weight in architecture.non_layer_weights:
        is_before = weight.kind in _EMBEDDING_KINDS or any(name in weight.name for name in _EMBEDDING_NAMES)
        is_before = is_before and _HEAD_NAME not in weight.name
        is_last_norm = architecture.final_norm != "" and weight.name.endswith(f".{architecture.final_norm}.weight")
        (before if is_before and not is_last_norm else after).append(weight)
    return tuple(before), tuple(after)


def _layer_units(builder: _UnitBuilder) -> list[Unit]:
    """Units of consecutive equal layers: of one type, and treated alike by the training method."""
    architecture = builder.architecture
    tensors_by_key: dict[tuple[int, str], tuple[Tensor, ...]] = {}
    found: list[Unit] = []
    keys = zip(architecture.layer_type_ids, map(builder.layer_mode, range(len(architecture.layer_type_ids))))
    index = 0
    for key, group in groupby(keys):
        repeat = len(list(group))
        if key not in tensors_by_key:
            tensors_by_key[key] = builder.layer_tensors(key[0], index)
        found.append(Unit("layer", tensors_by_key[key], repeat, index))
        index += repeat
    return found


def _tower_units(tower: Tower, builder: _UnitBuilder) -> list[Unit]:
    def of_tower(weights: tuple[Weight, ...]) -> tuple[Tensor, ...]:
        return builder.tensors(weights, builder.tower_trains, tower.tower_prefix, adapts=builder.adapts_towers)

    found = [Unit("tower", of_tower(tower.weights))]
    if tower.layers and tower.layer_weights:
        found.append(Unit("tower", of_tower(tower.layer_weights), tower.layers))
    if tower.projector_weights:
        trains, adapts = builder.projector_trains, builder.adapts_projectors
        tensors = builder.tensors(tower.projector_weights, trains, tower.projector_prefix, adapts=adapts)
        found.append(Unit("projector", tensors))
    return found


class _UnitBuilder:
    """Turns an architecture's weights into tensors as one run holds them."""

    def __init__(self, run: Run, architecture: Architecture) -> None:
        method = run.method
        self.run = run
        self.architecture = architecture
        self.frozen_dtype = _known_dtype(run.model.weights_dtype, "model.weights_dtype")
        self.method = adapters.with_stacked_experts(run)
        self.modules_to_save = _required_of_method(method.modules_to_save, "modules_to_save")
        self.adapts = method.kind in adapters.PER_WEIGHT_KINDS
        self.adapts_towers = self.adapts and not method.freeze_vision_tower
        # LLaMA-Factory lists no linear of a projector (0.9.5 model/model_utils/misc.py:38).
        self.adapts_projectors = (
            self.adapts and not method.freeze_multi_modal_projector and not method.targets_linear_only
        )
        self.is_full = method.kind == "full"
        self.trainable_dtype = self._trainable_dtype()
        blockwise = run.optimizer.badam_mode != "" and method.kind in ("full", "freeze")
        self.non_layer_weights = self.is_full and not method.freeze_language_model and not blockwise
        self.tower_trains = self.is_full and not method.freeze_vision_tower
        freezes_layers = method.kind == "freeze" and not method.trainable_patterns
        self.projector_trains = (self.is_full or freezes_layers) and not method.freeze_multi_modal_projector
        self.adapted_layers = frozenset(method.layers_to_transform)
        self.unfrozen = frozenset[int]()
        if blockwise:
            # One decoder layer at a time, neither embedding nor head (BAdam 1.4 block_optim.py:172 infer_param_groups);
            # activations reach down to the block: the first one, where the default order begins, needs most.
            self.unfrozen = frozenset((0,))
        elif method.kind == "freeze":
            self.unfrozen = trainable_layers(run, len(architecture.layer_type_ids))
        quantization = run.model.quantization
        self.unquantized = architecture.stored.skipped if quantization.prequantized else quantization.skipped
        self.quantizes = quantization.method != "none"
        self.experts_are_stacked = stacks_experts(run)
        self.expert_linears = families.of(architecture).experts.peft_stacked_targets
        self.embeddings_dtype = run.precision.embeddings_dtype
        self.selects_weights = (
            bool(method.trainable_patterns) or method.kind == "freeze" or method.bias == "all" or blockwise
        )
        self.layers_are_equal = not (self.unfrozen or self.adapted_layers or method.trainable_patterns)

    def _trainable_dtype(self) -> str:
        run = self.run
        if run.method.kind in ("full", "freeze") or run.method.modules_to_save or run.method.trainable_patterns:
            return _known_dtype(run.precision.trainable_dtype, "precision.trainable_dtype")
        return str(run.precision.trainable_dtype or "float32")

    def layer_mode(self, index: int) -> str:
        """A key that differs between layers of one type: trained by freeze tuning, adapted or not, matched by a
        pattern."""
        if self.layers_are_equal:
            return ""
        mode = "u" if index in self.unfrozen else ""
        if self.adapted_layers and index in self.adapted_layers:
            mode += "t"
        if self.run.method.trainable_patterns:
            mode += str(self._patterns_matching(index))
        return mode

    def _patterns_matching(self, index: int) -> tuple[str, ...]:
        kind = self.architecture.layer_types[self.architecture.layer_type_ids[index]]
        path = layer_path(self.architecture, index)
        return tuple(w.name for w in kind.weights if self._unfrozen_by_pattern(f"{path}.{w.name}"))

    def _unfrozen_by_pattern(self, name: str) -> bool:
        return any(_matches_pattern(pattern, name) for pattern in self.run.method.trainable_patterns)

    def outside_layers(self, weights: tuple[Weight, ...]) -> tuple[Tensor, ...]:
        """The tensors of embeddings, last norm and head."""
        return self.tensors(weights, self.non_layer_weights, adapts=self.adapts)

    def layer_tensors(self, kind: int, index: int) -> tuple[Tensor, ...]:
        """One decoder layer's tensors."""
        trains = self.non_layer_weights or index in self.unfrozen
        weights = self.architecture.layer_types[kind].weights
        adapts = self.adapts and not self.method.freeze_language_model
        return self.tensors(weights, trains, layer_path(self.architecture, index), index, adapts=adapts)

    def tensors(
        self, weights: tuple[Weight, ...], trains: bool, prefix: str = "", index: int = -1, *, adapts: bool
    ) -> tuple[Tensor, ...]:
        """The tensors of `weights`: base weights, adapters, trainable copies. `prefix`, `index`: of their layer."""
        found: list[Tensor] = []
        for weight in weights:
            trained = self._is_trained(weight, trains, prefix, index) if self.selects_weights else trains
            trained = trained and weight.kind != "fixed"
            found.append(self._base_tensor(weight, trained))
            if self.modules_to_save and adapters.matches(weight.name.rpartition(".")[0], self.modules_to_save):
                found.append(self._dense_tensor(weight, "adapter_copy." + weight.name, True, self.trainable_dtype))
            elif adapts:
                self._add_adapter(found, weight, index)
        return tuple(found)

    def frozen(self, weights: tuple[Weight, ...]) -> tuple[Tensor, ...]:
        """Weights that neither train nor get adapters."""
        return tuple(self._dense_tensor(weight, weight.name, False, self.frozen_dtype) for weight in weights)

    def untied_head(self, before_layers: tuple[Weight, ...]) -> tuple[Tensor, ...]:
        """PEFT's copy of a head that shares the embedding's matrix: `modules_to_save` copies each module that it names,
        and copies are no longer tied (peft 0.21.2 utils/other.py, ModulesToSaveWrapper)."""
        if not self.architecture.tied_embeddings or not adapters.matches("lm_head", self.modules_to_save):
            return ()
        shared = next((weight for weight in before_layers if weight.kind == "embedding"), None)
        if shared is None:
            return ()
        head = shared._replace(name="lm_head.weight", kind="head")
        return (self._dense_tensor(head, "adapter_copy.lm_head.weight", True, self.trainable_dtype),)

    def _is_trained(self, weight: Weight, trains: bool, prefix: str, index: int) -> bool:
        """Whether a base weight trains, for methods that select weights. `trains`: whether its layer or module does."""
        method = self.run.method
        if trains and self._freeze_selects(weight, index):
            return True
        name = f"{prefix}.{weight.name}" if prefix else weight.name
        if method.trainable_patterns and self._unfrozen_by_pattern(name):
            return True
        if method.bias == "all" and weight.kind == "bias":
            return True
        if method.kind != "freeze" or index >= 0:
            return False
        extra = _required_of_method(method.freeze_extra_modules, "freeze_extra_modules")
        return adapters.matches(weight.name.rpartition(".")[0], extra)

    def _freeze_selects(self, weight: Weight, index: int) -> bool:
        if index < 0 or self.is_full or self.run.optimizer.badam_mode:
            return True
        names = _required_of_method(self.run.method.freeze_trainable_modules, "freeze_trainable_modules")
        return "all" in names or weight.name.split(".")[0] in names

    def _add_adapter(self, found: list[Tensor], weight: Weight, index: int) -> None:
        dtype = self.run.method.adapter_dtype
        for branch in self._branches(weight, index):
            count = numel(branch.shape)
            name = f"{weight.name}.{branch.suffix}"
            found.append(Tensor(name, count, branch.shape, "adapter", True, dtype, count * BYTES[dtype], weight.copies))

    def _branches(self, weight: Weight, index: int) -> tuple[adapters.AdapterTensor, ...]:
        if weight.kind == "experts" and not self.experts_are_stacked:
            return adapters.branches_of_expert_linears(weight, self.method, self.expert_linears, index)
        return adapters.branches(weight, self.method) if adapters.is_target(weight, self.method, index) else ()

    def _base_tensor(self, weight: Weight, trained: bool) -> Tensor:
        quantization = self.run.model.quantization
        if (
            self.quantizes
            and not trained
            and is_quantized(weight, quantization, self.unquantized, self.experts_are_stacked)
        ):
            size = _quantized_bytes(weight, quantization)
            name = dtype_name(quantization)
            return Tensor(weight.name, numel(weight.shape), weight.shape, weight.kind, False, name, size, weight.copies)
        upcast = self.quantizes and quantization.upcast_rest_to_fp32
        if upcast and quantization.vocabulary_to_bf16 and any(name in weight.name for name in VOCABULARY_NAMES):
            return self._dense_tensor(weight, weight.name, trained, self.trainable_dtype if trained else "bfloat16")
        # LLaMA-Factory 0.9.5 model_utils/checkpointing.py:158: vectors of norms.
        upcast = upcast or (self.run.precision.upcast_layernorm and weight.kind == "norm")
        dtype = self.trainable_dtype if trained else "float32" if upcast else self.frozen_dtype
        if self.embeddings_dtype and weight.kind in _EMBEDDINGS_DTYPE_KINDS:
            dtype = self.embeddings_dtype
        return self._dense_tensor(weight, weight.name, trained, dtype)

    def _dense_tensor(self, weight: Weight, name: str, trained: bool, dtype: str) -> Tensor:
        shape = weight.shape
        count = numel(shape)
        return Tensor(name, count, shape, weight.kind, trained, dtype, count * BYTES[dtype], weight.copies)

    def prefix(self) -> tuple[Tensor, ...]:
        """Prefix tuning's key and value per layer and virtual token (peft 0.21.2 tuners/prefix_tuning/model.py)."""
        kind = self.architecture.layer_types[self.architecture.layer_type_ids[0]].attention
        width = 2 * len(self.architecture.layer_type_ids) * kind.kv_heads * kind.head_dim
        shape = (self.run.method.rank, width)
        dtype = self.run.method.adapter_dtype
        count = numel(shape)
        return (Tensor("prefix.embedding", count, shape, "adapter", True, dtype, count * BYTES[dtype]),)


def _quantized_bytes(weight: Weight, quantization: Quantization) -> int:
    """Bytes of a quantised weight. Experts in a list of linears are quantised one by one; a stack that Axolotl packs is
    quantised as one matrix of all rows (axolotl 0.19.0 monkeypatch/moe_quant.py:47 and 118)."""
    if quantized_on_load(weight, quantization):
        return quantized_bytes((numel(weight.shape[:-1]), weight.shape[-1]), quantization)
    if weight.kind == "experts" and len(weight.shape) == 3:
        return weight.shape[0] * quantized_bytes(weight.shape[1:], quantization)
    return quantized_bytes(weight.shape, quantization)


def stacks_experts(run: Run) -> bool:
    """Whether the software stack holds a layer's experts as 3-D parameters: transformers 5 does; before, as linears."""
    return families.of(run.model.architecture).experts.stacked.include(run.stack.transformers)


def _matches_pattern(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return pattern in name


def _known_dtype(value: object, field: str) -> str:
    if isinstance(value, str) and value in BYTES:
        return value
    raise MissingValue(field, "the dtype is not known: say it in the file or with a `# memlint:` comment")
