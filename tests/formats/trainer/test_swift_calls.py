"""ms-swift's Python functions start runs under its own keys."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Run

CALL = """from swift.llm import {names}

{before}
if __name__ == "__main__":
    {call}
"""


def run_of(call: str, names: str, before: str = "") -> Run:
    workspace = in_memory({"train.py": CALL.format(call=call, names=names, before=before)})
    (document,) = workspace.documents("train.py")
    (run,) = Engine(()).analyse(document, workspace.context()).runs
    assert run.stack.framework == "swift"
    return run


@pytest.mark.parametrize(
    ("call", "names", "before"),
    [
        (
            "sft_main(TrainArguments(model='Qwen/Qwen2-7B-Instruct', max_length=4096, lora_rank=16))",
            *("sft_main, TrainArguments", ""),
        ),
        (
            "sft_main(args)",
            "sft_main, SftArguments, ModelType",
            "args = SftArguments(model_type=ModelType.qwen2_7b_instruct, max_length=4096, lora_rank=16)",
        ),
        (
            "sft_main(['--model', 'Qwen/Qwen2-7B-Instruct', '--max_length', '4096', '--lora_rank=16'])",
            *("sft_main", ""),
        ),
    ],
)
def test_arguments_and_flags_are_ms_swifts(call: str, names: str, before: str) -> None:
    run = run_of(call, names, before)
    assert (run.sequence.length, run.method.kind, run.method.rank) == (4096, "lora", 16)
    assert run.model.architecture.family == "qwen2"


@pytest.mark.parametrize(("name", "more", "stage"), [("pt_main", "", "pt"), ("rlhf_main", ", rlhf_type='kto'", "kto")])
def test_the_function_names_the_task(name: str, more: str, stage: str) -> None:
    run = run_of(f"{name}(RLHFArguments(model='Qwen/Qwen2-7B-Instruct'{more}))", f"{name}, RLHFArguments")
    assert run.method.stage == stage


def test_a_function_of_that_name_elsewhere_is_none() -> None:
    text = "from training.sft import main as sft_main\n\nsft_main(dict(model='Qwen/Qwen2-7B-Instruct'))\n"
    assert in_memory({"train.py": text}).documents("train.py") == ()
