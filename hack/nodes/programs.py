"""Programs that Debian lacks, or has only in older versions, built with Go.

Each module in programs/ pins what the module proxy may send by its go.sum. One program
is this project's own and has its module in tests/interop/go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY, built, digest, say
from nodes.shell import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MODULES = Path(__file__).parent / "programs"
KUBERNETES = "k8s.io/kubernetes"
KUBERNETES_VERSION = "v1.37.1"
CONTAINERD = "github.com/containerd/containerd/v2/cmd"
CRIO = "github.com/cri-o/cri-o"
# Next to other work, kubelet's packages have taken twenty minutes on two cores.
LIMIT_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One or more programs that are built and kept together.

    `module` is the directory in programs/, or an absolute path, `packages` has the
    package of each program, `about` says how long a build takes. With `test` a program
    is made of a package's tests. With `cgo` it is linked statically, because it must
    run on every root. `version` is the variable that the program prints as its version,
    and its value. `modfile` is used in place of the module's go.mod.
    """

    name: str
    module: str
    about: str
    packages: Mapping[str, str]
    tags: str = ""
    version: str = ""
    modfile: str = ""
    cgo: bool = False
    test: bool = False
    more: Callable[[Path], None] | None = field(default=None, compare=False)


def _pinns(directory: Path) -> None:
    """Build CRI-O's helper that pins namespaces, which is written in C."""
    source = run(
        *("go", "list", "-m", "-f", "{{.Dir}}", CRIO),
        cwd=MODULES / "crio",
        env=go_environment(),
    )
    files = sorted(Path(source.strip(), "pinns/src").glob("*.c"))
    run("gcc", "-std=c99", "-Os", "-static", "-o", directory / "pinns", *files)


_OF_KUBERNETES = f"k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="crictl",
            module="crictl",
            about="about a minute",
            packages={"crictl": "sigs.k8s.io/cri-tools/cmd/crictl"},
        ),
        # The CRI's own conformance tests.
        Program(
            name="critest",
            module="critest",
            about="about a minute",
            packages={"critest": "sigs.k8s.io/cri-tools/cmd/critest"},
            test=True,
        ),
        Program(
            name="crio",
            module="crio",
            about="about three minutes",
            packages={"crio": f"{CRIO}/cmd/crio"},
            # These tags leave out signatures and btrfs, which need C libraries.
            tags="containers_image_openpgp exclude_graphdriver_btrfs",
            more=_pinns,
        ),
        # An NRI plugin of the nri-plugins project. Its go.mod requires one module that
        # no module proxy has and that memory-qos does not use; programs/memory-qos
        # replaces it by an empty one.
        Program(
            name="memory-qos",
            module="memory-qos",
            about="about a minute",
            packages={
                "memory-qos": "github.com/containers/nri-plugins/cmd/plugins/memory-qos"
            },
        ),
        # The tests' own NRI plugin, which hack/go-peers builds too, for other tests and
        # for more versions of NRI; the tags are those that hack/go-peers has for 0.12.
        Program(
            name="stubplugin",
            module=str(REPOSITORY / "tests/interop/go"),
            about="some seconds",
            packages={"stubplugin": "./stubplugin"},
            tags="nri08 nri010 nri012",
            modfile="mods/nri-0.12.5.mod",
        ),
        Program(
            name="containerd",
            module="containerd",
            about="about three minutes",
            packages={
                each: f"{CONTAINERD}/{each}"
                for each in ("containerd", "containerd-shim-runc-v2", "ctr")
            },
        ),
        # containerd's own tests of a running containerd.
        Program(
            name="containerd-integration",
            module="containerd-integration",
            about="about two minutes after containerd",
            packages={
                "containerd-integration.test": (
                    "github.com/containerd/containerd/v2/integration"
                )
            },
            test=True,
        ),
        Program(
            name="runc",
            module="runc",
            about="about half a minute",
            packages={"runc": "github.com/opencontainers/runc"},
            # containerd gives every pause container a seccomp profile.
            tags="netgo osusergo seccomp",
            cgo=True,
        ),
        Program(
            name="kubelet",
            module="kubernetes",
            about="about eight minutes",
            packages={"kubelet": f"{KUBERNETES}/cmd/kubelet"},
            version=_OF_KUBERNETES,
        ),
        Program(
            name="kubectl",
            module="kubernetes",
            about="about a minute after kubelet",
            packages={"kubectl": f"{KUBERNETES}/cmd/kubectl"},
            version=_OF_KUBERNETES,
        ),
        Program(
            name="control-plane",
            module="kubernetes",
            about="about four minutes after kubelet",
            packages={
                "etcd": "go.etcd.io/etcd/server/v3",
                **{
                    each: f"{KUBERNETES}/cmd/{each}"
                    for each in (
                        *("kube-apiserver", "kube-controller-manager"),
                        "kube-scheduler",
                    )
                },
            },
            version=_OF_KUBERNETES,
        ),
        # What the tests of the Helm chart run on this machine.
        Program(
            name="helm",
            module="helm",
            about="about five minutes",
            packages={"helm": "helm.sh/helm/v4/cmd/helm"},
            version="helm.sh/helm/v4/internal/version.version=v4.3.1",
        ),
        # Koordinator's proxy between kubelet and runtime, for hack/bench. Its own
        # module's `replace` block is repeated in programs/koord-runtime-proxy.
        Program(
            name="koord-runtime-proxy",
            module="koord-runtime-proxy",
            about="about five minutes",
            packages={
                "koord-runtime-proxy": (
                    "github.com/koordinator-sh/koordinator/cmd/koord-runtime-proxy"
                )
            },
        ),
        Program(
            name="kubeconform",
            module="kubeconform",
            about="about half a minute",
            packages={"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
        ),
        # kubelet's own functions, for tests/interop: they print what kubelet would
        # write. It has the modules of kubelet, with which it shares most packages.
        Program(
            name="kubelet-values",
            module="kubelet-values",
            about="about six minutes, some seconds after kubelet",
            packages={"kubelet-values": "."},
            version=_OF_KUBERNETES,
            modfile="../kubernetes/go.mod",
        ),
        # kubelet's own tests on a node, for hack/conformance.
        Program(
            name="e2e-node",
            module="kubernetes",
            about="about four minutes after the control plane",
            packages={"e2e_node.test": f"{KUBERNETES}/test/e2e_node"},
            version=_OF_KUBERNETES,
            test=True,
        ),
    )
}


def program(name: str) -> Path:
    """Return the directory with a program, which is built if it is not there."""
    wanted = PROGRAMS[name]

    def build(directory: Path) -> None:
        for number, (each, package) in enumerate(wanted.packages.items(), 1):
            if len(wanted.packages) > 1:
                say(f"{name}: {each}, {number} of {len(wanted.packages)}")
            _go_build(wanted, package, directory / each)
        if wanted.more is not None:
            wanted.more(directory)

    key = digest(
        MODULES / wanted.module, run("go", "env", "GOVERSION"), _text_of(wanted)
    )
    return built(name, key, f"{name}: building ({wanted.about})", build)


def _text_of(wanted: Program) -> str:
    """Return everything about a program on which the result of its build depends."""
    parts = (wanted.packages, wanted.tags, wanted.version, wanted.cgo, wanted.test)
    # Only where there is one, so that it does not change the keys of the others.
    return repr((*parts, wanted.modfile) if wanted.modfile else parts)


def go_environment(*, cgo: bool = False) -> dict[str, str]:
    """Return an environment for Go, in which the user's own settings do not count."""
    fixed = {"CGO_ENABLED": str(int(cgo)), "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return {**os.environ, **fixed, "GOFLAGS": "-mod=readonly"}


def _go_build(wanted: Program, package: str, result: Path) -> None:
    """Build a program, or one that is made of a package's tests."""
    linking = "-s -w"
    if wanted.version:
        linking += f" -X {wanted.version}"
    if wanted.cgo:
        linking += " -extldflags -static"
    how = ("test", "-vet=off", "-c") if wanted.test else ("build",)
    if wanted.modfile:
        how = (*how, f"-modfile={wanted.modfile}")
    run(
        *("go", *how, "-trimpath", "-buildvcs=false", f"-ldflags={linking}"),
        *(f"-tags={wanted.tags}", "-o", result, package),
        cwd=MODULES / wanted.module,
        env=go_environment(cgo=wanted.cgo),
        limit_s=LIMIT_S,
    )
