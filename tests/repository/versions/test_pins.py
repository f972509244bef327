"""Versions that a repository pins."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.cli import main
from memlint.repository.versions.pins import pinned, pins
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.ruleset.shipped import shipped


def found(name: str, content: str) -> dict[str, tuple[tuple[int, ...], int]]:
    files = {f"/r/{name}": content}
    return {
        key: (pin.version, pin.origin.line)
        for key, pin in pins("/r/configs/a", "/r", partial(pinned, text=files.get)).items()
    }


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("transformers==4.48.1", (4, 48, 1)),
        ("transformers == 4.48.1  # pinned", (4, 48, 1)),
        ("transformers[torch]>=4.40,<4.46; python_version > '3.8'", (4, 45)),
        ("transformers<5", (4, 57)),
        ("transformers<5.0.0", (4, 57)),
        ("transformers<=4.57.1,!=4.52.0", (4, 57, 1)),
        ("transformers~=4.48.0", (4, 48)),
        ("transformers~=4.48", (4, 57)),
        ("Transformers===4.48", (4, 48)),
        ("transformers>=4.40", ()),
        ("transformers", ()),
        ("transformers @ git+https://example.org/x", ()),
        ("transformers @ git+https://github.com/huggingface/transformers.git@v4.48.1", (4, 48, 1)),
        ("git+https://github.com/huggingface/transformers@v4.49.0-Gemma-3", (4, 49, 0)),
        ("git+https://github.com/huggingface/transformers.git@main", ()),
        ("# git+https://github.com/huggingface/transformers@v4.49.0", ()),
        ("# transformers==4.48", ()),
        ("sentence-transformers==3.0", ()),
        ("transformers-stream-generator==0.0.4", ()),
    ],
)
def test_a_line_of_requirements_pins_a_release(line: str, version: tuple[int, ...]) -> None:
    assert found("requirements.txt", f"pyyaml\n{line}\n") == ({"transformers": (version, 2)} if version else {})


@pytest.mark.parametrize("end", ["", ".git"])
def test_a_commit_is_a_release_that_is_not_known(end: str) -> None:
    line = f"transformers @ git+https://github.com/huggingface/transformers{end}@4824e2b7af4f86c0f9a1"
    assert found("requirements.txt", line) == {"transformers": ((), 1)}


def test_torch_with_a_local_version_and_llamafactory_by_both_names() -> None:
    assert found("requirements.txt", "torch==2.6.0+cu124\nllama-factory==0.9.2") == {
        "torch": ((2, 6, 0), 1),
        "llamafactory": ((0, 9, 2), 2),
    }


@pytest.mark.parametrize(
    "line",
    [
        "llmtuner",
        "-e git+https://github.com/own/LLaMA-Factory.git@9c0fee1153aba592cde6bf891de59ae428ad3b4d#egg=llmtuner",
    ],
)
def test_what_llamafactory_was_called_before_0_8(line: str) -> None:
    assert found("requirements.txt", line) == {"llamafactory": ((0, 7, 1), 1)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", '[project]\ndependencies = [\n  "numpy", "trl==0.15.2",\n]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.10"\ntrl = "0.15.2"\n'),
        ("setup.py", "import x\nsetup(\n    install_requires=['numpy', 'trl==0.15.2'],\n)\n"),
        ("environment.yml", "name: x\ndependencies:\n  - trl=0.15.2\n"),
        ("env.yml", "name: x\ndependencies:\n  - trl=0.15.2=pyhd8ed1ab_0\n"),
        ("uv.lock", '[[package]]\nname = "trl"\nversion = "0.15.2"\n'),
    ],
)
def test_the_places_that_pin(name: str, content: str) -> None:
    assert found(name, content) == {"trl": ((0, 15, 2), 3)}


@pytest.mark.parametrize(
    "name", ["docker/requirements-train.txt", "requirements_training.txt", "requirements/train.txt"]
)
def test_what_an_image_installs_for_training(name: str) -> None:
    assert found(name, "transformers==4.51.3\n") == {"transformers": ((4, 51, 3), 1)}
    assert found(name.replace("train", "serve"), "transformers==4.51.3\n") == {}


@pytest.mark.parametrize("name", ["requirements_llava.txt", "requirements/framework.txt"])
def test_requirements_of_other_names(name: str) -> None:
    workspace = in_memory({name: "transformers==4.40.2\n", "configs/train.yaml": "a: 1"})
    assert workspace.pins("configs/train.yaml")["transformers"].version == (4, 40, 2)
    serving = in_memory({"requirements-serve.txt": "transformers==4.40.2\n", "configs/train.yaml": "a: 1"})
    assert serving.pins("configs/train.yaml") == {}


def test_the_newest_of_several_environments_counts() -> None:
    files = {"requirements_old.txt": "transformers==4.40.2", "requirements_qwen3.txt": "transformers==5.3.0"}
    pins_of = in_memory({**files, "a.yaml": ""}).pins("a.yaml")
    assert pins_of["transformers"].version == (5, 3, 0)
    open_one = in_memory({**files, "requirements.txt": "transformers\n", "a.yaml": ""}).pins("a.yaml")
    assert "transformers" not in open_one


def test_extras_of_a_package_are_another_environment() -> None:
    text = '[project]\ndependencies = ["peft==0.12"]\n[project.optional-dependencies]\ntest = ["trl==0.15.2"]\n'
    assert found("pyproject.toml", text) == {"peft": ((0, 12), 2)}


def test_the_extra_that_training_needs_pins() -> None:
    text = '[project.optional-dependencies]\ntest = ["peft==0.12"]\ntraining = [\n  "trl>=0.17,<0.21",\n]\n'
    assert found("pyproject.toml", text) == {"trl": ((0, 20), 4)}


def test_a_lock_speaks_before_a_requirement_and_the_nearest_before_both() -> None:
    files = {
        "/r/requirements.txt": "trl==0.15.2\npeft==0.13.0",
        "/r/uv.lock": 'name = "trl"\nversion = "0.16.0"',
        "/r/configs/requirements.txt": "trl<0.12",
        "/requirements.txt": "torch==2.0",  # above the root
    }
    assert {key: pin.version for key, pin in pins("/r/configs", "/r", partial(pinned, text=files.get)).items()} == {
        "trl": (0, 11),
        "peft": (0, 13, 0),
    }


@given(st.text(max_size=200))
def test_any_text_is_borne(content: str) -> None:
    for name in ("requirements.txt", "uv.lock", "setup.py"):
        assert all(all(part >= 0 for part in version) for version, _ in found(name, content).values())


def test_a_workspace_reads_pins_below_its_root() -> None:
    workspace = in_memory({"requirements.txt": "transformers==4.45.2", "configs/train.yaml": "a: 1"})
    pin = workspace.pins("configs/train.yaml")["transformers"]
    assert (pin.version, pin.origin.path, pin.origin.line) == ((4, 45, 2), "requirements.txt", 1)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('VERSION = "0.9.1"', (0, 9, 1)),
        ('__version__ = "0.7.1"', (0, 7, 1)),
        ('VERSION = "0.9.4.dev0"', (0, 9, 3)),  # what is on its way to a release has the keys of the one before
        ('VERSION = "0.9.0.dev0"', (0, 8, 3)),
        ("VERSION = version", ()),
        ('DEVICE = "0.9.1"', ()),
    ],
)
def test_a_copy_of_llamafactory_says_its_version(line: str, version: tuple[int, ...]) -> None:
    expected = {"llamafactory": (version, 2)} if version else {}
    assert found("src/llamafactory/extras/env.py", f"import sys\n{line}\n") == expected
    assert found("LLaMA-Factory/src/llmtuner/__init__.py", f"import sys\n{line}\n") == expected


def test_a_copy_speaks_before_what_is_pinned() -> None:
    files = {"/r/src/llamafactory/extras/env.py": 'VERSION = "0.9.1"', "/r/requirements.txt": "llamafactory==0.9.3"}
    assert pins("/r", "/r", partial(pinned, text=files.get))["llamafactory"].version == (0, 9, 1)


@pytest.mark.parametrize(("version", "pinned_to"), [("0.4.0", (0, 4, 0)), ("0.6.0.dev0", ())])
def test_a_copy_of_axolotl_says_its_version(version: str, pinned_to: tuple[int, ...]) -> None:
    content = f'setup(\n    name="axolotl",\n    version="{version}",\n)\n'
    assert found("setup.py", content) == ({"axolotl": (pinned_to, 3)} if pinned_to else {})


def test_a_copy_of_openrlhf_with_its_old_switch_is_of_an_old_release() -> None:
    old = 'parser.add_argument("--bf16")\nparser.add_argument("--flash_attn", action="store_true")\n'
    assert found("openrlhf/cli/train_sft.py", old) == {"openrlhf": ((0, 8, 9), 2)}
    assert found("openrlhf/cli/train_sft.py", 'parser.add_argument("--attn_implementation")\n') == {}
    assert found("requirements.txt", "openrlhf==0.5.7\n") == {"openrlhf": ((0, 5, 7), 1)}


@pytest.mark.parametrize(("version", "pinned_to"), [("3.1.1", (3, 1, 1)), ("3.5.0.dev0", (3, 4))])
def test_a_copy_of_ms_swift_says_its_version(version: str, pinned_to: tuple[int, ...]) -> None:
    assert found("swift/version.py", f"# when releasing\n__version__ = '{version}'\n") == {"swift": (pinned_to, 2)}
    assert found("requirements.txt", "ms-swift==3.1\n") == found("requirements.txt", "ms_swift==3.1\n")
    assert found("requirements.txt", "swift==2.33\n") == {}  # OpenStack's


@pytest.mark.parametrize(
    ("path", "content", "pin"),
    [
        (
            "deepspeed/git_version_info_installed.py",
            "version='0.11.1'\ngit_hash='unknown'\n",
            {"deepspeed": (0, 11, 1)},
        ),
        ("src/transformers/__init__.py", '# c\n__version__ = "4.31.0"\n', {"transformers": (4, 31, 0)}),
        ("transformers/__init__.py", '__version__ = "4.32.0.dev0"\n', {}),
        ("peft/__init__.py", '"""Own."""\n', {}),
    ],
)
def test_a_package_in_the_repository_says_its_version(path: str, content: str, pin: dict[str, tuple[int, ...]]) -> None:
    """A program beside it imports it before the installed one."""
    files = {f"/r/{path}": content, "/r/requirements.txt": "deepspeed==0.16.0\n"}
    said = {name: one.version for name, one in pins("/r", "/r", partial(pinned, text=files.get)).items()}
    assert said == {"deepspeed": (0, 16, 0), **pin}


def test_packing_of_an_old_ms_swift_asks_for_no_flash_attention() -> None:
    """ms-swift 3.4.0 warns, 3.5.0 raises (llm/argument/train_args.py)."""
    found = []
    for version in ("3.4.0", "3.5.0"):
        config = "model: Qwen/Qwen2.5-7B\ntrain_type: lora\ndataset: d.jsonl\npacking: true\nmax_length: 4096\n"
        workspace = in_memory({"swift/version.py": f"__version__ = '{version}'\n", "examples/sft.yaml": config})
        versions = {name: pin.version for name, pin in workspace.pins("examples/sft.yaml").items()}
        analysis = analyse(workspace.documents("examples/sft.yaml")[0], workspace.context(versions=versions), shipped())
        found.append("SWF001" in {one.rule for one in analysis.findings})
    assert found == [False, True]


def test_scripts_that_install_pin_versions() -> None:
    script = "# pip install trl==0.9\npip install -U \\\n  transformers==4.34.0 'trl==0.7.4'\ntorch==2.1\n"
    assert found("setup.sh", script) == {"transformers": ((4, 34, 0), 3), "trl": ((0, 7, 4), 3)}
    image = "FROM x\nRUN pip3 install deepspeed==0.14.4 && rm -r cache\n"
    assert found("Dockerfile", image) == {"deepspeed": ((0, 14, 4), 2)}
    files = {"/r/setup.sh": script, "/r/requirements.txt": "transformers==4.40.0"}
    assert pins("/r", "/r", partial(pinned, text=files.get))["transformers"].version == (4, 40, 0)


@pytest.mark.parametrize(
    ("project", "version_file", "version"),
    [
        ('name = "trl"\ndynamic = ["version"]', "0.24.0", (0, 24, 0)),
        ('name = "trl"\nversion = "0.22.1"', "", (0, 22, 1)),
        ('name = "trl"\ndynamic = ["version"]', "0.25.0.dev0", ()),
        ('name = "mine"\nversion = "0.24.0"', "0.24.0", ()),
    ],
)
def test_a_copy_of_trl_says_its_version(project: str, version_file: str, version: tuple[int, ...]) -> None:
    """trl 0.24.0 pyproject.toml: `version = { file = "VERSION" }`."""
    files = {"/r/pyproject.toml": f"[build-system]\n\n[project]\n{project}\n", "/r/VERSION": version_file}
    pin = pins("/r/scripts", "/r", partial(pinned, text=files.get)).get("trl")
    assert (pin.version if pin is not None else ()) == version


def test_an_extra_for_other_hardware_in_setup_py_pins_nothing() -> None:
    """LLaMA-Factory 0.8.3 setup.py has an extra for NPUs beside those that are installed for GPUs."""
    extras = '    "torch": ["torch>=1.13.1"],\n    "torch-npu": ["torch==2.1.0",\n      "torch-npu==2.1.0.post3"],\n'
    engine = '    "deepspeed": ["deepspeed>=0.10.0,<=0.14.0"],\n'
    assert found("setup.py", f"extra_require = {{\n{extras}{engine}}}\n") == {"deepspeed": ((0, 14, 0), 5)}


@pytest.mark.parametrize(("pinned_to", "found"), [("0.16.0", []), ("1.16.0", ["TRL029"])])
def test_what_stands_beside_the_program_of_a_script_pins(
    pinned_to: str,
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = (
        "from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser\n\n"
        "arguments, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()\n"
        "GRPOTrainer(model.model_name_or_path, args=arguments).train()\n"
    )
    files = {
        "src/package/setup.py": f'from setuptools import setup\nsetup(install_requires=["trl=={pinned_to}"])\n',
        "src/package/train.py": program,
        "src/scripts/run.sh": (
            "cd src/package\ntorchrun --nproc_per_node=2 train.py --model_name_or_path Qwen/Qwen2.5-0.5B "
            "--max_prompt_length 512 --output_dir out\n"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    main(["check", ".", "--no-fixes", "--no-cache", "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["rule"] for one in findings if one["rule"] == "TRL029"] == found
