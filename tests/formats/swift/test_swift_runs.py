"""ms-swift's commands and files: recognition, what each key means (ms-swift 4.6.0), edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import from_config, resolve
from memlint.architectures.model import Resolution
from memlint.architectures.stated_size import LEAST
from memlint.fixes.edits.apply import apply, patches
from memlint.formats import recognise
from memlint.formats.swift import format as swift
from memlint.memory.estimate import estimate
from memlint.repository.scripts.files import Repository
from memlint.repository.scripts.read import documents
from memlint.run import UNKNOWN, Run, get
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config({**TINY, "torch_dtype": "bfloat16", "max_position_embeddings": 8192})
SFT: dict[str, Any] = {
    "model": "some/model",
    "tuner_type": "lora",
    "dataset": "data.jsonl",
    "torch_dtype": "bfloat16",
    "max_length": 2048,
    "attn_impl": "flash_attn",
}
GRPO: dict[str, Any] = {**SFT, "rlhf_type": "grpo", "max_completion_length": 1024, "per_device_train_batch_size": 4}
ENGINE: dict[str, Any] = {**GRPO, "use_vllm": True, "vllm_mode": "colocate", "sleep_level": 1}


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def read(value: Any, gpus: int = 4) -> Run:
    return run_of(swift.parse(document(value), known(gpus=gpus, gpus_per_node=gpus)))


def launched(text: str, on: int = 0) -> Run:
    """The run of a script, `on` a machine with so many GPUs where the user says so."""
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    (found,) = documents("/repo/run.sh", text, repository)
    assert found.start is not None and found.start.format == "swift"
    gpus = on or found.start.machine.gpus or None
    return run_of(swift.parse(found, known(**({"gpus": gpus, "gpus_per_node": gpus} if gpus else {}))))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (SFT, "swift"),
        (GRPO, "swift"),
        ({"model": "a/b", "dataset": "d", "lora_rank": 8}, ""),
        ({**SFT, "model_name_or_path": "a/b", "model": None}, ""),
    ],
)
def test_recognised_by_its_keys(value: Any, name: str) -> None:
    found = recognise(document(value))
    assert (found[0].NAME if found else "") == name


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (SFT, {"method.kind": "lora", "method.rank": 8, "method.alpha": 32, "method.targets": ("all-linear",)}),
        (SFT, {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 4, "checkpointing.mode": "full"}),
        (
            SFT,
            {"attention.implementation": "flash_attention_2", "sequence.length": 2048, "precision.compute": "bfloat16"},
        ),
        ({**SFT, "torch_dtype": None}, {"model.weights_dtype": "bfloat16", "precision.autocast": True}),
        ({**SFT, "max_length": None}, {"sequence.length": UNKNOWN}),
        ({**SFT, "tuner_type": "full"}, {"method.kind": "full"}),
        ({**SFT, "tuner_type": "longlora"}, {"method.kind": UNKNOWN}),
        ({**SFT, "target_modules": ["all-linear", "all-router"]}, {"method.targets": ("all-linear",)}),
        ({**SFT, "target_modules": ["all-router"]}, {"method.targets": ("all-router",)}),
        ({**SFT, "packing": True}, {"sequence.packing": True, "sequence.length_is_bound": False}),
        ({**SFT, "padding_free": True}, {"sequence.unpadded": True}),
        ({**SFT, "deepspeed": "zero3"}, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3}),
        ({**SFT, "deepspeed": "zero2_offload"}, {"parallelism.zero.stage": 2, "offload.optimizer": "cpu"}),
        ({**SFT, "fsdp": "fsdp2"}, {"parallelism.engine": "fsdp", "parallelism.fsdp.version": 2}),
        (
            {**SFT, "fsdp": '{"fsdp": "full_shard auto_wrap offload", "fsdp_config": {"fsdp_version": 2}}'},
            {"parallelism.fsdp.version": 2, "parallelism.fsdp.cpu_offload": True, "checkpointing.mode": "full"},
        ),
        ({**SFT, "vit_gradient_checkpointing": False}, {"checkpointing.vision_tower": False}),
        (SFT, {"checkpointing.mode": "full", "checkpointing.vision_tower": None}),
        ({**SFT, "rlhf_type": "dpo"}, {"method.stage": "dpo", "method.reference_model": "shared"}),
        ({**SFT, "rlhf_type": "dpo", "tuner_type": "full"}, {"method.reference_model": "copy"}),
        (GRPO, {"method.stage": "grpo", "sequence.length": 3072, "sequence.max_new_tokens": 1024}),
        (GRPO, {"batch.gradient_accumulation_steps": 1, "method.num_generations": 8, "rollout.generator": "model"}),
        (GRPO, {"method.reference_model": "shared", "rollout.reference_micro_batch_size": 4, "rollout.sequences": 4}),
        ({**GRPO, "beta": 0}, {"method.reference_model": "none"}),
        # `swift rlhf --rlhf_type grpo --config grpo.yaml`; `swift sft` raises ValueError (4.6.0 pipelines/base.py:40).
        ({**SFT, "reward_funcs": ["accuracy"]}, {"method.stage": "grpo"}),
        ({**SFT, "num_generations": 4}, {"method.stage": "grpo", "method.num_generations": 4}),
        ({**SFT, "rlhf_type": "gkd", "num_generations": 4}, {"method.stage": "gkd"}),
        (ENGINE, {"rollout.generator": "vllm_colocate", "rollout.share": 0.9, "rollout.sleep_level": 1}),
        ({**ENGINE, "offload_model": True}, {"rollout.offloads_weights": True, "rollout.offloads_optimizer": False}),
        ({**ENGINE, "vllm_mode": "server"}, {"rollout.generator": "vllm", "rollout.share": 0.0}),
        ({**ENGINE, "vllm_mode": None, "vllm_device": "auto"}, {"rollout.generator": "vllm"}),
        ({**ENGINE, "vllm_mode": None, "vllm_device": "auto", "num_infer_workers": 8}, {"rollout.share": 0.9}),
        ({**ENGINE, "vllm_gpu_memory_utilization": 0.4}, {"rollout.share": 0.4}),
        ({**SFT, "target_modules": ["all-linear", "all-embedding", "lm_head"]}, {"method.targets": ("all-linear",)}),
    ],
)
def test_what_keys_mean(value: dict[str, Any], fields: dict[str, Any]) -> None:
    found = read(value)
    assert {name: get(found, name) for name in fields} == fields


def test_a_command_says_the_same_as_a_file() -> None:
    found = launched(
        "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model some/model --tuner_type lora --dataset d "
        "--torch_dtype bfloat16 --max_length 2048 --attn_impl flash_attn --max_completion_length 1024 "
        "--per_device_train_batch_size 4\n"
    )
    wanted = read(GRPO)
    for part in ("method", "batch", "sequence", "rollout", "precision", "loss"):
        assert getattr(found, part) == getattr(wanted, part), part


def test_places_are_those_of_the_flags() -> None:
    found = launched("NPROC_PER_NODE=2 swift sft --model a/b --dataset d \\\n  --lora_rank 32 --max_length 1024\n")
    assert (found.method.rank, found.origins["method.rank"].line) == (32, 2)


def test_several_cards_without_processes_share_the_layers() -> None:
    text = "swift sft --model a/b --dataset d --max_length 1024\n"
    assert launched(f"CUDA_VISIBLE_DEVICES=0,1 {text}").stack.unmodelled
    assert not launched(f"CUDA_VISIBLE_DEVICES=0 {text}").stack.unmodelled


def test_a_module_of_swift_is_swift() -> None:
    found = launched("torchrun --nproc_per_node 2 -m swift.cli.sft --model a/b --dataset d --max_length 512\n")
    assert (found.stack.framework, found.parallelism.world_size) == ("swift", 2)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (SFT, {"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 8}),
        (SFT, {"sequence.length": 1024}),
        (SFT, {"method.rank": 16}),
        (SFT, {"attention.implementation": "sdpa"}),
        ({**SFT, "gradient_checkpointing": False}, {"checkpointing.mode": "full"}),
        (ENGINE, {"rollout.sleep_level": 2}),
        (ENGINE, {"rollout.share": 0.3}),
        (ENGINE, {"rollout.offloads_weights": True}),
        (GRPO, {"sequence.max_new_tokens": 512, "sequence.length": 2560}),
        ({**SFT, "deepspeed": "zero2"}, {"parallelism.zero.stage": 3}),
        (SFT, {"optimizer.name": "adamw_8bit"}),
        (SFT, {"loss.kind": "liger", "loss.liger_kernels": True}),
        (SFT, {"model.quantization.bits": 4, "model.quantization.kind": "nf4"}),
        (SFT, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3, "model.weights_dtype": "bfloat16"}),
        (SFT, {"parallelism.sequence_parallel_size": 2, "parallelism.data_parallel_size": 2}),
        (GRPO, {"sequence.max_prompt_length": 1024, "sequence.length": 2048}),
    ],
)
def test_what_is_written_is_read_back(value: dict[str, Any], changes: dict[str, Any]) -> None:
    parsed = swift.parse(document(value), known(gpus=4, gpus_per_node=4))
    edits = swift.edits(parsed, run_of(parsed), changes)
    assert edits
    after = read(applied(value, edits, "train.json"))
    assert {field: get(after, field) for field in changes} == changes


FSDP_OF_4_BITS = {"parallelism.engine": "fsdp", "parallelism.fsdp.version": 1, "parallelism.fsdp.cpu_offload": True}


def test_a_command_says_its_json_and_a_single_target_as_it_reads_them() -> None:
    """A file has JSON as text; the words of a command are read as what they say."""
    command = "NPROC_PER_NODE=2 swift sft --model some/model --dataset d --max_length 512 --tuner_type lora \\\n"
    command += "    --quant_method bnb --quant_bits 4\n"
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    (script,) = documents("/repo/run.sh", command, repository)
    wanted = FSDP_OF_4_BITS | {"model.quantization.storage_dtype": "bfloat16", "method.targets": ("all-linear",)}
    found = swift.parse(script, known(gpus=2, gpus_per_node=2))
    edits = swift.edits(found, run_of(found), wanted)
    assert edits
    after = launched(apply(script.text, patches(script, edits)))
    assert {field: get(after, field) for field in wanted} == wanted
    assert after.parallelism.fsdp.cpu_ram_efficient_loading is True

    in_a_file = swift.parse(document({**SFT, "quant_bits": 4}), known(gpus=2))
    (said,) = swift.edits(in_a_file, run_of(in_a_file), FSDP_OF_4_BITS) or ()
    assert json.loads(said.value)["fsdp"] == "full_shard auto_wrap offload"


def test_a_key_of_a_file_that_ms_swift_ships_cannot_be_said() -> None:
    parsed = swift.parse(document({**SFT, "deepspeed": "zero2"}), known(gpus=4, gpus_per_node=4))
    assert swift.edits(parsed, run_of(parsed), {"parallelism.zero.reduce_bucket_size": 1_000_000}) is None


MEGATRON = (
    "NPROC_PER_NODE=8 megatron sft --model some/model --dataset d --tensor_model_parallel_size {} "
    "--pipeline_model_parallel_size 2 --micro_batch_size 2 --global_batch_size 16 --max_length 2048 {}\n"
)


def test_a_megatron_command_is_bounded_by_what_its_degrees_leave() -> None:
    one, two = (launched(MEGATRON.format(degree, "")) for degree in (1, 2))
    assert (one.parallelism.engine, one.method.kind, one.batch.micro_batch_size) == ("megatron", "full", 2)
    assert (one.batch.gradient_accumulation_steps, two.batch.gradient_accumulation_steps) == (2, 4)
    least = [estimate(run).allocated_low_bytes for run in (one, two)]
    assert least[0] is not None and least[1] is not None and least[1] < least[0]
    unknown = estimate(launched(MEGATRON.format("$TP", "")))
    assert unknown.allocated_low_bytes is None and "tensor_model_parallel_size" in unknown.unknown[0].reason
    assert launched(MEGATRON.format(1, "--tuner_type lora")).method.kind == "lora"


def test_of_layers_that_megatron_recomputes_together_one_input_is_kept() -> None:
    full = "--recompute_granularity full --recompute_method {} --recompute_num_layers 2"
    pairs, block = (launched(MEGATRON.format(1, full.format(method))) for method in ("uniform", "block"))
    alone = launched(MEGATRON.format(1, "--recompute_num_layers 2"))
    assert [run.checkpointing.every for run in (pairs, block, alone)] == [2, 1, 1]
    assert launched(MEGATRON.format(1, full.format("uniform").replace("2", "$N"))).checkpointing.every > 1000


def test_a_task_without_logits_is_told_apart() -> None:
    scores = read({**SFT, "task_type": "seq_cls"})
    assert (scores.method.drops_language_head, scores.stack.unmodelled) == (True, "")
    least, most = estimate(scores), estimate(read(SFT))
    assert (least.parameters or 0) < (most.parameters or 0)
    assert (least.allocated_bytes or 0) < (most.allocated_bytes or 0)
    assert estimate(read({**SFT, "task_type": "embedding"})).unknown[0].field == "stack.unmodelled"
    assert read({**SFT, "task_type": "causal_lm"}).loss == read(SFT).loss


def test_lisa_has_no_figure() -> None:
    full = {**SFT, "tuner_type": "full"}
    found = read({**full, "lisa_activated_layers": 2})
    assert "LISA" in str(estimate(found).unknown[0].reason)
    assert estimate(read({**full, "lisa_activated_layers": 0})).unknown == ()


def test_megatrons_optimizer_steps_on_the_host() -> None:
    host = "--optimizer_cpu_offload true"
    assert launched(MEGATRON.format(1, host)).offload.optimizer == "cpu"
    half = launched(MEGATRON.format(1, host + " --optimizer_offload_fraction 0.5"))
    assert half.offload.optimizer_ratio == 0.5
    assert launched(MEGATRON.format(1, "")).offload.optimizer == "none"


def test_files_of_megatron_are_named_and_not_judged() -> None:
    megatron = {**SFT, "micro_batch_size": 1, "global_batch_size": 16, "packing": True, "loss_type": "x"}
    parsed = swift.parse(document(megatron), known(gpus=8))
    assert run_of(parsed).parallelism.engine == "megatron"
    assert parsed.issues == ()


def test_what_the_parser_refuses_is_reported() -> None:
    assert codes(swift.parse(document({**SFT, "max_length": "long"}), known())) == ["wrong-type"]
    assert codes(swift.parse(document(SFT), known())) == []


@settings(max_examples=40, deadline=None)
@given(value=st.dictionaries(st.sampled_from([*SFT, "rlhf_type", "deepspeed", "use_vllm", "ENV"]), ANYTHING))
def test_no_value_makes_parsing_raise(value: Any) -> None:
    swift.parse(document(value), known())


@pytest.mark.parametrize(
    ("more", "held"),
    [({}, True), ({"ENV": {"ENABLE_AUDIO_OUTPUT": 0}}, False), ({"ENV": {"ENABLE_AUDIO_OUTPUT": "false"}}, False)],
)
def test_the_talker_is_loaded_unless_a_variable_says_no(more: dict[str, Any], held: bool) -> None:
    """It is frozen and whole on each card: its 1.8 billion parameters are weights and nothing else."""
    found = resolve("Qwen/Qwen2.5-Omni-7B")
    seen = context(gpus=4, gpus_per_node=4)._replace(find_model=lambda name, path: found)
    run = run_of(swift.parse(document({**SFT, **more}), seen))
    assert run.model.holds_speech is held
    silent = estimate(run._replace(model=run.model._replace(holds_speech=False)))
    added = estimate(run).details["weights_bytes"] - silent.details["weights_bytes"]
    assert added == (2 * 1_800_411_520 + 256 if held else 0)  # in blocks of 512 bytes


GKD: dict[str, Any] = {**SFT, "rlhf_type": "gkd", "teacher_model": "some/teacher", "tuner_type": "full"}


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, {"method.stage": "gkd", "loss.divergence": "mixture", "loss.in_row_chunks": True}),
        ({}, {"sequence.length": 2048 + 512, "sequence.max_prompt_length": 2048, "rollout.generator": "model"}),
        ({"lmbda": 0}, {"sequence.length": 2048, "rollout.generator": "", "method.reference_model": "named"}),
        ({"beta": 1}, {"loss.divergence": "reverse"}),
        ({"beta": 0}, {"loss.divergence": "forward"}),
        ({"teacher_model": None}, {"method.reference_model": "shared", "method.extra_models": ()}),
        ({"use_vllm": True, "vllm_mode": "server"}, {"rollout.generator": "vllm"}),
        ({"use_vllm": True, "vllm_mode": "colocate"}, {"rollout.generator": "vllm_colocate", "rollout.share": 0.9}),
        ({"teacher_deepspeed": "zero3_offload"}, {"rollout.offloads_reference": True}),
        ({"teacher_deepspeed": "zero3"}, {"rollout.offloads_reference": False, "method.extra_models_stage": 3}),
        ({"offload_teacher_model": True}, {"rollout.swaps_reference": True}),
        ({"sft_alpha": 0.1}, {"loss.labels_beside_teacher": True}),
        ({"lmbda": 1}, {"loss.compared_tokens": 512}),
        ({"lmbda": 0.5}, {"loss.compared_tokens": 2048}),
        ({"gkd_logits_topk": 64}, {"loss.divergence": "few", "method.reference_model": "named"}),
        (
            {"gkd_logits_topk": 64, "teacher_model_server": "http://teacher:8000", "teacher_model": None},
            {"loss.divergence": "few_served", "method.reference_model": "none", "method.extra_models": ()},
        ),
    ],
)
def test_a_student_learns_from_a_teacher(more: dict[str, Any], fields: dict[str, Any]) -> None:
    run = read({**GKD, **more})
    assert {field: get(run, field) for field in fields} == fields


def test_a_teacher_takes_its_weights_and_its_logits() -> None:
    alone, taught = estimate(read({**SFT, "tuner_type": "full"})), estimate(read({**GKD, "lmbda": 0}))
    waiting = estimate(read({**GKD, "lmbda": 0, "teacher_deepspeed": "zero3_offload"}))
    assert alone.allocated_bytes is not None and taught.allocated_bytes is not None
    assert taught.details["other_models_bytes"] > 0 == waiting.details["other_models_bytes"]
    assert taught.allocated_bytes > alone.allocated_bytes + taught.details["other_models_bytes"]
    away = estimate(read({**GKD, "lmbda": 0, "offload_teacher_model": True}))
    assert away.details["other_models_bytes"] == 0
    assert away.allocated_bytes is not None and away.allocated_bytes < taught.allocated_bytes
    few = estimate(read({**GKD, "lmbda": 0, "gkd_logits_topk": 64}))
    served = estimate(read({**GKD, "lmbda": 0, "gkd_logits_topk": 64, "teacher_model_server": "http://teacher:8000"}))
    assert few.allocated_bytes is not None and served.allocated_bytes is not None
    assert served.allocated_bytes < few.allocated_bytes < taught.allocated_bytes


@pytest.mark.parametrize(
    ("scale", "kind"),
    [("hermes", "plain"), ("last_round+react", "plain"), ("last_round", "liger"), ("ignore_empty_think", "liger")],
)
def test_weights_of_tokens_switch_liger_s_loss_off(scale: str, kind: str) -> None:
    run = read({**SFT, "use_liger_kernel": True, "loss_scale": scale})
    assert (run.loss.kind, bool(run.loss.fallback_reason)) == (kind, kind == "plain")


FULL: dict[str, Any] = {**SFT, "tuner_type": "full"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"optimizer": "muon"}, "muon"),
        ({"optimizer": "muonclip"}, "muonclip"),
        ({"optimizer": "galore", "optim": "adamw_8bit"}, "galore_adamw_8bit"),
        ({"use_galore": True}, "galore_adamw"),
        ({"use_galore": True, "optim": "adafactor"}, "galore_adafactor"),
        ({"use_galore": True, "galore_quantization": True}, "q_galore_adamw8bit"),
        ({"use_galore": True, "optimizer": "muon"}, "muon"),
        ({"optimizer": "lorap", "optim": "sgd"}, "sgd"),
        ({"optimizer": "multimodal", "optim": "sgd"}, "sgd"),
        ({"optimizer": "mine"}, UNKNOWN),
    ],
)
def test_a_plug_in_makes_the_optimizer(given: dict[str, Any], name: object) -> None:
    """ms-swift 4.6.0 arguments/sft_args.py:214, optimizers/mapping.py and optimizers/galore/utils.py:170."""
    assert read({**FULL, **given}).optimizer.name == name


def test_galore_projects_all_layers_but_the_head() -> None:
    found = read({**FULL, "use_galore": True, "galore_rank": 32}).optimizer
    assert (found.rank, found.targets, found.projects_head) == (32, ("all-linear",), False)


RELEASE_2 = "NPROC_PER_NODE=2 CUDA_VISIBLE_DEVICES=0,1 swift sft --model_id_or_path some/model --dataset d.jsonl"


def test_commands_of_release_2_mean_what_it_made_of_them() -> None:
    """ms-swift 2.6.1 llm/utils/argument.py, SftArguments."""
    run = launched(f"{RELEASE_2} --sft_type full --batch_size 4 --dtype AUTO --deepspeed default-zero3")
    assert (run.model.name, run.method.kind, run.batch.micro_batch_size) == ("some/model", "full", 4)
    assert (run.sequence.length, run.model.weights_dtype, run.parallelism.zero.stage) == (2048, "bfloat16", 3)


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("", 4),
        ("--eval_batch_size 2", 2),
        ("--predict_with_generate true", 1),
        ("--per_device_eval_batch_size 3", 3),
    ],
)
def test_release_2_evaluates_with_the_training_batch(said: str, rows: int) -> None:
    """ms-swift 2.6.1 llm/utils/argument.py:1103; the Trainer's 8 came with 3.0."""
    assert launched(f"{RELEASE_2} --sft_type lora --batch_size 4 {said}").evaluation.batch_size == rows


@pytest.mark.parametrize(("said", "targets"), [("", UNKNOWN), ("ALL", ("all-linear",)), ("q_proj", ("q_proj",))])
def test_release_2_had_targets_of_each_models_own(said: str, targets: object) -> None:
    flag = f" --lora_target_modules {said}" if said else ""
    assert launched(f"{RELEASE_2} --sft_type lora{flag}").method.targets == targets


@pytest.mark.parametrize(
    ("name", "stage", "offloads"),
    [("default-zero2", 2, "none"), ("zero2-offload", 2, "cpu"), ("zero3_offload", 3, "cpu"), ("zero1", 1, "none")],
)
def test_words_for_shipped_deepspeed_files(name: str, stage: int, offloads: str) -> None:
    run = launched(f"{RELEASE_2} --sft_type full --deepspeed {name}")
    assert (run.parallelism.zero.stage, run.offload.optimizer) == (stage, offloads)


@pytest.mark.parametrize(
    ("environment", "options", "spreads"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=2", "", True),
        ("CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2", "", False),
        ("NPROC_PER_NODE=2", "", False),
        ("CUDA_VISIBLE_DEVICES=0,1", "", True),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=2", "--deepspeed zero3", False),
    ],
)
def test_more_visible_cards_than_processes_share_the_layers_of_one(
    environment: str, options: str, spreads: bool
) -> None:
    """ms-swift 4.6.0 utils/env.py, is_mp."""
    found = launched(f"{environment} swift sft --model a/b --dataset d --max_length 1024 {options}\n")
    assert ("spread over the cards" in str(found.stack.unmodelled)) is spreads


def test_one_visible_card_holds_the_whole_model_however_many_a_machine_has() -> None:
    script = "CUDA_VISIBLE_DEVICES=7 swift sft --model a/b --dataset d --max_length 1024\n"
    assert not launched(script, on=8).stack.unmodelled
    assert "spread over the cards" in str(launched(script.partition(" ")[2], on=8).stack.unmodelled)


@pytest.mark.parametrize(
    ("start", "spreads"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 python swift/cli/sft.py", True),
        ("CUDA_VISIBLE_DEVICES=0 python swift/cli/sft.py", False),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node 2 swift/cli/sft.py", True),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 swift/cli/sft.py", False),
    ],
)
def test_its_programs_under_another_launcher_share_the_layers_too(start: str, spreads: bool) -> None:
    found = launched(f"{start} --model a/b --dataset d --max_length 1024\n")
    assert ("spread over the cards" in str(found.stack.unmodelled)) is spreads


@pytest.mark.parametrize("name", ["grouped_mm", "eager"])
def test_experts_that_run_otherwise_are_a_bound(name: str) -> None:
    run = run_of(swift.parse(document({**SFT, "experts_impl": name}), known(gpus=8)))
    assert (bool(run.stack.unmodelled), run.stack.unmodelled_adds) == (name == "eager", name == "eager")


@pytest.mark.parametrize(("keys", "is_bound"), [({"fp8_format": "e4m3"}, True), ({"fp8_param_gather": True}, True)])
def test_weights_that_megatron_keeps_in_fp8_have_no_bound(keys: dict[str, Any], is_bound: bool) -> None:
    """`fp8_param_gather` means nothing without a format."""
    megatron = {**SFT, "micro_batch_size": 1, "global_batch_size": 16}
    bounded = run_of(swift.parse(document({**megatron, **keys}), known(gpus=8)))
    both = {**megatron, "fp8_format": "e4m3", "fp8_param_gather": True}
    unbounded = run_of(swift.parse(document(both), known(gpus=8)))
    assert (bounded.model.weights_dtype is not UNKNOWN) == is_bound
    assert unbounded.model.weights_dtype is UNKNOWN


@pytest.mark.parametrize("said", [{}, {"torch_dtype": "${DTYPE}"}])
def test_zero_3_shares_16_bits_of_a_checkpoint_whose_dtype_nobody_knows(said: dict[str, Any]) -> None:
    """Not the 32 bits that DeepSpeed makes of weights where neither bf16 nor fp16 is asked for."""
    value = {**SFT, "model": "/checkpoints/merged_235b", "deepspeed": "zero3"}
    del value["torch_dtype"]
    eight = context(known=False, gpus=8, gpus_per_node=8)
    run = run_of(swift.parse(document({**value, **said}), eight))
    assert run.model.weights_dtype is run.precision.compute is UNKNOWN
    stated = LEAST * 235e9 * 2 / 8
    assert stated < (estimate(run).allocated_low_bytes or 0) < 1.05 * stated


def test_of_two_spellings_the_newer_one_is_in_force() -> None:
    """The type of release 2, which alone names a model there, says in later ones how a model is loaded."""
    assert read({**SFT, "model_type": "qwen2"}).model.name == "some/model"
    old = {key: value for key, value in SFT.items() if key != "model"}
    assert read({**old, "sft_type": "lora", "model_type": "qwen2-7b-instruct"}).model.name == "qwen2-7b-instruct"


SEES = from_config(
    {
        "model_type": "qwen2_vl",
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "torch_dtype": "bfloat16",
        **{key: value for key, value in TINY.items() if key not in ("model_type", "architectures")},
        "vision_config": {"depth": 2, "embed_dim": 64, "hidden_size": 64, "num_heads": 2, "patch_size": 14},
    }
)


@pytest.mark.parametrize(
    ("release", "facts", "length"),
    [((3, 3), {}, UNKNOWN), ((3, 3), {"images": 0}, 2048), ((3, 4), {}, 2048), ((), {}, 2048)],
)
def test_old_releases_cut_before_images_are_tokens(
    release: tuple[int, ...], facts: dict[str, Any], length: object
) -> None:
    """3.3.0 llm/template/base.py:979; 3.4.0 base.py:421 measures the whole sample."""
    versions = {"swift": release} if release else {}
    seeing = context(**facts, versions=versions)._replace(
        find_model=lambda name, path: Resolution(name, "catalog", SEES)
    )
    assert run_of(swift.parse(document(SFT), seeing)).sequence.length == length
    texts = known(versions=versions)
    assert run_of(swift.parse(document(SFT), texts)).sequence.length == 2048


def test_a_file_that_fsdp_names_is_read_and_a_plan_says_its_options_in_its_place() -> None:
    """JSON, or a file of it (ms-swift 4.6.0 utils/utils.py:412, json_parse_to_dict)."""
    own = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2, "reshard_after_forward": False}}
    parsed = swift.parse(document({**SFT, "fsdp": "own.json"}), context({"own.json": own}))
    run = run_of(parsed)
    assert (run.parallelism.fsdp.cpu_offload, run.parallelism.fsdp.reshard_after_forward) == (False, False)
    assert not run.readings
    (edit,) = swift.edits(parsed, run, {"parallelism.fsdp.cpu_offload": True}) or ()
    assert json.loads(edit.value) == {**own, "fsdp": "full_shard auto_wrap offload"}


def test_a_file_that_fsdp_names_and_is_not_there_may_offload() -> None:
    run = run_of(swift.parse(document({**SFT, "fsdp": "own.json"}), context()))
    (reading,) = run.readings
    assert reading.changes == (("parallelism.fsdp.cpu_offload", True),) and reading.settled
    assert not run_of(swift.parse(document({**SFT, "fsdp": "fsdp2"}), context())).readings
