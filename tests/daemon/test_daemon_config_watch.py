from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from nriplugin.config import Config, parse_config
from nriplugin.daemon.config_watch import ConfigWatch, Wake, reloading_on_sighup
from nriplugin.errors import ConfigError
from nriplugin.nri import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = "failurePolicy: fail\n"
BAD = "failurePolicy: maybe\n"

# Far longer than anything here takes; only a failure waits for so long.
PATIENCE_S = 60


class Applied:
    """Receives the configurations; `arrived` is set by each of them."""

    def __init__(self) -> None:
        self.configs: list[Config] = []
        self.arrived = threading.Event()

    def __call__(self, config: Config) -> None:
        self.configs.append(config)
        self.arrived.set()

    @property
    def policies(self) -> list[FailurePolicy]:
        return [config.failure_policy for config in self.configs]


@pytest.fixture
def applied() -> Applied:
    return Applied()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("failurePolicy: ignore\n")
    return path


@pytest.fixture
def watch(file: Path, applied: Applied) -> ConfigWatch[Config]:
    """A watch that has read the file, and whose thread does not run."""
    found = ConfigWatch(str(file), parse_config, applied)
    assert found.initial().failure_policy is FailurePolicy.IGNORE
    return found


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.ERROR
    ]


def look_twice(watch: ConfigWatch[Config]) -> bool:
    """Check a change as often as needed; return whether it was applied."""
    assert not watch.check()
    return watch.check()


def replace(path: Path, content: str) -> None:
    """Replace a file by renaming another one, as editors and tools do."""
    new = path.with_suffix(".new")
    new.write_text(content)
    new.rename(path)


def test_a_file_that_stays_is_not_read_again(
    watch: ConfigWatch[Config], applied: Applied
) -> None:
    """The same holds for the file that `initial` has read."""
    assert not watch.check()
    assert not watch.check()
    assert applied.configs == []


def test_a_new_file_is_in_force_after_two_looks(
    watch: ConfigWatch[Config], file: Path, applied: Applied
) -> None:
    """It is applied once."""
    replace(file, GOOD)
    assert look_twice(watch)
    assert not watch.check()
    assert applied.policies == [FailurePolicy.FAIL]


def test_a_file_that_is_being_written_is_waited_for(
    watch: ConfigWatch[Config],
    file: Path,
    applied: Applied,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first half of a configuration may be valid and mean something else."""
    text = "cpuBurst: {enabled: true}\nfailurePolicy: fail\n"
    for length in (0, 12, 26, len(text)):
        file.write_text(text[:length])
        assert not watch.check()
    assert watch.check()
    assert applied.policies == [FailurePolicy.FAIL]
    assert errors(caplog) == []


def test_a_change_that_is_undone_is_no_change(
    watch: ConfigWatch[Config], file: Path, applied: Applied
) -> None:
    """Content that was read once does not count for a later change."""
    before = file.stat()
    kept = file.with_suffix(".kept")
    for _ in range(2):
        os.link(file, kept)
        replace(file, GOOD)
        assert not watch.check()
        kept.rename(file)
        assert file.stat().st_ino == before.st_ino
        assert not watch.check()
    assert applied.configs == []


EMPTY = ["", "\n", "# failurePolicy: fail\n", "---\n# nothing\n...\n"]


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("content", EMPTY)
def test_an_empty_file_does_not_replace_a_configuration(
    watch: ConfigWatch[Config],
    file: Path,
    applied: Applied,
    caplog: pytest.LogCaptureFixture,
    content: str,
    always: bool,
) -> None:
    """An empty file is a truncated one; the text for all defaults is `{}`."""
    file.write_text(content)
    assert not watch.check(always=always)
    assert not watch.check()
    assert applied.configs == []
    (line,) = errors(caplog)
    assert f"{file}: empty" in line
    assert "the old one stays in force" in line
    replace(file, "{}\n")
    assert watch.check(always=True)
    assert applied.policies == [FailurePolicy.IGNORE]


@pytest.mark.parametrize("content", EMPTY)
def test_an_empty_file_to_begin_with_is_all_defaults(
    file: Path, applied: Applied, content: str
) -> None:
    """At the start there is no configuration that it could undo."""
    file.write_text(content)
    assert ConfigWatch(str(file), parse_config, applied).initial() == Config()


def test_a_file_written_in_place_is_seen(
    watch: ConfigWatch[Config], file: Path, applied: Applied
) -> None:
    """The inode stays, but size or modification time change."""
    file.write_text(GOOD)
    os.utime(file, ns=(1, 1))
    assert look_twice(watch)
    os.utime(file, ns=(2, 2))
    assert look_twice(watch)
    assert applied.policies == [FailurePolicy.FAIL] * 2


def test_the_swap_of_a_configmap_is_seen(tmp_path: Path, applied: Applied) -> None:
    """The file is a link into `..data`, a link that is replaced in one step."""
    for name, policy in (("..1", "ignore"), ("..2", "fail  ")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"failurePolicy: {policy}")
        # The same size and modification time: only the inode differs.
        os.utime(tmp_path / name / "config.yaml", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "config.yaml"
    path.symlink_to("..data/config.yaml")
    watch = ConfigWatch(str(path), parse_config, applied)
    watch.initial()
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert look_twice(watch)
    assert applied.policies == [FailurePolicy.FAIL]


def test_a_bad_file_changes_nothing_and_is_logged_once(
    watch: ConfigWatch[Config],
    file: Path,
    applied: Applied,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line has the reason, also if the file is touched afterwards."""
    replace(file, BAD)
    for _ in range(3):
        assert not watch.check()
    os.utime(file, ns=(1, 1))
    assert not look_twice(watch)
    assert applied.configs == []
    (line,) = errors(caplog)
    assert "the old one stays in force" in line
    assert "maybe" in line
    assert "\n" not in line


def test_another_mistake_is_logged_and_so_is_the_same_one_after_a_good_file(
    watch: ConfigWatch[Config],
    file: Path,
    applied: Applied,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only a repetition of the last error is left out of the log."""
    for content in (BAD, "surprise: 1\n", GOOD, "surprise: 1\n"):
        replace(file, content)
        look_twice(watch)
    assert ["surprise" in line for line in errors(caplog)] == [False, True, True]
    assert applied.policies == [FailurePolicy.FAIL]


def test_a_file_that_goes_away_changes_nothing(
    watch: ConfigWatch[Config],
    file: Path,
    applied: Applied,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing file is an error until it is back."""
    file.unlink()
    assert not watch.check()
    assert not watch.check()
    (line,) = errors(caplog)
    assert str(file) in line
    file.write_text(GOOD)
    assert look_twice(watch)
    assert applied.policies == [FailurePolicy.FAIL]


def test_a_change_while_reading_is_seen_by_the_next_look(
    file: Path, applied: Applied
) -> None:
    """The stat result that is kept is from before the read."""

    def parse(text: str, source: str) -> Config:
        if not applied.configs:
            replace(file, GOOD)
        return parse_config(text, source)

    watch = ConfigWatch(str(file), parse, applied)
    assert look_twice(watch)
    assert look_twice(watch)
    assert applied.policies == [FailurePolicy.IGNORE, FailurePolicy.FAIL]


def test_a_bad_file_to_begin_with_is_an_error(file: Path, applied: Applied) -> None:
    """At the start there is no configuration that could stay in force."""
    file.write_text(BAD)
    with pytest.raises(ConfigError, match="maybe"):
        ConfigWatch(str(file), parse_config, applied).initial()


def test_an_error_of_apply_is_logged(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`apply` may refuse a configuration that is valid by itself."""

    def refuse(config: Config) -> None:
        raise ConfigError("curve: 'kep', expected another")

    watch = ConfigWatch(str(file), parse_config, refuse)
    assert not look_twice(watch)
    assert errors(caplog) == [
        "configuration: the old one stays in force: curve: 'kep', expected another"
    ]


def test_a_defect_does_not_end_the_watch(
    file: Path, applied: Applied, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its traceback, and the next file is tried."""

    def parse(text: str, source: str) -> Config:
        if text != GOOD:
            raise ZeroDivisionError
        return parse_config(text, source)

    watch = ConfigWatch(str(file), parse, applied)
    assert not look_twice(watch)
    assert caplog.records[-1].exc_info is not None
    replace(file, GOOD)
    assert look_twice(watch)


def test_the_thread_looks_at_every_interval_until_it_is_stopped(
    file: Path, applied: Applied
) -> None:
    """It needs no signal for that."""
    waited: list[float] = []
    wakes: Iterator[Wake] = iter([Wake.LOOK] * 3 + [Wake.RELOAD, Wake.STOP])

    def wait(timeout_s: float) -> Wake:
        waited.append(timeout_s)
        return next(wakes)

    watch = ConfigWatch(str(file), parse_config, applied, 7.0, wait=wait)
    watch.start()
    watch.stop()
    assert waited == [7.0] * 5
    # Two checks read the file; the third sees no change; a reload reads again.
    assert len(applied.configs) == 2


def test_the_thread_sees_a_change_by_itself(file: Path, applied: Applied) -> None:
    """With the real wait between two checks."""
    watch = ConfigWatch(str(file), parse_config, applied, 0.01)
    watch.initial()
    watch.start()
    try:
        replace(file, GOOD)
        assert applied.arrived.wait(PATIENCE_S)
    finally:
        watch.stop()
    assert applied.policies == [FailurePolicy.FAIL]


def test_stopping_ends_the_thread(watch: ConfigWatch[Config]) -> None:
    """Also during a long wait; before the start, or twice, it does nothing."""
    watch.stop()
    watch.start()
    assert any(thread.name == "config" for thread in threading.enumerate())
    assert all(t.daemon for t in threading.enumerate() if t.name == "config")
    watch.stop()
    watch.stop()
    assert not any(thread.name == "config" for thread in threading.enumerate())


def test_sighup_reads_the_file_changed_or_not(
    file: Path, applied: Applied, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch's thread reads it, and the earlier signal handler is restored."""
    before = signal.getsignal(signal.SIGHUP)
    threads: list[str] = []

    def apply(config: Config) -> None:
        threads.append(threading.current_thread().name)
        applied(config)

    watch = ConfigWatch(str(file), parse_config, apply, 3600)
    watch.initial()
    watch.start()
    try:
        with reloading_on_sighup(watch):
            os.kill(os.getpid(), signal.SIGHUP)
            assert applied.arrived.wait(PATIENCE_S)
    finally:
        watch.stop()
    assert threads == ["config"]
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_bad_file_is_logged_again_on_sighup(
    watch: ConfigWatch[Config], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator who sends SIGHUP expects a log line."""
    replace(file, BAD)
    look_twice(watch)
    watch.check(always=True)
    assert len(errors(caplog)) == 2
