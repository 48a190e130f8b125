"""Vectors of embedding models: codes and queries learned from them, new models for old codes, lengths, drift."""

from skhash.vectors.adapter import QueryAdapter
from skhash.vectors.choose_code import ChosenCode, MeasuredCode, choose_code
from skhash.vectors.drift import Drift

__all__ = ["ChosenCode", "Drift", "MeasuredCode", "QueryAdapter", "choose_code"]
