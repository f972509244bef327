"""Changes that an Axolotl file says through its own keys, or the DeepSpeed file behind it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlint.findings import Edit
from memlint.fixes.moves.host import deepspeed_changes
from memlint.formats.axolotl import format as axolotl
from memlint.run import get
from tests.formats.axolotl.test_axolotl_runs import CUT, DPO, FSDP2, LIGER, LORA, PLAIN, QLORA, parsed_of
from tests.formats.frameworks import codes, run_of

_LIGER, _CUT = LIGER["plugins"][0], CUT["plugins"][0]
EVALUATES = {**PLAIN, "val_set_size": 0.1, "eval_steps": 5}
CHECKPOINTED = {**PLAIN, "gradient_checkpointing": True}
SHIPPED = {**PLAIN, "bf16": True, "deepspeed": "deepspeed_configs/zero3_bf16.json"}
ADAPTER = {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("all-linear",)}
NF4 = {f"model.quantization.{part}": value for part, value in (("method", "bnb"), ("bits", 4), ("kind", "nf4"))}
DOUBLE = {**NF4, "model.quantization.double_quant": True}
BOTH = {"offload.optimizer": "cpu", "offload.parameters": "cpu"}
TOWERS = {"method.freeze_vision_tower": True, "method.freeze_multi_modal_projector": True}
ZERO = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": 2}


def edits_of(value: Any, changes: dict[str, Any], **more: Any) -> tuple[Edit, ...] | None:
    parsed = parsed_of(value, **more)
    return axolotl.edits(parsed, run_of(parsed), changes)


def applied(value: Any, edits: tuple[Edit, ...], path: str) -> Any:
    """`value` after the edits of `path`."""
    copy = json.loads(json.dumps(value))
    for edit in edits:
        if edit.path != path:
            continue
        node = copy
        for step in edit.pointer[:-1]:
            node = node[step]
        if edit.action == "remove":
            del node[edit.pointer[-1]]
        else:
            node[edit.pointer[-1]] = edit.value
    return copy


def after(value: Any, changes: dict[str, Any], files: dict[str, Any] | None = None, **more: Any) -> Any:
    """The parsed files after the edits that say `changes`."""
    edits = edits_of(value, changes, files=files, **more)
    assert edits
    edited = {name: applied(content, edits, name) for name, content in (files or {}).items()}
    return parsed_of(applied(value, edits, "train.json"), files=edited, **more)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (PLAIN, {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 8}),
        (PLAIN, {"checkpointing.mode": "full"}),
        ({**PLAIN, "gradient_checkpointing": True}, {"checkpointing.mode": "none"}),
        (PLAIN, {"optimizer.name": "adamw_bnb_8bit", "optimizer.max_grad_norm": 0.5}),
        (PLAIN, {"sequence.length": 1024}),
        (LORA, {"method.rank": 8, "method.alpha": 16}),
        (PLAIN, {"saving.only_model": True, "optimizer.max_grad_norm": 0.5}),
        ({**PLAIN, "val_set_size": 0.1, "eval_steps": 5}, {"evaluation.batch_size": 1}),
        (PLAIN, {"attention.implementation": "flash_attention_2"}),
        ({**PLAIN, "sdp_attention": True, "eager_attention": False}, {"attention.implementation": "flash_attention_2"}),
        ({**PLAIN, "attn_implementation": "eager"}, {"attention.implementation": "sdpa"}),
        (PLAIN, {"loss.kind": "liger"}),
        (PLAIN, {"loss.kind": "cut"}),
        ({**PLAIN, **CUT}, {"loss.kind": "liger"}),
        ({**PLAIN, **LIGER, "liger_cross_entropy": True}, {"loss.kind": "liger"}),
        ({**PLAIN, **LIGER, "liger_fused_linear_cross_entropy": True}, {"loss.kind": "cut"}),
        ({**PLAIN, "plugins": ["some.Plugin"]}, {"loss.kind": "cut"}),
        (LORA, DOUBLE),
        ({**LORA, "load_in_8bit": True}, DOUBLE),
        (QLORA, {"batch.micro_batch_size": 1}),
        (PLAIN, {**ADAPTER, "method.targets": ("q_proj", "v_proj")}),
        (PLAIN, {"method.kind": "lora", "method.rank": 8, **DOUBLE}),
        ({**PLAIN, "load_in_8bit": True, "adapter": "lora", "lora_r": 8}, {"method.rank": 16, **DOUBLE}),
        (CHECKPOINTED, {"checkpointing.offload": True}),
        (PLAIN, {"checkpointing.mode": "full", "checkpointing.offload": True}),
        (EVALUATES, {"evaluation.enabled": False}),
        ({**PLAIN, "val_set_size": 0.1, "evals_per_epoch": 4, "num_epochs": 2}, {"evaluation.enabled": False}),
        (FSDP2, {"parallelism.fsdp.cpu_offload": True}),
        ({**FSDP2, "fsdp_config": {"reshard_after_forward": False}}, {"parallelism.fsdp.reshard_after_forward": True}),
        (PLAIN, TOWERS),
        (SHIPPED, BOTH),
        (SHIPPED, {"offload.parameters": "cpu"}),
    ],
)
def test_the_edited_file_says_the_changed_run(value: Any, changes: dict[str, Any]) -> None:
    parsed = after(value, changes)
    run = run_of(parsed)
    assert {name: get(run, name) for name in changes} == changes
    assert codes(parsed, "error") == []


def test_flags_of_attention_go_where_the_new_key_comes() -> None:
    edits = edits_of({**PLAIN, "sdp_attention": True}, {"attention.implementation": "flash_attention_2"})
    assert edits is not None
    assert [(edit.action, edit.pointer) for edit in edits] == [
        ("set", ("attn_implementation",)),
        ("remove", ("sdp_attention",)),
    ]


def test_before_0_12_a_flag_says_it() -> None:
    old = {"axolotl": (0, 11)}
    edits = edits_of({**PLAIN, "sdp_attention": True}, {"attention.implementation": "flash_attention_2"}, versions=old)
    assert edits is not None
    assert [(edit.action, edit.pointer) for edit in edits] == [
        ("set", ("flash_attention",)),
        ("remove", ("sdp_attention",)),
    ]
    assert edits_of(PLAIN, {"attention.implementation": "flash_attention_3"}, versions=old) is None


@pytest.mark.parametrize(
    ("more", "versions", "taken"),
    [
        ({}, {"axolotl": (0, 19)}, True),
        ({}, {"axolotl": (0, 14)}, True),
        ({}, {"axolotl": (0, 12)}, False),  # its TRL, 0.21, has another switch
        (LORA, {"axolotl": (0, 19)}, True),
        (LORA, {"axolotl": (0, 18)}, False),  # TRL 1.8 refuses Liger's loss with adapters
        ({}, {}, False),  # nobody says which release: an older one ignores the key
        ({"dpo_loss_type": ["sigmoid"]}, {"axolotl": (0, 19)}, True),
        ({"dpo_loss_type": ["ipo"]}, {"axolotl": (0, 19)}, False),
        ({"precompute_ref_log_probs": True}, {"axolotl": (0, 19)}, False),
        ({"rl": "simpo"}, {"axolotl": (0, 19)}, False),  # another trainer, which has no such loss
    ],
)
def test_liger_s_loss_for_preferences_is_dpo_s_own_switch(more: Any, versions: Any, taken: bool) -> None:
    value = {**DPO, **more}
    edits = edits_of(value, {"loss.kind": "liger"}, versions=versions)
    assert [edit.pointer for edit in edits or ()] == ([("dpo_use_liger_kernel",)] if taken else [])
    if taken:
        run = run_of(parsed_of(applied(value, edits, "train.json"), versions=versions))
        assert (run.loss.kind, run.loss.liger_kernels, run.loss.chunk_tokens) == ("liger", True, 2 * 2048)


def test_a_plug_in_is_added_to_those_that_are_there() -> None:
    edits = edits_of({**PLAIN, "plugins": ["some.Plugin"]}, {"loss.kind": "liger"})
    assert edits is not None
    assert edits[-1].value == ["some.Plugin", _LIGER]
    known = edits_of({**PLAIN, "plugins": [_CUT], "cut_cross_entropy": False}, {"loss.kind": "cut"})
    assert known is not None and [edit.pointer for edit in known] == [("cut_cross_entropy",)]


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ({**PLAIN, "micro_batch_size": "${MICRO}"}, {"batch.micro_batch_size": 1}),
        (PLAIN, {"batch.micro_batch_size": 0}),
        (PLAIN, {"checkpointing.mode": "selective"}),
        (
            {**PLAIN, "gradient_checkpointing": True, "activation_offloading": True},
            {"checkpointing.mode": "none"},
        ),
        (PLAIN, {"attention.implementation": "sage"}),
        (PLAIN, {"loss.kind": "chunked"}),
        (PLAIN, {"loss.kind": "liger", "loss.liger_kernels": True}),
        ({**PLAIN, "plugins": "some.Plugin"}, {"loss.kind": "liger"}),
        ({**PLAIN, "rl": "dpo"}, {"loss.kind": "liger"}),  # reads logits
        (PLAIN, {"parallelism.zero.stage": 3}),  # no DeepSpeed file
        ({**PLAIN, "deepspeed": "deepspeed_configs/zero2.json"}, {"parallelism.zero.stage": 3}),  # Axolotl's own
        (PLAIN, {"model.weights_dtype": "float32"}),
        ({**LORA, "fsdp_version": 2, "fsdp_config": {"cpu_ram_efficient_loading": True}}, DOUBLE),  # validation.py:1266
        (PLAIN, DOUBLE),  # no adapter to train over 4 bits
        (LORA, {**NF4, "model.quantization.kind": "fp4"}),
        ({**QLORA, "bnb_config_kwargs": {"bnb_4bit_quant_type": "fp4"}}, NF4),
        (PLAIN, {"method.kind": "freeze", "method.freeze_trainable_layers": 4}),
        ({**PLAIN, "unfrozen_parameters": ["lm_head"]}, ADAPTER),
        ({**PLAIN, "flash_attn_fuse_mlp": True}, ADAPTER),  # validation.py:633
        (PLAIN, {"checkpointing.offload": True}),  # validation.py:1596
        ({**CHECKPOINTED, "selective_checkpointing": True}, {"checkpointing.offload": True}),
        ({**PLAIN, "base_model": "mosaicml/mpt-7b"}, {"checkpointing.mode": "full"}),  # validation.py:1569
        ({**EVALUATES, "early_stopping_patience": 3, "save_steps": 5}, {"evaluation.enabled": False}),
        ({**PLAIN, "test_datasets": [{"path": "d"}], "eval_steps": 5}, {"evaluation.enabled": False}),
        (PLAIN, {"parallelism.fsdp.cpu_offload": True}),
        ({**FSDP2, "optimizer": "adamw_torch_8bit"}, {"parallelism.fsdp.cpu_offload": True}),
        (PLAIN, {"method.freeze_vision_tower": True}),  # one key for tower and projector
        ({**SHIPPED, "deepspeed": "deepspeed_configs/zero3.json", "bf16": False, "fp16": True}, BOTH),
        (LORA, {"model.quantization.experts_on_load": True}),
        ({**FSDP2, "accelerator_config": {"split_batches": True}}, {"parallelism.fsdp.reduces_each_backward": True}),
        (SHIPPED, {"parallelism.zero.stage": 2}),
        (SHIPPED, {"parallelism.zero.overlap_comm": False}),
    ],
)
def test_what_cannot_be_said(value: Any, changes: dict[str, Any]) -> None:
    assert edits_of(value, changes) is None


def test_experts_are_packed_beside_the_names_of_every_linear_layer() -> None:
    """Axolotl refuses `lora_target_linear` there, and the same layers by name do."""
    value = {**QLORA, "base_model": "mistralai/Mixtral-8x7B-v0.1", "lora_target_linear": True}
    before = run_of(after(value, {"batch.micro_batch_size": 3}))
    run = run_of(after(value, {"model.quantization.experts_on_load": True}))
    assert run.model.quantization.experts_on_load and run.method.targets == before.method.targets
    assert len(run.method.targets or ()) > 3


def test_a_deepspeed_file_changes_with_the_config() -> None:
    value = {**PLAIN, "deepspeed": "ds.json"}
    files = {"ds.json": ZERO}
    edits = edits_of(value, {"batch.micro_batch_size": 1}, files=files, gpus=4)
    assert edits is not None
    assert {(edit.path, edit.pointer) for edit in edits} == {
        ("train.json", ("micro_batch_size",)),
        ("ds.json", ("train_micro_batch_size_per_gpu",)),
    }
    run = run_of(after(value, {"batch.micro_batch_size": 1}, files, gpus=4))
    assert run.batch.micro_batch_size == 1
    assert run_of(after(value, {"parallelism.zero.stage": 3}, files, gpus=4)).parallelism.zero.stage == 3


@pytest.mark.parametrize("gpus", [1, 4])
def test_a_file_without_deepspeed_gets_a_section(gpus: int) -> None:
    changes = {**deepspeed_changes("bfloat16", 3), **BOTH}
    run = run_of(after({**PLAIN, "bf16": True}, changes, gpus=gpus))
    assert (run.parallelism.engine, run.parallelism.zero.stage) == ("deepspeed", 3)
    assert (run.offload.optimizer, run.offload.parameters) == ("cpu", "cpu")
    assert run.parallelism.zero.gather_16bit_weights_on_model_save
    for other in (FSDP2, {**PLAIN, "deepcompile": True}, {**PLAIN, "tensor_parallel_size": 2}):
        assert edits_of(other, changes, gpus=gpus) is None


def test_all_linear_layers_and_the_adapters_own_reference() -> None:
    run = run_of(after(DPO, {**ADAPTER, "method.reference_model": "shared"}))
    assert (run.method.kind, run.method.rank, run.method.reference_model) == ("lora", 16, "shared")
    assert set(run.method.targets) >= {"q_proj", "down_proj"}


def test_options_keep_the_spelling_of_the_others() -> None:
    edits = edits_of({**PLAIN, "fsdp_config": {"fsdp_version": 2}}, {"parallelism.fsdp.cpu_offload": True})
    assert edits is not None
    assert edits[0].pointer == ("fsdp_config", "fsdp_offload_params")


def test_a_deepspeed_section_in_the_file_itself() -> None:
    value = {**PLAIN, "deepspeed": {"zero_optimization": {"stage": 2}}}
    assert run_of(after(value, {"parallelism.zero.stage": 3}, gpus=4)).parallelism.zero.stage == 3


def test_nothing_parsed_nothing_edited() -> None:
    parsed = parsed_of([1])
    assert axolotl.edits(parsed, run_of(parsed_of(PLAIN)), {"batch.micro_batch_size": 1}) is None


@pytest.mark.parametrize(
    ("micro", "steps", "written"),
    [
        (1, 8, {"micro_batch_size": 1}),
        (4, 2, {"micro_batch_size": 4}),
        (1, 4, {"micro_batch_size": 1, "batch_size": 4}),
    ],
)
def test_the_older_batch_size_says_the_accumulation(micro: int, steps: int, written: dict[str, int]) -> None:
    """utils/config/__init__.py:175: `batch_size // micro_batch_size`."""
    older = {**PLAIN, "gradient_accumulation_steps": None, "micro_batch_size": 2, "batch_size": 8}
    changes = {"batch.micro_batch_size": micro, "batch.gradient_accumulation_steps": steps}
    edits = edits_of(older, changes)
    assert edits is not None and {edit.pointer[0]: edit.value for edit in edits} == written
    assert run_of(after(older, changes)).batch[:2] == (micro, steps)
