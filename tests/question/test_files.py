"""A question as files: what they say, what was taken as a default, and that they read back to the same figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.question import answer, files_of, question_of
from memlint.question.write import write_files
from memlint.report.model import RunReport

QUESTIONS = [
    {"model": "phi-2"},
    {
        "model": "llama-3-8b",
        "method": "qlora",
        "length": 4096,
        "batch": 4,
        "optimizer": "adamw_8bit",
        "gpu": "RTX 4090",
    },
    {"model": "llama-3-8b", "method": "qlora", "zero": 3, "gpus": 2, "gpu": "RTX4090"},
    {"model": "Qwen/Qwen2.5-7B", "method": "full", "zero": 2, "offload": "optimizer", "gpus": 8, "gpu": "A100-80GB"},
    {"model": "Qwen2.5-7B", "method": "full", "fsdp": 2, "gpus": 8, "gpus_per_node": 4, "gpu": "H100"},
    {"model": "Qwen2.5-7B", "method": "lora", "fsdp": 1, "offload": "all", "gpus": 4},
    {"model": "gemma-2-9b", "method": "dora", "rank": 64, "attention": "eager", "checkpointing": False},
    {"model": "Qwen2.5-0.5B", "method": "full", "dtype": "pure_bf16", "optimizer": "galore"},
    {"model": "Qwen2.5-0.5B", "method": "full", "dtype": "fp32", "accumulation": 8, "packing": True},
    {"model": "llama-3.2-1b", "stage": "dpo", "liger": True},
    {"model": "llama-3.2-1b", "stage": "simpo", "method": "full"},
    {"model": "mistral-7b", "framework": "trl", "method": "qlora"},
    {"model": "Qwen2.5-7B", "framework": "trl", "method": "full", "dtype": "pure_bf16", "zero": 3, "gpus": 8},
    {"layers": 24, "hidden": 2048},
    {"layers": 16, "hidden": 1024, "heads": 16, "kv_heads": 4, "vocab": 50000, "ffn": 4096, "tied": True},
    {"model": "llama-3-8b", "layers": 8, "method": "full"},
    {"model": "llama-3-8b", "inference": True},
    {"model": "llama-3-8b", "inference": True, "requests": 8, "context": 8192, "gpu": "A100-40GB"},
    {"model": "llama-3-8b", "inference": True, "bits": 4, "gpu": "T4"},
    {"model": "llama-3-8b", "inference": True, "dtype": "fp32"},
    {"model": "llama-3-70b", "inference": True, "gpus": 4, "gpu": "A100-80GB"},
    {"model": "llama-3-70b", "inference": True, "engine": "vllm", "kv_dtype": "fp8", "gpus": 4, "gpu": "H100"},
    {"model": "Qwen2.5-7B", "inference": True, "engine": "sglang", "gpu": "L4", "memory_share": 0.8},
]


def read_back(folder: Path, main: str) -> RunReport:
    """The run of a written file, with no more said than the file says."""
    found = Linter(LintRequest(StatedFacts(isolated=True), cwd=str(folder))).report_file(main)
    assert len(found.runs) == 1
    return found.runs[0]


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_written_files_read_back_to_the_same_figure(asked: dict[str, object], tmp_path: Path) -> None:
    found = answer(question_of(asked))
    write_files(found.files, str(tmp_path))
    again = read_back(tmp_path, found.files.main)
    mine, theirs = found.run.estimate, again.estimate
    assert mine.phases, mine.unknown
    assert (mine.device_bytes, mine.device_low_bytes, mine.device_high_bytes) == (
        theirs.device_bytes,
        theirs.device_low_bytes,
        theirs.device_high_bytes,
    )
    assert mine.phases == theirs.phases
    assert (found.run.hardware, mine.verdict) == (again.hardware, theirs.verdict)


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_a_plain_question_is_one_that_the_framework_would_start(asked: dict[str, object]) -> None:
    found = answer(question_of(asked))
    assert [one.message for one in found.refused] == []
    unknown = [one.message for one in found.report.findings if one.name in ("config/unknown-key", "config/bad-value")]
    assert unknown == []


def test_every_option_reaches_the_run() -> None:
    asked = {"model": "llama-3-8b", "method": "lora", "rank": 32, "length": 3000, "batch": 3, "accumulation": 5}
    asked |= {"optimizer": "adafactor", "dtype": "bf16", "attention": "flash_attention_2", "checkpointing": False}
    run = answer(question_of({**asked, "liger": True, "zero": 2, "gpus": 4, "gpu": "H100"})).neutral
    assert (run.method.kind, run.method.rank) == ("lora", 32)
    assert (run.sequence.length, run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (3000, 3, 5)
    assert (run.optimizer.name, run.attention.implementation) == ("adafactor", "flash_attention_2")
    assert (run.checkpointing.mode, run.loss.kind) == ("none", "liger")
    assert (run.parallelism.zero.stage, run.parallelism.world_size) == (2, 4)
    assert run.hardware.gpu.name == "H100-80GB"


def test_a_default_is_told_with_its_reason_and_a_given_value_is_not() -> None:
    taken = {one.field: one for one in files_of(question_of({"model": "llama-3-8b", "length": 2048})).taken}
    assert "length" not in taken
    assert taken["method"].value == "lora"
    assert all(one.why for one in taken.values())
    assert taken["model"].value == "meta-llama/Meta-Llama-3-8B"


@pytest.mark.parametrize(("model", "length"), [("bert-base-uncased", 512), ("t5-base", 2048), ("llama-3-8b", 2048)])
def test_a_default_length_is_one_that_the_model_takes(model: str, length: int) -> None:
    """BERT has a table of 512 positions; T5's are relative."""
    found = answer(question_of({"model": model, "method": "full", "gpu": "A100-80GB"}))

    assert found.neutral.sequence.length == length
    estimate = found.run.estimate
    assert estimate.phases and estimate.device_low_bytes and estimate.device_high_bytes
    assert estimate.device_low_bytes < (estimate.device_bytes or 0) < estimate.device_high_bytes


def test_a_machine_names_the_number_of_its_cards() -> None:
    found = answer(question_of({"model": "phi-2", "gpu": "p4d.24xlarge"}))
    assert (found.run.hardware.gpu, found.run.hardware.gpus) == ("A100-40GB", 8)


def test_a_card_without_bf16_gets_fp16() -> None:
    assert "fp16: true" in files_of(question_of({"model": "phi-2", "gpu": "T4"})).contents["train.yaml"]


def test_an_optimizer_for_whole_models_trains_the_whole_model() -> None:
    taken = {one.field: one.value for one in files_of(question_of({"model": "phi-2", "optimizer": "galore"})).taken}
    assert taken["method"] == "full"


@pytest.mark.parametrize(
    ("asked", "states"),
    [
        ({"optimizer": "sgd_momentum"}, 1),
        ({"optimizer": "sgd_momentum", "framework": "trl"}, 1),
        ({"optimizer": "nadam", "zero": 2}, 3),
        ({"optimizer": "amsgrad", "zero": 2}, 4),
        ({"optimizer": "nadam", "zero": 3, "framework": "trl"}, 3),
    ],
)
def test_a_framework_starts_pytorchs_optimizers(asked: dict[str, object], states: int) -> None:
    """States in fp32 of each of Qwen2.5-0.5B's parameters; under ZeRO its fp32 copy is one more."""
    found = answer(question_of({"model": "Qwen2.5-0.5B", "method": "full", "gpu": "A100-80GB", **asked}))

    assert [one.message for one in found.refused] == []
    kept = found.run.estimate.phases[1].components["optimizer_states"]
    assert kept == pytest.approx(4 * 494_032_768 * states, rel=0.01)


def test_an_optimizer_that_no_file_names_is_refused_with_its_figures() -> None:
    found = answer(question_of({"model": "Qwen2.5-0.5B", "method": "full", "optimizer": "adabelief"}))

    assert "got the string 'adabelief'" in found.refused[0].message
    assert found.run.estimate.phases[1].components["optimizer_states"] >= 8 * 494_032_768


def test_a_folder_and_its_config_are_a_model(tmp_path: Path) -> None:
    config = files_of(question_of({"layers": 4, "hidden": 512, "vocab": 1000})).contents["custom-model/config.json"]
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    by_folder = answer(question_of({"model": str(tmp_path)})).run.estimate
    by_file = answer(question_of({"model": str(tmp_path / "config.json")})).run.estimate
    assert by_folder.device_bytes == by_file.device_bytes is not None


def test_typed_dimensions_of_a_known_model_are_that_model() -> None:
    typed = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "vocab": 128256, "ffn": 14336}
    by_hand, by_name = (answer(question_of(asked)).run for asked in (typed, {"model": "llama-3-8b"}))
    assert by_hand.model.parameters == by_name.model.parameters == 8_051_232_768
    assert by_hand.estimate.allocated_bytes == by_name.estimate.allocated_bytes


def test_files_of_somebody_else_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("mine: true\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is there already"):
        write_files(files_of(question_of({"model": "phi-2"})), str(tmp_path))
    assert (tmp_path / "train.yaml").read_text(encoding="utf-8") == "mine: true\n"
    written = write_files(files_of(question_of({"model": "phi-2"})), str(tmp_path / "own" / "phi.yaml"))
    again = write_files(files_of(question_of({"model": "phi-2", "batch": 2})), str(tmp_path / "own" / "phi.yaml"))
    assert written == again == (str(tmp_path / "own" / "phi.yaml"),)
    assert "per_device_train_batch_size: 2" in (tmp_path / "own" / "phi.yaml").read_text(encoding="utf-8")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    some.fixed_dictionaries(
        {"layers": some.integers(1, 6), "heads": some.sampled_from((2, 4, 8)), "vocab": some.integers(8, 4000)},
        optional={
            "method": some.sampled_from(("full", "lora", "qlora", "dora")),
            "length": some.integers(1, 4096),
            "batch": some.integers(1, 9),
            "zero": some.sampled_from((0, 1, 2, 3)),
            "gpus": some.integers(1, 16),
            "optimizer": some.sampled_from(("adamw_torch", "adafactor", "paged_adamw_8bit", "sgd")),
            "dtype": some.sampled_from(("bf16", "fp16", "fp32")),
            "checkpointing": some.booleans(),
        },
    )
)
def test_any_question_has_an_estimate_that_more_batch_never_lowers(asked: dict[str, object]) -> None:
    first = answer(question_of({**asked, "hidden": 512}))
    batch = asked.get("batch", 1)
    assert isinstance(batch, int)
    more = answer(question_of({**asked, "hidden": 512, "batch": batch + 1}))
    assert first.run.estimate.allocated_bytes is not None
    assert more.run.estimate.allocated_bytes >= first.run.estimate.allocated_bytes
