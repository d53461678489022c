"""Python imports this file at its start where the folder is on its path: numba cannot be imported then."""

import sys

sys.modules["numba"] = None  # type: ignore[assignment]
