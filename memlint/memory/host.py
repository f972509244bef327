"""Host memory of loading, of saving a full state dict, and of merging an adapter, on one node.
Bytes on one node."""

from __future__ import annotations

import memlint.memory.families.lookup as families
import memlint.memory.state.optimizers as optimizers
import memlint.memory.state.parameters as parameters
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.state.parameters import stacks_experts
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Unit, with_tensors
from memlint.run import Run

_EACH_READS_ALL_SINCE = (5,)
_LEAVES_FROZEN_SINCE = (5,)
_MERGE_COPIES = 2  # the product of an adapter's two matrices, and the merged matrix


def merging(run: Run) -> int:
    """A model with its adapter merged, in one process: the base, and for the largest matrix the adapter's product and
    the sum in fp32 (peft 0.21.2 tuners/lora/layer.py, get_delta_weight: half precision is multiplied in fp32 on a CPU;
    LLaMA-Factory 0.9.5 train/tuner.py, export_model). Raises `MissingValue` where the model is not known."""
    units = parameters.units(run)
    largest = max((tensor.numel for unit in units for tensor in unit.tensors if tensor.kind == "linear"), default=0)
    return base_elements(units) * BYTES.get(str(run.model.weights_dtype), 2) + _MERGE_COPIES * 4 * largest


def loading(run: Run, units: tuple[Unit, ...]) -> int:
    """The most that the processes of a node hold while FSDP or ZeRO-3 reads the checkpoint. 0 for other engines, whose
    frameworks load onto the card or one file at a time.

    transformers 5 reads the whole model in each process of FSDP, whatever `cpu_ram_efficient_loading` says: weights in
    the dtype of their files are views of these, which processes share, others are copies, and so are experts that are
    stacked as they load (5.23.0, counted in two processes by benchmarks/referee/loading.py). What bitsandbytes packs
    goes to the card. In transformers 4 all but the first process left their weights on the meta device (4.46
    modeling_utils.py:571, load_state_dict), and under ZeRO-3 they do in both (5.23 modeling_utils.py:4524), unless the
    model is loaded before DeepSpeed's configuration is known: then each process loads it as it does without an engine.
    """
    parallel = run.parallelism
    if run.purpose != "train":
        return 0
    width = BYTES.get(str(run.model.weights_dtype), 2)
    whole = base_elements(units) * width
    packs = run.model.quantization.method == "bnb"
    stage3 = parallel.engine == "deepspeed" and parallel.zero.stage == 3
    if stage3 and packs:
        return 0
    if stage3 and parallel.zero.shards_on_load:
        return whole
    if not stage3 and parallel.engine != "fsdp":
        return 0
    if parallel.fsdp.one_reads:
        return whole
    if () < run.stack.transformers < _EACH_READS_ALL_SINCE:
        one_for_all = parallel.engine == "fsdp" and parallel.fsdp.cpu_ram_efficient_loading
        return whole if one_for_all else whole * ranks_per_node(run)
    if packs:
        return 0
    if run.model.architecture.dtype != run.model.weights_dtype:
        return whole * ranks_per_node(run)
    return whole + width * _stacked_while_loaded(run, units) * (ranks_per_node(run) - 1)


def _stacked_while_loaded(run: Run, units: tuple[Unit, ...]) -> int:
    """Elements of experts that a checkpoint holds one by one, and the model in stacks (transformers 5.23
    core_model_loading.py, MergeModulelist)."""
    converted = families.of(run.model.architecture).experts.peft_stacked_targets
    if not converted or not stacks_experts(run):
        return 0
    return sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if tensor.kind == "experts"
    )


def saving(run: Run, units: tuple[Unit, ...]) -> int:
    """The most that the processes of a node hold on the host while a checkpoint is written. 0 where nothing is
    gathered or copied. Counted in two processes of each engine by benchmarks/referee/saving.py.

    A full state dict of FSDP is on the first rank, in the dtype that it stores (accelerate 1.15 accelerator.py:4096),
    and after it all optimizer states (utils/fsdp_utils.py, save_fsdp_optimizer). ZeRO-3's is in half precision
    (deepspeed 0.19.8 runtime/engine.py, _zero3_consolidated_16bit_state_dict), of an adapted model what trains alone
    since transformers 5 (trainer.py:4110). Below stage 3 each process clones its whole model.
    """
    parallel = run.parallelism
    if not run.saving.enabled:
        return 0
    if parallel.engine == "fsdp" and (
        run.saving.gathers_full_weights or parallel.fsdp.state_dict_type == "FULL_STATE_DICT"
    ):
        return max(_stored_by_fsdp(run, units), 0 if run.saving.only_model else _whole_states(run, units))
    if parallel.engine != "deepspeed":
        return 0
    if isinstance(parallel.zero.stage, int) and parallel.zero.stage < 3:
        held = sum(weight_bytes(unit) * unit.repeat for unit in units)
        return held * ranks_per_node(run) if run.saving.copies_on_each_rank else 0
    if not parallel.zero.gather_16bit_weights_on_model_save:
        return 0
    leaves_frozen = run.saving.copies_on_each_rank and not () < run.stack.transformers < _LEAVES_FROZEN_SINCE
    adapted = run.method.kind not in ("full", "freeze")
    return 2 * parameters.total(units, trainable=adapted and leaves_frozen)


def _stored_by_fsdp(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of all weights: what trains in the dtype that it trains in."""
    trainable = parameters.total(units, trainable=True)
    width = BYTES.get(str(run.precision.trainable_dtype), 4)
    return trainable * width + (parameters.total(units) - trainable) * BYTES.get(str(run.model.weights_dtype), 2)


def _whole_states(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of the optimizer states of the whole model."""
    width = BYTES.get(str(run.precision.trainable_dtype), 4)
    stored = with_tensors(units, lambda one: one._replace(dtype=_DTYPES[width]) if one.trainable else one)
    alone = run._replace(parallelism=run.parallelism._replace(engine="single"))
    return optimizers.memory(alone, stored).states


_DTYPES = {2: "bfloat16", 4: "float32"}


def base_elements(units: tuple[Unit, ...]) -> int:
    """Parameters of the model without adapters."""
    return sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if tensor.kind != "adapter" and not tensor.name.startswith("adapter_copy.")
    )
