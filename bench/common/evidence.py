"""Intervals and trials of `hardmeter-evidence`, through its C interface (evidence/capi/include/hm_evidence.h)."""

import ctypes
import functools
import json
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

Interval = Tuple[float, float]

_TARGET = Path(__file__).resolve().parents[2] / "target"
_MESSAGE_BYTES = 400


class Unavailable(Exception):
    """Reports that the library is not built."""


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    built = [_TARGET / profile / "libhmevidence.so" for profile in ("release", "debug")]
    for path in built:
        if path.exists():
            return _typed(ctypes.CDLL(str(path)))
    raise Unavailable(f"there is no {built[0]}\n  remedy: make build")


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    trial, text, numbers = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)
    library.hm_trial_new.restype = trial
    library.hm_trial_new.argtypes = [text, text, ctypes.c_size_t]
    library.hm_trial_free.argtypes = [trial]
    library.hm_trial_next.argtypes = [trial]
    library.hm_trial_observe.argtypes = [trial, ctypes.c_int, numbers, ctypes.c_size_t]
    library.hm_trial_verdict.argtypes = [trial, ctypes.c_int]
    for name in ("hm_trial_standings", "hm_trial_state"):
        getattr(library, name).restype = ctypes.c_void_p
        getattr(library, name).argtypes = [trial]
    library.hm_string_free.argtypes = [ctypes.c_void_p]
    library.hm_median.argtypes = [numbers, ctypes.c_size_t, numbers, numbers, numbers]
    library.hm_share.argtypes = [ctypes.c_uint64, ctypes.c_uint64, numbers, numbers]
    return library


def _array(values: Sequence[float]) -> "ctypes.Array[ctypes.c_double]":
    return (ctypes.c_double * len(values))(*values)


def median(values: Sequence[float]) -> Tuple[float, Optional[Interval]]:
    """The median, and its 95 % interval by order statistics, which needs at least six values."""
    found, low, high = ctypes.c_double(), ctypes.c_double(), ctypes.c_double()
    places = [ctypes.byref(one) for one in (found, low, high)]
    known = _library().hm_median(_array(values), len(values), *places)
    if known == 0:
        raise ValueError("the median of no values")
    return found.value, (low.value, high.value) if known == 2 else None


def share_interval(count: int, total: int) -> Optional[Interval]:
    """The 95 % interval of a share, by Wilson's method; None if the total is 0."""
    low, high = ctypes.c_double(), ctypes.c_double()
    known = _library().hm_share(count, total, ctypes.byref(low), ctypes.byref(high))
    return (low.value, high.value) if known else None


class Trial:
    """Which contestant is better: evidence::Trial. Contestant 0 is the baseline.

    for contestant in trial: trial.observe(contestant, [value for each metric])
    """

    VERDICTS = ("better", "worse", "same", "undecided")

    def __init__(self, metrics: Sequence[dict], contestants: int = 2, seed: int = 1, **rules: object):
        """A metric is {"name", "direction": "less" or "more", "minimum_effect"}; rules: design, level, most_rounds."""
        plan = {"contestants": contestants, "seed": seed, "metrics": list(metrics), **rules}
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._metrics = len(metrics)
        self._trial = _library().hm_trial_new(json.dumps(plan).encode(), message, _MESSAGE_BYTES)
        if not self._trial:
            raise ValueError(message.value.decode())

    def __del__(self) -> None:
        if getattr(self, "_trial", None):
            _library().hm_trial_free(self._trial)

    def __iter__(self) -> Iterator[int]:
        while (contestant := _library().hm_trial_next(self._trial)) >= 0:
            yield contestant

    def observe(self, contestant: int, values: Sequence[float]) -> None:
        """Adds the values of the block that `contestant` ran."""
        if len(values) != self._metrics or _library().hm_trial_observe(
            self._trial, contestant, _array(values), len(values)
        ):
            raise ValueError(f"a block of contestant {contestant} with {len(values)} values was not expected")

    def verdict(self, contestant: int = 1) -> str:
        """better, worse, same or undecided."""
        return self.VERDICTS[_library().hm_trial_verdict(self._trial, contestant)]

    def standings(self) -> List[dict]:
        """The state of each challenger."""
        return self._json("hm_trial_standings")

    def order(self) -> List[int]:
        """The contestants of this round, in their order."""
        return self._json("hm_trial_state")["order"]

    def _json(self, name: str):  # type: ignore[no-untyped-def]
        pointer = getattr(_library(), name)(self._trial)
        try:
            return json.loads(ctypes.string_at(pointer))
        finally:
            _library().hm_string_free(pointer)


def interleaved_order(count: int, seed: int) -> List[int]:
    """The order of one block of a trial: each contestant twice, in random order and back (ABBA)."""
    if count < 2:
        return [0] * (2 * count)
    metric = {"name": "time", "direction": "less", "minimum_effect": 0.01}
    return Trial([metric], contestants=count, seed=seed).order()
