"""What a frozen backbone says at the decisions, read once and kept.

Where only the heads of a meter are trained, the backbone's hidden states never change. They are read once for every
window of a trajectory and kept in a folder, so that further trainings (other targets, other folds) and a killed run
need not read them again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from .prompts import Window

if TYPE_CHECKING:
    from .head import HeadNetwork

__all__ = ["FeatureCache"]

#: Called with how many windows are read, and how many there are.
ReadProgress = Callable[[int, int], None]


class FeatureCache:
    """Hidden states of backbones at the decisions of windows, by content.

    A state is found by the backbone's weights and the window's ids, so one cache serves any number of meters, folds and
    targets on any backbones.

    Args:
        folder: Where the states are kept between processes; None keeps them in memory only.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._memory: dict[str, NDArray[np.float32]] = {}

    def read(
        self,
        network: HeadNetwork,
        windows: Sequence[Window],
        *,
        device: torch.device,
        batch_tokens: int = 8192,
        progress: ReadProgress | None = None,
    ) -> list[NDArray[np.float32]]:
        """Return the last hidden states at the decisions of each window, ``(N, H)``; what is not kept is read.

        Args:
            network: The network whose backbone reads.
            windows: What is read.
            device: Where the network is.
            batch_tokens: Padded tokens in one forward pass.
            progress: Told after each pass.
        """
        from .head import collate, length_batches

        weights = _fingerprint(network.backbone)
        keys = [_key(weights, window) for window in windows]
        missing = sorted({key: i for i, key in enumerate(keys) if not self._there(key)}.values())
        done = len(windows) - len(missing)
        for batch in length_batches([len(windows[i].ids) for i in missing], batch_tokens):
            chosen = [missing[i] for i in batch]
            ids, rows, positions = collate([windows[i] for i in chosen], device)
            with torch.inference_mode():
                states = network.states(ids, rows, positions).cpu().numpy()
            ends = np.cumsum([len(windows[i].positions) for i in chosen])
            for index, part in zip(chosen, np.split(states, ends[:-1]), strict=True):
                self._keep(keys[index], np.ascontiguousarray(part))
            done += len(chosen)
            if progress is not None:
                progress(done, len(windows))
        return [self._memory[key] for key in keys]

    def _there(self, key: str) -> bool:
        if key in self._memory:
            return True
        if self._folder is None:
            return False
        try:
            self._memory[key] = np.load(self._folder / f"{key}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):  # not there, or torn: it is read again
            return False
        return True

    def _keep(self, key: str, states: NDArray[np.float32]) -> None:
        self._memory[key] = states
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{key}.{os.getpid()}.npy"
        np.save(temporary, states, allow_pickle=False)
        os.replace(temporary, self._folder / f"{key}.npy")


def _fingerprint(backbone: torch.nn.Module) -> bytes:
    """Return a digest of the weights: of each parameter its shape, its sum of magnitudes and its first values."""
    digest = hashlib.blake2b(digest_size=16)
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            head = parameter.detach().reshape(-1)[:16].float().cpu().numpy().tobytes()
            total = float(parameter.detach().float().abs().sum())
            digest.update(f"{name}:{tuple(parameter.shape)}:{total!r}".encode() + head)
    return digest.digest()


def _key(weights: bytes, window: Window) -> str:
    digest = hashlib.blake2b(weights, digest_size=16)
    digest.update(np.asarray(window.ids, dtype=np.int64).tobytes())
    digest.update(b"|" + np.asarray(window.positions, dtype=np.int64).tobytes())
    return digest.hexdigest()
