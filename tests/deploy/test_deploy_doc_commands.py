"""Every command in the documents is run, compared with its program, or read by a shell.

Run for real, output compared: `nriplugin config check`, `convert` and `explain` after a
prompt, in blocks of language `console`. Compared with the program: the commands and
options of nriplugin, kubectl and helm, and hack's scripts. For their syntax only: the
programs in `SYNTAX_ONLY`, which would change this machine or are not on it; files of
this repository that they name have to exist.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from documents import matrix
from documents.blocks import DOCUMENTS, TOP, blocks, shown
from documents.commands import (
    CHECKED,
    SYNTAX_ONLY,
    Command,
    commands,
    lines_of,
    program_of,
)
from documents.outputs import is_run, named_file, page, run
from support.charts import CHART, tool
from support.needs import need

from nriplugin.cli.main import COMMANDS
from nriplugin.cli.parser import parser_of
from nriplugin.config import parse_config

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [path for path in DOCUMENTS if path.name != "support.md"]
ALL = [one for path in DOCUMENTS for one in commands(path)]
RECIPES = sorted((TOP / "examples/recipes").glob("*.yaml"))

# By hand, from the recipes' text: pod/container -> file -> value.
CLAIMED: dict[tuple[str, str], dict[str, dict[str, str | None]]] = {
    ("databases.yaml", "databases-pods.yaml"): {
        # 4Gi, and no throttling; nine tenths of 1Gi in whole pages.
        "orders/postgres": {"memory.low": str(4 << 30), "memory.high": None},
        "sessions/redis": {"memory.min": str(966365184), "memory.low": None},
    },
    ("java.yaml", "java-pods.yaml"): {
        # Half of 100 ms; the pod has switched it off for its proxy.
        "checkout/app": {"cpu.max.burst": "50000"},
        "checkout/proxy": {"cpu.max.burst": None},
    },
    ("idle.yaml", "idle-pods.yaml"): {
        # Eight tenths of 2Gi, in whole pages.
        "report/worker": {"cpu.idle": "1", "memory.high": "1717985280"},
    },
    ("queues.yaml", "queues-jobs.yaml"): {
        "mnist-ps-0/tensorflow": {"cpu.max.burst": "100000"},
        "mnist-worker-0/tensorflow": {"cpu.max.burst": "80000"},
        "sweep-trial-0/trial": {"cpu.idle": "1", "cpu.max.burst": None},
    },
    ("guard.yaml", "shadow-pods.yaml"): {
        # 128Mi + 0.9 * 128Mi, in whole pages.
        "web/web": {"memory.high": "255012864", "memory.low": None},
    },
}


def _name(path: Path) -> str:
    return str(path.relative_to(TOP))


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_what_a_page_shows_is_what_comes_out(path: Path) -> None:
    """Output after a prompt is the command's; YAML with a file's name is that file."""
    assert page(path) == path.read_text(), "run hack/docs --outputs"


def test_enough_is_run() -> None:
    """The recipes, the configuration and the README show commands that are run."""
    ran = {
        (one.block.path.name, one.command.split()[1])
        for path in DOCUMENTS
        for block in blocks(path)
        for one in shown(block)
        if is_run(one)
    }
    assert ran >= {
        ("recipes.md", "config"),
        ("recipes.md", "explain"),
        ("configuration.md", "config"),
        ("README.md", "convert"),
    }


def test_every_recipe_is_shown() -> None:
    """A configuration is a block of the page, and is read by a command on it."""
    recipes = TOP / "docs/recipes.md"
    text = recipes.read_text()
    named = {named_file(block) for block in blocks(recipes)}
    for path in RECIPES:
        name = str(path.relative_to(TOP))
        assert path.read_text().startswith(f"# {name}\n")
        assert name in named or re.search(rf"^\$ nriplugin .*{name}", text, re.M), name


@pytest.mark.parametrize(
    "path",
    [one for one in RECIPES if not re.search("-(pods|jobs)", one.name)],
    ids=lambda path: path.name,
)
def test_a_recipe_is_valid_and_warns_of_nothing(path: Path) -> None:
    """`config check --strict` takes it."""
    assert f"{path.relative_to(TOP)}: valid\n" in run(
        f"nriplugin config check --strict {path.relative_to(TOP)}"
    )
    assert "warning" not in run(f"nriplugin config check {path.relative_to(TOP)}")


@pytest.mark.parametrize(("config", "pods"), CLAIMED, ids=str)
def test_a_recipe_gives_what_it_claims(config: str, pods: str) -> None:
    """The values of `explain` are those that were worked out by hand."""
    said = json.loads(
        run(
            "nriplugin explain -o json "
            f"--config examples/recipes/{config} examples/recipes/{pods}"
        )
    )
    found: dict[str, dict[str, str]] = {}
    for pod in said["pods"]:
        for container in pod["containers"]:
            found[f"{pod['name']}/{container['name']}"] = {
                one["file"]: one["value"]
                for one in (*container["files"], *container["writes"])
                if one.get("level", "container") == "container"
            }
    for name, claimed in CLAIMED[config, pods].items():
        got = {file: found[name].get(file) for file in claimed}
        assert got == claimed, name


def _ours(words: tuple[str, ...]) -> list[list[str]]:
    """Return the words after each `nriplugin` of a command line."""
    result: list[list[str]] = []
    for word in words:
        if word == "nriplugin" or word.endswith("/bin/nriplugin"):
            result.append([])
        elif result:
            result[-1].append(word)
    return result if words[0].rpartition("/")[2] != "pip" else []


OURS = [
    one
    for one in ALL
    if program_of(one.words) == "nriplugin"
    or (program_of(one.words) == "kubectl" and "--" in one.words)
]


@cache
def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, `cgroup set` and others among them."""
    _, found = parser_of(COMMANDS, COMMANDS)
    result: dict[str, argparse.ArgumentParser] = dict(found)
    for name, parser in found.items():
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                result |= {
                    f"{name} {one}": each for one, each in action.choices.items()
                }
    return result


@pytest.mark.parametrize("command", OURS, ids=str)
def test_our_commands_and_options_exist(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole command line is parsed; of any other, command and options are known."""
    after = command.words[command.words.index("--") :] if "--" in command.words else ()
    words = (after or command.words) if program_of(command.words) == "kubectl" else ()
    for ours in _ours(words or command.words):
        assert ours, command
        if ours == ["--version"]:
            continue
        # `hook install|uninstall`, `cgroup tree|get|set`
        first, second = ours[0], (ours[1].split("|") if len(ours) > 1 else [""])
        assert first in COMMANDS, command
        parsers = [_parsers().get(f"{first} {one}") for one in second]
        known = [parser or _parsers()[first] for parser in parsers]
        if command.whole and not re.search(r"[|<>\[]|\.\.\.", command.text):
            parser, _ = parser_of({first: ""}, [first])
            try:
                parser.parse_args([re.sub("^N$", "1", word) for word in ours])
            except SystemExit:
                pytest.fail(f"{command}: {capsys.readouterr().err}")
        for option in re.findall(r"(?<![\w-])(--[a-z][\w-]*|-[a-z]\b)", " ".join(ours)):
            assert all(option in one._option_string_actions for one in known), option


KUBECTL = [one for one in ALL if program_of(one.words) == "kubectl"]


@pytest.mark.parametrize("command", KUBECTL, ids=str)
def test_kubectl_knows_its_commands(command: Command) -> None:
    """Verbs and options are kubectl's; DaemonSet, namespace and paths are ours."""
    words = list(command.words[1:])
    if "--" in words:
        words = words[: words.index("--")]
    if words[:1] == ["-n"]:
        assert words[1] == "kube-system"
        words = words[2:]
    assert not words or words[0].isalpha(), command
    if not words or words[0] == "ARGUMENTS...":
        return
    if shutil.which("kubectl") is None:
        need("kubectl", "it is not installed")
    verb = words[:2] if words[0] == "rollout" else words[:1]
    helped = subprocess.run(
        ["kubectl", *verb, "--help"], capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, helped.stderr
    # The help of an unknown verb is that of what is above it.
    assert f"kubectl {' '.join(verb)}" in helped.stdout, command
    for word in words[1:]:
        if word.startswith("-"):
            assert re.search(rf"(^|\s){word}[,=\s]", helped.stdout), word
        elif word.startswith("deploy/"):
            assert (TOP / word / "kustomization.yaml").is_file()
        elif word.startswith("daemonset/"):
            made = yaml.safe_load(
                (TOP / "deploy/kubernetes/daemonset.yaml").read_text()
            )
            assert word == f"daemonset/{made['metadata']['name']}"


HELM = [one for one in ALL if program_of(one.words) == "helm"]


@pytest.mark.parametrize("command", HELM, ids=str)
def test_helm_knows_its_commands(command: Command) -> None:
    """Verbs and options are helm's; the chart and the keys of its values are ours."""
    words = list(command.words[1:])
    if words[:1] == ["-n"]:
        assert words[1] == "kube-system"
        words = words[2:]
    helped = subprocess.run(
        [tool("helm"), words[0], "--help"], capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, helped.stderr
    assert f"helm {words[0]}" in helped.stdout
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for before, word in pairwise(words):
        if word.startswith("--"):
            assert re.search(rf"\s{word}[=\s]", helped.stdout), word
        elif word.startswith("deploy/"):
            assert (TOP / word) == CHART
        elif before == "--set":
            found: Any = values
            for key in word.partition("=")[0].split("."):
                assert key in found, word
                found = found[key]
    if len(words) > 1 and words[0] in ("install", "upgrade"):
        # The schema refuses `--set image.tag=1`, because helm makes a number of it.
        made = subprocess.run(
            [tool("helm"), "template", *words[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        assert "kind: DaemonSet" in made.stdout


HACK = [one for one in ALL if one.words[0].startswith("./hack/")]


@pytest.mark.parametrize("command", HACK, ids=str)
def test_our_scripts_know_their_options(command: Command) -> None:
    """A script is there, and its options are in its text or in that of its modules."""
    script = TOP / command.words[0]
    if script.is_dir():
        return
    assert script.is_file(), command
    text = script.read_text() + "".join(
        path.read_text()
        for path in (*TOP.glob("hack/*/*.py"), *TOP.glob("nriplugin/cli/*.py"))
    )
    for word in command.words[1:]:
        if word == "--":
            break
        if word.strip("[]").startswith("--"):
            assert re.search(rf"{word.strip('[]')}\b", text), word


def test_every_program_is_known() -> None:
    """A program that nobody has sorted in would not be looked at."""
    known = {*CHECKED, *SYNTAX_ONLY}
    for path in DOCUMENTS:
        for block in blocks(path):
            if block.language == "sh" and path.name != "sdk.md":
                for line in lines_of(block.text, "sh"):
                    program = program_of(tuple(line.split()))
                    assert program in known or program.startswith("./hack/"), line


@pytest.mark.parametrize(
    "command",
    [one for one in ALL if program_of(one.words) in SYNTAX_ONLY and one.whole],
    ids=str,
)
def test_other_commands_are_read_by_a_shell(command: Command) -> None:
    """Syntax only: none is run. Files of this repository that it names exist."""
    done = subprocess.run(
        ["bash", "-n", "-c", command.text], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for word in command.words:
        if word.startswith(("deploy/", "examples/", "docs/")):
            assert (TOP / word).exists(), word
    extras = re.findall(r"nriplugin\[([\w,]+)\]", command.text)
    project = (TOP / "pyproject.toml").read_text()
    for extra in (one for found in extras for one in found.split(",")):
        assert re.search(rf"^{extra} = \[", project, re.M), extra


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_configurations_in_yaml_are_valid(path: Path) -> None:
    """A block of YAML whose keys are all the configuration's is a configuration."""
    schema = json.loads((TOP / "deploy/config.schema.json").read_text())
    for block in blocks(path):
        if block.language != "yaml" or named_file(block):
            continue
        document = yaml.safe_load(block.text)
        if set(document) <= set(schema["$defs"]["ConfigFile"]["properties"]):
            parse_config(block.text, block.where)


def test_the_matrix_is_that_of_the_tests() -> None:
    """A cell says where a test runs; every file of tests on nodes is in a row."""
    path = TOP / "docs/support.md"
    assert page(path) == path.read_text(), "run hack/docs --outputs"
    shown_files = {file for rows in matrix.ROWS.values() for file in rows.values()}
    # Covered by another row, or named on the page with the reason.
    left_out = {"test_e2e_cgroup_rules.py"}
    assert {file for file, _, _ in matrix.collected()} - left_out == shown_files


def test_the_nodes_are_those_of_the_test_bed() -> None:
    """Name, driver, cgroup version and Debian releases are the catalogue's."""
    from nodes.catalog import NODES

    rows = re.findall(
        r"^\| ([\w.-]+) \| (?:containerd|CRI-O) [\d.]+ \| (on|none) \| (\w+) \| v(\d) "
        r"\| (\w+) \| (\w+) \|$",
        (TOP / "docs/support.md").read_text(),
        re.MULTILINE,
    )
    assert rows == [
        (
            *(node.name, "on" if node.nri else "none", node.driver, str(node.cgroup)),
            *(node.root, node.kernel),
        )
        for node in sorted(
            NODES.values(), key=lambda one: [row[0] for row in rows].index(one.name)
        )
    ]


def test_troubleshooting_leads_to_what_doctor_finds() -> None:
    """Its table has every problem, and every check that it names exists."""
    doctor = (TOP / "docs/doctor.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", doctor, re.MULTILINE)
    text = (TOP / "docs/troubleshooting.md").read_text()
    table = text.partition("## The findings that stop it")[2].partition("\n## ")[0]
    problems = set(re.findall(r"`([a-z-]+)`", table)) - {"doctor"}
    assert problems == {check for check, level in rows if level == "problem"}
    named = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    checks = {one for cell in named for one in re.findall(r"`([a-z-]+)`", cell)}
    assert checks <= {check for check, _ in rows}


def test_counterparts_in_the_migration_exist() -> None:
    """Settings of nriplugin with a value are read as a configuration."""
    text = (TOP / "docs/migration.md").read_text()
    settings = re.findall(r"`((?:memoryQoS|cpuBurst|cpuQoS|curve): [^`]+)`", text)
    assert len(settings) >= 3
    for one in settings:
        parse_config(one, "migration.md")


def test_python_of_the_tests_is_the_one_that_runs_commands() -> None:
    """Commands are run by the interpreter of the tests, which has this checkout."""
    assert run("nriplugin --version").startswith("nriplugin ")
    assert sys.version_info >= (3, 11)
