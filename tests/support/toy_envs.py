"""Small environments for tests: one that counts, with every misbehaviour on request."""

import os
import time

import gymnasium as gym

import agentgym_ttg  # noqa: F401
from agentgym_ttg.core import Message
from agentgym_ttg.envs import MultiTurnEnv, NumberedIds, StepResult, TaskSet

COUNTING = "toys/Counting-v0"


class CountingEnv(MultiTurnEnv):
    """Count from a random start up to the goal that the task names."""

    splits = ("train", "test")
    action_formats = ("plain", "tags", "tools")
    default_max_steps = 10

    def __init__(self, *, own_snapshots=False, cursed=False, **kwargs):
        super().__init__(**kwargs)
        self.own_snapshots = own_snapshots
        self.cursed = cursed
        self.closes = 0

    def _tasks(self, split):
        return TaskSet(split, NumberedIds(f"count/{split}/", 1000))

    def _begin(self, task):
        number = self.tasks.ids.number(task.id)
        if self.cursed and number == 666:
            raise RuntimeError("this room burns")
        if self.cursed and number == 667:
            os._exit(7)
        if self.cursed and number == 668:
            time.sleep(3600)
        self.goal = 3 + number % 5
        self.count = 0
        self.die = int(self.np_random.integers(100))
        return f"Count to {self.goal}. The die shows {self.die}."

    def _act(self, action):
        match action.command.split(" ", 1):
            case ["up"]:
                self.count += 1
            case ["down"]:
                self.count -= 1
            case ["roll"]:
                self.die = int(self.np_random.integers(100))
            case ["win"]:
                self.count = self.goal
            case ["lose"]:
                return StepResult("Lost.", terminated=True, metrics={"lost": 1.0})
            case ["solved"]:
                return StepResult("Solved, go on.", success=True)
            case ["cut"]:
                return StepResult("Out of fuel.", truncated=True)
            case ["boom"]:
                raise ZeroDivisionError("boom")
            case ["die"]:
                os._exit(3)
            case ["hang"]:
                print("hanging", flush=True)
                time.sleep(3600)
            case ["big"]:
                return StepResult("\u2028x" * 500_000)
            case ["tool"]:
                return StepResult([Message("tool", "4", name="add"), Message("tool", "5", name="add")])
            case ["nan"]:
                return StepResult("?", reward=float("nan"))
            case ["nothing"]:
                return StepResult(None)
            case ["silent"]:
                return StepResult([])
            case ["bad-anchor"]:
                self.goal = "x"
            case ["pid"]:
                return StepResult(str(os.getpid()))
            case ["unpicklable"]:
                return StepResult("hm", metrics={"f": lambda: 0})
            case _:
                return StepResult("What?", valid=False)
        done = self.count == self.goal
        return StepResult(
            f"Count {self.count}, die {self.die}.",
            reward=float(done),
            terminated=done,
            success=done,
            metrics={"ups": float(self.count)},
        )

    def _anchor(self):
        return f"{self.count}/{self.goal:d}"

    def _admissible_actions(self):
        return ["up", "down", "roll"]

    def _task_type(self):
        return f"to-{self.goal}"

    def _expert_message(self):
        return self.format.render("up")

    def _tools(self):
        return [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]

    def _snapshot(self):
        return (self.goal, self.count, self.die) if self.own_snapshots else None

    def _restore(self, state):
        self.goal, self.count, self.die = state

    def _close(self):
        self.closes += 1


if COUNTING not in gym.registry:
    gym.register(
        COUNTING,
        entry_point="toy_envs:CountingEnv",
        vector_entry_point="toy_envs:make_vec",
        order_enforce=False,
        disable_env_checker=True,
    )


def make_counting(**kwargs):
    return CountingEnv(**kwargs)


def make_vec(num_envs=1, **kwargs):
    from agentgym_ttg.envs.vector import make_vector_env

    return make_vector_env(COUNTING, num_envs, **kwargs)


def make_cartpole():
    return gym.make("CartPole-v1")


def make_dying():
    os._exit(5)
