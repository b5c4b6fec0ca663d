"""One run of a story."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from onceward.textbook.pictures import Picture
from onceward.textbook.servers import Servers
from onceward.textbook.stage import Stage, Step
from onceward.textbook.story import Ending, Need, Story


@dataclass(frozen=True, slots=True)
class Telling:
    """A story that was told: every step of it, and how it ended."""

    story: Story
    steps: tuple[Step, ...]
    ending: Ending

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(step for step in self.steps if isinstance(step, Picture))


def tell(story: Story, servers: Servers, listener: Callable[[Step], None] = lambda _: None) -> Telling:
    _start(story.needs, servers)
    stage = Stage(servers, listener)
    ending = story.tell(stage)
    return Telling(story, tuple(stage.steps), ending)


def _start(needs: Iterable[Need], servers: Servers) -> None:
    """All at once: each of them takes seconds, most of which is waiting."""
    starts = {Need.KAFKA: servers.broker, Need.POSTGRES: servers.postgres, Need.SPARK: servers.spark}
    with ThreadPoolExecutor() as threads:
        for started in [threads.submit(starts[need]) for need in needs]:
            started.result()
