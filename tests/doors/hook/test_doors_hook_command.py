"""The hook as a runtime runs it: a process, its standard input, its exit code."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from doors.hook.bundles import Bundle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nriplugin.cli import hook as hook_command
from nriplugin.cli.hook_run import parse_options
from nriplugin.cli.main import main
from nriplugin.doors.hook.deadline import DeadlinePassed, limit
from nriplugin.doors.hook.run import HookOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Finished = subprocess.CompletedProcess[str]

PATIENCE_S = 60
# A runtime may start a hook with nearly no environment.
BARE: Mapping[str, str] = {"LC_ALL": "C"}
MODULES = """
import sys
from nriplugin.cli.main import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stdout)
sys.exit(code)
"""


def hook(state: bytes | str, *options: str, env: Mapping[str, str] = BARE) -> Finished:
    if isinstance(state, str):
        state = state.encode()
    done = subprocess.run(
        [sys.executable, "-m", "nriplugin", "hook", *options],
        input=state,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
        env=env,
    )
    texts = (done.stdout.decode(), done.stderr.decode())
    return subprocess.CompletedProcess(done.args, done.returncode, *texts)


def test_a_container_gets_its_files(tmp_path: Path) -> None:
    """The command reads the state from standard input and writes the files."""
    bundle = Bundle(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text("cpuQoS: {enabled: true, level: BE}\n")
    done = hook(json.dumps(bundle.state), *bundle.options(), "--config", str(config))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert bundle.read("cpu.idle") == {"cpu.idle": "1"}


def test_in_shadow_mode_nothing_is_written(tmp_path: Path) -> None:
    """A file or a rule may say so; the container starts as it would without a hook."""
    bundle = Bundle(tmp_path)
    before = bundle.read("cpu.idle", "cpu.weight")
    config = tmp_path / "config.yaml"
    config.write_text("shadow: true\ncpuQoS: {enabled: true, level: BE}\n")
    done = hook(json.dumps(bundle.state), *bundle.options(), "--config", str(config))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert bundle.read("cpu.idle", "cpu.weight") == before


def test_without_a_configuration_little_is_imported(tmp_path: Path) -> None:
    """Every container waits for these imports, so there are few."""
    bundle = Bundle(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", MODULES, "hook", *bundle.options()],
        input=json.dumps(bundle.state),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    imported = set(done.stdout.split())
    assert "nriplugin.doors.hook.handle" in imported
    unwanted = ("google", "grpc", "asyncio", "yaml", "msgspec", "jeepney", "sqlite3")
    assert not imported & {*unwanted, "argparse", "logging", "subprocess", "socket"}
    ours = {name.split(".")[1] for name in imported if name.startswith("nriplugin.")}
    assert not ours & {"api", "nri", "wire", "state", "config", "documents"}


@pytest.mark.parametrize("policy", ["ignore", "fail"])
@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("", "state: not JSON"),
        ("{}", "state: id: None, expected a name"),
        ('{"id": "a", "bundle": "/nonexistent"}', "config.json': No such file"),
    ],
)
def test_a_state_that_is_none_is_one_line(
    tmp_path: Path, state: str, says: str, policy: str
) -> None:
    """With `ignore` the exit code is 0 and the container starts, with `fail` it is
    1.
    """
    options = (*Bundle(tmp_path).options(), "--failure-policy", policy)
    done = hook(state, *options)
    assert done.returncode == (1 if policy == "fail" else 0)
    assert done.stderr.startswith("nriplugin: hook: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "option", "code"),
    [
        ("failurePolicy: [", None, 0),
        ("failurePolicy: [", "fail", 1),
        (None, None, 0),
        (None, "fail", 1),
        ("failurePolicy: fail", None, 1),
        ("failurePolicy: fail", "ignore", 0),
        ("failurePolicy: ignore", "fail", 1),
    ],
)
def test_who_decides_about_a_failure(
    tmp_path: Path, config: str | None, option: str | None, code: int
) -> None:
    """The option decides, else the configuration; one that cannot be read does not."""
    bundle = Bundle(tmp_path)
    (bundle.directory / "config.json").unlink()
    path = tmp_path / "config.yaml"
    if config is not None:
        path.write_text(config)
    options = [*bundle.options(), "--config", str(path)]
    if option is not None:
        options += ["--failure-policy", option]
    done = hook(json.dumps(bundle.state), *options)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1


# The places in a configuration that can set the policy of a handler.
FAILING = {
    "file": "failurePolicy: fail\ncpuQoS: {enabled: true, level: BE}\n",
    "handler": "cpuQoS: {enabled: true, level: BE, failurePolicy: fail}\n",
    "rule": (
        "cpuQoS: {enabled: true, level: BE}\n"
        "rules: [{name: web, match: {container: web}, cpuQoS: {failurePolicy: fail}}]\n"
    ),
}


@pytest.mark.parametrize(
    ("option", "said", "code"),
    [
        (None, "fail", 1),
        ("ignore", "fail", 0),
        ("fail", "ignore", 1),
        (None, "ignore", 0),
    ],
)
@pytest.mark.parametrize("place", FAILING)
def test_the_option_wins_over_the_configuration(
    place: str, option: str | None, said: str, code: int, tmp_path: Path
) -> None:
    """The option replaces the policy of the file, of a handler and of a rule."""
    bundle = Bundle(tmp_path)
    bundle.state_dir.write_text("not a directory")
    config = tmp_path / "config.yaml"
    config.write_text(FAILING[place].replace("Policy: fail", f"Policy: {said}"))
    options = [*bundle.options(), "--config", str(config)]
    if option is not None:
        options += ["--failure-policy", option]
    done = hook(json.dumps(bundle.state), *options)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert line.startswith("nriplugin: hook: ")
    assert "journal " in line


def test_a_failure_that_the_option_ignores_is_only_that_handlers(
    tmp_path: Path,
) -> None:
    """The other handlers do their work."""
    bundle = Bundle(tmp_path, resources={"memory": {"limit": 1 << 20, "swap": 1}})
    config = tmp_path / "config.yaml"
    config.write_text(
        "resources: {failurePolicy: fail}\ncpuQoS: {enabled: true, level: BE}\n"
    )
    options = [*bundle.options(), "--config", str(config), "--failure-policy", "ignore"]
    done = hook(json.dumps(bundle.state), *options)
    assert done.returncode == 0
    assert done.stderr.startswith("nriplugin: hook: resources: ")
    assert bundle.read("cpu.idle") == {"cpu.idle": "1"}


@pytest.mark.parametrize(("option", "code"), [("ignore", 0), ("fail", 1)])
def test_a_failure_of_a_handler_follows_the_option(
    tmp_path: Path, option: str, code: int
) -> None:
    """The limits of this container have no cgroup v2 value."""
    bundle = Bundle(tmp_path, resources={"memory": {"limit": 1 << 20, "swap": 1}})
    options = (*bundle.options(), "--failure-policy", option)
    done = hook(json.dumps(bundle.state), *options)
    assert done.returncode == code
    assert done.stderr.startswith("nriplugin: hook: resources: ")


def test_a_defect_of_ours_does_not_stop_a_container(tmp_path: Path) -> None:
    """Any exception becomes one line, and the container starts."""
    bundle = Bundle(tmp_path)
    broken = "import nriplugin.engine.decide as d; d.decide = lambda *_: 1 / 0\n"
    done = subprocess.run(
        [sys.executable, "-c", broken + MODULES, "hook", *bundle.options()],
        input=json.dumps(bundle.state),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0
    assert done.stderr == "nriplugin: hook: ZeroDivisionError('division by zero')\n"


@pytest.mark.parametrize(
    ("options", "code"), [([], 0), (["--failure-policy", "fail"], 1)]
)
@pytest.mark.parametrize(
    "module",
    [
        "nriplugin.engine.settings",
        "nriplugin.cli.hook_run",
        "nriplugin.doors.hook.handle",
        "nriplugin.policy",
    ],
)
def test_a_module_that_is_missing_does_not_stop_a_container(
    module: str, options: list[str], code: int
) -> None:
    """A module may be missing during an upgrade: one line, no traceback."""
    script = f"import sys; sys.modules[{module!r}] = None\n"
    script += "from nriplugin.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, "hook", *options],
        input="{}",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert line.startswith("nriplugin: hook: ")
    assert module in line


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--failure-policy=fail"], 1)])
def test_an_option_of_another_version_does_not_stop_a_container(
    options: list[str], code: int
) -> None:
    """A newer version may have written the file in hooks.d."""
    done = hook("{}", "--of-another-version", "1", *options)
    assert done.returncode == code
    assert "nriplugin hook: error: " in done.stderr


def test_nobody_to_talk_to_is_no_failure(tmp_path: Path) -> None:
    """The container starts if all three standard streams are closed."""
    command = [sys.executable, "-m", "nriplugin", "hook", *Bundle(tmp_path).options()]
    script = 'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *command], check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0


def test_a_state_that_never_ends_is_given_up(tmp_path: Path) -> None:
    """The hook ends at its deadline if the runtime never closes the pipe."""
    soon = "import nriplugin.doors.hook.deadline as d; d.SECONDS = 0.01\n"
    read_end, write_end = os.pipe()
    try:
        # In a process of its own: the timer is one that pytest uses as well.
        done = subprocess.run(
            [sys.executable, "-c", soon + MODULES, "hook", *Bundle(tmp_path).options()],
            stdin=read_end,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    finally:
        os.close(read_end)
        os.close(write_end)
    assert done.returncode == 0
    assert done.stderr == "nriplugin: hook: not done after 0.01 seconds\n"


def test_no_handler_takes_the_deadline_for_its_own_failure() -> None:
    """`except Exception` does not catch the deadline."""
    read_end, write_end = os.pipe()

    def wait() -> None:
        with limit(0.01):
            try:
                os.read(read_end, 1)
            except Exception:  # noqa: BLE001 - as the engine does
                pytest.fail("the deadline was caught")

    try:
        with pytest.raises(DeadlinePassed):
            wait()
    finally:
        os.close(read_end)
        os.close(write_end)


def test_the_deadline_is_named_even_if_it_interrupts_an_import() -> None:
    """Python wraps an exception that is raised while a class is being made."""
    read_end, write_end = os.pipe()

    class Slow:
        def __set_name__(self, owner: type, name: str) -> None:
            os.read(read_end, 1)

    def make_class() -> None:
        with limit(0.01):
            type("Owner", (), {"attribute": Slow()})

    try:
        with pytest.raises(DeadlinePassed, match="not done after"):
            make_class()
    finally:
        os.close(read_end)
        os.close(write_end)


KEYS = (
    *("linux", "resources", "cpu", "shares", "quota", "memory", "limit", "unified"),
    *("cgroupsPath", "annotations", "process", "oomScoreAdj", "id", "bundle", "pid"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(state=JSON | st.text(), spec=JSON | st.text(), named=st.booleans())
def test_whatever_the_runtime_says_a_container_starts(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: object,
    spec: object,
    named: bool,
) -> None:
    """Any state and any config.json: exit code 0, at most one line, no traceback."""
    bundle = Bundle(tmp_path_factory.mktemp("any"))
    text = spec if isinstance(spec, str) else json.dumps(spec)
    (bundle.directory / "config.json").write_bytes(text.encode("utf-8", "replace"))
    given_state = bundle.state if named else state
    words = given_state if isinstance(given_state, str) else json.dumps(given_state)
    file = bundle.top / "state.json"
    file.write_bytes(words.encode("utf-8", "replace"))
    with file.open("rb") as stdin:
        monkeypatch.setattr("nriplugin.cli.hook_run.STDIN", stdin.fileno())
        assert main(["hook", *bundle.options()]) == 0
    error = capsys.readouterr().err
    assert error.count("\n") == (1 if error else 0)
    assert "Traceback" not in error


WORDS = st.sampled_from(
    [
        *("--config", "--config=a", "--config=", "--state-dir", "--state-dir=--x"),
        *("--host-root", "--cgroup-root", "--failure-policy", "--failure-policy=fail"),
        *(
            "--failure-policy=none",
            "--conf",
            "--",
            "-",
            "-1",
            "a",
            "",
            "fail",
            "ignore",
        ),
        *("install", "--unknown"),
    ]
)


@given(argv=st.lists(WORDS, max_size=5))
def test_a_command_line_means_the_same_with_and_without_the_parser(
    argv: list[str],
) -> None:
    """Whatever parse_options accepts, argparse accepts with the same values."""
    quick = parse_options(argv)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    hook_command.add_arguments(parser)
    if quick is not None:
        parsed = parser.parse_args(argv)
        assert HookOptions(*(getattr(parsed, name) for name in quick._fields)) == quick


def test_the_options_that_install_writes_need_no_parser(tmp_path: Path) -> None:
    """parse_options accepts them, so that no container waits for argparse."""
    config = tmp_path / "config.yaml"
    config.touch()
    given_options = ["--config", str(config), "--failure-policy", "fail"]
    where = ["--hooks-dir", str(tmp_path), "--state-dir", str(tmp_path)]
    assert main(["hook", "install", *where, *given_options]) == 0
    document = json.loads((tmp_path / "90-nriplugin.json").read_text())
    assert parse_options(document["hook"]["args"][2:]) == HookOptions(
        config=str(config), failure_policy="fail", state_dir=str(tmp_path)
    )


def test_install_and_uninstall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The installed file names a program and options that run the hook."""
    directory = tmp_path / "hooks.d"
    directory.mkdir()
    config = tmp_path / "config.yaml"
    config.write_text("cpuQoS: {enabled: true, level: BE}\n")
    where = ["--hooks-dir", str(directory)]
    bundle = Bundle(tmp_path)
    more = ["--config", str(config), "--state-dir", str(bundle.state_dir)]
    assert main(["hook", "install", *where, *more]) == 0
    (path,) = directory.iterdir()
    assert capsys.readouterr().out.startswith(f"{path}: written; ")
    installed = json.loads(path.read_text())["hook"]
    assert installed["args"] == ["nriplugin", "hook", *more]
    subprocess.run(
        [installed["path"], *installed["args"][1:], *bundle.options()],
        input=json.dumps(bundle.state),
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env=BARE,
    )
    assert bundle.read("cpu.idle") == {"cpu.idle": "1"}
    assert main(["hook", "uninstall", *where]) == 0
    assert [*directory.iterdir()] == []
    assert main(["hook", "uninstall", *where]) == 0
    assert capsys.readouterr().out.endswith(": not there, nothing to remove\n")


def test_options_before_install_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that both have may stand before or after `install`."""
    command = ["hook", "--failure-policy", "fail", "install", "--dry-run"]
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["hook"]["args"][2:] == ["--failure-policy", "fail"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--stage", "precreate"], "--stage: 'precreate', expected prestart, "),
        (["--annotation", "a=("], "--annotation a: '('"),
        (["--name", "x"], "--name: 'x', expected NAME.json without /"),
        (["--hooks-dir", "/nonexistent"], "--hooks-dir: '/nonexistent', expected a"),
        (["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
    ],
)
def test_a_mistake_at_install_is_exit_code_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
) -> None:
    """The mistake is one line, and no file is written."""
    where = ["--hooks-dir", str(tmp_path)]
    assert main(["hook", "install", *where, *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_a_dry_run_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--dry-run prints the content of the file."""
    assert main(["hook", "install", "--hooks-dir", str(tmp_path), "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == "1.0.0"
    assert [*tmp_path.iterdir()] == []
