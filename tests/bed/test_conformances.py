from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from conformances import own
from conformances.comparing import compare, condense
from conformances.gotest import parse_go_test
from conformances.junit import parse_junit, parse_pytest
from conformances.main import PAGE, main
from conformances.network import ADDRESS, forwarded, own_network
from conformances.outcomes import FAILED, PASSED, SKIPPED, Outcome, Run
from conformances.record import Result, load, save
from conformances.suites import SUITES
from conformances.tables import BEGIN, END, with_results
from conformances.ways import WITH, WITHOUT
from support.needs import need

GO = """\
=== RUN   TestOne
    one_test.go:3: a word
--- PASS: TestOne (0.10s)
=== RUN   TestTwo
=== RUN   TestTwo/part
    two_test.go:9:
        Error Trace:	two_test.go:9
        Error:      	it broke
        Test:       	TestTwo/part
        Messages:   	wait for it
    two_test.go:10: more
--- FAIL: TestTwo (0.20s)
    --- FAIL: TestTwo/part (0.10s)
=== RUN   TestThree
    three_test.go:5: no swap here
--- SKIP: TestThree (0.00s)
=== RUN   TestFour
panic: gone
"""
JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="s">
<testcase name="[SynchronizedBeforeSuite]"/>
<testcase name="[It] passes"/>
<testcase name="[It] fails"><failure message="too
 low">text</failure></testcase>
<testcase name="[It] skips itself"><skipped message="skipped - no swap"/></testcase>
<testcase name="[It] was not asked for"><skipped message="skipped"/></testcase>
</testsuite></testsuites>
"""


def test_go_output_tells_each_test() -> None:
    """Every test and sub-test has its outcome; one that did not end has failed."""
    assert parse_go_test(GO) == {
        "TestOne": Outcome(PASSED),
        "TestTwo": Outcome(FAILED),
        "TestTwo/part": Outcome(FAILED, "Error: it broke Messages: wait for it"),
        "TestThree": Outcome(SKIPPED, "three_test.go:5: no swap here"),
        "TestFour": Outcome(FAILED, "panic: gone did not end"),
    }


def test_junit_tells_each_spec_that_was_asked_for() -> None:
    """Specs that the focus left out do not count; those that skip themselves do."""
    assert parse_junit(JUNIT) == {
        "passes": Outcome(PASSED),
        "fails": Outcome(FAILED, "too low"),
        "skips itself": Outcome(SKIPPED, "no swap"),
    }


def test_junit_of_pytest_tells_each_test() -> None:
    """A test of this project is told by its file; an error in a fixture has failed."""
    text = """<testsuites><testsuite name="pytest">
    <testcase classname="tests.e2e.kubernetes.test_a" name="test_one[x]"/>
    <testcase classname="tests.e2e.kubernetes.test_a" name="test_two">
    <error message="no node"/></testcase>
    <testcase classname="tests.e2e.kubernetes.test_b" name="test_three">
    <skipped message="no VM"/></testcase>
    </testsuite></testsuites>"""
    assert parse_pytest(text) == {
        "test_a: test_one[x]": Outcome(PASSED),
        "test_a: test_two": Outcome(FAILED, "no node"),
        "test_b: test_three": Outcome(SKIPPED, "no VM"),
    }


def test_a_test_of_this_project_must_pass() -> None:
    """It has one run, so there is nothing that it could be the same as."""
    rows = compare([run_of(WITH, good=PASSED, bad=FAILED, no=SKIPPED)], {})
    assert [row.defect for row in rows] == [False, True, True]


def test_tests_of_this_project_are_run(tmp_path: Path) -> None:
    """Each has its outcome, also one that records a property, as those on nodes do."""
    (tmp_path / "test_own.py").write_text(
        "import pytest\n"
        "def test_good(record_property): record_property('boot_s', 1)\n"
        "@pytest.mark.long\n"
        "def test_bad(): raise AssertionError\n"
    )
    run = own.run_tests(
        WITH, files="test_*.py", environment={}, directory=str(tmp_path)
    )
    results = {
        name.rpartition(": ")[2]: each.result for name, each in run.tests.items()
    }
    assert results == {"test_good": PASSED, "test_bad": FAILED}


def test_a_failed_preparation_is_told() -> None:
    """If what prepares the suite fails, it counts as a test that failed."""
    text = JUNIT.replace(
        '<testcase name="[SynchronizedBeforeSuite]"/>',
        '<testcase name="[SynchronizedBeforeSuite]"><failure message="no"/></testcase>',
    )
    assert parse_junit(text)["[SynchronizedBeforeSuite]"] == Outcome(FAILED, "no")


def run_of(way: str, **results: str) -> Run:
    return Run(way, {name: Outcome(each) for name, each in results.items()}, 1)


def test_only_unexplained_differences_are_defects() -> None:
    """A test that differs, or ran in one way only, is a defect unless explained."""
    without = run_of(WITHOUT, a=PASSED, b=PASSED, c=PASSED, d=FAILED)
    with_it = run_of(WITH, a=PASSED, b=FAILED, d=FAILED)
    rows = {row.test: row for row in compare([without, with_it], {"^c$": "because"})}
    assert {name for name, row in rows.items() if row.defect} == {"b"}
    assert {name for name, row in rows.items() if row.same} == {"a", "d"}
    assert rows["c"].why == "because"


def test_parts_are_told_only_if_one_is_different() -> None:
    """A test stands for its parts, unless they end differently."""
    names = ("a", "a/1", "a/2", "b", "b/1", "with/in a name")
    without = run_of(WITHOUT, **dict.fromkeys(names, PASSED))
    with_it = run_of(WITH, **{**dict.fromkeys(names, PASSED), "b/1": FAILED})
    rows = condense(compare([without, with_it], {}))
    assert [row.test for row in rows] == [
        *("a and its 2 parts", "b", "b/1", "with/in a name")
    ]


def test_a_result_replaces_that_of_its_suite(tmp_path: Path) -> None:
    """The file has the last result of each suite."""
    file = tmp_path / "results.json"
    first = Result("a", "2026-01-01", {"runc": "1"}, [run_of(WITHOUT, t=PASSED)])
    other = Result("b", "2026-01-01", {}, [])
    again = Result("a", "2026-01-02", {"runc": "2"}, [run_of(WITH, t=FAILED)])
    for result in (first, other, again):
        save(file, result)
    assert load(file) == {"a": again, "b": other}


def test_the_page_keeps_what_people_wrote() -> None:
    """Only what stands between the marks is replaced, and a bar ends no cell."""
    runs = [run_of(way, **{"x|y": PASSED}) for way in (WITHOUT, WITH)]
    result = Result("resize", "2026-01-01", {}, runs)
    earlier = "### resize\n\nold\n\n### swap\n\n| kept |\n\n### gone\n\nlost"
    page = with_results(
        f"before\n{BEGIN}\n\n{earlier}\n\n{END}\nafter\n", {"resize": result}
    )
    assert page.startswith(f"before\n{BEGIN}\n")
    assert page.endswith(f"{END}\nafter\n")
    assert "old" not in page
    assert "| x\\|y | passed | passed | same |" in page
    # Results of other suites stay, in the order of the suites there are.
    assert page.index("### swap\n\n| kept |") < page.index("### resize")
    assert "lost" not in page


def test_the_page_names_the_suites_without_a_result() -> None:
    """Until they have one, and however often the page is written."""
    page = with_results(f"{BEGIN}\n\n{END}\n", {})
    assert all(f"`{name}`" in page for name in SUITES)
    assert with_results(page, {}) == page
    results = {
        name: Result(name, "2026-01-01", {}, [run_of(WITH, t=PASSED)])
        for name in SUITES
        if name != "swap"
    }
    page = with_results(page, results)
    assert page.partition("### Without a result")[2].split("`")[1::2] == ["swap"]
    swap = Result("swap", "2026-01-01", {}, [run_of(WITH, t=PASSED)])
    assert "Without a result" not in with_results(page, {"swap": swap})


def test_the_page_is_as_the_program_writes_it() -> None:
    """Every suite has a result on it, or is among those without."""
    text = PAGE.read_text()
    assert with_results(text, {}) == text


def test_an_unknown_suite_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the line names the suites there are."""
    with pytest.raises(SystemExit) as ended:
        main(["--suite", "none"])
    assert ended.value.code == 2
    assert "'none', expected one of adaptation" in capsys.readouterr().err


def test_a_node_has_an_address_that_is_not_loopback() -> None:
    """What listens on loopback is reached at the address, in that network only."""
    if os.geteuid() != 0:
        need("root", "a network namespace is made by root")
    if shutil.which("ip") is None:
        need("vm", "ip is not installed (hack/node packages installs it)")
    outside = Path("/proc/self/ns/net").readlink()
    with own_network(), socket.create_server(("127.0.0.1", 0)) as node:
        assert Path("/proc/self/ns/net").readlink() != outside
        port = node.getsockname()[1]
        with forwarded(port), socket.create_connection((ADDRESS, port)) as client:
            served, _ = node.accept()
            with served:
                client.sendall(b"ask")
                assert served.recv(10) == b"ask"
                served.sendall(b"answer")
                assert client.recv(10) == b"answer"
    assert Path("/proc/self/ns/net").readlink() == outside
