"""What a script does to its model that no key says, and what that leaves of the model state.

`unmodelled_features` answers for one trainer: ("loads `MyModel`, a class of the repository", "all") where the figure
counts weights, gradients and optimizer states rightly and the rest is not known; ("", "") where keys say everything.
The words complete "the script ...", as `StartedProgram.unmodelled` has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.formats.trainer.python.embeddings import OF_EMBEDDINGS, other_than_texts
from memlint.formats.trainer.python.libraries import CONVERTED
from memlint.formats.trainer.python.model import Keys, class_of, is_unbound, origin_of, origins_of
from memlint.formats.trainer.python.other_models import handed_over, reinforces, unmodelled_others
from memlint.formats.trainer.python.python_run import TRANSFORMERS
from memlint.formats.trainer.python.trainer_call import model_of
from memlint.source.python.methods import LIBRARY_CLASSES, OWN_CLASS
from memlint.source.python.values import Known, Made, Value, alternatives, source_of

_OTHER_MODELS = ("ref_model", "reference_model", "teacher_model", "teacher", "reward_model", "draft_model", "critic")


def unmodelled_features(trainer: Made, model: Value | None, calls: list[Made], arguments: Keys) -> tuple[str, str]:
    """What the script does that no key says, and what that leaves of the model state (`StartedProgram.model_state`)."""
    added = _given_beside_model(trainer) or _loaded_beside_policy(trainer, calls) or divides_sequences(calls)
    if added:
        return added, "all"
    if trainer.last in OF_EMBEDDINGS:
        return other_than_texts(trainer), "headless"
    other = _unknown_model_class(trainer, model) if model is not None else ""
    if other or model is None:
        return other, "headless" if other.endswith(_CLASSIFIER) else "all" if extends_language_model(model) else ""
    converted, state = _converted(model)
    if converted:
        return converted, state
    other = _patched_layers(model) or _other_experts(model)
    if other:
        return other, "all"
    return ("", "headless") if _gives_scores(trainer, model) else (_labels(arguments, model), "")


def _loaded_beside_policy(trainer: Made, calls: list[Made]) -> str:
    """A model that was loaded before, beside the one that learns from rewards, and that no key counts; "" without
    one."""
    others = unmodelled_others(trainer)
    if others or not reinforces(trainer):
        return others
    model = model_of(trainer)
    origins = [origin_of(one) for one in alternatives(model)] if model is not None else []
    own = [source_of(one) for one in origins if one is not None] + handed_over(trainer, model)
    for made in calls[: calls.index(trainer)]:
        is_model = made.last == "from_pretrained" and re.search(r"For[A-Z]\w+\.from_pretrained$", made.name)
        if is_model and made.source not in own:
            return f"loads `{made.name.removesuffix('.from_pretrained').rpartition('.')[2]}` beside its policy"
    return ""


# Libraries that divide each sequence over GPUs: ring attention, DeepSpeed's Ulysses, torch's context parallelism.
_DIVIDE_SEQUENCES = (
    *("ring_flash_attn.", "ring_attention_pytorch.", "yunchang.", "deepspeed.sequence."),
    *("deepspeed.runtime.sequence_parallel.", "torch.distributed.tensor.experimental."),
)


def divides_sequences(calls: list[Made]) -> str:
    """The library with which a script divides its sequences over GPUs; "" without one."""
    found = next((made.name for made in calls if made.name.startswith(_DIVIDE_SEQUENCES)), "")
    return f"divides its sequences over GPUs (`{found}`)" if found else ""


_CLASSIFIER = ", a classifier"
# Scores of a text, of each of its tokens, of where an answer begins and ends: no logits of words.
_SCORING = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_SEVERAL_TEXTS = "ForMultipleChoice"  # a sample is as many texts as it has choices


def _unknown_model_class(trainer: Made, model: Value) -> str:
    """A class of model whose memory is not known: one of the repository, a classifier of several texts or under a
    condition; "" for others."""
    found = (_own_class(trainer, one) for one in origins_of(model))
    return "" if _gives_scores(trainer, model) else next(filter(None, found), "")


def _gives_scores(trainer: Made, model: Value) -> bool:
    """Whether transformers' Trainer gets a classifier, or TRL's PRMTrainer one of tokens."""
    if trainer.last not in TRANSFORMERS and trainer.last != "PRMTrainer":
        return False
    return all(isinstance(one, Made) and _is_scoring(one) for one in origins_of(model))


def _is_scoring(loaded: Made) -> bool:
    return not isinstance(loaded.attributes.get(OWN_CLASS), Known) and class_of(loaded).endswith(_SCORING)


def extends_language_model(model: Value | None) -> bool:
    """Whether a class of the repository stands on a language model of transformers, to which it adds."""
    found = [origin_of(one) for one in alternatives(model)] if model is not None else []
    bases = [one.attributes.get(LIBRARY_CLASSES) for one in found if isinstance(one, Made)]
    return bool(bases) and all(isinstance(one, Known) and "ForCausalLM" in str(one.value) for one in bases)


def _labels(arguments: Keys, model: Value) -> str:
    """Arguments of the script's own that count labels, where nobody sees what model gets them; "" for others."""
    is_seen = isinstance(model, (Known, Made))
    return "" if is_seen or "num_labels" not in arguments else "trains a classifier (`num_labels`)"


def _own_class(trainer: Made, loaded: Value) -> str:
    if not isinstance(loaded, Made):
        return ""
    own = loaded.attributes.get(OWN_CLASS)
    if isinstance(own, Known):
        return f"loads `{own.value}`, a class of the repository"
    if is_unbound(loaded):
        return f"loads `{loaded.name.partition('.')[0]}`, a class that nothing imports by its name"
    name = class_of(loaded)
    is_head = name.endswith((*_SCORING, _SEVERAL_TEXTS)) and trainer.last in TRANSFORMERS
    return f"loads `{name}`{_CLASSIFIER}" if is_head else ""


# Arguments of Unsloth's that change what layers keep: torchao's fake-quantized linear layers, which keep more (2026.8
# models/llama.py), and MLPs that run over slices of the sequence (2026.10.9 models/loader.py:1270).
_ARGUMENTS_OF_UNSLOTH = {
    "qat_scheme": "trains with fake-quantized weights (`qat_scheme`)",
    "unsloth_tiled_mlp": "runs MLPs in tiles (`unsloth_tiled_mlp`)",
}


def _patched_layers(model: Value) -> str:
    """`get_peft_model(..., qat_scheme="int4")`, `from_pretrained(..., unsloth_tiled_mlp=True)`; "" without one."""
    made = [*_built_upon(model), origin_of(model)]
    given = [one.arguments for one in made if isinstance(one, Made)]
    for name, words in _ARGUMENTS_OF_UNSLOTH.items():
        values = [arguments[name] for arguments in given if name in arguments]
        if any(not (isinstance(value, Known) and value.value in (None, False)) for value in values):
            return words
    return ""


def _built_upon(model: Value) -> Iterator[Made]:
    """The value, what it is a method's result of, and so on."""
    current: Value | None = model
    while isinstance(current, Made):
        yield current
        current = current.base


def _converted(model: Value) -> tuple[str, str]:
    """What replaces the linear layers, and what that leaves of the model state: torchao's fp8 layers keep their
    weights, of a configuration nobody knows."""
    for current in _built_upon(model):
        by = current.attributes.get(CONVERTED)
        if isinstance(by, Known):
            return f"converts its linear layers (`{by.value}`)", "all" if by.value != "quantize_" else ""
    return "", ""


def _other_experts(model: Value) -> str:
    """`from_pretrained(..., experts_implementation=...)`: other code for stacked experts than `grouped_mm`, of which
    figures are (transformers 5.23 integrations/moe.py); "" without one."""
    loaded = origin_of(model)
    name = loaded.arguments.get("experts_implementation") if isinstance(loaded, Made) else None
    known = name.value if isinstance(name, Known) else None
    return f"runs experts by `{known}`" if isinstance(known, str) and known != "grouped_mm" else ""


def _given_beside_model(trainer: Made) -> str:
    """A model that a trainer of the script's own gets beside the one that it trains; "" without one."""
    if trainer.last not in TRANSFORMERS:
        return ""
    given = {name: trainer.arguments[name] for name in _OTHER_MODELS if name in trainer.arguments}
    other = next((name for name, value in given.items() if not (isinstance(value, Known) and value.value is None)), "")
    return f"gives its trainer a second model, `{other}`" if other else ""
