"""The side of a worker: requests from standard input, one JSON object in a line, each answered with one.

It imports nothing of Onceward: PyFlink's worker runs in an environment of its own.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]
Answers = dict[str, Answer]


def answer_all(make: Callable[[], Answers]) -> None:
    """Until standard input ends. What JVMs print goes where errors go, not among the answers."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)

        def tell(facts: dict[str, Any]) -> None:
            out.write(f"{json.dumps(facts)}\n")
            out.flush()

        try:
            answers = make()
            tell({"ready": True})
            for line in sys.stdin:
                asked = json.loads(line)
                tell(answers[asked["do"]](asked))
        except Exception as error:  # noqa: BLE001 - whatever it is, the harness has to hear of it
            traceback.print_exc()
            tell({"failed": told(error)})
    sys.stderr.flush()
    os._exit(0)  # a JVM's threads may hold on to a stopped job


def told(error: Exception) -> str:
    """In a line; of a Java error, its last cause, which is the first thing that went wrong."""
    causes = [line.strip() for line in str(error).splitlines() if line.strip().startswith("Caused by:")]
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {causes[-1] if causes else first}"[:400]
