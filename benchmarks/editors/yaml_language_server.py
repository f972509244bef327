"""The schemas in yaml-language-server: what it says of each example, of a broken value, and over a key.

    npm install --prefix FOLDER yaml-language-server
    python benchmarks/editors/yaml_language_server.py FOLDER

Exits 1 where the server refuses an example, takes the broken value, or shows no description. It needs Node.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

ROOT = Path(__file__).parents[2]
# schema: (example, what is broken in it, by what, a key whose description is shown)
CASES = {
    "llamafactory": (
        "llamafactory/llama3_8b_full_sft.yaml",
        "bf16: true",
        "bf16: maybe",
        "per_device_train_batch_size",
    ),
    "axolotl": ("axolotl/llama3_8b_qlora.yaml", "sequence_len: ", "sequence_len: long # ", "micro_batch_size"),
    "trainer": (
        *("trainer/sft_lora_qwen2_5_7b.yaml", "per_device_train_batch_size: ", "per_device_train_batch_size: [] # "),
        "per_device_train_batch_size",
    ),
    "accelerate": ("trainer/accelerate_fsdp.yaml", "num_processes: ", "num_processes: many # ", "mixed_precision"),
}


async def said(client: LanguageClient, uri: str) -> list[str]:
    """The diagnostics of a document, once they came."""
    await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 60)
    await asyncio.sleep(1)
    return [one.message for one in client.diagnostics.get(uri, ())]


async def over(client: LanguageClient, uri: str, text: str, key: str) -> str:
    """What the server shows over a key."""
    line = text[: text.index(key)].count("\n")
    params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 2))
    found = await client.text_document_hover_async(params)
    return found.contents.value if found is not None and isinstance(found.contents, types.MarkupContent) else ""


async def case(server: Path, schema: str) -> bool:
    """Whether the server understands one schema."""
    example, old, new, key = CASES[schema]
    text = (ROOT / "examples" / example).read_text("utf-8")
    assert old in text
    client = make_test_lsp_client()
    client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
    settings = {"schemas": {(ROOT / "schemas" / f"{schema}.json").as_uri(): "*.yaml"}, "schemaStore": {"enable": False}}
    client.set_configuration({"yaml": {"validate": True, "hover": True, **settings}})
    await client.start_io("node", str(server), "--stdio")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).as_uri()
        capabilities = client_capabilities("visual-studio-code")
        await client.initialize_session(types.InitializeParams(capabilities, root_uri=root))
        client.workspace_did_change_configuration(types.DidChangeConfigurationParams({}))
        found = []
        for name, written in (("good.yaml", text), ("bad.yaml", text.replace(old, new))):
            item = types.TextDocumentItem(f"{root}/{name}", "yaml", 1, written)
            client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            found.append(await said(client, item.uri))
        shown = await over(client, f"{root}/good.yaml", text, key)
        await client.shutdown_session()
        await client.stop()
    about = max((line for line in shown.split("\n") if not line.startswith(("#", "Source:"))), key=len, default="")
    holds = not found[0] and bool(found[1]) and len(about) > 20
    print(f"{schema}: {'ok' if holds else 'FAILS'}\n  example: {found[0] or 'no findings'}")
    print(f"  {new.partition(' #')[0]}: {found[1]}\n  over {key}: {about}")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where npm installed yaml-language-server")
    server = parser.parse_args().folder / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
    results = [asyncio.run(case(server, schema)) for schema in CASES]  # every case, also behind one that fails
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
