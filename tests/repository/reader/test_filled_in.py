"""What programs and commands write into a config before a framework reads it."""

from __future__ import annotations

import pytest

from memlint.repository.reader.filled_in import (
    by_command,
    by_override,
    by_program,
    by_replacement,
    by_substitution,
    is_made,
)
from memlint.repository.reader.script import Script
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("sed -i 's/__RATE__/1/' configs/sft.yaml", True),
        ("jq '.learning_rate = 1' \\\n  configs/sft.yaml > configs/other.yaml", True),
        ("sed -i 's/__RATE__/1/' configs/sft.yaml\npython train.py configs/sft.yaml", True),
        ("python train.py configs/sft.yaml --learning_rate 1", True),
        ("See configs/sft.yaml:\npython train.py configs/sft.yaml learning_rate=1", True),
        ("python train.py configs/sft.yaml", False),
        ("python train.py configs/learning_rate/sft.yaml", False),  # the file's own path
        ("python train.py other.yaml --learning_rate 1\npython train.py configs/sft.yaml", False),
        ("python train.py configs/sft.yaml --learning_rate 1\npython train.py configs/sft.yaml", False),  # one of two
        ("python train.py configs/sft.yaml --learning_rates 1", False),  # another word
        ("python train.py configs/sft.yaml --own_learning_rate 1", False),
    ],
)
def test_a_command_that_names_the_file_and_a_word(page: str, says: bool) -> None:
    assert by_command("configs/sft.yaml", "learning_rate", "RATE", [page]) is says


def test_a_short_word_is_any_word() -> None:
    assert not by_command("sft.yaml", "lr", 1, ["python train.py sft.yaml --lr 1"])


def test_a_program_that_replaces_a_variable_as_it_stands_in_the_file() -> None:
    merge = Script("merge.py", b"text = open(path).read().replace('${checkpoint}', name)\n")
    assert by_replacement("saves/${checkpoint}", [merge])
    assert not by_replacement("saves/${dataset}", [merge])
    assert not by_replacement(4, [merge])


def test_variables_of_a_page_that_substitutes() -> None:
    assert by_substitution(["envsubst < sft.yaml > final.yaml"]) and not by_substitution(["train sft.yaml"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('config["lora_rank"] = 8', True),
        ("config.pop('lora_rank')", True),
        ('config["lora_ranks"]', False),
        ("", False),
    ],
)
def test_a_program_that_has_the_key_in_quotes(text: str, says: bool) -> None:
    assert by_program("lora_rank", 8, [Script("train.py", text.encode())]) is says


@pytest.mark.parametrize(
    ("page", "script", "made"),
    [
        ("jq . a.json > configs/ds.json", "", True),
        ("make --output=configs/ds.json", "", True),
        ("cat configs/ds.json", "", False),
        ("", 'json.dump(made, open("ds.json", "w"))', True),
        ("", 'json.load(open("ds.json"))', False),
        ("cat > configs/ds.json <<EOF\n{}\nEOF", "", True),
        ('cat <<EOF > "$DIR/ds.json"', "", True),
        ("echo '{}' | tee ds.json", "", True),
        ("cat > configs/my_ds.json <<EOF", "", False),
        ('DS="${ROOT}/ds.json"\npython - "$TEMPLATE" "$DS" <<EOF\n...\nEOF', "", True),
        ("export DS=configs/ds.json\nsed s/A/B/ base.json > ${DS}", "", True),
        ('DS="${ROOT}/ds.json"\npython train.py --deepspeed "$DS"', "", False),
        ("deepspeed train.py --deepspeed configs/ds.json > log.txt", "", False),
        ("", 'path = folder / "ds.json"\npath.write_text("{}")', True),
        ("", 'path = "configs/ds.json"\nopen(other, "w")', False),
        ("", 'path = "configs/ds.json"\nopen(path, "r")', False),
        ("", 'with open("configs/ds.json", "w") as file:\n    json.dump({}, file)', True),
        ("", "with open(os.path.join(out, 'ds.json'), mode='w') as file: ...", True),
        ("", 'NAME = "configs/ds.json"\nwith open(NAME, "w", encoding="utf-8") as file: ...', True),
        ("", 'train("ds.json")\nmodel.save("out")', False),
        ("", 'OmegaConf.save(config, "configs/ds.json")', True),
    ],
)
def test_files_that_are_made(page: str, script: str, made: bool) -> None:
    assert is_made("ds.json", [page], [Script("make.py", script.encode())]) is made


CONFIG = "model_name_or_path: a/b\noutput_dir: o\nper_device_train_batch_size: 1\ndeepspeed: configs/ds.json\n"


@pytest.mark.parametrize(("script", "found"), [("cat > configs/ds.json <<EOF\n{}\nEOF\n", False), ("ls\n", True)])
def test_a_file_that_a_script_writes_is_not_missing(script: str, found: bool) -> None:
    workspace = in_memory({"train.yaml": CONFIG, "run.sh": f"{script}accelerate launch train.py train.yaml\n"})
    (document,) = workspace.documents("train.yaml")
    told = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert ("REF001" in {one.rule for one in told}) is found


@pytest.mark.parametrize(("script", "found"), [("cat > {} <<EOF\n{{}}\nEOF\n", False), ("ls\n", True)])
def test_a_file_of_the_framework_that_a_script_writes_is_not_missing(script: str, found: bool) -> None:
    """The note that Axolotl's own file of that name is taken for it is none where the repository makes it."""
    name = "deepspeed_configs/zero3.json"
    text = "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 1\ndatasets: [{path: a, type: alpaca}]\n"
    text += f"deepspeed: {name}\n"
    launch = "accelerate launch --num_processes 4 -m axolotl.cli.train train.yaml\n"
    workspace = in_memory({"train.yaml": text, "run.sh": script.format(name) + launch})
    (document,) = workspace.documents("train.yaml")
    told = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert ("REF001" in {one.rule for one in told}) is found


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("uv run examples/run_sft.py policy.megatron_cfg.enabled=true", True),
        ('OFF=" policy.megatron_cfg.enabled=false"\npython examples/run_sft.py $OFF', True),
        ("uv run examples/run_sft.py policy.megatron_cfg.enabled_too=true", False),
        ("uv run examples/run_sft.py other.policy.megatron_cfg.enabled=true", False),
        ("uv run examples/run_sft.py --config b.yaml policy.megatron_cfg.enabled=true", False),
        ("python -m verl.trainer.main_ppo --config-name=b policy.megatron_cfg.enabled=true", False),
    ],
)
def test_an_override_of_a_command_that_names_no_config(page: str, says: bool) -> None:
    assert by_override("policy.megatron_cfg.enabled", [page]) is says


@pytest.mark.parametrize(
    ("command", "says"),
    [(f"policy.{one}_cfg.enabled=false", False) for one in ("megatron", "dtensor")] + [("sft.seed=1", True)],
)
def test_sections_of_which_a_command_switches_one_off(command: str, says: bool) -> None:
    """NeMo-RL's examples/run_sft.py takes the recipe of its own name where no `--config` is given."""
    policy = "  model_name: Qwen/Qwen2.5-1.5B\n  train_global_batch_size: 8\n  train_micro_batch_size: 1\n"
    engines = "  dtensor_cfg: {enabled: true}\n  megatron_cfg: {enabled: true}\n"
    recipe = f"sft: {{max_num_steps: 9}}\npolicy:\n{policy}  max_total_sequence_length: 512\n{engines}"
    workspace = in_memory({"sft.yaml": recipe, "run.sh": f"uv run python examples/run_sft.py {command}\n"})
    (document,) = workspace.documents("sft.yaml")
    findings = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert any("both switched on" in one.message for one in findings) is says
