"""The conformance kit: tells the author of a sink whether it keeps the contract, under crashes at every step.

Subclass `SinkConformance` in a test file and give it a fixture `under_test`; pytest does the rest. It needs pytest,
and a fixture `spark` with a session (docs/sinks/your-own.md).
"""

from onceward.errors import DependencyMissing

try:
    import pytest
except ImportError as error:
    raise DependencyMissing("onceward.testing is a pytest suite: pip install pytest") from error

# A failing case then shows the values it compared, as in a test file of one's own.
_CASES = ("anywhere", "crashes", "lineages", "memory", "rehearsal", "repeats", "visibility", "zombies")
pytest.register_assert_rewrite(*(f"onceward.testing.{module}" for module in _CASES))

from onceward.testing.conformance import SinkConformance  # noqa: E402 - only modules imported later are rewritten
from onceward.testing.rehearsal import SinkUnderTest  # noqa: E402

__all__ = ["SinkConformance", "SinkUnderTest"]
