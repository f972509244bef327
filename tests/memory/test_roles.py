"""Every projection of families whose modules have names of their own is found."""

from __future__ import annotations

import pytest

from memlint.architectures import resolve
from memlint.memory.estimate import estimate
from tests.memory.runs import LORA, run

REMOTE = (
    "Qwen/Qwen-7B",
    "THUDM/chatglm3-6b",
    "THUDM/glm-4-9b-chat",
    "baichuan-inc/Baichuan2-7B-Chat",
    "baichuan-inc/Baichuan2-13B-Chat",
    "internlm/internlm2-chat-7b",
)


@pytest.mark.parametrize("name", REMOTE)
@pytest.mark.parametrize("method", [{}, LORA], ids=["full", "lora"])
def test_a_model_with_modules_of_its_own_has_a_figure(name: str, method: dict[str, object]) -> None:
    found = estimate(run(model__architecture=resolve(name).architecture, **method))
    assert found.allocated_bytes, found.unknown
