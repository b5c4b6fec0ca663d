"""What MkDocs calls while it builds the site (mkdocs.yml names this file)."""

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from website import generated, links, navigation

ROOT: Final = Path(__file__).parents[1]
_ASSETS: Final = ("site.css", "iframe-worker.js")
_MERMAID: Final = re.compile(r"^```mermaid\n.*?^```$", re.DOTALL | re.MULTILINE)
_DRAWN: Final = "![The states of an epoch's transaction, and what leads from one to the next](pictures/transaction.svg)"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that are not in docs/: root documents, made ones, and every source file that a page links to."""
    made = {
        **{uri: (ROOT / name).read_text("utf-8") for name, uri in links.ROOT_PAGES.items()},
        **generated.pages(ROOT),
    }
    written = {f"docs/{it.src_uri}": it.content_string for it in files if it.is_documentation_page()}
    written |= {links.repository_path(uri): text for uri, text in made.items()}
    linked = sorted({path for place, text in written.items() for path in links.sources(text, place, ROOT)})
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for path in linked:  # shown where somebody follows a link, and not in the navigation
        text, shown = generated.source(path, ROOT), InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, links.source_page(path), content=text, inclusion=shown))
    for name in _ASSETS:
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(ROOT / "website" / name)))
    there = sorted(it.src_uri for it in files if it.is_documentation_page())
    config.nav = navigation.expanded(config.nav or [], there)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave docs/ lead to the pages made for them; the mermaid drawing is shown as a picture."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]  # its table leads everywhere
    place = links.repository_path(page.file.src_uri)
    text = links.rewritten(links.with_decisions(markdown, place, ROOT), place, ROOT)
    return _MERMAID.sub(_DRAWN, text)
