"""The published package, imported from our cache folder without what it depends on."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from agentgym_ttg.core.cache import cache_dir
from agentgym_ttg.core.errors import ConfigError, DataError, MissingDependencyError
from agentgym_ttg.data.bfcl_install import bfcl_folder

__all__ = ["MULTI_TURN", "SINGLE_TURN", "Package", "data_file", "json_lines", "load_package"]

MULTI_TURN = tuple(f"multi_turn_{kind}" for kind in ("base", "miss_func", "miss_param", "long_context"))
SINGLE_TURN = (
    *("simple", "java", "javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *(f"live_{kind}" for kind in ("simple", "multiple", "parallel", "parallel_multiple", "irrelevance", "relevance")),
)
_DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


class _AnyModel(dict[str, Any]):
    """The stand-in for the package's table of models: no name is rewritten."""

    def __missing__(self, key: str) -> Any:
        return types.SimpleNamespace(underscore_to_dot=False)


class Package:
    """One version of the package: its data files, executable classes and checkers."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self.data = folder / "bfcl_eval" / "data"
        self.multi_turn_utils: Any = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
        checker: Any = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
        self.multi_turn_checker = checker.multi_turn_checker
        # v4 names languages by an enumeration; only its multi-turn tasks are played.
        self.ast_checker: Any = None
        if version == "v3":
            self.ast_checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker

    def entries(self, category: str) -> list[dict[str, Any]]:
        """Return the tasks of a category.

        Raises:
            DataError: If its file is not there or not readable.
        """
        return json_lines(data_file(self.folder, self.version, category))

    def answers(self, category: str) -> dict[str, Any]:
        """Return the ground truth of a category by task id; empty where it has none."""
        path = self.data / "possible_answer" / f"BFCL_{self.version}_{category}.json"
        return {line["id"]: line["ground_truth"] for line in json_lines(path)} if path.exists() else {}

    @functools.lru_cache(maxsize=16)  # noqa: B019 - there is one package in a process, and it stays
    def functions(self, class_name: str) -> list[dict[str, Any]]:
        """Return the documented functions of an executable class; not to be changed."""
        return json_lines(self.data / "multi_turn_func_doc" / f"{_DOCS[class_name]}.json")


def data_file(folder: Path, version: str, category: str) -> Path:
    """Return the file of a category's tasks in a folder that ``data install bfcl`` made."""
    return folder / "bfcl_eval" / "data" / f"BFCL_{version}_{category}.json"


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object a line.

    Raises:
        DataError: If it is not there or not readable.
    """
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read BFCL's {path.name}: {error}") from error


_LOADED: list[Package] = []


def load_package(version: str = "v3") -> Package:
    """Import the package; a process holds one version of it.

    Raises:
        ConfigError: If there is no such version, or the process has loaded the other one.
        DataError: If it is not installed.
        MissingDependencyError: If ``mpmath`` is missing, which its calculator needs.
    """
    folder = bfcl_folder(version)
    if _LOADED:
        if _LOADED[0].version != version:
            raise ConfigError(f"BFCL {_LOADED[0].version} is loaded in this process; play {version} in another one")
        return _LOADED[0]
    if not (folder / "bfcl_eval").is_dir():
        raise DataError(
            f"BFCL {version} is not installed in {folder}; bring it with: agentgym-ttg data install bfcl"
            + ("" if version == "v3" else f" --version {version}")
        )
    if importlib.util.find_spec("mpmath") is None:
        raise MissingDependencyError("mpmath", "bfcl", "BFCL's calculator")
    root = cache_dir("bfcl", "work")
    root.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("BFCL_PROJECT_ROOT", str(root))
    stub = types.ModuleType("bfcl_eval.constants.model_config")
    stub.MODEL_CONFIG_MAPPING = _AnyModel()  # type: ignore[attr-defined]
    sys.path.insert(0, str(folder))
    try:
        sys.modules["bfcl_eval.constants.model_config"] = stub
        _LOADED.append(Package(version, folder))
    except ImportError as error:
        raise DataError(f"BFCL {version} in {folder} cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(folder))
    return _LOADED[0]
