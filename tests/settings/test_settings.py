from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from memlint.run import Amount
from memlint.settings import (
    FileSettings,
    SettingsError,
    effective,
    forget,
    is_in_force,
    load_settings,
    severity_of,
    show,
    user_plugins,
)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()


def plant(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def of(file: str) -> FileSettings:
    return effective(load_settings(file), file)


def mistakes(file: str = "x.yaml") -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    return [str(mistake) for mistake in caught.value.mistakes]


def place(settings: FileSettings, name: str) -> str:
    origin = settings.origins[name]
    return f"{origin.path}:{origin.line}"


def test_without_a_file_the_defaults_hold() -> None:
    assert of("a/x.yaml") == FileSettings()


def test_the_nearest_file_upward_counts() -> None:
    plant({"memlint.yaml": "gpu: H100\n", "a/memlint.yml": "\n\ngpu: A100-80GB\n", "a/b/x.yaml": "", "x.yaml": ""})

    assert (of("x.yaml").gpu, of("a/b/x.yaml").gpu, of("a/b/c/none.yaml").gpu) == ("H100", "A100-80GB", "A100-80GB")
    assert place(of("a/b/x.yaml"), "gpu") == "a/memlint.yml:3"


def test_no_file_above_the_repository_counts() -> None:
    plant({"memlint.yaml": "gpu: H100\n", "inner/.git/HEAD": ""})

    assert of("inner/x.yaml").gpu == ""


def test_a_pyproject_counts_when_it_has_the_table() -> None:
    plant(
        {
            "memlint.yaml": "gpu: H100\n",
            "a/pyproject.toml": "[project]\nname = 'x'\n[tool.other]\n",
            "b/pyproject.toml": (
                "[tool.x]\nlist = [\n  1,\n]\n\n[tool.memlint]\ngpu = 'RTX4090'\ngpus = 2\n"
                'severity = {MEM001 = "off"}\n[tool.memlint.versions]\ntransformers = "4.57"\n'
                "[[tool.memlint.overrides]]\nfiles = 'y.yaml'\ngpus = 4\n"
                "[[tool.memlint.overrides]]\nfiles = 'z.yaml'\ngpus = 8\n"
            ),
        }
    )
    settings = of("b/x.yaml")

    assert of("a/x.yaml").gpu == "H100"
    assert (settings.gpu, settings.gpus, settings.severity) == ("RTX4090", 2, {"MEM001": "off"})
    assert settings.versions == {"transformers": (4, 57)}
    assert [place(settings, name) for name in ("gpu", "gpus", "severity.MEM001", "versions.transformers")] == [
        f"b/pyproject.toml:{line}" for line in (7, 8, 9, 11)
    ]
    assert [(of(f"b/{name}.yaml").gpus, place(of(f"b/{name}.yaml"), "gpus")) for name in "yz"] == [
        (4, "b/pyproject.toml:14"),
        (8, "b/pyproject.toml:17"),
    ]


def test_every_value_reaches_the_file_with_its_origin(repository: Path) -> None:
    plant(
        {
            "memlint.yaml": (
                "profile: ci\nselect: [memory, MEM]\nignore: MEM002\npreview: true\nseverity: {MEM001: info}\n"
                "rules_dirs: [rules]\nplugins: [mine]\ngpu: A100-80GB\ngpus: 16\ngpus_per_node: 8\n"
                "host_memory: 512GiB\nmodel: org/name\nmodels: {mine: ./models/mine, other: {hidden_size: 8}}\n"
                'versions: {transformers: "4.57"}\nbudgets: {max_device_share: 0.9, max_device_memory: 70 GB}\n'
                "memory: {context: 600MiB, safety: 5%}\n"
                "with: accelerate.yaml\nbaseline: .memlint-baseline.json\nsuppressions: {require_reason: true}\n"
            )
        }
    )
    settings = of("a/x.yaml")

    assert settings._replace(origins={}) == FileSettings(
        path="memlint.yaml",
        profile="ci",
        select=("memory", "MEM"),
        ignore=("MEM002",),
        preview=True,
        severity={"MEM001": "info"},
        fail_on="error",
        rules_dirs=(str(repository / "rules"),),
        plugins=("mine",),
        gpu="A100-80GB",
        gpus=16,
        gpus_per_node=8,
        host_memory=512 * 1024**3,
        model="org/name",
        models={"mine": str(repository / "models/mine"), "other": {"hidden_size": 8}},
        versions={"transformers": (4, 57)},
        budgets={"max_device_share": 0.9, "max_device_memory": 70 * 10**9},
        memory={"context": Amount(600 << 20), "safety": Amount(share=0.05)},
        companions=(str(repository / "accelerate.yaml"),),
        require_reason=True,
        baseline=str(repository / ".memlint-baseline.json"),
    )
    assert place(settings, "budgets.max_device_share") == "memlint.yaml:15"
    assert place(settings, "fail_on") == "memlint.yaml:1"
    assert settings.origins["fail_on"].detail == "profile ci"


def test_overrides_by_pattern_and_the_last_one_wins() -> None:
    plant(
        {
            "memlint.yaml": (
                "gpus: 1\nignore: [MEM001]\nseverity: {MEM: info}\noverrides:\n- files: big/**\n  gpus: 8\n"
                "  ignore: [MEM002]\n  severity: {MEM003: error}\n- files: ['*70b*']\n  gpus: 64\n"
            )
        }
    )

    assert [of(name).gpus for name in ("x.yaml", "big/x.yaml", "big/x70b.yaml")] == [1, 8, 64]
    assert of("big/x.yaml").ignore == ("MEM001", "MEM002")
    assert of("big/x.yaml").severity == {"MEM": "info", "MEM003": "error"}
    assert place(of("big/x70b.yaml"), "gpus") == "memlint.yaml:10"


def test_extends_comes_first_and_counts_from_its_own_folder(repository: Path) -> None:
    plant(
        {
            "memlint.yaml": "gpu: H100\ngpus: 8\nignore: [MEM001]\nrules_dirs: [rules]\n",
            "a/memlint.yaml": "extends: ../memlint.yaml\ngpus: 2\nignore: [MEM002]\n",
        }
    )
    settings = of("a/x.yaml")

    assert (settings.gpu, settings.gpus, settings.ignore) == ("H100", 2, ("MEM001", "MEM002"))
    assert settings.rules_dirs == (str(repository / "rules"),)
    assert (place(settings, "gpu"), place(settings, "gpus")) == ("memlint.yaml:1", "a/memlint.yaml:2")


@pytest.mark.parametrize(
    ("text", "where", "part"),
    [
        ("extends: memlint.yaml", "1:10", "extends itself"),
        ("gpus: 1\nextends: [none.yaml]", "2:11", "no such file"),
        ("extends: ../../../etc/passwd", "1:10", "outside"),
        ("gpsu: 1", "1:1", "did you mean `gpu`"),
        ("gpus: many", "1:7", "integer"),
        ("gpus: 0", "1:7", "at least 1"),
        ("a: [", "1:5", ""),
        ("gpus: 1\ngpus: 2", "2:1", "already set"),
        ("gpus: 1\n---\ngpus: 2", "1:1", "several documents"),
        ("- gpus", "1:1", "mapping"),
        ("gpu: A100-81GB", "1:6", "unknown GPU"),
        ("select: [MEM001, mem_1]", "1:18", "names no rule"),
        ("severity: {Mem_1: info}", "1:12", "names no rule"),
        ("severity: {MEM: fatal}", "1:17", "off, info, warning, error"),
        ("versions: {transformers: 4.57}", "1:26", "string"),
        ("versions: {transformers: latest}", "1:26", "no version"),
        ("host_memory: lots", "1:14", "no size"),
        ("host_memory: 512", "1:14", "write it with its unit"),
        ("budgets: {max_device_share: 1.5}", "1:29", "at most 1"),
        ("memory: {contxt: 1GiB}", "1:10", "did you mean `context`"),
        ("memory: {context: much}", "1:19", "neither a size nor a percentage"),
        ("memory: {safety: 101%}", "1:18", "up to 100"),
        ("memory: {fragmentation: -1}", "1:25", "wants a string or an integer"),
        ("memory: {context: 2}", "1:19", "write it with its unit"),
        ("overrides: [{files: x, memory: {safety: 1}}]", "1:41", "write it with its unit"),
        ("rules_dirs: [ok, ../../x]", "1:18", "outside"),
        ("exclude: [../x]", "1:11", "folder"),
        ("overrides: [{files: x, gpu: none}]", "1:29", "unknown GPU"),
        ("overrides: [{gpus: 1}]", "1:13", "files"),
        ("suppressions: {files: [{path: x, ignore: MEM001, until: 2026-13-01}]}", "1:57", "no date"),
        ("suppressions: {files: [{path: x, ignore: MEM001, pointer: a}]}", "1:59", "JSON pointer"),
    ],
)
def test_a_mistake_has_its_place_and_says_what_to_do(text: str, where: str, part: str) -> None:
    plant({"memlint.yaml": text})
    (first, *_) = mistakes()

    assert first.startswith(f"memlint.yaml:{where}: ")
    assert part in first


def test_all_mistakes_are_told_at_once() -> None:
    plant({"memlint.yaml": "gpus: x\ngpsu: 1\npreview: 3\n"})

    assert len(mistakes()) == 3


@pytest.mark.parametrize(
    ("text", "line"), [("[tool.memlint]\ngpus = ", 2), ("[tool.memlint]\n\ngpus = 'x'", 3), ("[tool]\nmemlint = 3", 2)]
)
def test_mistakes_in_a_pyproject_are_located(text: str, line: int) -> None:
    plant({"pyproject.toml": text})
    (first,) = mistakes()

    assert first.startswith(f"pyproject.toml:{line}:")


def test_extends_is_bounded() -> None:
    for index in range(20):
        plant({f"{index}.yaml": f"extends: {index + 1}.yaml"})
    plant({"memlint.yaml": "extends: 0.yaml", "20.yaml": ""})

    assert "extends more than 16 files" in mistakes()[0]


def test_a_named_settings_file_counts_alone() -> None:
    plant({"memlint.yaml": "gpus: 1\n", "other.yaml": "gpus: 2\n"})

    assert effective(load_settings("x.yaml", "other.yaml"), "x.yaml").gpus == 2


def test_exclude_marks_the_file() -> None:
    plant({"memlint.yaml": "exclude: [old/, '*.bak.yaml']\n"})

    assert [of(name).excluded for name in ("x.yaml", "old/a/x.yaml", "a/x.bak.yaml")] == [False, True, True]


def test_suppressions_by_file_and_pointer() -> None:
    plant(
        {
            "memlint.yaml": (
                "suppressions:\n  files:\n  - path: ds/*.json\n    pointer: /zero_optimization/a~1b/0\n"
                "    ignore: [MEM001, memory]\n    reason: known\n    until: 2026-12-31\n"
            )
        }
    )
    (waiver,) = of("ds/z3.json").waivers

    assert of("x.json").waivers == ()
    assert waiver[:4] == (("MEM001", "memory"), ("zero_optimization", "a/b", "0"), "known", "2026-12-31")
    assert waiver.origin.line == 3


def test_show_tells_where_each_value_came_from() -> None:
    plant({"memlint.yaml": "gpus: 4\nseverity: {MEM001: off}\n"})
    rows = {
        row.name: (row.value, row.origin.kind, row.origin.line)
        for row in show(effective(load_settings("x.yaml"), "x.yaml"))
    }

    assert rows["gpus"] == (4, "setting", 1)
    assert rows["severity.MEM001"] == ("off", "setting", 2)
    assert rows["gpu"] == ("", "default", 0)


@pytest.mark.parametrize(
    ("select", "ignore", "profiles", "preview", "expected"),
    [
        (("all",), (), ("default",), False, True),
        (("all",), ("MEM",), ("default",), False, False),
        (("MEM001",), ("memory",), ("default",), False, True),
        (("all",), ("MEM001",), ("default",), False, False),
        (("memory",), ("all",), ("default",), False, True),
        (("attention",), (), ("default",), False, False),
        (("all",), (), ("strict",), False, False),
        (("MEM001",), (), ("strict",), True, True),
        (("all",), (), ("default",), True, False),
        (("memory/over-the-card",), (), ("default",), False, True),
        (("MEM001",), ("MEM001",), ("default",), False, False),
    ],
)
def test_which_rules_are_in_force(
    select: tuple[str, ...], ignore: tuple[str, ...], profiles: tuple[str, ...], preview: bool, expected: bool
) -> None:
    settings = FileSettings(select=select, ignore=ignore)

    assert is_in_force(settings, "MEM001", "memory/over-the-card", profiles, preview) is expected


def test_the_most_exact_severity_counts() -> None:
    settings = FileSettings(severity={"memory": "info", "MEM001": "off", "all": "warning"})

    assert severity_of(settings, "MEM001", "memory/x") == "off"
    assert severity_of(settings, "MEM002", "memory/x") == "info"
    assert severity_of(settings, "ATT001", "attention/x") == "warning"
    assert not is_in_force(settings, "MEM001", "memory/x", ("default",), False)


def test_plug_ins_of_the_user(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(repository / "home"))
    assert user_plugins() == ()
    plant({"home/memlint/memlint.yaml": "plugins: [mine]\n"})

    assert user_plugins() == ("mine",)
