//! Numbers of things: `1 task`, `2 tasks`.

/// So many of a thing whose plural has an `s`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            (count(0, "task"), count(1, "task"), count(2, "task")),
            ("0 tasks".into(), "1 task".into(), "2 tasks".into())
        );
    }
}
