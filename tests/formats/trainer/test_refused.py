"""What classes of transformers, TRL and PEFT refuse in a script: 47, 43 and 19 of their releases were read."""

from __future__ import annotations

import pytest

import memlint
from memlint.formats.trainer.argument_classes import arguments_taken, is_known

SCRIPT = """\
from peft import LoraConfig, TaskType{imports}
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(output_dir="o", per_device_train_batch_size=8{config})
adapter = LoraConfig(r=8, lora_alpha=16{adapter})
GRPOTrainer(model="Qwen/Qwen2.5-0.5B", args=args, reward_funcs=f, train_dataset=d, peft_config=adapter{trainer}).train()
"""


MEANT = ": did you mean `{}`?"
CAUSAL = MEANT.format("CAUSAL_LM")


def said(*, versions: dict[str, str] | None = None, **given: str) -> list[tuple[str, str]]:
    text = SCRIPT.format(**{"imports": "", "config": "", "adapter": "", "trainer": "", **given})
    found = memlint.check(text, path="train.py", fixes=False, versions=versions).findings
    return [(one.severity, one.message) for one in found if one.rule in ("CFG001", "CFG002", "CFG003", "CFG007")]


@pytest.mark.parametrize(
    ("given", "severity", "message"),
    [
        ({"config": ", batch_size=4"}, "error", "GRPOConfig takes no `batch_size`: use `per_device_train_batch_size`"),
        (
            {"config": ", num_generation=4"},
            "error",
            "GRPOConfig takes no `num_generation`: did you mean `num_generations`?",
        ),
        ({"config": ", reward_funcs=4"}, "error", "GRPOConfig takes no `reward_funcs`: GRPOTrainer has it"),
        ({"config": ", packing=True"}, "error", "GRPOConfig takes no `packing`: SFTConfig has it"),
        ({"config": ", quux=4"}, "warning", "GRPOConfig takes no `quux` in any release of trl"),
        ({"trainer": ", max_steps=4"}, "error", "GRPOTrainer takes no `max_steps`: GRPOConfig has it"),
        ({"adapter": ", dropout=0.1"}, "error", "LoraConfig takes no `dropout`: use `lora_dropout`"),
        (
            {"adapter": ", target_module=['q_proj']"},
            "error",
            "LoraConfig takes no `target_module`: did you mean `target_modules`?",
        ),
    ],
)
def test_a_name_that_no_release_has_is_a_type_error(given: dict[str, str], severity: str, message: str) -> None:
    assert said(**given) == [(severity, f"{message} (Python raises TypeError)")]


OWN_TRAINER = """\
from transformers import Trainer, TrainingArguments

class OwnTrainer(Trainer):
    def __init__(self, model, args, train_dataset=None, {takes}):
        super().__init__(model=model, args=args, train_dataset=train_dataset{hands_on})

OwnTrainer("Qwen/Qwen2.5-0.5B", TrainingArguments("o"), train_dataset=d, max_pixels=4).train()
"""


@pytest.mark.parametrize(
    ("takes", "hands_on", "count"),
    [("**kwargs", "", 0), ("**rest", ", **rest", 1), ("max_pixels=0", "", 0), ("**kwargs", ", **{'x': 1}", 0)],
    ids=["drops them", "hands them on", "has a name", "hands others on"],
)
def test_a_class_of_the_scripts_own_may_keep_what_it_is_given(takes: str, hands_on: str, count: int) -> None:
    text = OWN_TRAINER.format(takes=takes, hands_on=hands_on)
    found = memlint.check(text, path="train.py", fixes=False).findings
    assert sum("takes no `max_pixels`" in one.message for one in found) == count


BETWEEN = """\
from transformers import Trainer, TrainingArguments

class Middle(Trainer):
    def __init__(self, model, args, {takes}**kwargs):
        super().__init__(model=model, args=args, **kwargs)

class OwnTrainer(Middle):
    def __init__(self, model, args, kind="a", **kwargs):
        super().__init__(model=model, args=args, **kwargs)

OwnTrainer("Qwen/Qwen2.5-0.5B", TrainingArguments("o"), train_dataset=d, max_pixels=4).train()
"""


@pytest.mark.parametrize(("takes", "count"), [("max_pixels=0, ", 0), ("", 1)])
def test_a_class_between_may_keep_it_too(takes: str, count: int) -> None:
    found = memlint.check(BETWEEN.format(takes=takes), path="train.py", fixes=False).findings
    assert sum("takes no `max_pixels`" in one.message for one in found) == count


def test_several_names_that_resemble_none_are_a_forks() -> None:
    found = said(adapter=", keep_lmc=1, sign_preserve=2")
    assert [severity for severity, _ in found] == ["info", "info"]
    assert all(words.endswith("(Python raises TypeError unless a fork of peft is installed)") for _, words in found)


@pytest.mark.parametrize(
    "given",
    [
        {"config": ", max_prompt_length=4, vllm_device='cuda:7', evaluation_strategy='no', overwrite_output_dir=True"},
        {"adapter": ", target_modules=['q_proj'], layers_to_transform=[1], layers_pattern='h', use_dora=True"},
        {"adapter": ", task_type=TaskType.CAUSAL_LM, bias='lora_only', init_lora_weights='pissa_niter_16'"},
        {"adapter": ", task_type='SEQ_CLS', bias='none', init_lora_weights='Gaussian'"},
        {"adapter": ", init_lora_weights=False, **more"},
        {"config": ", batch_size=4", "imports": "\nimport inspect\ninspect.signature(GRPOConfig)"},
        {"adapter": ", keep=4", "imports": "\nimport sys\nsys.path.append(os.path.join(root, 'peft/src'))"},
    ],
)
def test_what_some_release_or_copy_takes_is_not_told(given: dict[str, str]) -> None:
    assert [one for one in said(**given) if "Python raises" in one[1] or "PEFT" in one[1]] == []


@pytest.mark.parametrize(
    ("adapter", "versions", "severity", "message"),
    [
        (
            "task_type='CAUSAL_LLM'",
            None,
            "warning",
            "`task_type: CAUSAL_LLM` is none of PEFT's tasks: did you mean `CAUSAL_LM`?",
        ),
        (
            "task_type='causal_lm'",
            {"peft": "0.14"},
            "error",
            "`task_type: causal_lm` is none of PEFT's tasks: did you mean `CAUSAL_LM`?",
        ),
        (
            "task_type=TaskType.CAUSAL_LLM",
            None,
            "error",
            "PEFT's TaskType has no `CAUSAL_LLM`: did you mean `CAUSAL_LM`?",
        ),
        ("bias='lora'", None, "error", "`bias: lora` is none of PEFT's words; it takes none, all, lora_only:"),
        ("bias=False", None, "error", "`bias: False` is none of PEFT's words; it takes none, all, lora_only:"),
        (
            "init_lora_weights='pissa_iter_4'",
            None,
            "error",
            "`init_lora_weights: pissa_iter_4` is none of",
        ),
        ("init_lora_weights='kaiming'", None, "error", "`init_lora_weights: kaiming` is none of PEFT's words"),
        (
            "target_modules='.*q_proj', layers_to_transform=[1]",
            None,
            "error",
            "`layers_to_transform` cannot be",
        ),
        ("target_modules='all-linear', layers_pattern='h'", None, "error", "`layers_pattern` cannot be used with"),
        ("layers_pattern='h'", {"peft": "0.15"}, "error", "`layers_pattern` needs `layers_to_transform` beside it"),
    ],
)
def test_values_that_peft_refuses(adapter: str, versions: dict[str, str] | None, severity: str, message: str) -> None:
    """peft 0.3 to 0.21.2; `task_type` and `layers_pattern` since 0.14."""
    ((found, words),) = said(adapter=f", {adapter}", versions=versions)
    assert found == severity and words.startswith(message)


def test_a_task_type_that_an_older_release_takes_is_not_told() -> None:
    assert said(adapter=", task_type='CAUSAL_LLM'", versions={"peft": "0.13"}) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"config": ", save_steps='500'"},
            "`save_steps='500'` is text, not a number: the run fails when the arguments",
        ),
        (
            {"config": ", learning_rate='1e-5'"},
            "`learning_rate='1e-5'` is text, not a number: the run fails when it is",
        ),
        ({"config": ", max_grad_norm='1.0'"}, "`max_grad_norm='1.0'` is text, not a number: the run fails when it is"),
        ({"adapter": ", lora_dropout='0.1'"}, "`lora_dropout='0.1'` is text, not a number: the run fails when it is"),
        ({"config": ", num_train_epochs=float('3')"}, ""),
        ({"config": ", ddp_timeout='1800'"}, ""),  # read by several processes alone
        ({"config": ", run_name='5'"}, ""),
    ],
)
def test_a_number_in_quotes_ends_the_run(given: dict[str, str], message: str) -> None:
    """transformers 5.23.0: every numeric argument as text, two steps of training."""
    found = [words for _, words in said(**given) if "is text" in words]
    assert [words[: len(message)] for words in found] == ([message] if message else [])


def test_a_loop_of_its_own_is_told_of_its_adapter() -> None:
    loop = (
        "import torch\nfrom peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM\n"
        "model = get_peft_model(AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B'), LoraConfig(rank=8))\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for batch in torch.utils.data.DataLoader([], batch_size=4):\n"
        "    model(**batch).loss.backward()\n    optimizer.step()\n"
    )
    (found,) = (one for one in memlint.check(loop, path="train.py", fixes=False).findings if one.rule == "CFG001")
    assert (found.location.line, found.message) == (4, "LoraConfig takes no `rank`: use `r` (Python raises TypeError)")


def test_the_table_has_what_each_class_takes() -> None:
    assert {"learning_rate", "evaluation_strategy", "save_steps"} <= arguments_taken("TrainingArguments")
    assert {"num_generations", "vllm_device"} <= arguments_taken("GRPOConfig")
    assert {"r", "lora_alpha", "task_type", "use_dora", "megatron_config"} <= arguments_taken("LoraConfig")
    assert not is_known("DPOTrainer")  # of which a release takes any name


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("target_modules='q_proj,v_proj'", "`target_modules: q_proj,v_proj` is one pattern, which no module matches"),
        ("target_modules='q_proj v_proj'", "`target_modules: q_proj v_proj` is one pattern"),
        (r"target_modules=r'.*\.(q_proj|v_proj)'", ""),
        ("target_modules='all-linear'", ""),
        ("init_lora_weights='loftq'", "`loftq` needs a `loftq_config` beside it"),
        ("init_lora_weights='loftq', loftq_config=config", ""),
        ("lora_bias=True, use_dora=True", "`lora_bias` and `use_dora` are refused together"),
        ("lora_bias=True, init_lora_weights='gaussian'", "`lora_bias` is refused with `init_lora_weights` other than"),
        ("lora_bias=True", ""),
    ],
)
def test_pairs_and_patterns_that_peft_refuses(adapter: str, message: str) -> None:
    found = [words for _, words in said(adapter=f", {adapter}") if "PEFT raises" in words]
    assert [words[: len(message)] for words in found] == ([message] if message else [])


OWN_CLASS = """\
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

@dataclass
class GRPOConfig(TrainingArguments):
    num_generations: int = 8
    loss_type: str = field(default="bnpo")

args = GRPOConfig(output_dir="o", per_device_train_batch_size=8, num_generations=4{given})
Trainer(model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"), args=args, train_dataset=d).train()
"""


@pytest.mark.parametrize(
    ("given", "names"),
    [("", []), (", loss_type='dr_grpo'", []), (", learning_rat=1e-5", ["learning_rat"])],
)
def test_the_fields_of_an_own_class_are_not_handed_to_the_librarys(given: str, names: list[str]) -> None:
    found = memlint.check(OWN_CLASS.format(given=given), path="train.py", fixes=False).findings
    assert [one.message.split("`")[1] for one in found if one.rule == "CFG001"] == names
