"""psycopg is asked for when the sink is, and not before."""

import subprocess
import sys


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_onceward_needs_no_psycopg() -> None:
    assert run("import sys, onceward; print('psycopg' in sys.modules)") == "False"


def test_a_missing_psycopg_is_named_with_the_extra_that_has_it() -> None:
    said = run(
        "import sys, onceward\n"
        "sys.modules['psycopg'] = None\n"
        "try: onceward.PostgresSink\n"
        "except onceward.OncewardError as error: print(type(error).__name__, error)"
    )
    assert said.startswith("DependencyMissing")
    assert "pip install 'onceward[postgres]'" in said
