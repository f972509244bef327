"""The server for agents, asked by the SDK's own client over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

import memlint
from memlint.agents.roots import confined
from tests.commands.history import LLAMA
from tests.commands.running import write

ROOT = Path(__file__).parents[2]
CARD = {"gpu": "A100-80GB", "gpus": 1}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, {"root/train.yaml": LLAMA, "root/more/train.yaml": LLAMA, "secret.yaml": LLAMA})
    (tmp_path / "root/link.yaml").symlink_to(tmp_path / "secret.yaml")
    (tmp_path / "root/out").symlink_to(tmp_path)
    return tmp_path / "root"


def asked(root: Path, ask: Callable[[ClientSession], Coroutine[Any, Any, Any]], **environ: str) -> Any:
    async def main() -> Any:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "memlint", "mcp", "--root", str(root)], env=environment
        )
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            return await ask(session)

    return asyncio.run(main())


def content(result: Any) -> Any:
    assert not result.is_error, result.content
    return json.loads(result.content[0].text)


def test_a_client_asks_every_tool(root: Path) -> None:
    async def ask(session: ClientSession) -> Any:
        tools = (await session.list_tools()).tools
        calls = {
            "estimate": {"path": "train.yaml", **CARD},
            "check": {"path": ".", **CARD, "fixes": False},
            "plan": {"text": LLAMA, **CARD},
            "explain": {"rule": "MEM001"},
        }
        return tools, {name: await session.call_tool(name, words) for name, words in calls.items()}

    tools, answers = asked(root, ask)

    assert {tool.name for tool in tools} == {"estimate", "check", "plan", "explain"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    alone = memlint.estimate(LLAMA, path="train.yaml", **CARD)
    assert content(answers["estimate"])["runs"][0]["peak"] == alone.to_dict()["peak"]
    assert {file["path"] for file in content(answers["check"])["files"]} == {"train.yaml", "more/train.yaml"}
    assert content(answers["plan"])["runs"][0]["max_micro_batch"]
    assert content(answers["explain"])["name"] == "memory/over-the-card"
    assert sorted(path.name for path in root.iterdir()) == ["link.yaml", "more", "out", "train.yaml"]


def test_paths_outside_of_the_root_are_refused(root: Path) -> None:
    paths = ("../secret.yaml", str(root.parent / "secret.yaml"), "link.yaml", "out/secret.yaml", "nowhere.yaml", "a\0b")

    async def ask(session: ClientSession) -> Any:
        refused = [await session.call_tool("estimate", {"path": path, **CARD}) for path in paths]
        refused.append(await session.call_tool("check", {"path": "out"}))
        refused.append(await session.call_tool("estimate", {}))
        refused.append(await session.call_tool("estimate", {"text": LLAMA, "name": "../train.yaml"}))
        refused.append(await session.call_tool("estimate", {"text": LLAMA, "gpu": "none such"}))
        return refused, await session.call_tool("estimate", {"path": "train.yaml", **CARD})

    refused, answered = asked(root, ask)

    assert [each.is_error for each in refused] == [True] * len(refused)
    assert "8030261248" not in str(refused)
    assert content(answered)["runs"], "the server goes on"


def test_a_companion_outside_of_the_root_is_not_read(root: Path) -> None:
    write(root.parent, {"ds.json": json.dumps({"zero_optimization": {"stage": 3}})})
    write(root, {"sharded.yaml": f"{LLAMA}deepspeed: ../ds.json\n"})

    async def ask(session: ClientSession) -> Any:
        return await session.call_tool("estimate", {"path": "sharded.yaml", "gpu": "A100-80GB", "gpus": 8})

    beside_it = content(asked(root, ask))
    (root.parent / "ds.json").unlink()

    assert beside_it == content(asked(root, ask)), "as if the file were not there"


def test_a_model_outside_of_the_root_is_not_read(root: Path) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 1536, "num_attention_heads": 12}
    config |= {"num_key_value_heads": 12, "vocab_size": 777, "intermediate_size": 4096}
    own = json.dumps(config)
    cache = "home/hub/models--who--secret"
    write(root.parent, {"model/config.json": own, f"{cache}/snapshots/1/config.json": own, f"{cache}/refs/main": "1"})
    write(root, {"own/config.json": own})
    (root / "linked").symlink_to(root.parent / "model")
    (root / "half").mkdir()
    (root / "half/config.json").symlink_to(root.parent / "model/config.json")
    outside = ("../model", str(root.parent / "model"), str(root / "linked"), "linked", "half", "who/secret")

    def text(name: str) -> str:
        return LLAMA.replace("meta-llama/Meta-Llama-3-8B", name)

    for number, name in enumerate(outside):
        write(root, {f"train{number}.yaml": text(name)})
    write(root, {"own.yaml": text("own")})

    async def ask(session: ClientSession) -> Any:
        calls = [{"text": text(name)} for name in outside]
        calls += [{"path": f"train{number}.yaml"} for number in range(len(outside))]
        told = [await session.call_tool("estimate", {**words, **CARD}) for words in calls]
        return told, await session.call_tool("estimate", {"path": "own.yaml", **CARD})

    told, read = asked(root, ask, HF_HOME=str(root.parent / "home"))

    assert content(read)["runs"][0]["model"]["parameters"], "a model below the root is read"
    assert [content(one)["runs"][0]["model"]["parameters"] for one in told] == [None] * len(told)


@pytest.mark.parametrize("path", ["..", "../secret.yaml", "out", "link.yaml", "/etc/passwd", "more/../../secret.yaml"])
def test_confined_refuses_what_lies_outside(path: str, root: Path) -> None:
    with pytest.raises(memlint.Error, match="outside of"):
        confined(path, os.path.realpath(root))


def test_confined_takes_what_lies_below(root: Path) -> None:
    real = os.path.realpath(root)

    assert confined("more/../train.yaml", real) == "train.yaml"
    assert confined(str(Path(real) / "more"), real) == "more"
    assert confined(".", real) == "."
