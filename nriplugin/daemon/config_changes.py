"""What a new configuration changes, in one line for the log and for `events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.handlers import table

if TYPE_CHECKING:
    from nriplugin.config import Config


def changes(before: Config | None, after: Config) -> str:
    """Return what changes; `before` is None for the defaults."""
    if before is None:
        from nriplugin.config import Config

        before = Config()
    found = []
    was, now = before.engine.base.active, after.engine.base.active
    for words, names in (
        ("turned on", [name for name in now if name not in was]),
        ("turned off", [name for name in was if name not in now]),
        ("changed", _changed(before, after)),
    ):
        if names:
            found.append(f"{words}: {', '.join(names)}")
    rules_was, rules_now = len(before.engine.rules), len(after.engine.rules)
    if before.engine.rules != after.engine.rules:
        found.append(f"rules: {rules_was}, now {rules_now}")
    if before.engine.base.shadow != after.engine.base.shadow:
        found.append(f"shadow: {'on' if after.engine.base.shadow else 'off'}")
    for name, was_section, section in (
        ("adopt", before.adopt, after.adopt),
        ("repair", before.repair, after.repair),
        ("verify", before.verify, after.verify),
        ("kubeletCheckpoint", before.kubelet_checkpoint, after.kubelet_checkpoint),
        ("podGroups", before.pod_groups, after.pod_groups),
    ):
        if was_section != section:
            found.append(f"{name}: {'on' if section.enabled else 'off'}")
    if before.policies != after.policies:
        seconds = after.policies.interval_seconds
        found.append(f"policies: intervalSeconds {seconds}")
    if before.direct_writes != after.direct_writes:
        seconds = after.direct_writes.refresh_seconds
        found.append(f"directWrites: refreshSeconds {seconds}")
    if before.engine.curve != after.engine.curve:
        curve = after.engine.curve
        found.append(f"curve: {'auto' if curve is None else curve.value}")
    if before.failure_policy != after.failure_policy:
        found.append(f"failurePolicy: {after.failure_policy.value}")
    return "; ".join(found) or "nothing changes"


def _changed(before: Config, after: Config) -> list[str]:
    """Return the handlers that are on before and after, with other settings."""
    was, now = before.engine.base, after.engine.base
    return [
        handler.name
        for handler in table.HANDLERS
        if handler.name in was.active
        and handler.name in now.active
        and was.of(handler.settings) != now.of(handler.settings)
    ]
