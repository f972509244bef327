"""Which trainer runs, and what its keys mean: stage, reference model, sequence length, packing, generation."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures.position_table import longest_sequence
from memlint.formats.distillation import Distillation, apply_distillation, other_model
from memlint.formats.fields import Fields, as_bool, as_int, as_number, interpolated
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.model import DTYPES
from memlint.formats.training_arguments import Version
from memlint.formats.vision_towers import has_no_images
from memlint.run import GENERATING_STAGES, Origin, Reading, ValueModel

# Keys that only one trainer has -> its stage. Order matters: the first that is given decides.
_STAGE_KEYS = (
    ("mixture_coef", "nash_md"),
    ("judge", "online_dpo"),
    ("lmbda", "gkd"),
    ("seq_kd", "gkd"),
    ("teacher_model_name_or_path", "gkd"),
    ("num_generations", "grpo"),
    ("max_completion_length", "grpo"),
    ("reward_funcs", "grpo"),
    ("reward_model_path", "ppo"),
    ("desirable_weight", "kto"),
    ("undesirable_weight", "kto"),
    ("gamma_beta_ratio", "simpo"),
    ("simpo_gamma", "simpo"),
    ("cpo_alpha", "cpo"),
    ("center_rewards_coefficient", "rm"),
    ("dpo_beta", "dpo"),
    ("precompute_ref_log_probs", "dpo"),
    ("reference_free", "dpo"),
    ("rpo_alpha", "dpo"),
)
_ANSWER_LENGTH = "max_completion_length"
_TASKS = {"sft": "sft", "dpo": "dpo", "pretrain": "pt", "pt": "pt", "rm": "rm", "orpo": "orpo", "kto": "kto"} | {
    name: name for name in ("online_dpo", "xpo", "nash_md")
}
_LOSSES = {"simpo": "simpo", "kto": "kto", "apo_zero_unpaired": "kto", "orpo": "orpo"}
_PREFERENCE_LOSSES = ("sigmoid", "hinge", "ipo", "exo_pair", "robust", "bco_pair", "sppo_hard", "apo_zero", "apo_down")
# Trainers that compare with the model as it was.
ONLINE = ("online_dpo", "xpo", "nash_md")  # write two completions of a prompt, and learn which is better
_WITH_REFERENCE = ("dpo", *ONLINE, "kto", "ppo")
# What a run calls its results; a data set's or a starting model's name says nothing of this run.
_RUN_NAMES = ("output_dir", "hub_model_id", "run_name")
_STAGES_IN_NAMES = frozenset({"dpo", "orpo", "kto", "cpo", "simpo", "grpo", "ppo", "rm"})
_STAGES_WITH_BETA = frozenset({"dpo", "orpo", "kto", "cpo", "simpo"})
_BETA_ALONE = "`beta` is DPO's, ORPO's and CPO's alike: no reference model is counted, which DPO would hold as well"
# Trainers whose steps are another's.
_AS_STAGE = {"rloo": "grpo"}
_WITH_PREFERENCES = ("dpo", "kto", "cpo", "simpo", "orpo")


def stage_of(config: TrainerConfig) -> tuple[str, Origin]:
    """The stage and its origin: from keys that only one stage has, else from the run's names, else `sft`.

    TRL's trainers have a stage each; in a class on transformers' Trainer, its loss may be that of any. Where a program
    was followed to the Trainer itself, options that other branches read say nothing."""
    value, start = config.section.value, config.section.document.start
    task, entry = (start.program.task, start.program.entry) if start is not None else ("", "")
    of_program = Origin("inferred", detail=f"`{entry}` trains that way")
    is_any = start is not None and start.program.framework == "transformers" and task == "sft"
    is_plain = start is not None and start.program.is_plain_trainer
    if task and (is_plain or not is_any):
        return _AS_STAGE.get(task, task), of_program
    for key in ("task_type", "task", "rlhf_type", "loss"):
        word = value.get(key)
        if isinstance(word, str) and word.lower() in _TASKS:
            return _TASKS[word.lower()], config.section.origin(key)
    loss = value.get("loss_type")
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss], config.section.origin("loss_type")
    for key, stage in _STAGE_KEYS:
        if value.get(key) is not None and not (key == _ANSWER_LENGTH and _bounds_pairs(value)):
            return stage, Origin("inferred", detail=f"`{key}` belongs to that trainer")
    if isinstance(loss, str) and loss in _PREFERENCE_LOSSES:
        return "dpo", Origin("inferred", detail=f"`loss_type: {loss}` is one of DPO's")
    if value.get("beta") is not None and not is_any:
        return _named_stage(config)
    if start is not None and start.program.unmodelled and (named := _stage_of_name(entry)):
        return named, Origin("inferred", detail=f"the name of `{entry}` says it")
    return "sft", of_program if task else Origin("inferred", detail="no key of another trainer")


def _stage_of_name(program: str) -> str:
    """The stage in a program's name, `train_dpo.py`; "" where it names none, or several."""
    found = _words(posixpath.basename(program).removesuffix(".py")) & _STAGES_IN_NAMES
    return found.pop() if len(found) == 1 else ""


def _bounds_pairs(value: Mapping[str, Any]) -> bool:
    """Whether `max_completion_length` is that of pairs of answers. DPO, ORPO, CPO and KTO have it beside `max_length`
    and `beta`; GRPO has no `max_length` (trl 0.12.2 trainer/orpo_config.py, 1.16.0 trainer/grpo_config.py)."""
    return value.get("max_length") is not None and value.get("beta") is not None


def generates(config: TrainerConfig) -> bool:
    """Whether the trainer generates completions: its sequences are a prompt and a completion."""
    return config.stage in GENERATING_STAGES


def learns_preferences(config: TrainerConfig) -> bool:
    """Whether the trainer learns from preferred and rejected answers."""
    return config.stage in _WITH_PREFERENCES


def bounds_sequence(config: TrainerConfig) -> bool:
    """Whether a length key bounds the whole sequence."""
    return not generates(config)


def _named_stage(config: TrainerConfig) -> tuple[str, Origin]:
    """DPOConfig, ORPOConfig, KTOConfig and CPOConfig share `beta`: the one stage that the run's names mention."""
    words = {key: _words(config.section.value.get(key)) & _STAGES_WITH_BETA for key in _RUN_NAMES}
    stages = set().union(*words.values())
    if len(stages) != 1:
        return "dpo", Origin("inferred", detail=_BETA_ALONE)
    (stage,) = stages
    key = next(key for key in _RUN_NAMES if words[key])
    return stage, config.section.origin(key, detail=f"`beta`, and `{key}` says {stage}")


def _words(value: object) -> set[str]:
    return set(value.lower().replace("_", "-").replace("/", "-").split("-")) if isinstance(value, str) else set()


def read_reference(fields: Fields, config: TrainerConfig) -> None:
    """A frozen copy for full training, the same weights without adapter for LoRA (trl 1.16 dpo_trainer.py:908)."""
    stage = config.stage
    wants = stage in _WITH_REFERENCE
    beta = as_number(config.section.value.get("beta"))
    if stage == "grpo":  # beta 0.0, the default from trl 0.19 on, means no KL term and no reference model
        wants = bool(beta) or (beta is None and (() < config.trl < (0, 19) or _is_rloo(config)))
    if fields.origins["method.stage"].detail == _BETA_ALONE:
        fields.infer("method.reference_model", "none", _BETA_ALONE)
    elif not wants or as_bool(config.section.value.get("reference_free")):
        fields.infer("method.reference_model", "none", f"{stage} needs none")
    elif as_bool(config.section.value.get("precompute_ref_log_probs")) and not _gives_reference(config):
        fields.put("method.reference_model", "precomputed", config.section.origin("precompute_ref_log_probs"))
    elif fields.get("method.kind") == "lora":
        fields.infer("method.reference_model", "shared", "the adapter is switched off for the reference")
    else:
        fields.infer("method.reference_model", "copy", "a second, frozen model")


def _gives_reference(config: TrainerConfig) -> bool:
    """Whether the script gives its trainer a reference: log-probabilities computed beforehand do not remove that one
    (trl 1.16 trainer/dpo_trainer.py:908-929 and 1033, kto_trainer.py:919-940)."""
    start = config.section.document.start
    return start is not None and start.program.gives_reference


def _is_rloo(config: TrainerConfig) -> bool:
    """RLOO keeps GRPO's older default for `beta`, 0.05 (trl 1.16 trainer/rloo_config.py:502)."""
    start = config.section.document.start
    return start is not None and start.program.task == "rloo"


def read_preference_loss(fields: Fields, config: TrainerConfig) -> None:
    loss, value = config.section.value.get("loss_type"), config.section.value
    alpha = as_number(value.get("cpo_alpha"))
    adds = {"orpo": True, "cpo": alpha != 0, "simpo": alpha != 0}.get(config.stage, value.get("rpo_alpha") is not None)
    if adds:
        fields.infer("loss.likelihood_of_chosen", True, "trl: chosen_nll_loss of ORPO, `cpo_alpha` (1.0), `rpo_alpha`")
    if loss is not None:
        fields.put("loss.preference", loss if isinstance(loss, str) else "", config.section.origin("loss_type"))


PPO_RESPONSE_LENGTH = 53  # trl 0.22 trainer/ppo_config.py, response_length


def read_completion_length(fields: Fields, config: TrainerConfig) -> None:
    """A sequence is a prompt and a completion: of GRPO by default 512 tokens, 256 up to trl 1.9; TRL's PPO calls it
    `response_length`."""
    if config.stage == "online_dpo":
        _read_online_lengths(fields, config)
        return
    if config.stage in ONLINE:
        _read_lengths_beside_reference(fields, config)
        return
    is_ppo = config.stage == "ppo" and "max_completion_length" not in config.section.value
    key = "response_length" if is_ppo else "max_completion_length"
    default = PPO_RESPONSE_LENGTH if is_ppo else 256 if () < config.trl < (1, 10) else 512
    computed = {name for name in ("max_prompt_length", key) if interpolated(config.section.value.get(name))}
    completion = 0 if key in computed else config.args.integer(key) or default
    fields.put("sequence.max_new_tokens", completion, config.args.origin(key))
    if computed:
        fields.unknown("sequence.length", f"the script computes `{min(computed)}`")
        return
    if "sequence.max_prompt_length" not in fields.values and () < config.trl < (0, 26):
        # None by default in grpo_config.py of 0.26, gone by 0.28
        fields.put("sequence.max_prompt_length", 512, config.args.origin("max_prompt_length"))
    prompt = fields.get("sequence.max_prompt_length", None)
    if prompt is None:
        fields.unknown("sequence.length", "prompts are not bounded (`max_prompt_length` is not set)")
    else:
        fields.infer("sequence.length", prompt + completion, "max_prompt_length + max_completion_length")


_ONLINE = "trl 1.16 experimental/online_dpo/online_dpo_trainer.py"
_ONLINE_LENGTHS = {"max_new_tokens": 64, "max_length": 512}


def _read_online_lengths(fields: Fields, config: TrainerConfig) -> None:
    """Online DPO cuts prompts from the left until prompt and completion have `max_length` tokens (`_forward`), and
    takes the log-softmax of the completions' logits alone."""
    new, whole = (_online_length(config, key) for key in _ONLINE_LENGTHS)
    fields.put("sequence.max_new_tokens", new, config.args.origin("max_new_tokens"))
    fields.put("sequence.length", max(whole, new), config.args.origin("max_length"))
    fields.infer("sequence.max_prompt_length", max(1, whole - new), f"{_ONLINE}: _forward cuts prompts")
    fields.infer("loss.scores_completions", True, f"{_ONLINE}: _forward")
    fields.infer("loss.prompt_logits", True, f"{_ONLINE}: _forward")


def _online_length(config: TrainerConfig, key: str) -> int:
    """What the file says, else the default of these trainers: that of another trainer's key of this name differs."""
    return as_int(config.section.value.get(key)) or _ONLINE_LENGTHS[key]


_BESIDE_REFERENCE = "trl 1.13 experimental/{xpo,nash_md}"


def _read_lengths_beside_reference(fields: Fields, config: TrainerConfig) -> None:
    """XPO and Nash-MD cut no prompt: `max_length` is Online DPO's alone, in whose `_forward` it stands. They take the
    logits of all tokens, and log-probabilities of the completions."""
    new = _online_length(config, "max_new_tokens")
    fields.put("sequence.max_new_tokens", new, config.args.origin("max_new_tokens"))
    fields.infer("loss.scores_completions", True, f"{_BESIDE_REFERENCE}: _compute_logprobs")
    fields.infer("loss.prompt_logits", True, f"{_BESIDE_REFERENCE}: _compute_logprobs")
    prompt = fields.get("sequence.max_prompt_length", None)
    if isinstance(prompt, int):
        fields.infer("sequence.length", prompt + new, "a prompt and a completion")
    else:
        fields.unknown("sequence.length", "prompts are not bounded: XPO and Nash-MD never read `max_length`")


def _read_online_models(fields: Fields, config: TrainerConfig) -> None:
    """Online DPO writes both completions of a prompt at once. Gradient checkpointing switches the cache off."""
    size = fields.get("batch.micro_batch_size")
    if isinstance(size, int) and config.stage == "online_dpo":
        fields.infer("rollout.sequences", 2 * size, f"{_ONLINE}: two completions of each prompt")
    fields.infer("serving.uses_cache", fields.get("checkpointing.mode") == "none", f"{_ONLINE}: use_cache")


def read_reward_models(fields: Fields, config: TrainerConfig) -> None:
    """A model that scores completions, beside GRPO's, RLOO's and Online DPO's policy. ZeRO-3 shards it, FSDP leaves it
    whole on each card (trl 1.16 trainer/grpo_trainer.py:1211, `prepare_model(..., device_placement=True)`)."""
    name, key = config.text("reward_model_name_or_path")
    if not name and config.stage in ONLINE:
        name, key = config.text("reward_model_path")
    if not name:
        return
    dtype = _dtype_of_other(config, "reward_model_init_kwargs")
    model = other_model(fields, name, config.context, config.section.document.path, dtype)
    origin = config.section.origin(key)
    fields.put("method.extra_models", (model,), origin)
    fields.put("method.reward_model", "full", origin)
    fields.infer("method.fsdp_shards_extra_models", False, "trl grpo_trainer.py:1211: prepare_model(evaluation_mode)")


def _dtype_of_other(config: TrainerConfig, key: str) -> str:
    """The dtype of a frozen model, as in `other_model`: what it is loaded with, the loader's default in a script that
    says nothing. Programs that read files load it as they load the model that trains (trl 1.16 examples/scripts/gkd.py,
    `teacher_model_init_kwargs`)."""
    given = config.section.value.get(key)
    word = (
        next((given[name] for name in ("dtype", "torch_dtype") if given.get(name)), "")
        if isinstance(given, dict)
        else ""
    )
    if isinstance(word, str) and word.lower() in DTYPES:
        return DTYPES[word.lower()]
    if config.section.document.syntax != "python" or word:
        return "auto" if word == "auto" else ""
    return "auto" if config.transformers >= (5,) else "float32"


_GENERATIONS = 8  # trl 1.16 trainer/grpo_config.py, num_generations


def scores_with_a_model(config: TrainerConfig) -> bool:
    return config.stage in ("grpo", *ONLINE)


def read_generator(fields: Fields, config: TrainerConfig) -> None:
    """Who writes the completions. vLLM beside the trainer by default since trl 1 (grpo_config.py:594), on GPUs of its
    own before; `vllm_gpu_memory_utilization` of the card is its own (0.3 unless said), with `vllm_enable_sleep_mode`
    only while it writes (trl 1.16 generation/vllm_generation.py:751, `self.llm.sleep(level=2)`)."""
    value, origin = config.section.value, config.args.origin
    if as_bool(value.get("use_unsloth")):
        _read_rows_of_unsloth(fields, config)
    _read_forwards_before(fields, config)
    if as_bool(value.get("use_unsloth")) and as_bool(value.get("fast_inference")):
        _read_engine_of_unsloth(fields, config)
        return
    if not as_bool(value.get("use_vllm")):
        fields.put("rollout.generator", "model", origin("use_vllm"))
        _read_sequences(fields, config)
        if config.stage in ONLINE:
            _read_online_models(fields, config)
        return
    colocated = _read_place(fields, config)
    share = as_number(value.get("vllm_gpu_memory_utilization"))
    if colocated:
        unsaid = 0.55 if config.stage == "online_dpo" else 0.3
        share = unsaid if share is None or not 0 < share <= 1 else float(share)
        fields.put("rollout.share", share, origin("vllm_gpu_memory_utilization"))
        sleeps = as_bool(value.get("vllm_enable_sleep_mode"))
        fields.put("rollout.sleep_level", 2 if sleeps else 0, origin("vllm_enable_sleep_mode"))


def _read_rows_of_unsloth(fields: Fields, config: TrainerConfig) -> None:
    """Unsloth raises the micro-batch of GRPO to `num_generations` where a step's completions are no multiple of it
    (unsloth 2026.8 models/rl.py:3478; before 2025.9 wherever the micro-batch is none)."""
    size, steps = fields.get("batch.micro_batch_size"), fields.get("batch.gradient_accumulation_steps")
    world, each = fields.get("parallelism.world_size", 1), config.args.integer("num_generations") or _GENERATIONS
    if config.stage != "grpo" or not isinstance(size, int) or not isinstance(steps, int):
        return
    if size * steps * (world if isinstance(world, int) else 1) % each:
        fields.infer("batch.micro_batch_size", each, "Unsloth makes it a multiple of `num_generations`")


def _read_engine_of_unsloth(fields: Fields, config: TrainerConfig) -> None:
    """Unsloth's vLLM in the trainer's process: a share of what is free, which holds the frozen weights that the model
    trains with, and sequences of the model's `max_seq_length` at most (unsloth_zoo 2026.8 vllm_utils.py, load_vllm).
    In standby the share is a card's own, about 0.7 to 0.9 of it."""
    source, origin = "unsloth_zoo vllm_utils.py, load_vllm", config.section.origin
    share = as_number(config.section.value.get("gpu_memory_utilization"))
    share = 0.5 if share is None or not 0 < share <= 1 else float(share)
    stands_by = as_bool(config.section.value.get("unsloth_vllm_standby"))
    fields.put("rollout.generator", "vllm_colocate", origin("fast_inference"))
    fields.put("rollout.share", _standby_share(config) if stands_by else share, origin("gpu_memory_utilization"))
    fields.put("rollout.sleep_level", 2 if stands_by else 0, origin("unsloth_vllm_standby"))
    fields.infer("rollout.share_of_free", not stands_by, source)
    fields.infer("rollout.shares_weights", True, source)
    longest, length = as_int(config.section.value.get("max_length")), fields.get("sequence.length")
    if longest and config.stage == "grpo" and (not isinstance(length, int) or length > longest):
        fields.put("sequence.length", longest, origin("max_length"))


# Shares of a card in standby by its GiB, of releases since vllm 0.11 (unsloth_zoo 2026.8 vllm_utils.py:2305-2314).
_STANDBY_SHARES = ((40, 0.925), (25, 0.9), (20, 0.825), (14, 0.8), (10, 0.775), (0, 0.75))


def _standby_share(config: TrainerConfig) -> float:
    gpu = config.context.gpu
    size = gpu.usable_bytes / 2**30 if gpu is not None else _STANDBY_SHARES[0][0]
    return 0.95 * next(share for least, share in _STANDBY_SHARES if size >= least)


# Keys that say where a server listens. With vLLM beside the trainer TRL takes no notice of them. `vllm_device` of TRL
# 0.14 and 0.15 names a GPU that does not train (trl 0.15.0 grpo_trainer.py).
_SERVER_KEYS = ("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_device")


def _read_place(fields: Fields, config: TrainerConfig) -> bool:
    """Whether vLLM is beside the trainer. Who says where a server listens and no release has one, as TRL's default was
    before 1.0."""
    mode, key = config.text("vllm_mode")
    before_1 = () < config.trl < (1,)
    server = "" if mode or "trl" in config.stated else config.first(*_SERVER_KEYS)
    colocated = mode == "colocate" if mode else not (before_1 or server)
    origin = config.section.origin(server) if server else config.args.origin(key)
    fields.put("rollout.generator", "vllm_colocate" if colocated else "vllm", origin)
    return colocated


# Releases of trl that compute the reference's log-probabilities before the update (0.15.0 and 0.16.1 grpo_trainer.py,
# _prepare_inputs and _generate_and_score_completions), and those that write the completions of several micro-batches
# at once (0.18.2 grpo_config.py, steps_per_generation).
_REFERENCE_BEFORE = (0, 15)
_SEVERAL_AT_ONCE = (0, 18)


def _read_forwards_before(fields: Fields, config: TrainerConfig) -> None:
    size = fields.get("batch.micro_batch_size")
    if config.stage == "grpo" and isinstance(size, int) and not () < config.trl < _REFERENCE_BEFORE:
        fields.infer("rollout.reference_micro_batch_size", size, "trl grpo_trainer.py: before the update, as it runs")


def _read_sequences(fields: Fields, config: TrainerConfig) -> None:
    """The completions of `steps_per_generation` micro-batches are written at once, by default those of a step."""
    size, world = fields.get("batch.micro_batch_size"), fields.get("parallelism.world_size")
    steps = config.args.integer("steps_per_generation") or fields.get("batch.gradient_accumulation_steps")
    total = config.args.integer("generation_batch_size")
    if config.stage != "grpo" or () < config.trl < _SEVERAL_AT_ONCE:
        return
    if total and isinstance(world, int):
        fields.put("rollout.sequences", max(1, total // world), config.args.origin("generation_batch_size"))
    elif isinstance(size, int) and isinstance(steps, int) and steps > 0:
        fields.infer("rollout.sequences", size * steps, "micro-batch x steps_per_generation (trl grpo_config.py:1100)")


def read_length(fields: Fields, config: TrainerConfig) -> None:
    """The first of the keys that holds a length; the keys of scripts, which were read before, come after TRL's."""
    whole = next(_whole_lengths(config), None)
    if whole is not None:
        key, length = whole
        fields.put("sequence.length", length, config.section.origin(key))
        return
    given = [key for key in config.spellings("max_length") if key in config.section.value]
    if "sequence.length" not in fields.values:
        scripts = [key for key in config.spellings("max_source_length") if key in config.section.value]
        _read_default_length(fields, config, bool(given or scripts))


def _whole_lengths(config: TrainerConfig) -> Iterator[tuple[str, int]]:
    """The keys of TRL that hold the length of a whole sequence."""
    for key in config.spellings("max_length"):
        length = as_int(config.section.value.get(key))
        if length is not None and length > 0:
            yield key, length


def read_two_lengths(fields: Fields, config: TrainerConfig) -> None:
    """`max_source_length` and `max_target_length`: what the encoder reads and the decoder writes (transformers 5.23
    examples/pytorch/summarization/run_summarization.py). A decoder alone reads both in one sequence, unless its trainer
    gets the length of the whole: `DPOConfig(max_length=args.max_source_length + args.max_target_length)`."""
    key, architecture = "max_target_length", config.architecture
    target, source = as_int(config.section.value.get(key)), fields.get("sequence.length")
    origin = config.section.origin(key)
    if key not in config.section.value:
        example = _example(config)
        if example is None or not example.target or architecture is None or not architecture.encoder_decoder:
            return
        target, origin = example.target, example.origin
    has_whole = next(_whole_lengths(config), None) is not None
    if architecture is None or not architecture.encoder_decoder:
        if config.section.document.syntax == "python":
            fields.unknown("sequence.length", "several lengths are tokenized to")
        elif target and isinstance(source, int) and architecture is not None and not has_whole:
            fields.infer("sequence.length", source + target, f"max_source_length + {key}")
        return
    fields.put("sequence.source_length", source, fields.origins["sequence.length"])
    if target:
        fields.put("sequence.length", target, origin)
    else:
        fields.unknown("sequence.length", "how long targets may be is not known")


class _Example(NamedTuple):
    """What one of transformers' examples cuts to where a command does not say: the text, and the target if any."""

    folder: str
    length: int
    target: int = 0

    @property
    def origin(self) -> Origin:
        return Origin("default", detail=f"transformers examples/pytorch/{self.folder}: DataTrainingArguments")


# transformers 4.6.0 to 4.55.0.
_EXAMPLES: Mapping[str, _Example] = {
    "run_glue.py": _Example("text-classification", 128),
    "run_qa.py": _Example("question-answering", 384),
    "run_summarization.py": _Example("summarization", 1024, 128),
    "run_translation.py": _Example("translation", 1024, 128),
}


def _example(config: TrainerConfig) -> _Example | None:
    """The example of transformers that a command starts by its name, where the repository has no such program."""
    start = config.section.document.start
    if start is None or not start.program.is_elsewhere:
        return None
    return _EXAMPLES.get(posixpath.basename(start.program.entry))


_TABLE = "nothing is cut, and the table of positions has no more"


class _DefaultLength(NamedTuple):
    """What TRL's trainers of one stage cut to from a release on: where nothing is said, and where null is. None: they
    cut nothing."""

    since: Version
    unsaid: int | None
    null: int | None


# trl 0.8.6 to 1.16.0, trainer/<stage>_trainer.py and <stage>_config.py (trl/experimental/ for some today).
_SINCE_0_14 = _DefaultLength((0, 14), 1024, None)
_PAIRS = (_DefaultLength((0,), 512, 512), _DefaultLength((0, 14), 1024, 512))
_DEFAULT_LENGTHS: Mapping[str, tuple[_DefaultLength, ...]] = {
    "sft": (_DefaultLength((0,), 1024, 1024), _DefaultLength((0, 15), 1024, None)),
    "dpo": (_DefaultLength((0,), 512, 512), _DefaultLength((0, 12), None, None), _SINCE_0_14),
    "rm": (_DefaultLength((0,), 512, 512), _SINCE_0_14),
    "kto": (*_PAIRS, _DefaultLength((1, 4), 1024, None)),
    **dict.fromkeys(("orpo", "cpo", "simpo"), _PAIRS),
}


def _read_default_length(fields: Fields, config: TrainerConfig, is_null: bool) -> None:
    """What TRL's trainer of this release cuts to; `is_null`: the length is said to be null. Scripts differ."""
    source, target = (as_int(config.section.value.get(key)) for key in ("source_max_len", "target_max_len"))
    if source and target:
        fields.infer("sequence.length", source + target, "source_max_len + target_max_len")
        return
    lengths = _DEFAULT_LENGTHS.get(config.stage, (_DefaultLength((0,), 1024, None),))
    default = next(one for one in reversed(lengths) if config.trl >= one.since) if config.trl else None
    length = None if default is None else default.null if is_null else default.unsaid
    if length is not None:
        fields.put("sequence.length", length, Origin("default", detail=f"{config.args.source} max_length"))
    elif not is_null and (example := _example(config)):
        fields.put("sequence.length", example.length, example.origin)
    elif longest := longest_sequence(config.architecture):
        fields.infer("sequence.length", longest, _TABLE)
    elif is_null:
        fields.unknown("sequence.length", "the length is set to null: nothing is cut")
    else:
        reason = "no length is said: nothing is cut" if config.trl else "the script decides: no length key"
        fields.unknown("sequence.length", reason)


def read_unbounded_length(fields: Fields, config: TrainerConfig) -> Iterator[Reading]:
    """Where a script cuts nothing, its data alone say how long sequences are; the table of positions is the bound."""
    start, origin = config.section.document.start, fields.origins.get("sequence.length")
    if start is None or not start.program.cuts_nothing or origin is None or origin.detail != _TABLE:
        return
    given = (("sequence.length", fields.get("sequence.length")),)
    reason, label, itself = "the script says no length", "with sequences of one token", "with the longest possible"
    yield Reading(reason, label, itself, (("sequence.length", 1),), given, only_where_over=True)


_PPO = "trl 0.22 trainer/ppo_trainer.py"
_MOST_ROWS = 64  # local_rollout_forward_batch_size: sequences in one forward between updates


def reinforces_with_values(config: TrainerConfig) -> bool:
    return config.stage == "ppo"


def read_value_model(fields: Fields, config: TrainerConfig) -> None:
    """TRL's PPO: a value model that trains in the policy's own step, and a frozen reward model, both made from
    `reward_model_path` (trl 0.22 trainer/ppo_trainer.py, PolicyAndValueWrapper; examples/scripts/ppo/ppo.py). The
    trainer's own loop never switches gradient checkpointing on. ms-swift adapts both models, TRL the policy alone."""
    name, key = config.text("reward_model_path")
    if not name:
        reason = "the value model is not named (`reward_model_path`)"
        fields.infer("stack.unmodelled", reason, _PPO)
        fields.infer("stack.unmodelled_adds", True, _PPO)
        return
    origin, path = config.section.origin(key), config.section.document.path
    model = other_model(fields, name, config.context, path)
    size, steps = fields.get("batch.micro_batch_size"), fields.get("batch.gradient_accumulation_steps")
    start = config.section.document.start
    adapts = start is not None and start.program.framework == "swift" and fields.get("method.kind") == "lora"
    value = ValueModel(model, size, checkpointed=False, trains_adapter=adapts, in_one_step=True)
    fields.put("method.value_model", value, origin)
    fields.put("method.extra_models", (model,), origin)
    fields.put("method.reward_model", "full", origin)
    fields.infer("checkpointing.mode", "none", f"{_PPO}: a loop of its own, which never switches it on")
    fields.infer("loss.prompt_logits", True, _PPO)
    fields.infer("loss.keeps_logits", True, _PPO)
    fields.infer("rollout.generator", "model", _PPO)
    fields.infer("rollout.keeps_scores", True, f"{_PPO}: batch_generation")
    if isinstance(size, int) and isinstance(steps, int):
        rows = min(size * steps, config.args.integer("local_rollout_forward_batch_size") or _MOST_ROWS)
        fields.infer("rollout.sequences", size * steps, f"{_PPO}: local_batch_size")
        for field in ("log_prob_micro_batch_size", "reference_micro_batch_size"):
            fields.infer(f"rollout.{field}", rows, f"{_PPO}: local_rollout_forward_batch_size")


# Without the cache each new token is a forward over all that is written so far (experimental/gkd/gkd_trainer.py,
# `use_cache: False if args.gradient_checkpointing`).
# Keys of DistillationConfig (trl 1.16 trainer/distillation_config.py) and GOLDConfig, which take teachers as well.
_OTHER_DISTILLATION = ("max_completion_length", "use_uld_loss", "use_extended_uld", "teacher_tokenizer_name_or_path")
# GKD compares the words behind the prompts before this release, as long as any of a batch is, and all from it on
# (trl 1.6.0 and 1.7.1 experimental/gkd/gkd_trainer.py, compute_loss).
_COMPARES_ALL = (1, 7)
_GKD = "trl experimental/gkd/gkd_config.py"


def distils(config: TrainerConfig) -> bool:
    return config.stage == "gkd"


def read_distillation(fields: Fields, config: TrainerConfig) -> None:
    """TRL's GKD: a teacher, the share `lmbda` of steps whose completions the student writes (0.5), and how long these
    are (128)."""
    name, key = config.text("teacher_model_name_or_path")
    other = config.first(*_OTHER_DISTILLATION)
    if other:
        fields.infer("stack.unmodelled", "a teacher beside another loss than GKD's", f"`{other}`")
        fields.infer("stack.unmodelled_adds", True, f"`{other}`")
        return
    declared = config.context.repository.field_annotations
    if declared("teacher_model_name_or_path") and not declared("teacher_model_name_or_path", "trl"):
        reason = "an argument class of the repository declares `teacher_model_name_or_path`"
        fields.infer("stack.unmodelled", "distillation of the program's own", reason)
        fields.infer("stack.unmodelled_adds", True, reason)
        return
    if not name:
        fields.infer("stack.unmodelled", "a teacher that nobody names, and its logits", "`teacher_model_name_or_path`")
        fields.infer("stack.unmodelled_adds", True, "`teacher_model_name_or_path`")
        return
    value = config.section.value
    beta, share = (as_number(value.get(key)) for key in ("beta", "lmbda"))
    writes = share is None or share > 0 or as_bool(value.get("seq_kd"))
    new_tokens = (as_int(value.get("max_new_tokens")) or 128) if writes else 0
    found = Distillation(name, config.section.origin(key), 0.5 if beta is None else float(beta), new_tokens=new_tokens)
    found = found._replace(dtype=_dtype_of_other(config, "teacher_model_init_kwargs"))
    apply_distillation(fields, found, config.context, config.section.document.path)
    fields.infer("method.fsdp_shards_extra_models", False, "trl gkd_trainer.py:194: prepare_model(evaluation_mode)")
    fields.infer("loss.prompt_logits", True, "trl gkd_trainer.py: the models compute all logits")
    length = fields.get("sequence.max_prompt_length", None)
    if writes and isinstance(length, int) and () < config.trl < _COMPARES_ALL:
        always = as_bool(value.get("seq_kd")) or (share is not None and share >= 1)
        compared = new_tokens if always else max(length, new_tokens)
        fields.infer("loss.compared_tokens", compared, f"{config.args.source}: logits[:, prompt_lengths - 1 : -1]")
    if writes:
        fields.infer("rollout.generator", "model", f"{_GKD}: lmbda")
        cached = fields.get("checkpointing.mode") == "none"
        fields.infer("serving.uses_cache", cached, "trl gkd_trainer.py: no cache under gradient checkpointing")


def read_packing_strategy(fields: Fields, config: TrainerConfig) -> None:
    """trl packs best-fit (`bfd`, which needs and switches on padding-free batches) or wraps."""
    if not fields.get("sequence.packing"):
        return
    fields.put("sequence.length_is_bound", False, config.args.origin("packing"))
    has_no_images(fields, config.args.origin("packing"))  # refused with images (trl 1.16 trainer/sft_trainer.py:779)
    strategy, _ = config.text("packing_strategy")
    if config.trl >= (0, 18) and strategy in ("", "bfd", "bfd_split", "bfd-requeue"):
        fields.infer("sequence.neat_packing", True, "trl's `bfd` packing keeps the samples apart")
