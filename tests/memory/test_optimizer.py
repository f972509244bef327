"""The optimizer table: complete, compact copy fresh, bytes by hand."""

from __future__ import annotations

import pytest
import yaml

from memlint.memory import optimizer
from memlint.memory.model import Tensor, Unit
from tests.memory.optimizer_snapshot import FOLDER, compact
from tests.memory.runs import run

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


def test_the_compact_copy_is_fresh() -> None:
    assert (FOLDER / "optimizers.json").read_text(encoding="utf-8") == compact()


def test_every_entry_names_its_source() -> None:
    table = yaml.safe_load((FOLDER / "optimizers.yaml").read_text(encoding="utf-8"))
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
        ("adamw_torch_4bit", 2 * (2**19 + 4 * 8192), 4 * 2**20),
        ("adafactor", 2 * 4096, 8 * 2**20),  # row and column sums of 1024 x 1024
        ("lion_32bit", 4 * 2**20, 0),
        ("lomo", 0, 0),
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


def test_galore_keeps_moments_in_its_rank() -> None:
    states, _ = memory("galore_adamw", 2**20, (512, 2048), optimizer__rank=128)
    assert states == 4 * (2 * 128 * 2048 + 128 * 512)
