"""Which data there are, where they lie, and how to check and bring them.

``python -m agentgym_ttg.data`` lists it all.
"""

from .registry import DATA_SOURCES, DataSource
from .status import SplitStatus, Status, check, status

__all__ = ["DATA_SOURCES", "DataSource", "SplitStatus", "Status", "check", "status"]
