"""What a launched program's own code makes of its flags, in the document of the launch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memlint.hardware.catalog import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN, Run
from memlint.source.document import Document

TRAIN = """\
import argparse, os
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments, Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--base", required=True)
parser.add_argument("--bits", type=int, default=4)
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--micro", type=int, default=4)
parser.add_argument("--use_lora", action="store_true")
parser.add_argument("--lora_r", type=int, default=8)
parser.add_argument("--gradient_checkpointing", action="store_true")
args = parser.parse_args()
steps = args.batch_size // args.micro
world = int(os.environ.get("WORLD_SIZE", 1))
if world > 1:
    steps = steps // world
bits = BitsAndBytesConfig(load_in_4bit=True) if args.bits == 4 else None
model = AutoModelForCausalLM.from_pretrained(args.base, quantization_config=bits, torch_dtype=torch.bfloat16)
if args.use_lora:
    from peft import get_peft_model
    model = get_peft_model(model, LoraConfig(r=args.lora_r))
sizes = dict(per_device_train_batch_size=args.micro, gradient_accumulation_steps=steps)
arguments = TrainingArguments("out", bf16=True, **sizes)
Trainer(model=model, args=arguments).train()
"""
COMMAND = "torchrun --nproc_per_node 4 train.py --base Qwen/Qwen2.5-7B --micro 2"


def launches(script: str, files: Mapping[str, str] = {}) -> tuple[Document, ...]:
    return in_memory({"go.sh": script, "train.py": TRAIN, **files}).documents("go.sh")


def analysed(script: str, files: Mapping[str, str] = {}) -> Analysis:
    workspace = in_memory({"go.sh": script, "train.py": TRAIN, **files})
    return Engine(tuple(shipped())).analyse(workspace.documents("go.sh")[0], workspace.context())


def run(script: str, files: Mapping[str, str] = {}) -> Run:
    return analysed(script, files).runs[0]


def test_the_code_says_what_flags_become() -> None:
    found = run(f"{COMMAND} --use_lora --lora_r 16")
    assert found.model.name == "Qwen/Qwen2.5-7B"
    assert found.model.quantization is not UNKNOWN and found.model.quantization.bits == 4
    assert (found.method.kind, found.method.rank) == ("lora", 16)
    assert (found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == (2, 8)


def test_a_flag_names_no_model_where_the_code_makes_one() -> None:
    loaded = "AutoModelForCausalLM.from_pretrained(args.base, quantization_config=bits, torch_dtype=torch.bfloat16)"
    made = TRAIN.replace(loaded, "LlamaForCausalLM(LlamaConfig(num_hidden_layers=2))").replace("--base", "--model_path")
    made = made.replace("AutoModelForCausalLM", "LlamaConfig, LlamaForCausalLM")
    found = run("torchrun --nproc_per_node 4 train.py --model_path /data/llama-7b --micro 2", {"train.py": made})
    assert found.model.name is UNKNOWN and found.model.weights_dtype == "float32"
    assert (found.method.kind, found.batch.micro_batch_size) == ("full", 2)


def test_a_launcher_says_how_many_processes_there_are() -> None:
    assert run(COMMAND.replace("4", "8", 1)).batch.gradient_accumulation_steps == 4
    assert run(COMMAND.replace("torchrun --nproc_per_node 4", "python")).batch.gradient_accumulation_steps == 32
    assert run(COMMAND.replace("4", "$N", 1)).batch.gradient_accumulation_steps is UNKNOWN


def test_a_flag_that_the_code_hands_to_nothing_sets_nothing() -> None:
    found = run(f"{COMMAND} --lora_r 16 --gradient_checkpointing --bits 16")
    assert found.method.kind == "full"
    assert found.checkpointing.mode == "none"
    assert found.model.quantization is None or found.model.quantization.bits == 16


def test_a_value_stands_at_its_flag() -> None:
    (document,) = launches(f"{COMMAND} --use_lora\n")
    place = document.places[("per_device_train_batch_size",)]
    assert place.key is not None
    assert document.text[place.key.start : place.key.end] == "--micro"
    assert document.text[place.value.start : place.value.end] == "2"


def test_a_value_that_nobody_knows_is_unknown() -> None:
    found = run(COMMAND.replace("--micro 2", "--micro $1"))
    assert found.batch.micro_batch_size is UNKNOWN
    assert "argument $1" in found.origins["batch.micro_batch_size"].detail


LOOP = """\
import sys, torch, yaml
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

config = yaml.safe_load(open(sys.argv[1]))
model = AutoModelForCausalLM.from_pretrained(config["model"])
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader([], batch_size=config["batch"], shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_a_program_of_its_own_is_a_run() -> None:
    (document,) = launches("python loop.py sft.yaml", {"loop.py": LOOP, "sft.yaml": "model: gpt2\nbatch: 3\n"})
    assert document.start is not None and document.start.program.framework == "torch"
    found = run("python loop.py sft.yaml", {"loop.py": LOOP, "sft.yaml": "model: gpt2\nbatch: 3\n"})
    assert (found.model.name, found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == ("gpt2", 3, 1)


def test_a_file_that_the_script_writes_is_read_as_written() -> None:
    script = "cat > sft.yaml <<EOF\nmodel: gpt2\nbatch: 7\nEOF\npython loop.py sft.yaml"
    assert run(script, {"loop.py": LOOP, "sft.yaml": "model: gpt2\nbatch: 3\n"}).batch.micro_batch_size == 7


def test_own_flags_are_no_typos() -> None:
    known = LOOP.replace("import sys", "import argparse, sys")
    known += 'parser = argparse.ArgumentParser()\nparser.add_argument("--num_epochs")\nparser.parse_args()\n'
    found = analysed("python loop.py sft.yaml --num_epochs 3", {"loop.py": known, "sft.yaml": "model: gpt2\n"})
    assert not [one for one in found.findings if "num_epochs" in one.message]


@pytest.mark.parametrize(
    "code", ["while True: pass\n" * 3, "def f():\n    f()\nf()\n", "\x00", "(" * 10_000, "x = " * 500]
)
def test_a_hostile_program_is_no_run(code: str) -> None:
    hostile = "# .backward( AutoModelForCausalLM Trainer(\n" + code
    assert len(launches(COMMAND, {"train.py": hostile})) <= 1


ENGINE_LOOP = """\
import argparse
import deepspeed
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
for name in ("--base", "--batch", "--eval_steps", "--lora_r"):
    parser.add_argument(name)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.base)
settings = {"train_batch_size": 128, "bf16": {"enabled": True}, "zero_optimization": {"sub_group_size": "auto"}}
model, optimizer, _, _ = deepspeed.initialize(model=model, config=settings)
for batch in torch.utils.data.DataLoader(data, batch_size=args.batch):
    model.backward(model(**batch).loss)
    model.step()
"""


def test_nothing_is_said_of_the_trainer_in_a_loop() -> None:
    files = {"train.py": ENGINE_LOOP}
    command = "deepspeed train.py --base Qwen/Qwen2.5-7B --batch 2 --eval_steps 50 --lora_r 8"
    found = analysed(command, files)
    assert found.runs[0].parallelism.engine == "deepspeed"
    assert not [one.rule for one in found.findings if one.rule.startswith(("CFG", "DSP001", "EVA", "PEF019"))]


def test_an_unknown_part_of_an_engines_configuration_hides_no_other_part() -> None:
    counted = ENGINE_LOOP.replace('"auto"}', '"auto", "stage": 2}, "gradient_accumulation_steps": 8 // ranks()')
    found = run("deepspeed --num_gpus 8 train.py --base Qwen/Qwen2.5-7B --batch 2", {"train.py": counted})
    assert found.parallelism.zero.stage == 2


def test_what_the_code_computes_in_part_is_not_left_at_its_default() -> None:
    listed = TRAIN.replace("LoraConfig(r=args.lora_r)", "LoraConfig(r=args.lora_r, target_modules=['q_proj', more()])")
    assert run(f"{COMMAND} --use_lora", {"train.py": listed}).method.targets is UNKNOWN


@pytest.mark.parametrize(("policy", "engine"), [("", "fsdp"), (", auto_wrap_policy=my_policy", UNKNOWN)])
def test_an_engine_that_the_code_makes_itself(policy: str, engine: object) -> None:
    wraps = ENGINE_LOOP.replace("deepspeed.initialize(model=model, config=settings)", f"FSDP(model{policy}), 0, 0, 0")
    wraps = wraps.replace(
        "import torch\n", "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    )
    wraps = wraps.replace("for batch in", "optimizer = torch.optim.AdamW(model.parameters())\nfor batch in")
    wraps = wraps.replace(
        "    model.backward(model(**batch).loss)\n    model.step()",
        "    model(**batch).loss.backward()\n    optimizer.step()",
    )
    found = run("torchrun --nproc_per_node 2 train.py --base gpt2 --batch 2", {"train.py": wraps})
    assert found.parallelism.engine is engine or found.parallelism.engine == engine


FIRE = """\
import fire
import torch
from transformers import LlamaForCausalLM
from settings import train_config

def update(config, **kwargs):
    if isinstance(config, (tuple, list)):
        for one in config:
            update(one, **kwargs)
    else:
        for k, v in kwargs.items():
            if hasattr(config, k):
                setattr(config, k, v)

def main(**kwargs):
    update((train_config,), **kwargs)
    model = LlamaForCausalLM.from_pretrained(train_config.model_name)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in torch.utils.data.DataLoader(data, batch_size=train_config.batch):
        model(**batch).loss.backward()
        optimizer.step()

fire.Fire(main)
"""
SETTINGS = '@dataclass\nclass train_config:\n    model_name: str = "gpt2"\n    batch: int = 4\n'


def test_options_of_fire_reach_a_function_that_takes_all_of_them() -> None:
    files = {"train.py": FIRE, "settings.py": SETTINGS}
    found = run("python train.py --model_name Qwen/Qwen2.5-7B", files)
    assert (found.model.name, found.batch.micro_batch_size) == ("Qwen/Qwen2.5-7B", 4)


def test_what_is_set_under_an_unknown_name_is_unknown() -> None:
    files = {"train.py": FIRE.replace("setattr(config, k, v)", "setattr(config, spelt(k), v)"), "settings.py": SETTINGS}
    assert run("python train.py --model_name Qwen/Qwen2.5-7B", files).batch.micro_batch_size is UNKNOWN


HYDRA = """\
import hydra
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

@hydra.main(config_path="config", config_name="dpo")
def main(config):
    model = AutoModelForCausalLM.from_pretrained(config.model.path)
    arguments = DPOConfig(per_device_train_batch_size=config.dpo.batch, gradient_accumulation_steps=config.steps)
    DPOTrainer(model=model, args=arguments).train()

main()
"""
COMPOSED = {
    "train.py": HYDRA,
    "config/dpo.yaml": "defaults: [model: small]\ndpo: {batch: 1}\nsteps: ${dpo.batch}\n",
    "config/other.yaml": "model: {path: gpt2}\ndpo: {batch: 5}\nsteps: 3\n",
    "config/model/small.yaml": "path: gpt2\n",
    "config/model/large.yaml": "path: Qwen/Qwen2.5-7B\n",
}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ("gpt2", 1, 1)),
        ("dpo.batch=4 model=large", ("Qwen/Qwen2.5-7B", 4, 4)),
        ("+dpo.batch=4 steps=2 model.path=Qwen/Qwen2.5-7B", ("Qwen/Qwen2.5-7B", 4, 2)),
        ("dpo.batch=$1 steps=2", ("gpt2", UNKNOWN, 2)),
        ("--config-name other", ("gpt2", 5, 3)),
    ],
)
def test_hydras_overrides_lie_over_its_files(words: str, expected: tuple[object, ...]) -> None:
    found = run(f"python train.py {words}", COMPOSED)
    assert (found.model.name, found.batch.micro_batch_size, found.batch.gradient_accumulation_steps) == expected


def test_an_override_is_the_place_of_its_value() -> None:
    text = "python train.py dpo.batch=4"
    place = launches(text, COMPOSED)[0].places[("per_device_train_batch_size",)]
    assert place.key is not None and text[place.key.start : place.key.end] == "dpo.batch"
    assert text[place.value.start : place.value.end] == "4"


def test_an_override_has_a_name_and_values_of_the_program_s_own() -> None:
    """Neither a slip of `use_dora` nor refused by TrainingArguments: `config.save_steps == "last"` is the program's."""
    found = analysed("torchrun train.py save_steps=last use_LoRA=false", COMPOSED).findings
    assert [one.rule for one in found if one.rule.startswith("CFG")] == []


@pytest.mark.parametrize(("words", "said"), [("", []), ("model.path=somebody/else", ["MOD001"])])
def test_what_a_config_says_is_told_there(words: str, said: list[str]) -> None:
    """The config is linted by itself; what the command gives is told at the command."""
    files = {**COMPOSED, "config/model/small.yaml": "path: nobody/knows\n"}
    found = analysed(f"python train.py {words}", files).findings
    assert [one.rule for one in found if one.rule == "MOD001"] == said


UNSEEN = """\
import argparse
from elsewhere import prepare
from transformers import TrainingArguments, Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path")
args = parser.parse_args()
Trainer(model=prepare(args), args=TrainingArguments("out", per_device_train_batch_size=args.batch_size)).train()
"""


def test_how_a_model_trains_that_nobody_sees_is_unknown() -> None:
    command = "python train.py --model_name_or_path gpt2"
    assert run(command, {"train.py": UNSEEN}).method.kind is UNKNOWN
    assert run(f"{command} --lora_r 8", {"train.py": UNSEEN}).method.kind == "lora"


HALVED = """\
from dataclasses import dataclass
from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Model:
    model_name_or_path: str = ""

named, arguments = HfArgumentParser((Model, TrainingArguments)).parse_args_into_dataclasses()
model = AutoModel.from_pretrained(named.model_name_or_path)
model = model.quantize(4)
Trainer(model.half(), arguments).train()
"""
HALVES = "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out"


def test_the_precision_of_a_model_that_the_code_changes_is_not_known() -> None:
    """PRE003 would say that it computes in fp32."""

    def document(program: str) -> Document:
        return launches(HALVES, {"train.py": program})[0]

    def rules(program: str) -> set[str]:
        workspace = in_memory({"go.sh": HALVES, "train.py": program})
        found = Engine(tuple(shipped())).analyse(
            document(program), workspace.context(gpu=find("A100-80GB"), gpus=8, versions={"transformers": (4, 57)})
        )
        return {one.rule for one in found.findings}

    start = document(HALVED).start
    assert start is not None and ("dtype",) in start.values.unknown
    assert "PRE003" not in rules(HALVED)
    assert "PRE003" in rules(HALVED.replace("model = model.quantize(4)\n", "").replace("model.half()", "model"))


def test_a_dtype_that_is_given_stays() -> None:
    program = HALVED.replace('path: str = ""', 'path: str = ""\n    torch_dtype: str = "auto"')
    found = launches(f"{HALVES} --torch_dtype bfloat16", {"train.py": program})[0]
    assert found.value["torch_dtype"] == "bfloat16" and "dtype" not in found.value


SWITCHED = """\
import fire
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def train(base_model: str = "", use_lora: bool = True, micro_batch_size: int = 4):
    model = AutoModelForCausalLM.from_pretrained(base_model, torch_dtype=torch.bfloat16)
    if use_lora:
        model = get_peft_model(model, LoraConfig(r=8))
    Trainer(model, args=TrainingArguments("out", bf16=True, per_device_train_batch_size=micro_batch_size)).train()

if __name__ == "__main__":
    fire.Fire(train)
"""


@pytest.mark.parametrize(
    ("flag", "method"),
    [("", "lora"), ("--use_lora=False", "full"), ("--use_lora False", "full"), ("--nouse_lora", "full")]
    + [("--use_lora=True", "lora"), ("--use-lora=False", "full")],
)
def test_fire_reads_words_of_python(flag: str, method: str) -> None:
    command = f"python train.py --base_model Qwen/Qwen2.5-7B {flag}"
    assert run(command, {"train.py": SWITCHED}).method.kind == method


FILLED = """\
from dataclasses import dataclass
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Arguments(TrainingArguments):
    def __post_init__(self):
        super().__post_init__()
        if self.eval_steps is None:
            self.eval_steps = 500

(arguments,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B"), arguments, eval_dataset=load()).train()
"""


def test_what_an_argument_class_sets_after_parsing_counts() -> None:
    """EVA005 would say that it evaluates at each log line."""
    command = "torchrun train.py --output_dir out --bf16 True --eval_strategy steps --logging_steps 10"
    without = FILLED.replace("self.eval_steps = 500", "pass")

    assert "eval_steps" in launches(command, {"train.py": FILLED})[0].value
    assert "EVA005" not in {one.rule for one in analysed(command, {"train.py": FILLED}).findings}
    assert "EVA005" in {one.rule for one in analysed(command, {"train.py": without}).findings}


BITS = """\
import argparse
from peft import PeftConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--adapter")
parser.add_argument("--load_in_8bit", action="store_true")
parser.add_argument("--batch_size", type=int)
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
bits = BitsAndBytesConfig(load_in_4bit=True)
name = PeftConfig.from_pretrained(args.adapter).base_model_name_or_path
model = AutoModelForCausalLM.from_pretrained(name, quantization_config=bits)
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=2)).train()
"""


def test_a_flag_that_the_call_it_is_named_after_does_not_get_sets_nothing() -> None:
    found = analysed("python bits.py --adapter a --load_in_8bit --batch_size 2 --epochs 3", {"bits.py": BITS})
    assert all(one.rule != "CFG008" for one in found.findings)
    assert found.runs[0].model.quantization.bits == 4


@pytest.mark.parametrize("section", ["", '"zero_optimization": {"stage": 1}', '"fp16": {"enabled": True}'])
def test_a_program_that_starts_deepspeed_itself_has_no_plug_in_that_refuses_its_file(section: str) -> None:
    """accelerate 1.15.0 utils/dataclasses.py:1277 looks for `zero_optimization`; deepspeed.initialize does not. Nor
    does it compare the file's precision with arguments of the program's own, as transformers does."""
    given = (
        f'import deepspeed\nengine = deepspeed.initialize(model=model, config={{"train_batch_size": 3, {section}}})\n'
    )
    text = LOOP.replace("for batch", f"{given}for batch")
    found = analysed("python loop.py sft.yaml", {"loop.py": text, "sft.yaml": "model: gpt2\nbatch: 3\n"})
    assert found.runs and all(one.rule not in ("CFG008", "DSP011") for one in found.findings)


MODULE = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--name")
parser.add_argument("--batch_size", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--kl_coeff", type=float)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.name)
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=args.batch_size)).train()
"""


def test_a_module_of_a_project_in_a_folder_is_found_from_its_scripts() -> None:
    """The script puts the project's folder on PYTHONPATH."""
    command = "torchrun --module pack.train --name gpt2 --kl_coeff 0.1 --batch_size 2 --epochs 3"
    workspace = in_memory({"project/scripts/run.sh": command, "project/pack/train.py": MODULE})
    (document,) = workspace.documents("project/scripts/run.sh")
    assert document.start is not None and "kl_coeff" in document.start.accepted.defined


NAMES = """\
def find_all_linear_names(model):
    names = set()
    for name, module in model.named_modules():
        if any(word in name for word in ["mm_projector", "vision_tower"]):
            continue
        if isinstance(module, torch.nn.Linear):
            names.add(name.split(".")[-1])
    if "lm_head" in names:
        names.remove("lm_head")
    return list(names)

"""


def test_names_that_the_code_finds_in_the_model_are_every_linear_layer() -> None:
    """QLoRA's helper and its copies: LLaVA's passes over the tower, which gets no adapters there."""
    program = NAMES + TRAIN.replace("r=args.lora_r", "r=8, target_modules=find_all_linear_names(model)")
    found = run(f"{COMMAND} --use_lora", {"train.py": program})
    assert (found.method.targets, found.method.freeze_vision_tower) == (("all-linear",), True)
    (document,) = launches(f"{COMMAND} --use_lora", {"train.py": program})
    assert document.value["finetune_vision_layers"] is False
    (of_all,) = launches(
        f"{COMMAND} --use_lora", {"train.py": program.replace('["mm_projector", "vision_tower"]', "[]")}
    )
    assert "finetune_vision_layers" not in of_all.value


def test_a_list_that_is_filled_where_nothing_is_known_is_not_empty() -> None:
    filled = "targets = []\nfor name in os.listdir('.'):\n    targets.append(name)\n"
    program = TRAIN.replace("steps =", f"{filled}steps =", 1).replace("r=args.lora_r", "r=8, target_modules=targets")
    assert run(f"{COMMAND} --use_lora", {"train.py": program}).method.targets is UNKNOWN


def test_the_older_name_of_preparing_a_quantised_model() -> None:
    prepared = "if bits:\n    model = prepare_model_for_int8_training(model)\nif args.use_lora:"
    program = TRAIN.replace("import LoraConfig", "import LoraConfig, prepare_model_for_int8_training")
    found = run(f"{COMMAND} --use_lora", {"train.py": program.replace("if args.use_lora:", prepared, 1)})
    assert (found.model.name, found.checkpointing.mode) == ("Qwen/Qwen2.5-7B", "full")


DATACLASSES = """\
from dataclasses import dataclass
import torch, transformers
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer

@dataclass
class LoraArguments:
    use_lora: bool = True
    q_lora: bool = False
    bits: int = 4

@dataclass
class TrainingArguments(transformers.TrainingArguments):
    project: str = ""

lora, args = HfArgumentParser((LoraArguments, TrainingArguments)).parse_args_into_dataclasses()
dtype = torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=dtype)
Trainer(model=model, args=args).train()
"""


def test_arguments_of_transformers_have_their_defaults_below_a_class_of_ones_own() -> None:
    command = "python train.py --output_dir out --per_device_train_batch_size 1"
    assert run(f"{command} --bf16 True", {"train.py": DATACLASSES}).model.weights_dtype == "bfloat16"
    assert run(command, {"train.py": DATACLASSES}).model.weights_dtype == "float32"


def test_bits_mean_nothing_where_their_switch_is_off() -> None:
    command = "python train.py --output_dir out --per_device_train_batch_size 1 --bf16 True"
    program = DATACLASSES.replace("Trainer(", "make(model, lora)\nTrainer(")
    for flag, bits in (("", 16), (" --q_lora True", 4)):
        quantization = run(command + flag, {"train.py": program}).model.quantization
        assert quantization is not UNKNOWN and (quantization.bits if quantization else 16) == bits


def test_a_trainer_that_writes_groups_by_itself_fills_no_batch_of_trl_s() -> None:
    """R1-V's: `num_generations` answers to each prompt of its batch, under a TRL that compares nothing."""
    program = """\
from transformers import HfArgumentParser, Trainer
from trl import GRPOConfig, GRPOTrainer
class OwnTrainer({base}):
    def compute_loss(self, model, inputs):
        return self.num_generations
(args,) = HfArgumentParser((GRPOConfig,)).parse_args_into_dataclasses()
trainer = OwnTrainer("Qwen/Qwen2.5-1.5B", args=args)
trainer.train()
"""
    command = (
        "torchrun --nproc_per_node 3 train.py --output_dir out --num_generations 4 --per_device_train_batch_size 1"
    )
    for base, is_found in (("Trainer", False), ("GRPOTrainer", True)):
        rules = {one.rule for one in analysed(command, {"train.py": program.replace("{base}", base)}).findings}
        assert ("TRL011" in rules) is is_found


def test_a_launch_that_is_not_followed_any_more_is_none() -> None:
    # flags by their names would say another run: of `--bits` and `--micro` the code alone knows what they are
    script = "".join(f"{COMMAND} --lora_r {rank}\n" for rank in range(8, 20))
    found = launches(script)
    assert len(found) == 8
    assert all(one.value["load_in_4bit"] for one in found)


def test_what_a_class_of_arguments_hands_on_is_an_argument() -> None:
    own = "class Own(TrainingArguments):\n    def __init__(self, **kwargs):\n        super().__init__(**kwargs)\n"
    program = TRAIN.replace("parser =", f"{own}\nparser =", 1).replace(
        'TrainingArguments("out",', "Own(output_dir='out',"
    )
    found = run(COMMAND, {"train.py": program})
    assert (found.batch.micro_batch_size, found.precision.compute) == (2, "bfloat16")


WITH_SWITCH = """\
from dataclasses import dataclass, field
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Model:
    base: str = field(default="Qwen/Qwen2.5-7B")

@dataclass
class Training(TrainingArguments):
    bits: int = 16
    lora_enable: bool = False
    lora_r: int = 64

model_args, args = HfArgumentParser((Model, Training)).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(model_args.base)
if args.lora_enable:
    model = get_peft_model(model, LoraConfig(r=args.lora_r))
Trainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(("flag", "kind"), [("", "full"), ("--lora_enable True", "lora")])
def test_defaults_of_adapters_are_none_where_the_switch_is_off(flag: str, kind: str) -> None:
    command = (
        f"torchrun --nproc_per_node 4 train.py --output_dir out --per_device_train_batch_size 2 --bf16 True {flag}"
    )
    assert run(command, {"train.py": WITH_SWITCH}).method.kind == kind


MANY_LENGTHS = """\
import argparse
from trl import SFTConfig, SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--max-seq-length", default=1024, type=int)
parser.add_argument("--max-length", default=20, type=int)
args = parser.parse_args()
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=SFTConfig("out", max_seq_length=args.max_seq_length))
trainer.train()
trainer.model.generate(max_length=args.max_length)
"""


def test_a_length_that_the_trainer_is_given_comes_before_another_option() -> None:
    assert run("python train.py --max-length 30", {"train.py": MANY_LENGTHS}).sequence.length == 1024


def test_a_flag_that_the_loaded_model_does_not_get_has_no_effect() -> None:
    program = TRAIN.replace("args = parser", 'parser.add_argument("--attn_implementation")\nargs = parser')
    flag = f"{COMMAND} --attn_implementation flash_attention_2"
    assert run(flag, {"train.py": program}).attention.implementation == "sdpa"
    given = program.replace("torch_dtype=torch", "attn_implementation=args.attn_implementation, torch_dtype=torch")
    assert run(flag, {"train.py": given}).attention.implementation == "flash_attention_2"


OWN_CONFIG = """\
from dataclasses import dataclass
import trl
from trl import ModelConfig, SFTTrainer, TrlParser
@dataclass
class SFTConfig(trl.SFTConfig):
    note: str = ""
args, model = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()
args.model_init_kwargs = dict(attn_implementation=model.attn_implementation, torch_dtype=model.torch_dtype)
SFTTrainer(model=model.model_name_or_path, args=args).train()
"""


def test_a_configuration_of_ones_own_hands_on_what_the_model_loads_with() -> None:
    command = "python own.py --model_name_or_path gpt2 --attn_implementation flash_attention_2 --torch_dtype bfloat16"
    found = run(f"{command} --max_length 512 --output_dir out --learning_rate 1e-5", {"own.py": OWN_CONFIG})
    assert (found.attention.implementation, found.model.weights_dtype) == ("flash_attention_2", "bfloat16")


def test_a_program_that_is_there_is_not_taken_for_open_instruct() -> None:
    program = TRAIN.replace("args = parser", 'parser.add_argument("--dpo_beta")\nargs = parser')
    found = run(f"{COMMAND} --dpo_beta 0.1", {"train.py": program})
    assert found.attention.implementation == "sdpa"


def test_a_trainer_of_any_name_is_followed() -> None:
    """`TrainerWithReward` of a module that makes no trainer itself."""
    own = "from transformers import Trainer\nclass TrainerWithReward(Trainer):\n    pass\n"
    code = TRAIN.replace("\nTrainer(", "\nfrom own import TrainerWithReward\nTrainerWithReward(")
    code = code.replace("TrainingArguments, Trainer\n", "TrainingArguments\n").replace(
        "args.use_lora", "args.lora_r > 0"
    )
    command = f"{COMMAND} --bits 16 --lora_r"
    kinds = [run(f"{command} {rank}", {"train.py": code, "own.py": own}).method.kind for rank in (0, 8)]
    assert kinds == ["full", "lora"]


# A loop of the program's own, whose dataclass comes from the command line; the tokens come from another package.
DATACLASS = """\
from dataclasses import dataclass
import torch
from transformers import AutoModelForCausalLM, HfArgumentParser
from own_data import cached_tokens

@dataclass
class FlatArguments:
    model_name_or_path: str | None = None
    max_seq_length: int | None = None
    per_device_train_batch_size: int = 8

class ArgumentParserPlus(HfArgumentParser):
    pass

def main(args):
    data = cached_tokens([{"max_seq_length": args.max_seq_length}])
    model = AutoModelForCausalLM.from_pretrained(args.model_name_or_path, torch_dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in torch.utils.data.DataLoader(data, batch_size=args.per_device_train_batch_size):
        model(**batch).loss.backward()
        optimizer.step()

main(ArgumentParserPlus((FlatArguments,)).parse_args_into_dataclasses()[0])
"""


def test_a_length_that_only_the_command_line_names() -> None:
    found = run("python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --max_seq_length 1024", {"train.py": DATACLASS})
    assert found.sequence.length == 1024
    found = run("python train.py --model_name_or_path Qwen/Qwen2.5-0.5B", {"train.py": DATACLASS})
    assert found.sequence.length is UNKNOWN


def test_a_file_of_arguments_that_is_not_known_may_say_anything() -> None:
    found = run('python train.py "$2"', {"train.py": DATACLASS})
    assert found.sequence.length is UNKNOWN
    assert found.batch.micro_batch_size is UNKNOWN


# As QwenLM/Qwen3-VL qwen-vl-finetune/qwenvl/train/train_qwen.py.
SEES = """\
from dataclasses import dataclass
import torch, transformers

@dataclass
class Arguments:
    model_name_or_path: str = ""
    tune_mm_vision: bool = False
    max_pixels: int = 28 * 28 * 576

parser = transformers.HfArgumentParser((Arguments, transformers.TrainingArguments))
arguments, training = parser.parse_args_into_dataclasses()
model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(arguments.model_name_or_path)
for name, one in model.visual.named_parameters():
    one.requires_grad = arguments.tune_mm_vision
transformers.Trainer(model=model, args=training).train()
"""


@pytest.mark.parametrize("trains", [False, True])
def test_a_frozen_tower_and_the_size_of_images(trains: bool) -> None:
    command = "torchrun train.py --model_name_or_path Qwen/Qwen2.5-VL-3B-Instruct --output_dir o --max_pixels 50176"
    found = run(f"{command} --tune_mm_vision {trains}", {"train.py": SEES})
    assert (found.method.kind, found.method.freeze_vision_tower) == ("full", not trains)
    assert not found.method.freeze_language_model
    assert found.sequence.image_max_pixels == 50176


ASKS = """\
import argparse
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
parser.add_argument("--vision", action="store_true")
parser.add_argument("--evaluation", default=None)
parser.add_argument("--batch_size", type=int, default=4)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model)
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=args.batch_size,
    eval_strategy=args.evaluation,
    save_strategy="steps",
    load_best_model_at_end=True,
)
Trainer(model=model, args=arguments).train()
"""


@pytest.mark.parametrize(
    ("script", "is_wrong"),
    [
        ("python train.py --model Qwen/Qwen2.5-7B --batch_size 8\n", True),
        ("python train.py --model Qwen/Qwen2.5-7B $EXTRA --batch_size 8\n", True),  # empty in a plain environment
        ('python train.py --model "$1" --batch_size 8\n', True),
        ("python train.py --model $1 $2 --batch_size 8\n", False),
        ("KIND=$2\npython train.py --model $1 ${KIND} --batch_size 8\n", False),
        ("python train.py --batch_size 8 $(cat more-options)\n", False),
        ('python train.py --batch_size 8 "$(cat one-value)"\n', True),
    ],
)
def test_no_error_rests_on_the_default_of_an_option_that_the_caller_may_give(script: str, is_wrong: bool) -> None:
    workspace = in_memory({"go.sh": script, "train.py": ASKS})
    for path in ("go.sh", "train.py"):
        found = Engine(tuple(shipped())).analyse(workspace.documents(path)[0], workspace.context())
        assert any(one.rule in ("TRN001", "CFG002") for one in found.findings) == is_wrong
    (document,) = workspace.documents("go.sh")
    assert document.value["per_device_train_batch_size"] == 8


def test_an_open_command_of_dataclasses_leaves_open_what_it_does_not_say() -> None:
    code = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B"), args=args).train()
"""
    said = "python train.py --output_dir out --learning_rate 1e-5 --bf16 True"
    (closed,) = launches(f"{said}\n", {"train.py": code})
    (opened,) = launches(f"{said} $1 $2\n", {"train.py": code})
    assert "fp16" not in closed.value
    assert (opened.value["bf16"], opened.value["fp16"]) == (True, "${fp16}")
    assert "caller" in opened.start.values.unknown[("fp16",)]  # type: ignore[union-attr]


def test_a_program_that_many_commands_start_is_what_they_agree_on() -> None:
    lines = "".join(f"python train.py --evaluation steps --batch_size {size}\n" for size in (1, 2, 4, 8, 16, 32))
    workspace = in_memory({"go.sh": lines, "train.py": ASKS})
    (document,) = workspace.documents("train.py")
    assert document.value["eval_strategy"] == "steps"
    assert document.value["per_device_train_batch_size"] == "${per_device_train_batch_size}"


def test_a_command_that_the_repositorys_package_installs_starts_its_module() -> None:
    files = {
        "go.sh": "own-fit --base Qwen/Qwen2.5-7B --micro 2 --use_lora --learning-rate 1e-5\n",
        "pyproject.toml": '[project]\nname = "own"\n[project.scripts]\nown-fit = "own.cli:main"\n',
        "own/cli.py": TRAIN.replace("args = parser", 'parser.add_argument("--learning-rate")\nargs = parser'),
    }
    (document,) = in_memory(files).documents("go.sh")
    assert document.value["per_device_train_batch_size"] == 2
    assert document.value["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert not in_memory({**files, "pyproject.toml": ""}).documents("go.sh")


RECIPE = """\
from dataclasses import dataclass
from transformers import HfArgumentParser, Trainer, TrainingArguments
import recipes

@dataclass
class Arguments(TrainingArguments):
    model_name_or_path: str = ""
    recipe: str = "common"
    lora_r: int = 64
    lora_alpha: int = 16

args = HfArgumentParser(Arguments).parse_args_into_dataclasses()[0]
model = recipes.of(args.recipe).load(args)
Trainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(("words", "kind"), [("", UNKNOWN), ("--lora_r 8", "lora")])
def test_the_default_size_of_an_adapter_is_no_adapter(words: str, kind: object) -> None:
    """Where the model is made by code that is not followed: a recipe may train all of it."""
    command = f"python train.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir out --bf16 True {words}"
    found = run(command, {"train.py": RECIPE})
    assert found.method.kind is kind or found.method.kind == kind


OWN_ENGINE = """\
import argparse
import deepspeed, torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

def engine(stage):
    return {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True},
            "zero_optimization": {"stage": stage}}

parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path")
parser.add_argument("--zero_stage", type=int, default=0)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
config = engine(args.zero_stage)
config["train_batch_size"] = 4 * torch.distributed.get_world_size()
model = AutoModelForCausalLM.from_pretrained(args.model_name_or_path)
model, optimizer, _, _ = deepspeed.initialize(args=args, model=model, config=config)
for batch in DataLoader(data, batch_size=4):
    model.backward(model(**batch).loss)
    model.step()
"""


def test_the_switch_that_deepspeed_adds_hides_no_configuration() -> None:
    """`--deepspeed` (deepspeed.add_config_arguments) beside a configuration of which the code leaves a part open."""
    command = "deepspeed --num_gpus 8 chat.py --model_name_or_path Qwen/Qwen2.5-7B --zero_stage 3"
    for switch in ("", " --deepspeed"):
        found = run(f"{command}{switch}\n", {"chat.py": OWN_ENGINE})
        assert found.parallelism.engine == "deepspeed" and found.parallelism.zero.stage == 3


@pytest.mark.parametrize(
    ("step", "gpus"),
    [("--nodes=1 --gpus-per-node=3", 3), ("-N 2 --gres=gpu:a100:4", 8), ("-n 1 -c 8", 2), ("--gpus=6", 6)],
)
def test_srun_asks_for_gpus_itself(step: str, gpus: int) -> None:
    """Without a word of its own it has those of the job."""
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:2\nsrun {step} deepspeed train.py --base Qwen/Qwen2.5-7B --micro 2\n"
    assert run(script).parallelism.world_size == gpus


def test_the_size_of_sequence_parallelism_is_no_mistake_beside_its_attention() -> None:
    """deepspeed.runtime.sequence_parallel puts attention into the model that shares the sequences."""
    program = OWN_ENGINE.replace('"bf16":', '"sequence_parallel_size": 2, "bf16":')
    program = program.replace('config["train_batch_size"] = 4 * torch.distributed.get_world_size()\n', "")
    ulysses = "from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF\n"
    sharing = program.replace(
        "model = Auto", "mpu = UlyssesSPAttentionHF.register_with_transformers(args)\nmodel = Auto"
    )
    command = "deepspeed --num_gpus 8 chat.py --model_name_or_path Qwen/Qwen2.5-7B --zero_stage 3\n"

    def rules(code: str) -> set[str]:
        return {one.rule for one in analysed(command, {"chat.py": code}).findings}

    assert "DSP026" in rules(program)
    assert "DSP026" not in rules(ulysses + sharing)


OF_A_FUNCTION = """\
from fire import Fire
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer
from other import parse_args

def train(model_path: str = "", train_batch_size: int = 32, eval_step: float = 0.199):
    args = GRPOConfig("out", eval_steps=eval_step, per_device_train_batch_size=train_batch_size, num_generations=4)
    GRPOTrainer(model=model_path, args=args, reward_funcs=[reward], train_dataset=data).train()

if __name__ == "__main__":
    Fire(train)
"""
OTHER = """\
import argparse

def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed")
    return parser
"""


@pytest.mark.parametrize(("flag", "known"), [("eval_step", True), ("learning_rte", False)])
def test_the_parameters_of_a_function_are_the_flags_of_fire(flag: str, known: bool) -> None:
    """`--eval_step` is no slip of `eval_steps` where the function has it."""
    command = f"accelerate launch --num_processes 8 rl.py --model_path Qwen/Qwen2.5-7B --{flag} 0.1\n"
    workspace = in_memory({"rl.sh": command, "rl.py": OF_A_FUNCTION, "other.py": OTHER})
    (document,) = workspace.documents("rl.sh")
    found = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert not [one.message for one in found if known and one.rule == "CFG001"]
    assert document.start is not None and (flag in document.start.accepted.defined) is known


def test_the_model_that_an_unknown_word_names_is_seen_to_load() -> None:
    found = run('torchrun --nproc_per_node 4 train.py --base "$1" --bits 16')
    assert found.model.name is UNKNOWN
    assert found.method.kind == "full"


UNSEEN = """\
from dataclasses import dataclass
import transformers
from transformers import HfArgumentParser, Trainer
from mine import build

@dataclass
class Arguments(transformers.TrainingArguments):
    model_name_or_path: str = "gpt2"

args = HfArgumentParser(Arguments).parse_args_into_dataclasses()[0]
Trainer(build(args.model_name_or_path), args=args).train()
"""
BUILD = """\
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from mapping import {function}

def build(name):
    return {function}(AutoModelForCausalLM.from_pretrained(name), LoraConfig(r=4))
"""
MAPPING = """\
KINDS = load()

def {function}(model, peft_config, adapter_name="default"):
    return KINDS[peft_config.kind](model)
"""


def test_a_model_that_is_not_seen_may_have_an_adapter() -> None:
    files = {
        name: text.replace("{function}", "adapted") for name, text in (("mine.py", BUILD), ("mapping.py", MAPPING))
    }
    found = run("python train.py --output_dir out", {"train.py": UNSEEN, **files})
    assert (found.model.name, found.method.kind) == ("gpt2", UNKNOWN)


def test_a_copy_of_peft_adapts_as_peft_does() -> None:
    name = "get_peft_model"
    files = {path: text.replace("{function}", name) for path, text in (("mine.py", BUILD), ("mapping.py", MAPPING))}
    found = run("python train.py --output_dir out", {"train.py": UNSEEN, **files})
    assert (found.method.kind, found.method.rank) == ("lora", 4)


WHETHER = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model, args)
if args.do_train:
    trainer.train()
write(model)
"""


def test_a_program_that_asks_whether_to_train() -> None:
    command = "python train.py --output_dir out --per_device_train_batch_size 4"
    assert launches(command, {"train.py": WHETHER}) == ()
    assert len(launches(f"{command} --do_train", {"train.py": WHETHER})) == 1
    assert len(launches(f"{command} $(cat more-options)", {"train.py": WHETHER})) == 1


@pytest.mark.parametrize(("given", "purpose"), [("--do_eval", "inference"), ("--do_train --do_eval", "train")])
def test_an_example_of_transformers_that_is_not_here(given: str, purpose: str) -> None:
    command = f"python run_glue_mine.py --model_name_or_path bert-base-uncased {given} --learning_rate 2e-5"
    assert run(f"{command} --per_device_train_batch_size 8 --output_dir out").purpose == purpose


PACKS = """\
import argparse
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from blocks import packed

parser = argparse.ArgumentParser()
parser.add_argument("--max_seq_len", type=int, default=20520)
parser.add_argument("--pack_length", type=int, default=-1)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out"), train_dataset=packed(args)).train()
"""


def test_a_default_beside_another_length_of_the_command() -> None:
    assert run("python train.py --pack_length 512", {"train.py": PACKS}).sequence.length is UNKNOWN
    assert run("python train.py --max_seq_len 512", {"train.py": PACKS}).sequence.length == 512
    assert run("python train.py --pack_length 512 --max_seq_len 768", {"train.py": PACKS}).sequence.length == 768


ITSELF = """\
import inspect
import fire
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def train(base: str, micro: int = 4):
    print(inspect.signature(train))
    model = AutoModelForCausalLM.from_pretrained(base, load_in_8bit=True)
    Trainer(model, TrainingArguments("out", per_device_train_batch_size=micro)).train()

fire.Fire(train)
"""


def test_a_function_that_asks_for_its_own_parameters_runs_once() -> None:
    found = run("python train.py --base gpt2 --micro 8", {"train.py": ITSELF})
    assert (found.batch.micro_batch_size, found.model.quantization.bits) == (8, 8)


def test_deepspeed_whose_file_is_not_here_or_that_a_switch_turns_on() -> None:
    flags = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 2 --output_dir out --do_train"
    script = f"accelerate launch --num_processes 4 --multi_gpu {flags} --deepspeed away.json"
    foreign = f"deepspeed --num_gpus 4 main.py {flags.partition(' ')[2]} --deepspeed --zero_stage 3"
    for found in (run(script, {"train.py": WHETHER}), run(foreign)):
        assert (found.parallelism.engine, found.parallelism.zero.stage) == ("deepspeed", UNKNOWN)


OWN_CALLBACK = """\
import typer
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments

class Validation(TrainerCallback):
    def __init__(self, eval_steps):
        self.eval_steps = eval_steps

def main(base: str = "Qwen/Qwen2.5-0.5B", eval_steps: int = 1):
    args = TrainingArguments(output_dir="o", per_device_train_batch_size=2{passed})
    trainer = Trainer(model=AutoModelForCausalLM.from_pretrained(base), args=args, train_dataset=d)
    trainer.add_callback(Validation(eval_steps=eval_steps))
    trainer.train()

typer.run(main)
"""


@pytest.mark.parametrize(
    ("passed", "said"),
    [("", []), (", eval_steps=eval_steps", ["EVA004"])],
)
def test_a_flag_of_a_callback_is_no_argument_of_the_trainer(passed: str, said: list[str]) -> None:
    files = {"train.py": OWN_CALLBACK.replace("{passed}", passed)}
    found = analysed("python train.py --base Qwen/Qwen2.5-1.5B --eval-steps 50", files)
    assert [one.rule for one in found.findings if one.rule.startswith("EVA")] == said


SUBCOMMANDS = """\
import argparse
from trl import GRPOConfig, GRPOTrainer, ModelConfig, SFTConfig, SFTTrainer, ScriptArguments, TrlParser
def train(script, arguments, model, own):
    if own.prepare:
        SFTTrainer(model.model_name_or_path, SFTConfig(max_length=512)).train()
        return
    GRPOTrainer(model=model.model_name_or_path, args=arguments, reward_funcs=[score]).train()
def measure(namespace):
    print(namespace.model)
parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", parser_class=TrlParser)
of_train = commands.add_parser("train", dataclass_types=[ScriptArguments, GRPOConfig, ModelConfig])
of_train.add_argument("--prepare", action="store_true")
of_train.set_defaults(handler=train, parser=of_train)
of_eval = commands.add_parser("eval")
of_eval.add_argument("--model")
of_eval.set_defaults(handler=measure, parser=of_eval)
namespace, _ = parser.parse_known_args()
parsed = namespace.parser.parse_args_and_config(return_remaining_strings=True)
arguments = list(parsed[:-1]) if isinstance(parsed, tuple) else [parsed]
namespace.handler(*arguments)
"""
TRAINS = "accelerate launch main.py train --model_name_or_path Qwen/Qwen3-8B --max_completion_length 4096"


def test_a_subcommand_parses_the_dataclasses_of_trl() -> None:
    files = {"main.py": SUBCOMMANDS}
    found = run(f"{TRAINS} --gradient_accumulation_steps 2", files)
    assert (found.method.stage, found.batch.gradient_accumulation_steps) == ("grpo", 2)
    assert found.sequence.max_new_tokens == 4096
    found = run(f"{TRAINS} --prepare", files)
    assert (found.method.stage, found.sequence.length) == ("sft", 512)


def test_another_subcommand_than_the_training_is_none() -> None:
    files = {"main.py": SUBCOMMANDS}
    assert launches("python main.py eval --model Qwen/Qwen3-8B", files) == ()
    assert len(launches(TRAINS, files)) == 1


def test_a_parser_of_dataclasses_has_arguments_of_its_own() -> None:
    code = TRAIN[: TRAIN.index("parser = ")] + (
        "from transformers import HfArgumentParser\n"
        "parser = HfArgumentParser(TrainingArguments)\n"
        "parser.add_argument('--base', default='gpt2')\n"
        "arguments, own = parser.parse_args_into_dataclasses()\n"
        "Trainer(AutoModelForCausalLM.from_pretrained(own.base), arguments).train()\n"
    )
    found = run("python train.py --base Qwen/Qwen2.5-7B --output_dir out --bf16", {"train.py": code})
    assert (found.model.name, found.precision.compute) == ("Qwen/Qwen2.5-7B", "bfloat16")


TWO = """\
from transformers import AutoModelForCausalLM
from peft import LoraConfig
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

def teach(model):
    args = SFTConfig("out", per_device_train_batch_size=40, gradient_accumulation_steps=16, max_length=512)
    SFTTrainer(model=model, args=args).train()

def prefer(model):
    args = DPOConfig("out", per_device_train_batch_size=2, max_length=1024)
    DPOTrainer(model=model, args=args, peft_config=LoraConfig(r=64)).train()

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
teach(model)
"""


def test_each_training_of_a_program_is_a_run_of_its_launch() -> None:
    files = {"two.py": TWO + "prefer(model)\n"}
    first, second = launches("deepspeed --num_gpus 2 two.py --deepspeed z.json", files)
    assert (first.value["per_device_train_batch_size"], second.value["lora_r"]) == (40, 64)
    assert (first.index, second.index, first.documents) == (0, 1, 2)
    assert first.start is not None and first.start.values.in_program is not None
    in_code = first.start.values.in_program()
    assert in_code is not None and in_code.value["gradient_accumulation_steps"] == 16


def test_of_several_trainings_none_is_taken_where_one_is_in_doubt() -> None:
    choice = "if input() == 'sft':\n    teach(model)\nelse:\n    prefer(model)\n"
    files = {"two.py": TWO.removesuffix("teach(model)\n") + choice}
    (only,) = launches("deepspeed --num_gpus 2 two.py --deepspeed z.json", files)
    assert only.start is not None and only.start.values.in_program is None


def test_a_package_hands_on_a_trainer_that_its_own_modules_have() -> None:
    loop = """
    import torch
    from transformers import AutoModelForCausalLM
    def main():
        model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters())
        for batch in torch.utils.data.DataLoader(data, batch_size=4):
            model(**batch).loss.backward()
            optimizer.step()
    """.replace("\n    ", "\n")
    files = {
        "train.py": "from own.training import main\nif __name__ == '__main__':\n    main()\n",
        "own/training/__init__.py": "from .launcher import main\n",
        "own/training/launcher.py": loop,
    }
    (only,) = launches("torchrun --nproc_per_node 2 train.py", files)
    assert only.value["model_name_or_path"] == "Qwen/Qwen2.5-0.5B"


def test_ms_swift_s_command_is_found_by_which() -> None:
    command = 'cmd=("$(which swift)" sft --model Qwen/Qwen2.5-7B)\ntorchrun --nproc_per_node 2 "${cmd[@]}"'
    found = run(command)
    assert (found.method.kind, found.parallelism.world_size, found.model.name) == ("lora", 2, "Qwen/Qwen2.5-7B")


@pytest.mark.parametrize("before", ["", r"source setup.sh \&\& "])
def test_a_program_that_submits_a_launch_is_not_what_trains(before: str) -> None:
    launch = "torchrun --nproc_per_node 4 -m swift.cli.sft --model Qwen/Qwen2.5-7B"
    found = run(f"python mason.py --num_nodes 1 --gpus 8 -- {before}{launch}")
    assert (found.method.kind, found.parallelism.world_size, found.model.name) == ("lora", 4, "Qwen/Qwen2.5-7B")


def test_a_command_of_the_repository_s_own_package_is_found_by_which() -> None:
    """Its function is called, in a module that does nothing as a script."""
    files = {
        "pyproject.toml": '[project]\nname = "own"\n[project.scripts]\nfinetune = "own.cli:main"\n',
        "own/cli.py": "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n\ndef main():\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B', torch_dtype='bfloat16')\n"
        "    Trainer(model=model, args=TrainingArguments('o', per_device_train_batch_size=3)).train()\n",
    }
    for command in ("torchrun --nproc_per_node 4 $(which finetune) --seed 1", "uv run finetune --seed 1"):
        found = run(command, files)
        assert (found.batch.micro_batch_size, found.model.name) == (3, "Qwen/Qwen2.5-0.5B")
    assert not launches("torchrun --nproc_per_node 4 $(which other) --seed 1", files)


BESIDE_FILE = """\
import os, sys
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import DPOConfig, DPOTrainer, ModelConfig
from alignment import H4ArgumentParser
{parse}
model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path{loads})
DPOTrainer(model, args=args, train_dataset=data).train()
"""
H4 = "args, model_args = H4ArgumentParser((DPOConfig, ModelConfig)).parse()"
OF_FILE = "model_name_or_path: Qwen/Qwen2.5-7B\nbf16: true\nper_device_train_batch_size: 3\nmax_length: 512\n"


@pytest.mark.parametrize(("loads", "attention"), [(', attn_implementation="eager"', "eager"), ("", "sdpa")])
def test_what_the_code_says_of_loading_counts_beside_its_file(loads: str, attention: str) -> None:
    files = {"dpo.py": BESIDE_FILE.format(parse=H4, loads=loads), "dpo.yaml": OF_FILE}
    found = run("python dpo.py dpo.yaml\n", files)
    assert (found.attention.implementation, found.batch.micro_batch_size) == (attention, 3)


def test_a_parser_is_given_its_file_by_name() -> None:
    parse = (
        "parser = HfArgumentParser((DPOConfig, ModelConfig))\n"
        "args, model_args = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))"
    )
    text = '{"model_name_or_path": "Qwen/Qwen2.5-7B", "per_device_train_batch_size": 3, "max_length": 512}'
    files = {"dpo.py": BESIDE_FILE.format(parse=parse, loads=""), "dpo.json": text}
    found = run("python dpo.py dpo.json\n", files)
    assert (found.model.name, found.batch.micro_batch_size) == ("Qwen/Qwen2.5-7B", 3)


TWO_STAGES = """\
from dataclasses import dataclass, field
import transformers
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer
from own import OwnTrainer

@dataclass
class Arguments(transformers.TrainingArguments):
    prefer: bool = field(default=False)
    dpo_beta: float = field(default=0.1)

(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
if args.prefer:
    trainer = OwnTrainer(model=model, args=args)
else:
    trainer = Trainer(model=model, args=args)
trainer.train()
"""
OWN_LOSS = (
    "from transformers import Trainer\nclass OwnTrainer(Trainer):\n    def compute_loss(self, *a):\n        return 0\n"
)


@pytest.mark.parametrize(("prefer", "stage"), [("False", "sft"), ("True", "dpo")])
def test_options_of_another_branch_say_nothing_of_the_loss(prefer: str, stage: str) -> None:
    files = {"two.py": TWO_STAGES, "own.py": OWN_LOSS}
    command = f"python two.py --output_dir o --per_device_train_batch_size 2 --prefer {prefer} --bf16 True\n"
    assert run(command, files).method.stage == stage


@pytest.mark.parametrize(("length", "is_refused"), [("None", False), ("1024", True)])
def test_a_length_of_none_cuts_nothing(length: str, is_refused: bool) -> None:
    """trl 1.16 trainer/sft_trainer.py: `padding_free` without packing does not go with a `max_length`."""
    program = (
        "from transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", attn_implementation="flash_attention_2")\n'
        f'config = SFTConfig(output_dir="o", max_length={length}, padding_free=True, packing=False)\n'
        "SFTTrainer(model=model, args=config).train()\n"
    )
    found = analysed("accelerate launch --num_processes 2 train.py\n", {"train.py": program})
    assert ("TRL006" in {one.rule for one in found.findings}) is is_refused
    assert found.runs[0].sequence.length == (1024 if is_refused else UNKNOWN)


OF_HYDRA = """\
import hydra, torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from transformers import AutoModelForCausalLM

class Trainer:
    def __init__(self, config):
        self.policy, self.wrapped = self._build(model_path=config.model.partial)
        self.optimizer = torch.optim.AdamW(self.wrapped.parameters(), lr=config.lr)

    def _build(self, model_path):
        model = AutoModelForCausalLM.from_pretrained(remote.fetch(model_path))
        return model, FSDP(module=model)

    def fit(self):
        for batch in self.data:
            self.wrapped(batch).loss.backward()
            self.optimizer.step()

@hydra.main(config_path="config", config_name="t", version_base=None)
def main(config):
    Trainer(config).fit()

main()
"""


def test_a_key_below_a_section_is_no_flag_of_the_sections_name() -> None:
    command = "torchrun --nproc_per_node 8 train.py model.partial=Qwen/Qwen2.5-7B model.target_modules=all-linear"
    files = {"train.py": OF_HYDRA, "config/t.yaml": "model: {partial: a/b, target_modules: x}\nlr: 0.1\n"}
    (found,) = launches(command, files)
    assert found.value["model_name_or_path"] == "${model_name_or_path}"
