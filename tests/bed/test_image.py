"""The image that hack/image builds: the archive, its SBOM, what could break them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from images.archive import Image, layer, write_archive
from images.debian import Package
from images.libraries import missing_libraries, needed
from images.main import CONFIG
from images.sbom import spdx
from images.wheels import LOCK, PROCESSORS, Wheel, unpack
from nodes.shell import NodeError
from support.needs import need

TOP = Path(__file__).parents[2]
IMAGE = TOP / "deploy/image"
EPOCH = 1_700_000_000


def make_tree(top: Path, names: tuple[str, ...], umask: int) -> Path:
    """Make files in a given order, as different builders would have them."""
    before = os.umask(umask)
    try:
        for name in names:
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (top / "bin/tool").chmod(0o755)
        (top / "lib").symlink_to("usr/lib")
    finally:
        os.umask(before)
    return top


def archive_of(tree: Path, file: Path) -> bytes:
    image = Image(
        name="registry.example/a:1",
        architecture="amd64",
        epoch=EPOCH,
        config=CONFIG,
        layers=(("all", tree),),
    )
    write_archive(image, file)
    return file.read_bytes()


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    """The order, the times, the owner and the umask of a build do not count."""
    names = ("bin/tool", "usr/lib/a", "usr/lib/b")
    one = make_tree(tmp_path / "one", names, 0o022)
    two = make_tree(tmp_path / "two", names[::-1], 0o077)
    os.utime(two / "bin/tool", (1, 1))
    first = archive_of(one, tmp_path / "1.tar")
    assert first == archive_of(two, tmp_path / "2.tar")
    (two / "usr/lib/a").write_text("changed")
    assert first != archive_of(two, tmp_path / "2.tar")


def test_everything_in_a_layer_is_roots(tmp_path: Path) -> None:
    """No file can be changed by another user, or runs as another user."""
    tree = make_tree(tmp_path / "tree", ("bin/tool", "usr/lib/a"), 0o000)
    (tree / "bin/tool").chmod(0o6777)
    with tarfile.open(fileobj=io.BytesIO(layer(tree, EPOCH))) as tar:
        entries = {entry.name: entry for entry in tar}
    assert list(entries) == sorted(entries)
    for entry in entries.values():
        assert (entry.uid, entry.gid, entry.mtime) == (0, 0, EPOCH)
    assert entries["bin/tool"].mode == 0o755
    assert entries["usr/lib/a"].mode == 0o644
    assert (entries["lib"].issym(), entries["lib"].linkname) == (True, "usr/lib")


def test_the_archive_is_an_oci_layout(tmp_path: Path) -> None:
    """Every blob has the name of its digest, and the index leads to all of them."""
    tree = make_tree(tmp_path / "tree", ("bin/tool",), 0o022)
    archive_of(tree, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        files = {name: _content(tar, name) for name in tar.getnames()}
    assert json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files.pop("index.json"))["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "registry.example/a:1"
    manifest = json.loads(files[_blob(entry)])
    named = {_blob(each) for each in (entry, manifest["config"], *manifest["layers"])}
    assert named == set(files)
    for name, content in files.items():
        assert name.rpartition("/")[2] == hashlib.sha256(content).hexdigest()
    config = json.loads(files[_blob(manifest["config"])])
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["config"]["Entrypoint"] == ["/opt/nriplugin/bin/nriplugin"]
    assert "Healthcheck" not in config["config"]


def _blob(entry: Any) -> str:
    return str(entry["digest"]).replace("sha256:", "blobs/sha256/")


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def test_a_library_that_the_image_lacks_is_found(tmp_path: Path) -> None:
    """protobuf would run without libstdc++, but many times slower."""
    program = Path(sys.executable).resolve()
    libraries = set(needed(program.read_bytes()))
    assert "libc.so.6" in libraries
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "program").write_bytes(program.read_bytes())
    assert set(missing_libraries(tmp_path)) == libraries
    for name in libraries - {"libc.so.6"}:
        (tmp_path / "usr/lib" / name).touch()
    assert missing_libraries(tmp_path) == {"libc.so.6": {"program"}}


def document() -> Any:
    package = Package(
        name="libc6",
        version="2.41-12+deb13u4",
        architecture="amd64",
        source="glibc",
        sha256="a" * 64,
        control="",
        file=Path("libc6.deb"),
    )
    wheel = Wheel(
        name="prometheus_client",
        version="0.26.0",
        licence="Apache-2.0 AND BSD-2-Clause",
        sha256="b" * 64,
        file=Path("prometheus_client-0.26.0-py3-none-any.whl"),
    )
    return spdx(
        name="nriplugin",
        version="1",
        digest="sha256:" + "c" * 64,
        architecture="amd64",
        epoch=EPOCH,
        packages=[package],
        wheels=[wheel],
    )


def wheel_of(file: Path, *names: str) -> Path:
    """Make a wheel of a package, with further files."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/__init__.py", "")
        archive.writestr("a-1.dist-info/METADATA", "Name: a\nVersion: 1\n\n")
        for name in names:
            archive.writestr(name, "text")
    return file


def test_manual_pages_are_left_out(tmp_path: Path) -> None:
    """The image has no `man`; the rest of the wheel is where Python finds it."""
    wheel = wheel_of(tmp_path / "a.whl", "a-1.data/data/share/man/man1/a.1")
    (told,) = unpack([wheel], tmp_path / "tree")
    assert (told.name, told.version) == ("a", "1")
    packages = next(tmp_path.glob("tree/opt/nriplugin/lib/python*/site-packages"))
    assert sorted(one.name for one in packages.iterdir()) == ["a", "a-1.dist-info"]


def test_other_data_of_a_wheel_is_refused(tmp_path: Path) -> None:
    """A wheel is only unpacked, so what pip would put elsewhere would be missing."""
    wheel = wheel_of(tmp_path / "a.whl", "a-1.data/scripts/a")
    with pytest.raises(NodeError, match="has files outside of site-packages"):
        unpack([wheel], tmp_path / "tree")


def built_image(version: str, directory: Path) -> Path:
    """Run hack/image on this checkout."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        need("image", "apt-get and dpkg-deb are not installed")
    done = subprocess.run(
        [TOP / "hack/image", "--output", directory, "--name", f"a/nriplugin:{version}"],
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("image: ")]
    if done.returncode and "downloading" in said[-2]:
        need("packages", done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    [file] = directory.glob("*.oci.tar")
    return file


def files_of(archive: Path, tree: Path) -> None:
    """Put the files of an image's layers into a directory."""
    with tarfile.open(archive) as tar:

        def blob(described: Any) -> bytes:
            name = described["digest"].replace(":", "/")
            reader = tar.extractfile(f"blobs/{name}")
            assert reader is not None
            return reader.read()

        index = tar.extractfile("index.json")
        assert index is not None
        manifest = json.loads(blob(json.loads(index.read())["manifests"][0]))
        for each in manifest["layers"]:
            subprocess.run(["tar", "-xz", "-C", tree], input=blob(each), check=True)


@pytest.mark.timeout(1800)
def test_the_image_is_built_twice_the_same_and_runs(tmp_path: Path) -> None:
    """nriplugin starts with the image's files alone; the SBOM lists its wheels."""
    first, second = tmp_path / "first", tmp_path / "second"
    archive = built_image("1", first)
    again = built_image("1", second)
    assert archive.read_bytes() == again.read_bytes()
    [said] = first.glob("*.spdx.json")
    assert said.read_bytes() == (second / said.name).read_bytes()
    tree = tmp_path / "tree"
    tree.mkdir()
    files_of(archive, tree)
    listed = {one["name"] for one in json.loads(said.read_text())["packages"]}
    installed = {
        path.name.partition("-")[0].replace("_", "-")
        for path in tree.glob("opt/nriplugin/lib/python*/site-packages/*.dist-info")
    }
    assert {"nriplugin", "protobuf", "grpcio", "msgspec"} <= installed
    assert {one.lower() for one in installed} <= {
        one.lower().replace("_", "-") for one in listed
    }
    if os.geteuid() != 0:
        need("root", "chroot is for root")
    # The environment is the image's, in which there is no chroot.
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    inside = [chroot, str(tree), *CONFIG["Entrypoint"]]
    for words, told in (
        (("version",), "(upb)"),
        (("demo",), "cpu.max.burst"),
        (("run", "--help"), "--metrics-per-pod"),
    ):
        done = subprocess.run(
            [*inside, *words],
            env=dict(one.split("=", 1) for one in CONFIG["Env"]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert told in done.stdout


def test_the_sbom_has_what_spdx_asks_for() -> None:
    """The image contains every package, each with version, hash and package URL."""
    made = document()
    assert made["spdxVersion"] == "SPDX-2.3"
    assert made["dataLicense"] == "CC0-1.0"
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", made["documentNamespace"])
    image, *contained = made["packages"]
    ids = [one["SPDXID"] for one in made["packages"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", one) for one in ids)
    locators = [one["externalRefs"][0]["referenceLocator"] for one in contained]
    assert locators == [
        "pkg:deb/debian/libc6@2.41-12%2Bdeb13u4?arch=amd64",
        "pkg:pypi/prometheus-client@0.26.0",
    ]
    relations = [
        (one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
        for one in made["relationships"]
    ]
    assert relations == [
        ("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"]),
        *((image["SPDXID"], "CONTAINS", one["SPDXID"]) for one in contained),
    ]


def test_an_sbom_is_as_reproducible_as_its_image() -> None:
    """Neither the time nor chance is in it."""
    assert document() == document()


def test_every_wheel_is_locked_for_every_architecture() -> None:
    """A package has one wheel for all, or one for each architecture."""
    entries = LOCK.read_text().replace("\\\n", "").splitlines()
    locked = [line.split() for line in entries if not line.startswith("#")]
    for name, *hashes in locked:
        assert re.fullmatch(r"[a-z0-9_-]+==[0-9.]+", name)
        assert len(hashes) in (1, len(PROCESSORS))
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
    names = {name.partition("==")[0].replace("_", "-") for name, *_ in locked}
    assert {"protobuf", "grpcio", "prometheus-client", "msgspec", "pyyaml"} <= names


def test_the_containerfile_says_what_the_archive_says() -> None:
    """Both ways to the image give a container the same settings."""
    lines = (IMAGE / "Containerfile").read_text().rpartition("FROM scratch")[2]
    said = dict(
        line.split(" ", 1)
        for line in lines.splitlines()
        if line and not line.startswith("#")
    )
    assert said["ENV"].split() == CONFIG["Env"]
    assert said["USER"] == CONFIG["User"]
    assert said["WORKDIR"] == CONFIG["WorkingDir"]
    assert said["STOPSIGNAL"] == CONFIG["StopSignal"]
    assert yaml.safe_load(said["ENTRYPOINT"]) == CONFIG["Entrypoint"]
    assert yaml.safe_load(said["CMD"]) == CONFIG["Cmd"]
    assert "HEALTHCHECK" not in said


@pytest.mark.parametrize(
    ("arguments", "environ", "told"),
    [
        (["--name", "nriplugin"], {}, "--name: 'nriplugin', expected a whole name"),
        (["--output", __file__], {}, "is a file, expected a directory"),
        (["--tree", str(TOP)], {}, "is not empty, expected"),
        (["--arch", "pdp11"], {}, "--arch: invalid choice: 'pdp11'"),
        ([], {"SOURCE_DATE_EPOCH": "noon"}, "SOURCE_DATE_EPOCH: 'noon', expected"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], environ: dict[str, str], told: str
) -> None:
    """The exit code is 2, and nothing is built."""
    done = subprocess.run(
        [sys.executable, "-m", "images.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TOP / 'hack'}:{TOP}", **environ},
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
