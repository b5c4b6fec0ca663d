"""`onceward run` with settings and modules of one's own, from another folder than the file's."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from support.driver import Driver
from support.judge import Kafka

JOB = """
import json
import pathlib

from pyspark.sql import functions as F

import added
import beside
import kit.words
import onceward as ow


@F.udf("string")
def marked(text):
    import beside_later

    return "".join([kit.words.shout(text), beside.MARK, beside_later.MARK, added.MARK])


def build(spark):
    context = spark.sparkContext
    resource = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().getResource("tiny.txt")
    facts = {{
        "memory": spark._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20,
        "ui": context.uiWebUrl,
        "speculation": context.getConf().get("spark.speculation"),
        "packages": [jar for jar in context.getConf().get("spark.jars").split(",") if "tiny" in jar],
        "found": str(resource),
    }}
    pathlib.Path({facts!r}).write_text(json.dumps(facts))
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    return ow.Pipeline({name!r}, home={home!r}, source=events).to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}),
        rows=lambda batch: batch.select("key", marked(F.col("value").cast("string")).alias("value")))
"""
REPOSITORY = """<ivysettings><settings defaultResolver="disk"/><resolvers><filesystem name="disk">
<artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""


def test_settings_packages_and_modules_of_the_users_reach_driver_and_workers(
    kafka: Kafka, drivers: Callable[[str], Driver], tmp_path: Path, name: str
) -> None:
    """I6: a function at the top of the file, modules and packages beside it, --py-files, --packages, memory, the UI."""
    source, target, facts = kafka.topic(1), kafka.topic(1), tmp_path / "facts.json"
    kafka.feed(source, [("k", "a"), ("k", "b")])
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/__init__.py").touch()
    (tmp_path / "kit/words.py").write_text("def shout(text):\n    return text.upper()\n")
    (tmp_path / "beside.py").write_text("MARK = '!'\n")
    (tmp_path / "beside_later.py").write_text("MARK = '?'\n")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("added.py", "MARK = '.'\n")
    with zipfile.ZipFile(tmp_path / "tiny-1.0.jar", "w") as archive:
        archive.writestr("tiny.txt", "")
    (tmp_path / "ivy.xml").write_text(REPOSITORY.format(folder=tmp_path))
    job = drivers(
        JOB.format(
            bootstrap=kafka.bootstrap, source=source, target=target, name=name,
            home=str(tmp_path / "home"), facts=str(facts),
        )
    )  # fmt: skip
    job.start(
        *("--once", "--json", "--driver-memory", "777m", "--py-files", str(tmp_path / "more.zip")),
        *("--packages", "org.tiny:tiny:1.0", "--conf", f"spark.jars.ivySettings={tmp_path / 'ivy.xml'}"),
        *(
            "--conf",
            "spark.ui.enabled=true",
            "--conf",
            "spark.ui.port=0",
            "--conf",
            f"spark.jars.ivy={tmp_path / 'ivy'}",
        ),
    )
    job.result()
    assert kafka.values(target) == ["A!?.", "B!?."]
    found = json.loads(facts.read_text())
    assert 700 < found["memory"] <= 777
    assert found["ui"].startswith("http://")
    assert found["speculation"] == "false"
    assert len(found["packages"]) == 1
    assert found["found"] != "None"
