"""What programs do to their models that no flag tells."""

from __future__ import annotations

import ast
import textwrap

from memlint.repository.scripts.definitions import Definition
from memlint.repository.scripts.model_changes import ModelChange, changes, happening
from memlint.source.shell.text import Piece, Word

MODELS = ("ForCausalLM", "AutoModel")


def changes_of(text: str, *flags: str) -> tuple[ModelChange, ...]:
    tree = ast.parse(textwrap.dedent(text))
    return changes([("/repo/train.py", tree)], {"OwnForCausalLM": None}, MODELS, dict.fromkeys(flags))


def test_a_class_of_the_repository_and_a_classifier_are_told_with_their_lines() -> None:
    text = """
    model = OwnForCausalLM.from_pretrained(name)
    judge = AutoModelForSequenceClassification.from_pretrained(name)
    """
    assert [one.what for one in changes_of(text)] == [
        "train.py:2 loads `OwnForCausalLM`, a class of the repository",
        "train.py:3 loads `AutoModelForSequenceClassification`, a classifier",
    ]


def test_a_class_that_a_package_brings_under_no_name_is_of_the_repository() -> None:
    """LLaVA-NeXT llava/model/__init__.py imports its classes by `exec`."""
    loads = "LlavaMistralForCausalLM.from_pretrained(name)"
    (found,) = changes_of(f"from llava.model import *\n{loads}")
    assert found.what == "train.py:2 loads `LlavaMistralForCausalLM`, a class of the repository"
    assert changes_of(f"from transformers import *\n{loads}") == ()
    assert changes_of(f"from llava.model import *\ntransformers.{loads}") == ()
    assert changes_of(f"from llava.model import *\nfrom other import LlavaMistralForCausalLM\n{loads}") == ()


def test_a_trainer_that_a_package_has_besides_changes_nothing() -> None:
    program = ast.parse("from own import Supervised\nSupervised()")
    others = ast.parse("class Reward:\n  def load(self): AutoModelForSequenceClassification.from_pretrained('x')")
    trees = [("/repo/train.py", program), ("/repo/own/reward.py", others)]
    assert changes(trees, {}, MODELS, {}) == ()
    named = ast.parse("from own import Reward\nReward()")
    assert len(changes([("/repo/train.py", named), *trees[1:]], {}, MODELS, {})) == 1


REWARDS = """
for i, reward in enumerate(rewards):
    if isinstance(reward, str):
        rewards[i] = AutoModelForSequenceClassification.from_pretrained(reward)
"""


def test_a_reward_that_is_a_function_loads_no_classifier() -> None:
    assert changes_of(REWARDS, "reward_funcs") == ()


def test_a_program_that_takes_a_reward_models_name_may_load_one() -> None:
    assert len(changes_of(REWARDS, "reward_model_path")) == 1


FREEZES = """
if model_args.freeze_backbone:
    model.requires_grad_(False)
"""


def happens(words: str, **default: object) -> bool:
    flags = {"freeze_backbone": Definition("freeze_backbone", **default)}  # type: ignore[arg-type]
    arguments = [Word((Piece(one),)) for one in words.split()]
    return bool(happening(changes_of(FREEZES), flags, arguments))


def test_freezing_under_a_flag_happens_where_the_flag_is_on() -> None:
    assert changes_of(FREEZES)[0].switch == "freeze_backbone"
    assert changes_of(FREEZES)[0].freezes
    assert not happens("", default=False)
    assert not happens("", is_switch=True)
    assert happens("--freeze_backbone", is_switch=True)
    assert happens("--freeze_backbone True", default=False)
    assert not happens("--freeze_backbone False", default=True)
    assert happens("")  # its default is computed


def test_a_reference_models_parameters_are_frozen_anyway() -> None:
    assert changes_of("ref_model.requires_grad_(False)") == ()
    assert changes_of("for p in model.lm_head.parameters():\n    p.requires_grad = False")[0].freezes


def test_a_class_on_a_language_model_of_transformers_adds_to_it() -> None:
    tree = ast.parse("class OwnForCausalLM(LlamaForCausalLM):\n    pass\nOwnForCausalLM.from_pretrained(name)\n")
    (found,) = changes([("/repo/train.py", tree)], {"OwnForCausalLM": (tree.body[0], None)}, MODELS, {})
    assert found.extends
    alone = ast.parse("class OwnForCausalLM(Base):\n    pass\n")
    (found,) = changes([("/repo/train.py", tree)], {"OwnForCausalLM": (alone.body[0], None)}, MODELS, {})
    assert not found.extends
