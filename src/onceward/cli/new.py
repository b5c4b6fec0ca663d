"""`onceward new`: a project of one's own that runs as it is."""

from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from onceward.cli.output import AsJson, result
from onceward.epoch.home import require_name
from onceward.errors import ConfigurationError

TEMPLATE: Final = "onceward.starter"
PLACEHOLDER: Final = "new-project"  # stands in the template wherever the project's name belongs
FILES: Final = {
    "README.md": "README.md",
    "events.txt": "events.txt",
    "gitignore": ".gitignore",  # by its own name it would count for our repository
    "pipeline.py": "pipeline.py",
    "test_pipeline.py": "test_pipeline.py",
}


def new(
    name: Annotated[
        str, typer.Argument(help="Of the folder, of the pipeline, and the beginning of its topics.", show_default=False)
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Make a small project in a new folder NAME: a pipeline, a few events, and a test that kills it."""
    folder = Path(require_name(name))
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists already, and is not empty; choose another name")
    folder.mkdir(exist_ok=True)
    template = resources.files(TEMPLATE)
    for source, target in FILES.items():
        text = template.joinpath(source).read_text("utf-8")
        (folder / target).write_text(text.replace(PLACEHOLDER, name), "utf-8")
    steps = (
        f"cd {name}",
        "onceward kafka start",
        f"onceward kafka topic create {name}-orders {name}-totals",
        f"onceward kafka produce {name}-orders < events.txt",
        "onceward run pipeline.py --once",
        f"onceward kafka consume {name}-totals",
    )
    text = "\n".join([f"made {folder}: {', '.join(sorted(FILES.values()))}. Try it:", *(f"  {it}" for it in steps)])
    facts = {"folder": str(folder.absolute()), "files": sorted(FILES.values())}
    result(facts, text, as_json=as_json)
