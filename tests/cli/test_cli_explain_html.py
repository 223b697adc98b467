"""`explain --html`: one page that refers to nothing outside of itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

POD = """\
kind: Pod
metadata:
  name: db
  namespace: shop
  annotations: {cpu-burst.cgroup2.nri.io: "<script>alert(1)</script>"}
spec:
  containers:
  - name: app
    resources: {requests: {memory: 512m}, limits: {cpu: 1, memory: 1Gi}}
  - name: other
---
kind: Deployment
metadata: {name: web}
spec: {replicas: 1, template: {spec: {containers: [{name: a}, {name: b}, {name: c},
  {name: d}, {name: e}]}}}
"""
CONFIG = "memoryQoS: {enabled: true}\ncpuBurst: {enabled: true}\n"


class Elements(HTMLParser):
    """Counts elements, and notes those that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(tmp_path: Path, *options: str) -> str:
    manifest, config = tmp_path / "pod.yaml", tmp_path / "config.yaml"
    manifest.write_text(POD)
    config.write_text(CONFIG)
    file = tmp_path / "page.html"
    arguments = ["explain", "--config", str(config), "--html", str(file), *options]
    assert main([*arguments, str(manifest)]) == 0
    return file.read_text(encoding="utf-8")


def test_a_picture_for_each_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All elements are closed; the table is printed as without the option."""
    text = page(tmp_path)
    found = Elements()
    found.feed(text)
    assert found.open == []
    assert found.seen.count("svg") == 2
    assert "memory.high = " in text
    assert ", 1 replica<" in text
    assert "512m is 0.512 bytes" in text
    assert "Pod shop/db" in capsys.readouterr().out


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    """No script, nothing that is loaded, and texts of the manifest are escaped."""
    text = page(tmp_path)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    addresses = re.findall(r"(?:src|href|url)\s*[=(]\s*['\"]?[^'\" >)]*", text)
    assert addresses == []
    assert set(re.findall(r"https?://[^\"'< ]+", text)) <= {
        "http://www.w3.org/2000/svg"
    }


def test_boxes_do_not_overlap(tmp_path: Path) -> None:
    """Five containers take two rows; all of their boxes are in the pod's."""
    for svg in re.findall(r"<svg.*?</svg>", page(tmp_path), re.DOTALL):
        width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0])
        boxes = [
            tuple(map(float, found))
            for found in re.findall(
                r'class="container" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"',
                svg,
            )
        ]
        assert boxes
        for x, y, w, h in boxes:
            assert x + w <= width
            assert y + h <= height
            for left, top, wide, high in boxes:
                if (x, y) != (left, top):
                    apart = x + w <= left or left + wide <= x
                    assert apart or y + h <= top or top + high <= y


def test_a_file_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, before anything is printed."""
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD)
    assert main(["explain", "--html", str(tmp_path), str(manifest)]) == 2
    told = capsys.readouterr()
    assert "expected a file to write" in told.err
    assert told.out == ""
