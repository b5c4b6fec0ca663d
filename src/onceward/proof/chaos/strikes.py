"""Carries out what the nemesis wants, and mends it again: processes by signals, the network by proxies."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from onceward import processes
from onceward.errors import OncewardError
from onceward.proof.chaos.driver import Driver
from onceward.proof.chaos.kafka_proxy import KafkaProxy
from onceward.proof.chaos.nemesis import APIS, Strike
from onceward.proof.chaos.proxy import Proxy, Relay
from onceward.proof.chaos.seen import Seen
from onceward.proof.chaos.stack import Stack

DELAY_S: Final = 0.4
COMMIT: Final = b"COMMIT"


class Striker:
    """Breaks parts of the stack. What takes time to repair is repaired in the background, while the run goes on."""

    def __init__(self, stack: Stack, seen: Seen) -> None:
        self._stack, self._seen = stack, seen
        self._mending: dict[str, threading.Thread] = {}
        self.failure: str | None = None

    def strike(self, strike: Strike, driver: Driver) -> bool:
        """Do it; False if there is nothing to do it to just now."""
        if strike.target in ("worker", "executor"):
            return self._strike_one(strike, driver.workers() if strike.target == "worker" else driver.executors())
        what = f"{strike.target} {strike.node}" if strike.target == "broker" else strike.target
        if (earlier := self._mending.get(what)) is not None and earlier.is_alive():
            return False
        if strike.target == "network":
            return self._disturb(strike)
        break_, mend = self._process(strike)
        break_()
        verb = "killed" if strike.how == "kill" else "paused"
        self._seen.note("fault", f"{what} {verb}", strike.target, kill=strike.how == "kill")
        self._mend_later(what, strike, mend)
        return True

    def heal(self) -> None:
        """Everything runs and nothing is in the way; returns when it serves."""
        for thread in self._mending.values():
            thread.join(120)
        self._stack.heal()

    def _strike_one(self, strike: Strike, pids: list[int]) -> bool:
        """A process of Spark's. One that is paused goes on by itself; Spark starts another for one that is dead."""
        if not pids:
            return False
        pid, dies = pids[0], strike.how == "kill"
        processes.send([pid], signal.SIGKILL if dies else signal.SIGSTOP)
        self._seen.note("fault", f"{strike.target} {'killed' if dies else 'paused'}", strike.target, kill=dies)
        if not dies:
            self._mend_later(f"{strike.target} of process {pid}", strike, lambda: processes.send([pid], signal.SIGCONT))
        return True

    def _process(self, strike: Strike) -> tuple[Callable[[], None], Callable[[], None]]:
        """How to break it and how to mend it."""
        if strike.target == "broker":
            broker = self._stack.broker
            if strike.how == "kill":
                return lambda: broker.kill(strike.node), lambda: broker.restart(strike.node)
            return lambda: broker.pause(strike.node), lambda: broker.resume(strike.node)
        server = self._stack.postgres
        assert server is not None
        if strike.how == "kill":
            return server.kill, server.start
        return server.pause, server.resume

    def _disturb(self, strike: Strike) -> bool:
        """Between the job and one server. What is lost or late is the next of its kind."""
        if strike.database and self._stack.postgres_proxy is not None:
            what = self._disturb_postgres(strike, self._stack.postgres_proxy)
        else:
            what = self._disturb_kafka(strike, self._stack.kafka_proxies[strike.node - 1])
        self._seen.note("fault", f"network: {what}", "network")
        return True

    def _disturb_postgres(self, strike: Strike, proxy: Proxy) -> str:
        if strike.how == "lose-answer":
            proxy.lose_answer(COMMIT)
            return "the next answer to COMMIT is lost (PostgreSQL)"
        if strike.how in ("lose-request", "late-request"):
            proxy.lose_request(COMMIT)
            return "the next request COMMIT is lost (PostgreSQL)"
        return self._disturb_all(strike, proxy, "PostgreSQL")

    def _disturb_kafka(self, strike: Strike, proxy: KafkaProxy) -> str:
        name, api = f"broker {strike.node}", APIS[strike.api]
        if strike.how == "lose-answer":
            proxy.lose_answer_of(strike.api)
            return f"the next answer to {api} is lost ({name})"
        if strike.how == "lose-request":
            proxy.lose_request_of(strike.api)
            return f"the next request {api} is lost ({name})"
        if strike.how == "late-request":
            proxy.delay_request_of(strike.api, strike.seconds)
            return f"the next request {api} comes {strike.seconds:g} s after its client has given it up ({name})"
        return self._disturb_all(strike, proxy, name)

    def _disturb_all(self, strike: Strike, proxy: Relay, name: str) -> str:
        """Every connection, not one request."""
        if strike.how == "cut":
            proxy.cut()
            return f"connections to {name} cut"
        if strike.how == "half-close":
            proxy.half_close(strike.direction)
            return f"connections to {name} half closed: {strike.direction} are lost"
        proxy.delay_s = DELAY_S
        self._mend_later("network", strike, proxy.mend)
        return f"{name} answers {DELAY_S:g} s late"

    def _mend_later(self, what: str, strike: Strike, mend: Callable[[], object]) -> None:
        def wait_and_mend() -> None:
            time.sleep(strike.seconds)
            try:
                mend()
            except OncewardError as error:
                with suppress(OncewardError):
                    mend()  # a node that did not come up in time on a busy machine
                    return
                self.failure = f"{what} did not come back: {error}"
                return
            self._seen.note("heal", f"{what} is back", strike.target)

        thread = threading.Thread(target=wait_and_mend, name=f"prove-mend-{what}", daemon=True)
        self._mending[what] = thread
        thread.start()
