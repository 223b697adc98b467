"""Resource types: what can be read or set, and the file and text of it on v1 and v2.

`registry` has the types, `kernel_files` the table of files, `contents` and `formats`
their texts, `tree` joins them with a node's files, and `reader` gives typed answers.
"""

from __future__ import annotations
