"""slime's commands: recognition, what each argument means (0.1.0 to 0.3.1), the bound of a GPU, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures.model import parameters
from memlint.formats.slime import format as slime
from memlint.formats.slime.behaviour import ALWAYS, FSDP, MEGATRON
from memlint.formats.slime.keys import KEYS
from memlint.memory.estimate import estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.run import UNKNOWN, Run, get
from tests.formats.frameworks import ANYTHING, document, run_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "slime" / "grpo_4b.sh"
QWEN3_4B = (
    "--swiglu --num-layers 36 --hidden-size 2560 --ffn-hidden-size 9728 --num-attention-heads 32 --kv-channels 128 "
    "--group-query-attention --num-query-groups 8 --disable-bias-linear --normalization RMSNorm --qk-layernorm "
    "--use-rotary-position-embeddings --vocab-size 151936"
)
RUN = (
    "--actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint /root/Qwen3-4B --ref-load /root/ref "
    "--num-rollout 300 --rollout-batch-size 32 --n-samples-per-prompt 8 --rollout-max-response-len 8192 "
    "--global-batch-size 256 --tensor-model-parallel-size 2 --rollout-num-gpus-per-engine 2 "
    "--use-dynamic-batch-size --max-tokens-per-gpu 9216 --use-kl-loss --sglang-mem-fraction-static 0.7"
)
WHOLE = f"{QWEN3_4B} {RUN}"


def analysed(arguments: str, program: str = "train.py", files: dict[str, str] | None = None) -> Any:
    workspace = in_memory({"run.sh": f"python3 {program} {arguments}\n", **(files or {})})
    (found,) = workspace.documents("run.sh")
    assert found.start is not None and found.start.format == "slime"
    return analyse(found, workspace.context(), ())


def launched(arguments: str) -> Run:
    return run_of(analysed(arguments))


def refused(arguments: str, program: str = "train.py", files: dict[str, str] | None = None) -> list[str]:
    return [one.message for one in analysed(arguments, program, files).findings if one.severity == "error"]


def without(flag: str, arguments: str = WHOLE) -> str:
    """The command without a flag and its values."""
    return "--".join(part for part in arguments.split("--") if part.split(" ")[0] != flag)


@pytest.mark.parametrize(
    "text",
    [
        f"python3 train.py {WHOLE}\n",
        f"A=({WHOLE})\nray job submit --address=a -- python3 train_async.py ${{A[@]}}\n",
        f"source models.sh\nCKPT=({RUN})\npython3 /root/slime/train.py ${{MODEL_ARGS[@]}} ${{CKPT[@]}}\n",
    ],
)
def test_a_launch_is_read_however_it_is_started(text: str) -> None:
    workspace = in_memory({"run.sh": text, "models.sh": f"MODEL_ARGS=({QWEN3_4B})\n"})
    (found,) = workspace.documents("run.sh")
    run = run_of(analyse(found, workspace.context(), ()))
    assert (run.stack.framework, run.parallelism.engine, run.method.stage) == ("slime", "megatron", "grpo")
    padding = 128 * 2560  # of the vocabulary, to a multiple of 128 on each of 2 tensor ranks
    assert (run.batch.max_tokens, parameters(run.model.architecture)) == (9216, 4_022_468_096 + padding)


@pytest.mark.parametrize(
    "text",
    [
        f"python tools/convert_hf_to_torch_dist.py {QWEN3_4B} --hf-checkpoint /root/Qwen3-4B --save /root/ref\n",
        "deepspeed --module openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --lr 1e-6\n",
        f"torchrun --nproc_per_node 8 pretrain_gpt.py {QWEN3_4B} --micro-batch-size 1 --seq-length 4096 --lr 1e-4\n",
    ],
)
def test_other_programs_are_not_read(text: str) -> None:
    found = in_memory({"run.sh": text}).documents("run.sh")
    assert all(one.start is None or one.start.format != "slime" for one in found)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ("", {"parallelism.world_size": 8, "parallelism.data_parallel_size": 4, "parallelism.gpus_per_node": 8}),
        ("--actor-num-nodes 2", {"parallelism.world_size": 16}),
        ("", {"precision.compute": "bfloat16", "precision.grad_dtype": "float32"}),
        ("--bf16", {"precision.compute": "bfloat16"}),
        ("--fp16", {"precision.compute": "float16"}),
        ("", {"parallelism.replicates_optimizer": False, "loss.bytes_per_logit": 8}),
        ("", {"sequence.length": UNKNOWN, "sequence.max_new_tokens": 8192, "batch.micro_batch_size": 1}),
        ("--rollout-max-prompt-len 1024", {"sequence.length": 9216, "sequence.max_prompt_length": 1024}),
        ("--rollout-max-context-len 4096 --rollout-max-prompt-len 1024", {"sequence.length": 4096}),
        # Context parallelism shares a micro-batch of as many times more tokens.
        ("--context-parallel-size 2", {"batch.max_tokens": 18432, "parallelism.data_parallel_size": 2}),
        # A sequence that is longer stands alone, and no rank has more than its part of an update.
        ("--rollout-max-context-len 20000", {"batch.max_tokens": 20000, "batch.micro_batch_size": 1}),
        ("--rollout-max-context-len 512 --global-batch-size 16", {"batch.max_tokens": 2048}),
        ("--num-steps-per-rollout 4 --rollout-batch-size 64", {"batch.gradient_accumulation_steps": 64}),
        ("", {"method.num_generations": 8, "method.reference_model": "copy", "rollout.offloads_reference": True}),
        ("--advantage-estimator ppo", {"method.stage": "ppo"}),
        ("--loss-type sft_loss --debug-train-only", {"method.stage": "sft", "rollout.generator": ""}),
        ("", {"rollout.generator": "vllm_colocate", "rollout.sleep_level": 2, "rollout.share": 0.7}),
        ("", {"rollout.offloads_weights": True, "rollout.tensor_parallel_size": 2}),
        ("--no-offload-train", {"rollout.offloads_weights": False}),
        ("--no-offload-rollout", {"rollout.sleep_level": 0}),
        ("--optimizer-cpu-offload", {"offload.optimizer": "cpu", "offload.optimizer_ratio": 1.0}),
        ("--recompute-granularity full --recompute-method uniform", {"checkpointing.mode": "full"}),
        ("--freeze-params-name-list embedding", {"method.kind": UNKNOWN}),
        ("--context-parallel-size $CP", {"batch.max_tokens": UNKNOWN}),
        ("--actor-num-gpus-per-node $1", {"parallelism.world_size": UNKNOWN}),
    ],
)
def test_what_an_argument_means(arguments: str, fields: dict[str, Any]) -> None:
    run = launched(f"{WHOLE} {arguments}")
    assert {field: get(run, field) for field in fields} == fields


def test_engines_elsewhere_take_nothing_of_the_policys_cards() -> None:
    run = launched(f"{without('colocate')} --rollout-num-gpus 8")
    assert (run.rollout.generator, run.rollout.offloads_weights, run.rollout.share) == ("vllm", False, 0.0)


def test_sequences_count_without_dynamic_batches() -> None:
    run = launched(f"{without('use-dynamic-batch-size')} --micro-batch-size 2")
    assert (run.batch.max_tokens, run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (0, 2, 32)


def test_the_checkpoints_name_says_the_model_where_the_arguments_do_not() -> None:
    run = launched(f"{RUN} --spec a.b c --moe-layer-freq $F")
    assert run.model.name == "/root/Qwen3-4B"
    assert parameters(run.model.architecture) == 4_022_468_096


def test_a_gpu_has_18_bytes_a_parameter_and_what_the_loss_holds() -> None:
    """6 + 12 / 4 bytes of half of the parameters, inputs of 36 layers, and 8 bytes of each logit."""
    found = estimate(launched(WHOLE))
    assert found.allocated_bytes is None
    half = 4_022_468_096 // 2
    assert found.details["weights_bytes"] == pytest.approx(2 * half, rel=1e-3)
    assert found.details["gradients_bytes"] == pytest.approx(4 * half, rel=1e-3)
    assert found.details["optimizer_state_bytes"] == pytest.approx(3 * half, rel=1e-3)
    assert "the loss 5.2 GiB" in found.unknown[0].reason  # 8 * 9216 * 151936 / 2
    assert found.allocated_low_bytes is not None and found.allocated_low_bytes < 22.9 * 2**30


def test_fsdp_divides_the_model_and_its_loss_is_not_modelled() -> None:
    """slime 0.2.2: 16 bytes of each of 4 billion parameters on 8 GPUs."""
    run = launched(f"{RUN} --train-backend fsdp --gradient-checkpointing --fsdp-cpu-offload")
    assert (run.parallelism.engine, run.parallelism.fsdp.version, run.checkpointing.mode) == ("fsdp", 2, "full")
    assert (run.parallelism.fsdp.cpu_offload, run.model.weights_dtype) == (True, "float32")
    found = estimate(launched(f"{RUN} --train-backend fsdp"))
    assert found.allocated_low_bytes == pytest.approx(16 * 4_022_468_096 / 8, rel=1e-2)
    assert "what slime's loss keeps" in found.unknown[0].reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--train-backend veomni", "the backend `veomni`"),
        ("--lora-rank 16", "`lora_rank`, an argument of a fork"),
        ("--use-megatron-fsdp", "Megatron's FSDP"),
        ("--rm-url a # SLIME_BACKEND=veomni", "the backend that `SLIME_BACKEND` names"),
    ],
)
def test_what_a_fork_keeps_otherwise_has_no_bound(arguments: str, said: str) -> None:
    found = estimate(launched(f"{WHOLE} {arguments}"))
    assert found.allocated_low_bytes is None and said in found.unknown[0].reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"{WHOLE} --kl-coef 0.1 --kl-loss-coef 0.1", "`--kl-coef` and `--kl-loss-coef` are both given"),
        (f"{WHOLE} --advantage-estimator reinforce_plus_plus", "this estimator needs `--normalize-advantages`"),
        (without("max-tokens-per-gpu"), "dynamic batches need `--max-tokens-per-gpu`"),
        (without("ref-load"), "a reference needs a checkpoint"),
        (without("num-rollout"), "nobody says how long to train"),
        (without("rollout-batch-size"), "`--rollout-batch-size` is required"),
        (without("colocate"), "the engines have no GPUs"),
        (f"{WHOLE} --eval-interval 20", "evaluation needs data"),
        (f"{WHOLE} --over-sampling-batch-size 16", "it is less than `--rollout-batch-size`"),
        (f"{WHOLE} --use-tis --use-rollout-logprobs", "`--use-tis` and `--use-rollout-logprobs` exclude each other"),
        (f"{WHOLE} --get-mismatch-metrics", "these metrics need"),
        (f"{WHOLE} --enable-mtp-training", "it needs `--mtp-num-layers`"),
        (f"{WHOLE} --freeze-params-name-list a --only-train-params-name-list b", "only one of it"),
        (f"{WHOLE} --use-opd", "it needs `--opd-type`"),
        (f"{WHOLE} --use-opd --opd-type megatron", "a teacher under Megatron-LM needs"),
        (
            f"{WHOLE} --use-opd --opd-type sglang --opd-teacher-load /t",
            "with `opd_type sglang` a server has the teacher",
        ),
        (f"{WHOLE} --opd-teacher-load /t", "it needs `--use-opd`"),
        (f"{WHOLE} --debug-train-only --debug-rollout-only", "`--debug-rollout-only` and `--debug-train-only` exclude"),
        (f"{WHOLE} --update-weight-mode delta", "differences of weights are not sent"),
        (f"{without('use-dynamic-batch-size')} --balance-by-flops", "it needs `--use-dynamic-batch-size`"),
        (f"{WHOLE} --sglang-config a.yaml --prefill-num-servers 1", "the file says which engines prefill"),
        (f"{WHOLE} --prefill-num-servers 1 --rollout-external-engine-addrs a:1", "engines elsewhere are as they are"),
        (f"{WHOLE} --release-train --advantage-estimator ppo --save /s", "it trains no critic"),
        (f"{WHOLE} --release-train --keep-old-actor --save /s", "it keeps no older policy"),
        (f"{WHOLE} --release-train", "the next policy is loaded from `--save`"),
        (f"{without('num-rollout')} --num-epoch 2 --disable-rollout-global-dataset", "epochs are those of the global"),
        (f"{WHOLE} --eval-prompt-data aime /a.jsonl math", "in pairs"),
        (f"{WHOLE} --sglang-dp-size 2", "copies within an engine need"),
        (f"{WHOLE} --num-steps-per-rollout 2", "256 sequences in 2 updates are not 256 in each"),
        (f"{WHOLE} --tensor-model-parallel-size 3", "32 attention heads cannot be divided evenly among 3 ranks"),
        (f"{WHOLE} --context-parallel-size 3", "8 GPUs are no multiple of the 6"),
        (
            f"{WHOLE} --global-batch-size 6",
            "6 sequences are no multiple of micro batches of 1 on 4 data-parallel ranks",
        ),
        (f"{WHOLE} --kl-loss-type low_var_kl5", "the string 'low_var_kl5'"),
        (f"{WHOLE} --rollout-batch-size many", "the string 'many'"),
    ],
)
def test_what_slime_refuses(arguments: str, message: str) -> None:
    assert any(message in one for one in refused(arguments)), refused(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        WHOLE,
        f"{WHOLE} --normalize-advantages --advantage-estimator reinforce_plus_plus",
        f"{WHOLE} --eval-interval 20 --eval-prompt-data aime /a.jsonl --save-interval 20",
        f"{WHOLE} --num-steps-per-rollout 1 --num-epoch 2",
        f"{without('use-kl-loss', without('ref-load'))}",
        f"{without('colocate')} --debug-train-only",
        f"{without('max-tokens-per-gpu')} $OTHERS",  # somebody may give it
        f"{WHOLE} --use-dynamic-batch-size enable",
        f"{WHOLE} --use-dynamic-batch-size True",  # a word behind a switch is passed over
        f"{WHOLE} --use-tis --use-rollout-logprobs --custom-config-path own.yaml",  # which may say it again
        f"{WHOLE} --use-tis --use-rollout-logprobs --an-argument-of-a-fork 3",
        f"{WHOLE} --sglang-a-new-option 3 --router-policy x",
    ],
)
def test_what_runs_or_is_not_known_has_no_error(arguments: str) -> None:
    assert refused(arguments) == []


@pytest.mark.parametrize(
    ("arguments", "since"),
    [
        ("--save-interval 20", "0.2 or newer"),
        ("--rollout-max-context-len 2048 --rollout-max-prompt-len 2048", "0.2.2"),
        ("--decoder-last-pipeline-num-layers 3", "0.2.2"),
        ("--sglang-pp-size 3", "0.3 or newer"),
        ("--qkv-format bshd", "0.2.2 or newer, and older than 0.3.1"),
    ],
)
def test_what_some_releases_refuse_is_a_warning(arguments: str, since: str) -> None:
    found = [one for one in analysed(f"{WHOLE} {arguments}").findings if since in one.where]
    assert [one.severity for one in found] == ["warning"]


def test_train_async_needs_gpus_of_its_own_for_engines() -> None:
    assert any("train_async.py" in one for one in refused(WHOLE, "train_async.py"))


def test_a_copy_checks_what_it_has_a_function_for() -> None:
    both = f"{WHOLE} --use-tis --use-rollout-logprobs"
    own, path = "def slime_validate_args(args): ...\n", "slime/utils/arguments.py"
    assert refused(both, files={path: own}) and not refused(both, files={path: "def parse(): ...\n"})
    made_of_it = {"train.py": "from miles.utils.arguments import parse_args\n", "miles/utils/arguments.py": own}
    assert not refused(both, files=made_of_it)


def test_a_missing_switch_is_added() -> None:
    (finding,) = [one for one in analysed(f"{WHOLE} --advantage-estimator reinforce_plus_plus").findings if one.fixes]
    assert any(edit.value is True for fix in finding.fixes for edit in fix.edits)


def test_a_misspelled_flag_is_passed_over() -> None:
    found = analysed(f"{WHOLE} --log-prob-chunk-size 1024").findings
    (one,) = [one for one in found if "log" in one.message]
    assert one.severity == "warning" and "slime passes over it" in one.message


def test_arguments_of_another_model_are_told() -> None:
    found = analysed(f"{WHOLE} --hidden-size 4096 --kv-channels 128").findings
    (one,) = [one for one in found if "checkpoint's" in one.message]
    assert (one.severity, one.where) == ("warning", "`/root/Qwen3-4B` is the model of that name")
    named = f"{WHOLE} --hidden-size 4096 --hf-checkpoint Qwen/Qwen3-4B"
    assert any("4096 is not the checkpoint's hidden_size (2560)" in one for one in refused(named))


def test_no_change_is_written_where_a_bound_alone_is_known() -> None:
    parsed = slime.parse(document({"num_layers": 24}), in_memory({}).context())
    assert slime.edits(parsed, run_of(parsed), {"batch.micro_batch_size": 1}) is None


def test_behaviours_have_sources() -> None:
    assert all(one.source for one in (*ALWAYS, *FSDP, *MEGATRON))


def test_the_example_is_read() -> None:
    workspace = in_memory({"run.sh": EXAMPLE.read_text(encoding="utf-8")})
    (found,) = workspace.documents("run.sh")
    result = analyse(found, workspace.context(), ())
    assert not [one for one in result.findings if one.severity == "error"]
    assert estimate(run_of(result)).allocated_low_bytes


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from([key.name for key in KEYS]), ANYTHING, max_size=8))
def test_any_value_is_read(value: dict[str, Any]) -> None:
    slime.parse(document(value), in_memory({}).context())
