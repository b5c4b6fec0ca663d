"""The lease of this process on a home, kept alive."""

import threading
from collections.abc import Callable

from onceward.epoch.stop_request import StopRequest, asked
from onceward.epoch.term import RENEW_S, Term
from onceward.errors import PipelineFenced
from onceward.events import logger

log = logger("onceward.pipeline")


class LeaseKeeper:
    """Moves the lease's counter from a thread of its own, from the claim to the release."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._needed: Callable[[], bool] = lambda: True
        self._overtaken: Callable[[PipelineFenced], None] = lambda _: None
        self._beside: Callable[[], None] = lambda: None
        self._stop: Callable[[StopRequest], None] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"onceward-lease-{term.number}", daemon=True)
        self._thread.start()

    def keep_while(
        self,
        needed: Callable[[], bool],
        *,
        overtaken: Callable[[PipelineFenced], None],
        asked_to_stop: Callable[[StopRequest], None],
        beside: Callable[[], None],
    ) -> None:
        """Let go as soon as it is not needed: a query that failed frees its home, though nobody has asked yet.

        overtaken: told once, when a newer driver has taken the home. asked_to_stop: told once, and must not wait: the
        lease is kept until the query is over. beside: called after each renewal.
        """
        self._overtaken, self._beside, self._stop = overtaken, beside, asked_to_stop
        self._needed = needed

    def release(self) -> None:
        """Let go at once, so that the next start need not wait."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        try:
            self._term.release()
        except OSError as error:  # a full disk, perhaps: why the pipeline ended is the news, and is told elsewhere
            log.warning(
                "the lease of term %d could not be given back, so the next start waits until it runs out: %s",
                self._term.number, error,
                extra={"event": "lease_not_released", "term": self._term.number, "reason": str(error)},
            )  # fmt: skip

    def _keep(self) -> None:
        while not self._over.wait(RENEW_S):
            try:
                if not self._needed():
                    self._term.release()
                    return
                self._term.renew()
                self._term.require_current()
                self._beside()
                self._look_for_requests()
            except PipelineFenced as fenced:
                self._overtaken(fenced)
                return
            except Exception as error:  # noqa: BLE001 - it says so, and tries again: an epoch asks the term itself
                log.warning(
                    "the lease of term %d could not be renewed and is tried again: %s", self._term.number, error,
                    extra={"event": "lease_not_renewed", "term": self._term.number, "reason": str(error)},
                )  # fmt: skip

    def _look_for_requests(self) -> None:
        if self._stop is not None and (request := asked(self._term.storage, self._term.number)) is not None:
            tell, self._stop = self._stop, None
            tell(request)
