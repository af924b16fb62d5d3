//! Numbers of JSON that would not come back as they were written: those that are longer than the 64 bits there are for one.

use serde_json::Number;

/// What to do about such a number.
pub(crate) const CURE: &str = "write it as a string";
/// How much of one is quoted.
const QUOTED_BYTES: usize = 40;

/// What is wrong with a number that [`rounded`] has found.
pub(crate) fn why(number: &str) -> String {
    // It has nothing but digits and signs.
    let shown = number.get(..QUOTED_BYTES).map_or_else(|| number.to_owned(), |begin| format!("{begin}…"));
    format!("{shown} would be rounded: a number has 64 bits")
}

/// The first number in this JSON whose value would change on the way.
pub(crate) fn rounded(json: &[u8]) -> Option<&str> {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let end = match byte {
            b'"' => string_end(json, at + 1),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                at + json[at..].iter().take_while(|byte| is_part(byte)).count()
            }
            _ => at + 1,
        };
        if byte != b'"' && end > at + 1 {
            let number = str::from_utf8(&json[at..end]).ok()?;
            if !is_kept(number) {
                return Some(number);
            }
        }
        at = end;
    }
    None
}

/// Where the text goes on behind a string that has begun before `at`.
fn string_end(json: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// Whether it is the same number once it was read. What is no number is found by whoever reads the whole.
fn is_kept(number: &str) -> bool {
    serde_json::from_str::<Number>(number).map_or(true, |read| value(number) == value(&read.to_string()))
}

/// A number as its sign, its digits without zeros at either end, and the power of ten that these are multiplied by.
fn value(number: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole.trim_start_matches('-'), fraction].concat();
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let places = i64::try_from(fraction.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let power = exponent.parse::<i64>().ok()?.checked_add(zeros)?.checked_sub(places)?;
    Some((whole.starts_with('-'), significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_would_come_back_as_another_is_found() {
        for good in [
            "0",
            "-0",
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "1.50",
            "0.1",
            "1e2",
            "1E+22",
            "-2.5e-3",
            "10000000000000000000000",
            "0.30000000000000004",
            "3.141592653589793",
            "[1, 2.0, {\"a\": 3}]",
            "nonsense",
            "\"123456789012345678901234567890\"",
            "\"\\\"\", 1",
            "{\"99999999999999999999999\": \"\\\\\"}",
        ] {
            assert_eq!(rounded(good.as_bytes()), None, "{good}");
        }
        for (bad, number) in [
            ("18446744073709551617", "18446744073709551617"),
            ("[1, -9223372036854775809]", "-9223372036854775809"),
            ("{\"id\":123456789012345678901234567890}", "123456789012345678901234567890"),
            ("{\"a\":\"\\\"\",\"b\":0.1234567890123456789}", "0.1234567890123456789"),
            ("1e-400", "1e-400"),
        ] {
            assert_eq!(rounded(bad.as_bytes()), Some(number), "{bad}");
        }
    }
}
