"""Launches as documents: values by key, places in the script, GPUs, the format that reads them, edits of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.hardware.catalog import find
from memlint.repository.scripts.evaluation import only_evaluates
from memlint.repository.workspace import in_memory, on_disk
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN, get
from memlint.source.document import Document

FLAGS = "--model_name_or_path Qwen/Qwen2.5-7B --learning_rate 1e-5 --output_dir out --num_train_epochs 1 --bf16 True"


def documents(text: str, path: str = "train.sh", files: Mapping[str, str] | None = None) -> tuple[Document, ...]:
    return in_memory({path: text, **(files or {})}).documents(path)


def one(text: str, path: str = "train.sh", files: Mapping[str, str] | None = None) -> Document:
    found = documents(text, path, files)
    assert len(found) == 1
    return found[0]


def analysed(text: str, files: Mapping[str, str] | None = None, **facts: Any) -> Analysis:
    workspace = in_memory({"train.sh": text, **(files or {})})
    return Engine(tuple(shipped())).analyse(workspace.documents("train.sh")[0], workspace.context(**facts))


@pytest.mark.parametrize("launcher", ["/env/bin/torchrun", "$(which torchrun)", "`which torchrun`"])
def test_python_may_be_given_the_file_of_a_launcher(launcher: str) -> None:
    document = one(f"python {launcher} --nnodes 1 --nproc_per_node 2 --master_port 29500 train.py {FLAGS}\n")

    assert not {"nnodes", "nproc_per_node", "master_port"} & document.value.keys()
    assert document.start is not None
    assert (document.start.launcher, document.start.machine.gpus) == ("torchrun", 2)


def test_the_folder_of_this_machine_is_left_out_of_what_the_repository_lacks(tmp_path: Path) -> None:
    tmp_path.joinpath("ds.json").write_text("{}", "utf-8")
    script = 'ROOT="$(cd "$(dirname "$0")" && pwd)"\npython train.py --model_name_or_path $ROOT/models/mine'
    tmp_path.joinpath("train.sh").write_text(
        f"{script} --deepspeed $ROOT/ds.json --output_dir o --bf16 True --learning_rate 1e-5\n"
    )

    (document,) = on_disk(str(tmp_path), str(tmp_path)).documents("train.sh")

    assert document.value["model_name_or_path"] == "models/mine"
    assert document.value["deepspeed"] == f"{tmp_path}/ds.json"


def test_flags_are_keys_with_places() -> None:
    text = f"BATCH=4\ntorchrun --nproc_per_node 2 train.py {FLAGS} --per_device_train_batch_size $BATCH\n"
    document = one(text)

    assert document.value["per_device_train_batch_size"] == 4
    assert document.value["learning_rate"] == 1e-5
    assert document.value["bf16"] is True
    place = document.places[("per_device_train_batch_size",)]
    assert place.key is not None and text[place.key.start : place.key.end] == "--per_device_train_batch_size"
    assert (text[place.value.start : place.value.end], place.value.line) == ("$BATCH", 2)


@pytest.mark.parametrize("held", ["$EXTRA", "${EXTRA[@]}", '"$@"', "$(cat options.txt)"])
def test_what_a_variable_holds_behind_an_options_value_is_not_of_that_value(held: str) -> None:
    """An option of one value that is known has it; the words behind it may be further options."""
    command = f"torchrun train.py {FLAGS} --attn_implementation eager {held} --logging_steps 10"
    assert one(command).value["attn_implementation"] == "eager"
    assert "CFG002" not in [found.rule for found in analysed(command).findings]


def test_a_run_is_read_by_the_formats_own_table() -> None:
    run = analysed(f"torchrun --nproc_per_node 2 --nnodes 2 train.py {FLAGS} --per_device_train_batch_size 3").runs[0]

    assert run.batch.micro_batch_size == 3
    assert run.precision.compute == "bfloat16"
    assert (run.parallelism.world_size, run.parallelism.gpus_per_node) == (4, 2)
    assert run.origins["batch.micro_batch_size"].line == 1


def test_what_an_argument_gives_is_unknown_with_its_reason() -> None:
    run = analysed(f"python train.py {FLAGS} --per_device_train_batch_size $1").runs[0]

    assert run.batch.micro_batch_size is UNKNOWN
    assert run.origins["batch.micro_batch_size"].detail == "argument $1 of the script"


def test_accumulation_follows_the_gpus_that_are_asked_about() -> None:
    text = f"N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node $N train.py {FLAGS} "
    text += "--per_device_train_batch_size 2 --gradient_accumulation_steps $((64 / 2 / N))"

    assert analysed(text, gpus=8).runs[0].batch.gradient_accumulation_steps == 4
    assert analysed(text, gpus=4).runs[0].batch.gradient_accumulation_steps == 8
    assert analysed(text).runs[0].batch.gradient_accumulation_steps is UNKNOWN


LLAMA_FACTORY = "--stage sft --do_train --model_name_or_path a/b --finetuning_type lora --template qwen --output_dir o"
JOB_HEADER = "#SBATCH --gres=gpu:a100:4\n#SBATCH --nodes=2\n"
GPUS = {
    f"torchrun --nproc_per_node=8 --nnodes 2 train.py {FLAGS}": (16, 8),
    f"deepspeed --include localhost:0,1,2 train.py {FLAGS}": (3, 3),
    f"deepspeed --num_gpus 4 train.py {FLAGS}": (4, 4),
    f"accelerate launch --num_processes 8 --num_machines 2 train.py {FLAGS}": (8, 4),
    f"CUDA_VISIBLE_DEVICES=1,3 deepspeed train.py {FLAGS}": (2, 2),
    f"{JOB_HEADER}torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu train.py {FLAGS}": (8, 4),
    f"#SBATCH --gpus-per-node=2\n#SBATCH -N 1\npython train.py {FLAGS}": (2, 2),
    f"#SBATCH --gres=gpu:a40\ntorchrun --nproc_per_node gpu train.py {FLAGS}": (1, 1),
    f"runai submit --name a -g 2 --image b -- torchrun --nproc_per_node gpu train.py {FLAGS}": (2, 2),
    f"runai submit --gpu=4 -- bash -c 'torchrun --nproc_per_node gpu train.py {FLAGS}'": (4, 4),
    f"runai submit -g 0.5 -- torchrun --nproc_per_node gpu train.py {FLAGS}": (0, 0),
    f"torchrun --nproc_per_node 8 --nnodes $WORLD_SIZE train.py {FLAGS}": (0, 8),
    f"deepspeed train.py {FLAGS}": (0, 0),
    f"FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train {LLAMA_FACTORY}": (0, 0),
    f"FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train {LLAMA_FACTORY}": (8, 4),
    f"FORCE_TORCHRUN=1 NNODES=2 CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train {LLAMA_FACTORY}": (4, 2),
    f"{JOB_HEADER}FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train {LLAMA_FACTORY}": (8, 4),
}


@pytest.mark.parametrize("text", GPUS)
def test_the_gpus_of_a_command(text: str) -> None:
    start = one(text).start

    assert start is not None and (start.machine.gpus, start.machine.gpus_per_node) == GPUS[text]


@pytest.mark.parametrize(
    ("visible", "processes", "gpus"),
    [("0,1,2,3,4,5,6", 5, 5), ("0,1", 8, 2), ("0,1,2", 3, 3)],
)
def test_accelerate_starts_the_processes_of_its_file_on_the_visible_devices(
    visible: str, processes: int, gpus: int
) -> None:
    text = f"CUDA_VISIBLE_DEVICES={visible} accelerate launch --config_file ddp.yaml train.py {FLAGS}"
    files = {"ddp.yaml": f"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: {processes}"}
    start = one(text, files=files).start

    assert start is not None and (start.machine.gpus, start.machine.gpus_per_node) == (gpus, gpus)


PACKAGE = {
    "train.py": """
import argparse
from own import SupervisedTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--model_name")
parser.add_argument("--batch_size", type=int)
args = parser.parse_args()
SupervisedTrainer(args).train()
""",
    "own/__init__.py": """
from .groups import GroupsTrainer
from .supervised import SupervisedTrainer
__all__ = ["GroupsTrainer", "SupervisedTrainer"]
""",
    "own/groups.py": """
from trl import GRPOConfig
class GroupsTrainer:
    def __init__(self, args):
        self.config = GRPOConfig(per_device_train_batch_size=args.rollouts, num_generations=args.group, fp16=True)
""",
    "own/supervised.py": """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
class SupervisedTrainer(Trainer):
    def __init__(self, args):
        model = AutoModelForCausalLM.from_pretrained(args.model_name)
        super().__init__(model=model, args=TrainingArguments(per_device_train_batch_size=args.batch_size, bf16=True))
""",
}


def test_a_program_has_the_arguments_of_the_trainer_that_it_makes_alone() -> None:
    """Its package imports those of all stages, and offers them in `__all__`."""
    run = analysed("python train.py --model_name Qwen/Qwen2.5-7B --batch_size 2", PACKAGE).runs[0]

    assert (run.method.stage, run.batch.micro_batch_size, run.precision.compute) == ("sft", 2, "bfloat16")


def test_a_program_that_only_a_variable_names_says_what_trains() -> None:
    """Kentakoong/optimize-finetuning-llm exports the name of a program with an adapter, or of one without."""
    files = {"scripts/train.py": "", "scripts/train_all.py": ""}
    run = analysed(f"accelerate launch $HOME_OF_IT/scripts/$NAME {FLAGS}", files).runs[0]
    assert run.method.kind is UNKNOWN and "which program" in run.origins["method.kind"].detail
    assert analysed(f"accelerate launch $HOME_OF_IT/scripts/run_clm.py {FLAGS}", files).runs[0].method.kind == "full"
    assert analysed(f"accelerate launch scripts/$NAME {FLAGS} --use_peft", files).runs[0].method.kind == "lora"


def test_accelerates_own_options_are_a_launch_file() -> None:
    options = "--num_processes 8 --mixed_precision bf16 --use_deepspeed --zero_stage 3"
    run = analysed(f"accelerate launch {options} train.py {FLAGS.replace('--bf16 True', '')}").runs[0]

    assert (run.parallelism.engine, run.parallelism.zero.stage) == ("deepspeed", 3)
    assert (run.precision.compute, run.parallelism.world_size) == ("bfloat16", 8)


def test_the_ids_of_a_command_are_text() -> None:
    found = analysed(f"accelerate launch --gpu_ids 0 --num_processes 1 train.py {FLAGS}").findings
    assert "ACC004" not in [one.rule for one in found]
    file = {"a.yaml": "distributed_type: 'NO'\nnum_processes: 1\ngpu_ids: 0\n"}
    found = analysed(f"accelerate launch --config_file a.yaml --gpu_ids 0 train.py {FLAGS}", file).findings
    assert "ACC004" not in [one.rule for one in found]


@pytest.mark.parametrize(("option", "found"), [("--mixed_precision bf16", 0), ("--num_machines 1", 1)])
def test_accelerate_holds_the_launch_file_against_itself_and_no_option(option: str, found: int) -> None:
    launch = "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n"
    files = {"a.yaml": f"{launch}deepspeed_config: {{deepspeed_config_file: z.json}}\n", "z.json": '{"bf16": {}}'}
    text = f"accelerate launch --config_file a.yaml {option} train.py {FLAGS}"
    assert sum("may not stand beside" in one.message for one in analysed(text, files).findings) == found


def test_what_a_launch_file_says_is_told_in_that_file() -> None:
    launch = "distributed_type: DEEPSPEED\nnum_processes: 8\n"
    zero = "deepspeed_config: {zero_stage: 2, offload_param_device: cpu}\n"
    text = f"accelerate launch --config_file a.yaml --num_processes 4 train.py {FLAGS}"
    found = analysed(text, {"a.yaml": launch + zero}).findings
    assert {one.location.path for one in found if one.rule == "CFG009"} == {"a.yaml"}


def test_a_file_that_the_script_writes_takes_part() -> None:
    written = 'cat > ds.json <<EOF\n{"zero_optimization": {"stage": 2}}\nEOF\n'
    text = f"{written}deepspeed train.py {FLAGS} --deepspeed ds.json"

    assert analysed(text).runs[0].parallelism.zero.stage == 2


def test_a_part_of_a_written_file_that_is_not_known_hides_no_other_part() -> None:
    sizes = '"train_batch_size": ${SIZE}, "gradient_clipping": $((N * 2))'
    written = (
        f'SIZE=$(nvidia-smi -L | wc -l)\ncat > ds.json <<EOF\n{{"zero_optimization": {{"stage": 2}}, {sizes}}}\nEOF\n'
    )
    found = analysed(f"{written}deepspeed train.py {FLAGS} --deepspeed ds.json")
    assert found.runs[0].parallelism.zero.stage == 2
    assert not [one.rule for one in found.findings if one.severity == "error"]


def test_of_a_written_file_that_is_not_known_at_all_nothing_is_said() -> None:
    """A template goes through sed, and nobody sees what comes out of it."""
    written = "sed 's/ENABLED/true/' templates/ds.json > ds.json\n"
    found = analysed(f"{written}deepspeed train.py {FLAGS} --deepspeed ds.json")
    assert not [one.message for one in found.findings if one.severity == "error"]
    assert "what the script writes into `ds.json`" in found.runs[0].origins["parallelism.zero.stage"].detail


def test_programs_of_frameworks() -> None:
    trl = one("trl dpo --model_name_or_path Qwen/Qwen2.5-7B --dataset_name a/b")
    factory = one("llamafactory-cli train --stage sft --finetuning_type lora --model_name_or_path a/b --template qwen")
    swift = one("NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --dataset a --torch_dtype bfloat16 --lora_rank 32")

    assert trl.start is not None and (trl.start.format, trl.start.program.task) == ("trainer", "dpo")
    assert factory.start is not None and factory.start.format == "llamafactory"
    assert swift.start is not None and (swift.start.program.framework, swift.start.machine.gpus) == ("swift", 4)
    assert (swift.value["lora_rank"], swift.value["ENV"]) == (32, {"NPROC_PER_NODE": 4})


ARGPARSE = """
import argparse
from trl import SFTConfig, SFTTrainer
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
p.add_argument("--bs", type=int, default=2)
p.add_argument("--accum", type=int, default=8)
p.add_argument("--packing", action="store_true")
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model)
config = SFTConfig(per_device_train_batch_size=args.bs, gradient_accumulation_steps=args.accum, bf16=True,
                   packing=args.packing, gradient_checkpointing=compute(), output_dir="x")
"""


def test_a_programs_own_flags_are_what_its_code_makes_of_them() -> None:
    document = one("python sft.py --bs 6", files={"sft.py": ARGPARSE})

    assert document.value["per_device_train_batch_size"] == 6
    assert document.value["gradient_accumulation_steps"] == 8
    assert document.value["model_name_or_path"] == "Qwen/Qwen2.5-0.5B"
    assert document.value["bf16"] is True
    assert document.start is not None and document.start.program.framework == "trl"
    assert "sft.py" in document.start.values.unknown[("gradient_checkpointing",)]


DATACLASSES = """
from dataclasses import dataclass, field
import transformers
from transformers import HfArgumentParser
@dataclass
class ModelArguments:
    model_path: str = field(default="a/b")
@dataclass
class TrainingArguments(transformers.TrainingArguments):
    model_max_length: int = field(default=512)
    optim: str = field(default="adafactor")
parser = HfArgumentParser((ModelArguments, TrainingArguments))
model, training = parser.parse_args_into_dataclasses()
tokenizer = transformers.AutoTokenizer.from_pretrained(model.model_path, model_max_length=training.model_max_length)
"""


GROUPS = """
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--embedder_model_path")
parser.add_argument("--model_path")
parser.add_argument("--per_device_train_batch_size", type=int, default=1)
parser.add_argument("--num_generations", type=int, default=8)
parser.add_argument("--max_completion_length", type=int, default=256)
parser.add_argument("--beta", type=float, default=0.1)
args = parser.parse_args()
class OwnTrainer(Trainer):
    def compute_loss(self, model, inputs):
        return self.loss_of(model, inputs, args.num_generations)
embedder = AutoModelForCausalLM.from_pretrained(args.embedder_model_path)
model = AutoModelForCausalLM.from_pretrained(args.model_path)
config = TrainingArguments(per_device_train_batch_size=args.per_device_train_batch_size)
OwnTrainer(model=model, args=config).train()
"""


def test_a_class_on_transformers_trainer_may_have_the_loss_of_any() -> None:
    """VideoSearch-R1's trainer of groups stands on Trainer. `beta` alone says nothing there."""
    command = "torchrun --nproc_per_node 2 train.py --model_path Qwen/Qwen2.5-7B --embedder_model_path a/b"
    assert analysed(command, {"train.py": GROUPS}).runs[0].method.stage == "grpo"
    plain = "\n".join(line for line in GROUPS.splitlines() if "_generations" not in line and "completion" not in line)
    plain = plain.replace("class OwnTrainer(Trainer):", "class OwnTrainer(Trainer): ...")
    plain = plain.replace("    def compute_loss(self, model, inputs):\n", "")
    assert analysed(command, {"train.py": plain}).runs[0].method.stage == "sft"


def test_a_loop_with_a_second_model_has_the_stage_that_its_name_says() -> None:
    loop = """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in torch.utils.data.DataLoader(load(), batch_size=4):
    loss = preferences(model(**batch).logits, reference(**batch).logits)
    loss.backward()
    optimizer.step()
"""
    files = {"train_dpo.py": loop, "train_base.py": loop}
    assert analysed("python train_dpo.py --lr 1e-5", files).runs[0].method.stage == "dpo"
    assert analysed("python train_base.py --lr 1e-5", files).runs[0].method.stage == "sft"


def test_a_flag_for_a_model_beside_it_does_not_name_the_model() -> None:
    hidden = GROUPS.replace("OwnTrainer(model=model, args=config).train()", "started(config)")
    command = "torchrun train.py --model_path Qwen/Qwen2.5-7B --embedder_model_path a/b"
    assert one(command, files={"train.py": hidden}).value["model_name_or_path"] == "Qwen/Qwen2.5-7B"


def test_dataclasses_give_defaults_and_names() -> None:
    document = one("python sft.py --model_path Qwen/Qwen2.5-7B --max_step 5", files={"sft.py": DATACLASSES})

    assert document.value["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert (document.value["model_max_length"], document.value["optim"]) == (512, "adafactor")
    assert document.value["max_steps"] == 5  # argparse takes the start of a flag for the flag


@pytest.mark.parametrize(
    ("made", "engine", "is_own"),
    [
        *(("Trainer", "Accelerator()", False), ("DPOTrainer", "Accelerator()", False)),
        *(("ScoreTrainer", "Accelerator()", True), ("ScoreTrainer", "super().__init__()", False)),
    ],
)
def test_a_program_with_a_trainer_of_its_own(made: str, engine: str, is_own: bool) -> None:
    program = f"{DATACLASSES}\nfrom own.trainer import ScoreTrainer\ntrainer = {made}(args=args)\n"
    files = {"src/sft.py": program, "src/own/trainer.py": f"class ScoreTrainer(Trainer):\n    engine = {engine}\n"}
    start = one("python src/sft.py --model_path Qwen/Qwen2.5-7B", files=files).start
    assert start is not None and start.program.has_own_trainer is is_own


def test_a_program_that_freezes_parameters_has_a_lower_bound() -> None:
    program = DATACLASSES + "\nmodel.requires_grad_(False)\n"
    found = analysed(f"python sft.py {FLAGS}", {"sft.py": program}, gpus=1)

    assert found.estimates[0].verdict == "unknown"
    assert "freezes parameters of its own choice: at least" in found.estimates[0].unknown[0].reason
    assert found.estimates[0].allocated_low_bytes


@pytest.mark.parametrize(("other", "launches"), [("python eval.py --model $1", 1), (f"python more.py {FLAGS}", 2)])
def test_an_edited_script_has_the_launches_of_others_that_it_runs(other: str, launches: int) -> None:
    text = f"python train.py {FLAGS}\nbash other.sh x\n"
    first = documents(text, files={"other.sh": other})[0]
    assert first.start is not None and first.start.values.reread is not None
    again = first.start.values.reread(text + "# more\n")
    assert [len(again), first.documents] == [launches, launches]


def test_scripts_without_a_launch_have_no_documents() -> None:
    assert documents("pip install torch\npython eval.py --model x\n") == ()
    assert documents("echo train\n") == ()


MAKEFILE = f"BATCH ?= 2\ntrain: data\n\t@torchrun --nproc_per_node 2 train.py {FLAGS} \\\n"
MAKEFILE += "\t  --per_device_train_batch_size $(BATCH)\n"
SKY = f"resources:\n  accelerators: A100:8\nenvs:\n  B: 2\nrun: |\n  accelerate launch train.py {FLAGS} \\\n"
SKY += "    --per_device_train_batch_size $B\n"
SKY_NODES = SKY.replace("resources:", "num_nodes: 2\nresources:").replace(
    "accelerate launch", "torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE"
)
DSTACK = "type: task\nnodes: 2\nenv:\n  - HF_TOKEN\n  - B=2\ncommands:\n  - pip install trl\n  - |\n    torchrun \\\n"
DSTACK += "      --nnodes=$DSTACK_NODES_NUM --nproc_per_node=$DSTACK_GPUS_PER_NODE \\\n"
DSTACK += f"      train.py {FLAGS} --per_device_train_batch_size $B\nresources:\n  gpu: A100:80GB:8\n"
RAY = "kind: RayJob\nspec:\n  rayClusterSpec: {}\n"
RAY += f"  entrypoint: torchrun --nproc_per_node 2 train.py {FLAGS} --per_device_train_batch_size 2\n"
DETERMINED = f"entrypoint: accelerate launch train.py {FLAGS} --per_device_train_batch_size 2\n"
DETERMINED += "resources: {slots_per_trial: 4}\nsearcher: {name: single}\n"
AZURE = f"command: torchrun --nproc_per_node 4 train.py {FLAGS} --per_device_train_batch_size 2\ncompute: azureml:nd\n"
MOSAIC = f"command: accelerate launch train.py {FLAGS} --per_device_train_batch_size 2\nimage: x\n"
MOSAIC += "compute: {gpus: 8, gpu_type: a100_80gb}\n"
WORDS = ", ".join(f'"{word}"' for word in FLAGS.split())
JOB = "apiVersion: batch/v1\nkind: Job\nspec:\n  containers:\n  - command: [python, train.py]\n"
JOB += f'    args: [{WORDS}, "--per_device_train_batch_size", "2"]\n    resources: {{limits: {{nvidia.com/gpu: 8}}}}\n'
VERTEX = "workerPoolSpecs:\n- machineSpec: {acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 2}\n"
VERTEX += "  replicaCount: 2\n  containerSpec:\n    command: [accelerate, launch, train.py]\n"
VERTEX += f'    args: [{WORDS}, "--per_device_train_batch_size", "2"]\n'
COMPOSE = "services:\n  train:\n    image: x\n    environment: {B: 2}\n"
COMPOSE += f"    command: accelerate launch train.py {FLAGS} --per_device_train_batch_size $B\n"
COMPOSE += "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]}}}\n"
JUST = f'batch := "2"\ntrain gpus="3" *more:\n    torchrun --nproc_per_node {{{{gpus}}}} train.py {FLAGS} \\\n'
JUST += "      --per_device_train_batch_size {{batch}}\n"
FLOW = "on: push\njobs:\n  t:\n    env: {B: 2}\n    steps:\n"
FLOW += f"    - run: python train.py {FLAGS} --per_device_train_batch_size $B\n"


@pytest.mark.parametrize(
    ("path", "text", "gpus"),
    [
        *(("a.yaml", RAY, 2), ("a.yaml", DETERMINED, 4), ("a.yaml", AZURE, 4), ("a.yaml", MOSAIC, 8)),
        *(("a.yaml", VERTEX, 4), ("a.yaml", SKY_NODES, 16)),
        *(("a.yaml", SKY_NODES, 16), (".dstack.yml", DSTACK, 16), ("a.yaml", DSTACK.replace("8", "2"), 4)),
        *(("Makefile", MAKEFILE, 2), ("a.yaml", SKY, 8), ("b.yaml", JOB, 8), ("c.yml", FLOW, 0)),
        *(("compose.yaml", COMPOSE, 4), ("justfile", JUST, 3), ("Makefile", MAKEFILE.replace("\n", "\r\n"), 2)),
    ],
)
def test_commands_in_other_files(path: str, text: str, gpus: int) -> None:
    document = one(text, path)

    assert document.value["per_device_train_batch_size"] == 2
    assert document.start is not None and document.start.machine.gpus == gpus
    place = document.places[("model_name_or_path",)].value
    assert text[place.start : place.end] == "Qwen/Qwen2.5-7B"


POD = JOB.replace("  containers", "  nodeSelector: {cloud.google.com/gke-accelerator: %s}\n  containers")
CARDS = [
    ("#SBATCH --gres=gpu:h100:8\n", "H100-80GB"),
    ("#SBATCH --gpus=a100_80gb:2\n", "A100-80GB"),
    ("#SBATCH --gres=gpu:2\n#SBATCH -C a6000\n", "RTX A6000"),
    ("#SBATCH --gres=gpu:a100:4\n", "A100-80GB"),  # has 40, 64 or 80 GB
    ("#SBATCH --gpus=v100:2\n", "V100-32GB"),
    ("#SBATCH --gpus=rtx6000:2\n", None),  # of two generations
    ("#SBATCH --gres=gpu:2\n#SBATCH --constraint=intel\n", None),
]


@pytest.mark.parametrize(("header", "card"), CARDS)
def test_the_card_that_a_slurm_job_asks_for(header: str, card: str | None) -> None:
    run = analysed(f"{header}torchrun --nproc_per_node 2 train.py {FLAGS}").runs[0]

    assert (run.hardware.gpu.name if run.hardware.gpu else None) == card
    if card is not None:
        origin = run.origins["hardware.gpu"]
        assert (origin.kind, origin.line) == ("file", header.count("\n"))
        assert origin.detail.startswith("the job asks for")


HERE = f"torchrun --nproc_per_node 2 train.py {FLAGS}"
WRAPPED = [
    (f"srun --gres=gpu:h100:2 {HERE}", "H100-80GB", 2),
    (f"#SBATCH --gpus=a100_80gb:8\nsrun --gpus=2 {HERE}", "A100-80GB", 2),
    (f"sbatch --gres=gpu:a100_80gb:2 --wrap '{HERE}'", "A100-80GB", 2),
    (f"sbatch --gres=gpu:a100_80gb:2 --wrap='{HERE}'", "A100-80GB", 2),
    (f"hf jobs run --flavor a100x4 --detach image {HERE}", "A100-80GB", 2),
    (f"hf jobs uv run --flavor h200 -s HF_TOKEN train.py {FLAGS}", "H200", 1),
    (f"hf jobs uv run --flavor a10g-largex2 --with trl https://a.b/train.py {FLAGS}", "A10G", 2),
    (f'bsub -gpu "num=4" -q gpu accelerate launch train.py {FLAGS}', None, 4),
    (f"uvx --from trl trl sft {FLAGS} --num_processes 2", None, 2),
    (f"uv tool run trl sft {FLAGS} --num_processes 2", None, 2),
]


@pytest.mark.parametrize(("command", "card", "gpus"), WRAPPED)
def test_the_machine_that_a_command_asks_for(command: str, card: str | None, gpus: int) -> None:
    run = analysed(f"{command} --per_device_train_batch_size 2\n" if "'" not in command else command).runs[0]
    assert (run.hardware.gpu.name if run.hardware.gpu else None) == card
    assert run.parallelism.world_size == gpus


def test_a_job_that_names_no_size_is_judged_by_the_largest_card_and_says_so() -> None:
    run = analysed(f"#SBATCH --gpus=v100:2\ntorchrun --nproc_per_node 2 train.py {FLAGS}").runs[0]
    assert run.origins["hardware.gpu"].detail == "the job asks for `v100`, which may also be V100-16GB"


IN_YAML = [
    (SKY, "A100-40GB"),  # SkyPilot's A100; the larger one is A100-80GB
    (SKY.replace("A100:8", "{A100-80GB: 8}"), "A100-80GB"),
    (SKY.replace("A100:8", "{A100: 8, H100: 8}"), None),
    (SKY.replace("accelerators: A100:8", "instance_type: p5.48xlarge"), "H100-80GB"),
    (DSTACK, "A100-80GB"),
    (DSTACK.replace("A100:80GB:8", "{name: H100, count: 8}"), "H100-80GB"),
    (DSTACK.replace("A100:80GB:8", "24GB:2"), None),
    (DSTACK.replace("A100:80GB:8", "A100,H100:8"), None),
    (MOSAIC, "A100-80GB"),
    (VERTEX, "A100-40GB"),
    (VERTEX.replace("TESLA_A100", "H100_80GB"), "H100-80GB"),
    (VERTEX.replace("TESLA_A100", "H200_141GB"), "H200"),
    (DETERMINED, None),
    (JOB, None),
    (POD % "nvidia-h100-80gb", "H100-80GB"),
    (POD % "nvidia-tesla-a100", "A100-40GB"),
    (POD % "nobody-knows-it", None),
]


@pytest.mark.parametrize(("text", "card"), IN_YAML)
def test_the_card_that_a_task_or_a_pod_asks_for(text: str, card: str | None) -> None:
    workspace = in_memory({"a.yaml": text})
    run = Engine(tuple(shipped())).analyse(workspace.documents("a.yaml")[0], workspace.context()).runs[0]

    assert (run.hardware.gpu.name if run.hardware.gpu else None) == card


def test_the_card_that_is_asked_about_counts_before_the_jobs() -> None:
    card = find("RTX4090")
    run = analysed(f"#SBATCH --gres=gpu:h100:8\ntorchrun --nproc_per_node 2 train.py {FLAGS}", gpu=card).runs[0]

    assert run.hardware.gpu == card


LINES = FLAGS.replace(" --", " \\\n    --")
SCRIPT = f"""BATCH=4
torchrun --nproc_per_node 2 train.py \\
    {LINES} \\
    --per_device_train_batch_size $BATCH \\
    --gradient_checkpointing False  # memory

echo done
"""


def edited(text: str, *edits: tuple[str, str, Any]) -> str:
    document = one(text)
    made = [Edit("train.sh", (key,), action, value) for action, key, value in edits]
    found = patches(document, made)
    assert broken(document, made, found) == ()
    return apply(text, found)


def test_a_value_is_changed_where_it_is_assigned() -> None:
    assert edited(SCRIPT, ("set", "per_device_train_batch_size", 2)) == SCRIPT.replace("BATCH=4", "BATCH=2")


def test_a_variable_that_says_more_stays() -> None:
    text = SCRIPT.replace("--output_dir out", "--output_dir out_$BATCH")

    assert edited(text, ("set", "per_device_train_batch_size", 2)) == text.replace("size $BATCH", "size 2")


def test_a_flag_is_added_in_the_scripts_own_style() -> None:
    changed = edited(SCRIPT, ("set", "optim", "adamw_8bit"))

    assert "--gradient_checkpointing False \\\n    --optim adamw_8bit  # memory" in changed


def test_a_flag_is_removed_with_its_line() -> None:
    changed = edited(SCRIPT, ("remove", "learning_rate", None))

    assert changed == SCRIPT.replace("    --learning_rate 1e-5 \\\n", "")


def test_a_program_without_such_a_flag_gets_none() -> None:
    document = one("python sft.py --bs 6", files={"sft.py": ARGPARSE})

    with pytest.raises(CannotEdit, match="has no flag for"):
        patches(document, [Edit("train.sh", ("optim",), "set", "adamw_8bit")])


def test_a_program_that_nobody_sees_gets_no_flag_where_its_flags_are_its_own() -> None:
    """transformers' parser spells flags with underscores. One with hyphens is the program's own."""
    text = "torchrun /elsewhere/own.py --model-name-or-path gpt2 --per-device-train-batch-size 2 --output-dir out\n"
    document = one(text)

    with pytest.raises(CannotEdit, match="is not in the repository"):
        patches(document, [Edit("train.sh", ("deepspeed",), "set", "ds.json")])
    assert "--per-device-train-batch-size 1" in edited(text, ("set", "per_device_train_batch_size", 1))


VALUES = st.one_of(st.integers(1, 999), st.booleans(), st.sampled_from(["a b", "it's", "x", "$HOME", "~", "*"]))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["set", "set", "remove"]),
    st.sampled_from(["per_device_train_batch_size", "learning_rate", "output_dir", "bf16", "optim", "max_grad_norm"]),
    VALUES,
)
def test_an_edit_is_refused_or_holds_every_law(action: str, key: str, value: Any) -> None:
    document = one(SCRIPT)
    edit = Edit("train.sh", (key,), action, value if action == "set" else None)
    try:
        found = patches(document, [edit])
    except CannotEdit:
        return

    assert broken(document, [edit], found) == ()


def test_findings_stand_at_their_flags() -> None:
    found = analysed(SCRIPT.replace("1e-5", "1.5"), gpus=2).findings
    text = SCRIPT.splitlines()

    for finding in found:
        assert 1 <= finding.location.line <= len(text)
    assert any("--learning_rate" in text[finding.location.line - 1] for finding in found)


def test_a_launch_without_sharding_is_certain_where_the_program_is_known() -> None:
    text = f"torchrun --nproc_per_node 2 sft.py {FLAGS}"
    known = analysed(text, {"sft.py": DATACLASSES}).runs[0]

    assert (known.parallelism.engine, known.origins["parallelism.engine"].kind) == ("ddp", "framework")
    assert analysed(text).runs[0].origins["parallelism.engine"].kind == "inferred"


def test_one_variable_makes_two_edits_that_follow_from_it() -> None:
    text = f"B=4\npython train.py {FLAGS} --per_device_train_batch_size $B --gradient_accumulation_steps $((32 / B))\n"
    both = ("set", "per_device_train_batch_size", 2), ("set", "gradient_accumulation_steps", 16)

    assert edited(text, *both) == text.replace("B=4", "B=2")


TRL_PROGRAM = "from trl import SFTConfig, TrlParser\nargs = TrlParser((SFTConfig,)).parse_args_and_config()\n"


@pytest.mark.parametrize("words", ["--config sft.yaml", "sft.yaml --output_dir out", "--config $HOME/sft.yaml"])
def test_a_command_that_leaves_its_arguments_to_a_file_is_no_run_of_its_own(words: str) -> None:
    assert not documents(f"accelerate launch sft.py {words}\n", files={"sft.py": TRL_PROGRAM})


def test_help_and_llamafactorys_other_programs_are_no_runs() -> None:
    assert not documents("llamafactory-cli train -h\n")
    assert not documents("python scripts/vllm_infer.py --model_name_or_path a/b --template qwen --cutoff_len 512\n")


@pytest.mark.parametrize(
    "command",
    [
        "train_dreambooth_lora_flux.py --pretrained_model_name_or_path=a/FLUX.1-dev --max_train_steps=9",
        "train.py --pretrained_model_name_or_path=a/sdxl --resolution=1024 --train_batch_size=1 --learning_rate=1e-4",
    ],
)
def test_a_program_that_trains_a_diffusion_model_is_no_run(command: str) -> None:
    flags = "--gradient_accumulation_steps=4 --output_dir=out --mixed_precision=bf16"
    assert not documents(f"accelerate launch {command} {flags}\n")


def test_a_training_file_that_another_module_holds_freezes_what_it_likes() -> None:
    train = "parser = transformers.HfArgumentParser((TrainingArguments,))\nmodel.requires_grad_(False)\n"
    files = {"llava/train_mem.py": "from llava.train import train\ntrain()\n", "llava/train.py": train}
    document = one(f"deepspeed llava/train_mem.py {FLAGS}\n", files=files)
    assert document.start is not None and "freezes parameters" in document.start.program.freezes


def test_hydras_null_is_none() -> None:
    text = "STEPS=null\npython -m verl.trainer.main_ppo actor_rollout_ref.actor.optim.lr_warmup_steps=$STEPS data.x=1\n"
    assert one(text).value["actor_rollout_ref"]["actor"]["optim"]["lr_warmup_steps"] is None


def test_quotes_within_an_override_are_of_its_grammar() -> None:
    """OmegaConf reads a bare `no` as false: scripts quote it twice (LLaMA-Factory hparams/parser.py, from_cli)."""
    text = """llamafactory-cli train a.yaml save_strategy='"no"' run_name="it's"\n"""
    config = "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\n"
    value = one(text, files={"a.yaml": config}).value
    assert (value["save_strategy"], value["run_name"]) == ("no", "it's")


LLAMAFACTORY = "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\n"
LLAMAFACTORY += "per_device_train_batch_size: 4\ntemplate: qwen\n"
AXOLOTL = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 4\nadapter: lora\n"
TRL = "model_name_or_path: Qwen/Qwen2.5-7B\nmax_length: 1024\nper_device_train_batch_size: 4\n"


@pytest.mark.parametrize(
    ("command", "batch", "length"),
    [
        ("llamafactory-cli train x.yaml", 4, 2048),
        ("llamafactory-cli train x.yaml per_device_train_batch_size=1 cutoff_len=512", 1, 512),
        ("axolotl train a.yaml --micro-batch-size 1", 1, 2048),
        ("accelerate launch -m axolotl.cli.train a.yaml --sequence_len=512", 4, 512),
        ("trl sft --config t.yaml --per-device-train-batch-size 2", 2, 1024),
    ],
)
def test_a_command_overrides_the_file_that_it_names(command: str, batch: int, length: int) -> None:
    run = analysed(command, {"x.yaml": LLAMAFACTORY, "a.yaml": AXOLOTL, "t.yaml": TRL}).runs[0]
    assert run.model.name == "Qwen/Qwen2.5-7B"
    assert (run.batch.micro_batch_size, run.sequence.length) == (batch, length)


def test_a_file_that_is_not_there_makes_no_run() -> None:
    assert not documents("trl sft --config away.yaml --bf16 true --max_length 512")
    assert not documents("llamafactory-cli train away.yaml cutoff_len=512")
    assert not documents("axolotl train away.yaml --micro-batch-size 1")


@pytest.mark.parametrize(
    ("options", "gpus"),
    [("", (12, 8)), ("--num_nodes 1 ", (8, 8)), ("--num_gpus 2 ", (4, 2)), ("--include w1:0 ", None)],
)
def test_a_host_file_says_the_gpus(options: str, gpus: tuple[int, int] | None) -> None:
    text = f"deepspeed --hostfile hosts {options}train.py {FLAGS} --per_device_train_batch_size 1"
    start = one(text, files={"hosts": "w1 slots=8\nw2 slots=4  # half\n"}).start
    assert start is not None
    assert (start.machine.gpus, start.machine.gpus_per_node) == gpus or gpus is None


def notebook(*cells: list[str]) -> str:
    code = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_commands_of_a_notebook() -> None:
    long = [f"!torchrun --nproc_per_node 2 train.py {FLAGS} \\\n", "  --per_device_train_batch_size 3\n", "print(1)"]
    text = notebook(
        ["import os\n"], long, ["%%bash\n", "B=5\n", f'python train.py {FLAGS} --run_name "a" \\\n', "-b $B"]
    )
    first, second = documents(text, "nb.ipynb")
    assert first.value["per_device_train_batch_size"] == 3
    assert first.start is not None and first.start.machine.gpus == 2
    place = first.places[("per_device_train_batch_size",)].value
    assert text[place.start : place.end] == "3"
    assert (second.value["run_name"], second.value["b"]) == ("a", 5)


def test_a_notebooks_own_variables_are_unknown_in_its_commands() -> None:
    text = notebook(["size = 4\n"], [f"!python train.py {FLAGS} --per_device_train_batch_size {{size}}\n"])
    (found,) = documents(text, "nb.ipynb")
    assert found.start is not None and ("per_device_train_batch_size",) in found.start.values.unknown


@pytest.mark.parametrize("given", ["{config.BATCH}", "{sizes['batch']}", "{a.b[0]}"])
def test_what_a_notebook_fills_in_is_not_its_own_text(given: str) -> None:
    text = notebook([f"!python train.py {FLAGS} --per_device_train_batch_size {given}\n"])
    (found,) = documents(text, path="run.ipynb")
    assert found.start is not None and ("per_device_train_batch_size",) in found.start.values.unknown


@pytest.mark.parametrize("text", ["{", '{"cells": 3}', '{"cells": [{"cell_type": "code", "source": ["!torchrun"]}]}'])
def test_a_notebook_that_is_none(text: str) -> None:
    assert documents(text, "nb.ipynb") == ()


RELATED = """\
from transformers import HfArgumentParser, Seq2SeqTrainingArguments, Seq2SeqTrainer
from arguments import parse
model_args, training_args = parse()
Seq2SeqTrainer(model=load(model_args), args=training_args).train()
"""
ARGUMENTS = """\
from dataclasses import dataclass
from transformers import HfArgumentParser, Seq2SeqTrainingArguments

@dataclass
class ModelArguments:
    model_name_or_path: str
    finetuning_type: str = "lora"
    template: str = "default"
    dev_ratio: float = 0.0
    use_v2: bool = False

_CLASSES = [ModelArguments, Seq2SeqTrainingArguments]

def parse():
    return HfArgumentParser(_CLASSES).parse_args_into_dataclasses()
"""


def test_another_projects_arguments_are_not_judged_as_llamafactorys() -> None:
    files = {
        "src/run.py": RELATED,
        "src/arguments/__init__.py": "from .all import parse",
        "src/arguments/all.py": ARGUMENTS,
    }
    command = (
        "python src/run.py --model_name_or_path Qwen/Qwen2.5-7B --do_train --finetuning_type lora --template x "
        "--use_v2 --dev_ratio 0.01 --evaluation_strategy steps --per_device_train_batch_size 2 --output_dir out"
    )
    found = analysed(command, files)
    assert found.format is not None and found.format.NAME == "llamafactory"
    assert not [one.rule for one in found.findings if one.rule.startswith(("LLF", "CFG"))]
    assert [one.rule for one in analysed(command).findings if one.rule.startswith(("LLF", "CFG"))]


def test_a_script_that_makes_its_adapter_itself_is_no_script_of_trls() -> None:
    own = "from transformers import HfArgumentParser\nfrom trl import SFTConfig, SFTTrainer\n"
    own += "from own import ModelArguments\n"
    own += "arguments, training = HfArgumentParser((ModelArguments, SFTConfig)).parse_args_into_dataclasses()\n"
    own += "SFTTrainer(model=load(arguments), args=training).train()\n"
    command = f"python train.py {FLAGS} --lora_r 8 --peft_enabled True"
    assert "PEF019" not in {one.rule for one in analysed(command, {"train.py": own}).findings}
    trl = own.replace("from own import ModelArguments", "from trl import ModelConfig").replace(
        "ModelArguments", "ModelConfig"
    )
    assert "PEF019" in {one.rule for one in analysed(command, {"train.py": trl}).findings}


def test_one_flag_may_set_two_arguments() -> None:
    program = (
        "import argparse\nfrom transformers import TrainingArguments, Trainer\np = argparse.ArgumentParser()\n"
        "p.add_argument('--size', type=int)\nargs = p.parse_args()\ndef go():\n"
        "    return TrainingArguments(per_device_train_batch_size=args.size, per_device_eval_batch_size=args.size)\n"
    )
    found = one("python train.py --size 2 --learning_rate 1e-5 --output_dir out", files={"train.py": program}).value
    assert (found["per_device_train_batch_size"], found["per_device_eval_batch_size"]) == (2, 2)


def test_a_program_that_goes_on_as_ms_swift_is_one_of_its_launches() -> None:
    program = "import patch\nif __name__ == '__main__':\n    from swift.pipelines import sft_main\n    sft_main()\n"
    text = "torchrun --nproc_per_node 2 tools/sft.py --model Qwen/Qwen2.5-7B --tuner_type lora --max_length 512\n"
    found = analysed(text, {"tools/sft.py": program})
    assert found.format is not None and found.format.NAME == "swift"
    assert (found.runs[0].method.kind, found.runs[0].sequence.length) == ("lora", 512)


def test_one_word_for_a_list_is_a_list_of_what_it_says() -> None:
    found = one(f"trl grpo {FLAGS} --reward_weights 1.0")
    assert found.value["reward_weights"] == [1.0]
    assert "CFG002" not in {finding.rule for finding in analysed(f"trl grpo {FLAGS} --reward_weights 1.0").findings}


@pytest.mark.parametrize(
    ("last", "count"),
    [("trainer.evaluate()", 0), ("trainer.save_model()", 0), ("trainer.train()\ntrainer.evaluate()", 1)],
)
def test_a_program_that_only_evaluates_is_no_training(last: str, count: int) -> None:
    program = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    program += "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    program += f"trainer = Trainer(model=load(), args=args)\n{last}\n"
    assert len(documents(f"python check.py {FLAGS}", files={"check.py": program})) == count


@pytest.mark.parametrize(("step", "count"), [("save(loss(model, batch))", 0), ("loss(model, batch).backward()", 1)])
def test_a_program_that_only_runs_forward_is_no_training(step: str, count: int) -> None:
    """It writes the reference model's log-probabilities down, with the file that DPO is then started with."""
    program = "from trl import DPOConfig, TrlParser\n(args,) = TrlParser(DPOConfig).parse_args_and_config()\n"
    program += f"model = load(args).eval()\nfor batch in batches():\n    with torch.no_grad():\n        {step}\n"
    files = {"compute_dpo_logprobs.py": program, "dpo.yaml": "learning_rate: 1.0e-5\nmax_length: 2048\n"}
    assert len(documents(f"accelerate launch compute_dpo_logprobs.py --config dpo.yaml {FLAGS}", files=files)) == count


def test_a_model_that_the_program_names_is_spoken_of_there(tmp_path: Path) -> None:
    """However many commands start the program."""
    program = "import argparse\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    program += "p = argparse.ArgumentParser()\np.add_argument('--rate', type=float)\nargs = p.parse_args()\n"
    program += "model = AutoModelForCausalLM.from_pretrained('mine/of-no-catalog')\n"
    program += "Trainer(model, TrainingArguments('out', learning_rate=args.rate)).train()\n"
    tmp_path.joinpath("train.py").write_text(program, "utf-8")
    tmp_path.joinpath("train.sh").write_text("python train.py --rate 1e-5\n", "utf-8")
    workspace = on_disk(str(tmp_path), str(tmp_path))
    found = Engine(tuple(shipped())).analyse(workspace.documents("train.sh")[0], workspace.context()).findings
    (place,) = {(one.location.path, one.location.line) for one in found if one.rule == "MOD001"}
    assert place == ("train.py", 6)


@pytest.mark.parametrize(
    ("launch", "import_", "format_name"),
    [
        ("accelerate launch scripts/run_sft.py configs/sft.yaml", "", "trainer"),
        ("python scripts/run_sft.py --config configs/sft.yaml", "import trl", "trainer"),
        ("python scripts/run_sft.py --config configs/sft.yaml", "import nemo_rl", "nemo_rl"),
    ],
)
def test_a_program_is_of_nemo_rl_where_it_names_it(launch: str, import_: str, format_name: str) -> None:
    program = f"from trl import ModelConfig, SFTConfig, TrlParser\n{import_}\n"
    program += "model, args = TrlParser((ModelConfig, SFTConfig)).parse_args_and_config()\n"
    program += "SFTTrainer(model.model_name_or_path, args).train()\n"
    config = "model_name_or_path: Qwen/Qwen2.5-7B\nlearning_rate: 1.0e-5\nmax_length: 2048\noutput_dir: out\n"
    start = one(launch, files={"scripts/run_sft.py": program, "configs/sft.yaml": config}).start
    assert start is not None
    assert start.format == format_name


@pytest.mark.parametrize(("given", "default", "count"), [("", "", 0), ("", "'gpt2'", 1), (" --model_name a", "", 1)])
def test_a_launch_with_the_scripts_own_arguments_alone_says_nothing(given: str, default: str, count: int) -> None:
    program = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    )
    program += f"@dataclass\nclass ModelArguments:\n    model_name_or_path: str = {default or None}\n"
    program += "model, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()\n"
    program += "Trainer(AutoModelForCausalLM.from_pretrained(model.model_name_or_path), args).train()\n"
    assert len(documents(f'torchrun own.py{given} "$@"', files={"own.py": program})) == count


def test_ms_swift_behind_a_path_that_python_prints() -> None:
    where = '$(python -c "import swift; print(swift.__path__[0])")'
    flags = "--model Qwen/Qwen2.5-7B --tuner_type lora --max_length 512 --learning_rate 1e-4"
    found = one(f"torchrun --nproc_per_node 2 {where}/cli/sft.py {flags}").start
    assert found is not None
    assert (found.format, found.program.task) == ("swift", "sft")


def test_an_outdated_name_in_a_program_that_nobody_sees_is_its_own() -> None:
    flags = f"{FLAGS} --per_device_train_batch_size 2 --warmup_ratio 0.1 --lr_scheduler_type cosine"
    assert "CFG005" not in {one.rule for one in analysed(f"python -m open_instruct.finetune {flags}").findings}


def test_a_class_of_the_repository_with_a_name_of_trls_is_none_of_its() -> None:
    program = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, PretrainedConfig, Trainer\n"
    )
    program += "from transformers import TrainingArguments\nclass RewardConfig(PretrainedConfig):\n    pass\n"
    program += "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    program += "Trainer(load(RewardConfig(size=1)), args).train()\n"
    start = one(f"torchrun own.py {FLAGS}", files={"own.py": program}).start
    assert start is not None
    assert start.program.task in ("", "sft")  # no reward model


def test_arguments_that_stand_on_transformers_under_another_name_are_transformers() -> None:
    program = "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, Trainer\n"
    program += "from transformers import TrainingArguments as HFTrainingArguments\n"
    program += "@dataclass\nclass TrainingArguments(HFTrainingArguments):\n    weight: float = 1.0\n"
    program += (
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(load(), args).train()\n"
    )
    start = one(f"torchrun own.py {FLAGS} --weight 2", files={"own.py": program}).start
    assert start is not None
    assert (start.format, start.program.framework) == ("trainer", "transformers")


def test_a_program_that_takes_a_class_from_the_file_that_trains_is_no_training() -> None:
    files = {
        "own_sft.py": "from transformers import Trainer, TrainingArguments\nclass Own: pass\ndef main():\n"
        "    Trainer(load(), TrainingArguments('out')).train()\n",
        "use.py": "import argparse\nfrom own_sft import Own\np = argparse.ArgumentParser()\np.add_argument('--text')\n"
        "def main():\n    Own().predict_one(p.parse_args().text)\nmain()\n",
    }
    assert documents("python use.py --text x --batch_size 8", files=files) == ()
    files["use.py"] += "from own_sft import main as go\ngo()\n"
    assert len(documents("torchrun use.py --text x --learning_rate 1e-5", files=files)) == 1


def test_a_program_that_writes_text_is_no_training_whatever_lies_beside_what_it_imports() -> None:
    helpers = "def load(path):\n    return AutoModelForCausalLM.from_pretrained(path)\n"
    helpers += "class Own:\n    def step(self):\n        SFTConfig(name='x')\n        self.model.train()\n"
    head = "import argparse\nfrom helpers import load\np = argparse.ArgumentParser()\n"
    head += "p.add_argument('--max_length', type=int)\np.add_argument('--output_dir')\n"
    found = [
        documents(f"python check.py {FLAGS}", files={"helpers.py": helpers, "check.py": head + code})
        for code in ("load('gpt2').generate()\n", "load('gpt2').generate()\nload('gpt2').train()\n")
    ]
    found.append(documents(f"python check.py {FLAGS}", files={"helpers.py": helpers, "check.py": head + "load('x')\n"}))
    assert list(map(len, found)) == [0, 1, 0]


@pytest.mark.parametrize(
    "command", ["trl sft --config sft.yaml", "llamafactory-cli train lf.yaml", "axolotl train ax.yml"]
)
def test_a_finding_about_a_files_value_is_the_files_alone(command: str) -> None:
    files = {
        "train.sh": command,
        "sft.yaml": "model_name_or_path: gpt2\ndataset_name: a\nlearning_rate: 1.0e-5\nfp16: true\nbf16: true\n"
        "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n",
        "lf.yaml": "model_name_or_path: gpt2\nstage: sft\ndo_train: true\ndataset: a\ntemplate: default\n"
        "eval_steps: 9\n",
        "ax.yml": "base_model: gpt2\ndatasets: [{path: a, type: alpaca}]\nmicro_batch_size: 2\nload_in_8bit: true\n"
        "adapter: lora\nload_in_4bit: true\n",
    }
    workspace, engine = in_memory(files), Engine(tuple(shipped()))

    def places(path: str) -> set[tuple[str, str, int]]:
        (document,) = workspace.documents(path)
        found = engine.analyse(document, workspace.context()).findings
        return {(one.rule, one.location.path, one.location.line) for one in found}

    config = command.split()[-1]
    assert places("train.sh") == places(config) != set()
    assert {path for _, path, _ in places("train.sh")} == {config}


def test_a_file_that_the_script_writes_is_no_place_of_a_finding() -> None:
    values = "model_name_or_path: gpt2\nfp16: true\nbf16: true\nlearning_rate: 1e-5"
    text = f"cat > sft.yaml <<EOF\n{values}\nEOF\ntrl sft --config sft.yaml\n"
    assert {one.location.path for one in analysed(text).findings} == {"train.sh"}


def test_a_value_that_the_command_overrides_is_the_commands() -> None:
    files = {"sft.yaml": "model_name_or_path: gpt2\ndataset_name: a\nlearning_rate: 1.0e-5\nbf16: true\n"}
    found = analysed("trl sft --config sft.yaml --lora_r 8", files).findings
    assert ("PEF019", "train.sh") in {(one.rule, one.location.path) for one in found}


@pytest.mark.parametrize(("command", "named"), [("trl sft", True), ("python elsewhere/train.py", False)])
def test_a_program_that_is_not_there_may_have_defaults_of_its_own(command: str, named: bool) -> None:
    given = "--model_name_or_path gpt2 --learning_rate 1e-5 --eval_steps 50 --lora_r 8 --output_dir out"
    assert ("EVA004" in {one.rule for one in analysed(f"{command} {given}").findings}) is named


@pytest.mark.parametrize("start", ["torchrun --nproc_per_node 2", "accelerate launch --num_processes 2", "python"])
def test_a_module_of_trl_s_package_is_its_program(start: str) -> None:
    document = one(f"{start} -m trl.scripts.reward {FLAGS} --per_device_train_batch_size 2")
    assert document.start is not None
    program = document.start.program
    assert (program.framework, program.task, program.is_foreign) == ("trl", "rm", False)


DASHED = "trl sft --model-name-or-path gpt2 --learning-rate 1e-5 --eval-steps 50 --lora-r 8 --output-dir out"


def test_messages_write_flags_as_the_script_does() -> None:
    (said,) = [one.message for one in analysed(DASHED).findings if one.rule == "EVA004"]
    assert "`--eval-steps 50`" in said and "`--eval-strategy steps`" in said
    (said,) = [one.message for one in analysed(DASHED.replace("l-s", "l_s")).findings if one.rule == "EVA004"]
    assert "`eval_steps: 50`" in said
    own = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--learning-rate')\np.parse_args()\n"
    own += "from transformers import Trainer, TrainingArguments\nTrainer(args=TrainingArguments('out')).train()\n"
    refused = analysed("python own.py --learning-rate 1 --learnin-rat 2", {"own.py": own}).findings
    assert "unknown flag `--learnin-rat`" in " ".join(one.message for one in refused)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(DASHED, "--use-peft True"), (DASHED.replace("-r 8", "_r 8"), "--use_peft True")],
)
def test_an_added_flag_is_written_like_the_others(text: str, expected: str) -> None:
    document = one(text)
    assert expected in apply(document.text, patches(document, (Edit("train.sh", ("use_peft",), "set", True),)))


def test_targets_that_a_programs_own_parser_takes_are_not_judged() -> None:
    program = (
        "import argparse\nfrom trl import SFTConfig, SFTTrainer\np = argparse.ArgumentParser()\n"
        "p.add_argument('--lora_target_modules', type=split)\nargs = p.parse_args()\n"
        "def go():\n    return SFTTrainer(model='gpt2', args=SFTConfig(output_dir='out'))\n"
    )
    command = "python train.py --lora_target_modules q_proj,k_proj"
    assert "PEF025" not in {one.rule for one in analysed(command, {"train.py": program}).findings}


def test_a_json_file_of_arguments_is_the_runs() -> None:
    program = (
        "import sys\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "from own import Model\nparser = HfArgumentParser(TrainingArguments)\n"
        "(args,) = parser.parse_json_file(sys.argv[1])\nTrainer(model=Model(), args=args).train()\n"
    )
    values = '{"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "learning_rate": 1e-5}'
    found = one("python train.py args.json", files={"train.py": program, "args.json": values}).value
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (2, 4)


LORA = "from peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\n"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (
            "python train.py --model_name_or_path Qwen/Qwen2.5-7B --target_modules all",
            LORA + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--target_modules')\n"
            "p.add_argument('--model_name_or_path')\nargs = p.parse_args()\n"
            "def go():\n    return SFTTrainer(args.model_name_or_path, args=SFTConfig(output_dir='out'))\n",
        ),
        (
            "python train.py --model_name_or_path Qwen/Qwen2.5-7B",
            LORA + "def go(model):\n    return SFTTrainer(model, args=SFTConfig(output_dir='out'),"
            " peft_config=LoraConfig(target_modules=['q_proj']))\n",
        ),
    ],
)
def test_targets_that_a_program_hands_to_peft_itself_are_no_patterns(command: str, program: str) -> None:
    found = analysed(command, {"train.py": program})
    assert not {"PEF004", "PEF025"} & {one.rule for one in found.findings}


OWN_NAMES = (
    "import argparse\nfrom trl import SFTConfig, SFTTrainer\nfrom unsloth import FastLanguageModel\n"
    "p = argparse.ArgumentParser()\np.add_argument('--max_seq_length', type=int)\nargs = p.parse_args()\n"
    "def go():\n    model, _ = FastLanguageModel.from_pretrained('gpt2', max_seq_length=args.max_seq_length)\n"
    "    return SFTTrainer(model, args=SFTConfig(output_dir='out', warmup_ratio=0.1))\n"
)
DECLARED_NAMES = (
    "from transformers import HfArgumentParser, TrainingArguments, Trainer\n"
    "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(args=args).train()\n"
)


@pytest.mark.parametrize(
    ("flags", "program", "named"),
    [
        ("--max_seq_length 512", OWN_NAMES, []),  # the flag is the program's, and the ratio stands in the program
        ("--warmup_ratio 0.1 --bf16 True", DECLARED_NAMES, ["CFG005"]),
    ],
)
def test_outdated_names_are_judged_where_they_are_written(flags: str, program: str, named: list[str]) -> None:
    found = analysed(f"python train.py {flags} --output_dir out", {"train.py": program})
    assert [one.rule for one in found.findings if one.rule == "CFG005"] == named


TAKES_ARGUMENTS = """\
from dataclasses import dataclass
from transformers import HfArgumentParser, Trainer, TrainingArguments
@dataclass
class ModelArguments:
    model_name_or_path: str = ""
model, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
Trainer(args=args).train()
"""
ABSENT = f"accelerate launch --config_file conf/zero3.yaml --num_processes 8 train.py {FLAGS}"


@pytest.mark.parametrize(
    ("files", "engine", "missing"),
    [
        ({}, UNKNOWN, True),
        ({"conf/zero3.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n"}, "deepspeed", False),
    ],
)
def test_a_launch_file_that_is_not_there_leaves_the_engine_open(
    files: dict[str, str], engine: object, missing: bool
) -> None:
    found = analysed(ABSENT, {"train.py": TAKES_ARGUMENTS, **files})
    assert found.runs[0].parallelism.engine == engine
    assert [one.message for one in found.findings if one.rule == "REF001"] == (
        ["no file `conf/zero3.yaml`"] if missing else []
    )
    assert not [one for one in found.findings if one.rule == "CFG001"]


@pytest.mark.parametrize("named", ["$ROOT/conf/zero3.yaml", "${1}", "$(ls conf/*.yaml)"])
def test_a_launch_file_of_an_unset_variable_is_looked_for_or_leaves_the_engine_open(named: str) -> None:
    text = f"accelerate launch --config_file {named} --num_processes 8 train.py {FLAGS}"
    zero3 = "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n"
    found = analysed(text, {"train.py": TAKES_ARGUMENTS, "conf/zero3.yaml": zero3})
    assert found.runs[0].parallelism.engine == ("deepspeed" if "ROOT" in named else UNKNOWN)
    if "ROOT" not in named:
        plain = analysed(text.replace("--bf16 True", ""), {"train.py": TAKES_ARGUMENTS}).runs[0]
        assert plain.precision.autocast is UNKNOWN
    assert not [one for one in found.findings if one.rule == "REF001"]


def test_a_launch_file_is_one_that_accelerate_takes() -> None:
    found = analysed(ABSENT, {"train.py": TAKES_ARGUMENTS, "conf/zero3.yaml": "zero_optimization: {stage: 3}\n"})
    assert found.runs[0].parallelism.engine is UNKNOWN
    assert [one.message for one in found.findings if one.rule == "REF007"] == [
        "`conf/zero3.yaml` is no launch file: it has no `distributed_type`, and accelerate raises ValueError"
    ]


def test_where_the_program_is_not_there_its_other_files_are_not_looked_for() -> None:
    command = f"deepspeed {{}} --deepspeed scripts/zero3.json {FLAGS}"
    for program, missing in (("llava/train/train.py", 0), ("train.py", 1), ("/opt/llava/train.py", 1)):
        found = analysed(command.format(program), {"train.py": TAKES_ARGUMENTS}, gpus=8)
        assert len([one for one in found.findings if one.rule == "REF001"]) == missing
        assert found.runs[0].parallelism.zero.stage is UNKNOWN


@pytest.mark.parametrize(
    ("program", "release", "rules"), [("../../src/train_bash.py", (0, 7, 1), set()), ("src/train.py", None, {"CFG005"})]
)
def test_a_program_of_old_llamafactory_tells_its_release(
    program: str, release: tuple[int, ...] | None, rules: set[str]
) -> None:
    """`evaluation_strategy` was right until transformers 4.51, which LLaMA-Factory 0.7 knows nothing of."""
    flags = "--stage sft --finetuning_type lora --template default --evaluation_strategy steps --val_size 0.1"
    found = analysed(f"python {program} {flags} {FLAGS} --deepspeed ../away.json")
    assert found.runs[0].stack.framework == "llamafactory"
    assert release is None or found.runs[0].stack.transformers == (4, 40)
    assert {one.rule for one in found.findings if one.rule == "CFG005"} == rules
    assert {one.severity for one in found.findings if one.rule.startswith("REF")} <= {"info"}


def test_a_release_older_than_the_table_takes_the_names_of_its_time() -> None:
    flags = "--stage sft --finetuning_type lora --template default --evaluation_strategy steps --val_size 0.1"
    found = analysed(f"python src/train_bash.py {flags} {FLAGS}", versions={"llamafactory": (0, 7, 0)})
    assert not [one for one in found.findings if one.rule == "CFG005"]


@pytest.mark.parametrize(("flag", "names"), [("--sft_type lora", []), ("--train_type lora", ["lora_dropout_p"])])
def test_release_2_of_swift_has_flags_of_its_own(flag: str, names: list[str]) -> None:
    """`lora_dropout_p` was an argument until 3.0 (ms-swift 2.0.0 llm/utils/argument.py:116)."""
    found = analysed(f"swift sft {flag} --model_type qwen-7b --lora_dropout_p 0.05 --learning_rate 1e-4 --dataset a")
    unknown = [one.message for one in found.findings if one.rule == "CFG001"]
    assert len(unknown) == len(names) and all(name in unknown[0] for name in names)


@pytest.mark.parametrize(
    ("words", "is_known"),
    [("confs/*.yaml", False), ("confs/a.yaml", True), ('"confs/*.yaml"', True), ("'.*_proj'", True)],
)
def test_a_loop_over_a_pattern_goes_through_files_that_nobody_knows(words: str, is_known: bool) -> None:
    for script in (f"for F in {words}; do", f'A=({words})\nfor F in "${{A[@]}}"; do'):
        found = one(f"{script} torchrun train.py {FLAGS} --deepspeed $F; done")
        assert (found.value["deepspeed"] in words) is is_known


def test_a_program_that_is_not_there_loads_as_its_name_says() -> None:
    command = f"torchrun --nproc_per_node 2 {{}} {FLAGS}"
    own, memory = (analysed(command.format(name), gpus=2) for name in ("a/train.py", "a/train_mem.py"))
    assert [one.runs[0].attention.implementation for one in (own, memory)] == ["sdpa", "flash_attention_2"]
    assert "PRE010" not in [one.rule for one in own.findings]
    there = analysed(command.format("train_mem.py"), {"train_mem.py": TAKES_ARGUMENTS}, gpus=2)
    assert there.runs[0].attention.implementation == "sdpa"
    assert "PRE010" in [one.rule for one in there.findings]


def test_ends_of_lines_as_windows_has_them_change_nothing() -> None:
    text = (
        f"read -r -d '' WORDS <<EOF\ntrain.py \\\n {LINES} \\\n --gradient_checkpointing\nEOF\n# x\n\ntorchrun $WORDS\n"
    )
    plain, other = one(text), one(text.replace("\n", "\r\n"))
    assert plain.value == other.value and plain.value["gradient_checkpointing"] is True
    lines = [[found.places[(key,)].value.line for key in found.value] for found in (plain, other)]
    assert lines[0] == lines[1]


def test_what_a_program_that_is_not_there_adapts_is_not_known() -> None:
    lora = f"torchrun --nproc_per_node 2 {{}} {FLAGS} --use_peft True --lora_r 8"
    assert analysed(lora.format("a/train.py"), gpus=2).runs[0].method.targets is UNKNOWN
    assert analysed(lora.format("train.py"), {"train.py": TAKES_ARGUMENTS}, gpus=2).runs[0].method.targets


@pytest.mark.parametrize(
    ("launch", "file", "refused"),
    [
        ("--use_deepspeed --mixed_precision bf16", "", False),
        ("--config_file a.yaml", "mixed_precision: bf16\n", True),
        ("--config_file a.yaml --mixed_precision bf16", "mixed_precision: bf16\n", False),
        ("--config_file a.yaml --mixed_precision bf16", "deepspeed_config: {zero_stage: 3}\n", True),
    ],
)
def test_accelerate_refuses_what_its_file_says_beside_deepspeed(launch: str, file: str, refused: bool) -> None:
    files = {"train.py": TAKES_ARGUMENTS, "z.json": '{"zero_optimization": {"stage": 2}}'}
    files |= {"a.yaml": f"compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n{file}"} if file else {}
    found = analysed(f"accelerate launch {launch} --num_processes 2 train.py {FLAGS} --deepspeed z.json", files)
    assert ("ACC009" in [one.rule for one in found.findings]) is refused


@pytest.mark.parametrize(("value", "wrong"), [("TO_BE_FILLED", False), ("many", True)])
def test_a_word_to_be_replaced_is_no_wrong_value(value: str, wrong: bool) -> None:
    found = analysed(f"llamafactory-cli train --stage sft --finetuning_type lora --lora_rank {value}").findings
    assert any(one.rule == "CFG002" for one in found) is wrong


def test_a_flag_is_no_beginning_of_one_that_is_gone() -> None:
    command = "llamafactory-cli train --stage sft --do_train --finetuning_type lora --prompt instruction --system a"
    found = analysed(f"{command} --model_name_or_path Qwen/Qwen2.5-7B --template qwen --dataset a --output_dir out")
    named = [one.message.partition(":")[0] for one in found.findings if one.rule in ("CFG001", "CFG005")]
    assert sorted(named) == ["unknown key `prompt`", "unknown key `system`"]


def test_targets_of_the_program_are_judged_in_the_program() -> None:
    targets = "peft_config=LoraConfig(target_modules=['q_proj', 'wi']))\n"
    program = f"{LORA}def go():\n    return SFTTrainer('Qwen/Qwen2.5-7B', args=SFTConfig('out'), {targets}"
    found = analysed("python train.py --model_name_or_path Qwen/Qwen2.5-7B", {"train.py": program})
    assert "PEF005" not in {one.rule for one in found.findings}


WARM = (
    "import argparse\nfrom transformers import Trainer, TrainingArguments\np = argparse.ArgumentParser()\n"
    "p.add_argument('--warmup_ratio', type=float, default=0.03)\np.add_argument('--lr_scheduler_type')\n"
    "args = p.parse_args()\ndef go():\n    return Trainer(args=TrainingArguments('out', "
    "warmup_ratio=args.warmup_ratio, lr_scheduler_type=args.lr_scheduler_type))\n"
)


@pytest.mark.parametrize(("given", "named"), [("--num_train_epochs 3", True), ("", False)])
def test_epochs_by_default_are_for_other_starts(given: str, named: bool) -> None:
    program = (
        "from dataclasses import dataclass, field\nfrom transformers import HfArgumentParser\n"
        "from transformers import Trainer, TrainingArguments\n"
        "@dataclass\nclass Own(TrainingArguments):\n    num_train_epochs: float = field(default=2.0)\n"
        "def go():\n    (args,) = HfArgumentParser(Own).parse_args_into_dataclasses()\n    Trainer(args=args).train()\n"
    )
    found = analysed(f"python train.py --max_steps 50 --output_dir out {given}", {"train.py": program})
    assert ("TRN003" in {one.rule for one in found.findings}) is named


@pytest.mark.parametrize(("given", "named"), [("--warmup_ratio 0.1", True), ("", False)])
def test_a_warm_up_by_default_is_not_asked_for(given: str, named: bool) -> None:
    found = analysed(f"python train.py --lr_scheduler_type constant {given}", {"train.py": WARM})
    assert ("TRN005" in {one.rule for one in found.findings}) is named


def test_a_path_with_a_variable_is_not_missing() -> None:
    found = analysed(f"torchrun train.py {FLAGS} --deepspeed ${{BASE}}/zero3.json")
    assert "REF001" not in {one.rule for one in found.findings}


@pytest.mark.parametrize(
    ("before", "grows"),
    [
        ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", True),
        ("PYTORCH_ALLOC_CONF='max_split_size_mb:64, expandable_segments: True' ", True),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False ", False),
        ("PYTORCH_CUDA_ALLOC_CONF=$CONF ", False),
        ("", False),
    ],
)
def test_what_the_allocator_is_told_comes_with_the_command(before: str, grows: bool) -> None:
    found = one(f"{before}swift sft --model Qwen/Qwen2.5-7B --dataset a")
    assert found.start is not None
    assert found.start.machine.grows_segments is grows


OWN_LOOP = (
    "import argparse\nfrom transformers import Trainer, TrainingArguments\np = argparse.ArgumentParser()\n"
    "p.add_argument('--fp16', type=bool, default=True)\np.add_argument('--bf16', action='store_true')\n"
    "p.add_argument('--eval_steps', type=int, default=7)\np.add_argument('--save_steps', type=int)\n"
    "args = p.parse_args()\nargs.eval_steps = count(args) // 5\nif args.save_steps is None:\n    args.save_steps = 9\n"
)
HANDED_ON = "class Own(Trainer):\n    def __init__(self, a):\n        self.a = TrainingArguments(fp16={})\n"


@pytest.mark.parametrize(
    ("expression", "fp16"), [("args.fp16 and not args.bf16", False), ("args.fp16", True), ("choose()", "${fp16}")]
)
def test_an_argument_is_what_the_code_works_out(expression: str, fp16: object) -> None:
    files = {"train.py": OWN_LOOP + HANDED_ON.format(expression)}
    document = one("torchrun train.py --bf16 --save_steps 5 --learning_rate 1e-5\n", files=files)
    assert document.value["fp16"] == fp16
    assert document.value["save_steps"] == 5  # the code sets it only where no flag does
    assert document.value["eval_steps"] == "${eval_steps}"
    assert document.start is not None and document.start.values.unknown[("eval_steps",)] == "train.py:9 works it out"


def test_an_error_about_a_program_that_is_not_here_names_its_condition() -> None:
    """Nobody sees whether it hands its flags on."""
    text = f"torchrun train.py {FLAGS} --fp16 True --eval_strategy steps --per_device_train_batch_size 1\n"
    program = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "@dataclass\nclass Model:\n    model_name_or_path: str = ''\n"
        "parser = HfArgumentParser((Model, TrainingArguments))\nm, a = parser.parse_args_into_dataclasses()\n"
    )
    foreign = next(one for one in analysed(text).findings if one.rule == "PRE011")
    assert foreign.severity == "warning"
    assert foreign.message.endswith(" (where train.py hands its arguments on as they stand)")
    here = next(one for one in analysed(text, {"train.py": program}).findings if one.rule == "PRE011")
    assert (here.severity, "train.py" in here.message) == ("error", False)


def test_a_prompt_bound_of_the_programs_own_is_no_argument_that_is_gone() -> None:
    program = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\nfrom trl import DPOConfig\n"
        "@dataclass\nclass Own:\n    model_name_or_path: str = ''\n    {}: int = 128\n"
        "parser = HfArgumentParser((Own, DPOConfig))\nown, args = parser.parse_args_into_dataclasses()\n"
    )
    text = f"torchrun train.py {FLAGS} --beta 0.1 --max_prompt_length 128 --per_device_train_batch_size 1\n"
    own, configured = (
        {one.rule for one in analysed(text, {"train.py": program.format(name)}).findings}
        for name in ("max_prompt_length", "limit")
    )
    assert ("TRL029" in own, "TRL029" in configured) == (False, True)


def test_precision_by_default_of_a_programs_own_parser_is_not_held_against_the_launch_file() -> None:
    files = {
        "train.py": OWN_LOOP + HANDED_ON.format("args.fp16"),
        "a.yaml": "mixed_precision: bf16\ndistributed_type: MULTI_GPU\n",
    }
    text = "accelerate launch --config_file a.yaml train.py {} --learning_rate 1e-5 --model_name_or_path gpt2\n"
    found = [{one.rule for one in analysed(text.format(flag), files).findings} for flag in ("", "--fp16 true")]
    assert ["ACC011" in rules for rules in found] == [False, True]


@pytest.mark.parametrize(
    ("loads", "kind"),
    [
        ("AutoModelForCausalLM.from_pretrained(m.model_name_or_path)", ""),
        ("elsewhere(m.model_name_or_path)", "inferred"),
    ],
)
def test_a_model_that_nobody_sees_loaded_is_an_inference(loads: str, kind: str) -> None:
    program = (
        "from dataclasses import dataclass\nfrom elsewhere import elsewhere\n"
        "from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments\n"
        "@dataclass\nclass Model:\n    model_name_or_path: str = ''\n"
        "parser = HfArgumentParser((Model, TrainingArguments))\nm, a = parser.parse_args_into_dataclasses()\n"
        f"Trainer(model={loads}, args=a).train()\n"
    )
    found = analysed(f"torchrun train.py {FLAGS} --per_device_train_batch_size 1\n", {"train.py": program})
    origin = found.runs[0].origins["model.architecture"]
    assert (origin.kind == "inferred") is (kind == "inferred")


def test_a_figure_of_a_program_that_is_not_here_names_its_condition() -> None:
    """It may freeze the model and train heads of its own."""
    text = f"torchrun --nproc_per_node 2 {{}} {FLAGS} --per_device_train_batch_size 8 --model_max_length 2048\n"
    found = analysed(text.format("medusa/train.py"), gpu=find("A100-80GB")).findings
    over = next(one for one in found if one.rule == "MEM001")
    assert (over.severity, over.message.endswith(" (where train.py trains what its arguments say)")) == (
        "warning",
        True,
    )


def test_an_override_with_nothing_behind_its_sign() -> None:
    script = "python -m verl.trainer.sft_trainer model.path= data.train_batch_size=8 trainer.n_gpus_per_node=8\n"
    (document,) = in_memory({"run.sh": script}).documents("run.sh")
    assert document.value["model"] == {"path": ""}


@pytest.mark.parametrize("name", ["SLURM_SUBMIT_DIR", "PBS_O_WORKDIR"])
def test_a_job_is_queued_in_the_folder_that_its_files_are_named_from(name: str) -> None:
    text = f'#!/bin/bash\ncd "${name}"\ntorchrun --nproc_per_node 2 train.py {FLAGS}\n'
    (found,) = documents(text, "project/scripts/job.sh", {"project/train.py": "import transformers\n"})
    assert found.start is not None
    assert not found.start.program.is_foreign


def test_a_script_that_hands_arguments_to_another_launches() -> None:
    """Most such callers name no program at all."""
    inner = "MODEL=$1\npython train.py " + FLAGS.replace("Qwen/Qwen2.5-7B", "$MODEL")
    found = one("bash scripts/train.sh Qwen/Qwen2.5-1.5B\n", "train_small.sh", {"scripts/train.sh": inner})
    assert found.value["model_name_or_path"] == "Qwen/Qwen2.5-1.5B"
    assert documents("bash scripts/train.sh\n", "train_small.sh", {"scripts/train.sh": inner}) != (found,)
    assert analysed("deepspeed train.py --deepspeed_config ds.json " + FLAGS).runs[0].parallelism.engine is UNKNOWN


def test_a_launch_file_beside_the_script_is_found_where_its_programs_lie_elsewhere() -> None:
    files = {
        "train/scripts/zero3.yaml": "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
        "deepspeed_config:\n  zero_stage: 3\n",
        "train/qft/train.py": DATACLASSES,
    }
    path = "train/scripts/run.sh"
    text = f"accelerate launch --config_file ./zero3.yaml qft/train.py {FLAGS.replace('--bf16 True', '')}\n"
    workspace = in_memory({path: text, **files})
    run = Engine(()).analyse(workspace.documents(path)[0], workspace.context()).runs[0]
    assert (run.parallelism.engine, run.precision.compute, run.parallelism.zero.stage) == ("deepspeed", "bfloat16", 3)


LLAVA = """
class OwnLlamaForCausalLM(LlamaForCausalLM):
    pass


def train():
    parser = transformers.HfArgumentParser((ModelArguments, OwnArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = OwnLlamaForCausalLM.from_pretrained(model_args.model_name_or_path, torch_dtype=torch.bfloat16)
    if training_args.lora_enable:
        model = get_peft_model(model, LoraConfig(r=training_args.lora_r))
    trainer = Trainer(model=model, args=training_args)
    trainer.train()


train()
"""
LLAVA_ARGUMENTS = """
import torch
import transformers
from dataclasses import dataclass, field
from peft import LoraConfig, get_peft_model
from transformers import LlamaForCausalLM, Trainer


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default=None)


@dataclass
class OwnArguments(transformers.TrainingArguments):
    bits: int = field(default=16)
    lora_enable: bool = False
    lora_r: int = 64
    model_max_length: int = 512
"""


def test_a_class_on_a_transformers_model_has_the_bound_of_its_frozen_weights() -> None:
    command = "torchrun train.py --model_name_or_path lmsys/vicuna-7b-v1.5 --per_device_train_batch_size 1 --bf16 True"
    found = analysed(f"{command} --output_dir out", {"train.py": LLAVA_ARGUMENTS + LLAVA}, gpus=1)
    (run,) = found.runs
    assert run.method.rank == 0  # 16 bits ask for no adapter
    assert "may freeze parts of itself: at least 12." in found.estimates[0].unknown[0].reason


@pytest.mark.parametrize(
    ("program", "scores"), [("run_glue.py", True), ("text/run_ner.py", True), ("run_clm.py", False)]
)
def test_examples_of_transformers_that_classify_build_no_logits(program: str, scores: bool) -> None:
    flags = "--model_name_or_path Qwen/Qwen2.5-0.5B --max_seq_length 128 --learning_rate 2e-5 --output_dir o"
    (run,) = analysed(f"python {program} --do_train {flags} --per_device_train_batch_size 8\n").runs
    assert run.method.drops_language_head == scores


@pytest.mark.parametrize(
    ("script", "task"),
    [("dpo_online", "online_dpo"), ("xpo", "xpo"), ("nash_md", "nash_md"), ("gkd", "gkd"), ("own", "")],
)
def test_scripts_of_trl_s_examples_are_known_by_their_names(script: str, task: str) -> None:
    """`--reward_model_path` alone is PPO's as well."""
    start = one(f"python examples/scripts/{script}.py {FLAGS} --reward_model_path some/reward\n").start
    assert start is not None and start.program.task == task


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--rlhf_type grpo --config a.yaml", (64, 2)),
        ("--config a.yaml --lora_rank 8", (64, 2)),
        ("a.yaml --lora_rank 8", (8, 2)),
    ],
)
def test_ms_swifts_file_from_an_option_comes_after_the_commands_own(words: str, expected: tuple[int, int]) -> None:
    """ms-swift 3.12.6 cli/main.py appends it; a file in front (4.6.0) is what the options change."""
    file = "model: Qwen/Qwen3-8B\nlora_rank: 64\nper_device_train_batch_size: 2\n"
    found = one(f"SWIFT=swift\n$SWIFT rlhf {words}", files={"a.yaml": file}).value
    assert (found["lora_rank"], found["per_device_train_batch_size"]) == expected
    assert found["model"] == "Qwen/Qwen3-8B"


def test_what_a_file_of_ms_swift_that_is_not_there_says_is_not_known() -> None:
    (run,) = analysed("swift sft --config out/a.yaml --model Qwen/Qwen3-8B").runs
    assert run.model.name == "Qwen/Qwen3-8B"
    for field in ("method.rank", "method.kind", "sequence.length", "batch.micro_batch_size"):
        assert get(run, field) is UNKNOWN
        assert "out/a.yaml" in run.origins[field].detail


OWN_CONFIG = """\
model: {path: Qwen/Qwen2.5-7B}
lora: {rank: 64}
train: {per_device_train_batch_size: 8, gradient_accumulation_steps: 4, bf16: true}
"""
READS_OWN_CONFIG = """\
import argparse, yaml
from dataclasses import dataclass, field
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="gpt2")

@dataclass
class OwnArguments(TrainingArguments):
    lora_rank: int = field(default=8)

cli = argparse.ArgumentParser()
cli.add_argument("--config")
cli.add_argument("--set", dest="overrides", action="append", default=[])
args = cli.parse_args()
with open(args.config) as file:
    config = yaml.safe_load(file)
for one in args.overrides:
    path, text = one.split("=", 1)
    section, key = path.split(".")
    config[section][key] = yaml.safe_load(text)
flat = {"model_name_or_path": config["model"]["path"], "lora_rank": config["lora"]["rank"], "output_dir": "out"}
flat.update(config["train"])
model_args, training_args = HfArgumentParser((ModelArguments, OwnArguments)).parse_dict(flat)
model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
model = get_peft_model(model, LoraConfig(r=training_args.lora_rank))
Trainer(model=model, args=training_args).train()
"""


@pytest.mark.parametrize(
    ("config", "batch"),
    [
        ("job/config.yaml", 8),
        ("$HERE/config.yaml", 8),
        ("$HERE/config.yaml --set train.per_device_train_batch_size=2", 2),
    ],
)
def test_a_program_that_parses_a_table_made_of_its_config(config: str, batch: int) -> None:
    """`parse_dict` fills the argument classes; `$HERE` is the script's own folder, and `yaml.safe_load("2")` is 2."""
    script = 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
    script += f'torchrun --nproc_per_node 1 "$HERE/train.py" --config {config}'
    found = one(script, "job/run.sh", {"job/config.yaml": OWN_CONFIG, "job/train.py": READS_OWN_CONFIG}).value
    assert (found["model_name_or_path"], found["lora_r"]) == ("Qwen/Qwen2.5-7B", 64)
    assert (found["per_device_train_batch_size"], found["gradient_accumulation_steps"]) == (batch, 4)


HYDRA_PROGRAM = """\
import hydra
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

@hydra.main(version_base=None, config_path="configs", config_name="train")
def main(cfg):
    model = AutoModelForCausalLM.from_pretrained(cfg.model.path)
    Trainer(model=model, args=TrainingArguments(**cfg.trainer.args)).train()

main()
"""
HYDRA_CONFIG = "model: {path: Qwen/Qwen2.5-0.5B}\ntrainer: {args: {output_dir: out, per_device_train_batch_size: 8}}\n"


@pytest.mark.parametrize(
    ("words", "batches"),
    [
        ("trainer.args.per_device_train_batch_size=2 logs=saves/a.json", [2]),
        ("trainer.args.per_device_train_batch_size=2 --cfg job --resolve", []),
        ("-c all", []),
    ],
)
def test_words_of_a_hydra_program(words: str, batches: list[int]) -> None:
    """A value that ends like a file names none to read; `--cfg` shows the configuration instead of training."""
    found = documents(f"python train.py {words}", files={"train.py": HYDRA_PROGRAM, "configs/train.yaml": HYDRA_CONFIG})
    assert [one.value["per_device_train_batch_size"] for one in found] == batches


CHOOSES_ITS_TRAINER = HYDRA_PROGRAM.replace("Trainer(model", "{'a': Trainer}.get(cfg.trainer.handler)(model")


@pytest.mark.parametrize(("program", "launches"), [(HYDRA_PROGRAM, 1), (CHOOSES_ITS_TRAINER, 0)])
def test_a_composed_configuration_that_is_not_followed_has_no_defaults(program: str, launches: int) -> None:
    """What the words do not override is in files of the program, and not what a class has by default."""
    words = "trainer=$1 model.pretrained_model_name_or_path=Qwen/Qwen2.5-0.5B trainer.args.bf16=true"
    files = {"train.py": program, "configs/train.yaml": HYDRA_CONFIG}
    assert len(documents(f"accelerate launch train.py --config-name=train.yaml {words}", files=files)) == launches


TUNE_MODEL = {"_component_": "torchtune.models.llama3_1.lora_llama3_1_8b", "lora_attn_modules": ["q_proj"]}
TUNE_FILES = {"my.yaml": json.dumps({"model": TUNE_MODEL, "optimizer": {}, "loss": {}, "dataset": {}})}


@pytest.mark.parametrize(
    ("launch", "gpus"),
    [
        ("tune run lora_finetune_single_device", 1),
        ("tune run --nproc_per_node 4 lora_finetune_distributed", 4),
        ("tune run --nnodes 2 --nproc_per_node=8 full_finetune_distributed", 16),
        ("tune run --nproc_per_node 2 recipes/my_full_finetune_distributed.py", 2),
    ],
)
def test_tune_run_starts_torchrun_where_it_is_given_its_options(launch: str, gpus: int) -> None:
    document = one(f"{launch} --config my.yaml batch_size=4 tokenizer.max_seq_len=512\n", files=TUNE_FILES)

    assert document.start is not None
    assert (document.start.format, document.start.launcher, document.start.machine.gpus) == ("torchtune", "tune", gpus)
    assert document.value == {"config": "my.yaml", "batch_size": 4, "tokenizer": {"max_seq_len": 512}}


@pytest.mark.parametrize("words", ["ls", "cp llama3/8B_lora .", "download x", "run generate --config g.yaml", "run"])
def test_other_words_of_tune_train_nothing(words: str) -> None:
    found = documents(f"tune {words}\n")

    assert [document for document in found if document.start is not None and document.start.format] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("batch_size=4", "batch_size=4 gradient_accumulation_steps=2"),
        ("batch_size=4 dtype=bf16", "batch_size=4 dtype=bf16 gradient_accumulation_steps=2"),
        ("", "gradient_accumulation_steps=2"),
    ],
)
def test_a_key_of_a_command_that_takes_overrides_alone_is_added_as_one(before: str, after: str) -> None:
    start = "tune run --nproc_per_node 2 lora_finetune_distributed --config my.yaml"
    document = one(f"{start} {before}".rstrip() + "\n", files=TUNE_FILES)
    edit = Edit(document.path, ("gradient_accumulation_steps",), "set", 2)

    assert apply(document.text, patches(document, (edit,))) == f"{start} {after}\n"


OVERRIDES_OF_ARRAYS = """\
MODEL_PATH=${MODEL_PATH:-"Qwen/Qwen2.5-7B"}
learning_rate=5e-7
MODEL=(
    actor_rollout_ref.model.path="${MODEL_PATH}"
)
ACTOR=(
    actor_rollout_ref.actor.optim.lr=${learning_rate}
    actor_rollout_ref.actor.fsdp_config.param_offload=False
)
RAY=(ray_kwargs.ray_init.runtime_env.py_executable="uv -v run")
python3 -m verl.trainer.main_ppo "${MODEL[@]}" "${ACTOR[@]}" "${RAY[@]}"
"""


@pytest.mark.parametrize(
    ("name", "behind"),
    (
        ("actor_rollout_ref.model.use_shm", 'actor_rollout_ref.model.path="${MODEL_PATH}"'),
        ("actor_rollout_ref.actor.optim.weight_decay", "actor_rollout_ref.actor.optim.lr=${learning_rate}"),
        (
            "actor_rollout_ref.actor.fsdp_config.offload_policy",
            "actor_rollout_ref.actor.fsdp_config.param_offload=False",
        ),
        ("ray_kwargs.ray_init.num_cpus", 'ray_kwargs.ray_init.runtime_env.py_executable="uv -v run"'),
    ),
)
def test_an_override_is_added_behind_the_nearest_one(name: str, behind: str) -> None:
    """verl's scripts keep overrides in an array for each part, with values in quotes and in variables."""
    document = one(OVERRIDES_OF_ARRAYS)
    edit = Edit(document.path, tuple(name.split(".")), "set", 2)
    changed = apply(document.text, patches(document, (edit,)))

    between = " " if behind.startswith("ray") else "\n    "
    assert changed == document.text.replace(behind, f"{behind}{between}{name}=2")


def test_the_command_of_a_framework_is_read_in_its_own_repository() -> None:
    """A package of another name that is called the same starts its own module."""
    setup = "setup(entry_points={'console_scripts': ['swift=PACKAGE.cli.main:cli_main']})\n"
    script = "swift sft --model a/b --dataset d --max_length 512\n"
    formats = [
        document.start.format
        for package in ("swift", "other")
        for document in documents(script, files={"setup.py": setup.replace("PACKAGE", package)})
        if document.start is not None
    ]

    assert formats[:1] == ["swift"] and "swift" not in formats[1:]


def test_the_place_of_a_commands_own_key_is_the_command() -> None:
    script = "tune run --nproc_per_node 2 lora_finetune_single_device --config my.yaml\n"
    found = [item for item in analysed(script, TUNE_FILES).findings if item.rule == "CFG008"]

    assert [(item.location.path, item.location.line) for item in found] == [("train.sh", 1)]


def test_a_program_that_goes_on_as_ms_swift_takes_its_flags() -> None:
    """A parser of its own that lets the others through does not refuse them (ms-swift 4.6.0 cli/sft.py)."""
    program = (
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--tuner_backend', default='peft')\n"
        "args, _ = parser.parse_known_args()\n"
        "if __name__ == '__main__':\n    from swift.pipelines import sft_main\n    sft_main()\n"
    )
    text = "torchrun --nproc_per_node 2 tools/sft.py --model Qwen/Qwen2.5-7B --tuner_type full --max_length 512\n"
    start = analysed(text, {"tools/sft.py": program}).document.start
    assert start is not None and not start.accepted.is_own and "tuner_backend" in start.accepted.defined


@pytest.mark.parametrize(
    ("first", "found"),
    [("model.eval()", True), ("eval('1')", False), ("model.eval()\ntrain_one_epoch(model)", False), ("", False)],
)
def test_a_program_that_turns_training_off_leaves_the_rest_to_a_module_that_is_not_here(
    first: str, found: bool
) -> None:
    program = f"from own import judge\nmodel = load(config)\n{first}\njudge.in_batch(model)\n"
    assert only_evaluates("judge.py", [ast.parse(program)], (), ()) is found


HANDS_ON = (
    "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    "Trainer(model=load(), args=args).train()\n"
)
SIZES = '{"train_batch_size": 2, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, SHARDS}'


@pytest.mark.parametrize(("started", "refused"), [(1, False), (4, True)])
def test_batch_sizes_count_the_processes_that_the_command_starts(started: int, refused: bool) -> None:
    """Whatever number of GPUs is asked about."""
    command = (
        f"torchrun --nproc_per_node {started} train.py {FLAGS} --gradient_accumulation_steps 2 --deepspeed ds.json"
    )
    files = {"train.py": HANDS_ON, "ds.json": SIZES.replace("SHARDS", '"zero_optimization": {"stage": 2}')}
    found = analysed(f"{command} --per_device_train_batch_size 1\n", files, gpus=8).findings
    assert [one.message for one in found if "train_batch_size: 2" in one.message and one.severity == "error"] == (
        [f'`train_batch_size: 2` is not 1 * 2 * {started} GPUs: transformers raises ValueError; write "auto" here']
        if refused
        else []
    )


SAVES = "def get_peft_state_maybe_zero_3(params):\n    return {name: gathered(one) for name, one in params}\n"


@pytest.mark.parametrize(("flag", "own", "said"), [("True", SAVES, False), ("False", SAVES, True), ("True", "", True)])
def test_a_program_that_gathers_its_adapters_saves_them(flag: str, own: str, said: bool) -> None:
    declares = (
        "from dataclasses import dataclass\n@dataclass\nclass Own(TrainingArguments):\n    lora_enable: bool = False\n"
    )
    program = HANDS_ON.replace("(args,)", f"{declares}(args,)").replace("Parser(Training", "Parser(Own, Training")
    program = program.replace("Parser(Own, TrainingArguments)", "Parser(Own)") + own
    files = {"train.py": program, "ds.json": '{"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}'}
    command = f"torchrun --nproc_per_node 2 train.py {FLAGS} --lora_enable {flag} --deepspeed ds.json\n"
    found = analysed(command, files, gpus=2, versions={"transformers": (4, 57)}).findings
    assert ("SAV002" in {one.rule for one in found}) is said
