"""Records which plugin set which field, so that conflicts are found.

A plugin that sets a field, or a key of a map or list, owns it for the rest of the
request. If it is set a second time, by another plugin or by the same one, the request
fails. The exception: a plugin that removes a key with a removal marker may set that
key, no matter which plugin owned it.

Reference: pkg/api/owners.go of the Go library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.errors import RequestRejected

if TYPE_CHECKING:
    from collections.abc import MutableMapping

# In front of a key in an answer: the plugin asks for the key's removal. In front of an
# owner in the record: this plugin removed the key.
REMOVAL = "-"


class FieldOwnership:
    """Enters one plugin as the owner of fields of one container."""

    def __init__(self, owners: nri.FieldOwners, plugin: str) -> None:
        self._owners = owners
        self._plugin = plugin

    def set_owner(self, field: nri.Field.ValueType, key: str | None = None) -> None:
        """Make the plugin the owner of a field, or of a key of it.

        Raises:
            RequestRejected: the field has an owner; names both plugins and the field.
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

    def clear_owner(self, field: nri.Field.ValueType, key: str | None = None) -> None:
        """Remove the owner of a field, or of a key of it, for this plugin to set it."""
        owner, index = self._owner(field, key)
        owner[index] = REMOVAL + self._plugin

    def add_owner(self, field: nri.Field.ValueType) -> None:
        """Add the plugin to the owners of a field to which every plugin may add."""
        earlier = self._owners.simple.get(field)
        self._owners.simple[field] = ",".join(filter(None, [earlier, self._plugin]))

    def _owner(
        self, field: nri.Field.ValueType, key: str | None
    ) -> tuple[MutableMapping[int | str, str], int | str]:
        """Return the map that holds the owner, and the owner's key in that map."""
        owners: MutableMapping[int | str, str]
        if key is None:
            owners = self._owners.simple  # type: ignore[assignment] # keys are numbers
            return owners, field
        owners = self._owners.compound[field].owners  # type: ignore[assignment] # strings
        return owners, key
