from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize(("file", "version"), [("nri-1.7.toml", 2), ("nri-2.toml", 3)])
def test_containerd_is_told_to_have_nri(file: str, version: int) -> None:
    """In the section that is read, and in that version of the format."""
    assert tomllib.loads((DEPLOY / "containerd" / file).read_text()) == {
        "version": version,
        "plugins": {"io.containerd.nri.v1.nri": {"disable": False}},
    }


def test_crio_is_told_to_have_nri() -> None:
    """And nothing else."""
    content = tomllib.loads((DEPLOY / "crio/10-nri.conf").read_text())
    assert content == {"crio": {"nri": {"enable_nri": True}}}


def test_the_readme_names_what_is_there() -> None:
    """Every file that it links to, and every file here is linked to."""
    links = re.findall(r"\]\(([^)#]+)\)", (DEPLOY / "README.md").read_text())
    named = {(DEPLOY / link).resolve() for link in links if "://" not in link}
    for path in named:
        assert path.exists(), path
    ours = [p for p in DEPLOY.rglob("*") if p.is_file() and p.name != "README.md"]
    for path in ours:
        assert named & {path, *path.parents}, f"{path} is not in the README"
