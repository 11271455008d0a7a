"""``python -m agentgym_ttg.benchmarks.compare.worker``: ``benchmarks.run`` that ends when its comparison does.

Standard input is a pipe that the comparison holds open; its end means that the comparison is gone, killed or not, and
nobody would count the core that this run goes on using.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from ..run import main

__all__: list[str] = []

#: Seconds that a run has to stop in good order.
_GRACE = 20.0


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE)
    os._exit(143)


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    sys.exit(main())
