"""``python -m alem``."""

import sys

from alem.cli import main

sys.exit(main())
