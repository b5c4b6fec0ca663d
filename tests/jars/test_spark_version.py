"""Another Spark than the locked one is refused before anything is made with it, in a sentence with both versions."""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onceward.errors import ConfigurationError
from onceward.jars.spark import LOCKED, require_pyspark, require_spark

ROOT = Path(__file__).parents[2]


def test_the_number_is_the_one_that_the_dependencies_and_the_jars_are_locked_to() -> None:
    assert f'"pyspark=={LOCKED}"' in (ROOT / "pyproject.toml").read_text()
    assert f"pyspark=={LOCKED}" in (ROOT / "requirements.lock").read_text()
    (rev,) = re.findall(
        r'name="spark-sql-kafka-0-10_2.13" rev="([^"]+)"', (ROOT / "src/onceward/jars/connector.xml").read_text()
    )
    assert rev == LOCKED


@pytest.mark.parametrize("found", [LOCKED, f"{LOCKED}-vendor-3"])
def test_a_build_of_the_locked_release_is_taken(found: str) -> None:
    require_pyspark()
    require_spark("PySpark", found)


@pytest.mark.parametrize("found", ["4.1.1", "4.2.1", "4.20.0", "3.5.4", "4.2.0.dev1"])
def test_another_is_refused_with_both_versions(found: str) -> None:
    """I4."""
    with pytest.raises(
        ConfigurationError, match=rf"PySpark is {re.escape(found)}, .* Spark 4\.2\.0: .*pyspark==4\.2\.0"
    ):
        require_spark("PySpark", found)


def fake(folder: Path) -> Path:
    """A release that would fail as soon as it is imported."""
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").write_text("raise ImportError('too old')")
    (folder / "pyspark" / "version.py").write_text("__version__: str = '3.5.4'\n")
    return folder


def test_the_command_refuses_it_before_it_is_imported(tmp_path: Path) -> None:
    """I4: one line, and the exit code that says that a restart does not help."""
    job = tmp_path / "job.py"
    job.write_text("def build(spark): ...")
    path = os.pathsep.join([str(fake(tmp_path)), str(ROOT / "src")])
    ended = subprocess.run(
        [sys.executable, "-m", "onceward", "run", str(job)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 4
    assert ended.stderr.startswith("onceward: PySpark is 3.5.4, and this Onceward works with Spark 4.2.0: ")
    assert len(ended.stderr.splitlines()) == 1


def test_one_in_a_zip_is_found_too_and_one_that_tells_nothing_is_left_to_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As spark-submit has it; `require_usable` asks the JVM again."""
    files = fake(tmp_path) / "pyspark"
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as packed:
        for name in ("__init__.py", "version.py"):
            packed.write(files / name, f"pyspark/{name}")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'pyspark.zip')!r}); "
        "from onceward.jars.spark import require_pyspark; require_pyspark()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "ConfigurationError: PySpark is 3.5.4" in ended.stderr
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    require_pyspark()
