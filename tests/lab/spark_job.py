"""A query of Spark's Kafka source as its users write it, with the listener of the documents; in a Python with Spark's connector.

Its sink is slow and appends a line for each record: run, partition, offset and time. Within a batch it fails once if a file asks for
it, and the query is then started again. Run as
`python spark_job.py BOOTSTRAP TOPIC FOLDER RUN PORT DOCUMENT JARS`.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

from prometheus_client import start_http_server
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

SECONDS_A_RECORD = 0.005
RECORDS_A_BATCH = 200
SECONDS_DOWN = 4


def main(bootstrap: str, topic: str, folder: str, run: str, port: str, document: str, jars: str) -> None:
    """Until it is killed."""
    [code] = [
        it for it in re.findall(r"```python\n(.*?)```", Path(document).read_text("utf-8"), re.S) if "Listener" in it
    ]
    names: dict[str, Any] = {}
    exec(compile(code, document, "exec"), names)
    start_http_server(int(port), addr="127.0.0.1")
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    spark.streams.addListener(names["KafkaProgress"]())
    with (Path(folder) / "sink.txt").open("a", encoding="utf-8", buffering=1) as sink:

        def append(batch: DataFrame, _number: int) -> None:
            for number, row in enumerate(batch.select("partition", "offset").collect()):
                time.sleep(SECONDS_A_RECORD)
                if number and fails.exists():  # what was read of it before is read again
                    fails.unlink()
                    raise ValueError("this record fails once")
                sink.write(f"{run} {row.partition} {row.offset} {time.time()}\n")

        fails = Path(folder) / "fail"
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        first = source.option("subscribe", topic).option("startingOffsets", "earliest")
        read = first.option("maxOffsetsPerTrigger", RECORDS_A_BATCH).load()
        kept = read.writeStream.queryName("pay-query").option("checkpointLocation", f"{folder}/checkpoint")
        while True:
            try:
                kept.foreachBatch(append).trigger(processingTime="1 second").start().awaitTermination()
            except StreamingQueryException:
                time.sleep(SECONDS_DOWN)


if __name__ == "__main__":
    main(*sys.argv[1:])
