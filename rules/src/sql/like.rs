//! `LIKE`: `%` is any run of characters, `_` is one.

use std::str::Chars;

use crate::EvaluationError;

/// Most steps of all `LIKE` operators in one evaluation. A step is one character of a pattern against one of a text; an
/// ordinary filter takes as many as the texts have characters.
pub(super) const MAX_STEPS: usize = 1 << 22;
/// Most steps of all filters of one set for one message. There may be thousands of them, and one that takes all that it may
/// must not leave the others without any.
pub(crate) const MAX_STEPS_OF_SET: usize = 4 * MAX_STEPS;

#[derive(Clone, Copy)]
enum Wanted {
    Run,
    One,
    Exactly(char),
}

/// Whether a pattern can be read with that escape character: it must not end in it.
pub(super) fn is_valid(pattern: &str, escape: char) -> bool {
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        if char == escape && rest.next().is_none() {
            return false;
        }
    }
    true
}

/// Whether all of the text is like the pattern, which [`is_valid`]. Only the last run is ever tried again, so the steps
/// are at most the product of the lengths. They are taken off `steps`.
pub(super) fn matches(
    text: &str,
    pattern: &str,
    escape: Option<char>,
    steps: &mut usize,
) -> Result<bool, EvaluationError> {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    let mut last_run: Option<(Chars<'_>, Chars<'_>)> = None;
    loop {
        *steps = steps.checked_sub(1).ok_or(EvaluationError::TooManySteps { limit: MAX_STEPS })?;
        let mut after = pattern.clone();
        let mut rest = text.clone();
        let goes_on = match next(&mut after, escape) {
            None if text.as_str().is_empty() => return Ok(true),
            None => false,
            Some(Wanted::Run) => {
                if after.as_str().is_empty() {
                    return Ok(true);
                }
                last_run = Some((after.clone(), text.clone()));
                true
            }
            Some(Wanted::One) => rest.next().is_some(),
            Some(Wanted::Exactly(wanted)) => rest.next() == Some(wanted),
        };
        if goes_on {
            (text, pattern) = (rest, after);
            continue;
        }
        let Some((after_run, run_end)) = &mut last_run else { return Ok(false) };
        if run_end.next().is_none() {
            return Ok(false);
        }
        (text, pattern) = (run_end.clone(), after_run.clone());
    }
}

fn next(pattern: &mut Chars<'_>, escape: Option<char>) -> Option<Wanted> {
    let char = pattern.next()?;
    Some(match char {
        _ if Some(char) == escape => Wanted::Exactly(pattern.next()?),
        '%' => Wanted::Run,
        '_' => Wanted::One,
        _ => Wanted::Exactly(char),
    })
}
