"""One run of a story."""

from collections.abc import Callable
from dataclasses import dataclass

from onceward.textbook.pictures import Picture
from onceward.textbook.servers import Servers
from onceward.textbook.stage import Stage, Step
from onceward.textbook.story import Ending, Story


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
    stage = Stage(servers, listener)
    ending = story.tell(stage)
    return Telling(story, tuple(stage.steps), ending)
