"""The optimizer table: complete, with sources, bytes by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.state import optimizers as optimizer
from memlint.memory.state.parameters import units as model_units
from memlint.memory.values import Tensor, Unit
from memlint.run import Parallelism, Zero
from tests.comparisons.optimizers import closed_form
from tests.frameworks import LLAMAFACTORY
from tests.memory.runs import run

TABLE = Path(__file__).parents[3] / "memlint" / "memory" / "state" / "optimizers.json"
# `OptimizerNames` of transformers 5.23.0 training_args.py, and what 4.4x had beside them.
NAMES = [
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_torch_xla",
    "adamw_torch_npu_fused",
    "adafactor",
    "adamw_anyprecision",
    "adamw_torch_4bit",
    "adamw_torch_8bit",
    "ademamix",
    "sgd",
    "adagrad",
    "adamw_bnb_8bit",
    "adamw_8bit",
    "ademamix_8bit",
    "lion_8bit",
    "lion_32bit",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
    "paged_ademamix_32bit",
    "paged_ademamix_8bit",
    "paged_lion_32bit",
    "paged_lion_8bit",
    "rmsprop",
    "rmsprop_bnb",
    "rmsprop_bnb_8bit",
    "rmsprop_bnb_32bit",
    "galore_adamw",
    "galore_adamw_8bit",
    "galore_adafactor",
    "galore_adamw_layerwise",
    "galore_adamw_8bit_layerwise",
    "galore_adafactor_layerwise",
    "lomo",
    "adalomo",
    "grokadamw",
    "schedule_free_radam",
    "schedule_free_adamw",
    "schedule_free_sgd",
    "apollo_adamw",
    "apollo_adamw_layerwise",
    "stable_adamw",
    "adamw_hf",
    "adamw_apex_fused",
]


AXOLOTL = (  # 0.19.0 utils/schemas/enums.py:86, CustomSupportedOptimizers
    *("optimi_adamw", "ao_adamw_4bit", "ao_adamw_8bit", "ao_adamw_fp8", "adopt_adamw", "adamc", "came_pytorch", "muon"),
    *("dion", "sinkgd", "polora", "flash_adamw", "flash_adam", "flash_sgd", "flash_sgdw", "flash_lion"),
    "q_galore_adamw8bit",
)
# deepspeed 0.19.8 runtime/config.py:52-66
DEEPSPEED = ("adagrad", "adam", "adamw", "lamb", "muadam", "muadamw", "musgd", "lion", "muon") + (
    *("onebitadam", "onebitlamb", "zerooneadam"),
)
SWIFT = ("galore_adamw", "muon", "muonclip")  # 4.6.0 optimizers/mapping.py; its other plug-ins group parameters alone
FACTORY = ("galore_adamw", "apollo_adamw", "adam_mini", "muon")  # 0.9.5 train/trainer_utils.py:527
# Why a class cannot be run without a GPU, or is that of another entry.
NOT_RUN = {
    "flash_adamw": "its update is a Triton kernel",
    "flash_lion": "its update is a Triton kernel",
    "flash_sgd": "its update is a Triton kernel",
    "adamw_anyprecision": "torchdistx is on no index",
    "adamw_anyprecision_bf16": "a class of EasyR1, which is on no index",
    "adamw_torch_4bit": "its step is compiled; its states were counted",
    "adamw_torch_8bit": "its step is compiled; its states were counted",
    "ao_adamw_fp8": "its step is compiled; its states were counted",
    "paged_ademamix_32bit": "bitsandbytes asks CUDA for managed memory",
    "paged_ademamix_8bit": "bitsandbytes asks CUDA for managed memory",
    "galore_adamw_8bit": "its step waits for a CUDA device",
    "galore_adamw_8bit_layerwise": "its step waits for a CUDA device",
    "galore_adamw_layerwise": "the class of galore_adamw, one parameter at a time",
    "galore_adafactor_layerwise": "the class of galore_adafactor, one parameter at a time",
    "apollo_adamw_layerwise": "the class of apollo_adamw, one parameter at a time",
    "lomo": "its step is a hook of a CUDA backward",
    "adalomo": "its step is a hook of a CUDA backward",
    "soap": "a file of its own repository, on no index",
    "shampoo": "its matrix roots take minutes on a CPU",
    "fused_adam": "a CUDA kernel on two moments",
    "fused_lamb": "a CUDA kernel on two moments",
    "fused_lion": "a CUDA kernel on a moment",
    "cpu_adam": "a C++ kernel on two moments",
    "cpu_adagrad": "a C++ kernel on one sum",
    "onebitadam": "its communication needs NCCL",
    "polora": "its package is on no index",
}


def test_every_entry_was_run_or_says_why_not() -> None:
    entries = json.loads(TABLE.read_text(encoding="utf-8"))
    run_here = {row["name"] for row in COUNTED}
    assert set(entries) - run_here == set(NOT_RUN)


@pytest.mark.parametrize("name", sorted({*AXOLOTL, *DEEPSPEED, *SWIFT, *FACTORY}))
def test_every_name_of_the_frameworks_is_there(name: str) -> None:
    assert name in optimizer.table()


def test_every_entry_names_its_source() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    assert all(entry["source"] for entry in table.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_transformers_is_there(name: str) -> None:
    assert name in optimizer.table()


def memory(name: str, numel: int, shape: tuple[int, ...], dtype: str = "float32", **changes: object) -> tuple[int, int]:
    width = {"float32": 4, "bfloat16": 2}[dtype]
    tensor = Tensor("x.weight", numel, shape, "linear", True, dtype, numel * width)
    held = optimizer.memory(run(optimizer__name=name, **changes), (Unit("layer", (tensor,)),))
    return held.states, held.step_temporaries


@pytest.mark.parametrize(
    ("name", "states", "temporaries"),
    [
        ("adamw_torch", 8 * 2**20, 4 * 2**20),  # two moments; sqrt of the second in one foreach
        ("adamw_torch_fused", 8 * 2**20 + 512, 0),  # the step counter is on the GPU
        ("sgd", 0, 0),
        ("adamw_bnb_8bit", 2 * (2**20 + 4 * 4096), 0),  # a byte, and fp32 per block of 256
        ("adamw_torch_4bit", 2 * (2**19 + 4 * 8192 + 512), 4 * 2**20),  # and a code table of 16 numbers
        ("adafactor", 2 * 4096, 8 * 2**20),  # row and column sums of 1024 x 1024
        ("lion_32bit", 4 * 2**20, 0),
        ("lomo", 0, 8 * 2**20),  # an fp32 gradient and an fp32 weight
    ],
)
def test_bytes_of_a_square_matrix(name: str, states: int, temporaries: int) -> None:
    assert memory(name, 2**20, (1024, 1024)) == (states, temporaries)


def test_small_tensors_keep_fp32_moments_in_bitsandbytes() -> None:
    assert memory("adamw_bnb_8bit", 4095, (4095,))[0] == 2 * 16384
    assert memory("adamw_bnb_8bit", 4096, (4096,))[0] == 2 * (4096 + 512)


def test_paged_states_are_outside_of_the_allocator_from_1e5_elements() -> None:
    assert memory("paged_adamw_32bit", 2**20, (1024, 1024))[0] == 0
    assert memory("paged_adamw_32bit", 90_000, (300, 300))[0] == 2 * 360_448


def test_momentum_adds_a_state_to_sgd() -> None:
    assert memory("sgd", 2**20, (1024, 1024), optimizer__momentum=0.9)[0] == 4 * 2**20


@pytest.mark.parametrize("name", sorted(optimizer.table()))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_states_that_a_step_creates_are_those_that_count(name: str, dtype: str) -> None:
    width = {"float32": 4, "bfloat16": 2}[dtype]
    matrix = Tensor("x.weight", 2**20, (512, 2048), "linear", True, dtype, width * 2**20, copies=2)
    norm, frozen = (Tensor("n.weight", 512, (512,), "norm", trains, dtype, 512 * width) for trains in (True, False))
    units = (Unit("layer", (matrix, norm, frozen), repeat=3),)
    one = run(optimizer__name=name, optimizer__rank=8)
    held = optimizer.memory(one, units).states
    created = optimizer.created_states(one, units, held)
    assert sum(created) == held
    assert len(created) % 3 in (0, 1)  # of each layer the same, and at most one for all counters


def test_galore_keeps_moments_in_its_rank_and_of_fp32_gradients_all_singular_vectors() -> None:
    states, _ = memory("galore_adamw", 2**20, (512, 2048), optimizer__rank=128)
    assert states == 4 * (2 * 128 * 2048 + 512 * 512)
    states, _ = memory("galore_adamw", 2**20, (512, 2048), "bfloat16", optimizer__rank=128)
    assert states == 2 * (2 * 128 * 2048 + 128 * 512)


def test_galore_projects_its_targets_only() -> None:
    all_of_them, _ = memory("galore_adamw", 2**20, (512, 2048), optimizer__rank=8)
    others, _ = memory("galore_adamw", 2**20, (512, 2048), optimizer__rank=8, optimizer__targets=("q_proj",))
    assert others == 8 * 2**20 > all_of_them


COUNTED = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "benchmarks" / "data" / "optimizers.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: f"{row['name']}-{row['dtype']}-{len(row['shapes'][1])}")
def test_bytes_counted_on_the_real_classes(row: dict[str, Any]) -> None:
    """States to a rounding of each tensor; step temporaries but for what the update before left in a variable (at most
    one more tensor), and for GaLore's refresh, which the counted step is not."""
    states, step = closed_form(row["name"], row["shapes"], row["dtype"], row["fields"])
    assert states == pytest.approx(row["states"], abs=20_000)
    if "galore" in row["name"]:
        assert step >= 0.98 * row["step"]
    else:
        assert row["step"] * 0.88 - 20_000 <= step <= row["step"] + 20_000


def test_embeddings_keep_32_bit_moments_where_the_trainer_says_so() -> None:
    """transformers 5.23 trainer.py:1328; up to 4.51 its condition named a class that it never used."""
    tensor = Tensor("embed_tokens.weight", 2**20, (1024, 1024), "embedding", True, "bfloat16", 2**21)
    new, old = run(optimizer__name="adamw_8bit"), run(optimizer__name="adamw_8bit", stack__transformers=(4, 51))
    assert optimizer.memory(new, (Unit("embedding", (tensor,)),)).states == 8 * 2**20
    assert optimizer.memory(old, (Unit("embedding", (tensor,)),)).states == 2 * (2**20 + 4 * 4096)


def test_the_absmax_of_paged_states_is_not_paged() -> None:
    assert memory("paged_adamw_8bit", 2**20, (1024, 1024))[0] == 2 * 4 * 4096


def test_muon_over_fsdp2_needs_one_whole_matrix_and_divided_states() -> None:
    fsdp: dict[str, object] = {"parallelism__engine": "fsdp", "parallelism__fsdp__version": 2}
    ranks: dict[str, object] = {"parallelism__world_size": 4, "parallelism__data_parallel_size": 4}
    one, four = estimate(run(optimizer__name="muon")), estimate(run(optimizer__name="muon", **fsdp, **ranks))
    assert four.details["optimizer_state_bytes"] == pytest.approx(one.details["optimizer_state_bytes"] / 4, rel=0.01)
    assert 0 < four.details["optimizer_step_temporary_bytes"] <= one.details["optimizer_step_temporary_bytes"]


def test_muonclip_has_one_momentum_wherever_it_runs() -> None:
    """Flat partitions are vectors to it."""
    fsdp: dict[str, object] = {"parallelism__engine": "fsdp", "parallelism__world_size": 4}
    fsdp |= {"parallelism__data_parallel_size": 4}
    one = estimate(run(optimizer__name="muonclip"))
    for version in (1, 2):
        four = estimate(run(optimizer__name="muonclip", **fsdp, parallelism__fsdp__version=version))
        states = four.details["optimizer_state_bytes"]
        assert states == pytest.approx(one.details["optimizer_state_bytes"] / 4, rel=0.01)


def test_muon_over_flat_parameters_is_unknown() -> None:
    found = estimate(run(optimizer__name="muon", parallelism__engine="fsdp", parallelism__fsdp__version=1))
    assert [entry.field for entry in found.unknown] == ["optimizer.name"]


BADAM: dict[str, object] = {"optimizer__name": "adamw_torch", "optimizer__badam_mode": "layer"}
LAYER = 256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 704 + 512


def test_badam_holds_states_of_one_layer() -> None:
    """An fp32 copy, its gradient, two moments and a foreach temporary of one decoder layer (BAdam 1.4)."""
    found = estimate(run(**BADAM, sequence__length=8))
    assert found.trainable_parameters == LAYER
    step = next(phase for phase in found.phases if phase.name == "optimizer_step").components
    assert step["optimizer_states"] == pytest.approx(12 * LAYER, rel=0.001)
    assert step["gradients"] == step["temporaries"] == pytest.approx(4 * LAYER, rel=0.001)


def test_badam_under_llama_factory_keeps_all_frozen_layers_above_its_block() -> None:
    """Only layers with trainable parameters are checkpointed (LLaMA-Factory 0.9.5 checkpointing.py:100-120)."""
    case = {**BADAM, "checkpointing__mode": "full", "sequence__length": 1024}
    alone = estimate(run(**case))
    factory = estimate(run(**case, **LLAMAFACTORY))
    assert alone.allocated_bytes is not None and factory.allocated_bytes is not None
    assert factory.allocated_bytes > alone.allocated_bytes + 3 * 2 * 1024 * 704 * 2 * 2


def test_badam_under_zero3_shares_the_block() -> None:
    """DeepSpeed partitions the block that trains alone (BAdam 1.4 block_optim.py, _reset_ds_optimizer)."""
    sharded = Parallelism(2, 2, 2, engine="deepspeed", zero=Zero(3))
    found = estimate(run(**BADAM, parallelism=sharded, sequence__length=8))
    step = next(phase for phase in found.phases if phase.name == "optimizer_step").components
    assert step["optimizer_states"] == pytest.approx(12 * LAYER / 2, rel=0.001)


def test_badam_ratio_is_unknown() -> None:
    assert estimate(run(optimizer__badam_mode="ratio")).unknown[0].field == "optimizer.badam_mode"


def test_layerwise_steps_hold_one_gradient_at_a_time() -> None:
    whole = estimate(run(optimizer__name="galore_adamw", optimizer__rank=8, sequence__length=8))
    layerwise = estimate(run(optimizer__name="galore_adamw_layerwise", optimizer__rank=8, sequence__length=8))
    assert whole.allocated_bytes is not None and layerwise.allocated_bytes is not None
    assert whole.parameters is not None
    assert whole.allocated_bytes - layerwise.allocated_bytes > whole.parameters  # of 2 bytes a gradient


def test_deepspeeds_muon_keeps_a_momentum_of_matrices_and_two_moments_of_the_rest() -> None:
    zero: dict[str, object] = {"optimizer__engine": "deepspeed", "parallelism__engine": "deepspeed"}
    zero["parallelism__zero__stage"] = 2
    muon, adam = estimate(run(optimizer__name="muon", **zero)), estimate(run(optimizer__name="adamw", **zero))
    tensors = [
        (tensor, unit.repeat)
        for unit in model_units(run())
        for tensor in unit.tensors
        if optimizer._is_layer_matrix(tensor)
    ]
    matrices = sum(tensor.numel * tensor.copies * repeat for tensor, repeat in tensors)
    saved = adam.details["optimizer_state_bytes"] - muon.details["optimizer_state_bytes"]
    assert saved == pytest.approx(4 * matrices, rel=0.001)


@pytest.mark.parametrize(("release", "on_card"), [((0, 18, 2), False), ((0, 18, 3), True)])
def test_before_0_18_3_deepspeeds_muon_has_its_momentum_on_the_host(release: tuple[int, ...], on_card: bool) -> None:
    zero: dict[str, object] = {"optimizer__engine": "deepspeed", "parallelism__engine": "deepspeed"}
    zero |= {"optimizer__name": "muon", "parallelism__zero__stage": 2}
    newest, older = estimate(run(**zero)), estimate(run(**zero, stack__deepspeed=release))
    states = [found.details["optimizer_state_bytes"] for found in (newest, older)]
    assert (states[0] == states[1]) is on_card
    assert (older.host_bytes > newest.host_bytes) is not on_card
    third = estimate(run(**{**zero, "parallelism__zero__stage": 3}, stack__deepspeed=release))
    assert third.allocated_bytes is None and "before 0.18.9" in third.unknown[0].reason


def test_muon_of_another_package_is_unknown_over_flat_partitions() -> None:
    found = estimate(run(optimizer__name="muon", parallelism__engine="deepspeed", parallelism__zero__stage=1))
    assert found.allocated_bytes is None
    assert "flat partitions" in found.unknown[0].reason


@pytest.mark.parametrize(("release", "whole"), [((1, 13, 1), False), ((2, 0), True), ((), True)])
def test_before_2_0_torch_steps_tensor_by_tensor_and_keeps_zeros_for_gradients(
    release: tuple[int, ...], whole: bool
) -> None:
    """torch 2.0.1 optim/optimizer.py, _default_to_fused_or_foreach; 1.13.1 nn/modules/module.py, zero_grad."""
    found = {one.name: one for one in estimate(run(stack__torch=release, optimizer__name="adamw_torch")).phases}
    step, forward = found["optimizer_step"].components, found["forward"].components
    assert (step["temporaries"] >= step["gradients"]) is whole
    assert (forward["gradients"] == 0) is whole
