"""torchtune's files and commands: recognition, what each key means (0.2 to 0.6.1 and main), findings, edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.fixes.moves.catalog import steps
from memlint.formats import recognise
from memlint.formats.base import RepositoryFacts
from memlint.formats.torchtune import families
from memlint.formats.torchtune import format as torchtune
from memlint.memory.estimate import estimate
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config(TINY)
CHUNKED, LINEAR = "CEWithChunkedOutputLoss", "LinearCrossEntropyLoss"


def component(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_component_": name, **arguments}


FULL: dict[str, Any] = {
    "model": component("torchtune.models.llama3_1.llama3_1_8b"),
    "tokenizer": component("torchtune.models.llama3.llama3_tokenizer", max_seq_len=1024),
    "checkpointer": component("torchtune.training.FullModelHFCheckpointer"),
    "dataset": component("torchtune.datasets.alpaca_dataset", packed=False),
    "optimizer": component("torch.optim.AdamW", fused=True, lr=2e-5),
    "loss": component(f"torchtune.modules.loss.{CHUNKED}"),
    "batch_size": 4,
    "gradient_accumulation_steps": 2,
    "optimizer_in_bwd": False,
    "clip_grad_norm": None,
    "compile": False,
    "dtype": "bf16",
    "enable_activation_checkpointing": True,
    "enable_activation_offloading": False,
    "fsdp_cpu_offload": False,
}
ADAPTER = {
    "lora_attn_modules": ["q_proj", "v_proj", "output_proj"],
    "apply_lora_to_mlp": True,
    "apply_lora_to_output": False,
    "lora_rank": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
}


def changed(*pairs: tuple[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The file with dotted keys set, and without some."""
    found: dict[str, Any] = {key: value for key, value in json.loads(json.dumps(FULL)).items() if key not in without}
    for name, new in pairs:
        *above, last = name.split(".")
        inner = found
        for step in above:
            inner = inner.setdefault(step, {})
        inner[last] = new
    return found


SINGLE = {key: value for key, value in FULL.items() if key != "fsdp_cpu_offload"}
LORA = changed(("model", component("torchtune.models.llama3_1.lora_llama3_1_8b", **ADAPTER)))
QLORA = changed(("model", component("torchtune.models.llama3_1.qlora_llama3_1_8b", **ADAPTER)))


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def parsed(value: Any, path: str = "train.json", **fields: Any) -> Any:
    return torchtune.parse(document(value, path), known(**fields))


def read(value: Any, path: str = "train.json", **fields: Any) -> Run:
    return run_of(parsed(value, path, **fields))


# -- recognition ----------------------------------------------------------------------------


def test_a_file_is_recognised_by_its_components() -> None:
    found = recognise(document(FULL))
    assert found is not None and found[0].NAME == "torchtune" and found[1].confidence == "certain"


@pytest.mark.parametrize("value", [{"model": {"_component_": 3}}, {"model": "x"}, {}, [], {"optimizer": {"lr": 1}}])
def test_other_files_are_not(value: Any) -> None:
    found = recognise(document(value))
    assert found is None or found[0].NAME != "torchtune"


def test_a_file_that_generates_is_no_run() -> None:
    generation = {name: FULL[name] for name in ("model", "tokenizer", "checkpointer", "dtype")}
    assert parsed(generation).runs == ()


def test_a_file_for_the_cpu_is_no_run() -> None:
    assert parsed({**FULL, "device": "cpu"}).runs == ()


@settings(max_examples=60, deadline=None)
@given(ANYTHING)
def test_no_value_raises(value: Any) -> None:
    parsed(value)
    for key in ("model", "dataset", "optimizer", "tokenizer", "compile", "batch_size", "loss"):
        parsed({**FULL, key: value})


# -- the recipe -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "keys", "engine", "world"),
    [
        ("8B_full_single_device.yaml", SINGLE, "single", 1),
        ("8B_full.yaml", FULL, "fsdp", UNKNOWN),  # by `fsdp_cpu_offload`
        ("full_distributed.yaml", SINGLE, "fsdp", UNKNOWN),
        ("mine.yaml", SINGLE, "fsdp", UNKNOWN),
    ],
)
def test_the_name_or_a_key_says_whether_the_recipe_is_for_several_gpus(
    path: str, keys: Any, engine: str, world: Any
) -> None:
    run = read(json.dumps(keys), path)
    assert (run.parallelism.engine, run.parallelism.world_size) == (engine, world)


def test_comments_say_recipe_and_gpus() -> None:
    command = "#   tune run --nnodes 1 --nproc_per_node 4 full_finetune_distributed --config llama3_1/8B_full\n"
    run = read(command + json.dumps(SINGLE), "mine.yaml")
    assert run.parallelism.engine == "fsdp" and run.parallelism.world_size == 4
    assert run.origins["parallelism.world_size"].kind == "inferred"
    assert read(command + json.dumps(SINGLE), "mine.yaml", gpus=2).parallelism.world_size == 2
    alone = "# tune run full_finetune_single_device --config llama3_1/8B_full_single_device\n"
    assert read(alone + json.dumps(SINGLE), "mine.yaml", gpus=2).parallelism.world_size == 1


def test_one_gpu_needs_no_sharding_where_nobody_says_the_recipe() -> None:
    assert read(SINGLE, gpus=1).parallelism.engine == "single"
    assert read(FULL, gpus=8).parallelism.fsdp[:3] == (2, "FULL_SHARD", True)


@pytest.mark.parametrize(
    ("extra", "stage"),
    [
        ({"loss": component("torchtune.rlhf.loss.DPOLoss")}, "dpo"),
        ({"teacher_model": component("torchtune.models.llama3_1.llama3_1_8b")}, "kd"),
        ({"quantizer": component("torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer")}, "qat"),
        ({"ppo_epochs": 2}, "ppo"),
    ],
)
def test_sections_say_what_trains(extra: dict[str, Any], stage: str) -> None:
    run = read({**SINGLE, **extra}, gpus=1)
    assert run.method.stage == (stage if stage in ("dpo", "ppo") else "sft")
    assert bool(run.stack.unmodelled) == (stage != "dpo")


def test_a_preference_loss_has_a_reference() -> None:
    loss = component("torchtune.rlhf.loss.DPOLoss")
    assert read({**LORA, "loss": loss}, gpus=2).method.reference_model == "shared"
    assert read({**FULL, "loss": loss}, gpus=2).method.reference_model == "copy"
    assert read({**FULL, "loss": loss}, gpus=2).loss.keeps_logits


# -- the model ------------------------------------------------------------------------------


def test_the_builder_says_the_model() -> None:
    run = read(FULL, gpus=1)
    assert run.model.name == "meta-llama/Llama-3.1-8B-Instruct"
    assert run.model.architecture.max_positions == 131072
    assert {kind.class_name for kind in run.model.architecture.layer_types} == {"TransformerSelfAttentionLayerInFp32"}


@pytest.mark.parametrize(
    ("builder", "release", "layers"),
    [
        ("llama3_1.llama3_1_8b", (0, 6, 1), "TransformerSelfAttentionLayerInFp32"),
        ("llama3_1.llama3_1_8b", (0, 4), "TransformerSelfAttentionLayer"),
        ("llama3_1.llama3_1_8b", (0, 7), "TransformerSelfAttentionLayer"),
        ("llama3_1.llama3_1_8b", (0, 2), "TransformerSelfAttentionLayerCopy"),
        ("qwen2.qwen2_7b", (0, 5), "TransformerSelfAttentionLayerInFp32Copy"),
        ("qwen2.qwen2_7b", (0, 6), "TransformerSelfAttentionLayerInFp32"),
    ],
)
def test_layers_are_those_of_the_release(builder: str, release: tuple[int, ...], layers: str) -> None:
    found = families.built(f"torchtune.models.{builder}", {}, release, known(), "")
    assert found is not None and found.layer_types[0].class_name == layers


def test_a_builder_with_sizes_makes_a_model_of_them() -> None:
    sizes = {"vocab_size": 32000, "num_layers": 2, "num_heads": 8, "num_kv_heads": 4, "embed_dim": 512}
    run = read({**SINGLE, "model": component("torchtune.models.llama2.llama2", **sizes, max_seq_len=2048)}, gpus=1)
    assert run.model.architecture.layer_types[0].mlp.intermediate_size == 1536
    assert len(run.model.architecture.layer_type_ids) == 2
    part = {**sizes, "embed_dim": "${width}"}
    assert read({**SINGLE, "model": component("torchtune.models.llama2.llama2", **part)}).model.name is UNKNOWN


def test_other_models_are_unknown_with_the_reason() -> None:
    own = read({**SINGLE, "model": component("mine.models.big")}, gpus=1)
    assert own.model.architecture is UNKNOWN and "--model" in own.origins["model.architecture"].detail
    assert read({**SINGLE, "model": component("mine.models.big")}, model_name="x", gpus=1).model.name == "x"
    seeing = read({**SINGLE, "model": component("torchtune.models.llama3_2_vision.llama3_2_vision_11b")}, gpus=1)
    assert "image encoder" in seeing.origins["model.architecture"].detail


def test_adapters_have_the_dtype_of_the_model() -> None:
    run = read(LORA, gpus=2)
    assert (run.method.kind, run.method.rank, run.method.alpha, run.method.dropout) == ("lora", 16, 32, 0.05)
    assert run.method.targets == ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert run.method.adapter_dtype == "bfloat16" and run.model.quantization.method == "none"


def test_a_head_may_have_an_adapter() -> None:
    model = {**LORA["model"], "apply_lora_to_output": True}
    assert "lm_head" in read({**LORA, "model": model}, gpus=2).method.targets


def test_qlora_packs_the_layers_alone() -> None:
    run = read(QLORA, gpus=1)
    assert run.model.quantization[:4] == ("torchao", 4, "nf4", True)
    by_key = read({**LORA, "model": {**LORA["model"], "quantize_base": True}}, gpus=1)
    assert by_key.model.quantization == run.model.quantization
    whole, packed = (estimate(one).phases[0].components["weights"] for one in (read(LORA, gpus=1), run))
    assert packed < whole


# -- precision, sequence, recomputation ------------------------------------------------------


def test_everything_has_the_dtype_of_the_file() -> None:
    run = read({**FULL, "dtype": "fp32"}, gpus=2)
    assert run.model.weights_dtype == run.precision.trainable_dtype == run.precision.compute == "float32"
    assert run.precision.autocast is False


def test_sequences_are_cut_at_the_tokenizers_number() -> None:
    run = read(FULL)
    assert run.sequence.length == 1024 and run.sequence.length_is_bound
    assert run.attention.implementation == "sdpa"
    unset = read(changed(("tokenizer.max_seq_len", None)), gpus=1)
    assert unset.sequence.length is UNKNOWN and "longest of the data" in unset.origins["sequence.length"].detail


def test_packed_sequences_are_full() -> None:
    run = read(changed(("dataset.packed", True)))
    assert run.sequence.packing and not run.sequence.length_is_bound
    assert run.attention.implementation == "flex_attention"
    several = {**FULL, "dataset": [component("a.b"), component("c.d", packed=True)]}
    assert read(several).sequence.packing is True


def test_layers_are_recomputed_whole_or_each_nth() -> None:
    assert read(FULL, gpus=2).checkpointing[:3] == ("full", False, False)
    off = changed(("enable_activation_checkpointing", False))
    assert read(off, gpus=2).checkpointing.mode == "none"
    nth = {**off, "ac_mode": "selective", "ac_option": 2}
    assert (read(nth, gpus=2).checkpointing.mode, read(nth, gpus=2).checkpointing.every) == ("every_n", 2)
    both = {**FULL, "ac_mode": "selective", "ac_option": 2}
    assert read(both, gpus=2).checkpointing.mode == "none"
    assert codes(parsed(both, gpus=2)) == ["conflict"]
    # recipes of adapters do not read it
    assert read({**LORA, "ac_mode": "selective", "ac_option": 2}, gpus=2).checkpointing.mode == "full"


def test_what_is_recomputed_may_wait_in_host_memory() -> None:
    assert read(changed(("enable_activation_offloading", True))).offload.activations == "cpu"


# -- loss and optimizer -----------------------------------------------------------------------


def test_losses_in_parts() -> None:
    first, then = read(FULL, gpus=2), read(changed(("loss", component(f"torchtune.modules.loss.{LINEAR}"))), gpus=2)
    assert (first.loss.parts, first.loss.logits_first, first.precision.upcast_lmhead_output) == (8, True, False)
    assert (then.loss.parts, then.loss.logits_first) == (8, False)
    four = read(changed(("loss.num_output_chunks", 4), ("compile", True)), gpus=2)
    assert four.loss.parts == 4 and four.loss.compiled and four.stack.compile


def test_torchs_own_loss_reads_fp32_logits() -> None:
    run = read(changed(("loss", component("torch.nn.CrossEntropyLoss"))), gpus=2)
    assert run.loss.parts == 0 and run.precision.upcast_lmhead_output and not run.stack.unmodelled


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [
        (component("torch.optim.AdamW", fused=True), "adamw_torch_fused"),
        (component("torch.optim.AdamW"), "adamw_torch"),
        (component("torchao.prototype.low_bit_optim.AdamW8bit"), "adamw_torch_8bit"),
        (component("torchao.optim.AdamW4bit"), "adamw_torch_4bit"),
        (component("bitsandbytes.optim.PagedAdamW8bit"), "paged_adamw_8bit"),
        (component("bitsandbytes.optim.PagedAdamW"), "paged_adamw_32bit"),
        (component("torch.optim.SGD", momentum=0.9), "sgd"),
        (component("torchao.optim.CPUOffloadOptimizer", offload_gradients=True), UNKNOWN),
        (component("mine.Optimizer"), UNKNOWN),
    ],
)
def test_optimizers_by_their_class(optimizer: Any, name: Any) -> None:
    assert read({**FULL, "optimizer": optimizer}, gpus=2).optimizer.name == name


def test_an_optimizer_in_the_backward_has_one_gradient_at_a_time() -> None:
    value = changed(("optimizer_in_bwd", True), ("gradient_accumulation_steps", 1))
    assert read(value, gpus=1).optimizer.layerwise
    assert not read({**LORA, "optimizer_in_bwd": True}, gpus=1).optimizer.layerwise


# -- several GPUs -------------------------------------------------------------------------------


def test_fsdp_divides_each_layer_and_what_is_named() -> None:
    run = read(FULL, gpus=8)
    assert run.parallelism.fsdp.version == 2 and run.parallelism.fsdp.root_holds_ends
    assert run.parallelism.fsdp.reduces_each_backward and not run.parallelism.fsdp.upcasts_trainable
    named = read({**FULL, "custom_sharded_layers": ["tok_embeddings", "output"]}, gpus=8)
    assert not named.parallelism.fsdp.root_holds_ends
    assert read({**FULL, "fsdp_cpu_offload": True}, gpus=8).parallelism.fsdp.cpu_offload
    assert not read({**FULL, "fsdp_reshard_after_forward": False}, gpus=8).parallelism.fsdp.reshard_after_forward


def test_gpus_that_share_a_matrix_leave_a_bound() -> None:
    run = read({**FULL, "tensor_parallel_dim": 2, "tensor_parallel_plan": component("x.y")}, gpus=8)
    assert run.parallelism.data_parallel_size == 4 and run.stack.unmodelled_adds


# -- releases -------------------------------------------------------------------------------------


def test_components_tell_the_release() -> None:
    old = changed(("checkpointer", component("torchtune.utils.FullModelHFCheckpointer")))
    run = read(old, gpus=2)
    assert run.parallelism.fsdp.version == 1 and not run.stack.unmodelled
    assert run.loss.in_logits_dtype and run.loss.keeps_logits
    later = read(old, gpus=2, versions={"torchtune": (0, 4)})
    assert not later.loss.in_logits_dtype and not later.loss.keeps_logits


# -- what torchtune refuses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (changed(("dtype", "fp16")), "fp16"),
        (changed(("optimizer_in_bwd", True)), "accumulates nothing"),
        (changed(("optimizer_in_bwd", True), ("gradient_accumulation_steps", 1), ("clip_grad_norm", 1.0)), "norm"),
        (changed(("enable_activation_checkpointing", False), ("enable_activation_offloading", True)), "needs"),
        (changed(("dataset.packed", True), ("tokenizer.max_seq_len", None)), "max_seq_len"),
        (changed(("tensor_parallel_dim", 2)), "tensor_parallel_plan"),
        (changed(("model.lora_rank", 8)), "takes no argument"),
    ],
)
def test_what_recipes_refuse(value: Any, words: str) -> None:
    (issue,) = parsed(value, gpus=8).issues
    assert issue.code == "conflict" and words in issue.message


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (FULL, {}),
        (LORA, {}),
        ({**LORA, "optimizer_in_bwd": True}, {}),  # its recipes do not read the key
        (changed(("optimizer_in_bwd", True), ("gradient_accumulation_steps", 1)), {}),
        (
            changed(("enable_activation_checkpointing", False), ("enable_activation_offloading", True)),
            {"versions": {"torchtune": (0, 3)}},
        ),
        ({**FULL, "unheard_of": 1}, {}),
        (
            {
                **changed(("enable_activation_checkpointing", False), ("enable_activation_offloading", True)),
                "teacher_model": component("torchtune.models.llama3_1.llama3_1_8b"),
            },
            {},
        ),
        ({**FULL, "model": component("mine.models.big", width=3)}, {}),
    ],
)
def test_nothing_is_said_of_what_runs(value: Any, fields: dict[str, Any]) -> None:
    assert codes(parsed(value, gpus=8, **fields)) == []


def test_a_builder_of_a_fork_may_take_more() -> None:
    facts = RepositoryFacts().but(own_functions=lambda below: frozenset({"llama3_1_8b"}))
    assert codes(parsed(changed(("model.width", 8)), gpus=8, repository=facts)) == []
    assert codes(parsed(changed(("model.width", 8)), gpus=8)) == ["conflict"]


def test_data_sets_of_ones_own_pack_as_they_like() -> None:
    own = changed(("dataset", component("mine.data", packed=True)), ("tokenizer.max_seq_len", None))
    assert codes(parsed(own, gpus=8)) == []


# -- commands --------------------------------------------------------------------------------------


def commands(script: str, **files: Any) -> list[Any]:
    contents = {"train.sh": script, **{name.replace("__", "."): json.dumps(value) for name, value in files.items()}}
    return list(in_memory(contents).documents("train.sh"))


def test_a_command_lies_over_its_file() -> None:
    script = (
        "tune run --nproc_per_node 2 lora_finetune_distributed --config my.yaml batch_size=8 "
        "optimizer=torch.optim.SGD tokenizer.max_seq_len=512\n"
    )
    (one,) = commands(script, my__yaml=LORA)
    assert one.start.format == "torchtune" and one.start.machine.gpus == 2
    run = run_of(torchtune.parse(one, known(files={"my.yaml": LORA}, gpus=2)))
    assert (run.batch.micro_batch_size, run.sequence.length, run.optimizer.name) == (8, 512, "sgd")
    assert run.method.rank == 16 and run.parallelism.engine == "fsdp"


def test_commands_that_train_nothing_make_no_run() -> None:
    script = "tune run generate --config generation\ntune run eleuther_eval --config e.yaml\ntune download x\ntune ls\n"
    assert [one.start.format for one in commands(script)] in ([], ["", ""])


def test_a_config_that_no_release_has_is_not_guessed() -> None:
    (one,) = commands("tune run full_finetune_single_device --config llama9/3B_full_single_device batch_size=4\n")
    run = run_of(torchtune.parse(one, known()))
    assert run.batch.micro_batch_size == 4 and run.model.architecture is UNKNOWN
    assert "torchtune's own" in run.origins["model.architecture"].detail


def test_a_recipe_for_one_device_is_refused_on_several() -> None:
    (one,) = commands("tune run --nproc_per_node 2 lora_finetune_single_device --config my.yaml\n", my__yaml=LORA)
    found = torchtune.parse(one, known(files={"my.yaml": LORA}))
    conflicts = [issue for issue in found.issues if issue.code == "conflict"]
    assert ["one device" in issue.message for issue in conflicts] == [True]


def test_a_script_launches_a_config() -> None:
    (one,) = commands("tune run --nproc_per_node 4 lora_finetune_distributed --config my.yaml\n", my__yaml=LORA)
    assert one.start.machine.gpus == 4


# -- edits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"batch.micro_batch_size": 1}, "batch_size", 1),
        ({"batch.gradient_accumulation_steps": 8}, "gradient_accumulation_steps", 8),
        ({"sequence.length": 512}, "tokenizer.max_seq_len", 512),
        ({"checkpointing.mode": "none"}, "enable_activation_checkpointing", False),
        ({"offload.activations": "cpu"}, "enable_activation_offloading", True),
        ({"optimizer.name": "paged_adamw_8bit"}, "optimizer._component_", "bitsandbytes.optim.PagedAdamW8bit"),
        ({"parallelism.fsdp.cpu_offload": True}, "fsdp_cpu_offload", True),
    ],
)
def test_changes_are_written_and_read_back(changes: dict[str, Any], key: str, value: Any) -> None:
    found = parsed(FULL, gpus=2)
    edits = torchtune.edits(found, found.runs[0], changes)
    assert edits is not None
    kept = tuple(edit for edit in edits if edit.action == "set")
    after = applied(FULL, kept, "train.json")
    inner = after
    for step in key.split("."):
        inner = inner[step]
    assert inner == value
    again = read(after, gpus=2)
    assert all(get(again, field) == wanted for field, wanted in changes.items())


def test_arguments_that_another_optimizer_does_not_take_are_removed() -> None:
    found = parsed(FULL, gpus=2)
    edits = torchtune.edits(found, found.runs[0], {"optimizer.name": "paged_adamw_8bit"}) or ()
    assert [edit.pointer for edit in edits if edit.action == "remove"] == [("optimizer", "fused")]


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        (FULL, {"method.kind": "lora"}),
        (FULL, {"optimizer.layerwise": True}),  # with accumulation
        (changed(("enable_activation_checkpointing", False)), {"offload.activations": "cpu"}),
        (changed(("enable_activation_offloading", True)), {"checkpointing.mode": "none"}),
        (changed(("optimizer.amsgrad", True)), {"optimizer.name": "paged_adamw_8bit"}),
    ],
)
def test_what_no_key_says_is_not_written(value: Any, changes: dict[str, Any]) -> None:
    found = parsed(value, gpus=2)
    assert torchtune.edits(found, found.runs[0], changes) is None


def test_the_planner_packs_the_base_as_torchao_does_and_scores_a_loss_in_parts() -> None:
    whole = {**LORA, "loss": component("torch.nn.CrossEntropyLoss")}
    for gpus in (1, 2):
        found = parsed(whole, gpus=gpus)
        proposed = {step.title: step.changes for step in steps(found.runs[0])}
        for title in ("4-bit base (QLoRA)", "compute the loss in 8 parts"):
            edits = torchtune.edits(found, found.runs[0], proposed[title])
            assert edits is not None
            after = read(applied(whole, edits, "train.json"), gpus=gpus)
            assert {name: get(after, name) for name in proposed[title]} == dict(proposed[title])
    assert torchtune.edits(parsed(FULL), parsed(FULL).runs[0], proposed["4-bit base (QLoRA)"]) is None


# -- figures -----------------------------------------------------------------------------------------


def test_figures_move_as_their_keys_say() -> None:
    run = read(FULL, gpus=4)
    central = estimate(run).allocated_bytes
    assert central is not None
    for smaller in ({"batch.micro_batch_size": 1}, {"parallelism.fsdp.cpu_offload": True}):
        less = estimate(replace(run, smaller)).allocated_bytes
        assert less is not None and less < central
