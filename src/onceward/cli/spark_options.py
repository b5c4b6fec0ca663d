"""The options by which a command chooses Spark's settings, and what they come to."""

from typing import Annotated, Final

import typer

from onceward.secret import remember

Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's; may be repeated.", show_default=False),
]
Packages = Annotated[
    str | None,
    typer.Option(metavar="GROUP:NAME:VERSION,...", help="Jars to fetch with what they need.", show_default=False),
]
PyFiles = Annotated[
    str | None,
    typer.Option(
        "--py-files", metavar="FILE,...", help="Modules (.py, .zip) for the file and its functions.", show_default=False
    ),
]
DriverMemory = Annotated[
    str | None, typer.Option("--driver-memory", metavar="SIZE", help="Of the driver's JVM: 4g. Default: 1g.")
]
MEMORY: Final = "spark.driver.memory"
PACKAGES: Final = "spark.jars.packages"


def settings(conf: list[str] | None, packages: str | None, driver_memory: str | None) -> dict[str, str]:
    """Spark's settings; what has an option of its own may be given either way, packages both ways."""
    found: dict[str, str] = {}
    for text in conf or []:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(
                f"--conf takes NAME=VALUE, and the names of Spark's settings begin with spark.: {text}"
            )
        found[name.strip()] = value
    if driver_memory is not None:
        found[MEMORY] = driver_memory
    if packages is not None:
        found[PACKAGES] = ",".join(filter(None, [found.get(PACKAGES), packages]))
    remember(found)
    return found


def names(text: str | None) -> list[str]:
    """What an option with commas names."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
