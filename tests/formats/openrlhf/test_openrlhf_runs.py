"""OpenRLHF's commands: recognition, what each flag means in both spellings (OpenRLHF 0.11.2 and 0.9.10), edits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.formats import recognise
from memlint.formats.openrlhf import format as openrlhf
from memlint.formats.openrlhf.keys import KEYS
from memlint.memory.estimate import estimate
from memlint.repository.scripts.files import Repository
from memlint.repository.scripts.read import documents
from memlint.run import UNKNOWN, Run, get, replace
from memlint.source.document import Document
from tests.formats.frameworks import ANYTHING, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config({**TINY, "torch_dtype": "bfloat16"})
PPO = "openrlhf.cli.train_ppo_ray"
OLD = (
    "--pretrain a/b --actor_num_nodes 1 --actor_num_gpus_per_node 4 --ref_num_gpus_per_node 4 --vllm_num_engines 4 "
    "--zero_stage 3 --bf16 --flash_attn --colocate_all_models"
)
NEW = (
    "--actor.model_name_or_path a/b --actor.num_gpus_per_node 4 --ref.num_gpus_per_node 4 --vllm.num_engines 4 "
    "--ds.zero_stage 3 --train.colocate_all"
)
SFT = "deepspeed --num_gpus 4 --module openrlhf.cli.train_sft --model.model_name_or_path a/b --ds.zero_stage 2"


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def launch(text: str) -> Document:
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    (found,) = documents("/repo/run.sh", text, repository)
    assert found.start is not None and found.start.format == "openrlhf"
    return found


def parsed_of(text: str) -> Any:
    found = launch(text)
    gpus = found.start.machine.gpus if found.start is not None else 0
    return openrlhf.parse(found, known(**({"gpus": gpus, "gpus_per_node": gpus} if gpus else {})))


def launched(text: str) -> Run:
    return run_of(parsed_of(text))


def ppo(flags: str, more: str = "") -> Run:
    return launched(f"python3 -m {PPO} {flags} {more}\n")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"ds.zero_stage": 3, "train.micro_batch_size": 1}, "openrlhf"),
        ({"micro_train_batch_size": 1, "colocate_all_models": True}, "openrlhf"),
        ({"zpg": 1, "model": "a/b"}, ""),
    ],
)
def test_recognised_by_its_flags(value: Any, name: str) -> None:
    found = recognise(document(value))
    assert (found[0].NAME if found else "") == name


@pytest.mark.parametrize(
    "text",
    [
        f"ray job submit --address=x --runtime-env-json='{{}}' -- python3 -m {PPO} {OLD}\n",
        f"srun bash -c 'ray job submit -- python3 -m {PPO} {OLD}'\n",
        f"read -r -d '' commands <<EOF\n{PPO} \\\n   {OLD} --save_path out/$1\nEOF\npython3 -m $commands\n",
        f'commands="{PPO} {OLD}"\ntorchrun --nproc_per_node 4 -m $commands\n',
        f"python openrlhf/cli/train_ppo_ray.py {OLD}\n",
    ],
)
def test_a_launch_is_read_however_it_is_started(text: str) -> None:
    run = launched(text)
    assert (run.parallelism.world_size, run.parallelism.zero.stage, run.method.stage) == (4, 3, "ppo")


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("", "", {"parallelism.world_size": 4, "rollout.generator": "vllm_colocate", "rollout.share": 0.95}),
        ("", "", {"method.reference_model": "copy", "optimizer.name": "fused_adam", "precision.compute": "bfloat16"}),
        ("", "", {"rollout.sleep_level": 0, "checkpointing.mode": "none", "sequence.length": 2048}),
        ("--adam_offload", "--ds.adam_offload", {"offload.optimizer": "cpu", "optimizer.name": "cpu_adam"}),
        ("--vllm_enable_sleep", "--vllm.enable_sleep", {"rollout.sleep_level": 1}),
        ("--deepspeed_enable_sleep", "--ds.enable_sleep", {"rollout.offloads_optimizer": True}),
        ("--gradient_checkpointing", "--actor.gradient_checkpointing_enable", {"checkpointing.mode": "full"}),
        ("--packing_samples", "--ds.packing_samples", {"sequence.unpadded": True}),
        ("--zpg 4", "--ds.zpg 4", {"parallelism.zero.hpz_partition_size": 4}),
        ("--init_kl_coef 0", "--algo.kl.init_coef 0", {"method.reference_model": "none"}),
        ("--lora_rank 8", "--ds.lora.rank 8", {"method.kind": "lora", "method.reference_model": "copy"}),
        ("--load_in_4bit", "--ds.load_in_4bit", {"model.quantization.method": "bnb", "model.quantization.bits": 4}),
        ("--entropy_loss_coef 0", "--actor.entropy_coef 0", {"loss.entropy": "compiled"}),
        ("--ref_reward_offload", "--ref.offload", {"rollout.offloads_reference": True}),
        ("--advantage_estimator rloo", "--algo.advantage.estimator rloo", {"method.stage": "grpo"}),
        ("--async_train", "--train.async_enable", {"rollout.generator": "vllm"}),
        ("--vllm_tensor_parallel_size 2", "--vllm.tensor_parallel_size 2", {"rollout.tensor_parallel_size": 2}),
        (
            "--ring_attn_size 2",
            "--ds.ring_attn_size 2",
            {"parallelism.sequence_parallel_size": 2, "parallelism.data_parallel_size": 2, "sequence.unpadded": True},
        ),
        (
            "--use_dynamic_batch --train_max_tokens_per_gpu 4096",
            "--train.dynamic_batch_enable --train.max_tokens_per_gpu 4096",
            {"batch.max_tokens": 4096, "rollout.log_prob_length": 4096, "batch.micro_batch_size": 2},
        ),
        (
            "--micro_train_batch_size 2 --train_batch_size 64 --micro_rollout_batch_size 3",
            "--train.micro_batch_size 2 --train.batch_size 64 --rollout.micro_batch_size 3",
            {
                "batch.micro_batch_size": 2,
                "batch.gradient_accumulation_steps": 8,
                "rollout.reference_micro_batch_size": 3,
            },
        ),
    ],
)
def test_both_spellings_mean_the_same(old: str, new: str, fields: dict[str, Any]) -> None:
    for run in (ppo(OLD, old), ppo(NEW, new)):
        assert {name: get(run, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        (OLD, {"batch.micro_batch_size": 4, "rollout.log_prob_micro_batch_size": 8}),
        (NEW, {"batch.micro_batch_size": 1, "rollout.log_prob_micro_batch_size": 1}),
        (f"{OLD} --prompt_max_len 512 --generate_max_len 1024", {"sequence.length": 1536}),
        (f"{NEW} --data.max_len 4096 --rollout.max_new_tokens 1024", {"sequence.length": 4096}),
        (f"{NEW} --data.max_len $L", {"sequence.length": UNKNOWN}),
        (NEW.replace("--train.colocate_all", ""), {"rollout.generator": "vllm", "method.reference_model": "none"}),
        (NEW.replace("colocate_all", "colocate_actor_ref"), {"method.reference_model": "copy"}),
    ],
)
def test_what_depends_on_the_release_and_the_placement(flags: str, fields: dict[str, Any]) -> None:
    run = ppo(flags)
    assert {name: get(run, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (SFT, {"method.stage": "sft", "parallelism.world_size": 4, "batch.micro_batch_size": 8}),
        (SFT, {"loss.keeps_logits": True, "attention.implementation": "flash_attention_2"}),
        (SFT.replace("train_sft", "train_dpo"), {"method.stage": "dpo", "method.reference_model": "copy"}),
        (SFT.replace("train_sft", "train_dpo") + " --ref.model_name_or_path c/d", {"method.reference_model": "named"}),
        (
            SFT.replace("train_sft", "train_rm"),
            {"method.stage": "rm", "loss.kind": "plain", "batch.micro_batch_size": 1},
        ),
        (SFT.replace("train_sft", "train_prm"), {"method.stage": "sft", "stack.unmodelled": ""}),
        (SFT.replace("--num_gpus 4 ", ""), {"parallelism.world_size": UNKNOWN}),
    ],
)
def test_programs_without_rewards(text: str, fields: dict[str, Any]) -> None:
    run = launched(text + "\n")
    assert {name: get(run, name) for name in fields} == fields


def test_models_on_the_same_cards_are_processes_of_their_own() -> None:
    run = ppo(NEW, "--reward.model_name_or_path c/d,e/f")
    assert run.rollout.model_processes == 3 and run.rollout.own_process
    assert [model.name for model in run.method.extra_models] == ["c/d", "e/f"]
    assert run.method.value_model.model.name == "c/d"  # the first reward model, as no critic is named
    remote = ppo(NEW, "--reward.model_name_or_path c/d --reward.remote_url http://h")
    assert remote.method.extra_models == () and remote.method.value_model.model.name == "a/b"


def test_a_critic_on_cards_of_its_own_costs_the_policy_nothing() -> None:
    apart = NEW.replace("--train.colocate_all", "--train.colocate_actor_ref")
    run = ppo(apart, "--critic.num_gpus_per_node 2")
    assert run.method.value_model.gpus == 2
    phases = {phase.name: phase for phase in estimate(run).phases}
    alone = {phase.name: phase for phase in estimate(ppo(apart, "--algo.advantage.estimator rloo")).phases}
    assert phases["backward"].components == alone["backward"].components
    fewer = {phase.name: phase for phase in estimate(ppo(apart, "--critic.num_gpus_per_node 1")).phases}
    assert fewer["value_update"].allocated_bytes > phases["value_update"].allocated_bytes


def test_weights_reach_vllm_through_a_copy() -> None:
    """At stage 3 the largest parameter is gathered and cloned; a broadcast needs no clone."""
    embedding = 2 * LLAMA.vocab_size * LLAMA.hidden_size
    assert ppo(NEW).rollout.sync_bucket_bytes == embedding
    assert ppo(NEW, "--vllm.sync_backend gloo").rollout.sync_bucket_bytes == 0
    assert ppo(NEW, "--ds.zero_stage 2").rollout.sync_bucket_bytes == 0


def test_a_vision_tower_trains_unless_it_is_frozen() -> None:
    tower = LLAMA._replace(towers=(object(),))
    found = context()._replace(find_model=lambda name, path: Resolution(name, "catalog", tower))
    for flags, frozen in ((NEW, False), (f"{NEW} --actor.freeze_visual_encoder", True)):
        run = run_of(openrlhf.parse(launch(f"python3 -m {PPO} {flags}\n"), found))
        assert run.method.freeze_vision_tower is run.method.freeze_multi_modal_projector is frozen


def test_updates_that_run_at_once_may_add_up() -> None:
    at_once, one_by_one = estimate(ppo(NEW)), estimate(ppo(NEW, "--ds.enable_sleep"))
    assert ppo(NEW).method.value_model.trains_at_once
    assert not ppo(NEW, "--ds.enable_sleep").method.value_model.trains_at_once
    high = at_once.allocated_high_bytes
    assert high is not None and high > max(phase.allocated_bytes for phase in at_once.phases)
    assert (one_by_one.allocated_high_bytes or 0) < high


def test_the_gradient_of_the_logits_is_a_tensor_of_its_own() -> None:
    """Kept fp32 logits, their fp32 gradient, its bf16 copy: 10 bytes a logit, and 6 where the kernel works in place."""
    run = ppo(NEW, "--train.micro_batch_size 8 --algo.advantage.estimator rloo")
    logits = 8 * 2048 * LLAMA.vocab_size
    found = {phase.name: phase.components["logits"] for phase in estimate(run).phases}
    assert found["forward"] == pytest.approx(6 * logits, rel=0.01)
    over_them = estimate(replace(run, {"loss.gradient_apart": False, "loss.keeps_logits": False}))
    assert max(phase.components["logits"] for phase in over_them.phases) < 10 * logits
    assert max(found.values()) == pytest.approx(10 * logits, rel=0.01)


def test_an_older_release_may_compute_attention_otherwise() -> None:
    (reading,) = ppo(OLD.replace("--flash_attn", "")).readings
    assert reading.changes == (("attention.implementation", "eager"),)
    assert not ppo(OLD).readings and not ppo(NEW).readings


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (NEW, []),
        (f"{NEW} --vllm.tensor_parallel_size 2", ["conflict"]),
        (f"{NEW} --vllm.tensor_parallel_size 2 --train.async_enable", []),
        (f"{NEW} --ref.num_nodes 2", ["conflict"]),
        (f"{NEW} --ref.num_nodes 2 --algo.kl.init_coef 0", []),
        (f"{NEW} --train.micro_batch_size two", ["wrong-type"]),
        (f"{NEW} --a_flag_of_a_fork 1", ["unknown-key"]),
        (f"{NEW} --train.micro_batch_size two --a_flag_of_a_fork 1", ["unknown-key"]),
        (f"{NEW} --ds.zero_stag 2 --disable_trace_cache", ["no-release"]),  # gone before flags had sections
        (f"{NEW} --ds.zero_stag 2", []),  # argparse takes the beginning of a flag's name
    ],
)
def test_what_the_program_refuses_is_reported(flags: str, found: list[str]) -> None:
    assert codes(parsed_of(f"python3 -m {PPO} {flags}\n")) == found


def test_flags_that_no_release_has_are_one_warning_beside_the_slips() -> None:
    """A program that the repository has takes the flags that it defines."""
    flags = f"{OLD} --adam_offlaod --a_forks_own 1 --another_of_it 2 --third 3 --fourth 4"
    slip, foreign = parsed_of(f"python3 -m {PPO} {flags}\n").issues
    assert (slip.severity, slip.suggestion) == ("error", "adam_offload")
    assert (foreign.severity, foreign.where) == ("warning", "it is not for a fork")
    assert "and 1 more: OpenRLHF refuses the command" in foreign.message
    assert parsed_of(f"python3 train_ppo_ray.py {OLD} --a_forks_own 1\n").issues == ()


CHANGES = {
    "batch.micro_batch_size": 2,
    "checkpointing.mode": "full",
    "offload.optimizer": "cpu",
    "parallelism.zero.stage": 2,
    "rollout.sleep_level": 1,
    "rollout.share": 0.4,
    "rollout.log_prob_micro_batch_size": 2,
    "rollout.offloads_optimizer": True,
    "sequence.length": 1024,
    "method.rank": 8,
}


@pytest.mark.parametrize("flags", [OLD, NEW])
@pytest.mark.parametrize("field", CHANGES)
def test_a_change_is_written_in_the_spelling_of_the_command(field: str, flags: str) -> None:
    """The command with the edits as its flags reads as the changed run."""
    parsed = parsed_of(f"python3 -m {PPO} {flags}\n")
    edits = openrlhf.edits(parsed, parsed.runs[0], {field: CHANGES[field]})
    assert edits and all(len(edit.pointer) == 1 for edit in edits)
    assert all(("." in str(edit.pointer[0])) == (flags is NEW) for edit in edits)
    words = " ".join(f"--{edit.pointer[0]}" + ("" if edit.value is True else f" {edit.value}") for edit in edits)
    assert get(ppo(flags, words), field) == CHANGES[field]


@pytest.mark.parametrize(
    ("field", "flag"), [("max_prompt_length", "prompt_max_len"), ("max_new_tokens", "generate_max_len")]
)
def test_prompts_and_responses_have_bounds_of_their_own_before_0_9_6(field: str, flag: str) -> None:
    flags = f"{OLD} --prompt_max_len 1024 --generate_max_len 2048"
    parsed = parsed_of(f"python3 -m {PPO} {flags}\n")
    edits = openrlhf.edits(parsed, parsed.runs[0], {f"sequence.{field}": 512}) or ()
    assert {edit.pointer[0]: edit.value for edit in edits} == {flag: 512}
    assert get(ppo(flags, f"--{flag} 512"), f"sequence.{field}") == 512


def test_a_ring_brings_packed_samples() -> None:
    parsed = parsed_of("deepspeed --module openrlhf.cli.train_sft --pretrain some/model --max_len 8192\n")
    edits = openrlhf.edits(parsed, parsed.runs[0], {"parallelism.sequence_parallel_size": 2}) or ()
    assert {edit.pointer[0]: edit.value for edit in edits} == {"ring_attn_size": 2, "packing_samples": True}
    joined = parsed_of(f"python3 -m {PPO} {NEW}\n")
    assert openrlhf.edits(joined, joined.runs[0], {"parallelism.sequence_parallel_size": 2}) is None


def test_the_reference_of_preferences_waits_on_the_host_by_its_own_flag() -> None:
    """`teacher_offload` is a flag of train_kd alone, and no flag sizes ZeRO's buckets."""
    command = "deepspeed --module openrlhf.cli.train_dpo --model.model_name_or_path some/model --ds.zero_stage 3"
    parsed = parsed_of(f"{command} --data.max_len 512\n")
    (edit,) = openrlhf.edits(parsed, parsed.runs[0], {"rollout.offloads_reference": True}) or ()
    assert edit.pointer == ("ref.offload",)
    sized = {"parallelism.zero.stage": 3, "parallelism.zero.reduce_bucket_size": 50_000_000}
    assert openrlhf.edits(parsed, parsed.runs[0], sized) is None


def test_a_switch_that_is_off_is_left_out() -> None:
    parsed = parsed_of(f"python3 -m {PPO} {NEW} --ds.adam_offload\n")
    (edit,) = openrlhf.edits(parsed, parsed.runs[0], {"offload.optimizer": "none"}) or ()
    assert (edit.action, edit.pointer) == ("remove", ("ds.adam_offload",))
    assert openrlhf.edits(parsed, parsed.runs[0], {"model.weights_dtype": "float32"}) is None


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([name for row in KEYS for name in row.names]), ANYTHING, max_size=12))
def test_no_value_makes_parsing_raise(value: dict[str, Any]) -> None:
    parsed = openrlhf.parse(document(value), known())
    assert len(parsed.runs) == 1
    estimate(parsed.runs[0])


def test_a_forks_own_engine_is_not_read_as_deepspeeds() -> None:
    command = (
        "deepspeed openrlhf/cli/train_sft.py --pretrain some/model --micro_train_batch_size 8 --train_batch_size 64"
    )
    assert launched(command).stack.unmodelled == ""
    assert launched(f"{command} --use_fsdp").stack.unmodelled == "FSDP in place of DeepSpeed"


@pytest.mark.parametrize(("version", "attention"), [((0, 8, 9), "eager"), ((0, 9, 1), "flash_attention_2")])
def test_a_release_that_is_known_says_how_attention_is_computed(version: tuple[int, ...], attention: str) -> None:
    found = launch(f"python3 -m {PPO} {OLD.replace('--flash_attn', '')}\n")
    run = run_of(openrlhf.parse(found, known(versions={"openrlhf": version})))
    assert (run.attention.implementation, run.readings) == (attention, ())


@pytest.mark.parametrize(
    ("flags", "unmodelled"),
    [("", False), (" --stage stage1 --qa_loss", False), (" --stage stage1 --qa_loss --compress_rate 32", True)],
)
def test_a_changed_copy_with_flags_of_its_own_trains_otherwise(flags: str, unmodelled: bool) -> None:
    command = "deepspeed --num_gpus 4 openrlhf/cli/train_sft.py --pretrain some/model --micro_train_batch_size 2"
    found = launch(f"{command}{flags}\n")
    assert found.start is not None
    copy = found._replace(start=found.start._replace(accepted=found.start.accepted._replace(defined={"pretrain"})))
    run = run_of(openrlhf.parse(copy, known(gpus=4, gpus_per_node=4)))
    assert bool(run.stack.unmodelled) == unmodelled
    assert launched(f"{command}{flags}\n").stack.unmodelled == "", "a program of the installed package refuses them"


@pytest.mark.parametrize(
    ("release", "flags", "share"),
    [
        ((), OLD, 0.95),
        ((0, 7), OLD, 0.95),
        ((0, 6), OLD, 0.4),
        ((0, 6), f"{OLD} --vllm_gpu_memory_utilization 0.5", 0.5),
    ],
)
def test_the_share_of_an_engine_is_that_of_the_release(release: tuple[int, ...], flags: str, share: float) -> None:
    """0.6.0 cli/train_ppo_ray.py:67, where colocated engines never got a whole card."""
    versions = {"openrlhf": release} if release else {}
    parsed = openrlhf.parse(launch(f"python3 -m {PPO} {flags}\n"), known(gpus=4, gpus_per_node=4, versions=versions))
    assert run_of(parsed).rollout.share == share
