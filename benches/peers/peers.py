#!/usr/bin/env python3
"""Times our kernels and their peers against each other, interleaved, in one process on one GPU. See README.md."""

import argparse
import faulthandler
import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from statistics import median

import contestants as who
import gate
import launcher
import nvml
import plan
import problem as problems
import stats

SAMPLED_ROWS = 48
BASES = ["cudnn", "fa4", "cublas"]
"""Whom the ratios of the table are against."""
WAIT_DEADLINE_S = 20
PREPARE_DEADLINE_S = 120
"""A peer may compile its kernel at the first launch."""
EXIT_WRONG, EXIT_UNFINISHED, EXIT_HANG = 1, 2, 9


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=plan.BAR_CASES, metavar="CASE", help=problems.GRAMMAR)
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=FOLDER", help="our cubins; repeatable")
    parser.add_argument("--peers", default="cudnn,fa4,cublas", help="comma-separated; empty for none")
    parser.add_argument("--protocol", choices=["burst", "sustained", "both"], default="sustained")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--windows", type=int, default=1, help="passes over all contestants per round")
    parser.add_argument("--out", default=None, help="JSON lines are appended here")
    parser.add_argument("--limit-s", type=float, default=225.0, help="no case begins that may end later than this")
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


@contextmanager
def watched(seconds=WAIT_DEADLINE_S + 10):
    """Ends the process when the block takes longer: enqueueing into a full queue blocks inside the driver."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def wait(what):
    """Waits until the current stream is done; ends the process when it is not in time."""
    import torch

    done = torch.cuda.Event()
    done.record()
    end_s = time.monotonic() + WAIT_DEADLINE_S
    while not done.query():
        if time.monotonic() > end_s:
            print(f"HANG: {what} did not end within {WAIT_DEADLINE_S} s", flush=True)
            os._exit(EXIT_HANG)
        time.sleep(0.0002)


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


class Case:
    """One problem with its tensors: who is admitted, and how fast they are."""

    def __init__(self, problem, sets, records, seed):
        self.problem = problem
        self.sets = sets
        self._records = records
        self._seed = seed
        self._judge = gate.Judge(problem)
        self.has_failed = False

    def admit(self, contestant):
        """Prepares a contestant and checks its output; false when it cannot run or is wrong."""
        case, name = str(self.problem), contestant.name
        index = len(self.sets) - 1
        self.sets[index][self.problem.output].fill_(float("nan"))
        contestant.detail = None
        try:
            with watched(PREPARE_DEADLINE_S):
                contestant.prepare(self.problem, self.sets)
                with contestant.session():
                    output = contestant.launch(index)
                wait(f"{name}, first launch")
        except who.Unsupported as error:
            print(f"  {name}: SKIP {error}")
            self._records.add("skipped", case=case, contestant=name, reason=str(error))
            return False
        except Exception as error:  # A peer's compiler may raise anything.
            print(f"  {name}: FAILED {error!r}"[:600])
            self._records.add("failed", case=case, contestant=name, reason=repr(error))
            self.has_failed = True
            return False
        return self.is_right(name, index, output, self._seed, "before timing")

    def is_right(self, name, index, output, seed, moment):
        """Judges one output by sampled rows of the last batch entry."""
        problem = self.problem
        length = problem.q_len if problem.kind == "fwd" else problem.m
        rows = gate.sample_indices(length, SAMPLED_ROWS, seed)
        batch = problem.batch - 1 if problem.kind == "fwd" else 0
        errors, plain = self._judge.row_errors(index, self.sets[index], output, rows, batch)
        result = gate.verdict(errors, plain, problem.dtype)
        self._records.add("verified", case=str(problem), contestant=name, moment=moment, rows=len(errors), **result)
        word = "right" if result["ok"] else "WRONG"
        print(f"  {name}: {word} {moment} (rms {result['rms']:.2e}, limit {result['rms_limit']:.2e})")
        self.has_failed |= not result["ok"]
        return result["ok"]

    def compare(self, admitted, protocol, args, monitor):
        """Times all contestants under one protocol; returns the rows of the report."""
        timer = Timer(len(self.sets), monitor)
        by_name = {contestant.name: contestant for contestant in admitted}
        medians, states, last = {}, {name: [] for name in by_name}, {}
        for turn in plan.interleave(list(by_name), args.rounds, args.windows):
            times_us, state = timer.window(by_name[turn.contestant], protocol)
            medians[(turn.contestant, turn.round, turn.window)] = median(times_us)
            states[turn.contestant].append(state)
            place = {"case": str(self.problem), "protocol": protocol.name, "round": turn.round, "window": turn.window}
            self._records.add("window", contestant=turn.contestant, times_us=times_us, **place, **state)
            # Others may write into the same tensor.
            last[turn.contestant] = (timer.last_index, timer.last_output.clone())
        # What was timed must be right: the output of the last timed launch of each.
        moment, seed = f"in {protocol.name} windows", self._seed + 1
        right = [name for name, (index, output) in last.items() if self.is_right(name, index, output, seed, moment)]
        medians = {key: value for key, value in medians.items() if key[0] in right}
        rows = stats.summarise(medians, self.problem.flops(), BASES)
        for row in rows:
            row.update(case=str(self.problem), protocol=protocol.name, kernel=by_name[row["contestant"]].detail)
            row.update(clocks(states[row["contestant"]]))
            self._records.add("summary", **row)
        return rows


def clocks(states):
    """Medians over the windows of a contestant."""
    keys = ("sm_mhz", "power_w")
    return {key: median(state[key] for state in states) if all(key in state for state in states) else None for key in keys}


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
        with watched():
            torch.cuda._sleep(plan.head_start_cycles(count))
            for start, end in zip(starts, ends):
                self.last_index = (self.last_index + 1) % self._sets_count
                start.record()
                self.last_output = contestant.launch(self.last_index)
                end.record()
            wait(f"{contestant.name}, {count} launches")
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


def run_case(problem, everyone, args, records, monitor):
    """Verifies and times all contestants of one case: (rows of the report, whether anyone failed)."""
    import torch

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    count = plan.input_sets(problems.set_bytes(problem), l2_bytes)
    print(f"{problem}: {count} sets of inputs")
    case = Case(problem, make_sets(problem, count, args.seed), records, args.seed)
    admitted = [contestant for contestant in everyone if case.admit(contestant)]
    rows = []
    if admitted:
        for protocol in plan.PROTOCOLS.values():
            if args.protocol in (protocol.name, "both"):
                rows += case.compare(admitted, protocol, args, monitor)
    for row in rows:
        print(f"  {row['contestant']}: {row['tflops']:.1f} TFLOP/s {row['protocol']}")
    has_failed = case.has_failed
    del case
    torch.cuda.empty_cache()
    return rows, has_failed


def report(rows):
    """The table: one line per case, protocol and contestant."""
    bases = [base for base in BASES if any(base in row["ratios"] for row in rows)]
    lines = []
    for row in rows:
        line = {key: row[key] for key in ("case", "protocol", "contestant", "kernel")}
        line.update({key: f"{row[key]:.1f}" for key in ("tflops", "median_us")})
        line.update({key: row[key] for key in ("sm_mhz", "power_w")})
        line.update({f"vs {base}": stats.ratio_text(row["ratios"].get(base)) for base in bases})
        lines.append(line)
    return stats.table(lines)


def environment(args, properties, monitor):
    """What a number depends on besides the kernels: the `run` record."""
    import torch

    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "driver": monitor.driver,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "fa4": version_of("flash-attn-4"),
        "builds": {name: launcher.build_facts(folder) for name, folder in args.ours},
        "protocols": {name: asdict(protocol) for name, protocol in plan.PROTOCOLS.items() if args.protocol in (name, "both")},
        "rounds": args.rounds,
        "windows": args.windows,
        "at_unix_s": time.time(),
    }


def version_of(package):
    """The version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def contestants_of(args):
    """Everyone who is asked for, peers first."""
    peers = who.all_peers()
    chosen = [name for name in args.peers.split(",") if name]
    if unknown := [name for name in chosen if name not in peers]:
        raise SystemExit(f"no peers {unknown}; there are {list(peers)}")
    return [peers[name] for name in chosen] + [who.Ours(name, folder) for name, folder in args.ours]


def run_all(args, records, monitor, begin_s):
    """Every case in turn: (rows, exit status)."""
    everyone = contestants_of(args)
    rows, status, longest_s = [], 0, 0.0
    for number, problem in enumerate(args.cases, start=1):
        start_s = time.monotonic()
        if start_s + longest_s > begin_s + args.limit_s:
            print(f"SKIP {problem}: it might end after the limit of {args.limit_s:.0f} s")
            records.add("skipped", case=str(problem), reason="time limit")
            status = status or EXIT_UNFINISHED
            continue
        print(f"[{number}/{len(args.cases)}, {start_s - begin_s:.0f} s]", end=" ")
        found, has_failed = run_case(problem, everyone, args, records, monitor)
        rows += found
        status = EXIT_WRONG if has_failed else status
        longest_s = max(longest_s, time.monotonic() - start_s)
    return rows, status if rows else status or EXIT_UNFINISHED


def main(argv):
    begin_s = time.monotonic()
    args = parse_args(argv)
    sys.stdout.reconfigure(line_buffering=True)
    import torch

    # Makes the context current that the launcher's driver calls need.
    torch.zeros(1, device="cuda")
    properties = torch.cuda.get_device_properties(0)
    monitor = nvml.open_monitor(str(properties.uuid))
    records = Records(args.out)
    facts = environment(args, properties, monitor)
    print(json.dumps(facts))
    records.add("run", argv=argv, **facts)
    rows, status = run_all(args, records, monitor, begin_s)
    records.close()
    print(f"\n{time.monotonic() - begin_s:.0f} s\n\n{report(rows)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
