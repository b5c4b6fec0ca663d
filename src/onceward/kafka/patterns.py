"""Topics by a pattern: a regular expression that fits the whole name, in the words that Java and Python share.

Spark's source looks for the expression anywhere in a name, so `clicks-.*` would also read `old-clicks-1`. Hence it is
given an expression with both ends.
"""

import re

from onceward.errors import ConfigurationError


def whole(pattern: str) -> str:
    """As Spark's source is told: the whole name, not a part of it."""
    if not pattern:
        raise ConfigurationError("pattern is empty; give a regular expression, for instance pattern='clicks-.*'")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"pattern {pattern!r} is no regular expression: {error}") from error
    return f"^(?:{pattern})$"


def said(told: str) -> str:
    """As the user has said it, for messages."""
    return told.removeprefix("^(?:").removesuffix(")$") if told.startswith("^(?:") and told.endswith(")$") else told


def matches(told: str, topic: str) -> bool:
    """Whether Spark's source reads a topic by this expression, wherever in the name it is found."""
    return re.search(told, topic) is not None
