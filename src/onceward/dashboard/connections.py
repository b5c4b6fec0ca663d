"""How many connections the page holds: whoever opens more than that loses the oldest ones that ask for nothing.

Every user of the machine reaches the port, and a connection without a request has no token to be judged by: without a
bound somebody's silent ones would use up the process's files, and nobody would be let in any more. A bound that turns
away whoever comes later (uvicorn's `limit_concurrency`) would do the same.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS: Final = 200  # a browser has six; streams have a bound of their own


class Connection(H11Protocol):
    """One client's."""

    began: float

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        """A new one is let in, and an old one goes for it."""
        super().connection_made(transport)
        self.began = self.loop.time()
        held = [it for it in self.connections if isinstance(it, Connection) and not it.transport.is_closing()]
        if len(held) > MOST_CONNECTIONS:
            min((it for it in held if it.is_idle), key=lambda it: it.began).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Nothing was asked, or not in full, or all is answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None until there is a request
        return cycle is None or cycle.response_complete
