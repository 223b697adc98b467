"""Cgroups that are systemd's units: values are set as properties over D-Bus.

`units` decides what goes to systemd, `properties` says which properties stand for a
file's text, `dbus` is the connection.
"""

from __future__ import annotations
