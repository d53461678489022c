"""``python -m pysldl.cli`` is ``sldl``."""

from pysldl.cli import main

main()
