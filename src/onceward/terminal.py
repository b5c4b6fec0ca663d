"""Text for a terminal. Names from homes, brokers and users may hold escape sequences: shown, not acted on."""


def plain(text: str) -> str:
    r"""Escapes and other invisible characters as `\x1b`; line ends and tabs stay."""
    return "".join(it if it in "\n\t" or it.isprintable() else ascii(it)[1:-1] for it in text)


def one_line(text: str) -> str:
    r"""Line ends too, as `\n`: for a name inside a line of ours, which it must not seem to end."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")
