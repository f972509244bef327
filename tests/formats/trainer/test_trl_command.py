"""TRL's command hands options to `accelerate launch`, and knows launch files by name: `--accelerate_config zero3`."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.findings import Edit
from memlint.formats.accelerate.edits import launch_file_edits
from memlint.formats.accelerate.format import accelerate_issues
from memlint.formats.accelerate.trl_files import LAUNCH_FILES
from memlint.formats.fields import root
from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, analyse
from memlint.source.document import Document

CONFIG = (
    "model_name_or_path: Qwen/Qwen2.5-7B\ndataset_name: a/b\noutput_dir: out\nbf16: true\n"
    "per_device_train_batch_size: 1\nmax_length: 1024\n"
)


def read_as(files: dict[str, str], name: str = "sft.yaml", **facts: Any) -> Analysis:
    workspace = in_memory(files)
    return analyse(workspace.documents(name)[0], workspace.context(gpu=find("A100-80GB"), **facts), ())


def sharding(analysis: Analysis) -> tuple[Any, Any, Any]:
    parallelism = analysis.runs[0].parallelism
    detail = parallelism.zero.stage if parallelism.engine == "deepspeed" else parallelism.fsdp.version
    return parallelism.engine, detail, parallelism.world_size


@pytest.mark.parametrize(
    ("name", "engine", "detail"),
    [("zero1", "deepspeed", 1), ("zero2", "deepspeed", 2), ("zero3", "deepspeed", 3), ("fsdp1", "fsdp", 1)]
    + [("fsdp2", "fsdp", 2)],
)
@pytest.mark.parametrize("gpus", [8, 4])
def test_a_launch_file_of_trl_is_meant_by_its_name(name: str, engine: str, detail: int, gpus: int) -> None:
    number = "" if gpus == 8 else f"num_processes: {gpus}\n"  # over the file's 8
    flags = "" if gpus == 8 else f" --num_processes {gpus}"
    in_config = read_as({"sft.yaml": f"{CONFIG}accelerate_config: {name}\n{number}"})
    beside = read_as({"sft.yaml": CONFIG, "run.sh": f"trl sft --config sft.yaml --accelerate_config {name}{flags}"})
    command = "trl sft --model_name_or_path Qwen/Qwen2.5-7B --dataset_name a/b --output_dir out --bf16 true"
    alone = read_as({"run.sh": f"{command} --accelerate_config {name}{flags}"}, "run.sh")

    for found in (in_config, beside, alone):
        assert sharding(found) == (engine, detail, gpus)
        assert not found.findings
        assert found.estimates[0].verdict != "unknown"


@pytest.mark.parametrize(("name", "engine"), [("single_gpu", "single"), ("multi_gpu", "ddp")])
def test_one_without_an_engine_says_so(name: str, engine: str) -> None:
    found = read_as({"sft.yaml": f"{CONFIG}accelerate_config: {name}\n"})
    assert found.runs[0].parallelism.engine == engine
    assert found.estimates[0].verdict != "unknown"


@pytest.mark.parametrize("name", LAUNCH_FILES)
def test_accelerate_takes_each_of_them(name: str) -> None:
    document = Document("launch.yaml", "", "yaml", "yaml11", LAUNCH_FILES[name], {})
    assert not tuple(accelerate_issues(root(document), in_memory({}).context()))


def test_a_file_of_that_name_is_meant_first() -> None:
    launch = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"
    files = {"sft.yaml": f"{CONFIG}accelerate_config: acc/own.yaml\nnum_processes: 2\n", "acc/own.yaml": launch}
    assert sharding(read_as(files)) == ("fsdp", 2, 2)
    command = {"sft.yaml": CONFIG, "run.sh": "trl sft --config sft.yaml --accelerate_config acc/own.yaml"}
    assert sharding(read_as({**command, "acc/own.yaml": f"{launch}num_processes: 16\n"})) == ("fsdp", 2, 16)


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("zero7", "CFG003", "did you mean `zero1`?"),
        ("cluster", "CFG003", "single_gpu, multi_gpu, zero1"),
        ("acc/none.yaml", "REF001", "no file `acc/none.yaml`"),
        ("other.yaml", "REF007", "no launch file of accelerate"),
    ],
)
def test_a_name_that_trl_refuses(name: str, rule: str, words: str) -> None:
    found = read_as({"sft.yaml": f"{CONFIG}accelerate_config: {name}\n", "other.yaml": "a: 1\n"})
    (finding,) = found.findings
    assert (finding.rule, finding.location.pointer) == (rule, ("accelerate_config",))
    assert words in finding.message


def test_commands_that_name_different_files_say_nothing() -> None:
    script = "\n".join(f"trl sft --config sft.yaml --accelerate_config {name}" for name in ("zero2", "zero3"))
    assert read_as({"sft.yaml": CONFIG, "run.sh": script}, gpus=8).estimates[0].readings


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({"parallelism.zero.stage": 3}, "zero3"),
        ({"parallelism.zero.stage": 1}, "zero1"),
        ({"parallelism.zero.stage": 3, "offload.optimizer": "cpu"}, None),  # none of TRL's files offloads
        ({"parallelism.zero.stage": 3, "batch.micro_batch_size": 1}, None),
        ({"parallelism.fsdp.cpu_offload": True}, None),
    ],
)
def test_another_stage_is_another_name(changes: dict[str, Any], written: str | None) -> None:
    parsed = read_as({"sft.yaml": f"{CONFIG}accelerate_config: zero2\n"}).parsed
    assert parsed is not None
    expected = None if written is None else (Edit("sft.yaml", ("accelerate_config",), "set", written),)
    assert launch_file_edits(parsed, changes) == expected


def test_a_file_of_the_package_is_not_edited() -> None:
    files = {"sft.yaml": CONFIG, "run.sh": "trl sft --config sft.yaml --accelerate_config zero2"}
    parsed = read_as(files).parsed
    assert parsed is not None and launch_file_edits(parsed, {"parallelism.zero.stage": 3}) is None
