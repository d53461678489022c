"""``sldl-annif``, or ``python -m pysldl.annif``: Annif's command with one more backend."""

import sys

from pysldl.annif import register
from pysldl.exceptions import MissingDependencyError


def main() -> None:
    """Run Annif's command line with the backend ``pysldl``; exit code 2 if Annif is not installed."""
    try:
        register()
    except MissingDependencyError as error:
        print(f"sldl-annif: {error}", file=sys.stderr)
        sys.exit(2)
    from annif.cli import cli

    cli(prog_name="sldl-annif")


if __name__ == "__main__":
    main()
