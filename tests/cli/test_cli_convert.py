from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.gopeers import ENVIRON

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = [
    "--shares",
    "1024",
    "--quota",
    "200000",
    "--memory",
    "512Mi",
    "--swap",
    "1Gi",
]
FILES = {
    "cpu.weight": "100",
    "cpu.max": "200000 100000",
    "memory.max": str(512 << 20),
    "memory.swap.max": str(512 << 20),
}


def convert(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", "convert", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRON,
    )


def test_options_give_files() -> None:
    """JSON has the curve, the files, and what was dropped or clamped."""
    done = convert(*NUMBERS, "--json")
    expected = {
        "apiVersion": "nriplugin/v1alpha1",
        "kind": "Conversion",
        "curve": "quadratic",
        "files": FILES,
        "dropped": [],
        "clamped": [],
    }
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize(
    ("curve", "weights"),
    [
        ("auto", "100"),
        ("kep", "39"),
        ("quadratic", "100"),
        ("proportional", "100"),
    ],
)
def test_the_curve_is_chosen(curve: str, weights: str) -> None:
    """`auto` is quadratic, because there is no node whose runtime could be seen."""
    done = convert("--shares", "1024", "--curve", curve, "--json")
    assert json.loads(done.stdout)["files"] == {"cpu.weight": weights}


def test_all_curves_stand_side_by_side() -> None:
    """The table has all curves by default, JSON with --curve all."""
    lines = convert("--shares", "2048").stdout.splitlines()
    assert lines[0].split() == ["FILE", "KEP", "QUADRATIC", "PROPORTIONAL", "RULE"]
    assert lines[1].split()[:4] == ["cpu.weight", "79", "174", "200"]
    done = convert("--shares", "2048", "--curve", "all", "--json")
    weights = [
        entry["files"]["cpu.weight"] for entry in json.loads(done.stdout)["items"]
    ]
    assert weights == ["79", "174", "200"]


def test_json_comes_from_a_file_or_stdin(tmp_path: Path) -> None:
    """The input is linux.resources alone, or a whole config.json."""
    resources = {"cpu": {"shares": 2}, "memory": {"swappiness": 60}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"linux": {"resources": resources}}))
    from_file = json.loads(convert(str(path), "--json").stdout)
    from_stdin = json.loads(convert("--json", stdin=json.dumps(resources)).stdout)
    assert from_file == from_stdin
    assert from_file["files"] == {"cpu.weight": "1"}
    assert from_file["dropped"][0]["field"] == "memory.swappiness"


def test_what_was_dropped_and_clamped_is_said_in_the_table() -> None:
    """A line below the table gives the reason."""
    stdin = json.dumps({"cpu": {"shares": 1, "realtimePeriod": 5}})
    done = convert(stdin=stdin)
    assert "dropped cpu.realtimePeriod: cgroup v2 has no" in done.stdout
    assert "clamped cpu.shares: 1 to 2" in done.stdout


def test_the_way_back() -> None:
    """--reverse turns cgroup v2 files into v1-style numbers."""
    stdin = json.dumps({"cpu.weight": "39", "cpu.max": "max 100000"})
    done = convert("--reverse", "--curve", "kep", "--json", stdin=stdin)
    cpu = {"shares": 998, "quota": -1, "period": 100_000}
    assert json.loads(done.stdout)["cpu"] == cpu
    plain = convert("--reverse", "--curve", "kep", stdin=stdin)
    assert json.loads(plain.stdout) == {"cpu": cpu}


def test_a_cpu_amount_is_what_kubelet_makes_of_it() -> None:
    """Request and limit at once; a number of its own wins."""
    done = convert("--cpu", "500m", "--curve", "kep", "-o", "json")
    files = json.loads(done.stdout)["files"]
    assert files == {"cpu.weight": "20", "cpu.max": "50000 100000"}
    done = convert("--cpu", "500m", "--shares", "1024", "-o", "json")
    assert json.loads(done.stdout)["files"]["cpu.weight"] == "100"
    for wrong in ("half", "0", "-1"):
        done = convert("--cpu", wrong)
        assert done.returncode == 2
        assert f"--cpu: {wrong!r}, expected" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["--shares", "x"], "", "--shares: 'x', expected a whole number"),
        (["--memory", "5Q"], "", "--memory: '5Q', expected bytes"),
        (["--memory", "512m"], "", "--memory: '512m', expected bytes"),
        (["--quota", "5"], "", "cpu.quota: 5, expected 1000 to"),
        (["--shares", "1", "file"], "", "FILE: 'file', expected none beside options"),
        (["/nonexistent.json"], "", "/nonexistent.json: "),
        ([], "[1]", "stdin: a list, expected a JSON object"),
        ([], "{", "stdin: "),
        ([], '{"cpu": {"shares": true}}', "cpu.shares: True, expected a whole number"),
        (["--reverse"], '{"cpu.weight": 5}', "cpu.weight: 5, expected a string"),
        (["--reverse"], '{"cpu.weight": "0"}', "cpu.weight: '0', expected 1 to 10000"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], stdin: str, message: str
) -> None:
    """It names the field, the value and what was expected."""
    done = convert(*arguments, stdin=stdin)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
