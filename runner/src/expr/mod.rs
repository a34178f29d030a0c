//! Evaluator of the expression strings in launch facts: `+ - * / %` (rounding down), `ceil_div`, `min`, `max`, whole
//! numbers and names. Total: any text gives a number or a typed error, in checked 64-bit arithmetic.

mod parse;

use std::collections::BTreeMap;

pub use parse::{Expr, Op, ParseError, parse};

/// Runtime sizes by name.
pub type Sizes = BTreeMap<String, i64>;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error("`{name}` is not a size of this problem; allowed: {known}")]
    UnknownName { name: String, known: String },
    #[error("{lhs} {op} {rhs} has no value: the divisor must not be 0")]
    DivisionByZero { lhs: i64, op: Op, rhs: i64 },
    #[error("{lhs} {op} {rhs} does not fit 64 bits; allowed: results of -2^63 to 2^63 - 1")]
    Overflow { lhs: i64, op: Op, rhs: i64 },
}

/// The value of an expression text.
///
/// # Errors
/// Text that is no expression, an unknown name, a division by zero, or an overflow.
pub fn eval(text: &str, sizes: &Sizes) -> Result<i64, ExprError> {
    parse(text)?.eval(sizes)
}

impl Expr {
    /// The value under the given sizes.
    ///
    /// # Errors
    /// An unknown name, a division by zero, or an overflow.
    pub fn eval(&self, sizes: &Sizes) -> Result<i64, ExprError> {
        match self {
            Self::Number(value) => Ok(*value),
            Self::Name(name) => sizes.get(name).copied().ok_or_else(|| ExprError::UnknownName {
                name: name.clone(),
                known: sizes.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            }),
            Self::Binary(op, sides) => apply(*op, sides.0.eval(sizes)?, sides.1.eval(sizes)?),
        }
    }
}

fn apply(op: Op, lhs: i64, rhs: i64) -> Result<i64, ExprError> {
    if rhs == 0 && matches!(op, Op::Div | Op::Rem | Op::CeilDiv) {
        return Err(ExprError::DivisionByZero { lhs, op, rhs });
    }
    let value = match op {
        Op::Add => lhs.checked_add(rhs),
        Op::Sub => lhs.checked_sub(rhs),
        Op::Mul => lhs.checked_mul(rhs),
        Op::Div => floor_div(lhs, rhs),
        // i64::MIN % -1 overflows in hardware, but its value is 0.
        Op::Rem => Some(lhs.checked_rem(rhs).map_or(0, |rem| {
            if rem != 0 && (rem < 0) != (rhs < 0) {
                rem + rhs
            } else {
                rem
            }
        })),
        Op::CeilDiv => ceil_div(lhs, rhs),
        Op::Min => Some(lhs.min(rhs)),
        Op::Max => Some(lhs.max(rhs)),
    };
    value.ok_or(ExprError::Overflow { lhs, op, rhs })
}

/// Rounds towards minus infinity; the divisor is not 0.
fn floor_div(lhs: i64, rhs: i64) -> Option<i64> {
    let quotient = lhs.checked_div(rhs)?;
    let exact = quotient.wrapping_mul(rhs) == lhs;
    Some(if !exact && (lhs < 0) != (rhs < 0) {
        quotient - 1
    } else {
        quotient
    })
}

/// Rounds towards plus infinity; the divisor is not 0.
fn ceil_div(lhs: i64, rhs: i64) -> Option<i64> {
    let quotient = lhs.checked_div(rhs)?;
    let exact = quotient.wrapping_mul(rhs) == lhs;
    Some(if !exact && (lhs < 0) == (rhs < 0) {
        quotient + 1
    } else {
        quotient
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(pairs: &[(&str, i64)]) -> Sizes {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_grammar_of_launch_facts_is_read() {
        let s = sizes(&[("q_len", 1000), ("heads", 8), ("group", 3)]);
        for (text, value) in [
            ("heads", 8),
            ("ceil_div(q_len, 192)", 6),
            ("(q_len + 7) / 8 * 2", 250),
            ("max(min(q_len, 5) - 7, -3)", -2),
            ("(0 - 7) / 2", -4),
            ("(0 - 7) % 2", 1),
            ("7 % (0 - 2)", -1),
            ("ceil_div(0 - 7, 2)", -3),
            ("-heads + 1", -7),
            ("2 + 3 * 4 - 1 - 1", 12),
        ] {
            assert_eq!(eval(text, &s), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_says_why() {
        let s = sizes(&[("n", 4)]);
        let text = |expr: &str| eval(expr, &s).unwrap_err().to_string();
        assert!(text("m").contains("allowed: n"));
        assert!(text("n / 0").contains("must not be 0"));
        assert!(text("ceil_div(n, n - 4)").contains("must not be 0"));
        assert!(text("9223372036854775807 + n").contains("64 bits"));
        assert!(text("9223372036854775808").contains("64-bit"));
        assert!(text("n +").contains("ends"));
        assert!(text("n n").contains("column 3"));
        assert!(text("min(n)").contains("`,`"));
        assert!(text("").contains("ends"));
        assert!(text("pow(n, 2)").contains("ceil_div"));
        assert!(text(&"(".repeat(100_000)).contains("nested"));
        assert!(text(&"-".repeat(100_000)).contains("nested"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}", junk in "[a-z0-9+*/%(), -]{0,60}") {
            let s = sizes(&[("a", i64::MIN), ("b", -1), ("c", 0)]);
            let _ = eval(&text, &s);
            let _ = eval(&junk, &s);
        }

        #[test]
        fn division_is_euclid_with_floor(a in any::<i64>(), b in any::<i64>()) {
            let s = sizes(&[("a", a), ("b", b)]);
            let wide = |op: &str| eval(&format!("a {op} b"), &s);
            if b == 0 {
                prop_assert!(wide("/").is_err() && wide("%").is_err());
            } else if let (Ok(q), Ok(r)) = (wide("/"), wide("%")) {
                prop_assert_eq!(i128::from(q) * i128::from(b) + i128::from(r), i128::from(a));
                prop_assert!(r == 0 || (r < 0) == (b < 0));
                let up = eval("ceil_div(a, b)", &s);
                prop_assert_eq!(up, Ok(q + i64::from(r != 0)));
            }
        }
    }
}
