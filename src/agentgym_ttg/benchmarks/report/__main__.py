"""``python -m agentgym_ttg.benchmarks.report RUN``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
