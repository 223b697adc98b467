"""The screens in docs/operating.md are there, and were made by `hack/screens`."""

from __future__ import annotations

from drawing.screens import PAGE, comparable, screens, shown_screens


def test_every_command_of_the_page_has_its_output() -> None:
    """A screen begins with its command; `hack/screens` fills it."""
    page = PAGE.read_text(encoding="utf-8")
    found = shown_screens(page)
    assert page.count("<!-- screen:") == page.count("<!-- end of screen -->")
    assert len(found) == page.count("<!-- screen:")
    assert {command.split()[0] for command in found} == {
        *("status", "why", "events", "reload"),
    }
    for command, shown in found.items():
        lines = shown.splitlines()
        assert lines[:2] == ["```console", f"$ nriplugin {command}"]
        assert lines[-1] == "```"
        assert len(lines) > 3


def test_the_page_shows_what_the_commands_print() -> None:
    """A change of a page, or a new handler, needs another run of `hack/screens`."""
    shown = shown_screens(PAGE.read_text(encoding="utf-8"))
    made = screens(list(shown))
    assert {c: comparable(text) for c, text in shown.items()} == {
        c: comparable(text) for c, text in made.items()
    }


def test_a_comparison_leaves_out_what_differs_each_time() -> None:
    """Times, sizes and widths differ; figures and words do not."""
    one = "pid 17, started 2026-01-01T00:00:00Z (1 s ago)\n  Create  3   0.5 ms\n"
    same = "pid 4, started 2027-01-01T00:00:00Z (now)\n  Create  3  12 ms\n"
    other = "pid 4, started 2027-01-01T00:00:00Z (now)\n  Create  4  12 ms\n"
    assert comparable(one) == comparable(same) != comparable(other)
