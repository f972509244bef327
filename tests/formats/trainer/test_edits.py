"""Changes that a Trainer file says through its own keys, a new DeepSpeed section, or the launch file beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlint.fixes.consequences import consistent
from memlint.fixes.moves.host import deepspeed_changes
from memlint.fixes.written_plans import edit_writer
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.run import get, replace

BASE: dict[str, Any] = {
    "model_name_or_path": "Qwen/Qwen2.5-1.5B",
    "output_dir": "out",
    "per_device_train_batch_size": 1,
    "bf16": True,
}
TRL = {**BASE, "max_length": 1024, "dataset_text_field": "text"}
EVALUATES = {**BASE, "eval_strategy": "steps", "do_eval": True, "load_best_model_at_end": True}
ADAPTER = {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("all-linear",)}
GRPO = {**BASE, "num_generations": 8, "max_prompt_length": 1024, "max_completion_length": 512}
LAUNCH = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "DEEPSPEED",
    "deepspeed_config": {"zero_stage": 2},
    "num_processes": 4,
}
FSDP = {**LAUNCH, "distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1, "fsdp_offload_params": False}}
del FSDP["deepspeed_config"]


def analysed(config: dict[str, Any], launch: dict[str, Any] | None = None, gpus: int = 4) -> Analysis:
    files = {"train.yaml": json.dumps(config)} | ({"launch.yaml": json.dumps(launch)} if launch else {})
    workspace = in_memory(files)
    facts: dict[str, Any] = {"gpu": find("A100-80GB"), "gpus": gpus, "gpus_per_node": gpus}
    facts["companions"] = tuple(workspace.documents(name)[0] for name in files if name != "train.yaml")
    engine = Engine(())
    return uniform_analyser(engine, facts, cwd="/", workspace=workspace).analyse("train.yaml").analyses[0]


def after(config: dict[str, Any], changes: dict[str, Any], launch: dict[str, Any] | None = None) -> Any:
    """The run that the edited files say."""
    analysis = analysed(config, launch)
    edits = edit_writer(analysis)(analysis.runs[0], changes)
    assert edits
    files = {"train.yaml": json.loads(json.dumps(config)), "launch.yaml": json.loads(json.dumps(launch or {}))}
    for edit in edits:
        inner = files[edit.path]
        for key in edit.pointer[:-1]:
            inner = inner[key]
        inner[edit.pointer[-1]] = edit.value
    return analysed(files["train.yaml"], files["launch.yaml"] if launch else None).runs[0]


@pytest.mark.parametrize(
    ("config", "changes", "launch"),
    [
        (GRPO, {"method.num_generations": 4}, None),
        (GRPO, {"sequence.max_prompt_length": 512, "sequence.length": 1024}, None),
        (GRPO, {"sequence.max_new_tokens": 256, "sequence.length": 1280}, None),
        ({**GRPO, "use_vllm": True}, {"rollout.share": 0.2}, None),
        (GRPO, {"parallelism.zero.gathers_for_generation": False}, None),
        ({**BASE, "loss_type": "sigmoid"}, {"method.reference_model": "precomputed"}, None),
        (BASE, deepspeed_changes("bfloat16", 3), None),
        (EVALUATES, {"evaluation.enabled": False}, None),
        ({**BASE, "evaluation_strategy": "epoch"}, {"evaluation.enabled": False}, None),
        (TRL, {"offload.activations": "cpu"}, None),
        ({**TRL, "loss_type": "sigmoid"}, {**ADAPTER, "method.reference_model": "shared"}, None),
        (BASE, {"parallelism.zero.stage": 3, "offload.optimizer": "cpu"}, LAUNCH),
        (BASE, {"parallelism.fsdp.cpu_offload": True}, FSDP),
        ({**BASE, "fsdp": "full_shard auto_wrap"}, {"parallelism.fsdp.cpu_offload": True}, None),
        ({**BASE, "fsdp": True}, {"parallelism.fsdp.cpu_offload": True}, None),
        (
            {**BASE, "bf16": False},
            {"precision.compute": "bfloat16", "precision.autocast": True, "precision.outputs_to_fp32": True},
            None,
        ),
    ],
)
def test_the_files_say_what_was_planned(
    config: dict[str, Any], changes: dict[str, Any], launch: dict[str, Any] | None
) -> None:
    run = after(config, changes, launch)
    follows = ("method.adapter_dtype",)  # nothing is adapted here
    said = {field: get(run, field) for field in changes if field not in follows}
    assert said == {field: value for field, value in changes.items() if field not in follows}


def test_what_no_file_can_say() -> None:
    plain, sharded = analysed(BASE), analysed(BASE, LAUNCH)
    assert edit_writer(plain)(plain.runs[0], {"parallelism.fsdp.cpu_offload": True}) is None
    assert edit_writer(sharded)(sharded.runs[0], {"parallelism.fsdp.cpu_offload": True}) is None
    assert edit_writer(sharded)(sharded.runs[0], deepspeed_changes("bfloat16", 3)) is None
    assert edit_writer(plain)(plain.runs[0], {"method.reference_model": "copy"}) is None
    four_bits = {"model.quantization.method": "bnb", "model.quantization.bits": 4}
    stops = {**EVALUATES, "early_stopping_patience": 3}
    for config, changes in (
        (GRPO, {"offload.activations": "cpu"}),  # trl 1.16 grpo_config.py has no such key
        (stops, {"evaluation.enabled": False}),
        ({**EVALUATES, "save_strategy": "best"}, {"evaluation.enabled": False}),
        (TRL, four_bits),  # without `use_peft` nothing would train
    ):
        analysis = analysed(config)
        assert edit_writer(analysis)(analysis.runs[0], changes) is None


def test_one_gpu_gets_a_deepspeed_section_as_well() -> None:
    analysis = analysed(BASE, gpus=1)
    changes = {**deepspeed_changes("bfloat16", 3), "offload.optimizer": "cpu", "offload.parameters": "cpu"}
    edits = edit_writer(analysis)(analysis.runs[0], changes)
    assert edits is not None
    (edit,) = edits
    assert edit.value["zero_optimization"]["offload_param"] == {"device": "cpu"}
    run = analysed({**BASE, "deepspeed": edit.value}, gpus=1).runs[0]
    assert run.offload.parameters == "cpu"


@pytest.mark.parametrize(
    ("config", "field", "value", "trl", "key"),
    [
        ({"dataset_text_field": "text"}, "sequence.length", 512, (0, 15), "max_seq_length"),
        ({"dataset_text_field": "text"}, "sequence.length", 512, (0, 16), "max_length"),
        ({"dataset_text_field": "text", "max_length": 9}, "sequence.length", 512, (0, 15), "max_length"),
        ({"beta": 0.1, "max_prompt_length": 9}, "sequence.length", 512, (0, 15), "max_length"),
        ({"dataset_text_field": "text"}, "model.weights_dtype", "bfloat16", (0, 22), "torch_dtype"),
        ({"dataset_text_field": "text"}, "model.weights_dtype", "bfloat16", (0, 23), "dtype"),
    ],
)
def test_a_new_key_has_the_name_that_the_release_knows(
    config: dict[str, Any], field: str, value: Any, trl: tuple[int, ...], key: str
) -> None:
    workspace = in_memory({"train.yaml": json.dumps({**BASE, **config})})
    facts: dict[str, Any] = {"versions": {"trl": trl}}
    analysis = uniform_analyser(Engine(()), facts, cwd="/", workspace=workspace).analyse("train.yaml").analyses[0]
    edits = edit_writer(analysis)(analysis.runs[0], {field: value})
    assert edits is not None
    assert [edit.pointer for edit in edits] == [(key,)]


PREFERENCES = {"dpo": {"beta": 0.1, "loss_type": "sigmoid"}, "kto": {"desirable_weight": 1.0}, "grpo": GRPO}
LORA = {"use_peft": True, "lora_target_modules": "all-linear"}


@pytest.mark.parametrize(
    ("stage", "trl", "more", "key"),
    [
        ("dpo", (0, 17), {}, ""),
        ("dpo", (0, 24), {}, "use_liger_loss"),
        ("dpo", (0, 24), LORA, "use_liger_loss"),
        ("dpo", (0, 26), {}, "use_liger_kernel"),
        ("dpo", (0, 29), {}, "use_liger_kernel"),
        ("dpo", (0, 29), LORA, ""),
        ("dpo", (1, 9), LORA, "use_liger_kernel"),
        ("dpo", (0, 29), {"loss_type": "ipo"}, ""),
        ("dpo", (0, 29), {"precompute_ref_log_probs": True}, ""),
        ("dpo", (), {}, ""),  # nobody says which release: in an older one the key has no effect
        ("kto", (0, 22), {}, "use_liger_loss"),
        ("kto", (0, 22), LORA, ""),
        ("kto", (1, 9), LORA, "use_liger_kernel"),
        ("grpo", (0, 17), LORA, ""),
        ("grpo", (0, 18), LORA, "use_liger_loss"),
        ("grpo", (0, 24), {"top_entropy_quantile": 0.2}, ""),
        ("grpo", (0, 28), {"loss_type": "dr_grpo"}, "use_liger_kernel"),
        ("grpo", (1, 9), {**LORA, "lora_target_modules": ["q_proj", "lm_head"]}, ""),
    ],
)
def test_liger_s_loss_is_written_where_the_release_takes_it(
    stage: str, trl: tuple[int, ...], more: dict[str, Any], key: str
) -> None:
    """trl 0.17.0 - 1.9.0 trainer/{dpo,kto,grpo}_trainer.py: what their constructors refuse."""
    config = {**TRL, "max_prompt_length": 256, "torch_dtype": "bfloat16", **PREFERENCES[stage], **more}
    versions = {"versions": {"trl": trl}} if trl else {}
    engine, facts = Engine(()), {"gpu": find("A100-80GB"), "gpus": 1, "gpus_per_node": 1, **versions}

    def read(config: dict[str, Any]) -> Analysis:
        workspace = in_memory({"train.yaml": json.dumps(config)})
        return uniform_analyser(engine, facts, cwd="/", workspace=workspace).analyse("train.yaml").analyses[0]

    analysis = read(config)
    run = analysis.runs[0]
    assert (run.method.stage, run.loss.kind) == (stage, "plain")
    edits = edit_writer(analysis)(run, {"loss.kind": "liger"})
    assert [edit.pointer for edit in edits or ()] == ([(key,)] if key else [])
    if key:
        changed = read({**config, key: True}).runs[0]
        planned = consistent(replace(run, {"loss.kind": "liger"}), run)
        assert changed.loss.kind == "liger"
        assert planned.loss.chunk_tokens == changed.loss.chunk_tokens
