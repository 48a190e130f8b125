"""Codes that tell nothing apart: what a fit warns of."""

import warnings

import numpy as np
import numpy.typing as npt

from skhash.exceptions import DegenerateCodesWarning

N_CHECKED = 1000  # training samples that are encoded for the check if their codes are not stored
N_NAMED = 5  # a warning names at most this many constant bits
CHANCE = 0.05  # with few samples, balanced bits are constant by chance; a warning needs less than this


def warn_if_degenerate(codes: npt.NDArray[np.uint8], nbits: int, n_samples: int, stacklevel: int) -> None:
    """Warn if all codes are equal or a bit is constant, see :func:`describe_degenerate`."""
    message = describe_degenerate(codes, nbits, n_samples)
    if message is not None:
        warnings.warn(message, DegenerateCodesWarning, stacklevel=stacklevel + 1)


def describe_degenerate(codes: npt.NDArray[np.uint8], nbits: int, n_samples: int) -> str | None:
    """Warning about packed codes that are equal or have constant bits; None if balanced bits may be so by chance."""
    n = len(codes)
    varies = np.unpackbits(np.bitwise_and.reduce(codes, axis=0) ^ np.bitwise_or.reduce(codes, axis=0), count=nbits)
    constant = np.flatnonzero(varies == 0)
    samples = f"all {n} training samples" if n == n_samples else f"{n} evenly spaced training samples of {n_samples}"
    if len(constant) == nbits and 0.5 ** (nbits * (n - 1)) < CHANCE:
        return (
            f"The codes of {samples} are equal: a search tells none of them apart. Check that X varies, scale features "
            "of very different ranges, for example with StandardScaler, or lower `learning_rate` if there is one."
        )
    if len(constant) and nbits * 0.5 ** (n - 1) < CHANCE:
        return (
            f"{len(constant)} of {nbits} bits are constant on {samples}: {_listed(constant.tolist())}. They tell no "
            "samples apart. Lower `nbits`, or `weight_decay` if there is one, or fit more samples or for longer."
        )
    return None


def _listed(bits: list[int]) -> str:
    named = [str(bit) for bit in bits[:N_NAMED]]
    if len(bits) > N_NAMED:
        named.append(f"{len(bits) - N_NAMED} more")
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
