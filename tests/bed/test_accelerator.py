"""When nodes run under KVM, and when they are emulated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import pytest
from nodes.accelerator import TCG, choose, kvm, parse_flags, remembered
from nodes.shell import NodeError

if TYPE_CHECKING:
    from pathlib import Path

INTEL, AMD = frozenset({"fpu", "vmx"}), frozenset({"fpu", "svm"})
NEITHER = frozenset({"fpu", "hypervisor"})


def yes() -> bool:
    return True


def no() -> bool:
    return False


def not_asked() -> NoReturn:
    raise AssertionError("asked without need")


@pytest.mark.parametrize("flags", [INTEL, AMD])
def test_kvm_where_a_guest_boots(flags: frozenset[str]) -> None:
    """On processors of both makers, with the host's processor and all cores."""
    chosen = choose("auto", 8, flags, yes, yes).accelerator
    assert chosen == kvm(8)
    assert " ".join(chosen.options).startswith("-accel kvm -cpu host -smp 8 ")


def test_a_guest_has_two_cpus_at_least() -> None:
    """The tests use CPUs 0 and 1 by number, whatever the host has."""
    for accelerator in (kvm(1), TCG):
        place = accelerator.options.index("-smp")
        assert accelerator.options[place + 1] == "2"


def test_no_kvm_without_virtualization() -> None:
    """A /dev/kvm alone is not enough: then it is not even opened."""
    choice = choose("auto", 8, NEITHER, not_asked, not_asked)
    assert choice == (TCG, "the processor has neither vmx nor svm")


def test_no_kvm_without_the_device() -> None:
    """It may be missing, or another user's."""
    choice = choose("auto", 8, INTEL, no, not_asked)
    assert choice == (TCG, "/dev/kvm cannot be opened")


def test_no_kvm_if_no_guest_boots() -> None:
    """A virtual machine may offer a /dev/kvm that cannot run a guest."""
    choice = choose("auto", 8, INTEL, yes, no)
    assert choice == (TCG, "no guest boots under KVM here")


@pytest.mark.parametrize(("wanted", "accelerator"), [("kvm", kvm(4)), ("tcg", TCG)])
def test_the_variable_decides_without_asking(wanted: str, accelerator: object) -> None:
    """NRIPLUGIN_ACCEL wins over whatever the machine has."""
    choice = choose(wanted, 4, NEITHER, not_asked, not_asked)
    assert choice == (accelerator, f"NRIPLUGIN_ACCEL is {wanted}")


def test_another_value_of_the_variable_is_refused() -> None:
    """One line names the variable, its value and what was expected."""
    with pytest.raises(NodeError, match="'hvf', expected auto, kvm or tcg"):
        choose("hvf", 4, INTEL, yes, yes)


def test_flags_are_read_from_cpuinfo() -> None:
    """Of the first processor; `vmx flags` is another line."""
    text = "processor\t: 0\nvmx flags\t: vnmi\nflags\t\t: fpu vmx sse\n\nflags\t: svm\n"
    assert parse_flags(text) == {"fpu", "vmx", "sse"}
    assert parse_flags("Features\t: fp asimd\n") == frozenset()


def test_the_answer_is_kept_for_a_kernel_and_a_qemu(tmp_path: Path) -> None:
    """A guest is booted once, and again when one of the two has changed."""
    file = tmp_path / "cache/kvm.json"
    assert remembered(file, "6.1; 7.2", no) is False
    assert remembered(file, "6.1; 7.2", not_asked) is False
    assert remembered(file, "6.2; 7.2", yes) is True
    assert json.loads(file.read_text()) == {"6.2; 7.2": True}


def test_a_damaged_cache_is_written_anew(tmp_path: Path) -> None:
    """As if there were none."""
    file = tmp_path / "kvm.json"
    file.write_text("{")
    assert remembered(file, "a", yes) is True
    assert remembered(file, "a", not_asked) is True
