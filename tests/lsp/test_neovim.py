"""Neovim without a display, with the configuration from docs/editors.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.lsp.test_handlers import FULL
from tests.programs import needed

ROOT = Path(__file__).parents[2]
# Waits for the server, asks what a person would ask, and writes what Neovim has.
ASK = """
local done, found = {}, {}
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 20)
found.diagnostics = vim.tbl_map(function(one) return one.code .. ': ' .. one.message end, vim.diagnostic.get(0))
local params = {textDocument = vim.lsp.util.make_text_document_params()}
local function ask(method, more)
  local answers = vim.lsp.buf_request_sync(0, method, vim.tbl_extend('keep', params, more or {}), 60000) or {}
  for _, answer in pairs(answers) do return answer.result end
end
local lens = ask('textDocument/codeLens')
found.lens = lens[1].command.title
local line = vim.fn.search('per_device_train_batch_size') - 1
found.hover = ask('textDocument/hover', {position = {line = line, character = 3}}).contents.value
vim.api.nvim_buf_set_lines(0, line, line + 1, false, {'per_device_train_batch_size: 1'})
vim.wait(60000, function() return ask('textDocument/codeLens')[1].command.title ~= found.lens end, 50)
found.after = ask('textDocument/codeLens')[1].command.title
vim.fn.writefile({vim.fn.json_encode(found)}, OUTPUT)
vim.cmd('qall!')
"""


def test_the_configuration_of_the_page(tmp_path: Path) -> None:
    neovim = needed("nvim")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "memlint"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memlint "$@"\n')
    command.chmod(0o755)
    (tmp_path / "train.yaml").write_text(FULL.replace("# memlint:", "# "))
    (tmp_path / "init.lua").write_text(f"{_of_the_page()}\n")
    (tmp_path / "ask.lua").write_text(f"local OUTPUT = {json.dumps(str(tmp_path / 'found.json'))}\n{ASK}")
    folders = {name: str(tmp_path / name) for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    subprocess.run(
        [neovim, "--headless", "-u", "init.lua", "train.yaml", "-c", "luafile ask.lua"],
        cwd=tmp_path,
        env={**os.environ, **folders, "PATH": path, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=True,
        capture_output=True,
    )

    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert any(one.startswith("OPT001: ") for one in found["diagnostics"])
    assert re.fullmatch(r"[\d.]+ GiB \(.*\) on 8 x A100-80GB: .+", found["lens"])
    assert "| GiB | 2 (now) | 1 | 4 |" in found["hover"]
    assert found["after"] != found["lens"]


def _of_the_page() -> str:
    """The block for the release of Neovim that is installed: those before 0.11 have another way."""
    printed = subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v(\d+)\.(\d+)", printed)
    assert version is not None
    blocks = re.findall(r"```lua\n(.*?)```", (ROOT / "docs" / "editors.md").read_text("utf-8"), re.DOTALL)
    return str(blocks[0] if (int(version[1]), int(version[2])) >= (0, 11) else blocks[1])
