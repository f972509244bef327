"""Whether the samples of a script are texts alone, so that the vision tower of its model gets no image.

    SFTTrainer(model, args, train_dataset=data, processing_class=AutoTokenizer.from_pretrained(name))

A tokenizer makes no pixels: TRL refuses a data set with images beside one (1.16.0 trainer/sft_trainer.py:764), and the
collators of texts hand on tokens. A script that makes a processor anywhere may feed images, so nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memlint.formats.trainer.python.python_run import TRANSFORMERS, TRL
from memlint.formats.trainer.python.trainer_call import argument_values, arguments_of
from memlint.source.python.values import External, Known, Made, Value

_HANDLES_IMAGES = re.compile(r"Processor\b|VisionDataCollator|ForVisionLanguageModeling|FastVisionModel")
_COLLATORS_OF_TEXTS = frozenset(
    {
        *("DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq", "DataCollatorForCompletionOnlyLM"),
        *("DataCollatorWithPadding", "DataCollatorWithFlattening"),
    }
)
_TOKENIZER = re.compile(r"Tokenizer(?:Fast)?\.from_pretrained$")
# Of Unsloth, whose tokenizer is a processor where the model has a tower (`_model_and_tokenizer` in libraries.py).
_MAY_BE_PROCESSOR = re.compile(r"\.from_pretrained\.tokenizer$")


def takes_texts_alone(trainer: Made, calls: Iterable[Made]) -> bool:
    """Whether no sample of `trainer` has an image. `calls`: all calls of libraries that the script makes."""
    if trainer.last not in TRL | TRANSFORMERS or any(_HANDLES_IMAGES.search(made.name) for made in calls):
        return False
    collator = trainer.arguments.get("data_collator")
    if collator is not None and not _is_of_texts(collator):
        return False
    tokenizer = trainer.arguments.get("processing_class") or trainer.arguments.get("tokenizer")
    if not isinstance(tokenizer, Made):
        return False
    if _TOKENIZER.search(tokenizer.name):
        return True
    return _MAY_BE_PROCESSOR.search(tokenizer.name) is not None and _names_texts(trainer)


def _is_of_texts(collator: Value) -> bool:
    return isinstance(collator, (Made, External)) and collator.last in _COLLATORS_OF_TEXTS


def _names_texts(trainer: Made) -> bool:
    """Whether the trainer is told which column holds its texts."""
    named = {**trainer.arguments, **argument_values(arguments_of(trainer))}.get("dataset_text_field")
    return isinstance(named, Known) and bool(named.value)
