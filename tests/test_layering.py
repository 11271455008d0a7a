"""The floors of the house: a module imports only from floors below its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentgym_ttg

ROOT = Path(agentgym_ttg.__file__).parent
PACKAGE = "agentgym_ttg"

#: What each package may import of ours, itself apart.
BELOW = {
    "core": set(),
    "data": {"core"},
    "credit": {"core"},
    "models": {"core"},
    "envs": {"core", "data"},
    "meter": {"core", "credit", "models"},
    "scorers": {"core", "credit", "models", "meter"},
    "wrappers": {"core", "envs", "credit", "meter"},
    "agents": {"core", "data", "credit", "models", "envs", "meter", "scorers", "wrappers"},
    "benchmarks": {"core", "data", "credit", "models", "envs", "meter", "scorers", "wrappers", "agents"},
}
#: Of the meter, wrappers know the protocol only; what a path holds is loaded when it is asked for.
METER_PROTOCOL = f"{PACKAGE}.meter.base"
#: Files beside the packages, and what they may import: the registration, and for the console script everything.
TOP = {"__init__": {"envs"}, "__main__": set(BELOW)}
#: Modules that must not be loaded by importing the package.
HEAVY = ("torch", "transformers", "trl", "datasets", "accelerate", "alfworld", "textworld", "matplotlib", "openai")
#: Where torch may be imported when a module is loaded.
TORCH_FLOORS = {"models", "meter", "agents", "scorers"}

FILES = sorted(ROOT.rglob("*.py"))


def module_of(path):
    parts = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Yield (line, imported module, whether it is imported on loading, whether for type checkers only)."""
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def walk(node, top, typing_only):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((child.lineno, alias.name, top, typing_only) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    anchor = package.split(".")
                    anchor = anchor[: len(anchor) - child.level + 1]
                    base = ".".join([*anchor, base] if base else anchor)
                for alias in child.names:
                    whole = f"{base}.{alias.name}"
                    is_module = base.startswith(PACKAGE) and (
                        ROOT.joinpath(*whole.split(".")[1:]).with_suffix(".py").exists()
                        or ROOT.joinpath(*whole.split(".")[1:], "__init__.py").exists()
                    )
                    yield child.lineno, whole if is_module else base, top, typing_only
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                yield from walk(child, top and not inside, typing_only or checking)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), True, False)


def floor_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_floors_below(path):
    own = floor_of(module_of(path))
    allowed = BELOW.get(own, TOP.get(own))
    assert allowed is not None, f"{path}: {own!r} is no floor of the house"
    for line, module, on_load, typing_only in imports_of(path):
        if not (module == PACKAGE or module.startswith(f"{PACKAGE}.")):
            if module.split(".")[0] in HEAVY and on_load and not typing_only:
                assert own in TORCH_FLOORS, f"{path}:{line} loads {module} when it is imported"
            continue
        floor = floor_of(module)
        if floor in (own, "__init__"):
            assert floor == own or own in TOP or own in ("agents", "benchmarks"), (
                f"{path}:{line} imports the whole package"
            )
            continue
        assert floor in allowed, f"{path}:{line} ({own}) imports {module}"
        if own == "wrappers" and floor == "meter":
            assert module == METER_PROTOCOL or typing_only or not on_load, (
                f"{path}:{line} imports {module}, not {METER_PROTOCOL}"
            )


def test_the_reader_sees_relative_lazy_and_type_checking_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "envs").mkdir()
    path = tmp_path / "envs" / "toy.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "from ..core.errors import ConfigError\nfrom . import base\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "def f():\n    import trl\n"
    )
    assert [(module, on_load, typing_only) for _, module, on_load, typing_only in imports_of(path)] == [
        ("typing", True, False),
        ("agentgym_ttg.core.errors", True, False),
        ("agentgym_ttg.envs", True, False),
        ("torch", True, True),
        ("trl", False, False),
    ]


def loaded_by(code):
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(out.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import agentgym_ttg",
        "import agentgym_ttg.wrappers, agentgym_ttg.envs.vector, agentgym_ttg.envs.text_env, agentgym_ttg.credit",
    ],
)
def test_importing_loads_nothing_heavy(code):
    loaded = loaded_by(code)
    assert "agentgym_ttg.envs.base" in loaded
    assert not loaded.intersection(HEAVY)


def test_importing_registers_and_loads_no_domain():
    loaded = loaded_by("import agentgym_ttg, gymnasium as gym; assert 'agentgym_ttg/ALFWorld-v0' in gym.registry")
    assert not [module for module in loaded if module.startswith("agentgym_ttg.envs.alfworld")]
    assert "pydantic" not in loaded


def test_public_names_are_there():
    for name in agentgym_ttg.__all__:
        assert getattr(agentgym_ttg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = agentgym_ttg.nothing
