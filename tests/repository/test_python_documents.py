"""Python scripts, notebooks and configuration files of the repository's own, linted as they lie in a repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memlint.hardware import find
from memlint.repository.python import configs
from memlint.repository.python import documents as python_documents
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine, analyse
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN, Run
from memlint.source.document import Document
from tests.commands.running import memlint, write
from tests.formats.trainer.test_python_runs import SFT

CARD = ("--gpu", "RTX4090", "--gpus", "1", "--isolated")
CONFIG = "model:\n  name: Qwen/Qwen2.5-0.5B  # the base\ntraining:\n  batch: 64\n  accumulate: 1\n  length: 4096\n"
OWN = (
    "import argparse, yaml\nfrom transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n\n"
    "def main():\n"
    "    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--config', required=True)\n"
    "    config = yaml.safe_load(open(parser.parse_args().config))\n"
    "    model = AutoModelForCausalLM.from_pretrained(config['model']['name'], torch_dtype='bfloat16')\n"
    "    training = config['training']\n"
    "    args = SFTConfig('out', per_device_train_batch_size=training['batch'], max_length=training['length'],\n"
    "                     gradient_accumulation_steps=training['accumulate'], gradient_checkpointing=True)\n"
    "    SFTTrainer(model=model, args=args).train()\n\nif __name__ == '__main__':\n    main()\n"
)


def notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def checked(folder: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(memlint(folder, "check", "--format", "json", *arguments, *CARD).out)
    return found


def test_a_script_is_linted_where_it_says_its_values(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": SFT.replace("batch_size=2", "batch_size=48, packing=True")})
    report = checked(tmp_path, ".")
    (run,) = report["runs"]
    assert (run["path"], run["verdict"]) == ("train.py", "out_of_memory")
    (found,) = (item for item in report["findings"] if item["rule"] == "MEM001")
    assert found["location"]["line"] == 8
    line = SFT.splitlines()[7]
    assert line[found["location"]["column"] - 1 :].startswith("2")


def test_a_value_of_another_module_is_spoken_of_there_once(tmp_path: Path) -> None:
    twice = "from trl import SFTConfig, SFTTrainer\n\ndef tune():\n    args = SFTConfig('out', warmup_ratio=0.03,\n"
    twice += "                     warmup_steps=100)\n    SFTTrainer(model='Qwen/Qwen2.5-0.5B', args=args).train()\n"
    starts = "\n\nif __name__ == '__main__':\n    tune()\n"
    write(tmp_path, {"tuning.py": twice + starts, "main.py": f"from tuning import tune{starts}"})
    found = [item["location"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "TRN004"]
    assert [(one["path"], one["line"]) for one in found] == [("tuning.py", 4)]


@pytest.mark.parametrize(("files", "runs"), [({}, 1), ({"openrlhf/__init__.py": ""}, 0)])
def test_a_copy_of_a_framework_is_no_program_of_the_repository(
    tmp_path: Path, files: dict[str, str], runs: int
) -> None:
    write(tmp_path, {"openrlhf/cli/train_sft.py": SFT, **files})
    assert len(checked(tmp_path, ".")["runs"]) == runs


def test_a_notebook_is_linted_in_its_cell(tmp_path: Path) -> None:
    code = SFT.replace("batch_size=2", "batch_size=48, packing=True").replace("args =", "é = 'ü'; args =")
    first, second = code.split("\n\n", 1)
    write(tmp_path, {"a.ipynb": notebook("%matplotlib inline\n!pip install trl\n" + first, "1 +", second)})
    report = checked(tmp_path, "a.ipynb")
    (found,) = (item for item in report["findings"] if item["rule"] == "MEM001")
    text = (tmp_path / "a.ipynb").read_text().splitlines()[found["location"]["line"] - 1]
    assert text[found["location"]["column"] - 1 :].startswith("48")


def test_a_configuration_file_has_the_findings_of_the_script_that_reads_it(tmp_path: Path) -> None:
    write(tmp_path, {"scripts/train.py": OWN, "configs/a.yaml": CONFIG, "configs/data.yaml": "model: other\n"})
    report = checked(tmp_path, ".")
    (run,) = report["runs"]
    assert run["path"] == "configs/a.yaml"
    places = {(item["location"]["path"], item["location"]["line"]) for item in report["findings"]}
    assert places and places <= {("configs/a.yaml", 4), ("configs/a.yaml", 6)}  # the batch, the length


def test_the_run_of_a_script_and_its_configuration_file_counts_once(tmp_path: Path) -> None:
    script = OWN.replace("required=True", "default='a.yaml'")
    write(tmp_path, {"train.py": script, "a.yaml": CONFIG})
    assert [run["path"] for run in checked(tmp_path, ".")["runs"]] == ["a.yaml"]
    assert [run["path"] for run in checked(tmp_path, "train.py")["runs"]] == ["a.yaml"]


def test_a_fix_changes_the_configuration_file_and_nothing_else_of_it(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OWN, "a.yaml": CONFIG})
    memlint(tmp_path, "fix", "a.yaml", "--unsafe", *CARD)
    changed = (tmp_path / "a.yaml").read_text()
    kept = [line for line in CONFIG.splitlines() if line in changed.splitlines()]
    assert changed != CONFIG
    assert "  name: Qwen/Qwen2.5-0.5B  # the base" in kept
    assert (tmp_path / "train.py").read_text() == OWN


@pytest.mark.parametrize(
    "text",
    [
        "def train(model, args):\n    return SFTTrainer(model=model, args=args)\n",
        "import yaml\nprint(yaml.safe_load(open('a.yaml')))\n",
        "class SFTTrainer(\n",
        "Trainer(" * 2_000,
        "\0Trainer(",
    ],
    ids=["library", "no trainer", "syntax", "nested", "null byte"],
)
def test_what_trains_nothing_is_no_run(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"train.py": text, "a.yaml": CONFIG})
    done = memlint(tmp_path, "check", ".", "--format", "json", *CARD)
    assert done.code == 0 and not done.err
    report = json.loads(done.out)
    assert report["runs"] == [] and report["findings"] == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": 4}', '{"cells": [{"cell_type": "code", "source": [1]}]}', "{"]
)
def test_hostile_notebooks_say_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"a.ipynb": text})
    done = memlint(tmp_path, "check", ".", *CARD)
    assert done.code == 0 and "Traceback" not in done.err


TOML = "[model]\nname = 'Qwen/Qwen2.5-0.5B'  # the base\n\n[training]\nbatch = 64\naccumulate = 1\nlength = 4096\n"


def test_a_toml_file_is_linted_and_changed_at_its_keys(tmp_path: Path) -> None:
    script = OWN.replace("import argparse, yaml", "import argparse, tomllib").replace("yaml.safe_load", "tomllib.load")
    write(tmp_path, {"train.py": script, "a.toml": TOML, "b.toml": "[tool]\nname = 'x'\n"})
    report = checked(tmp_path, ".")
    assert [run["path"] for run in report["runs"]] == ["a.toml"]
    places = {(item["location"]["line"], item["location"]["column"]) for item in report["findings"]}
    assert places and places <= {(5, 9), (7, 10)}  # the batch, the length
    memlint(tmp_path, "fix", "a.toml", "--unsafe", *CARD)
    changed = (tmp_path / "a.toml").read_text()
    assert changed != TOML and "name = 'Qwen/Qwen2.5-0.5B'  # the base\n" in changed
    assert {item["severity"] for item in checked(tmp_path, ".")["findings"]} <= {"info"}


@pytest.mark.parametrize(
    "head", ["# @package _global_\n", "defaults:\n  - _self_\n", "defaults:\n  - override /model: a\n"]
)
def test_a_file_of_hydras_is_no_file_of_a_script_without_it(tmp_path: Path, head: str) -> None:
    write(tmp_path, {"train.py": OWN, "a.yaml": head + CONFIG, "b.yaml": CONFIG})
    assert [run["path"] for run in checked(tmp_path, ".")["runs"]] == ["b.yaml"]


def test_a_list_of_one_target_stays_a_list(tmp_path: Path) -> None:
    lone = SFT.replace('r=64, target_modules=["q_proj"]', "r=64, target_modules=TARGET")
    write(tmp_path, {"a.py": lone.replace("TARGET", "['q_proj']"), "b.py": lone.replace("TARGET", "'q_proj'")})
    report = checked(tmp_path, ".")
    assert {item["location"]["path"] for item in report["findings"] if item["rule"] == "PEF025"} == {"b.py"}


OPTION = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--save', type=int, default=50)\n"
    "OPTIONS = parser.parse_args()\n"
)


@pytest.mark.parametrize(
    ("arguments", "code", "rules"),
    [
        ("save_strategy='no', save_steps=50", "", {"TRN018"}),
        ("save_strategy='steps' if STEPS else 'no', save_steps=max(1, STEPS)", "", set()),
        ("save_strategy='no' if not STEPS else 'steps', save_steps=STEPS or 500", "", set()),
        ("save_strategy='no', save_steps=OPTIONS.save", "", set()),
        ("eval_steps=10", "", {"EVA004"}),
        ("eval_steps=10", "class Own:\n    def step(self):\n        return self.args.eval_steps\n", set()),
    ],
)
def test_a_key_without_effect_is_one_that_nobody_meant(
    tmp_path: Path, arguments: str, code: str, rules: set[str]
) -> None:
    made = SFT.replace("bf16=True)", f"bf16=True, {arguments})").replace(
        "import torch\n", f"import torch\nSTEPS = 0\n{OPTION}{code}"
    )
    write(tmp_path, {"train.py": made})
    found = {
        item["rule"] for item in checked(tmp_path, "train.py", "--select", "TRN018", "--select", "EVA004")["findings"]
    }
    assert found == rules


GRPO = OWN.replace("SFTConfig", "GRPOConfig").replace("SFTTrainer", "GRPOTrainer")


def test_a_command_says_which_of_two_scripts_reads_a_file(tmp_path: Path) -> None:
    page = "```bash\npython grpo.py --config a.yaml\n```\n"
    write(tmp_path, {"sft.py": OWN, "grpo.py": GRPO, "a.yaml": CONFIG, "README.md": page})
    track(tmp_path)
    (row,) = json.loads(memlint(tmp_path, "map", "a.yaml", "--format", "json", "--isolated").out)["runs"]
    assert row["script"] == "grpo.py"
    assert row["disagreements"] == []


def test_a_comment_says_which_of_two_scripts_reads_a_file(tmp_path: Path) -> None:
    write(tmp_path, {"sft.py": OWN, "grpo.py": GRPO, "a.yaml": f"# python sft.py --config a.yaml\n{CONFIG}"})
    track(tmp_path)
    (row,) = json.loads(memlint(tmp_path, "map", "a.yaml", "--format", "json", "--isolated").out)["runs"]
    assert (row["script"], row["disagreements"]) == ("sft.py", [])


def test_a_file_of_a_program_that_trains_nothing_is_no_run(tmp_path: Path) -> None:
    quantize = "import sys, yaml\nquantize(yaml.safe_load(open(sys.argv[1])))\n"
    page = "```\npython tools/quantize.py configs/quantize.yaml\n```\n"
    write(
        tmp_path,
        {"sft.py": OWN, "tools/quantize.py": quantize, "configs/quantize.yaml": CONFIG, "README.md": page},
    )
    assert checked(tmp_path, "configs/quantize.yaml")["runs"] == []
    (tmp_path / "README.md").write_text("no command\n")
    assert checked(tmp_path, "configs/quantize.yaml")["runs"] != []


def test_scripts_that_disagree_about_a_file_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"sft.py": OWN, "grpo.py": GRPO, "a.yaml": CONFIG})
    found = [item for item in checked(tmp_path, "a.yaml")["findings"] if item["rule"] == "CFG014"]
    assert [item["message"] for item in found] == [
        "sft.py reads this file too, and trains with `SFTConfig`, not with `GRPOConfig`"
    ]
    said = memlint(tmp_path, "map", "a.yaml", "--isolated").out
    assert "sft.py reads this file too" in said


@pytest.mark.parametrize(
    ("line", "is_reader"),
    [("config['seed']", False), ("config.get('seed')", True), ("'seed' in config and config['seed']", True)],
)
def test_a_script_that_takes_a_key_that_is_not_there_reads_another_file(
    tmp_path: Path, line: str, is_reader: bool
) -> None:
    other = OWN.replace("training['length']", "512").replace("    training = ", f"    seed = {line}\n    training = ")
    write(tmp_path, {"sft.py": OWN, "other.py": other, "a.yaml": CONFIG})
    found = [item for item in checked(tmp_path, "a.yaml")["findings"] if item["rule"] == "CFG014"]
    assert bool(found) is is_reader


def test_keys_of_the_lines_of_a_data_set_are_none_of_the_file(tmp_path: Path) -> None:
    script = OWN.replace("yaml.safe_load(open(", "load(open(").replace("import argparse, yaml", "import argparse, json")
    rows = "def rows(lines):\n    for line in lines:\n        row = json.loads(line)\n        yield row['prompt']\n\n"
    script = script.replace("def main", f"from reading import load\n\n{rows}def main")
    reading = "import yaml\n\ndef load(file):\n    return yaml.safe_load(file)\n"
    write(tmp_path, {"sft.py": script, "reading.py": reading, "a.yaml": CONFIG})
    assert checked(tmp_path, "a.yaml")["runs"]


@pytest.mark.parametrize(("name", "is_reader"), [("other", False), ("a", True)])
def test_hydra_starts_a_script_with_the_file_that_it_names(tmp_path: Path, name: str, is_reader: bool) -> None:
    other = OWN.replace("training['length']", "512")
    named = f"@hydra.main(version_base=None, config_path='conf', config_name='{name}')\ndef main():"
    write(tmp_path, {"sft.py": OWN, "other.py": other.replace("def main():", named), "a.yaml": CONFIG})
    found = [item for item in checked(tmp_path, "a.yaml")["findings"] if item["rule"] == "CFG014"]
    assert bool(found) is is_reader


def test_a_script_with_a_default_of_its_own_does_not_read_the_file_of_another(tmp_path: Path) -> None:
    scripts = {
        "sft.py": OWN.replace("required=True", "default='a.yaml'"),
        "grpo.py": GRPO.replace("required=True", "default='b.yaml'"),
    }
    write(tmp_path, {**scripts, "a.yaml": CONFIG, "b.yaml": CONFIG})
    assert all(item["rule"] != "CFG014" for item in checked(tmp_path, ".")["findings"])


def test_of_scripts_that_may_read_a_file_the_one_with_its_name_does(tmp_path: Path) -> None:
    scripts = {
        "train_sft.py": OWN.replace("required=True", "default='sft.yaml'"),
        "train_grpo.py": GRPO.replace("required=True", "default='grpo.yaml'"),
    }
    write(tmp_path, {**scripts, "sft_full.yaml": CONFIG, "grpo_full.yaml": CONFIG, "other.yaml": CONFIG})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert {row["path"]: row["script"] for row in rows if row["path"] != "other.yaml"} == {
        "sft_full.yaml": "train_sft.py",
        "grpo_full.yaml": "train_grpo.py",
    }
    found = [item["location"]["path"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "CFG014"]
    assert set(found) == {"other.yaml"}


def test_a_log_that_lacks_what_the_script_takes_of_its_config_is_no_config(tmp_path: Path) -> None:
    log = "{'model': {'name': 'Qwen/Qwen2.5-0.5B'}, 'training': {'batch': 64, 'length': 4096, 'loss': 1.2}}"
    write(tmp_path, {"sft.py": OWN, "sft.yaml": CONFIG, "logs/sft_run.json": log.replace("'", '"')})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert [row["path"] for row in rows] == ["sft.yaml"]
    reported = OWN.replace("SFTConfig('out'", "SFTConfig('out', report_to=training['report_to']")  # memory is as it was
    write(tmp_path, {"sft.py": reported})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert [row["path"] for row in rows] == ["sft.yaml"]


def test_a_script_whose_files_lie_in_another_folder_reads_none_of_this_one(tmp_path: Path) -> None:
    scripts = {
        "sft_long.py": OWN.replace("required=True", "default='configs_long/first.yaml'"),
        "sft_short.py": f'"""python sft_short.py --config configs/first.yaml"""\n{OWN.replace("accumulate", "other")}',
    }
    both = f"{CONFIG}  other: 2\n"
    write(tmp_path, {**scripts, "configs/sft_7b.yaml": both, "configs_long/sft_7b.yaml": both})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert {row["path"]: row["script"] for row in rows} == {
        "configs/sft_7b.yaml": "sft_short.py",
        "configs_long/sft_7b.yaml": "sft_long.py",
    }
    assert all(item["rule"] != "CFG014" for item in checked(tmp_path, ".")["findings"])


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [
        ("", "", False),
        (', peft_config=LoraConfig(r=64, target_modules=["q_proj"])', "", True),
        (', peft_config=LoraConfig(r=64, target_modules=["q_proj"])', ", peft_config=unseen()", False),
        ('"Qwen/Qwen2.5-7B", ', '"somebody/an-adapter", ', False),
        ('"Qwen/Qwen2.5-7B", ', '"somebody/qwen2.5-7b-an-adapter", ', False),
    ],
)
def test_quantised_weights_without_an_adapter_are_refused(tmp_path: Path, old: str, new: str, is_refused: bool) -> None:
    """transformers 5.23.0 trainer_utils.py:130-136"""
    script = SFT.replace(old, new)
    if "an-adapter" in new:
        script = script.replace(', peft_config=LoraConfig(r=64, target_modules=["q_proj"])', "")
    write(tmp_path, {"a.py": script})
    report = checked(tmp_path, ".")
    assert any(item["rule"] == "CFG008" for item in report["findings"]) is is_refused
    if is_refused:  # no figure of a step that is never taken
        assert report["runs"][0]["peak"]["device_bytes"] is None


def test_a_script_that_loads_json_reads_no_yaml(tmp_path: Path) -> None:
    json_only = OWN.replace("yaml", "json").replace("json.safe_load", "json.load").replace("'batch'", "'other'")
    write(tmp_path, {"sft.py": OWN, "other.py": json_only, "a.yaml": CONFIG})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert {row["script"] for row in rows} == {"sft.py"}
    assert all(item["rule"] != "CFG014" for item in checked(tmp_path, ".")["findings"])


@pytest.mark.parametrize(("default", "is_read"), [("required=True", True), ("default='configs/first.yaml'", False)])
def test_a_file_that_scripts_of_several_kinds_have_others_for_is_nobody_s(
    tmp_path: Path, default: str, is_read: bool
) -> None:
    scripts = {"train.py": OWN.replace("required=True", default), "grpo.py": GRPO.replace("required=True", default)}
    write(tmp_path, {**scripts, "configs/mine.yaml": CONFIG, "configs/first.yaml": CONFIG})
    rows = json.loads(memlint(tmp_path, "map", ".", "--format", "json", "--isolated").out)["runs"]
    assert any(row["path"] == "configs/mine.yaml" for row in rows) is is_read


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("", True),
        ("model._hf_peft_config_loaded = True\n", False),  # adapters of the script's own
        ("model.add_adapter(LoraConfig(r=4))\n", False),
    ],
)
def test_what_the_trainer_takes_for_an_adapter(tmp_path: Path, line: str, is_refused: bool) -> None:
    """transformers 5.23.0 trainer_utils.py:114-131, integrations/peft.py"""
    script = SFT.replace(', peft_config=LoraConfig(r=64, target_modules=["q_proj"])', "")
    write(tmp_path, {"a.py": script.replace("args = SFTConfig", f"{line}args = SFTConfig")})
    assert any(item["rule"] == "CFG008" for item in checked(tmp_path, ".")["findings"]) is is_refused


@pytest.mark.parametrize(("cards", "is_estimated"), [("-1", False), ("", False), ("0", True)])
def test_a_program_that_hides_all_cards_from_itself_has_no_verdict(
    tmp_path: Path, cards: str, is_estimated: bool
) -> None:
    hidden = f'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "{cards}"\n{SFT}'
    write(tmp_path, {"a.py": hidden.replace(", quantization_config=bits", "")})
    (run,) = checked(tmp_path, ".")["runs"]
    assert (run["verdict"] != "unknown") is is_estimated


def _run_of(script: str) -> Run:
    workspace = in_memory({"a.py": script})
    (run,) = Engine(()).analyse(workspace.documents("a.py")[0], workspace.context()).runs
    return run


def test_arguments_of_transformers_bring_no_defaults_of_trl() -> None:
    """trl 1.16.0 trainer/sft_trainer.py:654-659: SFTConfig is made of all their values."""
    of_trl = SFT.replace(", bf16=True", "")
    plain = of_trl.replace("SFTConfig(", "TrainingArguments(").replace(", max_length=1024", "")
    plain = plain.replace("BitsAndBytesConfig\n", "BitsAndBytesConfig, TrainingArguments\n", 1)
    for script, autocast, checkpoints in ((of_trl, True, "full"), (plain, False, "none")):
        run = _run_of(script)
        assert (run.precision.autocast, run.checkpointing.mode) == (autocast, checkpoints)


@pytest.mark.parametrize(
    ("old", "new", "trl"),
    [
        ("model=model, args", "model=model, args", (1, 16)),
        ("model=model, args", "model=model, tokenizer=tokenizer, args", (0, 15)),
        ("model=model, args", "model=model, processing_class=tokenizer, args", (1, 16)),
    ],
)
def test_a_trainer_that_is_given_a_tokenizer_is_an_old_one_s(old: str, new: str, trl: tuple[int, ...]) -> None:
    """trl 0.15.2 trainer/sft_trainer.py:139 takes it for `processing_class`; 0.16.1 has no such argument."""
    assert _run_of(SFT.replace(old, new)).stack.trl == trl


OLD_CALL = "SFTTrainer(\n    tokenizer=tokenizer, packing=False, max_seq_length=512, "
OWN_CLASS = (
    "class Own(SFTTrainer):\n    def __init__(self, tokenizer=None, **rest):\n        super().__init__(**rest)\n"
)
NO_TOKENIZER = "SFTTrainer takes no `tokenizer` since trl 0.16: use `processing_class`"
NO_OTHERS = (
    "SFTTrainer takes no `max_seq_length` and no `packing` since trl 0.13: SFTConfig has them (`max_seq_length` as "
    "`max_length` since 0.16)"
)


@pytest.mark.parametrize(
    ("call", "facts", "said"),
    [
        (OLD_CALL, {}, [("info", NO_TOKENIZER), ("info", NO_OTHERS)]),
        (OLD_CALL, {"versions": {"trl": (0, 29)}}, [("warning", NO_TOKENIZER), ("warning", NO_OTHERS)]),
        (OLD_CALL, {"versions": {"trl": (0, 15)}}, [("warning", NO_OTHERS)]),
        (OLD_CALL, {"versions": {"trl": (0, 12)}}, []),
        (OLD_CALL, {"at_commits": frozenset({"trl"})}, []),
        ("Own(\n    tokenizer=tokenizer, ", {}, []),  # the class of the repository takes it
        ("signature(SFTTrainer) and SFTTrainer(\n    tokenizer=tokenizer, ", {}, []),  # the script asks what it takes
    ],
)
def test_what_a_trainer_does_not_take_any_more(call: str, facts: Any, said: list[Any]) -> None:
    """trl 0.12.2, 0.13.0, 0.15.2 and 0.16.1 trainer/sft_trainer.py, __init__. It is said at the call, once a key."""
    script = SFT.replace("args = SFTConfig", f"{OWN_CLASS}args = SFTConfig").replace("SFTTrainer(model", f"{call}model")
    script = script.replace(", max_length=1024", "")  # which no release takes beside them
    workspace = in_memory({"a.py": script})
    found = analyse(workspace.documents("a.py")[0], workspace.context()._replace(**facts), ()).findings
    outdated = [one for one in found if one.rule == "CFG005"]
    assert sorted((one.severity, one.message) for one in outdated) == sorted(said)
    at = script[: script.index("trainer = ")].count("\n") + 1
    assert {(one.location.line, one.location.end_line) for one in outdated} <= {(at, at)}


@pytest.mark.parametrize(
    ("asks", "rules"),
    [
        ("", ["CFG006"]),
        ("set(TrainingArguments.__dataclass_fields__)", []),
        ("signature(TrainingArguments)", []),
        ("TrainingArguments.__annotations__", []),
    ],
)
def test_a_script_that_asks_for_the_fields_gives_no_other(asks: str, rules: list[str]) -> None:
    """`overwrite_output_dir` is gone since transformers 5.0 (training_args.py)."""
    script = (
        "from inspect import signature\nfrom transformers import Trainer, TrainingArguments\n"
        "given = {'output_dir': 'o', 'overwrite_output_dir': True, 'learning_rate': 1e-5}\n"
        f"{f'taken = {asks}' if asks else ''}\nargs = TrainingArguments(**given)\n"
        'Trainer(model="gpt2", args=args, train_dataset=data).train()\n'
    )
    workspace = in_memory({"a.py": script})
    found = analyse(workspace.documents("a.py")[0], workspace.context(), ()).findings
    assert [one.rule for one in found if one.rule in ("CFG005", "CFG006")] == rules


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bf16=True", "batch_size=8", "SFTConfig takes no `batch_size`: use `per_device_train_batch_size`"),
        ("args=args", "config=args", "SFTTrainer takes no `config`: use `args`"),
        ("bf16=True", "dataset_batch_size=8", ""),
        ("import SFTConfig, SFTTrainer", "import SFTConfig\nfrom own import SFTTrainer", ""),
    ],
)
def test_a_name_that_no_release_has(old: str, new: str, said: str) -> None:
    """transformers 5.23.0 training_args.py, trl 0.16.1 to 1.16.0 trainer/sft_trainer.py, __init__."""
    script = SFT.replace(old, new)
    assert script != SFT
    workspace = in_memory({"a.py": script.replace("args=args", "config=args") if "own import" in new else script})
    found = [
        (one.severity, one.message)
        for document in workspace.documents("a.py")
        for one in analyse(document, workspace.context(), ()).findings
        if "takes no" in one.message
    ]

    assert found == ([("error", f"{said} (Python raises TypeError)")] if said else [])


@pytest.mark.parametrize(
    ("stated", "severity"), [({}, "info"), ({"transformers": (4, 57)}, "warning"), ({"transformers": (4, 50)}, None)]
)
def test_the_old_name_of_the_evaluation_strategy(stated: Any, severity: str | None) -> None:
    """transformers 4.50.3 and 4.51.3 training_args.py."""
    workspace = in_memory({"a.py": SFT.replace("bf16=True", "bf16=True, evaluation_strategy='no'")})
    found = analyse(workspace.documents("a.py")[0], workspace.context(versions=stated), ()).findings
    told = [(one.severity, one.message) for one in found if one.rule == "CFG005"]
    message = "`evaluation_strategy` is gone since transformers 4.51: use `eval_strategy`"
    assert told == ([(severity, message)] if severity else [])


def test_an_old_argument_is_told_where_it_is_named() -> None:
    """Its value may be the default of an option, whose name is the script's own."""
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--ratio', default=0.1)\n"
    call = "SFTConfig(\n    'out', warmup_ratio={}, "
    lines = []
    for value in ("parser.parse_args().ratio", "0.1"):
        script = SFT.replace("bits = ", f"{option}bits = ").replace('SFTConfig("out", ', call.format(value))
        workspace = in_memory({"a.py": script})
        found = analyse(workspace.documents("a.py")[0], workspace.context(), ()).findings
        (told,) = [one for one in found if "warmup_ratio" in one.message]
        lines.append(script.splitlines()[told.location.line - 1].strip())
    assert lines[0] == "args = SFTConfig(" and lines[1].startswith("'out', warmup_ratio=0.1")


def test_a_flag_of_the_model_that_newer_releases_refuse_is_an_old_one_s() -> None:
    """trl 0.29 has no `--torch_dtype`: what a command gives ModelConfig says the release as a key does."""
    script = (
        "from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser\n"
        "training_args, model_args = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()\n"
        "GRPOTrainer(model_args.model_name_or_path, args=training_args, reward_funcs=[len]).train()\n"
    )
    command = "accelerate launch train.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir o --bf16 True"
    found = []
    for flag in ("--torch_dtype bfloat16", "--dtype bfloat16"):
        workspace = in_memory({"train.py": script, "README.md": f"```\n{command} {flag}\n```\n"})
        found.append(analyse(workspace.documents("train.py")[0], workspace.context(), ()).runs[0].stack.trl)
    assert found == [(0, 28), (1, 16)]


def test_a_flag_of_one_value_leaves_the_words_behind_it() -> None:
    """transformers 5.23.0 hf_argparser.py:217: a switch has `nargs="?"`."""
    script = (
        "from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser\n"
        "args, model = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()\n"
        "SFTTrainer(model.model_name_or_path, args=args).train()\n"
    )
    command = (
        "python train.py --model_name_or_path Qwen/Qwen2.5-7B --output_dir o --packing true packing_strategy wrapped"
    )
    workspace = in_memory({"train.py": script, "README.md": f"```\n{command}\n```\n"})
    value = workspace.documents("train.py")[0].value
    assert (value["packing"], value["model_name_or_path"]) == (True, "Qwen/Qwen2.5-7B")  # to be filled in: no list


def test_unsloth_takes_a_tokenizer_with_any_release() -> None:
    script = (
        "from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        "model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen2.5-7B', load_in_4bit=True)\n"
        "model = FastLanguageModel.get_peft_model(model)\n"
        "SFTTrainer(model=model, tokenizer=tokenizer, args=SFTConfig('out', bf16=True)).train()\n"
    )
    assert _run_of(script).stack.trl > (0, 15)


def test_a_trainer_may_be_given_what_the_model_is_loaded_with() -> None:
    """trl before 0.13: SFTTrainer(model="...", model_init_kwargs={...})."""
    script = SFT.replace(
        "model=model, args", "model='Qwen/Qwen2.5-7B', model_init_kwargs=dict(quantization_config=bits), args"
    )
    assert _run_of(script).model.quantization.bits == 4


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("args = TrainingArguments('out', load_best_model_at_end=True)\n", True),
        ("args = TrainingArguments('out')\nargs.load_best_model_at_end = True\n", False),
    ],
)
def test_what_is_set_on_finished_arguments_is_not_checked(tmp_path: Path, text: str, is_refused: bool) -> None:
    made = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n" + text
    write(tmp_path, {"a.py": f"{made}Trainer(AutoModelForCausalLM.from_pretrained('gpt2'), args).train()\n"})
    assert any(item["rule"] == "TRN001" for item in checked(tmp_path, ".")["findings"]) is is_refused


@pytest.mark.parametrize(
    ("where", "card", "said"),
    [
        ("'auto'", ("--gpu", "RTX4090", "--gpus", "8"), {"MEM005"}),
        ("'auto' if many else None", ("--gpu", "RTX4090", "--gpus", "8"), {"MEM005"}),
        ("'auto'", ("--gpu", "RTX4090"), {"MEM005"}),
        ("'auto'", ("--gpu", "RTX4090", "--gpus", "1"), {"MEM001"}),
        ("{'': 0}", ("--gpu", "RTX4090", "--gpus", "1"), {"MEM001"}),
        ("'auto'", ("--gpu", "B200", "--gpus", "8"), set()),
        ("'auto'", (), set()),
    ],
)
def test_layers_on_all_gpus_are_no_whole_model_on_each(
    tmp_path: Path, where: str, card: tuple[str, ...], said: set[str]
) -> None:
    script = SFT.replace(", quantization_config=bits", f", device_map={where}").replace("2.5-7B", "2.5-32B")
    write(tmp_path, {"a.py": script})
    arguments = ("check", ".", "--format", "json", "--isolated", "--no-fixes", *card)
    found = json.loads(memlint(tmp_path, *arguments).out)["findings"]
    assert {one["rule"] for one in found if one["rule"].startswith("MEM")} == said
    assert all("`device_map` spreads" in one["message"] for one in found if one["rule"] == "MEM005")


def test_a_length_of_none_cuts_nothing() -> None:
    """trl 1.16 sft_config.py: `max_length=None` cuts no sequence; left out, it is 1024."""
    for said, length in (("max_length=1024", 1024), ("max_length=None", UNKNOWN)):
        workspace = in_memory({"a.py": SFT.replace("max_length=1024", said)})
        (run,) = Engine(()).analyse(workspace.documents("a.py")[0], workspace.context()).runs
        assert run.sequence.length == length


PREPARED = (
    "import torch\n"
    "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments\n\n"
    "bits = BitsAndBytesConfig(load_in_4bit=True)\n"
    "name = 'Qwen/Qwen2.5-7B'\n"
    "model = AutoModelForCausalLM.from_pretrained(name, dtype='bfloat16', quantization_config=bits)\n"
    "PREPARES = prepare_model_for_kbit_training(model)\n"
    "model = get_peft_model(model, LoraConfig(r=64, target_modules=['q_proj']))\n"
    "# then\n"
    "Trainer(model, TrainingArguments('out', per_device_train_batch_size=2, bf16=True)).train()\n"
)
CASTS_BACK = (
    "for name, module in model.named_modules():\n"
    "    if 'lm_head' in name or 'embed_tokens' in name:\n"
    "        module = module.to(torch.bfloat16)\n"
)


@pytest.mark.parametrize(
    ("old", "new", "upcast", "back", "adapters"),
    [
        ("PREPARES = prepare_model_for_kbit_training(model)", "", False, False, "float32"),
        ("PREPARES", "model", True, False, "float32"),
        ("# then", CASTS_BACK, True, True, "bfloat16"),
        ("load_in_4bit=True", "load_in_8bit=True", True, False, "float32"),
        (", quantization_config=bits", "", False, False, "float32"),
    ],
)
def test_what_is_not_quantised_is_fp32_behind_pefts_preparation(
    old: str, new: str, upcast: bool, back: bool, adapters: str
) -> None:
    """peft 0.21.2 utils/other.py:204-209 makes fp32 of embeddings, norms and head; qlora.py turns some back."""
    workspace = in_memory({"a.py": PREPARED.replace(old, new)})
    (run,) = Engine(()).analyse(workspace.documents("a.py")[0], workspace.context()._replace(gpus=1)).runs
    quantization = run.model.quantization
    assert (quantization.upcast_rest_to_fp32, quantization.vocabulary_to_bf16) == (upcast, back)
    assert run.method.adapter_dtype == adapters


def test_one_process_has_the_batch_of_one(tmp_path: Path) -> None:
    """`device_map` leaves one process: 4 answers make two groups, however many GPUs there are."""
    script = SFT.replace(", quantization_config=bits", ", device_map='auto'")
    write(tmp_path, {"a.py": script})
    workspace = in_memory({"a.py": script})
    context = workspace.context()._replace(gpus=8)
    (run,) = Engine(()).analyse(workspace.documents("a.py")[0], context).runs
    assert (run.parallelism.engine, run.parallelism.data_parallel_size) == ("single", 1)


def test_a_trainer_of_another_library_may_take_quantised_weights(tmp_path: Path) -> None:
    """adapters 1.2.0 trainer.py:56-58: AdapterTrainer hides from the Trainer that the model is quantised."""
    script = SFT.replace(', peft_config=LoraConfig(r=64, target_modules=["q_proj"])', "")
    write(tmp_path, {"a.py": script.replace("SFTTrainer", "AdapterTrainer").replace("from trl", "from adapters")})
    assert all(item["rule"] != "CFG008" for item in checked(tmp_path, ".")["findings"])


def test_strategies_that_a_script_sets_on_finished_arguments_are_not_compared(tmp_path: Path) -> None:
    """transformers compares them when the arguments are built, and never again (5.23 training_args.py:1749)."""
    best = "gradient_checkpointing=True, eval_strategy=training['evaluate'], save_strategy=training['save'],"
    script = OWN.replace("gradient_checkpointing=True", f"{best} load_best_model_at_end=True")
    config = CONFIG + "  evaluate: epoch\n  save: SAVE\n"
    later = script.replace("    SFTTrainer(", "    setattr(args, 'save_strategy', 'no')\n    SFTTrainer(")
    for text, saved, found in ((script, "steps", True), (later, "epoch", False)):
        write(tmp_path, {"train.py": text, "a.yaml": config.replace("SAVE", saved)})
        rules = {item["rule"] for item in checked(tmp_path, "a.yaml")["findings"]}
        assert ("TRN001" in rules) is found


def test_scripts_that_agree_about_a_file_are_not_named(tmp_path: Path) -> None:
    write(tmp_path, {"sft.py": OWN, "other.py": OWN, "a.yaml": CONFIG})
    assert all(item["rule"] != "CFG014" for item in checked(tmp_path, "a.yaml")["findings"])


def test_what_is_unknown_is_no_disagreement(tmp_path: Path) -> None:
    other = OWN.replace("training['length']", "len(open('x').read())")
    write(tmp_path, {"sft.py": OWN, "other.py": other, "a.yaml": CONFIG})
    assert all(item["rule"] != "CFG014" for item in checked(tmp_path, "a.yaml")["findings"])


def test_values_that_differ_are_named(tmp_path: Path) -> None:
    other = OWN.replace("training['length']", "512")
    write(tmp_path, {"sft.py": OWN, "other.py": other, "a.yaml": CONFIG})
    (found,) = (item for item in checked(tmp_path, "a.yaml")["findings"] if item["rule"] == "CFG014")
    assert found["message"] == "other.py reads this file too, and disagrees: `max_length` is 512 there and 4096 here"


def test_a_key_that_no_script_reads_is_a_finding_at_its_line(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OWN, "a.yaml": CONFIG + "  packing: true\n  note: nothing\n"})
    (found,) = (item for item in checked(tmp_path, "a.yaml")["findings"] if item["rule"] == "CFG015")
    assert found["location"]["line"] == 7
    assert found["message"] == "`packing` is in no script of the repository: train.py makes the run without it"
    assert "no script reads training.packing (a.yaml:7)" in memlint(tmp_path, "map", "a.yaml", "--isolated").out


@pytest.mark.parametrize(
    ("script", "more"),
    [
        (OWN.replace("gradient_checkpointing=True", "**{'packing': training.get('packing')}"), "  packing: true\n"),
        (OWN, "  packing: false\n"),
        (OWN.replace("per_device_train_batch_size=training['batch']", "**training"), "  packing: true\n"),
        (OWN + "\n\ndef other(config):\n    run(**config['training'])\n", "  packing: true\n"),
        (
            OWN.replace("gradient_checkpointing=True", "").replace(
                "    training =", "    model.gradient_checkpointing_enable()\n    training ="
            ),
            "  gradient_checkpointing: true\n",
        ),
    ],
    ids=["read", "off", "all are passed on", "all are passed on elsewhere", "on in the code"],
)
def test_keys_that_a_script_may_read_are_none(tmp_path: Path, script: str, more: str) -> None:
    write(tmp_path, {"train.py": script, "a.yaml": CONFIG + more})
    assert all(item["rule"] != "CFG015" for item in checked(tmp_path, "a.yaml")["findings"])


OPTIONS = (
    "import argparse\nfrom transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n\n"
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--model', default='Qwen/Qwen2.5-0.5B')\n"
    "parser.add_argument('--bs', type=int, default=2)\n"
    "given = parser.parse_args()\n"
    "model = AutoModelForCausalLM.from_pretrained(given.model)\n"
    "SFTTrainer(model=model, args=SFTConfig('o', per_device_train_batch_size=given.bs, max_length=64)).train()\n"
)


def batches(folder: Path) -> list[int | None]:
    rows = json.loads(memlint(folder, "map", "train.py", "--format", "json", "--isolated").out)["runs"]
    return [entry["value"] for row in rows for entry in row["keys"] if entry["key"] == "per_device_train_batch_size"]


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("", [2]),
        ("```\npython train.py --bs 16\n```\n", [16]),
        ("```\npython train.py\npython train.py --bs 16\n```\n", [2, 16]),
        ("```\npython train.py --bs 16\npython train.py --bs 16 # again\n```\n", [16]),
        ("```\npython train.py --bs <number>\n```\n", [2]),
        ("\n".join(f"    python train.py --bs {number}" for number in range(1, 9)), [None]),
    ],
    ids=["none", "one", "two", "the same", "open", "many"],
)
def test_commands_of_a_page_override_defaults(tmp_path: Path, page: str, wanted: list[int | None]) -> None:
    write(tmp_path, {"train.py": OPTIONS, "README.md": page})
    track(tmp_path)
    assert batches(tmp_path) == wanted


def test_a_fix_changes_no_default_that_a_command_overrides(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OPTIONS, "README.md": "```\npython train.py --bs 512\n```\n"})
    track(tmp_path)
    memlint(tmp_path, "fix", "train.py", "--unsafe", *CARD)
    assert "default=2" in (tmp_path / "train.py").read_text()
    assert "--bs 512" in (tmp_path / "README.md").read_text()


def test_an_argument_that_a_command_gives_is_judged_where_it_stands(tmp_path: Path) -> None:
    slow = OPTIONS.replace("max_length=64", "max_length=64, optim=given.optim")
    slow = slow.replace("given = ", "parser.add_argument('--optim', default='adamw_torch')\ngiven = ")
    write(tmp_path, {"train.py": slow, "run.sh": "python train.py --optim adamw_nonsense --bs 4\n"})
    track(tmp_path)
    found = [item["location"] for item in checked(tmp_path, ".")["findings"] if "adamw_nonsense" in item["message"]]
    assert [(place["path"], place["line"]) for place in found] == [("run.sh", 1)]


DEEPSPEED = SFT.replace("bf16=True", "bf16=True, deepspeed='ds.json'")
LAUNCHER = "accelerate launch --use_deepspeed --num_processes 2 {} train.py\n"


@pytest.mark.parametrize(
    ("options", "said"), [("--mixed_precision bf16 --zero_stage 2", []), ("--config_file acc.yaml", ["ACC009"])]
)
def test_only_a_launch_file_says_deepspeed_twice(tmp_path: Path, options: str, said: list[str]) -> None:
    write(tmp_path, {"train.py": DEEPSPEED, "run.sh": LAUNCHER.format(options)})
    write(tmp_path, {"ds.json": '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'})
    write(
        tmp_path,
        {"acc.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\n"},
    )
    track(tmp_path)
    assert [item["rule"] for item in checked(tmp_path, "run.sh")["findings"] if item["rule"] == "ACC009"] == said


WARM = (
    "import argparse\nfrom transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n\n"
    "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, required=True)\n"
    "parser.add_argument('--warmup_ratio', type=float, default=0.1)\n"
    "parser.add_argument('--warmup_steps', type=int, default=5)\ngiven = parser.parse_args()\n"
    "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
    "args = SFTConfig('o', per_device_train_batch_size=1, learning_rate=given.lr, warmup_ratio=given.warmup_ratio,\n"
    "                 warmup_steps=given.warmup_steps)\n"
    "SFTTrainer(model=model, args=args).train()\n"
)


@pytest.mark.parametrize(("option", "said"), [("", []), (" --warmup_steps 7", ["run.sh"])], ids=["defaults", "one"])
def test_two_defaults_of_a_program_are_no_slip_of_its_commands(tmp_path: Path, option: str, said: list[str]) -> None:
    write(tmp_path, {"train.py": WARM, "run.sh": f"python train.py --lr 1e-5{option}\n"})
    track(tmp_path)
    found = (item for item in checked(tmp_path, "run.sh")["findings"] if item["rule"] == "TRN004")
    assert [item["location"]["path"] for item in found] == said


READS_JSON = (
    "import json\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n\n"
    "config = json.load(open('run.json'))\n"
    "model = AutoModelForCausalLM.from_pretrained(config['model_name_or_path'], torch_dtype='bfloat16')\n"
    "args = TrainingArguments('o', per_device_train_batch_size=config['per_device_train_batch_size'],\n"
    "                         eval_strategy='steps' if config.get('held_out') else 'no', bf16=True,\n"
    "                         eval_steps=config['eval_steps'], gradient_checkpointing=True)\n"
    "Trainer(model, args).train()\n"
)


def test_a_json_file_is_what_the_script_that_names_it_makes_of_it(tmp_path: Path) -> None:
    config = {"model_name_or_path": "Qwen/Qwen2.5-0.5B", "per_device_train_batch_size": 2, "eval_steps": 100}
    write(tmp_path, {"run.json": json.dumps({**config, "learning_rate": 1e-5}, indent=2)})
    assert any(item["rule"] == "EVA004" for item in checked(tmp_path, "run.json")["findings"])
    write(tmp_path, {"train.py": READS_JSON})
    report = checked(tmp_path, "run.json")
    assert all(item["rule"] != "EVA004" for item in report["findings"])
    assert [run["summary"] for run in report["runs"]] == ["sft, full, bfloat16, 2 x ? tokens"]


def test_a_large_notebook_says_how_it_can_be_read(tmp_path: Path) -> None:
    for name, code in (("a.ipynb", SFT), ("b.ipynb", "print(1)\n")):
        made = json.loads(notebook(code))
        made["cells"][0]["outputs"] = [{"output_type": "stream", "text": "x" * 6_000_000}]
        write(tmp_path, {name: json.dumps(made)})
    (found,) = checked(tmp_path, ".")["findings"]
    assert (found["location"]["path"], found["severity"]) == ("a.ipynb", "info")
    assert "--clear-output" in found["message"]


def track(folder: Path) -> None:
    """Commands are looked for in files that git tracks."""
    for words in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(("slip", "named"), [("max_lenght", "max_length"), ("reward_func", "")])
def test_a_script_is_told_of_arguments_that_its_class_has(tmp_path: Path, slip: str, named: str) -> None:
    script = SFT.replace("per_device_train_batch_size", f"{slip}=1, per_device_train_batch_size")
    write(tmp_path, {"a.py": script.replace("max_length", slip) if named else script})
    (said,) = [item["message"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "CFG001"]
    assert said.startswith(f"SFTConfig takes no `{slip}`") and said.split("`")[3::2] == [named][: bool(named)]


OUTDATED = (
    "from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser\n"
    "args, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()\n"
    "GRPOTrainer(model.model_name_or_path, args=args).train()\n"
)


def test_a_name_in_a_file_that_a_command_reads_is_judged_once(tmp_path: Path) -> None:
    config = "model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 1\nwarmup_ratio: 0.1\n"
    config += "learning_rate: 1.0e-5\n"
    write(tmp_path, {"train.py": OUTDATED, "run.yaml": config, "run.sh": "python train.py --config run.yaml\n"})
    found = [item["location"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "CFG005"]
    assert [(place["path"], place["line"]) for place in found] == [("run.yaml", 3)]


CONSTANT = "lr_scheduler_type='constant', per_device_train_batch_size"


@pytest.mark.parametrize(("ratio", "named"), [("0.1", ["TRN005"]), ("0.1 if len(sys.argv) > 1 else 0.0", [])])
def test_a_warm_up_that_a_script_computes_is_its_own(tmp_path: Path, ratio: str, named: list[str]) -> None:
    script = SFT.replace("per_device_train_batch_size", f"warmup_ratio={ratio}, {CONSTANT}")
    write(tmp_path, {"a.py": "import sys\n" + script})
    assert [item["rule"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "TRN005"] == named


@pytest.mark.parametrize(("line", "named"), [("", ["PRE009"]), ("args.model_init_kwargs = dict(dtype='bfloat16')", [])])
def test_a_model_by_name_has_the_dtype_that_the_arguments_are_given(
    tmp_path: Path, line: str, named: list[str]
) -> None:
    script = SFT.replace("trainer = SFTTrainer(model=model", f"{line}\ntrainer = SFTTrainer(model='Qwen/Qwen2.5-7B'")
    write(tmp_path, {"a.py": script})
    assert [item["rule"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "PRE009"] == named


def test_each_of_two_projects_of_one_shape_reads_its_own_file(tmp_path: Path) -> None:
    longer = OWN.replace("gradient_checkpointing=True", "packing=training['packing']")
    files = {"one/train.py": longer, "one/sft.yaml": CONFIG + "  packing: true\n"}
    write(tmp_path, {**files, "two/train.py": OWN, "two/sft.yaml": CONFIG + "  packing: true\n"})
    report = checked(tmp_path, "two/sft.yaml")
    assert all(item["rule"] != "CFG014" for item in report["findings"])
    assert "two/train.py" in memlint(tmp_path, "map", "two/sft.yaml", "--isolated").out


LORA_FLAG = OPTIONS.replace("given = ", "parser.add_argument('--lora_r', type=int, default=0)\ngiven = ")


@pytest.mark.parametrize("option", ["", " --lora_r 0"], ids=["default", "given"])
def test_a_program_s_own_flag_may_be_off_at_0(tmp_path: Path, option: str) -> None:
    lora = LORA_FLAG.replace("SFTTrainer(", "print(given.lora_r)\nSFTTrainer(")
    write(tmp_path, {"train.py": lora, "run.sh": f"python train.py --bs 2{option}\n"})
    track(tmp_path)
    assert all(item["rule"] != "CFG003" for item in checked(tmp_path, "run.sh")["findings"])


LAUNCHED = "accelerate launch --config_file acc.json --num_processes 2 train.py --bs 4\n"


def test_a_launch_file_s_keys_are_judged_in_it(tmp_path: Path) -> None:
    inner = {"zero_stage": 2, "zero_optimization": {"stage": 2}}
    launch = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "DEEPSPEED", "deepspeed_config": inner}
    write(tmp_path, {"train.py": OPTIONS, "run.sh": LAUNCHED, "acc.json": json.dumps(launch, indent=1)})
    track(tmp_path)
    found = [item["location"]["path"] for item in checked(tmp_path, ".")["findings"] if item["rule"] == "CFG001"]
    assert found == ["acc.json"]


FILLS_IN = (
    "import json\nds_config = json.load(open(name))\nds_config['train_micro_batch_size_per_gpu'] = 4\n"
    "ds_config['gradient_clipping'] = 1.0\nds_config['zero_optimization']['stage3_max_live_parameters'] = 10**8\n"
)


@pytest.mark.parametrize(("script", "said"), [("", ["DSP001"]), (FILLS_IN, [])], ids=["alone", "read by a script"])
def test_a_script_fills_in_the_file_that_it_loads(tmp_path: Path, script: str, said: list[str]) -> None:
    zero = {"stage": 3, "stage3_max_live_parameters": "auto"}
    config = {"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0, "zero_optimization": zero}
    write(tmp_path, {"ds.json": json.dumps({**config, "bf16": {"enabled": True}}), "train.py": script or "pass\n"})
    assert [item["rule"] for item in checked(tmp_path, "ds.json")["findings"] if item["rule"] == "DSP001"] == said


def test_a_model_of_mlx_is_not_estimated(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": SFT.replace("Qwen/Qwen2.5-7B", "mlx-community/Qwen2.5-7B-Instruct-4bit")})
    (run,) = checked(tmp_path, "a.py")["runs"]
    assert run["verdict"] == "unknown" and run["peak"]["device_bytes"] is None


LOADED = (
    "import os\nfrom pathlib import Path\nfrom huggingface_hub import snapshot_download\n"
    "from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM\n"
    "from trl import SFTConfig, SFTTrainer\nfrom own import load\n\n{0}\n"
    "SFTTrainer(model=model, args=SFTConfig('out', per_device_train_batch_size=1, max_length=512)).train()\n"
)


@pytest.mark.parametrize(
    "lines",
    [
        "model = AutoModelForCausalLM.from_pretrained(Path.home() / 'models' / 'Qwen2.5-0.5B')",
        "model = AutoModelForCausalLM.from_pretrained(os.path.join(os.environ['MODELS'], 'Qwen2.5-0.5B'))",
        "model = AutoModelForCausalLM.from_pretrained(f\"{os.environ['MODELS']}/Qwen2.5-0.5B\")",
        "model = AutoModelForCausalLM.from_pretrained(os.environ['MODELS'] + '/Qwen2.5-0.5B')",
        "model = AutoModelForCausalLM.from_pretrained(str(Path(os.getenv('MODELS')) / 'Qwen2.5-0.5B'))",
        "model = AutoModelForCausalLM.from_pretrained(snapshot_download('Qwen/Qwen2.5-0.5B'))",
        "model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained('Qwen/Qwen2.5-0.5B'))",
        "config = AutoConfig.from_pretrained('Qwen/Qwen2.5-0.5B')\nconfig.use_cache = False\n"
        "model = AutoModelForCausalLM.from_config(config)",
        "if os.environ['X']:\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B', use_cache=True)\n"
        "else:\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\nmodel = model.to('cuda')",
    ],
)
def test_a_model_by_its_path_or_its_configuration(lines: str) -> None:
    run = _first_run(LOADED.format(lines))
    assert run.model.architecture.hidden_size == 896


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("model = load('Qwen/Qwen2.5-0.5B')", "`load` of `own` makes the model, whose code memlint does not see"),
        ("model, tokenizer = load('Qwen/Qwen2.5-0.5B')", "what `load` returns is not known"),
        (
            "config = AutoConfig.from_pretrained('Qwen/Qwen2.5-0.5B')\nconfig.num_hidden_layers = 2\n"
            "model = AutoModelForCausalLM.from_config(config)",
            "the script sets `num_hidden_layers` of the model's configuration",
        ),
        (
            "model = LlamaForCausalLM(LlamaConfig(hidden_size=512))",
            "the script makes the model from a `LlamaConfig` of its own",
        ),
        ("model = AutoModelForCausalLM.from_pretrained('')", "the model's name is empty"),
    ],
)
def test_why_a_model_is_not_known(lines: str, reason: str) -> None:
    run = _first_run(LOADED.format(lines))
    assert run.origins["model.architecture"].detail == reason
    assert _first_run(LOADED.format(lines), "Qwen/Qwen2.5-0.5B").model.architecture.hidden_size == 896


def _first_run(text: str, model: str = "") -> Run:
    workspace = in_memory({"train.py": text})
    return Engine(()).analyse(workspace.documents("train.py")[0], workspace.context(model_name=model)).runs[0]


def test_a_script_with_a_file_of_its_name_reads_no_other(tmp_path: Path) -> None:
    other = GRPO.replace("GRPOTrainer", "SFTTrainer").replace("GRPOConfig", "SFTConfig")
    files = {"entry.py": GRPO, "warmup.py": other, "configs/grpo.yaml": CONFIG, "configs/warmup.yaml": CONFIG}
    write(tmp_path, files)
    found = checked(tmp_path, ".")["findings"]
    assert all(one["rule"] != "CFG014" for one in found if one["location"]["path"] == "configs/grpo.yaml")


BY_CARD = (
    "import torch\nfrom transformers import AutoModelForCausalLM\nfrom trl import SFTConfig, SFTTrainer\n"
    "new = torch.cuda.get_device_capability()[0] >= 8\n"
    "attention, dtype = ('flash_attention_2', torch.bfloat16) if new else ('eager', torch.float16)\n"
    "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B', attn_implementation=attention, dtype=dtype)\n"
    "args = SFTConfig('out', per_device_train_batch_size=1, max_length=256, bf16=new, fp16=not new)\n"
    "SFTTrainer(model=model, args=args).train()\n"
)


@pytest.mark.parametrize(
    ("card", "attention", "weights"), [(None, "flash_attention_2", "bfloat16"), ("T4", "eager", "float16")]
)
def test_a_script_gets_the_answer_of_the_card_that_is_named(card: str | None, attention: str, weights: str) -> None:
    workspace = in_memory({"train.py": BY_CARD})
    (document,) = workspace.documents("train.py")
    context = workspace.context()._replace(gpu=find(card) if card else None)
    (run,) = Engine(()).analyse(document, context).runs
    assert (run.attention.implementation, run.model.weights_dtype) == (attention, weights)


def test_what_another_module_calls_is_said_with_that_module(tmp_path: Path) -> None:
    module = (
        "from transformers import Trainer, TrainingArguments\n\n\ndef train(model):\n"
        "    args = TrainingArguments(output_dir='o')\n"
        "    Trainer(model=model, args=args, train_dataset=model, tokenizer=None).train()\n"
    )
    script = (
        "from transformers import AutoModelForCausalLM\nfrom runner import train\n\n\ndef main():\n"
        "    train(AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B'))\n\n\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    write(tmp_path, {"runner.py": module, "main.py": script})
    (found,) = [one for one in checked(tmp_path, "main.py")["findings"] if one["rule"] == "CFG005"]
    assert (found["location"]["path"], found["location"]["line"]) == ("main.py", 1)
    assert found["message"].endswith("use `processing_class` (called in runner.py:6)")


def test_a_call_is_not_said_of_the_config_that_its_script_reads(tmp_path: Path) -> None:
    script = (
        "import yaml\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "cfg = yaml.safe_load(open('a.yaml'))\nmodel = AutoModelForCausalLM.from_pretrained(cfg['model'])\n"
        "args = TrainingArguments(output_dir='o', per_device_train_batch_size=cfg['batch'])\n"
        "Trainer(model=model, args=args, train_dataset=data, tokenizer=None).train()\n"
    )
    write(tmp_path, {"main.py": script, "a.yaml": "model: Qwen/Qwen2.5-0.5B\nbatch: 2\n"})
    found = checked(tmp_path, "main.py", "a.yaml")
    assert [run["path"] for run in found["runs"]] == ["a.yaml"]
    assert not [one for one in found["findings"] if "tokenizer" in one["message"]]


def values_of(script: str, path: str = "train.py", **files: str) -> dict[str, Any]:
    """The keys of the one run of a script. `files`: others, with `_` for `/` in their names."""
    others = {f"{name.replace('_', '/')}.py": text for name, text in files.items()}
    (document,) = in_memory({path: script, **others}).documents(path)
    return dict(document.value)


TRAINS = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
MODEL = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
ARGUMENTS = "args = TrainingArguments('out', per_device_train_batch_size=3)\n"
OWN_TRAINER = "class Mine(Trainer):\n    pass\n"
BY_NAME = "KINDS = {}\ndef keep(kind):\n    KINDS[kind.__name__] = kind\n"
BY_DECORATOR = (
    "class Registry:\n    def __init__(self):\n        self.kinds = {}\n    def register(self, name):\n"
    "        def keep(kind):\n            self.kinds[name] = kind\n            return kind\n        return keep\n"
    "KINDS = Registry()\n"
)


@pytest.mark.parametrize(
    "script",
    [
        BY_NAME + OWN_TRAINER + "keep(Mine)\nmade = KINDS['Mine']\n",
        "KINDS = {'sft': Trainer}\nmade = KINDS['sft']\n",
        BY_DECORATOR + "@KINDS.register('mine')\n" + OWN_TRAINER + "made = KINDS.kinds['mine']\n",
        BY_DECORATOR + OWN_TRAINER + "@KINDS.register('f')\ndef f(**given):\n    return Mine(**given)\n"
        "made = KINDS.kinds['f']\n",
    ],
    ids=["by name", "a table", "by a decorator", "a function"],
)
def test_a_registry_gives_back_what_was_kept_in_it(script: str) -> None:
    found = values_of(TRAINS + MODEL + ARGUMENTS + script + "made(model=model, args=args).train()\n")
    assert (found["model_name_or_path"], found["per_device_train_batch_size"]) == ("Qwen/Qwen2.5-0.5B", 3)


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.append('own')",
        "sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'own'))",
        "sys.path.append(Path('own').absolute().__str__())",
    ],
)
def test_modules_are_imported_from_the_folders_of_sys_path(line: str) -> None:
    script = f"import sys\nfrom pathlib import Path\n{line}\nfrom kinds import OwnTrainer\n{TRAINS}{MODEL}{ARGUMENTS}"
    script += "OwnTrainer(model=model, args=args).train()\n"
    found = values_of(script, "scripts/train.py", own_kinds=TRAINS + "class OwnTrainer(Trainer):\n    pass\n")
    assert found["per_device_train_batch_size"] == 3


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("torch.bfloat16 == 'auto'", False),
        ("torch.half == torch.float16", True),
        ("torch.float32 != torch.bfloat16", True),
        ("torch.device('cuda:0').type == 'cuda'", True),
        ("broadcast_object_list([{'a': 1}])[0]['a'] == 1", True),
    ],
)
def test_what_a_condition_says_of_torchs_own(condition: str, holds: bool) -> None:
    script = f"import torch\nfrom accelerate.utils import broadcast_object_list\n{TRAINS}{MODEL}"
    script += f"args = TrainingArguments('out', per_device_train_batch_size=3 if {condition} else 5)\n"
    script += "Trainer(model=model, args=args).train()\n"
    assert values_of(script)["per_device_train_batch_size"] == (3 if holds else 5)


def test_model_config_asks_for_no_quantization_unless_said() -> None:
    script = (
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
        "from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser\n"
        "model_args, args = TrlParser((ModelConfig, SFTConfig)).parse_args_and_config()\n"
        "bits = BitsAndBytesConfig(load_in_4bit=True) if model_args.load_in_4bit else None\n"
        "model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path, quantization_config=bits)\n"
        "SFTTrainer(model=model, args=args).train()\n"
    )
    command = "python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out --learning_rate 1e-5"
    for flags, bits in (("", 16), (" --load_in_4bit", 4)):
        workspace = in_memory({"train.py": script, "run.sh": command + flags})
        (run,) = Engine(()).analyse(workspace.documents("run.sh")[0], workspace.context(gpus=1)).runs
        assert (run.model.quantization.bits or 16) == bits


def test_a_script_that_makes_no_run_of_many_files_is_not_followed_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that trains a model of its own, beside many configs."""
    count = 2 * configs.MAX_UNREAD
    own = "model: {{name: a}}\ntraining: {{batch_size: {0}, epochs: 1}}\nk{0}: 1\n"
    workspace = in_memory({"train.py": OWN, **{f"conf/c{index}.yaml": own.format(index) for index in range(count)}})
    followed: list[str] = []

    def noted(script: str, code: str, repository: Any, path: str) -> tuple[Document, ...]:
        followed.append(repository.document(path).path)
        return ()

    monkeypatch.setattr(configs, "documents", noted)
    assert not any(workspace.config_runs(f"conf/c{index}.yaml") for index in range(count))
    assert len(followed) == configs.MAX_UNREAD


def test_files_alike_that_give_a_script_no_run_are_not_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of each run, under names of their own."""
    results = json.dumps({"model": {"name": "a/model"}, "training": {"batch": 4}, "accuracy": 0.5})
    files = {f"out/{index}.json": results for index in range(3 * configs.MAX_VAIN)}
    workspace = in_memory({"train.py": OWN, "own.yaml": CONFIG, **files})
    followed: list[str] = []
    follow = python_documents.documents

    def noted(script: str, *given: Any) -> tuple[Document, ...]:
        followed.append(script)
        return follow(script, *given)

    monkeypatch.setattr(configs, "documents", noted)
    assert not any(workspace.config_runs(name) for name in files)
    assert len(followed) == configs.MAX_VAIN
    (run,) = workspace.config_runs("own.yaml")
    assert run.value["per_device_train_batch_size"] == 64


TWO_BELOW = """\
import os, sys, yaml
from pathlib import Path
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
{}
model = AutoModelForCausalLM.from_pretrained(cfg["model"]["name"])
Trainer(model, TrainingArguments("o", **cfg["train"]["args"])).train()
"""
ROOT = "ROOT = Path(__file__).resolve().parents[1]\n"


@pytest.mark.parametrize(
    "reads",
    [
        f"{ROOT}cfg = yaml.safe_load((ROOT / 'configs' / 'exp' / 'a.yaml').read_text())",
        f"{ROOT}name = 'a'\ncfg = yaml.safe_load(open(ROOT / 'configs' / 'exp' / f'{{name}}.yaml'))",
        f"{ROOT}cfg = yaml.safe_load(ROOT.joinpath('configs', 'exp', 'a.yaml').open())",
        f"{ROOT}EXP = ROOT.joinpath('configs').joinpath('exp')\ncfg = yaml.safe_load(open(EXP / 'a.yaml'))",
        "cfg = yaml.safe_load(open(os.path.join(os.path.dirname(__file__), '..', 'configs', 'exp', 'a.yaml')))",
    ],
)
def test_a_file_two_folders_below_a_root_with_keys_two_levels_down(tmp_path: Path, reads: str) -> None:
    config = "model:\n  name: Qwen/Qwen2.5-0.5B\ntrain:\n  args:\n    per_device_train_batch_size: 3\n"
    files = {"src/train.py": TWO_BELOW.format(reads), "configs/exp/a.yaml": config}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (run,) = checked(tmp_path, ".")["runs"]
    assert (run["path"], "3 x ?" in run["summary"]) == ("configs/exp/a.yaml", True)


IN_TWO_FILES = """\
import argparse, yaml, torch
from own.models import load
parser = argparse.ArgumentParser()
parser.add_argument("--config", default="conf/base.yaml")
config = yaml.safe_load(open(parser.parse_args().config))
adapter = yaml.safe_load(open("conf/lora.yaml"))
model = load(config, adapter)
optimizer = torch.optim.AdamW(model.parameters())
for text in texts:
    model(**tokenizer(text, truncation=True, max_length=config["length"])).loss.backward()
    optimizer.step()
"""
LOADS_BOTH = """\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
def load(config, adapter):
    model = AutoModelForCausalLM.from_pretrained(config["model"], torch_dtype="bfloat16")
    return get_peft_model(model, LoraConfig(r=adapter["r"], lora_alpha=adapter["a"], target_modules=adapter["to"]))
"""


def test_a_run_of_two_configs_stands_at_the_one_that_the_command_names() -> None:
    """Its batch is written in neither; the package that loads its model names its own modules from the root."""
    files = {
        "train.py": IN_TWO_FILES,
        "own/models/__init__.py": "from own.models.loading import load\n",
        "own/models/loading.py": LOADS_BOTH,
        "conf/base.yaml": "model: Qwen/Qwen2.5-0.5B\nlength: 512\nmax_steps: 3\n",
        "conf/lora.yaml": "r: 4\na: 8\nto: [q_proj]\nlora_dropout: 0\n",
        "README.md": "python train.py --config conf/base.yaml\n",
    }
    workspace = in_memory(files)
    (found,) = workspace.config_runs("conf/base.yaml")
    assert (found.path, found.value["lora_r"], found.value["max_length"]) == ("conf/base.yaml", 4, 512)


def test_a_command_that_only_tries_a_program_out_is_no_run_of_it() -> None:
    code = '"""Usage: python sft.py --dry-run --batch 2"""\nimport argparse\n' + SFT.replace(
        "per_device_train_batch_size=2", "per_device_train_batch_size=given.batch"
    ).replace(
        "args = SFTConfig",
        "parser = argparse.ArgumentParser()\nparser.add_argument('--batch', type=int, default=8)\n"
        "parser.add_argument('--dry-run', action='store_true')\ngiven = parser.parse_args()\nargs = SFTConfig",
    )
    for text, batch in ((code, 8), (code.replace("--dry-run --batch 2", "--batch 2"), 2)):
        (document,) = in_memory({"sft.py": text}).documents("sft.py")
        assert document.value["per_device_train_batch_size"] == batch


def test_rloo_s_model_is_its_policy() -> None:
    code = (
        "from trl import RLOOConfig, RLOOTrainer\nfrom transformers import AutoModelForCausalLM\n"
        "from peft import LoraConfig, get_peft_model\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B', torch_dtype='bfloat16')\n"
        "model = get_peft_model(model, LoraConfig(r=4))\n"
        "RLOOTrainer(config=RLOOConfig('o', per_device_train_batch_size=2), policy=model, ref_policy=other,\n"
        "            reward_model=scores, train_dataset=data).train()\n"
    )
    (found,) = in_memory({"rloo.py": code}).documents("rloo.py")
    assert (found.value["model_name_or_path"], found.value["lora_r"]) == ("Qwen/Qwen2.5-0.5B", 4)


def test_commands_that_override_differently_are_runs_of_their_own() -> None:
    script = SFT.replace("per_device_train_batch_size=2", "per_device_train_batch_size=cfg.batch")
    body = "".join(f"    {line}\n" for line in script.splitlines())
    main = "@hydra.main(config_path='conf', config_name='a')\ndef main(cfg):\n"
    lines = "".join(f"python train.py batch={number} rows=3\n" for number in range(1, 7))
    lines += "python train.py --multirun batch=7,8\n"
    files = {
        "train.py": f"import hydra\n\n{main}{body}\nmain()\n",
        "conf/a.yaml": "batch: 48\nrows: 2\n",
    }
    for page, batches in (("", [48]), (lines, [1, 2, 3, 4])):
        workspace = in_memory({**files, "README.md": page})
        found = workspace.documents("train.py") or workspace.config_runs("conf/a.yaml")
        assert [one.value["per_device_train_batch_size"] for one in found] == batches


@pytest.mark.parametrize(("copied", "dtype"), [("", "float32"), ("third_party/peft/src/peft/utils/other.py", None)])
def test_a_copy_of_peft_may_cast_nothing(copied: str, dtype: str | None) -> None:
    """peft 0.2.0 utils/other.py casts norms alone, and forks of it (AGI-Edgerunners/LLM-Adapters) nothing."""
    script = PREPARED.replace("PREPARES", "model").replace(", quantization_config=bits", ", torch_dtype=torch.float16")
    own = {copied: "def prepare_model_for_kbit_training(model):\n    return model\n"} if copied else {}
    workspace = in_memory({"a.py": script, **own})
    (run,) = Engine(()).analyse(workspace.documents("a.py")[0], workspace.context()._replace(gpus=1)).runs
    assert run.model.weights_dtype == (dtype or UNKNOWN)


@pytest.mark.parametrize(("value", "said"), [("4", False), ("True", False), ("[4]", True)])
def test_a_number_for_a_truth_value_is_on_in_python(value: str, said: bool) -> None:
    """transformers 4.39.3 utils/quantization_config.py asks for the truth of `load_in_4bit`."""
    script = SFT.replace("load_in_4bit=True", f"load_in_4bit={value}")
    workspace = in_memory({"a.py": script})
    found = analyse(workspace.documents("a.py")[0], workspace.context(), tuple(shipped())).findings
    assert any("`load_in_4bit` wants" in one.message for one in found) is said


TAKES_OUT = """from trl import GRPOConfig, GRPOTrainer
class Own(GRPOTrainer):
    def __init__(self, *args, **kwargs):
        self.do_augm = TAKEN
        super().__init__(*args, **kwargs)
arguments = GRPOConfig("out", per_device_train_batch_size=8)
Own(model="Qwen/Qwen2.5-1.5B", do_augm=True, reward_funcs=score, args=arguments).train()
"""


@pytest.mark.parametrize(("taken", "said"), [('kwargs.pop("do_augm")', False), ('kwargs["do_augm"]', True)])
def test_a_trainer_that_takes_an_argument_out_of_its_rest_does_not_hand_it_on(taken: str, said: bool) -> None:
    workspace = in_memory({"a.py": TAKES_OUT.replace("TAKEN", taken)})
    found = analyse(workspace.documents("a.py")[0], workspace.context(), tuple(shipped())).findings
    assert any("takes no `do_augm`" in one.message for one in found) is said


UNSLOTH = """from transformers import BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel
bits = BitsAndBytesConfig(load_in_8bit=True)
model, _ = FastLanguageModel.from_pretrained("Qwen/Qwen2.5-7B"MORE)
SFTTrainer(model, args=SFTConfig("out", per_device_train_batch_size=1)).train()
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [(", quantization_config=bits", False), (", quantization_config=bits, load_in_4bit=True", True), ("", False)],
)
def test_unsloths_default_of_4_bits_does_not_contradict_a_configuration(more: str, said: bool) -> None:
    workspace = in_memory({"a.py": UNSLOTH.replace("MORE", more)})
    found = analyse(workspace.documents("a.py")[0], workspace.context(), tuple(shipped())).findings
    assert any("cannot both be true" in one.message for one in found) is said


MODAL = """import modal
app = modal.App("tune")

@app.function()
def download():
    print("weights")

@app.function(gpu=GPU, timeout=3600)
def train():
    from transformers import Trainer, TrainingArguments
    Trainer("gpt2", TrainingArguments("out", per_device_train_batch_size=1)).train()
"""


@pytest.mark.parametrize(("gpu", "card", "gpus"), [('"A10G"', "A10G", 1), ('"H100:2"', "H100", 0), ("None", "", 0)])
def test_a_function_on_modal_trains_on_the_card_that_it_asks_for(gpu: str, card: str, gpus: int) -> None:
    (found,) = in_memory({"app.py": MODAL.replace("GPU", gpu)}).documents("app.py")
    assert found.start is not None
    machine = found.start.machine
    assert (machine.card, machine.gpus) == (card, gpus)
    assert not card or found.text[machine.card_at :].startswith(gpu)
