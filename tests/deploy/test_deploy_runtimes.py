from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize(("file", "version"), [("nri-1.7.toml", 2), ("nri-2.toml", 3)])
def test_containerd_is_told_to_have_nri(file: str, version: int) -> None:
    """The setting is in the section and format version that containerd reads."""
    assert tomllib.loads((DEPLOY / "containerd" / file).read_text()) == {
        "version": version,
        "plugins": {"io.containerd.nri.v1.nri": {"disable": False}},
    }


def test_crio_is_told_to_have_nri() -> None:
    """The file switches NRI on and sets nothing else."""
    content = tomllib.loads((DEPLOY / "crio/10-nri.conf").read_text())
    assert content == {"crio": {"nri": {"enable_nri": True}}}


def test_the_readme_names_what_is_there() -> None:
    """Every link has its file, and every file has a link."""
    links = re.findall(r"\]\(([^)#]+)\)", (DEPLOY / "README.md").read_text())
    named = {(DEPLOY / link).resolve() for link in links if "://" not in link}
    for path in named:
        assert path.exists(), path
    ours = [p for p in DEPLOY.rglob("*") if p.is_file() and p.name != "README.md"]
    for path in ours:
        assert named & {path, *path.parents}, f"{path} is not in the README"
