"""Ways in which public repositories read a training config other than through the framework's own entry point.

Each way is a small repository, as the files beside the config. In their names and texts `CONFIG` stands for the
config's path, `NAME` for its file's name and `STEM` for that without its suffix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Files = Mapping[str, str]


def placed(files: Files, path: str) -> dict[str, str]:
    """The repository's files beside a config at `path`."""
    name = path.rpartition("/")[2]
    words = {"CONFIG": path, "NAME": name, "STEM": name.partition(".")[0]}

    def said(text: str) -> str:
        for word, meant in words.items():
            text = text.replace(word, meant)
        return text

    return {said(file): said(text) for file, text in files.items()}


# What a program of its own does with the values that it has read: a model and a loop that are no framework's.
_LOOP = """
model = AutoModelForCausalLM.from_pretrained(cfg["model_name_or_path"])
for step in range(int(cfg["steps"])):
    loop(model, cfg)
"""
_ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
args = parser.parse_args()
"""
_SAFE_LOAD = "import yaml\n" + _ARGPARSE + "cfg = yaml.safe_load(open(args.config))\n" + _LOOP
_RUN = {"run.sh": "python train.py --config CONFIG\n"}


def _with(load: str, imports: str = "") -> Files:
    """A program that a command starts with the config, and that has it by this expression over `args.config`."""
    return {"train.py": f"{imports}\n{_ARGPARSE}cfg = {load}\n{_LOOP}", **_RUN}


def _started(command: str, file: str = "run.sh", program: str = "train.py", text: str = _SAFE_LOAD) -> Files:
    return {file: f"{command}\n", program: text}


# Loaders of YAML that a program may use for its config.
LOADERS: Mapping[str, Files] = {
    "yaml.safe_load": _with("yaml.safe_load(open(args.config))", "import yaml"),
    "yaml.load": _with("yaml.load(open(args.config), Loader=yaml.FullLoader)", "import yaml"),
    "yaml.unsafe_load": _with("yaml.unsafe_load(open(args.config))", "import yaml"),
    "from yaml import safe_load": _with("safe_load(open(args.config))", "from yaml import safe_load"),
    "read_text": _with("yaml.safe_load(Path(args.config).read_text())", "import yaml\nfrom pathlib import Path"),
    "ruamel": _with('YAML(typ="safe").load(Path(args.config))', "from ruamel.yaml import YAML"),
    "OmegaConf": _with("OmegaConf.load(args.config)", "from omegaconf import OmegaConf"),
    "OmegaConf merge": _with(
        "OmegaConf.merge(OmegaConf.load(args.config), OmegaConf.from_cli())", "from omegaconf import OmegaConf"
    ),
    "yacs": _with("CN.load_cfg(open(args.config))", "from yacs.config import CfgNode as CN"),
    "mmengine": _with("Config.fromfile(args.config)", "from mmengine.config import Config"),
    "dynaconf": _with("Dynaconf(settings_files=[args.config])", "from dynaconf import Dynaconf"),
    "box": _with("Box.from_yaml(filename=args.config)", "from box import Box"),
    "munch": _with("munchify(yaml.safe_load(open(args.config)))", "import yaml\nfrom munch import munchify"),
    "anyconfig": _with("anyconfig.load(args.config)", "import anyconfig"),
    "pydantic-yaml": _with("parse_yaml_file_as(Settings, args.config)", "from pydantic_yaml import parse_yaml_file_as"),
    "expandvars": _with("yaml.safe_load(os.path.expandvars(open(args.config).read()))", "import os, yaml"),
    "jinja": _with(
        "yaml.safe_load(Template(open(args.config).read()).render())", "import yaml\nfrom jinja2 import Template"
    ),
    "base and deep update": _with(
        'deep_update(yaml.safe_load(open("configs/base.yaml")), yaml.safe_load(open(args.config)))', "import yaml"
    ),
    "oyaml": _with("oyaml.safe_load(open(args.config))", "import oyaml"),
    "strictyaml": _with("strictyaml.load(open(args.config).read()).data", "import strictyaml"),
    "monty": _with("loadfn(args.config)", "from monty.serialization import loadfn"),
    "srsly": _with("srsly.read_yaml(args.config)", "import srsly"),
}
# Programs whose library reads the config, from the command line or from a place that the program names.
LIBRARIES: Mapping[str, Files] = {
    "hydra.main": {
        "train.py": 'import hydra\n@hydra.main(config_path="configs", config_name="STEM")\n'
        "def main(cfg):\n    loop(cfg)\n"
    },
    "hydra compose": {
        "train.py": "from hydra import compose, initialize\n"
        'with initialize(config_path="configs"):\n    cfg = compose(config_name="STEM")\nloop(cfg)\n'
    },
    "hydra --config-name": {
        "train.py": "import hydra\n@hydra.main(config_path=None)\ndef main(cfg):\n    loop(cfg)\n",
        "run.sh": "python train.py --config-path configs --config-name STEM\n",
    },
    "jsonargparse CLI": _started(
        "python train.py --config CONFIG", text="from jsonargparse import CLI\nCLI(train, as_positional=False)\n"
    ),
    "jsonargparse auto_cli": _started(
        "python train.py --config CONFIG", text="from jsonargparse import auto_cli\nauto_cli(train)\n"
    ),
    "jsonargparse ActionConfigFile": _started(
        "python train.py --cfg CONFIG",
        text="from jsonargparse import ActionConfigFile, ArgumentParser\nparser = ArgumentParser()\n"
        'parser.add_argument("--cfg", action=ActionConfigFile)\ncfg = parser.parse_args()\nloop(cfg)\n',
    ),
    "LightningCLI": _started(
        "python train.py fit --config CONFIG",
        text="from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model, Data)\n",
    ),
    "simple-parsing": _started(
        "python train.py --config_path CONFIG",
        text="from simple_parsing import parse\ncfg = parse(Options, add_config_path_arg=True)\nloop(cfg)\n",
    ),
    "draccus": _started(
        "python train.py --config_path CONFIG",
        text="import draccus\n@draccus.wrap()\ndef main(cfg: Options):\n    loop(cfg)\nmain()\n",
    ),
    "pyrallis": _started(
        "python train.py --config_path CONFIG",
        text="import pyrallis\n@pyrallis.wrap()\ndef main(cfg: Options):\n    loop(cfg)\nmain()\n",
    ),
    "configargparse": _started(
        "python train.py -c CONFIG",
        text="import configargparse\nparser = configargparse.ArgParser(config_file_parser_class="
        'configargparse.YAMLConfigFileParser)\nparser.add("-c", is_config_file=True)\nargs = parser.parse_args()\n',
    ),
    "pydantic-settings": {
        "settings.py": "from pydantic_settings import BaseSettings, SettingsConfigDict, YamlConfigSettingsSource\n"
        'class Settings(BaseSettings):\n    model_config = SettingsConfigDict(yaml_file="CONFIG")\n',
    },
    "draccus.parse": _started(
        "python train.py --config_path CONFIG", text="import draccus\ncfg = draccus.parse(Options)\nloop(cfg)\n"
    ),
    "chz": _started(
        "python train.py CONFIG",
        text="import chz\nimport yaml\nwith open(sys.argv[1]) as file:\n    cfg = yaml.safe_load(file)\n",
    ),
}
# Ways from a command to the program that reads the config with yaml.safe_load.
STARTS: Mapping[str, Files] = {
    "python": _started("python train.py --config CONFIG"),
    "python3 -u": _started("CUDA_VISIBLE_DEVICES=0 python3 -u train.py CONFIG"),
    "torchrun": _started("torchrun --nproc_per_node 8 train.py --config CONFIG"),
    "accelerate": _started("accelerate launch --num_processes 8 train.py --config CONFIG"),
    "deepspeed": _started("deepspeed train.py --config CONFIG"),
    "uv": _started("uv run train.py --config CONFIG"),
    "poetry": _started("poetry run python train.py --config CONFIG"),
    "module": _started("python -m own.train --config CONFIG", program="own/train.py"),
    "module of src": _started("python -m own.train --config CONFIG", program="src/own/train.py"),
    "folder": _started("cd own && python train.py --config ../CONFIG", program="own/train.py"),
    "variable": _started("CONFIG_FILE=CONFIG\npython train.py --config $CONFIG_FILE"),
    "loop": _started("for name in STEM other; do\n  python train.py --config configs/$name.yaml\ndone"),
    "Makefile": _started("train:\n\tpython train.py --config CONFIG", "Makefile"),
    "justfile": _started("train:\n    python train.py --config CONFIG", "justfile"),
    "README": _started("# Train\n\n```bash\npython train.py --config CONFIG\n```", "README.md"),
    "notebook shell": _started(
        '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, '
        '"source": ["!python train.py --config CONFIG"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
        "train.ipynb",
    ),
    "Dockerfile": _started('FROM python\nCMD ["python", "train.py", "--config", "CONFIG"]', "Dockerfile"),
    "compose": _started("services:\n  train:\n    command: python train.py --config CONFIG", "docker-compose.yaml"),
    "kubernetes": _started(
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: train\n"
        '        command: ["python", "train.py"]\n        args: ["--config", "/app/CONFIG"]',
        "k8s/job.yaml",
    ),
    "workflow": _started(
        "on: push\njobs:\n  train:\n    steps:\n    - run: python train.py --config CONFIG",
        ".github/workflows/train.yml",
    ),
    "SkyPilot": _started("resources:\n  accelerators: A100:8\nrun: |\n  python train.py --config CONFIG", "sky.yaml"),
    "dvc": _started("stages:\n  train:\n    cmd: python train.py --config CONFIG", "dvc.yaml"),
    "slurm": _started("#!/bin/bash\n#SBATCH --gpus 8\nsrun python train.py --config CONFIG", "job.slurm"),
    "subprocess": _started(
        'import subprocess\nsubprocess.run(["python", "train.py", "--config", "CONFIG"], check=True)', "launch.py"
    ),
    "subprocess by stem": _started(
        'import subprocess\nfor name in ["STEM"]:\n'
        '    subprocess.run(["python", "train.py", "--config", f"configs/{name}.yaml"])',
        "launch.py",
    ),
    "default argument": {
        "train.py": _SAFE_LOAD.replace("required=True", 'default="CONFIG"'),
    },
    "constant": {"train.py": f'import yaml\nCONFIG_PATH = "CONFIG"\ncfg = yaml.safe_load(open(CONFIG_PATH))\n{_LOOP}'},
    "joined path": {
        "train.py": "import os, yaml\nHERE = os.path.dirname(__file__)\n"
        f'cfg = yaml.safe_load(open(os.path.join(HERE, "configs", "NAME")))\n{_LOOP}'
    },
    "path of parts": {
        "train.py": "import yaml\nfrom pathlib import Path\nROOT = Path(__file__).parent\n"
        f'cfg = yaml.safe_load((ROOT / "configs" / "NAME").read_text())\n{_LOOP}'
    },
    "name from the command": {
        "train.py": f'import sys, yaml\ncfg = yaml.safe_load(open("configs/" + sys.argv[1] + ".yaml"))\n{_LOOP}',
        "run.sh": "python train.py STEM\n",
    },
    "package data": {
        "own/train.py": "import yaml\nfrom importlib.resources import files\n"
        f'cfg = yaml.safe_load(files("own").joinpath("NAME").read_text())\n{_LOOP}'
    },
    "notebook": {
        "train.ipynb": '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, '
        '"source": ["import yaml\\n", "cfg = yaml.safe_load(open(\\"CONFIG\\"))"]}], "metadata": {}, "nbformat": 4, '
        '"nbformat_minor": 5}'
    },
    "helper": {
        "train.py": f"from utils import load_config\n{_ARGPARSE}cfg = load_config(args.config)\n{_LOOP}",
        "utils.py": "import yaml\ndef load_config(path):\n    return yaml.safe_load(open(path))\n",
        **_RUN,
    },
    "helper of a package": {
        "scripts/train.py": f"from own.utils.config import load_config\n"
        f"{_ARGPARSE}cfg = load_config(args.config)\n{_LOOP}",
        "own/utils/config.py": "import yaml\ndef load_config(path):\n    return yaml.safe_load(open(path))\n",
        "run.sh": "python scripts/train.py --config CONFIG\n",
    },
    "helper two imports away": {
        "train.py": "from own.cli import main\nmain()\n",
        "own/cli.py": f"from own.config import read\n{_ARGPARSE}cfg = read(args.config)\n{_LOOP}",
        "own/config.py": "import yaml\ndef read(path):\n    return yaml.safe_load(open(path))\n",
        **_RUN,
    },
    "class with from_yaml": {
        "train.py": f"from own.config import Settings\n{_ARGPARSE}cfg = Settings.from_yaml(args.config)\n{_LOOP}",
        "own/config.py": "import yaml\nclass Settings:\n    @classmethod\n    def from_yaml(cls, path):\n"
        "        return cls(**yaml.safe_load(open(path)))\n",
        **_RUN,
    },
    "typer": _started(
        "python train.py train CONFIG",
        text="import typer, yaml\napp = typer.Typer()\n@app.command()\ndef train(config: str):\n"
        "    cfg = yaml.safe_load(open(config))\n    loop(cfg)\napp()\n",
    ),
    "click": _started(
        "python train.py --config CONFIG",
        text='import click, yaml\n@click.command()\n@click.option("--config")\ndef main(config):\n'
        "    cfg = yaml.safe_load(open(config))\n    loop(cfg)\nmain()\n",
    ),
    "fire": _started(
        "python train.py --config=CONFIG",
        text="import fire, yaml\ndef main(config):\n"
        "    cfg = yaml.safe_load(open(config))\n    loop(cfg)\nfire.Fire(main)\n",
    ),
    "console script": {
        "pyproject.toml": '[project]\nname = "own"\n[project.scripts]\nown-train = "own.cli:main"\n',
        "own/cli.py": "import yaml\ndef main():\n    cfg = yaml.safe_load(open(parse().config))\n    loop(cfg)\n",
        "README.md": "```bash\nown-train --config CONFIG\n```\n",
    },
    "sweep of wandb": _started(
        "program: train.py\nmethod: grid\nparameters:\n  config:\n    value: CONFIG", "sweep.yaml"
    ),
}
# Programs in other languages that read the config.
OTHER_LANGUAGES: Mapping[str, Files] = {
    "node": {
        "launch.js": 'const yaml = require("js-yaml"), fs = require("fs");\n'
        'const cfg = yaml.load(fs.readFileSync("CONFIG", "utf8"));\nspawn("python", ["train.py", cfg.steps]);\n'
    },
    "go": {
        "main.go": 'package main\nfunc main() {\n\tdata, _ := os.ReadFile("CONFIG")\n\tyaml.Unmarshal(data, &cfg)\n}\n'
    },
    "rust": {"src/main.rs": 'fn main() {\n    let cfg: Config = serde_yaml::from_reader(File::open("CONFIG")?)?;\n}\n'},
    "ruby": {"train.rb": 'require "yaml"\ncfg = YAML.load_file("CONFIG")\n'},
}
OWN: Mapping[str, Files] = {**LOADERS, **LIBRARIES, **STARTS, **OTHER_LANGUAGES}

# Evidence that the framework's own code reads the config, by the format of the config: what is wrong in it stays wrong.
_HF = """from transformers import HfArgumentParser, TrainingArguments
parser = HfArgumentParser((ModelArguments, TrainingArguments))
model_args, training_args = parser.parse_yaml_file(sys.argv[1])
"""
_OTHER = {"labels.py": 'import yaml\nlabels = yaml.safe_load(open("data/labels.yaml"))\n'}
BY_FRAMEWORK: Mapping[str, Mapping[str, Files]] = {
    "trainer": {
        "nothing": {},
        "another file is read": _OTHER,
        "HfArgumentParser": _started("python train.py CONFIG", text=_HF),
        "torchrun": _started("torchrun --nproc_per_node 8 train.py CONFIG", text=_HF),
        "parser in a helper": {
            "train.py": "from own.arguments import parse\nargs = parse(sys.argv[1])\n",
            "own/arguments.py": _HF,
            "run.sh": "python train.py CONFIG\n",
        },
        "PyYAML before the parser": _started(
            "python train.py CONFIG",
            text="import yaml\nfrom transformers import HfArgumentParser, TrainingArguments\n"
            "parser = HfArgumentParser(TrainingArguments)\n"
            "args = parser.parse_dict(yaml.safe_load(open(sys.argv[1])))\n",
        ),
        "workflow": _started(
            "on: push\njobs:\n  t:\n    steps:\n    - run: python train.py CONFIG", ".github/workflows/t.yml", text=_HF
        ),
    },
    "trl": {
        "nothing": {},
        "another file is read": _OTHER,
        "trl sft": {"run.sh": "trl sft --config CONFIG\n"},
        "trl sft beside scripts": {"run.sh": "trl sft --config CONFIG\n", "evaluate.py": _SAFE_LOAD},
        "TrlParser": _started(
            "accelerate launch train.py --config CONFIG",
            text="from trl import TrlParser, SFTConfig\nparser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))\n"
            "args = parser.parse_args_and_config()\n",
        ),
        "accelerate of a module": {"run.sh": "accelerate launch --module trl.scripts.sft --config CONFIG\n"},
    },
    "llamafactory": {
        "nothing": {},
        "another file is read": _OTHER,
        "llamafactory-cli": {"run.sh": "llamafactory-cli train CONFIG\n"},
        "llamafactory-cli beside scripts": {
            "run.sh": "python prepare.py CONFIG\nllamafactory-cli train CONFIG\n",
            "prepare.py": "import yaml\nprint(yaml.safe_load(open(sys.argv[1]))['dataset'])\n",
        },
        "run_exp": _started(
            "python train.py CONFIG",
            text="import yaml\nfrom llamafactory.train.tuner import run_exp\n"
            "run_exp(yaml.safe_load(open(sys.argv[1])))\n",
        ),
        "subprocess": _started(
            "python train.py CONFIG",
            text="import subprocess, yaml\ncfg = yaml.safe_load(open(sys.argv[1]))\n"
            'yaml.safe_dump(cfg, open("f.yaml", "w"))\n'
            'subprocess.run(["llamafactory-cli", "train", "f.yaml"])\n',
        ),
        "launcher in JavaScript": {
            "launch.js": 'const cfg = yaml.load(read("CONFIG"));\nspawn("llamafactory-cli", ["train", "f.yaml"]);\n'
        },
    },
    "axolotl": {
        "nothing": {},
        "another file is read": _OTHER,
        "axolotl train": {"run.sh": "axolotl train CONFIG\n"},
        "accelerate of a module": {"run.sh": "accelerate launch -m axolotl.cli.train CONFIG\n"},
        "subprocess": _started(
            "python train.py CONFIG",
            text="import subprocess, yaml\ncfg = yaml.safe_load(open(sys.argv[1]))\n"
            'subprocess.run(["axolotl", "train", sys.argv[1]])\n',
        ),
        "SkyPilot": {"sky.yaml": "run: |\n  axolotl train CONFIG\n"},
    },
}

# Ways in which a program or a command sets `KEY` of the config, or replaces its `VALUE`, for the framework's own code.
# `HAND_ON` is the framework's command.
_EDIT = "import json, subprocess, sys, yaml\ncfg = LOAD(open(sys.argv[1]))\n"
_HAND_ON = 'DUMP(cfg, open("final", "w"))\nsubprocess.run("HAND_ON final".split())\n'


def _edited(text: str) -> Files:
    return {"train.py": f"{_EDIT}{text}\n{_HAND_ON}", "run.sh": "python train.py CONFIG\n"}


SET: Mapping[str, Files] = {
    "item": _edited('cfg["KEY"] = compute()'),
    "pop": _edited('own = cfg.pop("KEY")'),
    "setdefault": _edited('cfg.setdefault("KEY", compute())'),
    "update": _edited('cfg.update({"KEY": compute()})'),
    "delete": _edited('del cfg["KEY"]'),
    "nested": _edited('cfg["section"]["KEY"] = compute()'),
    "replace": {
        "train.py": "import json, yaml\ntext = open('CONFIG').read().replace('VALUE', compute())\ncfg = LOADS(text)\n"
        + _HAND_ON
    },
    "sed of the value": {"run.sh": "sed -i 's/VALUE/'$COMPUTED'/' CONFIG\nHAND_ON CONFIG\n"},
    "sed of the key": {"run.sh": 'sed "s/KEY: .*/KEY: $COMPUTED/" CONFIG > final\nHAND_ON final\n'},
    "sed over lines": {"run.sh": "sed -i \\\n  -e 's/VALUE/1/' \\\n  CONFIG\nHAND_ON CONFIG\n"},
    "yq": {"run.sh": "yq -i '.KEY = strenv(COMPUTED)' CONFIG\nHAND_ON CONFIG\n"},
    "jq": {"run.sh": "jq '.section.KEY = 1' CONFIG > final\nHAND_ON final\n"},
    "perl": {"Makefile": "train:\n\tperl -pi -e 's/VALUE/1/' CONFIG && HAND_ON CONFIG\n"},
    "override": {"run.sh": "HAND_ON CONFIG KEY=1\n"},
    "option": {"run.sh": "HAND_ON CONFIG --KEY 1\n"},
    "in a page": {"README.md": "Set it first:\n\n```bash\nsed -i 's/VALUE/1/' CONFIG\npython final.py\n```\n"},
}
# Ways in which the file that a config references comes to be there.
MADE: Mapping[str, Files] = {
    "json.dump": {
        "make.py": 'import json\njson.dump(make(), open("configs/MADE", "w"))\nload = json.load(open("a"))\n'
    },
    "heredoc": {"run.sh": "cat > configs/MADE <<EOF\n{}\nEOF\nHAND_ON CONFIG\n"},
    "jq": {"run.sh": "jq '.a = 1' other.json > configs/MADE\nHAND_ON CONFIG\n"},
    "cp": {"run.sh": "cp templates/zero3.json configs/MADE\nHAND_ON CONFIG\n"},
    "wget": {"run.sh": "wget https://example.org/x.json -O configs/MADE\nHAND_ON CONFIG\n"},
    "output option": {"run.sh": "python make.py --output configs/MADE\nHAND_ON CONFIG\n", "make.py": "make()\n"},
    "tee": {"Makefile": "ds:\n\techo '{}' | tee configs/MADE\n\tpython check.py\n"},
}

_ARGUMENTS = {
    "model_name_or_path": "Qwen/Qwen2.5-1.5B",
    "output_dir": "out",
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 2,
    "num_train_epochs": 1,
    "learning_rate": 1.0e-05,
}
# Configs that a program of one's own may well read, and that the framework of that name refuses.
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "trainer": {
        **_ARGUMENTS,
        "bf16": True,
        "fp16": True,
        "load_best_model_at_end": True,
        "eval_strategy": "steps",
        "save_strategy": "epoch",
        "lr_scheduler_type": "wsd_own",
        "optim": "adamw_own",
        "max_steps": None,
        "deepspeed": "configs/absent.json",
    },
    "trl": {
        **_ARGUMENTS,
        "dataset_name": "a/b",
        "max_length": 512,
        "use_peft": True,
        "lora_target_modules": "all",
        "load_in_4bit": True,
        "load_in_8bit": True,
        "optim": "adamw_own",
    },
    "llamafactory": {
        "model_name_or_path": "Qwen/Qwen2.5-1.5B",
        "stage": "own",
        "do_train": True,
        "finetuning_type": "adapters",
        "dataset": "a",
        "template": "qwen",
        "cutoff_len": 1024,
        "lora_rank": "many",
        "quantization_bit": 5,
        "warmup_steps": None,
        "output_dir": "out",
    },
    "axolotl": {
        "base_model": "Qwen/Qwen2.5-1.5B",
        "datasets": [{"path": "a/b", "type": "alpaca"}],
        "sequence_len": "long",
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 2,
        "num_epochs": 1,
        "adapter": "own",
        "learning_rate": 0.0002,
        "output_dir": "out",
        "optimizer": "adamw_torch",
    },
}


class Refused(NamedTuple):
    """A sound `config` of a framework, and a value in it that the framework refuses: where, and which. `hand_on`: the
    command that the framework reads the file with; `files`: the program that it starts."""

    config: Mapping[str, Any]
    key: tuple[str, ...]
    value: str
    hand_on: str
    files: Files


_DEEPSPEED = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}
_AXOLOTL = {"sequence_len": 512, "adapter": "lora", "lora_r": 8, "lora_alpha": 16, "lora_target_linear": True}
_FACTORY = {"stage": "sft", "finetuning_type": "lora", "lora_rank": 8, "quantization_bit": 4, "warmup_steps": 0}
REFUSED: Mapping[str, Refused] = {
    "trainer": Refused(_ARGUMENTS, ("lr_scheduler_type",), "wsd_own", "python hf.py", {"hf.py": _HF}),
    "trl": Refused(
        {**_ARGUMENTS, "dataset_name": "a/b", "max_length": 512}, ("optim",), "adamw_own", "trl sft --config", {}
    ),
    "llamafactory": Refused(
        {**CONFIGS["llamafactory"], **_FACTORY}, ("lora_rank",), "rank_own", "llamafactory-cli train", {}
    ),
    "axolotl": Refused({**CONFIGS["axolotl"], **_AXOLOTL}, ("sequence_len",), "length_own", "axolotl train", {}),
    "accelerate": Refused(
        {
            "compute_environment": "LOCAL_MACHINE",
            "distributed_type": "MULTI_GPU",
            "num_machines": 1,
            "num_processes": 8,
        },
        ("mixed_precision",),
        "precision_own",
        "accelerate launch own.py --config_file",
        {},
    ),
    "deepspeed": Refused(
        {**_DEEPSPEED, "zero_optimization": {"stage": 2}},
        ("zero_optimization", "reduce_bucket_size"),
        "bucket_own",
        "deepspeed hf.py --deepspeed",
        {"hf.py": _HF},
    ),
}


class Fork(NamedTuple):
    """A repository whose own classes or code take what the framework's releases refuse under `key`."""

    framework: str  # of REFUSED, whose config it changes
    key: str
    value: Any
    files: Files


_FACTORY_COPY = "src/llamafactory/hparams/finetuning_args.py"
_AXOLOTL_COPY = "src/axolotl/utils/schemas/config.py"


def _dataclass(*fields: str, base: str = "") -> str:
    lines = "".join(f"    {field}\n" for field in fields)
    return f"from dataclasses import dataclass\n@dataclass\nclass Arguments{base}:\n{lines}"


def _parsed(field: str) -> Files:
    """A program whose class for HfArgumentParser declares a field."""
    program = "from transformers import HfArgumentParser\nfrom own.arguments import Arguments\n"
    program += "args = HfArgumentParser(Arguments).parse_yaml_file(sys.argv[1])\n"
    own = "from transformers import TrainingArguments\n" + _dataclass(field, base="(TrainingArguments)")
    return {"train.py": program, "own/arguments.py": own, "run.sh": "torchrun train.py CONFIG\n"}


def _asks(condition: str) -> Files:
    return {"own/trainer.py": f"def make(args):\n    if {condition}:\n        return own()\n"}


def _model(field: str) -> Files:
    return {_AXOLOTL_COPY: f"from pydantic import BaseModel\nclass AxolotlInputConfig(BaseModel):\n    {field}\n"}


_FACTORY_FIELD = 'finetuning_type: Literal["lora", "own"] = "lora"'
FORKS: Mapping[str, Fork] = {
    "argument retyped": Fork("trainer", "lr_scheduler_type", "own", _parsed('lr_scheduler_type: str = "own"')),
    "argument that may be null": Fork("trainer", "max_steps", None, _parsed("max_steps: Optional[int] = None")),
    "argument renamed": Fork("trainer", "save_step", 3, _parsed("save_step: int = 3")),
    "number or text": Fork("trainer", "warmup_steps", "auto", _parsed('warmup_steps: Union[int, str] = "auto"')),
    "optimizer by name": Fork("trainer", "optim", "own", _asks('args.optim == "own"')),
    "scheduler in a list": Fork("trl", "lr_scheduler_type", "own", _asks('args.lr_scheduler_type in ["own", "wsd"]')),
    "loss": Fork("trl", "loss_type", "nlll", _asks('self.loss_type == "nlll"')),
    "LLaMA-Factory's key": Fork(
        "llamafactory", "lora_rnk", 8, {_FACTORY_COPY: _dataclass(_FACTORY_FIELD, "lora_rnk: int = 8")}
    ),
    "LLaMA-Factory's word": Fork("llamafactory", "finetuning_type", "own", {_FACTORY_COPY: _dataclass(_FACTORY_FIELD)}),
    "LLaMA-Factory's stage": Fork("llamafactory", "stage", "own", _asks('finetuning_args.stage == "own"')),
    "LLaMA-Factory's type": Fork(
        "llamafactory",
        "lora_rank",
        "auto",
        {_FACTORY_COPY: _dataclass(_FACTORY_FIELD, "lora_rank: Union[int, str] = 8")},
    ),
    "Axolotl's switch": Fork("axolotl", "save_safetensors", False, _model("save_safetensors: bool | None = True")),
    "Axolotl's key": Fork("axolotl", "sequence_lenn", 8, _model("sequence_lenn: int | None = None")),
    "Axolotl's type": Fork("axolotl", "sequence_len", "auto", _model("sequence_len: int | str = 512")),
    "Axolotl's word": Fork("axolotl", "lr_scheduler", "own", _model("lr_scheduler: Literal['own'] | None = None")),
    "Axolotl's adapter": Fork("axolotl", "adapter", "own", _asks('cfg.adapter == "own"')),
}
