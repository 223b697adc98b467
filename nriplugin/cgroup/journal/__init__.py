"""The journal of original values: `journal` records them, `restore` puts them back.

`storage` has its directory, lock file and database.
"""

from __future__ import annotations
