"""Tells which program a launch command starts, by its launcher, its name and its flags: the format of the flags, and
the task.

`accelerate launch train.py --learning_rate 1e-5 ...` starts a program of the format "trainer" if `train.py` parses its
flags into transformers' or TRL's classes; `python -m verl.trainer.main_ppo data.train_batch_size=8 ...` is verl's.
"""

from __future__ import annotations

import posixpath
import re

from memlint.formats.trainer.recognise import is_training_arguments
from memlint.repository.scripts.commands import LaunchCommand, options
from memlint.repository.scripts.config_files import config_word
from memlint.repository.scripts.definitions import TrainingProgram

TRL_TASKS = {
    "SFTConfig": "sft",
    "DPOConfig": "dpo",
    "GRPOConfig": "grpo",
    "KTOConfig": "kto",
    "RewardConfig": "rm",
    "ORPOConfig": "orpo",
    "CPOConfig": "cpo",
    "PPOConfig": "ppo",
    "RLOOConfig": "rloo",
    "OnlineDPOConfig": "online_dpo",
    "GKDConfig": "gkd",
    "XPOConfig": "xpo",
    "NashMDConfig": "nash_md",
}
_TRL_WORDS = {"reward": "rm"}
# Scripts of trl's examples/scripts (0.12.2 to 1.16.0), as a repository that lacks them starts them.
_TRL_SCRIPTS = {"dpo_online": "online_dpo", "xpo": "xpo", "nash_md": "nash_md", "gkd": "gkd"}
# Formats whose own program always runs, even as a copy in the repository, so that its behaviour is known.
WHOLE_PROGRAMS = ("verl", "easyr1", "nemo_rl", "openrlhf", "axolotl", "megatron", "torchtune", "skyrl", "slime") + (
    "areal",
)
_VERL_PROGRAM = re.compile(r"(?:^|[./])(?:main_ppo|(?:fsdp_)?sft_trainer)(?:\.py)?$")
_HYDRA_NAMES = ("config_name", "cn")
_VERL_SECTIONS = frozenset(("actor_rollout_ref", "data", "trainer", "algorithm", "critic"))
# Keys of a LLaMA-Factory run that its other programs (such as scripts/vllm_infer.py) do not accept.
_LLAMAFACTORY_RUNS = frozenset(("stage", "finetuning_type", "do_train", "do_eval", "do_predict"))
_LLAMAFACTORY = frozenset(("finetuning_type", "template", "stage", "cutoff_len", "dataset_dir", "lora_target"))


def format_of(command: LaunchCommand, program: TrainingProgram, has_file: bool, text: str | None = None) -> str | None:
    """The format of the flags; "" for a program with a training loop of its own, None if the command does not train.
    `text`: of the program, where the repository has its file."""
    if command.launcher in ("llamafactory-cli", "lmf"):
        return "llamafactory"
    if command.launcher == "oumi":  # its config is read by itself
        return None
    if command.trl_task:
        return "trainer"
    if command.launcher == "autotrain":
        return "autotrain" if any(one.name == "train" for one in options(command.arguments)[0]) else None
    if command.launcher in ("swift", "megatron") or _swift_module(command) or program.swift_task:
        return "swift"
    if is_axolotl(command):
        return "axolotl" if config_word(command, "axolotl") else ""
    if is_verl(command):
        return "verl"
    if is_easyr1(command):
        return "easyr1"
    if is_skyrl(command):
        return "skyrl"
    if is_nemo_rl(command, text):
        return "nemo_rl"
    if is_areal(command, text):
        return None if _evaluates(command) else "areal"
    if command.launcher == "tune":
        return "torchtune" if is_torchtune(command) else ""
    if is_openrlhf(command):
        return "openrlhf"
    if is_slime(command):
        return "slime"
    if is_megatron(command):
        return "megatron"
    names = {one.name for one in options(command.arguments)[0]}
    if len(names & _LLAMAFACTORY) >= 2 and names & _LLAMAFACTORY_RUNS:
        return "llamafactory"
    if not has_file and _makes_images(names, command):
        return None
    if (program.classes and (program.parses or names)) or (not has_file and is_training_arguments(names)):
        return "trainer"
    return "" if _trains(names, command) else None


def is_axolotl(command: LaunchCommand) -> bool:
    """Whether axolotl trains: its own command, or its module under another launcher."""
    name = command.program.text if command.program is not None else ""
    return command.launcher == "axolotl" or (command.is_module and name in ("axolotl.cli.train", "axolotl.cli.main"))


_OPENRLHF_PROGRAM = re.compile(r"(?:^|[./])train_(?:ppo_ray|ppo|sft|dpo|rm|kto|kd|prm)(?:\.py)?$")
_OPENRLHF_FLAGS = frozenset(
    ("micro_train_batch_size", "micro_rollout_batch_size", "zero_stage", "adam_offload", "actor_num_gpus_per_node")
    + ("ds.zero_stage", "train.micro_batch_size", "train.batch_size", "actor.num_gpus_per_node", "pretrain")
)


def is_openrlhf(command: LaunchCommand) -> bool:
    """Whether the command starts a program of OpenRLHF or of a fork: it has its name and at least two of its flags."""
    text = command.program.text if command.program is not None else ""
    if not _OPENRLHF_PROGRAM.search(text):
        return False
    names = {one.name for one in options(command.arguments)[0]}
    return "openrlhf.cli." in text or len(names & _OPENRLHF_FLAGS) >= 2


_MEGATRON_PROGRAM = re.compile(r"(?:^|/)pretrain_gpt\.py$")
_MEGATRON_FLAGS = frozenset(("num_layers", "hidden_size", "num_attention_heads", "micro_batch_size", "seq_length"))
_OF_DEEPSPEED = frozenset(("deepspeed", "deepspeed_config", "zero_stage", "deepspeed_activation_checkpointing"))


def is_megatron(command: LaunchCommand) -> bool:
    """Whether the command starts Megatron-LM's `pretrain_gpt.py`. Under DeepSpeed it is Megatron-DeepSpeed's, which has
    arguments of its own."""
    text = command.program.text if command.program is not None else ""
    if not _MEGATRON_PROGRAM.search(text) or command.launcher == "deepspeed":
        return False
    names = {one.name for one in options(command.arguments)[0]}
    return len(names & _MEGATRON_FLAGS) >= 2 and not names & _OF_DEEPSPEED


# Arguments of slime's own (0.1.0 to 0.3.1 slime/utils/arguments.py) that no other program here has.
_SLIME_FLAGS = frozenset(
    ("hf_checkpoint", "rollout_num_gpus_per_engine", "rollout_max_response_len", "rollout_max_context_len")
    + ("num_rollout", "max_tokens_per_gpu", "rollout_function_path", "ref_load", "sglang_mem_fraction_static")
    + ("rollout_num_gpus", "rm_type", "custom_rm_path", "custom_generate_function_path")
)
_SLIME_CLUSTER = frozenset(("actor_num_nodes", "actor_num_gpus_per_node", "colocate", "rollout_num_gpus"))
_SLIME_PROGRAM = re.compile(r"(?:^|/)train(?:_async)?\.py$")
_SLIME_FEWEST = 3


def is_slime(command: LaunchCommand) -> bool:
    """Whether the command starts slime's trainer, a copy of it or a program made with it: by its arguments, for the
    name `train.py` says nothing. Of a command that ends too early, those of the cluster are left."""
    names = {one.name for one in options(command.arguments)[0]}
    text = command.program.text if command.program is not None else ""
    is_begun = len(names & _SLIME_CLUSTER) >= _SLIME_FEWEST and _SLIME_PROGRAM.search(text) is not None
    return is_begun or len(names & _SLIME_FLAGS) >= _SLIME_FEWEST


def is_verl(command: LaunchCommand) -> bool:
    """Whether the program accepts verl's overrides: `main_ppo` of verl or of a fork, or its SFT trainer. A command that
    names a file needs none."""
    text = command.program.text if command.program is not None else ""
    if _VERL_PROGRAM.search(text) and any(one.name in _HYDRA_NAMES for one in options(command.arguments)[0]):
        return True
    words = [word.text.lstrip("+~") for word in command.arguments]
    sections = {word.partition(".")[0] for word in words if "=" in word}
    if "actor_rollout_ref" in sections:
        return len(sections & _VERL_SECTIONS) > 1 and not any(word in text for word in ("eval", "generation"))
    return "sft_trainer" in text and {"data", "model", "trainer"} <= sections


_EASYR1_PROGRAM = re.compile(r"(?:^|[./])verl[./]trainer[./]main(?:\.py)?$")
_EASYR1_SECTIONS = frozenset(("worker", "data", "trainer", "algorithm"))


def is_easyr1(command: LaunchCommand) -> bool:
    """Whether the program accepts EasyR1's overrides: `verl.trainer.main` of EasyR1 or of a fork, or a program with
    overrides of its section `worker`."""
    text = command.program.text if command.program is not None else ""
    names = {word.text.partition("=")[0] for word in command.arguments if "=" in word.text}
    sections = {name.partition(".")[0] for name in names if "." in name}
    if _EASYR1_PROGRAM.search(text):
        return "config" in names or bool(sections & _EASYR1_SECTIONS)
    return any(name.startswith("worker.actor.") for name in names) and len(sections & _EASYR1_SECTIONS) > 1


_SKYRL_PROGRAM = re.compile(r"(?:^|[./])skyrl(?:_train|[./]train)[./]entrypoints[./]main_base(?:\.py)?$")
_SKYRL_WITHOUT_TRAINING = re.compile(r"generat|serve|eval|_sim$")


def is_skyrl(command: LaunchCommand) -> bool:
    """Whether the program accepts SkyRL's overrides: its `main_base`, or a program with overrides of `trainer.policy`
    and of the generator, as its examples and forks start."""
    text = command.program.text if command.program is not None else ""
    names = {word.text.lstrip("+~").partition("=")[0] for word in command.arguments if "=" in word.text}
    sections = {name.partition(".")[0] for name in names if "." in name}
    if _SKYRL_PROGRAM.search(text):
        return "trainer" in sections
    of_policy = any(name.startswith("trainer.policy.") for name in names)
    return of_policy and "generator" in sections and not _SKYRL_WITHOUT_TRAINING.search(text)


_AREAL_LAUNCHER = re.compile(r"^areal(?:ite)?\.(?:infra\.)?launcher\.(?:local|ray|slurm)$")
_AREAL_PROGRAM = re.compile(r"^\s*(?:from|import)\s+areal\b", re.MULTILINE)
_AREAL_SECTIONS = frozenset(("actor", "rollout", "gconfig", "sglang", "vllm", "cluster", "scheduler", "train_dataset"))


def is_areal(command: LaunchCommand, text: str | None) -> bool:
    """Whether the program reads AReaL's files: one of its launchers, or a program with a file that imports AReaL.
    `text`: of the program, where the repository has it; else overrides of two of its sections, or of `actor` beside the
    allocation, tell it."""
    names = {word.text.lstrip("+~").partition("=")[0] for word in command.arguments if "=" in word.text}
    if not any(one.name == "config" for one in options(command.arguments)[0]):
        return False
    name = command.program.text if command.program is not None else ""
    if command.is_module and _AREAL_LAUNCHER.match(name):
        return True
    if not name.endswith(".py"):
        return False
    if text is not None:
        return _AREAL_PROGRAM.search(text) is not None
    sections = {one.partition(".")[0] for one in names if "." in one} & _AREAL_SECTIONS
    return "allocation_mode" in names or {"scheduler", "actor"} <= sections or {"actor", "gconfig"} <= sections


def _evaluates(command: LaunchCommand) -> bool:
    """Whether the program that AReaL's launcher starts, or that is started itself, only evaluates."""
    words = (command.program, *command.arguments[:1]) if command.is_module else (command.program,)
    names = (posixpath.basename(word.text) for word in words if word is not None and word.text.endswith(".py"))
    return any("eval" in name for name in names)


OVERRIDDEN = ("verl", "easyr1", "nemo_rl", "torchtune", "skyrl", "areal")  # formats whose programs take overrides


def takes_overrides(command: LaunchCommand, text: str | None) -> bool:
    """Whether the program takes overrides of Hydra or OmegaConf, so that its code defines no flags. `text`: of the
    program, where the repository has its file."""
    by_name = is_verl(command) or is_easyr1(command) or is_skyrl(command) or command.launcher == "tune"
    return by_name or is_nemo_rl(command, text) or is_areal(command, text)


# torchtune's own recipes (0.1.1 to 0.6.1 and main, _recipe_registry.py), and copies of them.
_TUNE_RECIPE = re.compile(r"(?:^|/|_)(?:full|lora|qat|ppo|knowledge_distillation|dpo|grpo|finetune)_\w+?(?:\.py)?$")
_TUNE_WITHOUT_TRAINING = re.compile(r"(?:^|/)(?:generate|eleuther_eval|quantize|eval)\w*(?:\.py)?$")


def is_torchtune(command: LaunchCommand) -> bool:
    """Whether `tune run` starts a recipe that trains as torchtune's own do, with a config."""
    text = command.program.text if command.program is not None else ""
    if _TUNE_WITHOUT_TRAINING.search(text) or not _TUNE_RECIPE.search(text):
        return False
    return any(one.name == "config" for one in options(command.arguments)[0])


_NEMO_RL_PROGRAM = re.compile(r"(?:^|/)run_(?:vlm_)?(?:grpo|ppo|dpo|sft|rm|distillation)\w*\.py$")
_NEMO_RL_SECTIONS = frozenset(("policy", "cluster", "grpo", "ppo", "dpo", "sft", "rm", "loss_fn", "checkpointing"))


def is_nemo_rl(command: LaunchCommand, text: str | None) -> bool:
    """Whether the program accepts NeMo-RL's overrides: one of its examples, with a file or overrides of two of its
    sections, or of `policy` alone.

    Ray starts its processes, no launcher does. Other repositories have programs of these names too: `text`, of the
    program's file, names the package (0.2.0 to 0.7.0 examples/run_*.py)."""
    name = command.program.text if command.program is not None else ""
    if not _NEMO_RL_PROGRAM.search(name) or command.launcher in ("accelerate", "torchrun", "deepspeed"):
        return False
    if text is not None and "nemo_rl" not in text:
        return False
    names = {word.text.lstrip("+~").partition("=")[0] for word in command.arguments if "=" in word.text}
    sections = {name.partition(".")[0] for name in names if "." in name} & _NEMO_RL_SECTIONS
    given = config_word(command, "nemo_rl")
    return "policy" in sections or len(sections) > (given is None) or (given is not None and "configs/" in given.text)


# The programs below examples/ of diffusers (58eb52c), and their flags.
_DIFFUSION_PROGRAM = re.compile(
    r"dreambooth|text_to_image|textual_inversion|controlnet|t2i_adapter|instruct_pix2pix|lcm_distill|custom_diffusion"
)
_DIFFUSION_FLAGS = frozenset(
    ("pretrained_model_name_or_path", "resolution", "instance_data_dir", "instance_prompt", "validation_prompt")
    + ("center_crop", "random_flip", "snr_gamma", "guidance_scale", "placeholder_token")
)


def _makes_images(names: set[str], command: LaunchCommand) -> bool:
    """Whether a program that is not here trains a diffusion model."""
    text = command.program.text if command.program is not None else ""
    return bool(_DIFFUSION_PROGRAM.search(text)) or len(names & _DIFFUSION_FLAGS) >= 2


def _trains(names: set[str], command: LaunchCommand) -> bool:
    """Whether a program of no known format probably trains a language model, by the names of its file and flags."""
    text = command.program.text.lower() if command.program is not None else ""
    named = any(word in text for word in ("train", "sft", "dpo", "grpo", "ppo", "finetun", "fine_tun", "rlvr", "dapo"))
    learns = bool(names & {"learning_rate", "lr", "num_train_epochs", "epochs", "max_steps", "train_iters"}) or any(
        word.text.startswith(("data.train_files=", "actor_rollout_ref.")) for word in command.arguments
    )
    learns = learns or bool(names & {"gradient_accumulation_steps", "per_device_train_batch_size"})
    starts_many = command.launcher in ("torchrun", "accelerate", "deepspeed", "lightning")
    return (learns and (named or starts_many or len(names) >= 8 or not names)) or (
        starts_many and named and len(names) >= 4
    )


def task_of(command: LaunchCommand, program: TrainingProgram) -> tuple[str, str]:
    """(framework, task): "trl", "transformers", "swift" or "openrlhf", and its trainer; "" if only the keys can
    tell."""
    if command.trl_task:
        return "trl", _TRL_WORDS.get(command.trl_task, command.trl_task)
    if command.launcher in ("swift", "megatron") or _swift_module(command) or program.swift_task:
        return "swift", _swift_module(command) or command.task or program.swift_task
    if is_openrlhf(command):
        return "openrlhf", ""
    tasks = {TRL_TASKS[name] for name in program.classes if name in TRL_TASKS}
    if tasks:
        has_other_steps = program.writes_groups and "sft" in tasks  # SFTConfig, for a trainer that writes groups
        return "trl", tasks.pop() if len(tasks) == 1 and not has_other_steps else ""
    if program.classes:
        return "transformers", ""
    task = _TRL_SCRIPTS.get(posixpath.basename(command.program.text).removesuffix(".py"), "") if command.program else ""
    return ("trl", task) if task else ("", "")


_SWIFT_MODULE = re.compile(r"(?:(?:^|/)swift|\))[./]cli[./](sft|pt|rlhf)(?:\.py)?$")
_SWIFT_FLAGS = frozenset({"sft_type", "train_type", "tuner_type"})  # of ms-swift alone (2.6, 3.12, 4.6)


def _swift_module(command: LaunchCommand) -> str:
    """The task of `torchrun -m swift.cli.sft` or `torchrun .../swift/cli/sft.py`; "" for other programs. A script may
    ask Python where it lies: `$(python -c "import swift; ...")/cli/sft.py`."""
    text = command.program.text if command.program is not None else ""
    found = _SWIFT_MODULE.search(text)
    if not text.startswith("$("):
        return found[1] if found else ""
    names = {one.name for one in options(command.arguments)[0]}
    return "" if not names & _SWIFT_FLAGS else found[1] if found else "rlhf" if "rlhf_type" in names else "sft"
