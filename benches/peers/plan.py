"""In which order contestants are timed, on how many sets of inputs, and what the protocols are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """How one window is run."""

    name: str
    window_ms: float
    load_ms: float
    """Launches of the contestant itself before the window, in one queue with it, so that clock and power are its own."""
    rest_ms: float
    """Idle time before the window, so that one contestant's heat does not slow the next."""


BURST = Protocol("burst", window_ms=20.0, load_ms=0.0, rest_ms=30.0)
SUSTAINED = Protocol("sustained", window_ms=350.0, load_ms=150.0, rest_ms=0.0)
PROTOCOLS = {protocol.name: protocol for protocol in (BURST, SUSTAINED)}


# The default table: attention over 32 768 tokens each, and one product.
BAR_CASES = [
    "fwd bf16 b8 s4096 h16 d128 full",
    "fwd bf16 b8 s4096 h16 d128 causal",
    "fwd bf16 b2 s16384 h16 d128 full",
    "fwd bf16 b2 s16384 h16 d128 causal",
    "fwd bf16 b2 s16384 h32/8 d128 full",
    "fwd bf16 b2 s16384 h32/8 d128 causal",
    "fwd bf16 b2 s16384 h32 d64 full",
    "fwd bf16 b2 s16384 h32 d64 causal",
    "fwd bf16 b2 s16384 h8 d256 full",
    "fwd bf16 b2 s16384 h8 d256 causal",
    "gemm bf16 m8192 n8192 k8192 nn",
    "gemm bf16 m8192 n8192 k8192 nt",
]


@dataclass(frozen=True)
class Turn:
    """One window of one contestant. Windows of equal (round, window) are compared with each other."""

    round: int
    window: int
    contestant: str


def interleave(contestants, rounds, windows):
    """ABBA: every other pass goes backwards, so that a drift hits all contestants alike."""
    turns = []
    passes = 0
    for round_index in range(rounds):
        for window in range(windows):
            order = contestants if passes % 2 == 0 else list(reversed(contestants))
            turns += [Turn(round_index, window, name) for name in order]
            passes += 1
    return turns


def input_sets(bytes_per_set, l2_bytes, limit=64):
    """How many sets of inputs to rotate through, so that between two uses of one set more than twice the L2 went by."""
    needed = (2 * l2_bytes) // bytes_per_set + 2
    return max(2, min(limit, needed))


def launches_for(window_ms, launch_ms):
    """How many launches fill a window at least."""
    if launch_ms <= 0:
        raise ValueError(f"a launch cannot take {launch_ms} ms")
    return max(1, -int(-window_ms // launch_ms))


def head_start_cycles(launches, launch_cost_us=20.0, limit_ms=20.0, clock_mhz=1500):
    """For how many clock cycles the GPU waits before a run, so that Python is ahead of it with `launches` launches."""
    wait_us = min(launches * launch_cost_us, limit_ms * 1000)
    return int(wait_us * clock_mhz)
