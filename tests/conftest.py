import sys
from pathlib import Path

# Worker processes are started with this path, so what is pickled in a test is found again in them.
sys.path.insert(0, str(Path(__file__).parent / "support"))
