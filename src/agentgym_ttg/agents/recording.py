"""Recording trajectories of several policies, to train a meter or a warm start from.

A policy is named by a short text, the same on the command line, in config files and in the recorded trajectories:
``expert``, ``noisy:0.3`` (an expert that errs with that probability), ``random``, ``model:PATH`` or ``model:PATH@0.7``
(any causal LM, at a temperature), ``server:MODEL@URL`` (an OpenAI-compatible server).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentgym_ttg.core.actions import ActionFormat
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import TrajectoryWriter, iter_trajectories
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import TextVectorEnv
from agentgym_ttg.wrappers.chat import PromptBuilder

from .policies.base import Policy, SamplingParams
from .rollout import EpisodeSpec, RolloutEngine, group_specs
from .tasks import TaskStream

__all__ = ["Recorder", "parse_recorder", "record"]


@dataclass(frozen=True, slots=True)
class Recorder:
    """A policy to be recorded.

    Attributes:
        name: As it is written and as it stands in the trajectories.
        make: Builds the policy for an action format.
        needs_expert: Whether the environment has to offer its expert's actions.
        temperature: Overrides the sampling temperature; None keeps it.
    """

    name: str
    make: Callable[[ActionFormat], Policy]
    needs_expert: bool = False
    temperature: float | None = None


def parse_recorder(text: str, aliases: Mapping[str, str] | None = None) -> Recorder:
    """Read a policy's name.

    Args:
        text: See the module's description.
        aliases: Own names for others, such as ``{"warm-start": "model:PATH"}``; the alias stays the recorded name.

    Raises:
        ConfigError: If the text names no policy.
    """
    from .policies.scripted import ExpertPolicy, NoisyExpertPolicy, RandomPolicy

    if aliases and text in aliases:
        return replace(parse_recorder(aliases[text]), name=text)
    kind, _, rest = text.partition(":")
    if kind == "expert" and not rest:
        return Recorder(text, lambda form: ExpertPolicy(), needs_expert=True)
    if kind == "random" and not rest:
        return Recorder(text, RandomPolicy)
    if kind == "noisy":
        probability = _number(rest, text)
        if not 0 <= probability <= 1:
            raise ConfigError(f"policy {text!r}: expected a probability in [0, 1], got {rest}")
        return Recorder(text, lambda form: NoisyExpertPolicy(probability, form), needs_expert=True)
    if kind == "model" and rest:
        path, at, heat = rest.rpartition("@")
        path, temperature = (path, _number(heat, text)) if at else (rest, None)
        return Recorder(text, lambda form: _model_policy(path), temperature=temperature)
    if kind == "server" and "@" in rest:
        model, _, url = rest.partition("@")
        return Recorder(text, lambda form: _server_policy(model, url))
    raise ConfigError(
        f"unknown policy {text!r}; expected expert, noisy:P, random, model:PATH[@TEMPERATURE] or server:MODEL@URL"
        + (f", or one of {', '.join(aliases)}" if aliases else "")
    )


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"policy {whole!r}: expected a number, got {text!r}") from None


def _model_policy(path: str) -> Policy:
    from .policies.hf import HFPolicy

    return HFPolicy(path)


def _server_policy(model: str, url: str) -> Policy:
    from .policies.openai_compatible import OpenAIPolicy

    return OpenAIPolicy(model=model, base_url=url)


@dataclass(slots=True)
class _Share:
    recorder: Recorder
    specs: list[EpisodeSpec] = field(default_factory=list)


def record(
    path: Path,
    recorders: Sequence[Recorder],
    *,
    episodes: int,
    seed: int,
    env_id: str,
    make_envs: Callable[..., TextVectorEnv],
    probe: MultiTurnEnv,
    prompt: PromptBuilder | None = None,
    sampling: SamplingParams | None = None,
    on_episode: Callable[[Trajectory], Any] = lambda trajectory: None,
) -> int:
    """Record ``episodes`` trajectories in all, in equal parts by policy, into one file.

    What the file already holds is not recorded again, so an interrupted call is resumed by calling it again.

    Args:
        path: Trajectory file.
        recorders: The policies.
        episodes: Trajectories in the file at the end; the first policies get one more where it does not divide.
        seed: Seeds tasks and policies.
        env_id: Registered id.
        make_envs: Builds the vector environment; takes ``expert=``.
        probe: An environment of the same kind, for its tasks and its action format.
        prompt: Prompt of model policies.
        sampling: Sampling of model policies.
        on_episode: Called with each new trajectory.

    Returns:
        How many trajectories were added.
    """
    stream = TaskStream(probe.tasks, seed)
    sampling = sampling or SamplingParams()
    done = {t.metadata.get("episode_id") for t in iter_trajectories(path)} if path.exists() else set()
    shares: list[_Share] = []
    cursor = 0
    for index, recorder in enumerate(recorders):
        count = episodes // len(recorders) + (index < episodes % len(recorders))
        specs = group_specs(stream.take(cursor, count), size=1, seed=seed, name=f"record/{recorder.name}")
        cursor += count
        shares.append(_Share(recorder, [spec for spec in specs if spec.episode_id not in done]))
    added = 0
    with TrajectoryWriter(path) as writer:
        for share in shares:
            if not share.specs:
                continue
            for trajectory in _play(share, env_id, make_envs, probe, prompt, sampling):
                writer.write(trajectory)
                added += 1
                on_episode(trajectory)
    return added


def _play(
    share: _Share,
    env_id: str,
    make_envs: Callable[..., TextVectorEnv],
    probe: MultiTurnEnv,
    prompt: PromptBuilder | None,
    sampling: SamplingParams,
) -> Iterator[Trajectory]:
    recorder = share.recorder
    if recorder.temperature is not None:
        sampling = replace(sampling, temperature=recorder.temperature)
    envs = make_envs(expert=recorder.needs_expert)
    try:
        engine = RolloutEngine(
            envs,
            recorder.make(probe.format),
            env_id=env_id,
            prompt=prompt,
            sampling=sampling,
            policy_name=recorder.name,
        )
        for finished in engine.run(share.specs):
            yield finished.trajectory
    finally:
        envs.close()
