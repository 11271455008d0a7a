"""The methods by name; open to other packages.

Another package adds one by an entry point in the group ``agentgym_ttg.methods`` that names a :class:`Method`::

    [project.entry-points."agentgym_ttg.methods"]
    my-method = "my_package.method:METHOD"
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping

from agentgym_ttg.core.errors import ConfigError, nearest

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


class MethodRegistry(Mapping[str, Method]):
    """Name to method: those of this package, then those of others, which are imported when they are asked for."""

    def __init__(self, own: tuple[Method, ...]) -> None:
        self._own: dict[str, Method] = {method.name: method for method in own}

    def register(self, method: Method) -> None:
        """Add a method for this process.

        Raises:
            ConfigError: If the name is taken by another method.
        """
        if self._own.get(method.name, method) is not method:
            raise ConfigError(f"there is a method {method.name!r} already; choose another name")
        self._own[method.name] = method

    def _foreign(self) -> dict[str, importlib.metadata.EntryPoint]:
        found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        return {point.name: point for point in found if point.name not in self._own}

    def __getitem__(self, name: str) -> Method:
        """Return a method.

        Raises:
            KeyError: If there is none of this name.
            ConfigError: If another package's method cannot be imported or is no :class:`Method`.
        """
        if name in self._own:
            return self._own[name]
        point = self._foreign()[name]
        try:
            method = point.load()
        except Exception as error:  # a foreign module may fail in any way
            raise ConfigError(
                f"method {name!r} ({point.value}) cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(method, Method):
            raise ConfigError(f"method {name!r}: expected {point.value} to be a Method, got {type(method).__name__}")
        return method

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        yield from self._own
        yield from sorted(self._foreign())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._own) + len(self._foreign())


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
    try:
        return METHODS[name]
    except KeyError:
        pass
    hint = nearest(name, METHODS)
    raise ConfigError(
        f"unknown method {name!r}"
        + (f"; did you mean {hint[0]!r}?" if hint else ".")
        + f" There are {', '.join(METHODS)}."
    )
