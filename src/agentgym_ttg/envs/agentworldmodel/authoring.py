"""How a world is written: one folder, turned into the published records.

A folder of ``worlds/`` holds

- ``schema.sql``: the tables;
- ``seed.sql``: the rows at the beginning;
- ``app.py.txt``: the tools, FastAPI handlers; the text of ``worlds/prelude.py.txt`` comes before it;
- ``tasks.yaml``: ``description`` and ``tasks``, each a template::

    - instruction: Lend {book} to {member}.
      query: SELECT b.id AS book, m.id AS member FROM book b, member m WHERE b.holder = ''
      take: 60                                  # instances; the query's rows, spread evenly; default 60
      calls:                                    # the reference solution
        - [lend, {book: "{book}", member: "{member}"}]
      effect: UPDATE book SET holder = '{member}' WHERE id = '{book}'
      answer: done                              # default; "{column}" where something was asked
      near_misses:                              # what the verifier must refuse
        - calls: []
          answer: done

The verifier runs ``effect`` on the initial database and compares every table with the final one: so what is wrong,
missing or done beyond the task is refused alike, and it does not depend on the code of the tools. ``ignore`` names
columns (``table.column``) that may hold anything. ``calls`` may hold ``{each: SQL, call: [...]}``: a call for each row.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from agentgym_ttg.core.errors import DataError

__all__ = ["WORLDS", "author_records", "builtin_names"]

#: Folder of the built-in worlds.
WORLDS = Path(__file__).parent / "worlds"

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Tasks made of a template at most, where it does not say.
_TAKE = 60
_FIELDS = {"instruction", "query", "take", "calls", "effect", "answer", "near_misses", "ignore"}
_VERIFIER = """\
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    import re
    import sqlite3

    effect = {effect!r}
    answer = {answer!r}
    ignore = {ignore!r}

    def content(connection):
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        out = {{}}
        for table in sorted(tables):
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{{table}}")')]
            kept = ", ".join(f'"{{name}}"' for name in names if f"{{table}}.{{name}}" not in ignore)
            out[table] = sorted(connection.execute(f'SELECT {{kept}} FROM "{{table}}"').fetchall(), key=repr)
        return out

    expected = sqlite3.connect(":memory:")
    sqlite3.connect(initial_db_path).backup(expected)
    expected.executescript(effect)
    if content(expected) != content(sqlite3.connect(final_db_path)):
        return {{"result": "others"}}
    if answer:
        wanted = re.findall(r"\\w+", answer.lower())
        said = re.findall(r"\\w+", (final_answer or "").lower())
        found = any(said[i : i + len(wanted)] == wanted for i in range(len(said)))
        numbers = [[word for word in words if word.isdigit()] for words in (wanted, said)]
        if not found or (numbers[0] and set(numbers[0]) != set(numbers[1])):
            return {{"result": "others"}}
    return {{"result": "complete"}}
"""


def builtin_names() -> list[str]:
    """Return the names of the built-in worlds."""
    return sorted(path.parent.name for path in WORLDS.glob("*/tasks.yaml"))


def author_records(*folders: Path) -> dict[str, list[dict[str, Any]]]:
    """Turn authors' folders into the published records.

    Raises:
        DataError: If a folder lacks a file, or a task does not fit its data.
    """
    out: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in (
            "gen_scenario",
            "gen_tasks",
            "gen_db",
            "gen_sample",
            "gen_envs",
            "gen_verifier.pure_code",
            "gen_solutions",
        )
    }
    for folder in folders:
        try:
            _add(out, folder)
        except (OSError, KeyError, ValueError, sqlite3.Error, yaml.YAMLError) as error:
            raise DataError(f"world {folder.name!r} is not as an author writes it: {error!r}") from error
    return out


def _add(out: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    name = folder.name
    schema, seed = _statements(folder / "schema.sql"), _statements(folder / "seed.sql")
    document = yaml.load((folder / "tasks.yaml").read_text(encoding="utf-8"), _LOADER)
    prelude = (WORLDS / "prelude.py.txt").read_text(encoding="utf-8")
    code = prelude + "\n\n" + (folder / "app.py.txt").read_text(encoding="utf-8")
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    for statement in (*schema, *seed):
        connection.execute(statement)
    tasks = [task for template in document["tasks"] for task in _instances(template, connection)]
    connection.close()
    out["gen_scenario"].append({"name": name, "description": document["description"]})
    out["gen_tasks"].append({"scenario": name, "tasks": [task["instruction"] for task in tasks]})
    tables = [{"name": _table(text), "ddl": text, "indexes": []} for text in schema]
    out["gen_db"].append({"scenario": name, "db_schema": {"tables": tables}})
    inserts = [{"table_name": _table(text), "insert_statements": [text]} for text in seed]
    out["gen_sample"].append({"scenario": name, "sample_data": {"tables": inserts}})
    out["gen_envs"].append({"scenario": name, "full_code": code})
    for index, task in enumerate(tasks):
        key = {"scenario": name, "task_idx": index}
        out["gen_verifier.pure_code"].append(
            {**key, "task": task["instruction"], "verification": {"code": task["verifier"]}}
        )
        solution = {field: task[field] for field in ("calls", "answer", "near_misses")}
        out["gen_solutions"].append({**key, **solution})


def _statements(path: Path) -> list[str]:
    return [text.strip() + ";" for text in path.read_text(encoding="utf-8").split(";") if text.strip()]


def _table(statement: str) -> str:
    match = re.search(r"(?:TABLE|INTO)\s+(\w+)", statement)
    if not match:
        raise ValueError(f"expected CREATE TABLE or INSERT INTO, got {statement[:80]!r}")
    return match.group(1)


def _instances(template: dict[str, Any], connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    if unknown := set(template) - _FIELDS:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r} of a task; expected {', '.join(sorted(_FIELDS))}")
    rows = [dict(row) for row in connection.execute(template.get("query", "SELECT 1"))]
    if not rows:
        raise ValueError(f"the query of {template['instruction']!r} gives no row")
    take = min(int(template.get("take", _TAKE)), len(rows))
    for number in range(take):
        values = rows[number * len(rows) // take]
        answer = str(template.get("answer", "")).format(**values)
        yield {
            "instruction": template["instruction"].format(**values),
            "calls": _calls(template["calls"], values, connection),
            "answer": answer or "done",
            "verifier": _VERIFIER.format(
                effect=str(template.get("effect", "")).format(**values),
                answer=answer,
                ignore=sorted(template.get("ignore", ())),
            ),
            "near_misses": [
                {
                    "calls": _calls(miss.get("calls", ()), values, connection),
                    "answer": str(miss.get("answer", answer or "done")).format(**values),
                }
                for miss in template.get("near_misses", ())
            ],
        }


def _calls(lines: Any, values: dict[str, Any], connection: sqlite3.Connection) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for line in lines:
        if isinstance(line, dict):
            each = [dict(row) for row in connection.execute(line["each"].format(**values))]
            out += [_call(line["call"], {**values, **row}) for row in each]
        else:
            out.append(_call(line, values))
    return out


def _call(line: Any, values: dict[str, Any]) -> dict[str, Any]:
    name, arguments = line
    return {"name": name, "arguments": {key: _filled(value, values) for key, value in arguments.items()}}


def _filled(value: Any, values: dict[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\{(\w+)\}", value)
    return values[whole.group(1)] if whole else value.format(**values)
