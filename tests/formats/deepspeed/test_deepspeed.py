"""DeepSpeed files: recognition, the facts behind each field (0.19.8), contradictions, edits, hostile values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.base import RepositoryFacts
from memlint.formats.deepspeed import format as deepspeed
from memlint.formats.deepspeed.batch import check_batch
from memlint.formats.deepspeed.config import DeepSpeedConfig
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.deepspeed.precision import apply_precision
from memlint.formats.deepspeed.zero import stage_of
from memlint.formats.fields import Fields, root
from memlint.formats.training_arguments import apply, arguments
from memlint.memory.state.optimizers import entry_of, memory
from memlint.memory.values import Tensor, Unit
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN, Run, get
from memlint.source.document import NOT_READ, Start, StartedProgram, ValueSources
from tests.formats.frameworks import ANYTHING, LLAMA, applied, codes, context, document, run_of

FOREIGN = StartedProgram("train.py", is_foreign=True)
LACKING = ValueSources({("bf16",): f"`a.yaml` says it, which is not there or {NOT_READ}"})

ZERO3 = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9,
    },
}


def alone(config: Any, **fields: Any) -> Any:
    return deepspeed.parse(document(config, "ds.json"), context(**fields))


def behind(config: Any, training: dict[str, Any], world: int | None = None) -> tuple[Run, list[str]]:
    """A DeepSpeed file behind training arguments: the run, and the messages."""
    fields = Fields()
    args = arguments(root(document(training)))
    if world:
        fields.values["parallelism.world_size"] = world
    apply(fields, args)
    deepspeed.apply_deepspeed(fields, root(document(config, "ds.json"), "companion"), args, LLAMA)
    return fields.run("trainer", "train.json"), [issue.message for issue in fields.issues]


@pytest.mark.parametrize(
    ("config", "confidence"),
    [
        (ZERO3, "certain"),
        ({"zero_optimization": {"stage": 2}}, "certain"),
        ({"train_batch_size": 8, "fp16": {"enabled": True}}, "likely"),
        ({"train_batch_size": 8, "learning_rate": 1e-4}, "no"),
        ({"fp16": True, "gradient_accumulation_steps": 4, "learning_rate": 1e-4}, "no"),
        ({}, "no"),
        ([], "no"),
        ({"zero": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto"}, "no"),
        ({"zero": {"stage": 3}, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}}, "likely"),
    ],
)
def test_recognised_by_keys(config: Any, confidence: str) -> None:
    assert deepspeed.recognise(document(config, "anything.json")).confidence == confidence


def test_gpt_neox_is_not_a_deepspeed_file() -> None:
    # GPT-NeoX names the model in the same file.
    neox = {
        **dict.fromkeys(("num_layers", "hidden_size", "num_attention_heads", "seq_length", "pipe_parallel_size"), 1),
        **dict.fromkeys(("train_iters", "lr_decay_iters", "warmup", "rotary_pct", "log_interval", "norm"), 1),
        "zero_optimization": {"stage": 1},
        "train_micro_batch_size_per_gpu": 4,
        "fp16": {"enabled": True},
    }
    assert deepspeed.recognise(document(neox)).confidence == "no"


def test_alone_it_is_a_partial_run_with_what_is_known() -> None:
    run = run_of(alone(ZERO3))
    assert (run.purpose, run.parallelism.engine, run.parallelism.zero.stage) == ("partial", "deepspeed", 3)
    assert run.parallelism.zero.max_live_parameters == 1_000_000_000
    assert run.parallelism.zero.reduce_bucket_size is UNKNOWN
    assert run.precision.compute is UNKNOWN
    assert run.batch.micro_batch_size is UNKNOWN
    assert run.model.architecture is UNKNOWN
    assert run.origins["parallelism.zero.stage"].line == 1
    assert "hidden_size" in run.origins["parallelism.zero.reduce_bucket_size"].detail


# zero/config.py and offload_config.py of 0.19.8: what a bare stage means.
@pytest.mark.parametrize(
    ("field", "stage2", "stage3"),
    [
        ("parallelism.zero.overlap_comm", False, True),  # overlap_comm_valid: on at stage 3 only
        ("parallelism.zero.reduce_bucket_size", 500_000_000, 500_000_000),
        ("parallelism.zero.prefetch_bucket_size", 50_000_000, 50_000_000),
        ("parallelism.zero.param_persistence_threshold", 100_000, 100_000),
        ("parallelism.zero.contiguous_gradients", True, True),
        ("precision.master_weights", True, True),
        ("offload.optimizer", "none", "none"),
    ],
)
def test_defaults_by_stage(field: str, stage2: object, stage3: object) -> None:
    for stage, wanted in ((2, stage2), (3, stage3)):
        run = run_of(alone({"train_batch_size": 8, "zero_optimization": {"stage": stage}}))
        assert get(run, field) == wanted
        assert run.origins[field].kind in ("default", "inferred", "file")


@pytest.mark.parametrize(
    ("zero", "fields"),
    [
        (
            {"stage": 2, "offload_optimizer": {"device": "cpu"}},
            {"offload.optimizer": "cpu", "offload.optimizer_pinned": True},
        ),
        ({"stage": 2, "cpu_offload": True}, {"offload.optimizer": "cpu"}),
        ({"stage": 3, "offload_param": {"device": "nvme"}}, {"offload.parameters": "nvme"}),
        ({"stage": 2, "offload_param": {"device": "cpu"}}, {"offload.parameters": "none"}),
        ({"stage": 3, "prefetch_bucket_size": 5e6}, {"parallelism.zero.prefetch_bucket_size": 5_000_000}),
        ({"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.3}}, {"offload.optimizer_ratio": 0.3}),
        ({"stage": 3, "zero_hpz_partition_size": 8}, {"parallelism.zero.hpz_partition_size": 8}),
        (True, {"parallelism.zero.stage": 1}),
        ({"stage": 7}, {"parallelism.zero.stage": UNKNOWN}),
        ({"stage": "auto"}, {"parallelism.zero.stage": 0}),
    ],
)
def test_zero_and_offload(zero: Any, fields: dict[str, object]) -> None:
    run = run_of(alone({"train_batch_size": 8, "zero_optimization": zero}))
    assert {name: get(run, name) for name in fields} == fields


def test_auto_becomes_what_transformers_fills_in() -> None:
    # transformers 5.23 integrations/deepspeed.py:186-214 with hidden_size 4096
    run, messages = behind(ZERO3, {"bf16": True, "per_device_train_batch_size": 4})
    zero = run.parallelism.zero
    assert messages == []
    assert zero.reduce_bucket_size == 4096 * 4096
    assert zero.prefetch_bucket_size == int(0.9 * 4096 * 4096)
    assert zero.param_persistence_threshold == 40_960
    assert (run.precision.compute, run.precision.autocast, run.precision.outputs_to_fp32) == ("bfloat16", False, False)
    assert (run.precision.trainable_dtype, run.method.adapter_dtype) == ("bfloat16", "bfloat16")
    assert run.precision.master_weights is True


@pytest.mark.parametrize(
    ("config", "training", "half"),
    [
        ({}, {"bf16": True}, "bfloat16"),  # accelerate adds the section (set_mixed_precision)
        ({}, {"fp16": True}, "float16"),
        ({"bf16": {"enabled": True}}, {"bf16": True}, "bfloat16"),
        ({"bf16": {"enabled": "auto"}}, {"bf16_full_eval": True}, "bfloat16"),
        ({"bf16": {"enabled": "auto"}}, {}, "float32"),
        ({"bfloat16": {"enabled": True}}, {"bf16": True}, "bfloat16"),
    ],
)
def test_half_precision(config: dict[str, Any], training: dict[str, Any], half: str) -> None:
    run, messages = behind({"zero_optimization": {"stage": 2}, **config}, training)
    assert run.precision.compute == half
    assert messages == []


@pytest.mark.parametrize(
    ("config", "training", "world", "said"),
    [
        (
            {"train_micro_batch_size_per_gpu": 2},
            {"per_device_train_batch_size": 4},
            None,
            "train_micro_batch_size_per_gpu: 2",
        ),
        ({"gradient_accumulation_steps": 8}, {}, None, "gradient_accumulation_steps: 1` (its default)"),
        ({"train_batch_size": 64}, {"per_device_train_batch_size": 4}, 8, "4 * 1 * 8 GPUs"),
        ({"train_batch_size": 30}, {"per_device_train_batch_size": 4}, None, "4 * 1 * GPUs"),
        ({"gradient_clipping": 0.5}, {"max_grad_norm": 1.0}, None, "gradient_clipping: 0.5"),
        ({"bf16": {"enabled": False}}, {"bf16": True}, None, "`bf16: true`"),
        ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, {"bf16": True}, None, "cannot both be enabled"),
        (
            {"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}},
            {"learning_rate": 2e-5},
            None,
            "optimizer.params.lr",
        ),
        ({"optimizer": {"params": {"betas": [0.9, 0.95]}}}, {"adam_beta1": 0.9}, None, "[0.9, 0.999]"),
        ({"scheduler": {"params": {"warmup_num_steps": 50}}}, {"warmup_steps": 20}, None, "warmup_steps: 20"),
        ({"scheduler": {"params": {"warmup_num_steps": 50}}}, {}, None, "which is not set"),
        ({"scheduler": {"params": {"total_num_steps": 500}}}, {"max_steps": 100}, None, "max_steps: 100"),
        ({"sequence_parallel_size": 2, "train_batch_size": "auto"}, {}, 4, "transformers counts each"),
    ],
)
def test_contradictions_are_said(
    config: dict[str, Any], training: dict[str, Any], world: int | None, said: str
) -> None:
    _, messages = behind({"zero_optimization": {"stage": 2}, **config}, training, world)
    assert any(said in message for message in messages), messages


@pytest.mark.parametrize(
    ("config", "training", "world"),
    [
        ({"train_micro_batch_size_per_gpu": 4}, {"per_device_train_batch_size": 4}, None),
        ({"train_batch_size": 32}, {"per_device_train_batch_size": 4}, 8),
        ({"train_batch_size": 32}, {"per_device_train_batch_size": 4}, None),
        ({"train_micro_batch_size_per_gpu": 2}, {"per_device_train_batch_size": 4, "auto_find_batch_size": True}, None),
        ({"optimizer": {"params": {"betas": [0.9, 0.95]}}}, {"adam_beta2": 0.95}, None),
        ({"optimizer": {"params": {"betas": "auto"}}}, {"adam_beta2": 0.95}, None),
        ({"scheduler": {"params": {"warmup_num_steps": 50}}}, {"warmup_ratio": 0.03}, None),
        ({"scheduler": {"params": {"warmup_num_steps": 50}}}, {"warmup_steps": 0.03}, None),
        ({"scheduler": {"params": {"warmup_num_steps": 0}}}, {}, None),
        ({"sequence_parallel_size": 1}, {}, 4),
        ({"sequence_parallel_size": 2}, {}, 4),
        (
            {"sequence_parallel_size": 2, "train_batch_size": "auto"},
            {"parallelism_config": {"sp_size": 2}},
            4,
        ),
        ({"scheduler": {"params": {"warmup_num_steps": 50, "total_num_steps": "auto"}}}, {"warmup_steps": 50}, None),
    ],
)
def test_agreement_is_not_reported(config: dict[str, Any], training: dict[str, Any], world: int | None) -> None:
    assert behind({"zero_optimization": {"stage": 2}, **config}, training, world)[1] == []


@pytest.mark.parametrize(
    ("config", "training", "name", "engine"),
    [
        ({}, {"optim": "adamw_torch"}, "adamw_torch", "torch"),
        ({"optimizer": {"type": "AdamW", "params": {}}}, {"optim": "sgd"}, "fused_adam", "deepspeed"),
        ({"optimizer": {"type": "Adam", "params": {"torch_adam": True}}}, {}, "adamw_torch", "torch"),
        ({"optimizer": {"type": "Lion"}}, {}, "fused_lion", "deepspeed"),
    ],
)
def test_optimizer(config: dict[str, Any], training: dict[str, Any], name: str, engine: str) -> None:
    run, _ = behind({"zero_optimization": {"stage": 2}, **config}, training)
    assert (run.optimizer.name, run.optimizer.engine) == (name, engine)


@pytest.mark.parametrize(
    ("optim", "forced", "name"),
    [
        ("adamw_torch", True, "cpu_adam"),
        ("adagrad", True, "cpu_adagrad"),
        ("lion_32bit", True, "cpu_lion"),
        ("adamw_torch", False, "adamw_torch"),
    ],
)
def test_an_offloaded_optimizer_is_replaced(optim: str, forced: bool, name: str) -> None:
    # accelerate 1.15 map_pytorch_optim_to_deepspeed; zero_force_ds_cpu_optimizer
    config = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    run, _ = behind({**config, "zero_force_ds_cpu_optimizer": forced}, {"optim": optim})
    assert run.optimizer.name == name


def test_momentum_of_its_own_optimizer_is_read() -> None:
    """`optimizer.params` go to torch.optim.SGD as they are (deepspeed 0.19.8 runtime/engine.py,
    _configure_basic_optimizer): with momentum it keeps a state for each parameter."""
    params = {"lr": 1e-3, "momentum": 0.9}
    run, _ = behind({"zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD", "params": params}}, {})
    assert (run.optimizer.name, run.optimizer.momentum) == ("sgd", 0.9)


@pytest.mark.parametrize(
    ("optimizer", "name", "wrong"),
    [
        ({"type": "NAdam"}, "nadam", ""),
        ({"type": "AdamW", "params": {"torch_adam": True, "amsgrad": True}}, "adamw_torch_amsgrad", ""),
        ({"type": "AdamW", "params": {"torch_adam": True}}, "adamw_torch", ""),
        ({"type": "AdamW", "params": {"amsgrad": True}}, "fused_adam", "does not support AMSGrad"),
        ({"type": "SparseAdam"}, "sparseadam", "sparse gradients alone"),
        ({"type": "SGD", "params": {"momentum": 0.9}}, "sgd", ""),
    ],
)
def test_pytorchs_optimizers_by_their_class(optimizer: dict[str, Any], name: str, wrong: str) -> None:
    run, messages = behind({**ZERO3, "optimizer": optimizer}, {"optim": "adamw_torch"})

    assert run.optimizer.name == name
    assert [wrong in message for message in messages] == [True] * bool(wrong)
    assert entry_of(run.optimizer)["states"] is not None


def test_sgds_momentum_is_a_state() -> None:
    def states(params: dict[str, Any]) -> int:
        config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 0}, "bf16": {"enabled": False}}
        run, _ = behind({**config, "optimizer": {"type": "SGD", "params": params}}, {"optim": "adamw_torch"}, 1)
        tensor = Tensor("weight", 4096, (64, 64), "linear", True, "float32", 16384)
        return memory(run, (Unit("layer", (tensor,)),)).states

    assert (states({}), states({"momentum": 0}), states({"momentum": 0.9})) == (0, 0, 16384)


def test_activation_checkpointing_of_deepspeed_has_no_effect_behind_a_trainer() -> None:
    config = {"zero_optimization": {"stage": 2}, "activation_checkpointing": {"cpu_checkpointing": True}}
    assert any("never call" in message for message in behind(config, {})[1])
    assert codes(alone({"train_batch_size": 1, **config})) == []


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"zero_optimization": {"stage": 3, "stage3_param_persitence_threshold": 1}}, [("unknown-key", "error")]),
        ({"zero_optimisation": {"stage": 3}}, [("unknown-key", "warning")]),
        ({"_comment": "mine", "comment": "yours"}, []),
        ({"zero_optimization": {"stage": 4}}, [("bad-value", "error")]),
        ({"compression_training": {}}, [("removed-key", "warning")]),
        ({"zero_optimization": {"mics_shard_size": 8}}, [("removed-key", "warning")]),
        ({"zero_optimization": True}, []),
        ({"zero_optimization": {"reduce_bucket_size": 5e8}}, []),
        ({"bf16": {"enabled": "true"}}, []),
        ({"optimizer": {"type": "OneBitAdam"}}, [("bad-value", "warning")]),
        ({"fp16": {"enabled": True, "opt_level": "O2"}}, [("unknown-key", "warning")]),  # unread up to 0.17.0
        ({"fp16": {"min_loss_scale": 0.5}}, [("wrong-type", "warning")]),
        ({"bf16": {"enabled": True, "loss_scale": 0, "hysteresis": 2}}, [("unknown-key", "warning")]),  # one slip
        ({"compile": {"enabled": True}}, [("removed-key", "warning")]),
        # up to 0.6.7 and in 0.3.16: zero/constants.py
        ({"zero_optimization": {"stage": 3, "cpu_offload_params": True}}, [("renamed-key", "warning")]),
        ({"zero_optimization": {"stage": 2, "find_unused_parameters": True}}, [("renamed-key", "warning")]),
        # pydantic makes whole numbers of text, and checks them then
        ({"zero_optimization": {"reduce_bucket_size": "1", "stage3_param_persistence_threshold": "0"}}, []),
        ({"zero_optimization": {"reduce_bucket_size": "0"}}, [("wrong-type", "error")]),
        ({"zero_optimization": {"reduce_bucket_size": "5e8"}}, [("wrong-type", "error")]),
        ({"gradient_accumulation_steps": "2"}, [("wrong-type", "error")]),
        ({"gradient_accumulation_steps": "${steps}", "bf16": {"enabled": "${half}"}}, []),  # a template's
    ],
)
def test_what_the_schema_says(config: dict[str, Any], found: list[tuple[str, str]]) -> None:
    parsed = alone({"train_batch_size": 8, **config})
    assert [(issue.code, issue.severity) for issue in parsed.issues] == found


def test_keys_copied_from_another_section_are_one_slip() -> None:
    copied = {"enabled": True, "loss_scale": 0, "loss_scale_window": 1000, "hysteresis": 2}
    (issue,) = alone({"train_batch_size": 8, "bf16": copied}).issues
    assert issue.pointer == ("bf16", "loss_scale")
    assert issue.message == (
        "unknown keys `loss_scale`, `loss_scale_window` and `hysteresis`; releases before deepspeed 0.17.1 take them"
    )


def test_a_removed_key_is_named_with_its_section() -> None:
    (issue,) = alone({"train_batch_size": 8, "compile": {"enabled": True}}).issues
    assert issue.message.startswith("`compile.enabled` is gone since deepspeed 0.14.4")


def test_a_removed_key_is_no_issue_for_an_older_release() -> None:
    assert codes(alone({"train_batch_size": 8, "amp": {"enabled": False}}, versions={"deepspeed": (0, 16)})) == []
    assert codes(alone({"bf16": {"loss_scale": 0}, "train_batch_size": 8}, versions={"deepspeed": (0, 16)})) == []


@pytest.mark.parametrize(
    ("micro", "steps", "total", "world", "wanted"),
    [
        (2, 4, None, 8, (2, 4)),
        (None, None, 64, 8, (8, 1)),  # runtime/config.py:_set_batch_related_parameters
        (None, 2, 64, 8, (4, 2)),
        (4, None, 64, 8, (4, 2)),
        (4, None, None, None, (4, 1)),
        (4, None, 64, None, (4, UNKNOWN)),
    ],
)
def test_batch_sizes_alone(micro: Any, steps: Any, total: Any, world: Any, wanted: tuple[object, object]) -> None:
    sizes = {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps, "train_batch_size": total}
    config = {key: size for key, size in sizes.items() if size is not None}
    run = run_of(alone({**config, "zero_optimization": {"stage": 1}}, gpus=world or UNKNOWN))
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism.zero.stage": 3},
        {"offload.optimizer": "cpu"},
        {"offload.optimizer": "cpu", "offload.optimizer_pinned": True, "parallelism.zero.stage": 3},
        {"parallelism.zero.reduce_bucket_size": 50_000_000, "parallelism.zero.overlap_comm": False},
        {"offload.parameters": "cpu", "parallelism.zero.stage": 3, "parallelism.zero.prefetch_bucket_size": 10_000_000},
        {"batch.micro_batch_size": 1},
    ],
)
@pytest.mark.parametrize("config", [ZERO3, {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 10}])
def test_edits_say_what_was_asked_for(config: Any, changes: dict[str, Any]) -> None:
    parsed = alone(config)
    edits = deepspeed.edits(parsed, run_of(parsed), changes)
    after = run_of(alone(applied(config, edits, "ds.json")))
    assert {name: get(after, name) for name in changes} == changes


def test_edits_refuse_what_the_file_cannot_say() -> None:
    parsed = alone(ZERO3)
    for changes in ({"attention.implementation": "sdpa"}, {"parallelism.zero.stage": 9}, {"offload.optimizer": "disk"}):
        assert deepspeed.edits(parsed, run_of(parsed), changes) is None


_TOP = ["zero_optimization", "bf16", "fp16", "optimizer", "gradient_clipping", "train_batch_size", "data_types"]
_INNER = [
    "stage",
    "offload_optimizer",
    "offload_param",
    "reduce_bucket_size",
    "enabled",
    "type",
    "params",
    "leaf_module",
]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(_TOP), ANYTHING | st.dictionaries(st.sampled_from(_INNER), ANYTHING), max_size=5),
    st.dictionaries(st.sampled_from(["bf16", "per_device_train_batch_size", "max_grad_norm"]), ANYTHING),
)
def test_no_value_makes_it_raise(config: dict[str, Any], training: dict[str, Any]) -> None:
    fields = Fields()
    section = root(document({})._replace(value=config))
    deepspeed.parse(section.document, context())
    args = arguments(root(document({})._replace(value=training)))
    deepspeed.apply_deepspeed(fields, section, args, LLAMA)
    run = fields.run("deepspeed", "x")
    assert set(run.origins) == set(fields.values)
    assert run.parallelism.zero.stage in (0, 1, 2, 3, UNKNOWN)


def test_stage_of_reads_integers_only() -> None:
    view = DeepSpeedConfig(root(document({"zero_optimization": {"stage": True}})), KEYS)
    assert stage_of(view) is None


def test_autotp_divides_the_layers() -> None:
    run, _ = behind({**ZERO3, "tensor_parallel": {"autotp_size": 2}}, {"bf16": True}, world=8)

    assert run.parallelism.tensor_parallel_size == 2


@pytest.mark.parametrize(
    ("config", "gpus", "found"),
    [
        ({"train_batch_size": 24}, 8, "error"),
        ({"train_batch_size": 16}, 8, "warning"),
        ({"train_batch_size": 32}, 8, ""),
        ({"train_batch_size": 16, "sequence_parallel_size": 2}, 8, ""),
        ({"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}, 8, ""),
        ({"train_batch_size": 64}, 8, "error"),
        ({"train_batch_size": 3, "gradient_accumulation_steps": None}, 1, "error"),
        ({"train_batch_size": 12, "gradient_accumulation_steps": None}, 2, "warning"),
        ({"train_batch_size": 16, "gradient_accumulation_steps": None}, 2, ""),
        ({"train_batch_size": 16, "gradient_accumulation_steps": "auto"}, 3, ""),
    ],
)
def test_gpus_that_share_a_model_count_once(config: dict[str, Any], gpus: int, found: str) -> None:
    sizes = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 1}}
    parsed = alone({**sizes, **config}, gpus=gpus)
    assert [issue.severity for issue in parsed.issues if issue.code == "conflict"] == ([found] if found else [])


def test_what_is_not_offloaded_needs_no_word_to_stay() -> None:
    parsed = alone({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
    edits = deepspeed.edits(parsed, run_of(parsed), {"offload.optimizer": "none", "offload.parameters": "none"})
    assert edits is not None
    assert [edit.pointer for edit in edits] == [("zero_optimization", "offload_optimizer", "device")]


@pytest.mark.parametrize(
    ("values", "start", "said"),
    [
        ({}, Start("trainer", "accelerate"), False),  # no flag at all
        ({"config_file_path": "sft.yaml"}, Start("trainer", "accelerate"), False),  # the program's own file has them
        (
            {"gradient_accumulation_steps": 1},
            Start("trainer", "", StartedProgram(framework="torch")),
            False,
        ),
        ({"gradient_accumulation_steps": 1}, Start("trainer", "accelerate"), True),
        ({"gradient_accumulation_steps": 1}, Start("trainer", "", FOREIGN), True),
        ({"learning_rate": 1}, Start("trainer", "", FOREIGN), False),  # what the command leaves out the program may set
        ({"learning_rate": 1}, Start("trainer", "deepspeed"), True),
        ({"learning_rate": 1}, Start("trainer", "deepspeed", values=LACKING), False),  # and so may a file that is away
        ({}, None, True),
    ],
)
def test_only_training_arguments_are_compared_with(values: dict[str, int], start: Start | None, said: bool) -> None:
    command = document(values, "run.sh")._replace(start=start)
    fields, section = Fields(), root(document({"zero_optimization": {}, "gradient_accumulation_steps": 8}, "ds.json"))
    check_batch(fields, DeepSpeedConfig(section, KEYS, arguments(root(command))))
    assert bool(fields.issues) is said


@pytest.mark.parametrize(("program", "said"), [(StartedProgram(), True), (FOREIGN, False)])
def test_a_precision_that_a_program_elsewhere_may_set_is_no_conflict(program: StartedProgram, said: bool) -> None:
    command = document({"output_dir": "out"}, "run.sh")._replace(start=Start("trainer", "", program))
    section, fields = root(document({"bf16": {"enabled": True}}, "ds.json")), Fields()
    apply_precision(fields, DeepSpeedConfig(section, KEYS, arguments(root(command))))
    assert bool(fields.issues) is said


@pytest.mark.parametrize(("program", "code"), [("accelerate", ()), ("deepspeed", ("wrong-type",))])
def test_an_auto_that_nobody_fills_in_is_said_once(program: str, code: tuple[str, ...]) -> None:
    """Rule DSP001 says it, except where the repository's programs hand the file to DeepSpeed themselves."""
    facts = RepositoryFacts().but(calls_deepspeed=lambda: program == "deepspeed")
    around = context()._replace(repository=facts)
    section = root(document({"wall_clock_breakdown": "auto"}, "ds.json"))
    assert tuple(issue.code for issue in deepspeed.config_issues(section, around)) == code


def test_a_batch_of_null_is_no_batch() -> None:
    template = {"train_batch_size": None, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
    assert alone(template).issues == ()
    assert codes(alone({**template, "train_batch_size": "8"})) == ["wrong-type"]


@pytest.mark.parametrize(("more", "refused"), [({}, True), ({"ppo_epochs": 2}, False)])
def test_an_own_trainer_of_ppo_has_no_arguments_to_contradict(more: dict[str, Any], refused: bool) -> None:
    fields = Fields()
    command = document({"learning_rate": 1e-5, **more})._replace(
        start=Start("trainer", "accelerate", StartedProgram("ppo.py", "trl"))
    )
    config = {"optimizer": {"type": "AdamW", "params": {"weight_decay": 0.01}}, "zero_optimization": {"stage": 3}}
    deepspeed.apply_deepspeed(fields, root(document(config, "ds.json"), "companion"), arguments(root(command)), LLAMA)
    assert any("weight_decay" in issue.message for issue in fields.issues) is refused


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"activation_checkpointing": {"number_checkpoints": "none"}}, []),
        ({"wall_clock_breakdown": "no"}, ["warning"]),
        ({"flops_profiler": {"enabled": "no"}}, ["warning"]),
        ({"gradient_clipping": "no"}, ["error"]),
    ],
)
def test_a_value_that_deepspeed_takes_as_it_is_ends_no_run(config: dict[str, Any], told: list[str]) -> None:
    assert [issue.severity for issue in alone({"zero_optimization": {"stage": 2}, **config}).issues] == told


def test_auto_below_zero_counts_as_not_said() -> None:
    """deepspeed 0.19.8 runtime/config_utils.py:58."""
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "auto"}}}
    parsed = alone(config)
    assert parsed.issues == () and run_of(parsed).offload.optimizer == "none"
    assert codes(alone({**config, "zero_optimization": {"offload_optimizer": {"device": "gpu"}}})) != []


def test_gradients_in_fp32_without_zero_are_refused_by_newer_releases() -> None:
    config = {"train_batch_size": 8, "bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    assert codes(alone(config)) == codes(alone(config, versions={"deepspeed": (0, 18, 5)})) == ["conflict"]
    assert codes(alone(config, versions={"deepspeed": (0, 18, 4)})) == []


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            "acc.yaml",
            "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.yaml}\n",
        ),
        (
            "sft.yaml",
            "model_name_or_path: gpt2\noutput_dir: o\nmax_length: 512\ndataset_text_field: t\nbf16: true\n"
            "per_device_train_batch_size: 1\ndeepspeed: ds.yaml\n",
        ),
        (
            "lf.yaml",
            "model_name_or_path: gpt2\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: d\n"
            "template: default\noutput_dir: o\ndeepspeed: ds.yaml\n",
        ),
        ("ax.yaml", "base_model: gpt2\ndatasets: [{path: d, type: alpaca}]\nsequence_len: 512\ndeepspeed: ds.yaml\n"),
    ],
)
def test_a_file_that_a_config_names_is_read_as_json_whatever_it_is_called(config: str, text: str) -> None:
    engine = '{"zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8}, "train_micro_batch_size_per_gpu": "auto"}'
    workspace = in_memory({config: text, "ds.yaml": engine})
    found = Engine(()).analyse(workspace.documents(config)[0], workspace.context()).findings
    assert not [one for one in found if "reduce_bucket_size" in one.message]
