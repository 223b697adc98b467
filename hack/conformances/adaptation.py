"""NRI's own tests of pkg/adaptation, the runtime side that containerd and CRI-O link.

The tests have a runtime of their own and plugins within the test's process, so nothing
of them runs through nriplugin as it stands. They are compiled with one change: their
runtime launches the plugins in a directory that an environment variable names. With
nriplugin there, it is one more plugin in each test, the last one: requests are answered
by it, too, and its answers are merged with those of the test's own plugins.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import built, digest
from nodes.programs import MODULES
from nodes.shell import NodeError, run

from conformances.gotest import parse_go_test
from conformances.outcomes import Run
from conformances.ways import WITHOUT
from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULE = "github.com/containerd/nri"
HERE = MODULES / "nri-adaptation"
ADDED = Path(__file__).with_name("plugins_of_test.go")
# What is replaced in the module's suite_test.go, and by what.
CHANGE = 'filepath.Join(dir, "opt", "nri", "plugins")', "pluginsOf(dir)"
# The plugin has to start anew in each of about three hundred tests.
LIMIT_S = 1800

# The plugin logs this once for each runtime.
REGISTERED = "registered with"

EXPLAINED: Mapping[str, str] = {}


def program() -> Path:
    """Return the compiled tests."""

    def build(directory: Path) -> None:
        module = Path(json.loads(_go("mod", "download", "-json", MODULE))["Dir"])
        copy = directory / "nri"
        # Without the modes of the module cache, where nothing may be written.
        shutil.copytree(module, copy, copy_function=shutil.copyfile)
        suite = copy / "pkg/adaptation/suite_test.go"
        text = suite.read_text()
        if text.count(CHANGE[0]) != 1:
            raise NodeError(
                f"{MODULE}: suite_test.go names the plugins differently now"
            )
        suite.write_text(text.replace(*CHANGE))
        shutil.copy(ADDED, suite.parent)
        result = str(directory / "adaptation.test")
        _go("test", "-c", "-trimpath", "-o", result, "./pkg/adaptation", cwd=copy)
        shutil.rmtree(copy)

    key = digest(HERE, ADDED, Path(__file__), run("go", "env", "GOVERSION"))
    what = "NRI's tests of its runtime side: building (about half a minute)"
    return built("nri-adaptation", key, what, build) / "adaptation.test"


def _go(*args: str, cwd: Path = HERE) -> str:
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    environ = {**os.environ, **fixed, "GOFLAGS": "-mod=readonly"}
    return run("go", *args, cwd=cwd, env=environ)


def run_tests(way: str) -> Run:
    """Run the tests once on this machine and return their outcomes."""
    tests = program()
    began = time.monotonic()
    notes = []
    with tempfile.TemporaryDirectory(prefix="nriplugin-adaptation-") as scratch:
        environ = {**os.environ, "TMPDIR": scratch}
        plugins, log = Path(scratch) / "plugins", Path(scratch) / "log"
        if way != WITHOUT:
            plugins.mkdir()
            _install(plugins / "99-nriplugin", log)
            environ["LAUNCHED_PLUGINS"] = str(plugins)
        done = subprocess.run(
            [tests, "-test.v", f"-test.timeout={LIMIT_S}s"],
            env=environ,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if way != WITHOUT:
            count = log.read_text().count(REGISTERED) if log.exists() else 0
            if not count:
                raise NodeError(
                    "nriplugin has not registered with a runtime of the tests"
                )
            notes = [f"nriplugin registered with {count} runtimes."]
    return Run(way, parse_go_test(done.stdout), time.monotonic() - began, notes=notes)


def _install(path: Path, log: Path) -> None:
    """Write a program that the runtime launches as the plugin."""
    # The runtime passes no environment on, and this machine may have cgroup v1.
    options = ("--read-only", "--control", "off", "--http", "off")
    command = shlex.join([sys.executable, "-m", "nriplugin", "run", *options])
    said = shlex.quote(str(log))
    path.write_text(f"#!/bin/sh\nNRIPLUGIN_CGROUP_VERSION=2 exec {command} 2>>{said}\n")
    path.chmod(0o755)


def versions() -> dict[str, str]:
    """Return the versions of everything that takes part."""
    nri = _go("list", "-m", "-f", "{{.Version}}", MODULE).strip()
    return {"nri": nri.removeprefix("v"), "nriplugin": __version__}
