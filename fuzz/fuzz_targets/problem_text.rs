//! The problem parser refuses or accepts any text, never panics, and what it accepts reads back the same.
//!
//! Run with `cargo +nightly fuzz run problem_text`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oracle::Problem;

fuzz_target!(|text: &str| match text.parse::<Problem>() {
    Ok(problem) => {
        assert_eq!(problem.to_string().parse(), Ok(problem));
        assert_eq!(problem.check(), Ok(problem));
    }
    Err(error) => {
        assert!(text.get(error.span.start..error.span.end).is_some(), "the span is off the text");
        assert!(!error.render().is_empty());
    }
});
