"""`memlint schemas`: prints where the schemas of config files are, for editors and other checkers."""

from __future__ import annotations

import os

from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.shipped_data import folder

ABOUT = {
    "llamafactory": "LLaMA-Factory's YAML and JSON",
    "axolotl": "Axolotl's YAML",
    "swift": "ms-swift's YAML",
    "verl": "verl's YAML (Hydra)",
    "easyr1": "EasyR1's YAML (OmegaConf)",
    "torchtitan": "TorchTitan's TOML (0.1, 0.2)",
    "skyrl": "SkyRL's YAML and overrides (OmegaConf)",
    "nemo_rl": "NeMo-RL's YAML (OmegaConf)",
    "areal": "AReaL's YAML and overrides (OmegaConf)",
    "slime": "arguments of slime's train.py",
    "oumi": "Oumi's YAML (OmegaConf)",
    "autotrain": "AutoTrain's YAML for language models",
    "torchtune": "torchtune's YAML (OmegaConf)",
    "openrlhf": "OpenRLHF's flags",
    "megatron": "arguments of Megatron-LM's pretrain_gpt.py",
    "trainer": "arguments of Trainer and TRL in a YAML or JSON file",
    "deepspeed": "DeepSpeed's JSON",
    "accelerate": "accelerate's launch files",
    "settings": "memlint.yaml",
    "rule": "rule files",
    "report": "what --format json prints",
}


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The JSON Schemas of config files: their paths, or the path of one.")
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of {', '.join(ABOUT)}")
    name = parser.parse_args(arguments).name
    if name is None:
        width = max(map(len, ABOUT))
        to_stdout("".join(f"{one:{width}}  {path(one)}  ({about})\n" for one, about in ABOUT.items()))
    else:
        to_stdout(f"{path(name)}\n")
    return 0


def path(name: str) -> str:
    """The schema's file. Raises UsageError."""
    if name not in ABOUT:
        near = nearest(name, ABOUT)
        raise UsageError(f"{name}: no such schema" + (f"; did you mean {near}?" if near else f": {', '.join(ABOUT)}"))
    return os.path.abspath(os.path.join(folder("schemas"), f"{name}.json"))
