"""The README's promises: its commands are those that the CI runs, its code runs, its names exist."""

import re
import shlex
from pathlib import Path

import pytest

from agentgym_ttg.agents.methods import METHODS
from agentgym_ttg.benchmarks.config import field_names
from agentgym_ttg.envs import ENVIRONMENTS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands(text):
    """Return the words of each simple command; paths of interpreters and quoting do not count."""
    found = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        for part in re.split(r"&&|;", line):
            words = shlex.split(part, comments=True)
            if words:
                found.append([Path(words[0]).name, *words[1:]])
    return found


CI = commands((ROOT / ".ci" / "run").read_text(encoding="utf-8"))


def in_ci(command):
    """Whether the CI runs a command; it may add where to put results, and be quieter."""
    ignored = {"--quiet"}
    return any(
        [word for word in theirs if word not in ignored][: len(command)] == command
        for theirs in CI
        if theirs[0] == command[0]
    )


def test_the_second_command_is_what_the_ci_runs():
    setup, tests = (commands(block) for block in blocks("bash")[:2])
    assert [Path(setup[1][0]).name, setup[1][1]] == ["pip", "install"]
    install, run = tests[1], tests[2]
    assert in_ci(install), f"{install} is not in .ci/run"
    assert in_ci(run), f"{run} is not in .ci/run"


def test_the_main_job_is_what_the_ci_runs_small():
    main = commands(blocks("bash")[0])[-1]
    assert main[1:3] == ["-m", "agentgym_ttg.benchmarks.run"]
    assert in_ci(main), f"{main} is not in .ci/run"


def test_both_first_commands_install_the_tested_set():
    for block in blocks("bash")[:2]:
        (install,) = (words for words in commands(block) if words[:2] == ["pip", "install"])
        assert install[2:4] == ["-c", "constraints.txt"]


def test_constraints_pin_exactly_and_name_no_place():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in pins)
    names = [line.split("==")[0].lower() for line in pins]
    assert names == sorted(names)
    assert "torch==2.13.0" in pins


def test_every_flag_of_run_in_the_readme_exists():
    known = {name.replace("_", "-") for name in field_names()}
    runs = [c for block in blocks("bash") for c in commands(block) if c[1:3] == ["-m", "agentgym_ttg.benchmarks.run"]]
    assert runs
    for command in runs:
        for word in command[3:]:
            if word.startswith("--"):
                assert word.removeprefix("--") in known, word


def test_every_environment_and_method_is_listed():
    for env_id in ENVIRONMENTS:
        assert f"`{env_id}`" in README
    for name in METHODS:
        assert f"`{name}`" in README


def test_the_first_example_runs(capsys):
    (code,) = (block for block in blocks("python") if "ALFWorld-v0" in block)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_import_comes_first():
    for block in blocks("python"):
        if "gym.make(" in block and "agentgym_ttg/" in block:
            assert block.index("import agentgym_ttg") < block.index("gym.make(")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_linked_files_are_there(target):
    assert (ROOT / target).exists()
