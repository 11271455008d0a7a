"""The published form: JSON lines, one file for each part of a world, joined by the scenario's name.

``gen_scenario`` (name, description), ``gen_tasks`` (tasks), ``gen_db`` (tables with DDL and indexes), ``gen_sample``
(insert statements), ``gen_spec``, ``gen_envs`` (``full_code``) and ``gen_verifier.pure_code`` (one line a task:
``verification.code``). One file is ours: ``gen_solutions`` holds the reference calls of a task, where there are any.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.core.messages import ToolCall

__all__ = ["FILES", "Records", "World", "WorldTask", "read_records", "worlds_from_records", "write_records"]

#: Lines of each file, by its name without ``.jsonl``.
Records = Mapping[str, Iterable[dict[str, Any]]]

FILES = (
    "gen_scenario",
    "gen_tasks",
    "gen_db",
    "gen_sample",
    "gen_spec",
    "gen_envs",
    "gen_verifier.pure_code",
    "gen_verifier",
    "gen_solutions",
)
_NEEDED = ("gen_tasks", "gen_db", "gen_sample", "gen_envs")
_ENTRY = "def verify_task_completion"


@dataclass(frozen=True, slots=True)
class WorldTask:
    """One task of a world.

    Attributes:
        index: Its number in the world, from 0.
        instruction: What the agent is asked.
        verifier: Source of ``verify_task_completion``; ``""`` where there is none.
        solution: Reference calls; None where there are none.
        answer: What the reference says in the end.
        near_misses: Wrong ways, each a list of calls and an answer; for tests.
    """

    index: int
    instruction: str
    verifier: str = ""
    solution: tuple[ToolCall, ...] | None = None
    answer: str = "done"
    near_misses: tuple[tuple[tuple[ToolCall, ...], str], ...] = ()


@dataclass(frozen=True)
class World:
    """One world: database, code and tasks."""

    name: str
    description: str
    statements: tuple[str, ...]
    code: str
    tasks: tuple[WorldTask, ...] = field(repr=False)

    def build(self, path: Path) -> None:
        """Make the database.

        Raises:
            DataError: If a statement fails.
        """
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        try:
            for statement in self.statements:
                try:
                    connection.executescript(statement)
                except sqlite3.Error as error:
                    raise DataError(
                        f"world {self.name!r}: its database does not build: {error} in {statement[:200]!r}"
                    ) from error
            connection.commit()
        finally:
            connection.close()

    @property
    def content_hash(self) -> str:
        """Hash of everything in it."""
        digest = blake2b(digest_size=16)
        for text in (self.name, self.code, *self.statements):
            digest.update(text.encode() + b"\0")
        for task in self.tasks:
            digest.update(f"{task.index}\0{task.instruction}\0{task.verifier}\0".encode())
        return digest.hexdigest()


def read_records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the files of a folder.

    Raises:
        DataError: If one that is needed is missing, or a line is not a JSON object.
    """
    out: dict[str, list[dict[str, Any]]] = {}
    for name in FILES:
        path = folder / f"{name}.jsonl"
        if path.exists():
            out[name] = list(_lines(path))
    missing = [name for name in _NEEDED if name not in out]
    if missing or not ("gen_verifier.pure_code" in out or "gen_verifier" in out):
        missing = missing or ["gen_verifier.pure_code"]
        raise DataError(f"{folder} is no AgentWorldModel folder: expected {missing[0]}.jsonl in it")
    return out


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: not JSON: {error}") from error
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: expected an object, got {type(record).__name__}")
            yield record


def write_records(records: Records, folder: Path) -> None:
    """Write the files; a folder that :func:`read_records` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in records.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def worlds_from_records(records: Records) -> dict[str, World]:
    """Join the lines to worlds, sorted by name.

    Raises:
        DataError: If a line lacks what it must have.
    """
    try:
        return dict(sorted(_join(records)))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"an AgentWorldModel record lacks a field: {error!r}") from error


def _join(records: Records) -> Iterator[tuple[str, World]]:
    about = {line["name"]: str(line.get("description", "")) for line in records.get("gen_scenario", ())}
    schemas = {line["scenario"]: line["db_schema"] for line in records["gen_db"]}
    samples = {line["scenario"]: line["sample_data"] for line in records["gen_sample"]}
    codes = {line["scenario"]: str(line["full_code"]) for line in records["gen_envs"]}
    verifiers: dict[tuple[str, int], str] = {}
    for source in ("gen_verifier.pure_code", "gen_verifier"):
        for line in records.get(source, ()):
            code = str(line["verification"].get("code", ""))
            if _ENTRY in code:  # the other kind only gathers evidence for a judge
                verifiers.setdefault((line["scenario"], int(line["task_idx"])), code)
    solutions = {(line["scenario"], int(line["task_idx"])): line for line in records.get("gen_solutions", ())}
    for line in records["gen_tasks"]:
        name = line["scenario"]
        if name not in codes or name not in schemas:
            continue
        tasks = []
        for index, instruction in enumerate(line["tasks"]):
            known = solutions.get((name, index))
            tasks.append(
                WorldTask(
                    index,
                    str(instruction),
                    verifiers.get((name, index), ""),
                    calls_of(known["calls"]) if known else None,
                    str(known.get("answer", "done")) if known else "done",
                    tuple((calls_of(miss["calls"]), str(miss["answer"])) for miss in known.get("near_misses", ()))
                    if known
                    else (),
                )
            )
        statements = [text for table in schemas[name]["tables"] for text in (table["ddl"], *table.get("indexes", ()))]
        statements += [
            text for table in samples.get(name, {}).get("tables", ()) for text in table.get("insert_statements", ())
        ]
        yield (
            name,
            World(name, about.get(name, ""), tuple(_ended(text) for text in statements), codes[name], tuple(tasks)),
        )


def _ended(statement: str) -> str:
    return statement if statement.rstrip().endswith(";") else statement + ";"


def calls_of(lines: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Read calls in the form ``{"name": …, "arguments": {…}}``."""
    return tuple(ToolCall(str(line["name"]), dict(line["arguments"])) for line in lines)
