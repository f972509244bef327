"""Host memory of what runs before, after or instead of training: loading, saving a full state dict, merging an adapter.
Bytes on one node."""

from __future__ import annotations

import memlint.memory.parameters as parameters
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.storage import BYTES
from memlint.memory.values import Unit
from memlint.run import Run

_EACH_READS_ALL_SINCE = (5,)
_MERGE_COPIES = 2  # the product of an adapter's two matrices, and the merged matrix


def merging(run: Run) -> int:
    """A model with its adapter merged, in one process: the base, and for the largest matrix the adapter's product and
    the sum in fp32 (peft 0.21.2 tuners/lora/layer.py, get_delta_weight: half precision is multiplied in fp32 on a CPU;
    LLaMA-Factory 0.9.5 train/tuner.py, export_model). Raises `MissingValue` where the model is not known."""
    units = parameters.units(run)
    largest = max((tensor.numel for unit in units for tensor in unit.tensors if tensor.kind == "linear"), default=0)
    return base_elements(units) * BYTES.get(str(run.model.weights_dtype), 2) + _MERGE_COPIES * 4 * largest


def loading(run: Run, units: tuple[Unit, ...]) -> int:
    """The most that FSDP's processes of a node hold while the checkpoint is read. 0 for other engines, whose frameworks
    load onto the card or one file at a time.

    transformers 5 reads the whole model in each process, whatever `cpu_ram_efficient_loading` says: weights in the
    dtype of their files are views of these, which processes share, others are copies (5.23.0, counted in two processes
    by benchmarks/referee/loading.py). What bitsandbytes packs goes to the card. In transformers 4 all but the
    first process left their weights on the meta device (4.46 modeling_utils.py:571, load_state_dict).
    """
    if run.parallelism.engine != "fsdp" or run.purpose != "train":
        return 0
    whole = base_elements(units) * BYTES.get(str(run.model.weights_dtype), 2)
    if () < run.stack.transformers < _EACH_READS_ALL_SINCE:
        return whole if run.parallelism.fsdp.cpu_ram_efficient_loading else whole * ranks_per_node(run)
    if run.model.quantization.method == "bnb":
        return 0
    is_mapped = run.model.architecture.dtype == run.model.weights_dtype
    return whole if is_mapped else whole * ranks_per_node(run)


def saving(run: Run, units: tuple[Unit, ...]) -> int:
    """The full state dict that the first rank collects on the host: FSDP's in the dtype that it stores
    (torch 2.13 distributed/fsdp/api.py, FullStateDictConfig with `offload_to_cpu` and `rank0_only`, as accelerate 1.14
    utils/dataclasses.py sets it), ZeRO-3's in half precision (deepspeed 0.19.8 runtime/engine.py,
    _zero3_consolidated_16bit_state_dict). 0 where nothing is gathered."""
    parallel = run.parallelism
    every = parameters.total(units)
    if parallel.engine == "fsdp" and (
        run.saving.gathers_full_weights or parallel.fsdp.state_dict_type == "FULL_STATE_DICT"
    ):
        trainable = parameters.total(units, trainable=True)
        width = BYTES.get(str(run.precision.trainable_dtype), 4)
        return trainable * width + (every - trainable) * BYTES.get(str(run.model.weights_dtype), 2)
    if parallel.engine == "deepspeed" and parallel.zero.stage == 3 and parallel.zero.gather_16bit_weights_on_model_save:
        return 2 * every
    return 0


def base_elements(units: tuple[Unit, ...]) -> int:
    """Parameters of the model without adapters."""
    return sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if tensor.kind != "adapter" and not tensor.name.startswith("adapter_copy.")
    )
