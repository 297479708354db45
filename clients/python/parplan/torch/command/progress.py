"""A progress bar on stderr."""

from __future__ import annotations

import sys
from typing import TextIO

_WIDTH = 24


class Progress:
    """Counts the items of a long measurement. Shows nothing unless the stream is a terminal."""

    def __init__(self, item_count: int, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._is_shown = self._stream.isatty()
        self._count, self._done = max(item_count, 1), 0

    def begin(self, item: str) -> None:
        """Shows what is measured now."""
        if self._is_shown:
            filled = _WIDTH * self._done // self._count
            bar = "#" * filled + "." * (_WIDTH - filled)
            # Clears what is left of a longer line.
            self._stream.write(f"\r[{bar}] {self._done}/{self._count} {item}\x1b[K")
            self._stream.flush()
        self._done += 1

    def end(self) -> None:
        """Removes the bar."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
