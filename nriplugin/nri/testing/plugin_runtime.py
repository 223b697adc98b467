"""An embedded runtime that also runs the plugins, for tests of them.

`run_plugin` starts a plugin on a thread and returns when it is registered; the end of
the context stops all of them. In strict mode (`strict.py`) a mistake of a plugin fails
the call of this runtime during which it was made, and a mistake that was made at
another time fails the end of the context.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from nriplugin.errors import ConnectionClosed
from nriplugin.nri.launch import launch_from
from nriplugin.nri.misspelt import misspelt_handlers
from nriplugin.nri.runner import Runner
from nriplugin.nri.testing.behaviour import Behaviour
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.nri.testing.strict import (
    StrictFailure,
    check_handlers,
    uncheck_handlers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.nri.methods import Method
    from nriplugin.nri.plugin import Plugin

# Far longer than anything takes, also on a busy machine; only a failure waits for it.
PATIENCE_S = 60.0

# The timeout of containerd and CRI-O, 2 s, can be too short for a correct plugin on a
# machine that runs many tests at once.
DEFAULT_BEHAVIOUR = Behaviour(request_timeout_s=30.0)

# How often the wait for a registration looks whether the plugin has ended instead.
_LOOK_S = 0.02


class RunningPlugin:
    """A plugin on a thread of its own."""

    def __init__(self, plugin: Plugin, runner: Runner) -> None:
        self.plugin = plugin
        self._runner = runner
        self._error: BaseException | None = None
        self.late = 0  # how many late handlers were told
        # A daemon, so that a handler that hangs does not keep the test run from ending.
        self._thread = threading.Thread(
            target=self._run, name="nri-plugin", daemon=True
        )
        self._thread.start()

    @property
    def late_handlers(self) -> int:
        """Return how many handlers were late since the plugin was started."""
        return self._runner.stats.late

    @property
    def ended(self) -> bool:
        """Whether the plugin has ended."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the plugin ends, for instance by `Plugin.stop`.

        Raises:
            TimeoutError: it has not ended.
            Exception: what `nriplugin.nri.run` would have raised.
        """
        self._thread.join(timeout_s)
        if not self.ended:
            raise TimeoutError(
                f"{type(self.plugin).__name__} has not ended within {timeout_s:g} s"
            )
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the plugin and wait for its end; raises what `wait` raises."""
        self._runner.stop()
        self.wait()

    def _run(self) -> None:
        try:
            self._runner.run()
        except BaseException as exc:  # noqa: BLE001 - raised by `wait`
            self._error = exc


class PluginRuntime(EmbeddedRuntime):
    """An embedded runtime that runs plugins in the process of the test."""

    def __init__(
        self, behaviour: Behaviour = DEFAULT_BEHAVIOUR, *, strict: bool = True
    ) -> None:
        # Not a directory of pytest: the path of a socket has at most 107 bytes.
        self._directory = tempfile.mkdtemp(prefix="nri-")
        self.socket_path = f"{self._directory}/nri.sock"
        super().__init__(self.socket_path, behaviour)
        self._strict = strict
        self._running: list[RunningPlugin] = []
        self._mistakes: list[tuple[str, Exception | None]] = []

    def run_plugin(
        self, plugin: Plugin, *, name: str | None = None, idx: str = "50"
    ) -> RunningPlugin:
        """Run a plugin until the end of the context; returns when it is registered.

        Raises:
            ConfigError: the name or the index is not valid, the plugin has no handlers
                or refuses this runtime.
            ConnectionClosed: this runtime has dropped the plugin, or the plugin ended.
            StrictFailure: the plugin has a mistake (strict mode).
        """
        name = name or type(plugin).__name__
        launch = launch_from({}, name=name, idx=idx, socket_path=self.socket_path)
        if self._strict:
            for mistake in misspelt_handlers(plugin):
                self._note(mistake)
            self._fail_on_mistakes()
        runner = Runner(plugin, launch)
        if self._strict:
            check_handlers(plugin, self._note)
        registered, dropped = len(self.registrations), len(self.dropped)
        running = RunningPlugin(plugin, runner)
        self._running.append(running)
        while not self.wait_for_registrations(registered + 1, _LOOK_S):
            if running.ended or len(self.dropped) > dropped:
                self._fail_on_mistakes()
                self._running.remove(running)
                self._stop(running)
                reasons = self.dropped[dropped:] or [f"{idx}-{name}: it ended"]
                raise ConnectionClosed(f"plugin {reasons[0]}")
        self._fail_on_mistakes()
        return running

    def stop_plugins(self) -> None:
        """Stop the plugins; raises what `nriplugin.nri.run` would have raised."""
        running, self._running = self._running, []
        errors: list[BaseException] = []
        for one in running:
            try:
                self._stop(one)
            except BaseException as exc:  # noqa: BLE001 - raised below
                errors.append(exc)
        if errors:
            raise errors[0]

    def _stop(self, running: RunningPlugin) -> None:
        try:
            running.stop()
        finally:
            uncheck_handlers(running.plugin)

    def __exit__(self, *exc: object) -> None:
        """Stop the plugins, then the runtime."""
        try:
            self.stop_plugins()
        finally:
            self.stop()
            shutil.rmtree(self._directory, ignore_errors=True)
        self._fail_on_mistakes()

    # Every request goes through one of these three methods.

    def ask(
        self,
        method: Method,
        request: Message,
        take: Callable[[Any, str], None] | None = None,
    ) -> None:
        """Ask the plugins; raises StrictFailure for a mistake of one."""
        __tracebackhide__ = True
        try:
            super().ask(method, request, take)
        finally:
            self._fail_on_mistakes()

    def tell(
        self,
        method: Method,
        pod: nri.PodSandbox,
        container: nri.Container | None = None,
    ) -> None:
        """Deliver an event; raises StrictFailure for a mistake of a plugin."""
        __tracebackhide__ = True
        try:
            super().tell(method, pod, container)
        finally:
            self._fail_on_mistakes()

    def validate(self, request: nri.ValidateContainerAdjustmentRequest) -> None:
        """Ask the validators; raises StrictFailure for a mistake of one."""
        __tracebackhide__ = True
        try:
            super().validate(request)
        finally:
            self._fail_on_mistakes()

    def _note(self, mistake: str, exc: Exception | None = None) -> None:
        self._mistakes.append((mistake, exc))

    def _fail_on_mistakes(self) -> None:
        """In strict mode: raise the mistakes that were made since the last call."""
        __tracebackhide__ = True
        if not self._strict:
            return
        for running in self._running:
            if running.late_handlers > running.late:
                running.late = running.late_handlers
                self._note(
                    f"{type(running.plugin).__name__}: a handler took longer than "
                    "three quarters of the request timeout of "
                    f"{self.behaviour.request_timeout_s:g} s, so its answer was lost"
                )
        if self._mistakes:
            mistakes, self._mistakes = self._mistakes, []
            cause = next((exc for _, exc in mistakes if exc is not None), None)
            raise StrictFailure("\n".join(text for text, _ in mistakes)) from cause
