"""Programs that Debian lacks, in released versions, built with Go.

Each has a module of its own in programs/, whose go.sum pins what the proxy may send.
"""

from __future__ import annotations

import os
from pathlib import Path

from nodes.cache import built, digest
from nodes.shell import run

MODULES = Path(__file__).parent / "programs"
CRIO = "github.com/cri-o/cri-o"


def crictl() -> Path:
    """Return the directory with `crictl`."""
    return built(
        "crictl",
        _key("crictl"),
        "crictl: building (about a minute)",
        lambda directory: _go_build(
            "crictl", "sigs.k8s.io/cri-tools/cmd/crictl", directory
        ),
    )


def critest() -> Path:
    """Return the directory with `critest`, the CRI's own conformance tests."""
    return built(
        "critest",
        _key("critest"),
        "critest: building (about a minute)",
        lambda directory: _go_build(
            "critest", "sigs.k8s.io/cri-tools/cmd/critest", directory, test=True
        ),
    )


def crio() -> Path:
    """Return the directory with `crio` and `pinns`, its helper that pins namespaces."""

    def build(directory: Path) -> None:
        # These tags leave out signatures and btrfs, which need C libraries.
        tags = "containers_image_openpgp exclude_graphdriver_btrfs"
        _go_build("crio", f"{CRIO}/cmd/crio", directory, tags)
        source = run(
            *("go", "list", "-m", "-f", "{{.Dir}}", CRIO),
            cwd=MODULES / "crio",
            env=_environ(),
        )
        files = sorted(Path(source.strip(), "pinns/src").glob("*.c"))
        run("gcc", "-std=c99", "-Os", "-static", "-o", directory / "pinns", *files)

    return built("crio", _key("crio"), "CRI-O: building (about three minutes)", build)


def memory_qos() -> Path:
    """Return the directory with `memory-qos`, an NRI plugin of the nri-plugins project.

    Its go.mod requires one module that no module proxy has and that memory-qos does not
    use; programs/memory-qos replaces it by an empty one.
    """
    return built(
        "memory-qos",
        _key("memory-qos"),
        "memory-qos: building (about a minute)",
        lambda directory: _go_build(
            "memory-qos",
            "github.com/containers/nri-plugins/cmd/plugins/memory-qos",
            directory,
        ),
    )


def _key(name: str) -> str:
    return digest(MODULES / name, run("go", "env", "GOVERSION"), Path(__file__))


def _environ() -> dict[str, str]:
    # The user's own Go settings must not change the result.
    fixed = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **fixed, "GOFLAGS": "-mod=readonly"}


def _go_build(
    name: str, package: str, directory: Path, tags: str = "", *, test: bool = False
) -> None:
    """Build a program, or one that is made of a package's tests."""
    how = ("test", "-c") if test else ("build",)
    run(
        *("go", *how, "-trimpath", "-buildvcs=false", "-ldflags=-s -w"),
        *(f"-tags={tags}", "-o", directory / name, package),
        cwd=MODULES / name,
        env=_environ(),
        limit_s=1800,
    )
