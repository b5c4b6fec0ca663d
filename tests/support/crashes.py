"""Soft crashes: a driver that dies at a named point, in this process, so that no JVM has to be started for it."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import pytest

import onceward as ow
from onceward import crashpoints
from onceward.pipeline import pipeline
from onceward.pipeline.batch import in_foreach_batch

P = ParamSpec("P")
R = TypeVar("R")
IN_THE_BACKGROUND = "recorded"  # the ledger's entry is written while Spark goes on
DEADLINE_S = 30.0


class Crash(BaseException):
    """The driver dies here: no `except Exception` outlives it, so that nothing is aborted, undone or tried again."""


class Died(Exception):
    """A crash as others see it. Spark, and whoever started the driver, must live on: a `Crash` would hang them."""


class SoftCrashes:
    """Arms one point at a time. From the crash until it is armed anew every step of the driver is its end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._point: str | None = None
        self._left = 0
        self._dead = threading.Event()
        monkeypatch.setattr(crashpoints, "reach", self._reach)
        for kind, name in ((ow.Pipeline, "start"), (ow.Query, "wait"), (ow.Query, "stop")):
            monkeypatch.setattr(kind, name, self._survived(getattr(kind, name)))
        plain = in_foreach_batch
        monkeypatch.setattr(
            pipeline, "in_foreach_batch", lambda runner, shaping: self._survived(self._whole(plain(runner, shaping)))
        )

    def arm(self, point: str | None, nth: int = 1) -> None:
        """The driver dies the nth time it reaches that point. None: a new driver, which lives."""
        self._point, self._left = point, nth
        self._dead.clear()

    def _reach(self, reached: str, epoch: int | None = None) -> None:
        if reached == self._point:
            self._left -= 1
            if self._left <= 0:
                self._dead.set()
        if self._dead.is_set():
            raise Crash(f"Crash at {reached}, epoch {epoch}")

    def _whole(self, run: Callable[P, R]) -> Callable[P, R]:
        """An epoch after which Spark would note it as done: not if the driver dies behind its back."""

        @wraps(run)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            answer = run(*arguments, **named)
            if self._point == IN_THE_BACKGROUND:
                assert self._dead.wait(DEADLINE_S), f"{self._point} was not reached"
            if self._dead.is_set():
                raise Crash(f"Crash at {self._point}, in the background")
            return answer

        return call

    @staticmethod
    def _survived(call: Callable[P, R]) -> Callable[P, R]:
        @wraps(call)
        def surviving(*arguments: P.args, **named: P.kwargs) -> R:
            try:
                return call(*arguments, **named)
            except Crash as crash:
                raise Died(str(crash)) from None

        return surviving
