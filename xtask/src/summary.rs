//! The runner's own summary, taken from its output and never made up.

/// `Summary [   3.2s] 54 tests run: 54 passed, 0 skipped` of cargo-nextest.
pub fn of_nextest(output: &str) -> Option<String> {
    let is_summary = |line: &&str| line.starts_with("Summary [") && line.contains("tests run:");
    output.lines().map(str::trim).rfind(is_summary).map(str::to_owned)
}

/// The sum of the `test result:` lines of `cargo test`.
pub fn of_cargo_test(output: &str) -> Option<String> {
    let mut sums: Option<[u64; 3]> = None;
    for line in output.lines().filter(|line| line.starts_with("test result: ")) {
        let sums = sums.get_or_insert([0; 3]);
        for (sum, unit) in sums.iter_mut().zip(["passed", "failed", "ignored"]) {
            *sum += count_before(line, unit);
        }
    }
    let [passed, failed, ignored] = sums?;
    Some(format!("{passed} passed, {failed} failed, {ignored} ignored"))
}

/// `Ran 21 tests in 0.1s` and the verdict of Python's unittest.
pub fn of_unittest(output: &str) -> Option<String> {
    let ran = output
        .lines()
        .find(|line| line.starts_with("Ran ") && line.contains(" test"))?;
    let verdict = output
        .lines()
        .rfind(|line| line.starts_with("OK") || line.starts_with("FAILED"))?;
    Some(format!("{ran}: {verdict}"))
}

/// The number in front of a word: 3 of `ok. 3 passed; 0 failed`.
fn count_before(line: &str, unit: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    words
        .windows(2)
        .find(|pair| pair[1] == unit)
        .and_then(|pair| pair[0].parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nextests_last_summary_is_taken() {
        let output =
            "    Starting 3 tests\n     Summary [   0.015s] 3 tests run: 2 passed, 1 failed, 0 skipped\nerror: x\n";
        let expected = "Summary [   0.015s] 3 tests run: 2 passed, 1 failed, 0 skipped";
        assert_eq!(of_nextest(output).as_deref(), Some(expected));
        assert_eq!(of_nextest("error: could not compile\n"), None);
    }

    #[test]
    fn cargos_results_are_added_up() {
        let output = "\
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 1 passed; 2 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(of_cargo_test(output).as_deref(), Some("4 passed, 2 failed, 4 ignored"));
        assert_eq!(of_cargo_test("error: could not compile\n"), None);
    }

    #[test]
    fn unittests_verdict_is_kept() {
        let output = "....\nRan 4 tests in 0.001s\n\nOK (skipped=1)\n";
        assert_eq!(
            of_unittest(output).as_deref(),
            Some("Ran 4 tests in 0.001s: OK (skipped=1)")
        );
    }
}
