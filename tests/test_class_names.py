from __future__ import annotations

from typing import TYPE_CHECKING

from checks.class_names import duplicates

if TYPE_CHECKING:
    from pathlib import Path


def test_a_class_name_that_is_defined_twice_is_found(tmp_path: Path) -> None:
    """In two modules or in one, nested or not; a name that is only used is not."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("class Plan: pass\nclass Once: pass\n")
    (tmp_path / "inner" / "b.py").write_text(
        "from a import Once\ndef make():\n    class Plan: pass\n    return Plan, Once\n"
    )
    assert duplicates(tmp_path) == {
        "Plan": [f"{tmp_path}/a.py:1", f"{tmp_path}/inner/b.py:3"]
    }


def test_generated_code_is_left_out(tmp_path: Path) -> None:
    """Two protocols may both have a message Container."""
    for name in ("nri_pb2.py", "cri_pb2.py"):
        (tmp_path / name).write_text("class Container: pass\n")
    assert duplicates(tmp_path) == {}
