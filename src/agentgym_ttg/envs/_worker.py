"""Worker processes that hold environments: deadlines, crashes, restarts.

One worker holds several slots and answers one command at a time, slot by slot. A worker that does not answer in time
or dies takes the episodes of its own slots with it, and no others; it is started anew at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, NamedTuple

from agentgym_ttg.core.errors import AgentGymError, ConfigError, EngineError

from ._slots import Description, Factory, SlotHost

__all__ = ["LocalBackend", "Replies", "Request", "WorkerBackend"]

_START = -1  # the slot of a worker's first message


class Request(NamedTuple):
    """A command for one slot."""

    command: str
    arguments: tuple[Any, ...] = ()


@dataclass(slots=True)
class Replies:
    """What came of a batch of requests.

    Attributes:
        values: The results, by slot.
        raised: Errors that are the caller's, by slot.
        lost: Slots whose environment is gone, asked or not, and why.
    """

    values: dict[int, Any] = field(default_factory=dict)
    raised: dict[int, Exception] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


class LocalBackend:
    """All slots in this process, one after the other."""

    def __init__(self, factory: Factory, num_envs: int) -> None:
        self._host = SlotHost(factory, range(num_envs))
        self.description = self._host.describe()

    def run(self, requests: Mapping[int, Request], timeout: float | None) -> Replies:
        """Execute the requests; there is no deadline in-process."""
        replies = Replies()
        for slot, request in requests.items():
            try:
                replies.values[slot] = self._host.execute(request.command, slot, *request.arguments)
            except Exception as error:
                replies.raised[slot] = error
        return replies

    def abandon(self) -> set[int]:
        """Give up a call that was interrupted; no environment is lost but those it was about."""
        return set()

    def close(self) -> None:
        """Close the environments."""
        self._host.close()


class WorkerBackend:
    """The slots spread over worker processes."""

    def __init__(self, factory: Factory, num_envs: int, workers: int, start_timeout: float) -> None:
        self._start_timeout = start_timeout
        self._owing: dict[_Worker, set[int]] = {}
        self._workers: list[_Worker] = []
        count = min(workers, num_envs)
        try:
            for number in range(count):
                self._workers.append(_Worker(factory, range(number, num_envs, count)))
            descriptions = [worker.wait_until_ready(start_timeout) for worker in self._workers]
        except BaseException:
            self.close(patience=0.0)
            raise
        self.description = descriptions[0]

    def run(self, requests: Mapping[int, Request], timeout: float | None) -> Replies:
        """Execute the requests, each within ``timeout`` seconds."""
        replies = Replies()
        owing = self._owing = {}
        deadlines: dict[_Worker, float] = {}

        def fail(worker: _Worker, why: str) -> None:
            owing.pop(worker, None)
            worker.kill()
            replies.lost.update(dict.fromkeys(worker.slots, why))
            worker.start()

        def extend(worker: _Worker) -> None:
            limit = timeout if worker.ready else self._start_timeout
            deadlines[worker] = time.monotonic() + (limit if limit is not None else float("inf"))

        for worker in self._workers:
            part = {slot: requests[slot] for slot in worker.slots if slot in requests}
            if not part:
                continue
            try:
                worker.send(part)
            except (OSError, ValueError):  # it died since the last call
                fail(worker, f"the worker process died ({worker.exit_reason()})")
                continue
            owing[worker] = set(part)
            extend(worker)
        while owing:
            by_connection = {worker.connection: worker for worker in owing}
            wait = min(deadlines[worker] for worker in owing) - time.monotonic()
            speaking = connection.wait(list(by_connection), None if wait == float("inf") else max(0.0, wait))
            for one in speaking:
                worker = by_connection[one]  # type: ignore[index]
                try:
                    slot, kind, value = worker.receive()
                except (EOFError, OSError):
                    fail(worker, f"the worker process died ({worker.exit_reason()})")
                    continue
                except Exception as error:  # whatever unpickling raises
                    fail(worker, f"the worker's answer cannot be read ({type(error).__name__}: {error})")
                    continue
                if slot == _START and kind == "raise":
                    fail(worker, f"the worker process cannot make its environments: {value}")
                elif slot != _START:
                    {"value": replies.values, "raise": replies.raised, "lost": replies.lost}[kind][slot] = value
                    owing[worker].discard(slot)
                if worker in owing:
                    extend(worker)
                    if not owing[worker]:
                        del owing[worker]
            now = time.monotonic()
            for worker in [worker for worker in owing if deadlines[worker] <= now and not worker.has_answer()]:
                limit = timeout if worker.ready else self._start_timeout
                fail(worker, f"no answer within {limit:g} seconds; the worker process was killed")
        return replies

    def abandon(self) -> set[int]:
        """Give up a call that was interrupted; return the slots that are lost with it.

        The workers that still owe an answer are started anew: nobody knows how far they came.
        """
        lost: set[int] = set()
        for worker in list(self._owing):
            lost.update(worker.slots)
            worker.kill()
            worker.start()
        self._owing = {}
        return lost

    def close(self, patience: float = 5.0) -> None:
        """Ask the workers to close their environments; kill those that do not within ``patience`` seconds."""
        for worker in self._workers:
            worker.ask_to_stop()
        deadline = time.monotonic() + patience
        for worker in self._workers:
            worker.stop(max(0.0, deadline - time.monotonic()))
        self._workers.clear()


class _Worker:
    """The parent's end of one worker process."""

    def __init__(self, factory: Factory, slots: Sequence[int]) -> None:
        self.slots = tuple(slots)
        self._factory = factory
        self.start()

    def start(self) -> None:
        """Start the process; it reports when it is ready."""
        # Not fork: the parent may hold torch's threads. Nothing of ours is inherited then.
        context = multiprocessing.get_context("spawn")
        self.ready = False
        self.connection, child = context.Pipe()
        self._process = context.Process(
            target=_main, args=(child, self._factory, self.slots), daemon=True, name=f"agentgym_ttg-{self.slots[0]}"
        )
        try:
            with _interrupts_blocked():  # the child takes over this mask: Ctrl-C is the parent's business
                self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.connection.close()
            raise ConfigError(
                f"the environment cannot be sent to a worker process ({error}); pass a registered id, or a function "
                "at the top of a module, or use workers=0"
            ) from error
        finally:
            child.close()

    def wait_until_ready(self, timeout: float) -> Description:
        """Wait for the first message.

        Raises:
            AgentGymError: What making the environments raised.
            EngineError: If the process dies or does not answer.
        """
        try:
            if not self.connection.poll(timeout):
                raise EngineError(f"a worker process was not ready within {timeout:g} seconds")
            _, kind, value = self.receive()
        except (EOFError, OSError) as error:
            raise EngineError(
                f"a worker process died while it started ({self.exit_reason()}). A script that uses workers must "
                'guard its main part with `if __name__ == "__main__":`'
            ) from error
        if kind == "raise":
            raise value
        description: Description = value
        return description

    def send(self, message: Any) -> None:
        self.connection.send(message)

    def receive(self) -> tuple[int, str, Any]:
        message: tuple[int, str, Any] = self.connection.recv()
        if message[0] == _START and message[1] == "value":
            self.ready = True
        return message

    def has_answer(self) -> bool:
        try:
            return self.connection.poll()
        except OSError:
            return False

    def exit_reason(self) -> str:
        self._process.join(1.0)
        code = self._process.exitcode
        if code is None:
            return "its pipe is closed"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def ask_to_stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.send(None)

    def stop(self, patience: float) -> None:
        self._process.join(patience)
        self.kill()

    def kill(self) -> None:
        """End the process and whatever it started, and reap it."""
        pid = self._process.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # the worker leads a group of its own
            self._process.kill()
            self._process.join()
        self.connection.close()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _main(pipe: connection.Connection[Any, Any], factory: Factory, slots: Sequence[int]) -> None:
    """Serve the slots until the parent says None, closes the pipe or dies."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        host = SlotHost(factory, slots)
        first = (_START, "value", host.describe())
    except Exception as error:
        pipe.send((_START, "raise", _sendable(error)))
        return
    try:
        pipe.send(first)
        while (requests := pipe.recv()) is not None:
            for slot, request in requests.items():
                _answer(pipe, host, slot, request)
    except (EOFError, OSError):
        pass
    finally:
        host.close()


def _answer(pipe: connection.Connection[Any, Any], host: SlotHost, slot: int, request: Request) -> None:
    kind: str
    value: Any
    try:
        kind, value = "value", host.execute(request.command, slot, *request.arguments)
    except Exception as error:
        kind, value = "raise", _sendable(error)
    try:
        data = pickle.dumps((slot, kind, value))
    except Exception as error:
        data = pickle.dumps(
            (slot, "lost", f"the answer to {request.command} cannot be sent between processes: {error}")
        )
    pipe.send_bytes(data)


def _sendable(error: Exception) -> Exception:
    """Return the error if it survives a pickle, else one that does and says the same."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        if isinstance(error, AgentGymError) and type(copy) is type(error):
            return error
    except Exception:
        pass
    return EngineError(f"{type(error).__name__}: {error}")


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)
