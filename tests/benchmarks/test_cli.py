import contextlib
import json
import subprocess
import sys

import pytest

from agentgym_ttg.__main__ import main

MODULES = [
    "agentgym_ttg.benchmarks.run",
    "agentgym_ttg.benchmarks.collect",
    "agentgym_ttg.benchmarks.speed",
    "agentgym_ttg.benchmarks.report",
    "agentgym_ttg.data",
]


@pytest.mark.parametrize("module", MODULES)
def test_help_is_readable_and_loads_nothing_heavy(module):
    code = (
        f"import sys, runpy\nsys.argv = ['x', '--help']\n"
        f"try:\n    runpy.run_module('{module}', run_name='__main__', alter_sys=True)\nexcept SystemExit as e:\n"
        "    print('status', e.code)\nheavy = {'torch', 'transformers', 'trl', 'openai'} & set(sys.modules)\n"
        "print('heavy', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "status 0" in done.stdout
    assert "heavy []" in done.stdout
    assert "usage:" in done.stdout


def test_every_command_of_the_console_script_has_help(capsys):
    assert main(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert {"run", "collect", "speed", "data", "envs", "methods", "meter", "report"} <= set(listed)
    for name in ("run", "collect", "speed", "data", "envs", "methods", "report"):
        try:
            status = main([name, "--help"])
        except SystemExit as stop:
            status = stop.code
        assert status == 0
        assert f"agentgym-ttg {name}" in capsys.readouterr().out


def test_lists(capsys):
    assert main(["envs", "--json"]) == 0
    assert "agentgym_ttg/ALFWorld-v0" in {row["id"] for row in json.loads(capsys.readouterr().out)}
    assert main(["methods", "--json"]) == 0
    methods = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert methods["deltattg"]["kind"] == "train"
    assert methods["react"]["source"]
    assert main(["methods"]) == 0
    assert "deltattg" in capsys.readouterr().out


def test_unknown_command(capsys):
    assert main(["rnu"]) == 2
    assert "'run'" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--version"]) == 0


def test_the_console_script_runs_the_module(tmp_path, capsys):
    assert main(["run", "--episodes", "2", "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2
    assert main(["run", "--episodes", "2", "--out", str(tmp_path / "run")]) == 2
    assert "agentgym-ttg run --resume" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "collect", "speed", "data", "envs", "methods", "meter", "report"])
def test_every_command_tells_its_options(command, capsys):
    with contextlib.suppress(SystemExit):
        main([command, "--help"])
    assert "usage" in capsys.readouterr().out.lower()
