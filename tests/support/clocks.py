"""Where the clocks of tests stand when they begin.

No real clock stands at zero, and the two kinds never agree: code that takes zero for "not yet", or one clock for the
other, would be right by chance.
"""

from typing import Final

MONOTONIC: Final = 7_331.25  # seconds; the simulation's begins there too
WALL_NS: Final = 1_936_177_997_190_000_000  # since 1970
