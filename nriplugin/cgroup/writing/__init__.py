"""From updates to writes.

`executor` is the entrance. `planning` resolves updates to changes of files, `cache`
knows what was written before, `write_order`, `leveled` and `merging` decide the order,
`file_writer` does one write with the help of `quirks` and `error_meanings`.
`kernel_text` knows what the kernel makes of a text.
"""

from __future__ import annotations
