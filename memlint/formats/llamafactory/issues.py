"""Issues of a LLaMA-Factory file: those of its schema, with the severity that follows from what LLaMA-Factory does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from memlint.formats.base import Context, Issue
from memlint.formats.fields import as_bool
from memlint.formats.issues import KEY_NAME_CODES
from memlint.formats.llamafactory.config import V0_ARGUMENTS, LlamaFactoryConfig, has_copy, is_relative
from memlint.formats.llamafactory.recognise import is_v1
from memlint.formats.llamafactory.releases import takes_attention_as_flag, with_libraries, with_release_of_program
from memlint.formats.llamafactory.templates import template_issues
from memlint.formats.own_reader import own_reader_note
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.training_arguments.nulls import ENDS_THE_RUN, ends_the_run
from memlint.source.document import Document

_SEVERAL = 3
_REFUSED = ": LLaMA-Factory refuses the file"
_NO_FORK = "it is not for a fork"
# Arguments of LLaMA-Factory that are compared, split or looked up before or in the first step: null ends the run there
# (0.9.5 hparams/{model,data,finetuning}_args.py, parser.py:159-189, data/data_utils.py, train/tuner.py).
_NEVER_NULL = ENDS_THE_RUN | frozenset(
    ("stage", "finetuning_type", "flash_attn", "cutoff_len", "val_size", "dataset_dir", "lora_rank", "lora_dropout")
    + ("lora_target", "image_max_pixels", "image_min_pixels", "video_max_pixels", "video_min_pixels")
)
_NEWER = "llamafactory after 0.9.5"  # as the schema calls what only the main branch has
_NEWEST = (0, 9, 5)


# The words of refusals by rule, one or several: what a fork took out of its copy, it does not refuse. 0.8.3 and 0.9.5
# hparams/{model,data,finetuning}_args.py and parser.py; the words that both have, where both have the check.
_REFUSALS: Mapping[str, tuple[str, ...]] = {
    "LLF009": ("Adapter is only valid for the LoRA method",),
    "LLF010": ("Quantization is only compatible with the",),
    "LLF011": ("to initialize PiSSA for a quantized model",),
    "LLF012": ("Cannot resize embedding layers of a quantized model",),
    "LLF013": ("Cannot create new adapter upon a quantized model",),
    "LLF014": ("Quantized model only accepts a single adapter",),
    "LLF015": ("`reward_model` is necessary",),
    "LLF016": ("`reward_model_type` cannot be lora",),
    "LLF017": ("`dpo_label_smoothing` is only valid",),
    "LLF018": ("`use_llama_pro` is only valid",),
    "LLF019": ("Cannot use LoRA with GaLore",),
    "LLF020": ("Cannot use GaLore",),
    "LLF021": ("Cannot use PiSSA",),
    "LLF022": ("`use_rslora` is only valid", "`use_dora` is only valid", "`pissa_init` is only valid"),
    "LLF023": ("`loraplus_lr_ratio` is only valid",),
    "LLF024": ("Cannot specify `val_size` if `dataset`",),
    "LLF025": ("Cannot specify `val_size` if `eval_dataset`",),
    "LLF026": ("`max_samples` is incompatible with `streaming`",),
    "LLF027": ("`mask_history` is incompatible with `train_on_prompt`",),
    "LLF028": ("`image_max_pixels` cannot be smaller",),
    "LLF030": ("cannot be set as True except SFT",),
    "LLF031": ("do not support `load_best_model_at_end`",),
    "LLF032": ("PPO training is incompatible with S^2-Attn",),
    "LLF036": ("Please specify dataset for training",),
    "LLF037": ("Please specify dataset for evaluation", "make sure eval_dataset be provided"),
    "LLF038": ("`predict_with_generate` is incompatible with DeepSpeed",),
    "LLF039": ("Cannot use `predict_with_generate` and `compute_accuracy`",),
    "LLF040": ("Cannot use device map for quantized models",),
    "LLF041": ("incompatible with DeepSpeed ZeRO-3", "PiSSA in DeepSpeed ZeRO-3"),
    "LLF042": ("does not support layer-wise",),
    "LLF043": ("BAdam does not yet support distributed training", "Layer-wise BAdam only supports DeepSpeed ZeRO-3"),
    "LLF044": ("incompatible with DeepSpeed yet",),
    "LLF046": ("FP8 training is not compatible with quantization",),
    "LLF047": ("backend is only available for API, CLI and Web",),
}


# The release that first refuses what a rule says, of those from 0.7.1 to 0.9.5 (hparams/*.py): not the first of all.
_REFUSED_SINCE: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("LLF011", "LLF021"), (0, 8, 2)),
    **dict.fromkeys(("LLF022", "LLF024", "LLF025", "LLF036", "LLF037", "LLF039", "LLF043"), (0, 8, 3)),
    **dict.fromkeys(("LLF027", "LLF038"), (0, 9)),
    "LLF028": (0, 9, 3),
    "LLF046": (0, 9, 4),
}
_FREEZES = "freeze_language_model"
_OF_LLAMAFACTORY = ("CFG", "LLF")


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether `rule` says nothing of this document: another project's program reads it, a release that does not refuse
    it yet, or a copy of LLaMA-Factory in the repository that does not, or may train a part of its own (PEF027)."""
    if rule.startswith("LLF") and is_relative(document, context):
        return True
    release = with_release_of_program(document, context).versions.get("llamafactory", ())
    if () < release < _REFUSED_SINCE.get(rule, ()):
        return True
    if rule == "PEF027" and _FREEZES in document.value and has_copy(context):
        return True
    refusals = context.repository.own_refusals() if rule in _REFUSALS else frozenset()
    return bool(refusals) and not any(words in refusal for words in _REFUSALS[rule] for refusal in refusals)


def copy_of(rule: str, context: Context) -> str:
    """A copy of LLaMA-Factory says which keys it takes and what its arguments refuse; its other checks are not read."""
    is_asked = rule in ("CFG001", *_REFUSALS)
    return "LLaMA-Factory" if rule.startswith(_OF_LLAMAFACTORY) and not is_asked and has_copy(context) else ""


def fork_of(document: Document, context: Context) -> str:
    """What a file with several keys that are no slips of LLaMA-Factory's is probably for: a fork, whose arguments and
    models nobody knows where it is not in the repository; "" elsewhere."""
    if not isinstance(document.value, dict) or is_v1(document.value) or has_copy(context):
        return ""
    known = compiled_schema("llamafactory.json#v0").schema["properties"]
    unknown = (key for key in document.value if isinstance(key, str) and key not in known)
    return "LLaMA-Factory" if sum(not nearest(key, known) for key in unknown) >= _SEVERAL else ""


def unjudged(document: Document, context: Context) -> Issue | None:
    """The note on a file that a script of the repository reads instead of LLaMA-Factory."""
    version = "v1" if isinstance(document.value, dict) and is_v1(document.value) else "v0"
    return own_reader_note(document, context, "llamafactory", f"llamafactory.json#{version}", has_copy)


def v0_issues(view: LlamaFactoryConfig, document: Document) -> tuple[Issue, ...]:
    """Schema violations of a file with v0 keys; an interpolation is none, but nothing can be said about its value. None
    of a command whose program has arguments of its own."""
    if is_relative(document, view.context):
        return ()
    versions = with_libraries(view.context.versions)
    found = schema_issues(view.section.value, document.path, "llamafactory.json#v0", versions)
    placeholders = sorted(view.unresolved) if document.start is None else ()  # a shell fills its variables in
    unresolved = (_interpolation(view, key, document.value[key]) for key in placeholders)
    kept = tuple(
        _of_a_copy(view, _with_severity(view, issue))
        for issue in found
        if not _is_declared(view, issue)
        and not _is_another_methods(view, issue)
        and not _is_a_flag(view, issue)
        and not (view.splits_sequences and _is_a_forks(view, issue))
    )
    return (*_foreign_keys(view, kept), *_newer_keys(view), *unresolved, *template_issues(view))


def _newer_keys(view: LlamaFactoryConfig) -> tuple[Issue, ...]:
    """Keys that no release has yet: those up to 0.9.5 refuse the file. Where nobody states one, it may be for a clone
    of the main branch. Several are one fact."""
    release = view.context.versions.get("llamafactory", ())
    newer = [key for key in view.section.value if key in _keys_of_main_branch()]
    if not newer or release > _NEWEST or has_copy(view.context):
        return ()
    names = ", ".join(f"`{key}`" for key in newer)
    message = f"{names} came after llamafactory 0.9.5: releases up to that one refuse the file"
    severity = "error" if release else "info"
    return (view.section.issue("unknown-key", message, newer[0], severity=severity, on_key=True),)


@cache
def _keys_of_main_branch() -> frozenset[str]:
    known = compiled_schema("llamafactory.json#v0").schema["properties"]
    return frozenset(key for key, schema in known.items() if schema.get("x-memlint-since", "") == _NEWER)


def _foreign_keys(view: LlamaFactoryConfig, issues: tuple[Issue, ...]) -> tuple[Issue, ...]:
    """The issues, with keys that are no slip of one of LLaMA-Factory's under a condition: a fork declares arguments of
    its own, and one that is not in this repository cannot be asked. Several of them are one fact."""
    foreign = [issue for issue in issues if issue.code == "unknown-key" and issue.message.count("`") == 2]
    if not foreign or has_copy(view.context):
        return issues
    if len(foreign) < _SEVERAL:
        said = {issue: _unless_of_a_fork(issue, issue.message + _REFUSED) for issue in foreign}
        return tuple(said.get(issue, issue) for issue in issues)
    names = [f"`{issue.pointer[-1]}`" for issue in foreign]
    more = f" and {len(names) - _SEVERAL} more" if len(names) > _SEVERAL else ""
    message = f"unknown keys {', '.join(names[:_SEVERAL])}{more}{_REFUSED}"
    rest = tuple(issue for issue in issues if issue not in foreign)
    return (_unless_of_a_fork(foreign[0], message), *rest)


def _unless_of_a_fork(issue: Issue, message: str) -> Issue:
    return issue._replace(severity="warning", message=message, where=_NO_FORK)


def _is_declared(view: LlamaFactoryConfig, issue: Issue) -> bool:
    """Whether a copy of LLaMA-Factory in the repository takes it: forks declare arguments and stages of their own."""
    key = issue.pointer[0] if len(issue.pointer) == 1 else ""
    if not isinstance(key, str) or issue.code not in (*KEY_NAME_CODES, "bad-value"):
        return False
    said = view.context.repository.field_annotations
    declared = _of_its_arguments(view.context, key)
    declared = declared or (said(key) if said("finetuning_type") else "")  # a fork may rename the folder
    if issue.code in KEY_NAME_CODES:
        return bool(declared) or (has_copy(view.context) and key in view.context.repository.taken_arguments())
    value = view.section.value.get(key)
    return isinstance(value, str) and f'"{value}"' in declared.replace("'", '"')


def _of_its_arguments(context: Context, key: str) -> str:
    """The annotation of `key` in the argument classes of a copy of LLaMA-Factory, which have none of transformers'
    keys; "" where there is none."""
    return next(filter(None, (context.repository.field_annotations(key, below) for below in V0_ARGUMENTS)), "")


def _is_a_forks(view: LlamaFactoryConfig, issue: Issue) -> bool:
    """Whether 360-LLaMA-Factory takes it (src/llamafactory/hparams at 3a0de53f1): it declares how GPUs share a
    sequence, and one more loss."""
    if issue.pointer == ("pref_loss",):
        return bool(view.section.value["pref_loss"] == "nca_pair")
    return issue.pointer in (("sequence_parallel_size",), ("sequence_parallel_mode",))


def _is_another_methods(view: LlamaFactoryConfig, issue: Issue) -> bool:
    """Whether it is about a number of LoRA's that full and freeze training never look at: nothing checks it on its own
    (0.9.5 hparams/finetuning_args.py:568 doubles it for `lora_alpha`, model/adapter.py:235 reads it for LoRA)."""
    adapters = view.section.value.get("finetuning_type", "lora")
    return issue.pointer == ("lora_rank",) and issue.code == "bad-value" and adapters in ("full", "freeze")


def _is_a_flag(view: LlamaFactoryConfig, issue: Issue) -> bool:
    """Whether it is about an argument that now takes a word and was a truth value in the release in use."""
    is_attention = issue.pointer == ("flash_attn",) and as_bool(view.section.value["flash_attn"]) is not None
    return is_attention and takes_attention_as_flag(view.section.document, view.context)


def _with_severity(view: LlamaFactoryConfig, issue: Issue) -> Issue:
    """parse_dict converts and checks nothing (transformers 5.23 hf_argparser.py:358): what is only asked for truth, or
    compared with one name, lets the run start."""
    key = issue.pointer[0] if len(issue.pointer) == 1 else ""
    if issue.code not in ("bad-value", "wrong-type") or not isinstance(key, str):
        return issue
    value = view.section.value.get(key)
    if value is None and key in view.section.value:
        is_refused = key in _NEVER_NULL and (key not in ENDS_THE_RUN or ends_the_run(key, view.section.value))
        return issue if is_refused else _null(key, issue)
    if not isinstance(value, str):
        return issue
    properties = compiled_schema("llamafactory.json#v0").schema["properties"]
    if properties.get(key, {}).get("$ref") == "#/$defs/flag":
        return issue._replace(severity="warning", message=f"{issue.message}; any text but the empty one counts as true")
    if key == "rope_scaling" and _positions_suffice(view):
        words = "it is looked up only where `cutoff_len` is beyond the model's positions"
        return issue._replace(severity="warning", message=f"{issue.message}; {words}")
    if key == "export_device":
        message = f"`export_device: {value}` is neither `cpu` nor `auto`, and anything but `cpu` counts as `auto`"
        return issue._replace(severity="warning", message=message, suggestion="auto")
    return issue


def _of_a_copy(view: LlamaFactoryConfig, issue: Issue) -> Issue:
    """A value that releases refuse is an info where the repository's own copy of LLaMA-Factory declares the key: that
    copy reads the file, and its code may take what no release takes."""
    key = issue.pointer[0] if len(issue.pointer) == 1 else ""
    is_refused = issue.severity == "error" and issue.code in ("bad-value", "wrong-type")
    if not is_refused or not isinstance(key, str) or not _of_its_arguments(view.context, key):
        return issue
    message = f"{issue.message}; the copy of LLaMA-Factory in this repository may take it"
    return issue._replace(severity="info", message=message)


def _positions_suffice(view: LlamaFactoryConfig) -> bool:
    """Whether training leaves the positions as they are (0.9.5 model/model_utils/rope.py:51, configure_rope)."""
    architecture, length = view.architecture, view.own.integer("cutoff_len")
    return architecture is not None and length is not None and length <= architecture.max_positions


def _null(key: str, issue: Issue) -> Issue:
    message = (
        f"`{key}` is null, which no parser refuses: it counts as None, not as the default; leave the key out for that"
    )
    return issue._replace(severity="info", message=message)


def _interpolation(view: LlamaFactoryConfig, key: str, value: str) -> Issue:
    if "${" in value:
        message = (
            f"`{key}: {value[:60]}` is not resolved: LLaMA-Factory calls OmegaConf.to_container without "
            "`resolve=True` (hparams/parser.py:120), the text arrives as it stands"
        )
    else:
        message = f"`{key}: {value[:60]}` looks like a template's variable; its value is not known here"
    return view.section.issue("interpolation", message, key, severity="warning")


_V1_ARGUMENTS = "llamafactory/v1/config"


def v1_issues(view: LlamaFactoryConfig, document: Document) -> tuple[Issue, ...]:
    """Schema violations of a file of the v1 layout."""
    found = schema_issues(view.section.value, document.path, "llamafactory.json#v1", view.context.versions)
    judged = (_v1_issue(issue, view.context) for issue in found)
    return tuple(issue for issue in judged if issue is not None)


def _v1_issue(issue: Issue, context: Context) -> Issue | None:
    """v1 is no release of its own and its keys still move: the schema is that of the newest commit. A copy of
    LLaMA-Factory in the repository says what it takes; without one release 0.9.5 may be in use, which reads `template`
    and hands a plug-in's mapping on as it is (v0.9.5 v1/config/arg_utils.py)."""
    key = issue.pointer[0] if issue.pointer else ""
    if isinstance(key, str) and context.repository.field_annotations("model", _V1_ARGUMENTS):
        theirs = bool(context.repository.field_annotations(key, _V1_ARGUMENTS))
        return None if theirs and (issue.code == "unknown-key" or key.endswith("_config")) else issue
    if issue.pointer == ("template",):
        message = "`template` is gone after llamafactory 0.9.5: the model's own chat template is used"
        return issue._replace(code="removed-key", message=message, severity="info")
    return issue._replace(severity="warning") if issue.severity == "error" else issue
