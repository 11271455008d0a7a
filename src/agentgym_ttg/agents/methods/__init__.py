"""Methods: what ``--method`` can name. Third parties add theirs by the entry-point group ``agentgym_ttg.methods``."""

from .base import MeterTarget, Method, PolicySettings
from .deltattg import build_deltattg
from .deltattg_variants import deltattg_variant
from .registry import ENTRY_POINT_GROUP, METHODS, MethodRegistry, get_method

__all__ = [
    "ENTRY_POINT_GROUP",
    "METHODS",
    "MeterTarget",
    "Method",
    "MethodRegistry",
    "PolicySettings",
    "build_deltattg",
    "deltattg_variant",
    "get_method",
]
