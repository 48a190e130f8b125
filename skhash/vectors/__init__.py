"""Vectors of embedding models: codes and queries learned from them, new models for old codes, lengths, drift."""

from skhash.neighbors.choosing import choose_code  # it serves codes of any hasher, and vectors first of all
from skhash.vectors.adapter import QueryAdapter
from skhash.vectors.drift import Drift

__all__ = ["Drift", "QueryAdapter", "choose_code"]
