"""Megatron-LM's commands: the model that they describe, GPUs and batch, the least of a stage, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures.model import parameters
from memlint.formats import recognise
from memlint.formats.megatron import format as megatron
from memlint.formats.megatron.engine import COMMON
from memlint.formats.megatron.keys import KEYS
from memlint.formats.schema.validate import compiled_schema
from memlint.memory.estimate import estimate
from memlint.repository.scripts.files import Repository
from memlint.repository.scripts.read import documents
from memlint.run import UNKNOWN, Run, get
from memlint.source.document import Document
from tests.formats.frameworks import ANYTHING, codes, context, document, run_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "megatron" / "gpt_8b.sh"
SIZES = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024"
GPT = f"{SIZES} --micro-batch-size 4 --vocab-size 50257"
# Released models whose sizes stand in Megatron-LM's own words.
LLAMA = (
    "--hidden-size 4096 --num-attention-heads 32 --swiglu --normalization RMSNorm --position-embedding-type rope "
    "--disable-bias-linear --untie-embeddings-and-output-weights --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 1 --bf16 --make-vocab-size-divisible-by 1"
)
LLAMA_3 = f"{LLAMA} --num-layers 32 --ffn-hidden-size 14336 --group-query-attention --num-query-groups 8"


def launches(text: str) -> tuple[Document, ...]:
    repository = Repository("/repo", lambda path: None, lambda path, kind: None, lambda name, folder: None, {})
    return documents("/repo/run.sh", text, repository)


def parsed_of(text: str) -> Any:
    (found,) = launches(text)
    assert found.start is not None and found.start.format == "megatron"
    machine = found.start.machine
    known: dict[str, Any] = {"gpus": machine.gpus, "gpus_per_node": machine.gpus_per_node} if machine.gpus else {}
    return megatron.parse(found, context(**known))


def command(arguments: str, gpus: int = 8, nodes: int = 1) -> str:
    return f"torchrun --nproc_per_node {gpus} --nnodes {nodes} pretrain_gpt.py {arguments}\n"


def launched(arguments: str, gpus: int = 8, nodes: int = 1) -> Run:
    return run_of(parsed_of(command(arguments, gpus, nodes)))


def refused(arguments: str, gpus: int = 8, nodes: int = 1) -> list[str]:
    return [issue.message for issue in parsed_of(command(arguments, gpus, nodes)).issues]


@pytest.mark.parametrize(
    "text",
    [
        command(GPT),
        f"python -m torch.distributed.launch --nproc_per_node 8 Megatron-LM/pretrain_gpt.py {GPT}\n",
        f'GPT_ARGS="{GPT}"\ntorchrun --nproc_per_node 8 $ROOT/pretrain_gpt.py $GPT_ARGS --lr 1e-4\n',
        f"A=(\n  {GPT}\n)\nB=(--nproc_per_node 8)\ntorchrun ${{B[@]}} pretrain_gpt.py ${{A[@]}}\n",
        f'options=" {GPT} "\nrun="python -u pretrain_gpt.py $@ ${{options}}"\nsrun -n 8 sh -c "${{run}}"\n',
    ],
)
def test_a_launch_is_read_however_it_is_started(text: str) -> None:
    run = run_of(parsed_of(text))
    assert (run.stack.framework, run.parallelism.engine, run.method.stage) == ("megatron", "megatron", "pt")
    assert (run.batch.micro_batch_size, run.sequence.length) == (4, 1024)


@pytest.mark.parametrize(
    "text",
    [
        f"deepspeed pretrain_gpt.py {GPT} --lr 1e-4\n",
        command(f"{GPT} --lr 1e-4 --zero-stage 1"),
        command(f"{GPT} --lr 1e-4 --deepspeed --deepspeed_config ds.json"),
        "torchrun --nproc_per_node 8 pretrain_bert.py --num-layers 24 --hidden-size 1024 --lr 1e-4 --seq-length 512\n",
    ],
)
def test_other_programs_are_not_read(text: str) -> None:
    assert all(found.start is None or found.start.format != "megatron" for found in launches(text))


def test_a_mapping_alone_is_no_command() -> None:
    assert recognise(document({"num_layers": 24, "hidden_size": 1024, "num_attention_heads": 16})) is None


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        # GPT-2 medium: 354,823,168, and 47 rows of padding.
        (f"{GPT}", 354_823_168 + 47 * 1024),
        # Llama 2 7B, Llama 3 8B, Mixtral 8x7B and Qwen2.5 7B as published.
        (f"{LLAMA} --num-layers 32 --ffn-hidden-size 11008 --vocab-size 32000", 6_738_415_616),
        (f"{LLAMA_3} --vocab-size 128256", 8_030_261_248),
        (f"{LLAMA_3} --vocab-size 32000 --num-experts 8 --moe-router-topk 2", 46_702_792_704),
        (
            f"{LLAMA} --num-layers 28 --hidden-size 3584 --num-attention-heads 28 --ffn-hidden-size 18944 "
            "--group-query-attention --num-query-groups 4 --add-qkv-bias --vocab-size 152064",
            7_615_616_512,
        ),
    ],
)
def test_the_model_has_the_parameters_of_the_released_one(arguments: str, count: int) -> None:
    assert parameters(launched(arguments).model.architecture) == count


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ("--vocab-size 50257", 50304),
        ("--vocab-size 50257 --tensor-model-parallel-size 8", 51200),
        ("--vocab-size 32000 --make-vocab-size-divisible-by 1", 32000),
        ("--vocab-file data/gpt2-vocab.json", 50304),
        ("--vocab-file data/gpt2-vocab.json --tokenizer-type SentencePieceTokenizer", 0),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model a/b", 0),
        ("--padded-vocab-size 151936", 151936),
    ],
)
def test_the_vocabulary_is_padded_or_not_known(arguments: str, rows: int) -> None:
    assert launched(f"{SIZES} --micro-batch-size 4 {arguments}").model.architecture.vocab_size == rows


def test_without_a_vocabulary_there_is_a_bound_and_no_count() -> None:
    found = estimate(launched(f"{SIZES} --micro-batch-size 4 --bf16"))
    assert found.parameters is None and found.allocated_low_bytes
    assert "the vocabulary's size is not known" in found.unknown[0].reason


@pytest.mark.parametrize(
    ("pattern", "sparse"),
    [
        ("1", 24),
        ("2", 12),
        ("'([0]*1+[1]*23)'", 23),
        ("'[0]*3+[1]*21'", 21),
        ("'([0,1])*12'", 12),
    ],
)
def test_layers_with_experts_follow_a_pattern(pattern: str, sparse: int) -> None:
    run = launched(f"{GPT} --num-experts 8 --moe-ffn-hidden-size 512 --moe-layer-freq {pattern}")
    assert sum(run.model.architecture.layer_type_ids) == sparse


@pytest.mark.parametrize(
    "arguments",
    [
        "--use-checkpoint-args",
        "--multi-latent-attention",
        "--mtp-num-layers 1",
        "--num-experts 8 --moe-layer-freq '[1]*7'",
        "--num-experts $EXPERTS",
        "--spec my.module spec",
    ],
)
def test_a_model_that_arguments_do_not_describe_is_unknown(arguments: str) -> None:
    run = launched(f"{GPT} {arguments}")
    assert run.model.architecture is UNKNOWN
    assert run.origins["model.architecture"].detail
    assert estimate(run).allocated_low_bytes is None


@pytest.mark.parametrize(
    ("arguments", "nodes", "fields"),
    [
        ("", 1, {"parallelism.world_size": 8, "parallelism.data_parallel_size": 8}),
        ("--tensor-model-parallel-size 2", 2, {"parallelism.data_parallel_size": 8}),
        (
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2",
            2,
            {"parallelism.data_parallel_size": 2, "parallelism.context_parallel_size": 2},
        ),
        ("", 1, {"batch.gradient_accumulation_steps": 1}),
        ("--global-batch-size 256", 1, {"batch.gradient_accumulation_steps": 8}),
        ("--global-batch-size $GLOBAL", 1, {"batch.gradient_accumulation_steps": UNKNOWN}),
        ("--tensor-model-parallel-size $TP", 1, {"parallelism.data_parallel_size": UNKNOWN}),
        # One machine of several: their number is to be filled in.
        ("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4", 1, {"parallelism.world_size": UNKNOWN}),
        ("", 1, {"precision.compute": "float32", "precision.grad_dtype": "float32"}),
        ("--bf16", 1, {"precision.compute": "bfloat16", "precision.grad_dtype": "float32"}),
        ("--bf16 --grad-reduce-in-bf16", 1, {"precision.grad_dtype": "bfloat16"}),
        ("--fp16", 1, {"precision.compute": "float16", "precision.grad_dtype": "float16"}),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", 1, {"precision.grad_dtype": "float32"}),
        ("--bf16 --fp8-format hybrid --fp8-param-gather", 1, {"model.weights_dtype": "float8"}),
        ("", 1, {"optimizer.name": "adamw_torch", "parallelism.replicates_optimizer": True}),
        ("--use-distributed-optimizer", 1, {"parallelism.replicates_optimizer": False}),
        ("--optimizer sgd", 1, {"optimizer.name": "sgd"}),
        (
            "--use-precision-aware-optimizer",
            1,
            {"optimizer.name": "adamw_torch", "optimizer.state_dtype": "float32", "precision.master_dtype": "float16"},
        ),
        (
            "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
            1,
            {"optimizer.name": "adamw_torch", "optimizer.state_dtype": "bfloat16"},
        ),
        ("--use-precision-aware-optimizer --exp-avg-dtype fp8", 1, {"optimizer.name": UNKNOWN}),
        ("--exp-avg-dtype bf16", 1, {"optimizer.state_dtype": "float32", "precision.master_dtype": "float32"}),
        (
            "--pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 3 --expert-tensor-parallel-size 1",
            1,
            {
                "parallelism.first_stage_layers": 0,
                "parallelism.last_stage_layers": 3,
                "parallelism.expert_tensor_parallel_size": 1,
            },
        ),
        ("--optimizer-cpu-offload --optimizer-offload-fraction 0.5", 1, {"offload.optimizer_ratio": 0.5}),
        ("--cpu-offloading-num-layers 4", 1, {"offload.activations": "cpu"}),
        ("", 1, {"checkpointing.mode": "none"}),
        ("--recompute-activations", 1, {"checkpointing.mode": "selective"}),
        ("--recompute-granularity selective", 1, {"checkpointing.mode": "selective"}),
        (
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
            1,
            {"checkpointing.mode": "full", "checkpointing.every": 4},
        ),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 4",
            1,
            {"checkpointing.every": 1},
        ),
        ("--checkpoint-activations", 1, {"checkpointing.mode": "full"}),
        (
            "--activations-checkpoint-method uniform --activations-checkpoint-num-layers 2",
            1,
            {"checkpointing.mode": "full", "checkpointing.every": 2},
        ),
    ],
)
def test_what_an_argument_means(arguments: str, nodes: int, fields: dict[str, Any]) -> None:
    run = launched(f"{GPT} {arguments}", nodes=nodes)
    assert {field: get(run, field) for field in fields} == fields


# docs/user-guide/features/dist_optimizer.md, by data-parallel ranks d. Of 20 bytes in fp16, 4 are gradients that the
# optimizer step copies to fp32, which a bound before the step does not have.
@pytest.mark.parametrize(
    ("arguments", "each"),
    [
        ("--bf16", 18.0),
        ("--bf16 --use-distributed-optimizer", 6 + 12 / 8),
        ("", 16.0),
        ("--use-distributed-optimizer", 8 + 8 / 8),
        ("--fp16", 20.0 - 4),
        ("--fp16 --use-distributed-optimizer", 4 + 12 / 8),
    ],
)
def test_bytes_of_a_parameter_are_those_of_its_documentation(arguments: str, each: float) -> None:
    run = launched(f"{GPT} {arguments}")
    found = estimate(run).details
    held = sum(found[f"{name}_bytes"] for name in ("weights", "gradients", "optimizer_state"))
    assert held / parameters(run.model.architecture) == pytest.approx(each, rel=1e-4)


def kept_inputs(arguments: str) -> int:
    return int(estimate(launched(f"{GPT} --bf16 {arguments}")).details["kept_activations_bytes"])


def test_a_group_of_layers_keeps_one_input() -> None:
    uniform = "--recompute-granularity full --recompute-method uniform --recompute-num-layers"
    one = 4 * 1024 * 1024 * 2
    assert kept_inputs("") == kept_inputs(f"{uniform} 1") == 24 * one
    assert kept_inputs(f"{uniform} 4") == 6 * one
    assert kept_inputs("--cpu-offloading-num-layers 24") == 0
    # How many layers a group has is not known: all of them at most.
    assert kept_inputs(f"{uniform} $N") == one


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--use-megatron-fsdp", "Megatron's FSDP"),
        ("--skip-train", "evaluation alone"),
        (
            "--pipeline-model-parallel-layout Et*11|t*13L --pipeline-model-parallel-size 2",
            "different numbers of layers",
        ),
        ("--swap-attention --num-layers 23", "a fork of Megatron-LM"),
    ],
)
def test_what_keeps_less_than_the_bound_has_none(arguments: str, reason: str) -> None:
    found = estimate(launched(f"{GPT} {arguments}"))
    assert found.allocated_low_bytes is None
    assert reason in found.unknown[0].reason


@pytest.mark.parametrize(
    ("arguments", "gpus", "message"),
    [
        ("--tensor-model-parallel-size 3", 6, "16 attention heads cannot be divided evenly among 3 ranks"),
        ("--pipeline-model-parallel-size 5", 5, "24 layers cannot be divided evenly among 5 pipeline stages"),
        ("--num-attention-heads 15", 8, "1024 channels cannot be divided evenly among 15 attention heads"),
        ("--seq-length 2048", 8, "sequences of 2048 tokens have no more than 1024 positions"),
        ("--tensor-model-parallel-size 4", 6, "6 GPUs are no multiple of the 4"),
        ("--tensor-model-parallel-size 4", 3, "3 GPUs are no multiple of the 4"),
        ("--global-batch-size 100", 8, "100 sequences are no multiple of micro batches of 4 on 8 data-parallel ranks"),
        ("--fp16 --bf16", 8, "`fp16` and `bf16` are both given"),
    ],
)
def test_what_it_refuses_is_told(arguments: str, gpus: int, message: str) -> None:
    (found,) = refused(f"{GPT} {arguments}", gpus)
    assert found.startswith(message) and found.endswith("Megatron-LM refuses to start")


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        ("--sequence-parallel", 8),  # switched off without tensor parallelism (training/arguments.py:1385)
        ("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4", 8),  # one machine of several
        ("--global-batch-size 100 --rampup-batch-size 4 4 1000", 8),
        ("--hidden-size 1000 --kv-channels 64", 8),
        ("--pipeline-model-parallel-size 5 --decoder-first-pipeline-num-layers 4", 5),
        ("--pipeline-model-parallel-size 5 --a-forks-own-layout", 5),
        ("--pipeline-model-parallel-size $PP --global-batch-size $GBS --tensor-model-parallel-size $TP", 6),
    ],
)
def test_what_runs_or_is_not_known_has_no_issue(arguments: str, gpus: int) -> None:
    assert refused(f"{GPT} {arguments}", gpus) == []


def test_text_in_place_of_a_number() -> None:
    assert codes(parsed_of(command(f"{GPT} --micro-batch-size four"))) == ["wrong-type"]


def test_the_example_has_the_least_of_its_first_stage() -> None:
    run = run_of(parsed_of(EXAMPLE.read_text(encoding="utf-8")))
    assert parameters(run.model.architecture) == 8_030_261_248
    found = estimate(run)
    assert (run.parallelism.data_parallel_size, run.batch.gradient_accumulation_steps) == (2, 16)
    # 8 layers of 218,112,000 parameters and the embedding of 128,256 x 4096, between two ranks: bf16, fp32 gradients.
    weights = (8 * 218_103_808 + 128_256 * 4096) // 2
    assert found.details["gradients_bytes"] == pytest.approx(4 * weights, rel=1e-3)
    assert found.details["optimizer_state_bytes"] == pytest.approx(12 * weights / 2, rel=1e-3)


def test_no_change_is_written() -> None:
    parsed = parsed_of(command(GPT))
    assert megatron.edits(parsed, run_of(parsed), {"batch.micro_batch_size": 1}) is None


def test_every_argument_of_the_table_is_one_of_a_release() -> None:
    known = compiled_schema("megatron.json").schema["properties"]
    assert [row.name for row in KEYS if row.name not in known and row.name != "padded_vocab_size"] == []
    assert all(one.source for one in COMMON)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([row.name for row in KEYS]), ANYTHING))
def test_any_value_is_read(value: dict[str, Any]) -> None:
    parsed = megatron.parse(document(value), context())
    for run in parsed.runs:
        estimate(run)


def test_a_misspelled_flag_makes_no_fork() -> None:
    (found,) = refused(f"{GPT} --attention-dropuot 0.1")
    assert found == "unknown key `attention_dropuot`: did you mean `attention_dropout`?"
    assert refused(f"{GPT} --attention-dropuot 0.1 --a-forks-own-layout") == []


def test_python_starts_one_process_on_whatever_machine() -> None:
    (found,) = launches(f"python pretrain_gpt.py {GPT} --global-batch-size 8\n")
    assert megatron.parse(found, context(gpus=8, gpus_per_node=8)).issues == ()
    assert refused(f"{GPT} --global-batch-size 8")
