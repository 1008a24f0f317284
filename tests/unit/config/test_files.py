"""YAML files: the shipped ones, and the errors for invalid ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.config import Config, GroupOverrides, ShareGroupConfig, load_config, reference
from sharegroup.config.family import ConfigKey
from sharegroup.config.loading import SECTIONS
from sharegroup.config.reference import default_text
from sharegroup.errors import InvalidConfigError

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "conf" / "share_group.yaml"
JOB_KEYS = [key for families in SECTIONS.values() for family in families for key in family.config_keys().values()]
GROUP_KEYS = list(GroupOverrides.config_keys().values())


def test_the_shipped_file_loads_to_the_defaults() -> None:
    assert load_config(SHIPPED) == Config()


@pytest.mark.parametrize("key", JOB_KEYS, ids=lambda key: key.name)
def test_the_shipped_file_has_every_key_with_doc_and_default(key: ConfigKey) -> None:
    lines = SHIPPED.read_text().splitlines()
    at = lines.index(f"  {key.name}: {default_text(key)}")
    assert lines[at - 1] == f"  # {key.doc} Allowed: {key.allowed}."


@pytest.mark.parametrize("key", GROUP_KEYS, ids=lambda key: key.name)
def test_the_shipped_file_shows_every_group_key(key: ConfigKey) -> None:
    lines = SHIPPED.read_text().splitlines()
    of_job = ShareGroupConfig.config_keys().get(default_text(key))
    at = lines.index(f"#    {key.name}: {default_text(of_job or key)}")
    assert lines[at - 1] == f"#    # {key.doc} Allowed: {key.allowed}."


def test_the_group_keys_load_when_their_comment_marks_are_removed(tmp_path: Path) -> None:
    head, example = SHIPPED.read_text().split("groups: {}\n")
    path = tmp_path / "uncommented.yaml"
    path.write_text(f"{head}groups:\n{re.sub('^#', '', example, flags=re.MULTILINE)}")
    config = load_config(path)
    assert set(config.groups["orders"].set_values()) == set(GroupOverrides.config_keys())
    assert config.group_config("orders") == Config().group_config("orders")


def test_the_throughput_file_has_the_largest_windows() -> None:
    config = load_config(ROOT / "conf" / "throughput.yaml")
    assert config.group_config("any").partition_max_record_locks == 10_000_000
    assert config.group.max_partition_max_record_locks == 10_000_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job:\n  a: [1\n", "Not valid YAML at line 3, column 1: expected ',' or ']', but got '<stream end>'"),
        ("job: {}\njob: {}\n", "Not valid YAML at line 2, column 1: duplicate key job"),
        ("- job\n", "The file must be a mapping of the sections job, group, groups, gateway and cells"),
        ("42\n", "The file must be a mapping of the sections job, group, groups, gateway and cells"),
    ],
)
def test_an_invalid_file_is_rejected_with_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)
    assert caught.value.problems == (problem,)
    assert caught.value.source == str(path)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_empty_file_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert load_config(path) == Config()


def test_a_missing_file_is_rejected_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load_config(tmp_path / "none.yaml")
    assert caught.value.problems == ("Cannot read the file: No such file or directory",)


def test_a_binary_file_is_rejected_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InvalidConfigError) as caught:
        load_config(path)
    assert caught.value.problems == ("Cannot read the file: not UTF-8 text",)


def test_the_reference_has_a_row_for_every_key() -> None:
    lines = reference().splitlines()
    for key in (*JOB_KEYS, *GROUP_KEYS):
        assert sum(line.startswith(f"| `{key.name}` | `{default_text(key)}` |") for line in lines) == 1
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in lines if line.startswith("|"))


def test_every_key_has_a_description_of_one_line() -> None:
    for key in (*JOB_KEYS, *GROUP_KEYS):
        assert key.doc.endswith("."), key.name
        assert "\n" not in key.doc


def test_the_command_prints_the_reference() -> None:
    command = [sys.executable, "-m", "sharegroup.cli", "config"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert printed.stdout == reference() + "\n"
    assert printed.stderr == ""
