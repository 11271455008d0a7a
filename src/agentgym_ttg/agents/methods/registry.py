"""The methods by name; open to other packages.

Another package adds one by an entry point in the group ``agentgym_ttg.methods`` that names a :class:`Method`::

    [project.entry-points."agentgym_ttg.methods"]
    my-method = "my_package.method:METHOD"
"""

from __future__ import annotations

from agentgym_ttg.core.registry import Registry

from .base import Method
from .dapo import DAPO_METHOD
from .deltattg import DELTATTG
from .deltattg_variants import DELTATTG_VARIANTS
from .gigpo import GIGPO_METHOD
from .grpo import GRPO_METHOD
from .guided import GUIDED, NATURAL, RANDOM_OF_N
from .hgpo import HGPO_METHOD
from .react import REACT
from .scripted import EXPERT, NOISY_EXPERT, RANDOM

__all__ = ["ENTRY_POINT_GROUP", "METHODS", "MethodRegistry", "get_method"]

ENTRY_POINT_GROUP = "agentgym_ttg.methods"


class MethodRegistry(Registry[Method]):
    """Name to method."""

    noun = "method"
    kind = Method
    group = ENTRY_POINT_GROUP


METHODS = MethodRegistry(
    (
        *(RANDOM, EXPERT, NOISY_EXPERT, REACT),
        *(GUIDED, RANDOM_OF_N, NATURAL),
        *(GRPO_METHOD, DAPO_METHOD, GIGPO_METHOD, HGPO_METHOD),
        *(DELTATTG, *DELTATTG_VARIANTS),
    )
)


def get_method(name: str) -> Method:
    """Return the method called ``name``.

    Raises:
        ConfigError: If there is none; names the nearest.

    >>> get_method("expert").kind
    'evaluate'
    >>> get_method("deltatg")
    Traceback (most recent call last):
    ...
    agentgym_ttg.core.errors.ConfigError: unknown method 'deltatg'; did you mean 'deltattg'? There are random, ...
    """
    return METHODS.find(name)
