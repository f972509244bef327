"""Which Python programs may start others."""

from __future__ import annotations

import pytest

from memlint.repository.starters import may_start_commands


@pytest.mark.parametrize(
    ("path", "text", "may"),
    [
        ("launch.py", "import subprocess\n", True),
        ("launch.py", "os.system('torchrun train.py')\n", True),
        ("jobs.py", "script = '#!/bin/bash'\n", True),
        ("train.py", "Trainer(model).train()\n", False),
        ("tests/test_launch.py", "import subprocess\n", False),
    ],
)
def test_only_programs_that_name_a_starter_are_followed(path: str, text: str, may: bool) -> None:
    assert may_start_commands(path, text) is may
