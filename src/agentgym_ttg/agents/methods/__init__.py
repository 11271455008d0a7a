"""Methods: what ``--method`` can name. Third parties add theirs by the entry-point group ``agentgym_ttg.methods``."""

from .base import Method, PolicySettings
from .registry import ENTRY_POINT_GROUP, METHODS, MethodRegistry, get_method

__all__ = ["ENTRY_POINT_GROUP", "METHODS", "Method", "MethodRegistry", "PolicySettings", "get_method"]
