"""Who set what: the ownership that the embedded runtime holds plugins to.

Every field, and every key of a map or a list, that a plugin sets in the course of one
request is that plugin's. A second plugin that sets it too fails the request, and so
does the same plugin if it sets it twice; only a plugin that took a key away with a
removal marker may set it anew.

Reference: pkg/api/owners.go of the Go library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.errors import RequestRejected

if TYPE_CHECKING:
    from collections.abc import MutableMapping

# In front of a key it asks for the key's removal; in front of an owner it says that
# this plugin removed the key.
REMOVAL = "-"


class FieldOwnership:
    """What one plugin ownership of one container."""

    def __init__(self, owners: nri.FieldOwners, plugin: str) -> None:
        self._owners = owners
        self._plugin = plugin

    def claim(self, field: nri.Field.ValueType, key: str | None = None) -> None:
        """Make a field, or a key of it, the plugin's.

        Raises:
            RequestRejected: it is taken; names both plugins and the field.
        """
        owner, index = self._owner(field, key)
        other = owner.get(index, "")
        if other and other != REMOVAL + self._plugin:
            what = nri.Field.Name(field) + (f" {key}" if key is not None else "")
            raise RequestRejected(
                f"plugins {other.removeprefix(REMOVAL)} and {self._plugin} "
                f"both set {what}"
            )
        owner[index] = self._plugin

    def clear(self, field: nri.Field.ValueType, key: str | None = None) -> None:
        """Take a field, or a key of it, from its owner, so that it can be claimed."""
        owner, index = self._owner(field, key)
        owner[index] = REMOVAL + self._plugin

    def share(self, field: nri.Field.ValueType) -> None:
        """Join the owners of a field to which every plugin may add."""
        earlier = self._owners.simple.get(field)
        self._owners.simple[field] = ",".join(filter(None, [earlier, self._plugin]))

    def _owner(
        self, field: nri.Field.ValueType, key: str | None
    ) -> tuple[MutableMapping[int | str, str], int | str]:
        """Return the map that holds the owner, and the owner's place in it."""
        owners: MutableMapping[int | str, str]
        if key is None:
            owners = self._owners.simple  # type: ignore[assignment] # keys are numbers
            return owners, field
        owners = self._owners.compound[field].owners  # type: ignore[assignment] # strings
        return owners, key
