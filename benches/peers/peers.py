#!/usr/bin/env python3
"""Times our kernels and their peers against each other, interleaved, in one process on one GPU. See README.md."""

import argparse
import json
import sys
import time
from statistics import median

import contestants as who
import gate
import plan
import problem as problems
import stats

DEFAULT_CASES = ["fwd bf16 b2 s16384 h16 d128 full", "fwd bf16 b2 s16384 h16 d128 causal"]
SAMPLED_ROWS = 48


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=DEFAULT_CASES, metavar="CASE", help=problems.GRAMMAR)
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=FOLDER", help="our cubins; repeatable")
    parser.add_argument("--peers", default="cudnn,fa2,fa4,cublas", help="comma-separated; empty for none")
    parser.add_argument("--base", default=None, help="the contestant ratios are against; default: the first that runs")
    parser.add_argument("--protocol", choices=["burst", "sustained", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--windows", type=int, default=2, help="passes over all contestants per round")
    parser.add_argument("--out", default=None, help="JSON lines are appended here")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    if args.rounds < 1 or args.windows < 1:
        parser.error("rounds and windows must be at least 1")
    args.cases = [problems.parse(text) for text in args.cases]
    args.ours = [parse_ours(text) for text in args.ours]
    return args


def parse_ours(text):
    """`NAME=FOLDER` as a pair."""
    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise SystemExit(f"--ours takes NAME=FOLDER, not '{text}'")
    return name, folder


class Records:
    """JSON lines, flushed one by one so that a killed run keeps what it measured."""

    def __init__(self, path):
        self._file = open(path, "a") if path else None

    def add(self, kind, **fields):
        if self._file:
            self._file.write(json.dumps({"record": kind, **fields}) + "\n")
            self._file.flush()

    def close(self):
        if self._file:
            self._file.close()


def make_sets(problem, count, seed):
    """Sets of tensors: inputs random normal, outputs poisoned with NaN."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    dtype = getattr(torch, who.TORCH_DTYPES[problem.dtype])
    sets = []
    for _ in range(count):
        tensors = {}
        for name, (shape, is_input) in problem.shapes().items():
            kind = torch.float32 if name == "lse" else dtype
            if is_input:
                tensors[name] = torch.randn(shape, generator=generator, device="cuda").to(kind)
            else:
                tensors[name] = torch.full(shape, float("nan"), dtype=kind, device="cuda")
        sets.append(tensors)
    return sets


def admit(problem, contestant, sets, records, seed):
    """Prepares a contestant and checks its output; false when it cannot run or is wrong."""
    import torch

    case, name = str(problem), contestant.name
    index = len(sets) - 1
    sets[index][problem.output].fill_(float("nan"))
    try:
        contestant.prepare(problem, sets)
        with contestant.session():
            output = contestant.launch(index)
        torch.cuda.synchronize()
    except who.Unsupported as error:
        print(f"  {name}: SKIP {error}")
        records.add("skipped", case=case, contestant=name, reason=str(error))
        return False
    except (RuntimeError, ValueError, KeyError) as error:
        print(f"  {name}: FAILED {error!r}")
        records.add("failed", case=case, contestant=name, reason=repr(error))
        return False
    return is_right(problem, name, sets[index], output, records, seed, "before timing")


def is_right(problem, name, tensors, output, records, seed, moment):
    """Judges one output by sampled rows of the last batch entry."""
    length = problem.q_len if problem.kind == "fwd" else problem.m
    rows = gate.sample_indices(length, SAMPLED_ROWS, seed)
    batch = problem.batch - 1 if problem.kind == "fwd" else 0
    errors, plain = gate.row_errors(problem, tensors, output, rows, batch)
    result = gate.verdict(errors, plain, problem.dtype)
    records.add("verified", case=str(problem), contestant=name, moment=moment, rows=len(errors), **result)
    word = "right" if result["ok"] else "WRONG"
    print(f"  {name}: {word} {moment} (rms {result['rms']:.2e}, limit {result['rms_limit']:.2e})")
    return result["ok"]


class Timer:
    """Runs windows: one event pair per launch, sets rotated from launch to launch."""

    def __init__(self, sets_count, monitor):
        self._sets_count = sets_count
        self._monitor = monitor
        self._launch_ms = {}
        self.last_index = 0
        """The set of the latest launch."""
        self.last_output = None
        """What the latest launch wrote."""

    def _run(self, contestant, count):
        """Times of `count` launches in ms, enqueued without a gap."""
        import torch

        starts = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
        # Fills the queue first: an idle GPU would charge Python's time between two calls to the kernel.
        torch.cuda._sleep(plan.head_start_cycles(count))
        for start, end in zip(starts, ends):
            self.last_index = (self.last_index + 1) % self._sets_count
            start.record()
            self.last_output = contestant.launch(self.last_index)
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in zip(starts, ends)]

    def window(self, contestant, protocol):
        """(launch times in us, NVML record) of one window."""
        with contestant.session():
            if contestant.name not in self._launch_ms:
                self._run(contestant, 2)
                self._launch_ms[contestant.name] = median(self._run(contestant, 3))
            launch_ms = self._launch_ms[contestant.name]
            # At least one launch goes before the window: its code and descriptors are in no cache yet.
            load = plan.launches_for(protocol.load_ms, launch_ms)
            count = plan.launches_for(protocol.window_ms, launch_ms)
            time.sleep(protocol.rest_ms / 1000)
            self._monitor.start()
            times_ms = self._run(contestant, load + count)[load:]
            state = self._monitor.stop(last_s=sum(times_ms) / 1000)
        self._launch_ms[contestant.name] = median(times_ms)
        return [time_ms * 1000 for time_ms in times_ms], state


def compare(problem, admitted, protocol, sets, args, records, monitor):
    """Times all contestants of a case under one protocol; returns the rows of the report."""
    timer = Timer(len(sets), monitor)
    by_name = {contestant.name: contestant for contestant in admitted}
    medians = {}
    wrong = set()
    for turn in plan.interleave(list(by_name), args.rounds, args.windows):
        times_us, state = timer.window(by_name[turn.contestant], protocol)
        medians[(turn.contestant, turn.round, turn.window)] = median(times_us)
        place = {"case": str(problem), "protocol": protocol.name, "round": turn.round, "window": turn.window}
        records.add("window", contestant=turn.contestant, times_us=times_us, **place, **state)
        if (turn.round, turn.window) == (args.rounds - 1, args.windows - 1):
            # What was timed must be right: the output the last timed launch left, before anyone overwrites it.
            timed = (sets[timer.last_index], timer.last_output)
            if not is_right(problem, turn.contestant, *timed, records, args.seed + 1, f"in {protocol.name} windows"):
                wrong.add(turn.contestant)
    medians = {key: value for key, value in medians.items() if key[0] not in wrong}
    remaining = [contestant.name for contestant in admitted if contestant.name not in wrong]
    if not remaining:
        return []
    base = args.base if args.base in remaining else remaining[0]
    rows = stats.summarise(medians, problem.flops(), base)
    for row in rows:
        records.add("summary", case=str(problem), protocol=protocol.name, base=base, **row)
    return [{"case": str(problem), "protocol": protocol.name, "base": base, **row} for row in rows]


def run_case(problem, everyone, args, records, monitor):
    """Verifies and times all contestants of one case."""
    import torch

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    count = plan.input_sets(problems.set_bytes(problem), l2_bytes)
    print(f"{problem}: {count} sets of inputs")
    sets = make_sets(problem, count, args.seed)
    admitted = [contestant for contestant in everyone if admit(problem, contestant, sets, records, args.seed)]
    rows = []
    if admitted:
        for protocol in plan.PROTOCOLS.values():
            if args.protocol in (protocol.name, "both"):
                rows += compare(problem, admitted, protocol, sets, args, records, monitor)
    del sets
    torch.cuda.empty_cache()
    return rows


def main(argv):
    args = parse_args(argv)
    import torch

    torch.cuda.init()
    properties = torch.cuda.get_device_properties(0)
    import nvml

    monitor = nvml.Monitor(f"GPU-{properties.uuid}")
    records = Records(args.out)
    records.add("run", device=properties.name, torch=torch.__version__, argv=argv, at_unix_s=time.time())
    peers = who.all_peers()
    chosen = [name for name in args.peers.split(",") if name]
    unknown = [name for name in chosen if name not in peers]
    if unknown:
        raise SystemExit(f"no peers {unknown}; there are {list(peers)}")
    everyone = [peers[name] for name in chosen] + [who.Ours(name, folder) for name, folder in args.ours]
    rows = []
    for problem in args.cases:
        rows += run_case(problem, everyone, args, records, monitor)
    records.close()
    print()
    print(stats.table(rows))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
