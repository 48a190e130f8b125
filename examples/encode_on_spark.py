"""Encode a data frame with Spark.

    python examples/encode_on_spark.py          # pip install "pyspark[sql]", and Java

Each worker loads the hasher once per partition, and encodes batch after batch by
`mapInPandas`. The codes are a binary column, which Parquet and SQL support.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import pyspark
from pyspark.sql import SparkSession
from skhash import ITQHasher
from skhash.persistence import load, save
from sklearn.datasets import load_digits

NBITS = 32


def encoder(path):
    """Return the function that Spark calls with the batches of a partition."""

    def encode(batches):
        hasher = load(path)  # of a shared folder, or sent by SparkContext.addFile
        for batch in batches:
            codes = hasher.encode(np.stack(batch["vector"]))
            yield pd.DataFrame(
                {"id": batch["id"], "code": [row.tobytes() for row in codes]}
            )

    return encode


def main():
    """Compare with one process."""
    # Spark starts another Python, which must be this one
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    X, _ = load_digits(return_X_y=True)
    hasher = ITQHasher(NBITS, random_state=0).fit(X)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 500)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        path, vectors = (os.path.join(folder, name) for name in ("hasher", "vectors"))
        save(hasher, path)
        pd.DataFrame({"id": range(len(X)), "vector": list(X)}).to_parquet(vectors)
        samples = spark.read.parquet(vectors).repartition(4)
        encoded = samples.mapInPandas(encoder(path), "id long, code binary")
        # a large data set: encoded.write.parquet(...)
        rows = encoded.orderBy("id").collect()
        spark.stop()
    codes = np.stack([np.frombuffer(row["code"], np.uint8) for row in rows])
    n_differing = int(np.bitwise_count(codes ^ hasher.encode(X)).sum())

    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    print(f"pyspark {pyspark.__version__}, {java.splitlines()[0]}")
    print(f"bits that differ from one process: {n_differing} of {codes.size * 8:,}")
    if n_differing:
        raise SystemExit("Spark has computed something else.")


if __name__ == "__main__":
    main()
