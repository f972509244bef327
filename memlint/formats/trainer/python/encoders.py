"""Models of transformers that read texts without writing any, where a loop of the script's own trains them: BERT with
a head that scores, or below a head that the script writes itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memlint._record import NamedTuple
from memlint.formats.trainer.python.model import class_of, origin_of
from memlint.source.python.members import OBJECT
from memlint.source.python.methods import OWN_CLASS, held_model
from memlint.source.python.values import Instance, Known, Made, Value

# transformers 5.23: classes by the ends of their names, and bodies without a head. Those that read images or sound are
# none of them.
_SCORING = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_WITH_HEAD = (*_SCORING, "ForMultipleChoice", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction")
_BODY = re.compile(
    r"^(?:Auto|Bert|Roberta|XLMRoberta|Camembert|DistilBert|Deberta(?:V2)?|Electra|Albert|MPNet|ModernBert|Longformer"
    r"|XLNet|Ernie|NomicBert|GPT2|Llama|Mistral|Qwen2|Qwen3|Gemma2?|T5Encoder)Model$"
)
_WITHOUT_GRADIENTS = re.compile(r"\bno_grad\b|\binference_mode\b|\.detach\(\)")


class Head(NamedTuple):
    """What stands upon an encoder: why its figure is not known, "" for a head of transformers that scores; and whether
    the script's own code may keep the encoder from training."""

    unmodelled: str = ""
    may_freeze: bool = False


def is_encoder(loaded: Value) -> bool:
    """Whether this loads a model that reads texts: `BertModel.from_pretrained(...)`."""
    if not isinstance(loaded, Made) or loaded.last not in ("from_pretrained", "from_config"):
        return False
    name = class_of(loaded)
    return name.endswith(_WITH_HEAD) or _BODY.match(name) is not None


def head_of(loaded: Made, seen: Iterable[Made]) -> Head:
    """The head of an encoder that a loop trains."""
    name = class_of(loaded)
    around = next((one for one in map(_object, seen) if one is not None and _holds(one, loaded)), None)
    if around is not None:
        return Head(
            f"trains `{name}` in a module of its own", _WITHOUT_GRADIENTS.search(around.of.module.text) is not None
        )
    is_own = isinstance(loaded.attributes.get(OWN_CLASS), Known)
    return Head("" if name.endswith(_SCORING) and not is_own else f"trains `{name}` with a head of its own")


def _object(made: Made) -> Instance | None:
    found = made.attributes.get(OBJECT)
    return found if isinstance(found, Instance) else None


def _holds(module: Instance, loaded: Made) -> bool:
    held = held_model(module)
    return held is not None and origin_of(held) is loaded


def with_held_model(model: Made) -> Made:
    """`get_peft_model(module, config)` of a module of the repository as that of the model that the module holds."""
    named = {name: _held(value) for name, value in model.arguments.items()}
    positional = tuple(map(_held, model.positional))
    if all(
        one is other
        for one, other in zip((*named.values(), *positional), (*model.arguments.values(), *model.positional))
    ):
        return model
    found = Made(model.name, positional, named, model.source, model.base, model.is_open)
    found.attributes.update(model.attributes)
    return found


def _held(value: Value) -> Value:
    return (held_model(value) or value) if isinstance(value, Instance) else value
