"""Write codes into stores of vectors, and read them back.

Each store has one function to write and one to read. Writing takes :class:`~skhash.codes.Codes` with their identifiers
and fingerprint, bits, as `transform` returns them, or packed codes, as `encode` does, with `nbits`. Reading returns
Codes.
"""

from skhash.stores._common import bit_strings
from skhash.stores.duckdb import from_duckdb, to_duckdb
from skhash.stores.faiss import from_faiss, to_faiss
from skhash.stores.lancedb import from_lancedb, to_lancedb
from skhash.stores.parquet import from_parquet, to_parquet
from skhash.stores.pgvector import from_pgvector, to_pgvector
from skhash.stores.sentence_transformers import from_sentence_transformers, to_sentence_transformers
from skhash.stores.sqlite_vec import from_sqlite_vec, to_sqlite_vec
from skhash.stores.usearch import from_usearch, to_usearch

__all__ = [
    "bit_strings",
    "from_duckdb",
    "from_faiss",
    "from_lancedb",
    "from_parquet",
    "from_pgvector",
    "from_sentence_transformers",
    "from_sqlite_vec",
    "from_usearch",
    "to_duckdb",
    "to_faiss",
    "to_lancedb",
    "to_parquet",
    "to_pgvector",
    "to_sentence_transformers",
    "to_sqlite_vec",
    "to_usearch",
]
