"""What runs in a Python worker that may lack everything: sent there by value, so it needs nothing of Onceward."""


def missing(wanted: tuple[str, ...], shared: str | None = None) -> str:
    """What keeps this interpreter from running Onceward's tasks; empty if nothing does.

    shared: a file that the driver has made where the query's state is kept.
    """
    import importlib
    import platform
    import sys
    from pathlib import Path

    for module in wanted:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver is told
            where = f"{sys.executable} (Python {platform.python_version()})"
            if isinstance(error, ModuleNotFoundError) and error.name is not None:
                return f"{where} has no module {error.name!r}"
            return f"{where} cannot import {module}: {type(error).__name__}: {error}"
    if shared is not None and not Path(shared).exists():
        return f"its {Path(shared).parent} is not the driver's, and the query keeps its state there"
    return ""
