"""All stories, in the order in which a newcomer reads them."""

from importlib import import_module
from typing import Final

from onceward.errors import ConfigurationError
from onceward.textbook.story import Story

# The module of a name is in stories/, with underscores.
NAMES: Final = (
    "idempotence",
    "lost-acknowledgement",
    "crash-before-commit",
    "zombie",
    "delivery-modes",
    "chandy-lamport",
    "barriers",
    "two-phase-commit",
    "state-backends",
    "savepoints",
)


def story(name: str) -> Story:
    if name not in NAMES:
        raise ConfigurationError(f"no story is called {name!r}; there are {', '.join(NAMES)}")
    found = import_module(f"onceward.textbook.stories.{name.replace('-', '_')}").STORY
    assert isinstance(found, Story)
    return found


def stories() -> tuple[Story, ...]:
    return tuple(story(name) for name in NAMES)
