"""``python -m skhash`` is the command line."""

import sys

from skhash.cli import main

sys.exit(main())
