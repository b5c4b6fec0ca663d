"""The pictures of docs/pictures: `python -m website.pictures` draws them anew, and a test keeps them current."""

from pathlib import Path
from typing import Final

from onceward.textbook.pictures import svg
from onceward.textbook.pictures.grid import Tone
from website import transaction_picture

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"


def drawn() -> dict[str, str]:
    """Each picture by the name of its file."""
    return {
        "one-transaction.svg": one_transaction(),
        "epochs.svg": epochs(),
        "two-phases.svg": two_phases(),
        "fence.svg": fence(),
        "transaction.svg": transaction_picture.draw(),
    }


def one_transaction() -> str:
    parts = [
        svg.box(20, 110, 120, 120),
        svg.text(80, 100, "driver", bold=True),
        svg.text(80, 165, "begins and ends"),
        svg.text(80, 183, "epoch 7"),
        svg.text(290, 30, "tasks of Spark", bold=True),
        svg.box(470, 40, 270, 250, Tone.MARK),
        svg.text(605, 30, "one Kafka transaction", Tone.MARK, bold=True),
    ]
    for number, y in enumerate((50, 110, 170)):
        parts += [
            svg.box(225, y, 130, 40),
            svg.text(290, y + 25, f"task {number}"),
            svg.line(140, 150 + 10 * number, 222, y + 20, Tone.QUIET, head=True),
            svg.line(357, y + 20, 487, y + 20, Tone.PLAIN, head=True),
            svg.box(490, y, 230, 40, Tone.QUIET),
            svg.text(605, y + 25, f"records for partition {number}"),
        ]
    parts += [
        svg.box(490, 230, 230, 40, Tone.GOOD),
        svg.text(605, 247, "marker: epoch 7 is done,", Tone.GOOD),
        svg.text(605, 264, "input positions, digest", Tone.GOOD),
        svg.line(140, 222, 487, 250, Tone.GOOD, head=True),
        svg.line(80, 232, 80, 320, Tone.MARK),
        svg.line(80, 320, 605, 320, Tone.MARK),
        svg.line(605, 320, 605, 293, Tone.MARK, head=True),
        svg.text(340, 312, "commit: everything in it is visible at once", Tone.MARK),
    ]
    return svg.document("One transaction for each epoch, with the epoch's own marker inside", 760, 345, parts)


def epochs() -> str:
    parts = [svg.text(20, 34, "what runs", Tone.QUIET, anchor="start")]
    boxes = [(150, "epoch 4", Tone.PLAIN), (270, "epoch 5", Tone.PLAIN), (390, "epoch 6", Tone.BAD)]
    boxes += [(520, "epoch 6 again", Tone.PLAIN), (640, "epoch 7", Tone.PLAIN)]
    for x, name, tone in boxes:
        parts += [svg.box(x, 15, 108, 34, tone), svg.text(x + 54, 37, name, tone)]
    parts += [
        svg.text(508, 37, "✕", Tone.BAD, bold=True),
        svg.text(444, 72, "killed before its commit:", Tone.BAD),
        svg.text(444, 90, "nothing of it is visible", Tone.BAD),
        svg.text(20, 144, "what readers see", Tone.QUIET, anchor="start"),
    ]
    for x, name in ((150, "epoch 4"), (270, "epoch 5"), (520, "epoch 6"), (640, "epoch 7")):
        parts += [
            svg.line(x + 54, 49, x + 54, 122, Tone.GOOD, head=True),
            svg.box(x, 125, 108, 34, Tone.GOOD),
            svg.text(x + 54, 147, name, Tone.GOOD),
        ]
    return svg.document("Each epoch is seen once, though one of them ran twice", 760, 175, parts)


def two_phases() -> str:
    parts = [
        svg.text(235, 30, "1. stage and vote", bold=True),
        svg.text(455, 30, "2. decide", Tone.MARK, bold=True),
        svg.text(635, 30, "3. commit", Tone.GOOD, bold=True),
    ]
    staged = ("rows in a staging table", "files under a hidden name", "records in the transaction")
    for number, (sink, what) in enumerate(zip(("PostgreSQL", "files", "Kafka"), staged, strict=True)):
        y = 50 + 60 * number
        is_last = number == 2
        parts += [
            svg.text(20, y + 25, sink, anchor="start", bold=True),
            svg.box(130, y, 210, 40, Tone.QUIET),
            svg.text(235, y + 25, what),
            svg.line(342, y + 20, 393, 190 if is_last else 168 + 8 * number, Tone.QUIET, head=True),
        ]
        if not is_last:
            parts += [
                svg.line(517, 172 + 10 * number, 567, y + 20, Tone.GOOD, head=True),
                svg.box(570, y, 140, 40, Tone.GOOD),
                svg.text(640, y + 25, "publish", Tone.GOOD),
            ]
    parts += [
        svg.box(395, 165, 120, 50, Tone.MARK),
        svg.text(455, 187, "Kafka's commit", Tone.MARK),
        svg.text(455, 204, "is the decision", Tone.MARK),
        svg.line(130, 240, 395, 240, Tone.BAD),
        svg.text(262, 260, "a failure here: undo everything, try again", Tone.BAD),
        svg.line(515, 240, 710, 240, Tone.GOOD),
        svg.text(612, 260, "a failure here: finish it", Tone.GOOD),
    ]
    return svg.document("Two phases with one decision between them", 760, 280, parts)


def fence() -> str:
    parts = [
        svg.text(20, 45, "driver, term 1", anchor="start", bold=True),
        svg.text(20, 125, "driver, term 2", anchor="start", bold=True),
        svg.text(20, 205, "Kafka and home", anchor="start", bold=True),
        svg.line(140, 40, 290, 40),
        svg.line(290, 40, 560, 40, Tone.QUIET, dashed=True),
        svg.text(425, 30, "paused", Tone.QUIET),
        svg.line(560, 40, 640, 40),
        svg.text(600, 30, "wakes, writes"),
        svg.line(210, 40, 210, 185, head=True),
        svg.text(210, 215, "epoch 8"),
        svg.dot(370, 120, Tone.MARK),
        svg.line(370, 120, 730, 120),
        svg.text(370, 106, "starts: takes term 2", Tone.MARK),
        svg.line(370, 125, 370, 185, Tone.MARK, head=True),
        svg.text(370, 215, "older terms are refused", Tone.MARK),
        svg.line(500, 120, 500, 185, Tone.GOOD, head=True),
        svg.text(520, 215, "epoch 9", Tone.GOOD),
        svg.line(620, 40, 620, 185, Tone.BAD, head=True),
        svg.text(655, 215, "✕ PipelineFenced", Tone.BAD, bold=True),
    ]
    return svg.document("A driver that slept through its replacement is refused", 760, 235, parts)


if __name__ == "__main__":
    for name, picture in drawn().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
