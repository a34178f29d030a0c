"""Everything that needs neither torch nor a GPU. Run with `python3 -m unittest discover -p 'test_*.py'`."""

import contextlib
import ctypes
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import contestants
import expr
import gate
import launcher
import nvml
import peers
import plan
import problem
import stats


class Grammar(unittest.TestCase):
    def test_canonical_texts_come_back(self):
        for text in (
            "fwd bf16 b2 s16384 h16 d128 full",
            "fwd f16 b1 s5x7 h4/2 d64 causal",
            "gemm bf16 m8192 n4096 k512 nt",
        ):
            self.assertEqual(str(problem.parse(text)), text)

    def test_defaults_and_spaces_are_normalised(self):
        self.assertEqual(str(problem.parse(" fwd bf16  b2 s8x8 h4/4 d64 full ")), "fwd bf16 b2 s8 h4 d64 full")

    def test_what_is_no_problem_is_refused(self):
        for text in (
            "fwd bf16 b2 s16384 h16 d128",
            "bwd bf16 b2 s8 h4 d64 full",
            "fwd f64 b2 s8 h4 d64 full",
            "fwd bf16 b0 s8 h4 d64 full",
            "fwd bf16 b1 s8 h4/3 d64 full",
            "gemm bf16 m1 n1 k1 xx",
        ):
            with self.assertRaises(problem.ProblemError, msg=text):
                problem.parse(text)

    def test_pairs_are_those_the_mask_lets_through(self):
        for q_len, kv_len in ((4, 4), (3, 7), (7, 3), (1, 5)):
            causal = problem.parse(f"fwd bf16 b1 s{q_len}x{kv_len} h1 d8 causal")
            counted = sum(j <= i + kv_len - q_len for i in range(q_len) for j in range(kv_len))
            self.assertEqual(causal.visible_pairs(), counted, (q_len, kv_len))

    def test_flops_are_two_products(self):
        self.assertEqual(problem.parse("fwd bf16 b2 s4x6 h4/2 d8 full").flops(), 2 * 4 * (4 * 6) * 8 * 2 * 2)
        self.assertEqual(problem.parse("gemm f16 m2 n3 k5 nn").flops(), 60)

    def test_shapes_follow_the_layout(self):
        shapes = problem.parse("gemm f16 m2 n3 k5 tt").shapes()
        self.assertEqual((shapes["a"][0], shapes["b"][0], shapes["c"][0]), ((5, 2), (3, 5), (2, 3)))

    def test_bytes_of_a_set(self):
        case = problem.parse("fwd bf16 b1 s2x3 h4/2 d8 full")
        self.assertEqual(problem.set_bytes(case), 2 * (2 * 4 * 8) * 2 + 2 * (3 * 2 * 8) * 2 + 4 * 2 * 4)


class Expressions(unittest.TestCase):
    names = {"q_len": 1000, "heads": 16}

    def test_values(self):
        for text, value in (
            ("ceil_div(q_len, 128) * heads", 128),
            ("min(q_len, 7, heads) - 1", 6),
            ("-heads + 2 * 3", -10),
            (12, 12),
            ("max(heads, 0.5)", 16),
            ("(q_len / 128) + (q_len % 128)", 7 + 104),
            ("(0 - 1) / 2", -1),
        ):
            self.assertEqual(expr.evaluate(text, self.names), value, text)

    def test_everything_else_is_refused(self):
        for text in (
            "__import__('os')",
            "q_len // 2",
            "q_len / 0",
            "q_len % 0",
            "heads.real",
            "[1]",
            "unknown",
            "ceil_div(1, 0)",
            "ceil_div(1)",
            "min()",
            "1 +",
            "heads if heads else 1",
            True,
            None,
        ):
            with self.assertRaises(expr.ExprError, msg=text):
                expr.evaluate(text, self.names)


class Plan(unittest.TestCase):
    def test_order_is_abba(self):
        turns = plan.interleave(["a", "b", "c"], rounds=2, windows=2)
        self.assertEqual("".join(turn.contestant for turn in turns), "abccbaabccba")

    def test_everyone_gets_every_window_once(self):
        turns = plan.interleave(["a", "b"], rounds=3, windows=2)
        self.assertEqual(len({(turn.contestant, turn.round, turn.window) for turn in turns}), len(turns))
        self.assertEqual(len(turns), 2 * 3 * 2)

    def test_rotation_passes_twice_the_l2_between_uses(self):
        for bytes_per_set in (1 << 20, 10 << 20, 60 << 20, 1 << 30):
            count = plan.input_sets(bytes_per_set, 50 << 20, limit=1000)
            self.assertGreater((count - 1) * bytes_per_set, 2 * (50 << 20))
        self.assertEqual(plan.input_sets(1 << 10, 50 << 20), 64)

    def test_windows_are_filled(self):
        self.assertEqual(plan.launches_for(20.0, 3.0), 7)
        self.assertEqual(plan.launches_for(0.0, 3.0), 1)
        with self.assertRaises(ValueError):
            plan.launches_for(20.0, 0.0)

    def test_the_head_start_is_bounded(self):
        self.assertEqual(plan.head_start_cycles(1), 30_000)
        self.assertEqual(plan.head_start_cycles(10**9), plan.head_start_cycles(10**6))


class Statistics(unittest.TestCase):
    windows = {
        ("a", 0, 0): 10.0,
        ("b", 0, 0): 5.0,
        ("a", 0, 1): 20.0,
        ("b", 0, 1): 10.0,
        ("a", 1, 0): 30.0,
    }

    def test_ratios_pair_windows_of_one_pass(self):
        self.assertEqual(stats.paired_ratios(self.windows, "a", "b"), [2.0, 2.0])

    def test_drift_common_to_both_leaves_the_ratio_alone(self):
        windows = {}
        for index in range(10):
            windows[("a", index, 0)] = 100.0 * 1.05**index
            windows[("b", index, 0)] = 80.0 * 1.05**index
        row = next(row for row in stats.summarise(windows, 1e12, ["a"]) if row["contestant"] == "b")
        for value in row["ratios"]["a"]:
            self.assertAlmostEqual(value, 1.25)

    def test_the_interval_holds_the_median_and_repeats(self):
        samples = [1.0, 1.1, 0.9, 1.05, 0.95, 1.2]
        middle, low, high = stats.bootstrap_median(samples)
        self.assertTrue(low <= middle <= high and low < high)
        self.assertEqual(stats.bootstrap_median(samples), (middle, low, high))
        with self.assertRaises(ValueError):
            stats.bootstrap_median([])

    def test_rates_come_from_flops_and_time(self):
        rows = stats.summarise({("a", 0, 0): 1000.0}, 5e11, ["a", "absent"])
        self.assertAlmostEqual(rows[0]["tflops"], 500.0)
        self.assertEqual(rows[0]["ratios"], {})

    def test_the_table_is_aligned(self):
        lines = stats.table([{"name": "a", "x": 1.0}, {"name": "long", "x": None}]).splitlines()
        self.assertEqual(lines, ["name  x", "a     1", "long  -"])
        self.assertIn("nothing", stats.table([]))


def recipe(**changes):
    data = {
        "version": 3,
        "entry": "attention_forward",
        "target": "sm_90a",
        "block": [384, 1, 1],
        "shared_bytes": 196720,
        "grid": {"kind": "persistent", "blocks": ["ceil_div(q_len, 128)", "heads", "batch"]},
        "runtime": ["batch", "q_len", "kv_len", "heads", "kv_heads", "group"],
        "tensors": [
            {"name": "q", "dtype": "bf16", "dims": ["batch", "q_len", "heads", "128"], "written": False, "row_multiple_elems": 1, "align_bytes": 16}
        ],
        "params": [{"name": "q_len", "kind": "size"}],
    }
    data.update(changes)
    return data


class Recipes(unittest.TestCase):
    case = problem.parse("fwd bf16 b2 s1000 h16/4 d128 causal")
    q = launcher.TensorView(1 << 20, (2, 1000, 16, 128), (2048000, 2048, 128, 1), "bf16", 2)
    map_param = {"name": "q_map", "kind": "tensor_map", "tensor": "q", "box": [1, 128, 1, 64], "swizzle": 128, "l2_promotion": 128}

    def blocks(self, sm_count=132, **grid):
        parsed = launcher.parse_recipe(recipe(**({"grid": grid} if grid else {})))
        return launcher.grid_blocks(parsed, self.case.names(), sm_count)

    def test_persistent_grids_are_one_block_per_sm_at_most(self):
        self.assertEqual(self.blocks(), 132)
        self.assertEqual(self.blocks(sm_count=1000), 256)

    def test_other_grids_are_the_product_of_their_blocks(self):
        self.assertEqual(self.blocks(kind="blocks", blocks=["ceil_div(q_len, 128)", "heads", "batch"]), 256)
        with self.assertRaises(launcher.RecipeError):
            self.blocks(kind="blocks", blocks=["q_len - 1000"])

    def test_recipes_with_missing_or_odd_parts_are_refused(self):
        incomplete = recipe()
        del incomplete["block"]
        for data in (
            incomplete,
            recipe(version=1),
            recipe(tensors=[{"name": "q", "dtype": "bf16", "dims": ["batch"], "written": True}]),
            recipe(grid={"kind": "magic", "blocks": [1]}),
            recipe(grid={"kind": "blocks", "tiles": [1]}),
            recipe(params=[{"name": "x", "kind": "u16"}]),
            recipe(params=[{"name": "x", "kind": "stride", "tensor": "q"}]),
            recipe(block=[384]),
        ):
            with self.assertRaises(launcher.RecipeError):
                launcher.parse_recipe(data)

    def test_values_are_as_the_kernel_reads_them(self):
        for param, form, expected in (
            ({"kind": "size", "name": "q_len"}, ctypes.c_int32, 1000),
            ({"kind": "size", "name": "group"}, ctypes.c_int32, 4),
            ({"kind": "stride", "name": "q_stride1", "tensor": "q", "dim": 1}, ctypes.c_int64, 2048),
            ({"kind": "pointer", "name": "q_ptr", "tensor": "q"}, ctypes.c_uint64, 1 << 20),
        ):
            value = launcher.value_of(param, self.case.names(), {"q": self.q})
            self.assertEqual((type(value), value.value), (form, expected))
        scale = launcher.value_of({"kind": "scalar", "name": "scale_log2"}, self.case.names(), {})
        self.assertIs(type(scale), ctypes.c_float)
        self.assertAlmostEqual(scale.value, 0.1275174, places=6)

    def test_values_that_do_not_fit_or_exist_are_refused(self):
        for names in ({"x": 2**31}, {"x": -1}, {}):
            with self.assertRaises(launcher.RecipeError):
                launcher.value_of({"kind": "size", "name": "x"}, names, {})

    def test_tensors_of_another_kernel_are_refused(self):
        parsed, names = launcher.parse_recipe(recipe()), self.case.names()
        launcher.check_tensors(parsed, names, {"q": self.q})
        half = launcher.TensorView(0, self.q.shape, self.q.strides, "f16", 2)
        narrow = launcher.TensorView(0, (2, 1000, 16, 64), self.q.strides, "bf16", 2)
        for tensors in ({}, {"q": half}, {"q": narrow}):
            with self.assertRaises(launcher.RecipeError):
                launcher.check_tensors(parsed, names, tensors)

    def test_rows_that_a_store_would_write_behind_are_refused(self):
        def check(rows, multiple):
            fact = {"name": "o", "dtype": "bf16", "dims": ["m", "n"], "written": True, "row_multiple_elems": multiple, "align_bytes": 2}
            view = launcher.TensorView(1 << 20, (64, rows), (264, 1), "bf16", 2)
            parsed = launcher.parse_recipe(recipe(tensors=[fact]))
            launcher.check_tensors(parsed, {"m": 64, "n": rows}, {"o": view})

        check(256, 8)
        check(257, 1)
        with self.assertRaisesRegex(launcher.RecipeError, "multiple of 8"):
            check(257, 8)

    def test_maps_are_turned_innermost_first(self):
        spec = launcher.map_spec(self.map_param, self.q)
        self.assertEqual(spec.dims, (128, 16, 1000, 2))
        self.assertEqual(spec.strides_bytes, (256, 4096, 4096000))
        self.assertEqual((spec.box, spec.dtype, spec.swizzle, spec.l2_promotion), ((64, 1, 128, 1), 9, 3, 2))

    def test_maps_the_hardware_refuses_are_refused_with_a_reason(self):
        view = self.q
        odd = launcher.TensorView(view.pointer, view.shape, (2048000, 2048, 4, 1), "bf16", 2)
        scattered = launcher.TensorView(view.pointer, view.shape, (2048000, 2048, 128, 2), "bf16", 2)
        for changes, tensor in (
            ({"box": [64, 1, 128]}, view),
            ({"box": [1, 128, 1, 128]}, view),
            ({"box": [1, 257, 1, 64]}, view),
            ({"swizzle": 48}, view),
            ({}, odd),
            ({}, scattered),
        ):
            with self.assertRaises(launcher.RecipeError, msg=changes):
                launcher.map_spec(dict(self.map_param, **changes), tensor)

    def test_folders_are_searched_and_must_hold_one_cubin_each(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(launcher.RecipeError):
                launcher.find_recipes(folder)
            for name in ("b", "a"):
                (Path(folder) / name).mkdir()
                (Path(folder) / name / "launch.json").write_text(json.dumps(recipe()))
                (Path(folder) / name / "kernel.cubin").write_bytes(b"x")
            (Path(folder) / "b" / "when.json").write_text('{"mask": "causal"}')
            found = launcher.find_recipes(folder)
            self.assertEqual([(one.name, one.when) for one in found], [("a", {}), ("b", {"mask": "causal"})])
            self.assertIsNone(launcher.build_facts(folder))
            (Path(folder) / "a" / "second.cubin").write_bytes(b"x")
            with self.assertRaises(launcher.RecipeError):
                launcher.find_recipes(folder)

    def test_a_recipe_serves_what_it_is_for(self):
        for when, expected in (
            ({}, True),
            ({"kind": "fwd", "head_dim": 128, "mask": "causal", "dtype": "bf16"}, True),
            ({"mask": "full"}, False),
            ({"m": 1}, False),
            ({"min_q_len": 1000, "max_q_len": 1000}, True),
            ({"min_q_len": 1001}, False),
            ({"max_q_len": 999}, False),
            ({"min_m": 1}, False),
        ):
            self.assertEqual(launcher.serves(launcher.parse_recipe(recipe(), when), self.case), expected, when)

    def test_the_narrowest_recipe_is_chosen(self):
        plain, long = ({"mask": "causal"}, {"mask": "causal", "min_q_len": 8192})
        recipes = [launcher.parse_recipe(recipe(), when) for when in (plain, long, plain)]
        self.assertIs(launcher.choose(recipes, self.case), recipes[0])
        longer = problem.parse("fwd bf16 b2 s16384 h16 d128 causal")
        self.assertIs(launcher.choose(recipes, longer), recipes[1])
        self.assertIsNone(launcher.choose(recipes, problem.parse("gemm bf16 m1 n1 k1 nn")))


class Gate(unittest.TestCase):
    def test_limits_are_the_plain_algorithms_or_one_ulp(self):
        self.assertTrue(gate.verdict([1e-3, 2e-3], [1e-3, 2e-3], "bf16")["ok"])
        self.assertTrue(gate.verdict([3e-3] * 4, [1e-3] * 4, "bf16")["ok"])
        self.assertFalse(gate.verdict([3e-3] * 4, [1e-3] * 4, "f16")["ok"])

    def test_one_bad_row_fails(self):
        self.assertFalse(gate.verdict([1e-3] * 999 + [0.1], [1e-3] * 1000, "bf16")["ok"])

    def test_nan_fails(self):
        for errors in ([float("nan"), 1e-3], [1e-3, float("nan")]):
            self.assertFalse(gate.verdict(errors, [1e-3, 1e-3], "bf16")["ok"])

    def test_samples_hold_both_ends(self):
        rows = gate.sample_indices(1000, 10, seed=3)
        self.assertEqual((rows[0], rows[-1], len(rows), len(set(rows))), (0, 999, 10, 10))
        self.assertEqual(gate.sample_indices(3, 10, seed=3), [0, 1, 2])


class Nvml(unittest.TestCase):
    samples = [
        {"sm_mhz": 1000, "power_w": 300.0, "temperature_c": 60, "throttle_reasons": 1, "at_s": 0.0},
        {"sm_mhz": 1500, "power_w": 500.0, "temperature_c": 50, "throttle_reasons": 4, "at_s": 1.0},
        {"sm_mhz": 1600, "power_w": 600.0, "temperature_c": 55, "throttle_reasons": 0, "at_s": 1.2},
    ]

    def test_only_the_window_counts(self):
        self.assertEqual(nvml.recent(self.samples, 0.5), self.samples[1:])
        self.assertEqual(nvml.recent(self.samples, 0.0), self.samples[2:])

    def test_folding_keeps_every_reason(self):
        folded = nvml.fold(self.samples)
        self.assertEqual((folded["sm_mhz"], folded["temperature_c"], folded["throttle_reasons"]), (1500, 60, "0x5"))


class Commands(unittest.TestCase):
    def test_arguments_are_parsed_into_problems_and_folders(self):
        args = peers.parse_args(["--cases", "gemm bf16 m1 n2 k3 nn", "--ours", "a=x/y", "--ours", "b=z", "--rounds", "3"])
        self.assertEqual([str(case) for case in args.cases], ["gemm bf16 m1 n2 k3 nn"])
        self.assertEqual((args.ours, args.rounds, args.protocol), ([("a", "x/y"), ("b", "z")], 3, "sustained"))

    def test_the_default_is_the_bar(self):
        args = peers.parse_args([])
        self.assertEqual((args.rounds, args.windows, args.peers), (4, 1, "cudnn,fa4,cublas"))
        attention = [case for case in args.cases if case.kind == "fwd"]
        self.assertEqual({case.batch * case.q_len for case in attention}, {32768})
        self.assertEqual({(case.head_dim, case.mask) for case in attention}, {(d, m) for d in (64, 128, 256) for m in ("full", "causal")})
        contestants_per_case = 3
        busy_ms = plan.SUSTAINED.window_ms + plan.SUSTAINED.load_ms
        self.assertLess(len(args.cases) * contestants_per_case * args.rounds * busy_ms, 120_000)

    def test_the_report_has_a_ratio_per_peer(self):
        windows = {(name, index, 0): time_us for index in range(3) for name, time_us in (("ours", 100.0), ("cudnn", 125.0), ("fa4", 110.0))}
        rows = stats.summarise(windows, 1e11, peers.BASES)
        for row in rows:
            row.update(case="c", protocol="p", kernel=None, **peers.clocks([{"sm_mhz": 1500, "power_w": 600.0}]))
        header, ours = peers.report(rows).splitlines()[:2]
        self.assertIn("vs cudnn", header)
        self.assertNotIn("vs cublas", header)
        self.assertIn("1.250 [1.250, 1.250]  1.100 [1.100, 1.100]", ours)

    def test_windows_without_clocks_are_reported_without(self):
        self.assertEqual(peers.clocks([{"sm_mhz": 1500, "power_w": 600.0}, {}]), {"sm_mhz": None, "power_w": None})

    def test_a_run_that_is_late_begins_no_case(self):
        args = peers.parse_args(["--limit-s", "0", "--peers", ""])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = peers.run_all(args, peers.Records(None), None, begin_s=-1e9)
        self.assertEqual(found, ([], peers.EXIT_UNFINISHED))
        self.assertEqual(out.getvalue().count("SKIP"), len(args.cases))

    def test_a_block_that_takes_too_long_ends_the_process(self):
        code = "import peers, time\nwith peers.watched(1): time.sleep(30)"
        found = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, timeout=20)
        self.assertNotEqual(found.returncode, 0)
        self.assertIn(b"Timeout", found.stderr)

    def test_ours_needs_a_name_and_a_folder(self):
        for text in ("a", "=x", "a="):
            with self.assertRaises(SystemExit):
                peers.parse_ours(text)

    def test_peers_refuse_what_is_not_theirs(self):
        gemm, attention = problem.parse("gemm bf16 m1 n1 k1 nn"), problem.parse("fwd bf16 b1 s8x9 h1 d8 causal")
        everyone = contestants.all_peers()
        with self.assertRaises(contestants.Unsupported):
            everyone["fa4"].prepare(gemm, [])
        with self.assertRaises(contestants.Unsupported):
            everyone["cublas"].prepare(attention, [])

    def test_records_are_json_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            records = peers.Records(str(path))
            records.add("window", times_us=[1.5])
            records.add("summary", ratio=1.0)
            records.close()
            kinds = [json.loads(line)["record"] for line in path.read_text().splitlines()]
        self.assertEqual(kinds, ["window", "summary"])


if __name__ == "__main__":
    unittest.main()
