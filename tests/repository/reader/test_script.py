"""A Python file as text: how it may read a config, and the words that tie it to one."""

from __future__ import annotations

import pytest

from memlint.repository.reader.script import OtherProgram, Script


def script(text: str) -> Script:
    return Script("train.py", text.encode())


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('config["lr"]', {"lr"}),
        ("args['lr']", {"lr"}),
        ('anything.get( "lr", 1)', {"lr"}),
        ("cfg.lr", {"lr"}),
        ("config.train.lr", {"lr"}),
        ("config.model.path", {"model"}),  # what the file has of it
        ("mycfg.lr", set()),  # some other variable
        ("my_cfg.lr", set()),
        ("args.lr", set()),  # of an argument parser
        ("cfg.lr_scheduler", set()),
        ('"lr"', set()),
        ('["lr_scheduler"]', set()),
    ],
)
def test_keys_that_a_script_looks_up(text: str, keys: set[str]) -> None:
    found = script(text)
    assert found.keys_read(frozenset(("lr", "model"))) == keys
    assert found.words_read >= keys


def test_a_script_may_ask_for_keys() -> None:
    asks = script('if "lr" in config or "seed" not in config: ...')
    assert asks.keys_read({"lr", "seed"}) == set()
    assert asks.keys_asked_for({"lr", "seed"}) == {"lr"}


def test_files_in_quotes_and_in_other_words() -> None:
    usage = "# train.py --config=configs/sft.yaml\n"
    found = script(usage + """load("data/ds.json", 'data/ds.json', f"{HERE}/a.toml", "b.c")""")
    assert found.named_files == {"ds.json": ("data/ds.json",), "a.toml": ("{HERE}/a.toml",), "b.c": ("b.c",)}
    assert found.mentioned_files == {"sft.yaml", "ds.json", "a.toml"}


@pytest.mark.parametrize(
    ("text", "yaml", "json"),
    [
        ("yaml.unsafe_load(file)", True, False),
        ("def read_my_yaml_file(path): ...", True, False),
        ("json.load(file)", False, True),
        ("ujson.load(file)", False, False),
        ('json.loads(Path("a.json").read_text())', False, True),
        ("json.loads(line)", False, False),
    ],
)
def test_what_a_script_loads(text: str, yaml: bool, json: bool) -> None:
    found = script(text)
    assert (found.reads_yaml, found.reads_json, found.may_read) == (yaml, json, yaml or json)


@pytest.mark.parametrize("text", ["load_config(path)", "x = 'a.yaml'", "TrlParser(Config)"])
def test_a_script_may_read_a_config_by_another_module(text: str) -> None:
    assert script(text).may_read
    assert not script(text).reads_yaml


def test_omegaconf_reads_the_file_for_a_parser() -> None:
    text = "HfArgumentParser(Arguments).parse_dict(OmegaConf.load(path))"
    assert script(text).parsers == {"HfArgumentParser", "OmegaConf"}


def test_a_program_in_another_language_has_no_parser_and_loads_what_it_has_a_word_for() -> None:
    program = OtherProgram("run.go", b"TrlParser( yaml.Unmarshal(data)")
    assert (program.parsers, program.reads_yaml, program.reads_json) == (frozenset(), True, True)
    assert not OtherProgram("run.go", b"fmt.Println()").reads_yaml


def test_trainers_of_its_own() -> None:
    assert script("class Own(Trainer): ...\nOwnTrainer(model)").has_own_trainer
    assert not script("OwnTrainer(model)\nSFTTrainer (model)").has_own_trainer
    assert not script("train(model)").has_own_trainer


def test_frameworks_by_their_words() -> None:
    assert script("run('LLaMA-Factory'); import axolotl").frameworks == {"llamafactory", "axolotl"}
