"""verl's files and overrides: recognition, what each key means (verl 0.9.1), edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import from_config
from memlint.architectures.model import Resolution, parameters
from memlint.cli import main
from memlint.findings import Edit
from memlint.fixes.consequences import consistent
from memlint.fixes.edits.apply import apply, patches
from memlint.formats import recognise
from memlint.formats.base import Context, MissingFile
from memlint.formats.verl import format as verl
from memlint.memory import estimate
from memlint.memory.segments.step import sequences_per_sample
from memlint.repository.scripts.files import Repository
from memlint.repository.scripts.read import documents
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from memlint.source.document import Document, Start
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config(TINY)
ROLLOUT = {"name": "vllm", "n": 8, "tensor_model_parallel_size": 1, "log_prob_micro_batch_size_per_gpu": 4}
GRPO: dict[str, Any] = {
    "actor_rollout_ref": {
        "model": {"path": "some/model"},
        "actor": {"ppo_micro_batch_size_per_gpu": 2, "ppo_mini_batch_size": 64, "use_kl_loss": True},
        "rollout": ROLLOUT,
        "ref": {"log_prob_micro_batch_size_per_gpu": 8},
    },
    "algorithm": {"adv_estimator": "grpo"},
    "data": {"max_prompt_length": 512, "max_response_length": 1536},
    "trainer": {"n_gpus_per_node": 8, "nnodes": 2},
}
SFT: dict[str, Any] = {
    "data": {"micro_batch_size_per_gpu": 4, "max_length": 2048, "train_batch_size": 64, "use_dynamic_bsz": False},
    "model": {"path": "some/model"},
    "trainer": {"n_gpus_per_node": 4, "nnodes": 1, "default_local_dir": "out"},
}


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def changed(value: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """`value` with dotted keys set; `__` stands for a dot."""
    found = {key: dict(part) if isinstance(part, dict) else part for key, part in value.items()}
    for name, new in keys.items():
        *steps, last = name.split("__")
        inner = found
        for step in steps:
            inner[step] = dict(inner.get(step) or {})
            inner = inner[step]
        inner[last] = new
    return found


def read(value: Any, **fields: Any) -> Run:
    return run_of(verl.parse(document(value), known(**fields)))


def command(overrides: str, program: str = "verl.trainer.main_ppo", before: str = "") -> Run:
    text = f"{before}python3 -m {program} {overrides}\n"
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    (found,) = documents("/repo/run.sh", text, repository)
    assert found.start is not None and found.start.format == "verl"
    return run_of(verl.parse(found, known()))


ACTOR = "actor_rollout_ref__actor__"
ENGINE_DEGREE = ACTOR + "fsdp_config__ulysses_sequence_parallel_size"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (GRPO, "verl"),
        (SFT, "verl"),
        ({**SFT, "data": {**SFT["data"], "chosen_key": "chosen", "rejected_key": "rejected"}}, ""),
        ({"actor_rollout_ref": 1}, ""),
        ({"model": {}, "data": {}, "trainer": {}}, ""),
        ({"trainer": {"max_epochs": 3}, "data": {"path": "d"}, "model": {"lr": 1}}, ""),
    ],
)
def test_recognised_by_its_sections(value: Any, name: str) -> None:
    found = recognise(document(value))
    assert (found[0].NAME if found else "") == name


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (GRPO, {"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 16, "method.stage": "grpo"}),
        (GRPO, {"sequence.length": 2048, "sequence.max_new_tokens": 1536, "parallelism.world_size": 16}),
        (GRPO, {"rollout.log_prob_micro_batch_size": 4, "rollout.reference_micro_batch_size": 8}),
        (GRPO, {"rollout.share": 0.5, "rollout.sleep_level": 2, "rollout.generator": "vllm_colocate"}),
        (GRPO, {"model.weights_dtype": "float32", "precision.compute": "bfloat16", "parallelism.fsdp.version": 1}),
        (GRPO, {"method.reference_model": "copy", "rollout.offloads_reference": True, "method.value_model": None}),
        (GRPO, {"loss.kind": "fused_ce", "loss.entropy": "none", "rollout.log_prob_entropy": "compiled"}),
        (changed(GRPO, **{ACTOR + "strategy": "fsdp2"}), {"parallelism.fsdp.version": 2}),
        (changed(GRPO, **{ACTOR + "strategy": "megatron"}), {"parallelism.engine": "megatron"}),
        (changed(GRPO, **{ACTOR + "entropy_coeff": 0.001}), {"loss.entropy": "compiled"}),
        (
            changed(GRPO, **{ACTOR + "entropy_coeff": 0.1, ACTOR + "use_torch_compile": False}),
            {"loss.entropy": "whole"},
        ),
        (changed(GRPO, **{ACTOR + "ulysses_sequence_parallel_size": 2}), {"parallelism.data_parallel_size": 8}),
        (changed(GRPO, **{ENGINE_DEGREE: 4}), {"parallelism.sequence_parallel_size": 4}),
        (
            changed(GRPO, **{ENGINE_DEGREE: 4, ACTOR + "ulysses_sequence_parallel_size": 2}),
            {"parallelism.sequence_parallel_size": 2},
        ),
        (
            changed(GRPO, **{ENGINE_DEGREE: 4, ACTOR + "use_dynamic_bsz": True}),
            {"batch.max_tokens": 4 * 16384},
        ),
        (
            changed(GRPO, **{ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": 8192}),
            {"batch.max_tokens": 8192, "batch.micro_batch_size": 4, "rollout.log_prob_length": 8192},
        ),
        (
            changed(GRPO, **{ACTOR + "ppo_micro_batch_size_per_gpu": None, ACTOR + "ppo_micro_batch_size": 32}),
            {"batch.micro_batch_size": 2},
        ),
        (changed(GRPO, **{ACTOR + "ppo_micro_batch_size_per_gpu": "${X}"}), {"batch.micro_batch_size": UNKNOWN}),
        (changed(GRPO, actor_rollout_ref__model__lora_rank=32), {"method.kind": "lora", "method.rank": 32}),
        (changed(GRPO, actor_rollout_ref__model__lora_rank=32), {"method.reference_model": "shared"}),
        (changed(GRPO, actor_rollout_ref__model__use_fused_kernels=True), {"loss.kind": "chunked"}),
        (changed(GRPO, actor_rollout_ref__rollout__free_cache_engine=False), {"rollout.sleep_level": 0}),
        (changed(GRPO, actor_rollout_ref__rollout__name="sglang"), {"rollout.share_of_free": True}),
        (GRPO, {"rollout.share_of_free": False}),
        (changed(GRPO, actor_rollout_ref__rollout__name="hf"), {"rollout.generator": "model", "rollout.share": 0.0}),
        # a rank has 4 prompts of the mini-batch, 64 of the batch: 8 completions each
        (
            changed(GRPO, **{ACTOR + "ppo_mini_batch_size": 8, ACTOR + "ppo_micro_batch_size_per_gpu": 16}),
            {"batch.micro_batch_size": 4, "batch.gradient_accumulation_steps": 1},
        ),
        (
            changed(GRPO, data__train_batch_size=16, actor_rollout_ref__ref={"log_prob_micro_batch_size_per_gpu": 99}),
            {"rollout.log_prob_micro_batch_size": 4, "rollout.reference_micro_batch_size": 8},
        ),
        (
            changed(
                GRPO,
                data__train_batch_size=16,
                **{ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": 98304},
            ),
            {"batch.max_tokens": 65536, "rollout.log_prob_length": 16384},
        ),
        (SFT, {"method.stage": "sft", "batch.micro_batch_size": 4, "batch.gradient_accumulation_steps": 4}),
        (changed(SFT, data__use_dynamic_bsz=True), {"batch.max_tokens": 8192}),
        (changed(SFT, model={"partial_pretrain": "some/model"}), {"loss.kind": "plain", "loss.in_logits_dtype": True}),
    ],
)
def test_what_keys_mean(value: dict[str, Any], fields: dict[str, Any]) -> None:
    found = read(value)
    assert {name: get(found, name) for name in fields} == fields


@pytest.mark.parametrize(("name", "length"), [("vllm", 2048), ("sglang", 2048), ("vllm_multiturn_search", UNKNOWN)])
def test_a_rollout_of_a_forks_own_writes_answers_of_its_own_length(name: str, length: object) -> None:
    assert read(changed(GRPO, actor_rollout_ref__rollout__name=name)).sequence.length == length


def test_a_pinned_trl_says_nothing_of_the_batches() -> None:
    """verl 0.4 requirements.txt has `trl<=0.9.6`, in whose GRPO a micro batch counts prompts."""
    pinned, free = read(GRPO, versions={"trl": (0, 9, 6)}), read(GRPO)
    assert sequences_per_sample(pinned) == sequences_per_sample(free) == 1


def test_references_are_followed_as_omegaconf_does() -> None:
    value = changed(
        GRPO,
        actor_rollout_ref__rollout__log_prob_micro_batch_size_per_gpu="${actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu}",
        actor_rollout_ref__ref__log_prob_micro_batch_size_per_gpu="${oc.select:nowhere.at_all,16}",
    )
    found = read(value)
    assert (found.rollout.log_prob_micro_batch_size, found.rollout.reference_micro_batch_size) == (2, 16)


def test_overrides_of_a_command_are_the_same_run() -> None:
    found = command(
        "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=some/model data.max_prompt_length=512 "
        "data.max_response_length=1536 +actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 "
        "actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8 trainer.nnodes=2 "
        "actor_rollout_ref.actor.optim.lr=1e-6"
    )
    assert found.batch == read(changed(GRPO, **{ACTOR + "ppo_mini_batch_size": 256})).batch
    assert found.optimizer.learning_rate == 1e-6


def test_a_models_folder_need_not_be_known() -> None:
    found = command("algorithm.adv_estimator=grpo actor_rollout_ref.model.path=${ROOT}/some/policy")
    assert found.model.architecture is not UNKNOWN
    assert command("algorithm.adv_estimator=grpo actor_rollout_ref.model.path=${MODEL}").model.architecture is UNKNOWN


@pytest.mark.parametrize(
    ("engine", "keys", "bytes_each"),
    [
        ("veomni", {}, 16),
        ("veomni", {ACTOR + "veomni__mixed_precision": False}, 8),
        ("automodel", {}, 16),
        ("fsdp_turbo", {}, 16),
    ],
)
def test_an_engine_over_fsdp2_has_a_lower_bound(engine: str, keys: dict[str, Any], bytes_each: int) -> None:
    """Weights, gradients and two moments, a sixteenth of them on each of 16 cards."""
    found = estimate(read(changed(GRPO, **{ACTOR + "strategy": engine}, **keys)))
    assert found.verdict == "unknown" and found.allocated_low_bytes is not None
    share = parameters(LLAMA) * bytes_each / 16
    assert share <= found.allocated_low_bytes <= 1.1 * share


@pytest.mark.parametrize(
    ("engine", "key"), [("veomni", "veomni__enable_fsdp_offload"), ("fsdp_turbo", "fsdp_config__offload_policy")]
)
def test_no_lower_bound_where_the_host_holds_all(engine: str, key: str) -> None:
    found = estimate(read(changed(GRPO, **{ACTOR + "strategy": engine, ACTOR + key: True})))
    assert found.allocated_low_bytes in (None, 0) and engine in found.unknown[0].reason


@pytest.mark.parametrize("grows", [True, False])
def test_segments_grow_where_the_command_says_so(grows: bool) -> None:
    said = f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{grows}\n"
    told = "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=some/model data.max_prompt_length=512"
    assert command(told, before=said).stack.expandable_segments is grows


@pytest.mark.parametrize(
    ("release", "mode", "unpadded"),
    [((0, 1), "none", False), ((0, 2), "full", False), ((0, 6, 1), "full", False), ((0, 7), "full", True)],
)
def test_defaults_are_those_of_the_release(release: tuple[int, ...], mode: str, unpadded: bool) -> None:
    found = read(GRPO, versions={"verl": release})
    assert (found.checkpointing.mode, found.sequence.unpadded) == (mode, unpadded)
    value = read(changed(GRPO, algorithm__adv_estimator="gae"), versions={"verl": release}).method.value_model
    assert value is not None
    assert value.checkpointed is (release >= (0, 2))


# What is said of the logits by release: divided in place, the answers' alone, joined into a copy.
PADDED = {
    (0, 3): (True, True, False),
    (0, 7, 1): (True, True, False),
    (0, 8): (True, False, True),
    (0, 9, 1): (False, False, True),
    (): (False, False, True),
}


@pytest.mark.parametrize(("release", "said"), PADDED.items())
def test_of_padded_sequences_older_releases_read_the_answers_logits_alone(
    release: tuple[int, ...], said: tuple[bool, ...]
) -> None:
    versions = {"verl": release} if release else {}
    value = changed(GRPO, actor_rollout_ref__model__use_remove_padding=False)
    value["actor_rollout_ref"]["rollout"] = {**ROLLOUT, "temperature": 0.7}
    found = read(value, versions=versions).loss
    assert (found.divides_in_place, found.scores_completions, found.joins_logits) == said
    assert found.scales_logits is not said[0]
    value["actor_rollout_ref"]["model"] = {**value["actor_rollout_ref"]["model"], "use_remove_padding": True}
    joined = read(value, versions=versions).loss
    assert (joined.divides_in_place, joined.scores_completions, joined.joins_logits) == (said[0], False, False)


def test_the_engine_can_take_the_actors_place_before_0_8() -> None:
    value = changed(GRPO, actor_rollout_ref__model__use_remove_padding=False)
    value["trainer"] = {**value["trainer"], "use_legacy_worker_impl": "disable"}
    found = read(value, versions={"verl": (0, 7)}).loss
    assert (found.scores_completions, found.joins_logits) == (False, True)


def test_padded_sequences_have_an_entropy_of_operators() -> None:
    value = changed(GRPO, actor_rollout_ref__model__use_remove_padding=False)
    value["actor_rollout_ref"]["actor"] = {
        **value["actor_rollout_ref"]["actor"],
        "entropy_coeff": 0.1,
        "entropy_from_logits_with_chunking": True,
    }
    found = read(value)
    assert (found.loss.entropy, found.rollout.log_prob_entropy) == ("whole", "whole")


@pytest.mark.parametrize(("release", "is_old"), [((0, 3), True), ((0, 4, 1), False), (None, False)])
def test_until_0_3_every_update_has_an_entropy_and_the_engine_wakes_as_a_whole(
    release: tuple[int, ...] | None, is_old: bool
) -> None:
    found = read(GRPO, versions={"verl": release} if release else {})
    assert found.rollout.wakes_at_once is is_old
    assert found.rollout.own_process is not is_old
    assert found.loss.entropy == ("whole" if is_old else "none")


@pytest.mark.parametrize(("release", "kind"), [((0, 3), UNKNOWN), ((0, 4), "lora"), (None, "lora")])
def test_before_0_4_a_rank_makes_no_adapter(release: tuple[int, ...] | None, kind: object) -> None:
    asked = changed(GRPO, actor_rollout_ref__model__lora_rank=8)
    assert read(asked, versions={"verl": release} if release else {}).method.kind == kind


def _over(own: dict[str, Any], **policy: dict[str, Any]) -> Run:
    """The run of overrides over a repository's own copy of the trainer's file."""
    base = document({"actor_rollout_ref": policy}, path="base.yaml")
    return run_of(verl.parse(document(own)._replace(start=Start("verl", "python")), _beside(base)))


def _beside(file: Document | None) -> Context:
    """The context of a command whose repository has this file of the trainer."""
    missing = MissingFile("missing", "no such file")
    return known()._replace(read=lambda name, path: file if file and name.endswith("ppo_trainer.yaml") else missing)


def test_a_copy_of_the_trainers_file_tells_its_release() -> None:
    def with_base(actor: dict[str, Any]) -> Run:
        return _over(GRPO, actor={"ppo_mini_batch_size": 256, **actor})

    assert with_base({}).rollout.wakes_at_once
    assert not with_base({"entropy_from_logits_with_chunking": False}).rollout.wakes_at_once


@pytest.mark.parametrize(
    ("versions", "level"),
    [
        ({"verl": (0, 2)}, 0),
        ({"verl": (0, 3)}, 1),
        ({"verl": (0, 4, 1)}, 1),
        ({"verl": (0, 4, 1), "vllm": (0, 6, 3)}, 0),
        ({"verl": (0, 5)}, 0),
        ({}, 0),
    ],
)
def test_verl_0_3_and_0_4_put_the_engine_to_sleep_whatever_the_key_says(
    versions: dict[str, tuple[int, ...]], level: int
) -> None:
    awake = changed(GRPO, actor_rollout_ref__rollout__free_cache_engine=False)
    assert read(awake, versions=versions).rollout.sleep_level == level


@pytest.mark.parametrize(("rollout", "level"), [({"use_fire_sampling": False}, 1), ({"agent": {}}, 0)])
def test_a_copy_of_the_trainers_file_tells_whether_the_engine_always_sleeps(
    rollout: dict[str, Any], level: int
) -> None:
    awake = changed(GRPO, actor_rollout_ref__rollout__free_cache_engine=False)
    assert _over(awake, rollout=rollout).rollout.sleep_level == level


@pytest.mark.parametrize(
    ("base", "is_written"),
    [
        ({"actor_rollout_ref": {"actor": {"strategy": "fsdp", "fsdp_config": {"offload_policy": False}}}}, True),
        ({"actor_rollout_ref": {"actor": {"strategy": "fsdp", "fsdp_config": {"param_offload": False}}}}, False),
        ({"defaults": ["dp_actor@actor_rollout_ref.actor", "_self_"], "trainer": {"nnodes": 1}}, True),
        (None, True),
    ],
)
def test_an_override_is_of_a_key_that_the_trainers_file_has(base: dict[str, Any] | None, is_written: bool) -> None:
    """Hydra 1.3: `Could not override ...: Key is not in struct`."""
    file = document(base, path="ppo_trainer.yaml") if base is not None else None
    parsed = verl.parse(document(GRPO)._replace(start=Start("verl", "python")), _beside(file))
    edits = verl.edits(parsed, run_of(parsed), {"parallelism.fsdp.cpu_offload": True})
    assert (edits is not None) is is_written


SFT_COMMAND = "data.train_batch_size=64 data.max_length=2048 model.path=some/model trainer.total_epochs=1 "


def test_a_choice_of_a_group_is_no_value() -> None:
    groups = "model=hf_model optim=megatron engine=megatron engine.tensor_model_parallel_size=2 "
    found = command(f"{groups} engine.context_parallel_size=2 {SFT_COMMAND}", "verl.trainer.sft_trainer")
    assert found.model.name == "some/model"
    assert (found.parallelism.engine, found.parallelism.tensor_parallel_size) == ("megatron", 2)
    assert found.parallelism.context_parallel_size == 2
    assert command(f"model_engine=megatron {RL_COMMAND}").parallelism.engine == "megatron"
    assert command(f"model_engine=dp {RL_COMMAND}").parallelism.engine == "fsdp"


RL_COMMAND = (
    "actor_rollout_ref.model.path=some/model algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 "
)


def test_null_and_lists_without_quotes_are_read_as_hydra_does() -> None:
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    wild = "algorithm.rollout_correction.rollout_is_threshold=null trainer.logger=[console,wandb] data.x=[0.9,1]"
    (found,) = documents("/repo/run.sh", f"python3 -m verl.trainer.main_ppo {RL_COMMAND} {wild}\n", repository)
    assert found.value["algorithm"]["rollout_correction"] == {"rollout_is_threshold": None}
    assert found.value["trainer"]["logger"] == ["console", "wandb"]
    assert found.value["data"]["x"] == [0.9, 1]
    assert codes(verl.parse(found, known())) == []


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("data.max_response_lenght=512", "max_response_length"),
        ("actor_rollout_ref.model.use_remove_paddng=True", "use_remove_padding"),
        ("+data.max_response_lenght=512", None),  # a new key
        ("data.our_own_bound=512", None),  # a fork's, perhaps
        ("our_section.max_response_lenght=512", None),
    ],
)
def test_an_override_that_misspells_a_key(override: str, meant: str | None) -> None:
    """Hydra 1.3: `Could not override ...: Key is not in struct`."""
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    text = f"python3 -m verl.trainer.main_ppo {RL_COMMAND} {override}\n"
    (found,) = documents("/repo/run.sh", text, repository)
    issues = verl.parse(found, known()).issues
    assert [one.suggestion for one in issues] == ([meant] if meant else [])


def test_a_misspelled_override_is_renamed_below_its_section() -> None:
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    text = f"python3 -m verl.trainer.main_ppo {RL_COMMAND} data.max_response_lenght=512\n"
    (found,) = documents("/repo/run.sh", text, repository)
    edit = Edit(found.path, ("data", "max_response_lenght"), "rename", "max_response_length")
    assert apply(text, patches(found, [edit])) == text.replace("lenght", "length")


def test_what_a_fork_adds_to_the_trainers_file_is_no_slip() -> None:
    file = document({"data": {"train_batch_sizes": 512}}, path="ppo_trainer.yaml")
    value = changed(GRPO, data__train_batch_sizes=512)
    start = Start("verl", "python")
    start = start._replace(program=start.program._replace(entry="verl.trainer.main_ppo"))
    assert codes(verl.parse(document(value)._replace(start=start), _beside(file))) == []
    assert codes(verl.parse(document(value)._replace(start=start), _beside(None))) == ["unknown-key"]


HOST = "override_optimizer_config.optimizer_cpu_offload"


def test_of_layers_that_megatron_recomputes_together_one_input_is_kept() -> None:
    actor = "actor_rollout_ref.actor"
    transformer = f"+{actor}.megatron.override_transformer_config.recompute"
    pairs = f"{transformer}_granularity=full {transformer}_method={{}} {transformer}_num_layers=2"
    for method, every in (("uniform", 2), ("block", 1)):
        found = command(f"{RL_COMMAND} {actor}.strategy=megatron {pairs.format(method)}")
        assert found.checkpointing.every == every


def test_megatrons_optimizer_steps_on_the_host() -> None:
    actor = "actor_rollout_ref.actor"
    on_host = command(f"{RL_COMMAND} {actor}.strategy=megatron +{actor}.optim.{HOST}=true")
    assert (on_host.offload.optimizer, on_host.offload.optimizer_ratio) == ("cpu", 0)
    whole = "override_optimizer_config.optimizer_offload_fraction=1"
    sft = command(f"engine=megatron engine.x=1 optim.{HOST}=true optim.{whole} {SFT_COMMAND}", "verl.sft_trainer")
    assert (sft.offload.optimizer, sft.offload.optimizer_ratio) == ("cpu", 1)
    assert command(f"{RL_COMMAND} +{actor}.optim.{HOST}=true").offload.optimizer == "none"


def test_ppo_trains_a_critic_beside_the_policy() -> None:
    gae = changed(GRPO, algorithm__adv_estimator="gae", critic={"ppo_micro_batch_size_per_gpu": 1})
    critic = replace(read(changed(gae, critic__model={"path": "some/critic"})), {}).method.value_model
    assert critic is not None
    assert (critic.micro_batch_size, critic.model.architecture, critic.model.weights_dtype) == (1, LLAMA, "float32")
    found = estimate(read(gae))
    assert [one.field for one in found.unknown] == ["method.value_model"]


def test_a_file_of_defaults_is_no_run() -> None:
    template = changed(GRPO, **{ACTOR + "ppo_micro_batch_size_per_gpu": None})
    assert verl.parse(document(template), known()).runs == ()
    assert verl.parse(document(changed(GRPO, trainer__val_only=True)), known()).runs == ()


def test_the_phases_of_a_step_are_there() -> None:
    phases = [one.name for one in estimate(read(GRPO)).phases]
    assert {"log_probabilities", "reference", "rollout", "weight_sync", "backward"} <= set(phases)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 32},
        {"rollout.log_prob_micro_batch_size": 1, "rollout.reference_micro_batch_size": 2},
        {"rollout.share": 0.3},
        {"rollout.sleep_level": 0},
        {"rollout.offloads_optimizer": True},
        {"rollout.tensor_parallel_size": 4},
        {"loss.kind": "chunked"},
        {"sequence.max_new_tokens": 1024, "sequence.length": 1536},
        {"offload.activations": "cpu"},
        {"optimizer.name": "adamw_8bit"},
        {"optimizer.name": "adamw_torch_8bit"},
        {"method.kind": "lora", "method.rank": 16, "method.reference_model": "shared"},
    ],
)
def test_what_is_written_is_read_back(changes: dict[str, Any]) -> None:
    parsed = verl.parse(document(GRPO), known())
    edits = verl.edits(parsed, run_of(parsed), changes)
    assert edits
    after = read(applied(GRPO, edits, "train.json"))
    assert {field: get(after, field) for field in changes} == changes


@pytest.mark.parametrize(("release", "is_written"), [((0, 6), False), ((0, 6, 1), True), ((0, 9, 1), True)])
def test_an_optimizer_is_named_by_its_module_where_the_release_reads_that(
    release: tuple[int, ...], is_written: bool
) -> None:
    parsed = verl.parse(document(GRPO), known()._replace(versions={"verl": release}))
    edits = verl.edits(parsed, run_of(parsed), {"optimizer.name": "adamw_8bit"})
    assert (edits is not None) == is_written


def test_megatron_makes_its_optimizer_by_itself() -> None:
    assert command(f"{RL_COMMAND} actor_rollout_ref.actor.strategy=megatron").planning.fixed_optimizer


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_planned_adapter_has_the_dtype_that_its_file_gives_it(dtype: str) -> None:
    changes = {"method.kind": "lora", "method.rank": 16, "method.reference_model": "shared"}
    file = changed(GRPO, actor_rollout_ref__actor__fsdp_config__model_dtype=dtype)
    parsed = verl.parse(document(file), known())
    before = run_of(parsed)
    after = read(applied(file, verl.edits(parsed, before, changes) or (), "train.json"))
    planned = consistent(replace(before, changes), before)
    assert after.method.kind == "lora" and planned.method.adapter_dtype == after.method.adapter_dtype
    assert planned.model.weights_dtype == after.model.weights_dtype


def test_offloading_while_it_trains_is_fsdp_2s() -> None:
    parsed = verl.parse(document(GRPO), known())
    after = read(
        applied(GRPO, verl.edits(parsed, run_of(parsed), {"parallelism.fsdp.cpu_offload": True}), "train.json")
    )

    assert run_of(parsed).parallelism.fsdp.version == 1
    assert after.parallelism.fsdp.version == 2
    assert after.parallelism.fsdp.cpu_offload


@pytest.mark.parametrize("dynamic", [False, True])
def test_gpus_that_share_a_sequence_have_its_tokens_together(dynamic: bool) -> None:
    bounds = {ACTOR + "use_dynamic_bsz": dynamic, ACTOR + "ppo_max_token_len_per_gpu": 16384}
    before = changed(GRPO, **bounds)
    parsed = verl.parse(document(before), known())
    changes = {"parallelism.sequence_parallel_size": 4, "parallelism.data_parallel_size": 4}
    after = read(applied(before, verl.edits(parsed, run_of(parsed), changes), "train.json"))
    assert {field: get(after, field) for field in changes} == changes
    assert after.batch.max_tokens == run_of(parsed).batch.max_tokens


def test_a_critic_has_the_same_engine_and_its_own_batch() -> None:
    gae = changed(
        GRPO, algorithm__adv_estimator="gae", critic__model__path="a/b", critic__ppo_micro_batch_size_per_gpu=8
    )
    parsed = verl.parse(document(gae), known())
    offloaded = applied(gae, verl.edits(parsed, run_of(parsed), {"parallelism.fsdp.cpu_offload": True}), "train.json")
    assert offloaded["critic"]["strategy"] == offloaded["actor_rollout_ref"]["actor"]["strategy"] == "fsdp2"
    assert offloaded["critic"]["fsdp"]["offload_policy"] is True
    smaller = {"method.value_model.micro_batch_size": 2, "method.value_model.offloads_optimizer": True}
    after = read(applied(gae, verl.edits(parsed, run_of(parsed), smaller), "train.json"))
    assert {field: get(after, field) for field in smaller} == smaller


def test_the_older_sft_trainer_wants_two_switches_to_offload() -> None:
    older = changed(SFT, model__partial_pretrain="some/model", model__path=None)
    del older["model"]["path"]
    one = changed(older, model__fsdp_config__cpu_offload=True)
    assert not read(one).parallelism.fsdp.cpu_offload
    parsed = verl.parse(document(older), known())
    after = read(
        applied(older, verl.edits(parsed, run_of(parsed), {"parallelism.fsdp.cpu_offload": True}), "train.json")
    )
    assert after.parallelism.fsdp.cpu_offload and after.parallelism.fsdp.version == 1


@pytest.mark.parametrize(("gpus", "size"), [(8, 2), (64, 1), (None, UNKNOWN)])
def test_the_first_sft_trainers_micro_batch_is_that_of_all_gpus(gpus: int | None, size: Any) -> None:
    older = changed(SFT, model__partial_pretrain="some/model", data__micro_batch_size=16)
    del older["model"]["path"]
    older["data"].pop("micro_batch_size_per_gpu", None)
    for name in ("n_gpus_per_node", "nnodes"):
        older.get("trainer", {}).pop(name, None)
    context = known() if gpus is None else known(gpus=gpus)
    assert run_of(verl.parse(document(older), context)).batch.micro_batch_size == size


def test_what_is_not_known_of_the_gpus_is_asked_of_what_starts_the_trainer() -> None:
    """torchrun starts SFT, verl's own trainer starts its workers."""
    alone = {**SFT, "trainer": {}}
    assert "torchrun's `--nproc_per_node`" in read(alone).origins["parallelism.world_size"].detail
    unsaid = changed(GRPO, trainer__n_gpus_per_node="${GPUS}")
    assert "`trainer.n_gpus_per_node`" in read(unsaid).origins["parallelism.world_size"].detail


TIED = LLAMA._replace(tied_embeddings=True)


def test_fused_kernels_are_for_a_head_that_nothing_follows() -> None:
    assert read(GRPO).planning.fuses_log_probabilities
    capped = LLAMA._replace(logits_softcap=True)
    found = context()._replace(find_model=lambda name, path: Resolution(name, "catalog", capped))
    assert not run_of(verl.parse(document(GRPO), found)).planning.fuses_log_probabilities


def test_fused_kernels_do_not_read_a_head_that_fsdp_2_divides() -> None:
    """verl 0.9.1 wraps an untied head as a unit of its own, and fused kernels read its weight without calling it."""
    fused, offloaded = {"loss.kind": "chunked"}, {"parallelism.fsdp.cpu_offload": True, "parallelism.fsdp.version": 2}
    newer = changed(GRPO, **{ACTOR + "strategy": "fsdp2"})
    parsed, parsed_newer = (verl.parse(document(one), known()) for one in (GRPO, newer))
    assert verl.edits(parsed, run_of(parsed), fused) is not None
    assert verl.edits(parsed, run_of(parsed), {**fused, **offloaded}) is None
    assert verl.edits(parsed_newer, run_of(parsed_newer), fused) is None
    tied = context()._replace(find_model=lambda name, path: Resolution(name, "catalog", TIED))
    parsed_tied = verl.parse(document(newer), tied)
    assert verl.edits(parsed_tied, run_of(parsed_tied), fused) is not None


def test_a_bound_on_tokens_is_written_for_one_gpu() -> None:
    dynamic = changed(GRPO, **{ACTOR + "use_dynamic_bsz": True, ACTOR + "ulysses_sequence_parallel_size": 2})
    parsed = verl.parse(document(dynamic), known())
    edits = verl.edits(parsed, run_of(parsed), {"batch.max_tokens": 16384, "batch.micro_batch_size": 8})
    assert read(applied(dynamic, edits, "train.json")).batch.max_tokens == 16384


@pytest.mark.parametrize(("value", "found"), [(0, []), (1, []), (2, ["wrong-type"]), ("never", ["wrong-type"])])
def test_a_number_that_python_takes_for_a_truth_value(value: Any, found: list[str]) -> None:
    assert codes(verl.parse(document(changed(GRPO, trainer__val_before_train=value)), known())) == found


@pytest.mark.parametrize(("word", "in_copy"), [("dp", []), ("fdsp", ["bad-value"])])
def test_a_copy_of_verl_may_take_words_of_its_own(word: str, in_copy: list[str]) -> None:
    value = document(changed(GRPO, **{ACTOR + "strategy": word}))
    copy = in_memory({"/verl/trainer/main_ppo.py": "def main(config):\n    pass\n"})
    repository = in_memory({"/other.py": "def main():\n    pass\n"})
    assert codes(verl.parse(value, repository.context()), "error") == ["bad-value"]
    assert codes(verl.parse(value, copy.context()), "error") == in_copy


@pytest.mark.parametrize(("value", "got"), [("ture", "the string 'ture'"), (2, "2")])
def test_what_is_no_truth_value_where_one_is_asked_is_a_warning(value: object, got: str) -> None:
    parsed = verl.parse(document(changed(GRPO, trainer__val_before_train=value)), known())
    (issue,) = parsed.issues
    assert issue.severity == "warning" and issue.message.endswith(f"{got}, which Python takes for true")


@pytest.mark.parametrize(("release", "degree"), [((0, 7), 1), ((0, 8), 4), ((0, 9), 4)])
def test_the_degree_below_the_engine_is_read_since_its_workers_are(release: tuple[int, int], degree: int) -> None:
    """verl 0.7.0 workers/fsdp_workers.py:171 reads the key below the actor."""
    context = known()._replace(versions={"verl": release})
    one = run_of(verl.parse(document(changed(GRPO, **{ENGINE_DEGREE: 4})), context))
    assert one.parallelism.sequence_parallel_size == degree


def test_a_slip_and_a_wrong_type_are_reported() -> None:
    assert codes(verl.parse(document(changed(GRPO, trainer__nnodes="two")), known())) == ["wrong-type"]
    assert codes(verl.parse(document(GRPO), known())) == []


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("code/verl/trainer/config/sft_trainer.yaml", 0),
        ("verl/trainer/config/own.yaml", 1),
        ("config/ppo_trainer.yaml", 1),
    ],
)
def test_the_defaults_in_a_copy_of_verl_are_no_run(path: str, runs: int) -> None:
    """They have batch sizes before 0.4 and for supervised fine-tuning, and commands override them."""
    assert len(verl.parse(document(GRPO, path), context()).runs) == runs


def test_a_length_that_is_null_is_not_verls_default() -> None:
    run = run_of(verl.parse(document(changed(GRPO, data__max_response_length=None)), known()))
    assert run.sequence.length is UNKNOWN
    assert run.origins["sequence.length"].detail == "`data.max_response_length` is null"


def test_a_file_lies_over_the_one_that_its_defaults_name() -> None:
    own = {"defaults": ["_self_", "base"], "actor_rollout_ref": {"actor": {"ppo_micro_batch_size_per_gpu": 3}}}
    context = known(files={"./base.yaml": changed(GRPO, data__max_response_length=100)})
    run = run_of(verl.parse(document(own), context))
    assert (run.sequence.length, run.batch.micro_batch_size) == (612, 3)


@pytest.mark.parametrize(("section", "silent"), [("server", True), ("env", False)])
def test_of_another_program_nothing_is_said_that_verls_checks_refuse(section: str, silent: bool) -> None:
    file = document({**GRPO, section: {"port": 8000}})
    assert verl.skips_rule("VER002", file, known()) is silent
    assert verl.skips_rule("ROL004", file, known()) is silent
    assert not verl.skips_rule("MEM001", file, known())


@settings(max_examples=40, deadline=None)
@given(value=st.dictionaries(st.sampled_from(["actor_rollout_ref", "data", "critic", "algorithm"]), ANYTHING))
def test_no_value_makes_parsing_raise(value: Any) -> None:
    verl.parse(document(value), known())


def test_a_file_with_references_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{json.dumps(changed(GRPO, actor_rollout_ref__rollout__prompt_length='${data.max_prompt_length}'))}\n"
    (tmp_path / "ppo.yaml").write_text(text.replace("some/model", "Qwen/Qwen2.5-7B"), encoding="utf-8")
    main(["estimate", str(tmp_path / "ppo.yaml"), "--gpu", "A100-80GB"])
    said = capsys.readouterr().out
    assert "rollout" in said
    assert "SRC006" not in said


@pytest.mark.parametrize(
    ("loss", "model", "divergence", "is_bound"),
    [
        ({}, {}, "", False),  # k3
        ({"loss_mode": "k1", "use_policy_gradient": True}, {}, "", False),
        ({"loss_mode": "forward_kl_topk", "use_task_rewards": False}, {}, "likeliest", False),
        ({"loss_mode": "forward_kl_topk", "use_task_rewards": True}, {}, "", True),
        ({"loss_mode": "forward_kl_topk", "use_task_rewards": False, "use_chunked_topk": True}, {}, "", True),
        ({"loss_mode": "forward_kl_topk", "use_task_rewards": False}, {"use_fused_kernels": True}, "", True),
        ({"loss_mode": "somebodys"}, {}, "", True),
    ],
)
def test_a_teacher_on_gpus_of_its_own_changes_the_update_alone(
    loss: dict[str, Any], model: dict[str, Any], divergence: str, is_bound: bool
) -> None:
    role = {**GRPO["actor_rollout_ref"], "model": {**GRPO["actor_rollout_ref"]["model"], **model}}
    taught = {**GRPO, "actor_rollout_ref": role, "distillation": {"enabled": True, "distillation_loss": loss}}
    run = read(taught)

    assert run.loss.divergence == divergence
    assert bool(run.stack.unmodelled) == is_bound


LOOP = "class Loop(AgentLoopBase):\n    def run(self, config):\n        return config.actor_rollout_ref.rollout.%s\n"


@pytest.mark.parametrize(("bound", "silent"), [("max_model_len", True), ("response_length", False)])
def test_an_agent_loop_may_fill_the_engines_context(bound: str, silent: bool) -> None:
    files = {"run.yaml": "a: 1", "agents/loop.py": LOOP % bound}
    workspace = in_memory(files)
    assert verl.skips_rule("ROL004", workspace.documents("run.yaml")[0], workspace.context()) is silent


@pytest.mark.parametrize("enabled", [False, True])
def test_fake_quantised_weights_are_a_bound(enabled: bool) -> None:
    run = read(changed(GRPO, actor_rollout_ref__actor__fsdp_config__qat__enable=enabled))
    assert (bool(run.stack.unmodelled), run.stack.unmodelled_adds) == (enabled, enabled)


def test_prime_trains_a_model_that_its_own_file_switches_on() -> None:
    """verl-recipe prime/config/prime_trainer.yaml: `reward_model.enable: True`, which no command says."""
    run = read(changed(GRPO, reward_model__model__update="before"))
    assert run.stack.unmodelled_adds and "reward model" in run.stack.unmodelled
    assert not read(GRPO).stack.unmodelled


OVERRIDES = "data.micro_batch_size_per_gpu=1 trainer.nnodes=1"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ("--config-path configs/sft --config-name own.yaml", "/configs/sft/own.yaml"),
        ("--config-path=../configs --config-name=own", "/verl/configs/own.yaml"),
        ('--config-path="$PWD/configs" -cn own', "/configs/own.yaml"),
        ("--config-name own", "/verl/trainer/config/own.yaml"),
        ("--config-dir configs --config-name own", "/configs/own.yaml"),
    ],
)
def test_overrides_lie_over_the_file_that_the_command_names(options: str, place: str) -> None:
    """Each of Hydra's options takes one word: what comes after it are overrides."""
    own = "data: {micro_batch_size_per_gpu: 8, max_length: 12000, train_batch_size: 16}\n"
    own += "model: {partial_pretrain: Qwen/Qwen3-4B}\ntrainer: {n_gpus_per_node: 8}\n"
    script = f"torchrun --nproc_per_node=4 -m verl.trainer.fsdp_sft_trainer {options} {OVERRIDES}\n"
    workspace = in_memory({"/run.sh": script, place: own})
    (found,) = workspace.documents("run.sh")
    run = run_of(verl.parse(found, workspace.context()))
    assert (run.model.name, run.batch.micro_batch_size, run.sequence.length) == ("Qwen/Qwen3-4B", 1, 12000)
    assert [path.lstrip("/") for path in run.related] == [place.lstrip("/")]


def test_a_named_file_lies_over_the_trainers_that_a_searchpath_finds() -> None:
    own = "hydra: {searchpath: ['file://verl/trainer/config']}\ndefaults: [ppo_trainer, _self_]\n"
    own += "data: {max_prompt_length: 1024}\nactor_rollout_ref: {actor: {ppo_micro_batch_size_per_gpu: 3}}\n"
    theirs = json.dumps(changed(GRPO, data__max_prompt_length=100))
    script = "python3 -m verl.trainer.main_ppo --config-path=$PWD/examples/config --config-name='multiturn' a.b=1\n"
    files = {"/examples/config/multiturn.yaml": own, "/verl/trainer/config/ppo_trainer.yaml": theirs}
    workspace = in_memory({"/run.sh": script, **files})
    (found,) = workspace.documents("run.sh")
    run = run_of(verl.parse(found, workspace.context()))
    assert (run.batch.micro_batch_size, run.sequence.length) == (3, 1024 + 1536)


@pytest.mark.parametrize(("name", "is_known"), [("my_agent", False), ("ppo_megatron_trainer", True)])
def test_what_a_file_that_is_not_there_says_is_not_known(name: str, is_known: bool) -> None:
    """verl's own names stand for its defaults."""
    run = command(f"--config-name={name} actor_rollout_ref.model.path=some/model")
    assert (run.sequence.length is not UNKNOWN) is is_known
    assert is_known or "`my_agent`, a file that is not in the repository" in run.origins["sequence.length"].detail


@pytest.mark.parametrize(
    ("keys", "release", "trains"),
    [
        ({}, (), True),
        ({ACTOR + "freeze_vision_tower": True}, (0, 5), False),
        ({ACTOR + "freeze_vision_tower": True}, (), False),
        ({ACTOR + "freeze_vision_tower": True}, (0, 9, 1), True),
        ({"actor_rollout_ref__model__lora_rank": 8}, (), True),
        (
            {"actor_rollout_ref__model__lora_rank": 8, "actor_rollout_ref__model__exclude_modules": ".*visual.*"},
            *((), False),
        ),
    ],
)
def test_a_tower_trains_unless_it_is_left_out(keys: dict[str, Any], release: tuple[int, ...], trains: bool) -> None:
    sees = in_memory({}).context().find_model("Qwen/Qwen2.5-VL-7B-Instruct", "/")
    around = known(versions={"verl": release} if release else {})._replace(find_model=lambda name, path: sees)
    run = run_of(verl.parse(document(changed(GRPO, **keys)), around))
    assert run.method.freeze_vision_tower is not trains
    assert run.method.freeze_multi_modal_projector is not trains


def test_the_sft_trainer_trains_a_tower() -> None:
    sees = in_memory({}).context().find_model("Qwen/Qwen2.5-VL-7B-Instruct", "/")
    run = run_of(verl.parse(document(SFT), known()._replace(find_model=lambda name, path: sees)))
    assert not run.method.freeze_vision_tower


@pytest.mark.parametrize(
    ("key", "value", "alone"),
    [
        ("multi_turn.enable", False, True),
        ("multi_turn.enable", True, False),
        ("agent.default_agent_loop", "tool_agent", False),
        ("agent.agent_loop_config_path", "loops.yaml", False),
    ],
)
def test_images_stand_in_prompts_unless_tools_may_answer_with_some(key: str, value: Any, alone: bool) -> None:
    section, name = key.split(".")
    file = json.loads(json.dumps(GRPO))
    file["actor_rollout_ref"]["rollout"][section] = {name: value}
    assert get(run_of(verl.parse(document(file), known())), "sequence.images_in_prompts") is alone


@pytest.mark.parametrize(("gpus", "tokens"), [(1, 163840), (8, 32 * 1024), (None, UNKNOWN)])
def test_a_dynamic_batch_of_sft_has_no_more_than_a_gpus_part_of_the_samples(gpus: int | None, tokens: Any) -> None:
    """verl 0.9.1 trainer/sft_trainer.py:241: train_batch_size_per_dp = global_batch_size // dp_size."""
    sizes = {"train_batch_size": 256, "max_length": 1024, "max_token_len_per_gpu": 163840, "use_dynamic_bsz": True}
    config = {**SFT, "data": {**SFT["data"], **sizes}, "trainer": {}}
    run = run_of(verl.parse(document(config), known() if gpus is None else known(gpus=gpus)))
    assert (run.batch.max_tokens if gpus else run.batch.micro_batch_size) == tokens


def test_nothing_is_said_of_a_command_in_verls_own_defaults() -> None:
    """A value that stands in the package alone has no place of the repository's own: the command has one."""
    theirs = json.dumps(changed(GRPO, actor_rollout_ref__actor__ppo_micro_batch_size_per_gpu=3))
    script = "python3 -m verl.trainer.main_ppo data.max_prompt_length=1024 actor_rollout_ref.rollout.n=5\n"
    workspace = in_memory({"/run.sh": script, "/verl/trainer/config/ppo_trainer.yaml": theirs})
    (found,) = workspace.documents("run.sh")
    run = run_of(verl.parse(found, workspace.context()))
    assert run.batch.micro_batch_size == 3
    assert run.origins["batch.micro_batch_size"].kind == "default"
