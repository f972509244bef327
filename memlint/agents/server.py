"""The tools that agents see. Each takes a path below the root or a config's text, and returns what the API returns."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

import memlint.api.calls as api
from memlint.agents.roots import MAX_TEXT, confined
from memlint.api.sources import CallFacts, GivenFiles, request
from memlint.errors import Error
from memlint.fixes.goals import GOALS
from memlint.lint.plans import PlanRequest
from memlint.repository.files.discovery import FoundFile, discover
from memlint.repository.workspace import in_memory, on_disk
from memlint.ruleset.shipped import shipped

INSTRUCTIONS = (
    "memlint reads LLM training configs (LLaMA-Factory, Axolotl, DeepSpeed, Hugging Face Trainer/TRL, launch scripts) "
    "and computes the GPU memory of each run without a GPU. Give a path below the root, or a config's text. Name the "
    "card (gpu='A100-80GB') and the number of GPUs (gpus=8), which configs do not say."
)
READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def _with_tool_errors(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`tool`, with its errors converted to those that the client shows."""

    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return tool(*args, **kwargs)
        except Error as error:
            raise ToolError(str(error)) from None

    return call


class Tools:
    """The tools, for one root. Nothing outside of it is read: no companion, no settings, no repository around it, no
    model's folder, no cache of downloaded models."""

    def __init__(self, root: str) -> None:
        self._root = root

    def estimate(self, path: str = "", text: str = "", gpu: str = "", gpus: int = 0, name: str = "") -> dict[str, Any]:
        """The GPU memory of each run in a config: phases by components, peak, interval, verdict. Bytes.

        path: a file below the root. text: a config's text instead; name: the file name that it goes by.
        gpu: the card (A100-80GB, H100, RTX4090, 24GiB). gpus: how many over all nodes.
        """
        files = self._files(path, text, name)
        found = api.estimates_of(request(_facts(gpu, gpus), files), files)
        return {"runs": [each.to_dict() for each in found], "table": "\n\n".join(map(str, found))}

    def check(
        self, path: str = "", text: str = "", gpu: str = "", gpus: int = 0, name: str = "", fixes: bool = True
    ) -> dict[str, Any]:
        """Findings about a config or a folder of them: what runs out of memory, what fails, with fixes that were tried.

        Parameters as for estimate. fixes: look for ways out, which takes longer.
        """
        files = self._files(path, text, name)
        return api.check_of(request(_facts(gpu, gpus), files, fixes), files).to_dict()

    def plan(
        self, path: str = "", text: str = "", gpu: str = "", gpus: int = 0, name: str = "", goal: str = ""
    ) -> dict[str, Any]:
        """Changes that make a run fit, its largest batch and longest sequence. goal: batch, length, cards or speed."""
        if goal and goal not in GOALS:
            raise Error(f"goal {goal!r}: one of {', '.join(GOALS)}")
        files = self._files(path, text, name)
        return api.plan_of(request(_facts(gpu, gpus), files), files, PlanRequest(goal)).to_dict()

    def explain(self, rule: str) -> dict[str, Any]:
        """What a rule finds and why, by its id (MEM001) or name (memory/over-the-card)."""
        for one in shipped():
            if rule.strip() in (one.id, one.name):
                texts = one.texts()
                return {"id": one.id, "name": one.name, "title": texts.title, "why": texts.why, "when": texts.when}
        raise Error(f"no rule is called {rule!r}")

    def _files(self, path: str, text: str, name: str) -> GivenFiles:
        if bool(path) == bool(text):
            raise Error("give either a path or a text")
        if text:
            return self._text(text, name or "config.yaml")
        below = confined(path, self._root)
        workspace = on_disk(self._root, self._root, models_within=self._root)
        if os.path.isfile(os.path.join(self._root, below)):
            return GivenFiles((FoundFile(below, named=True),), workspace)
        found = (item for item in discover((os.path.join(self._root, below),)) if not item.note and not item.error)
        return GivenFiles(tuple(FoundFile(os.path.relpath(item.path, self._root)) for item in found), workspace)

    def _text(self, text: str, name: str) -> GivenFiles:
        if len(text) > MAX_TEXT:
            raise Error(f"a text of more than {MAX_TEXT} characters is no config")
        if os.path.isabs(name) or ".." in name.split("/"):
            raise Error(f"{name}: a text's name is a file name")
        return GivenFiles((FoundFile(name, named=True),), in_memory({name: text}, models_within=self._root))


def _facts(gpu: str, gpus: int) -> CallFacts:
    return CallFacts(gpu or None, gpus or None, isolated=True)


def server(root: str) -> MCPServer:
    """The server for one root (an absolute real path)."""
    made = MCPServer("memlint", instructions=INSTRUCTIONS)
    tools = Tools(root)
    for tool in (tools.estimate, tools.check, tools.plan, tools.explain):
        made.tool(annotations=READ_ONLY)(_with_tool_errors(tool))
    return made


def serve(root: str) -> None:
    """Serves until the client leaves."""
    os.chdir(root)
    server(root).run("stdio")
