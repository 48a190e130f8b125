"""Files: atomic writes, and the names of classes and parameters in saved files."""

from skhash._files._names import qualified_name, with_current_names
from skhash._files._partial import sweep
from skhash._files._writing import atomic_write, write_atomically, write_json

__all__ = ["atomic_write", "qualified_name", "sweep", "with_current_names", "write_atomically", "write_json"]
