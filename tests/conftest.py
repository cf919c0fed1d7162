"""What every test runs under."""

from __future__ import annotations

import numpy as np
from hypothesis import settings

# geomstats 2.8 imports the old name of numpy.trapezoid, which NumPy 2.4 has dropped.
if not hasattr(np, "trapz"):
    setattr(np, "trapz", np.trapezoid)  # noqa: B010 (ruff takes the plain assignment for a use)

# Machines differ in speed, and the first example of a test may compile something.
settings.register_profile("alem", deadline=None)
settings.load_profile("alem")
