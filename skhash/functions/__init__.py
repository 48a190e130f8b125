"""What hashers learn: functions from samples to activations, whose signs are the bits, and to real queries.

One file per kind of function, by what it computes and not by the method that learned it. Functions that only one method
has stand in the file of its paper.
"""

from skhash._validation import OPTIONAL, Array
from skhash.functions.function import ArrayFunction, HashFunction
from skhash.functions.kernel import KernelFunction
from skhash.functions.linear import DenseFunction, LinearFunction

__all__ = ["OPTIONAL", "Array", "ArrayFunction", "DenseFunction", "HashFunction", "KernelFunction", "LinearFunction"]
