//! The schedule parser refuses or accepts any text, never panics, and what it accepts survives a round trip.
//!
//! Run with `cargo +nightly fuzz run schedule_text`.
#![no_main]

use dsl::schedule::text::{parse, to_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match parse(text) {
    Ok(schedule) => {
        let Ok(written) = to_text(&schedule) else { return };
        let again = parse(&written).expect("what was written can be read");
        // As text: a threshold that is not a number differs from itself.
        assert_eq!(to_text(&again), Ok(written));
    }
    Err(errors) => {
        assert!(!errors.errors.is_empty());
        let lines = text.lines().count().max(1) + 1;
        assert!(errors.errors.iter().all(|e| e.line.is_none_or(|line| (1..=lines).contains(&line))));
    }
});
