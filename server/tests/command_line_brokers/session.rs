//! One session on dead letters, and what it prints on every broker.

const ENQUEUED: &str = ", enqueued ";

/// Commands, and their normal form of output. `QUEUE` is the name of the queue.
const SESSION: &str = include_str!("session.txt");

/// Runs the session. `run` gets the arguments of a command, and returns its exit code and its standard output.
pub(crate) fn check(broker: &str, queue: &str, run: &mut dyn FnMut(&[String]) -> (i32, String)) {
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in SESSION.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command, Vec::new())),
            None => steps.last_mut().unwrap().1.push(line),
        }
    }
    assert!(steps.len() > 10);
    for (command, expected) in steps {
        let (code, printed) = run(&arguments(command, queue));
        let normal = normal(&printed, queue);
        let mut lines: Vec<_> = normal.lines().map(str::to_owned).collect();
        if code != 0 {
            lines.push(format!("[exit {code}]"));
        }
        assert_eq!(lines, expected, "{broker}: {command}: {printed}");
    }
}

/// Splits a command at spaces outside of single quotes.
fn arguments(command: &str, queue: &str) -> Vec<String> {
    let (mut arguments, mut in_quotes, mut current) = (Vec::new(), false, String::new());
    for char in command.chars().chain([' ']) {
        match char {
            '\'' => in_quotes = !in_quotes,
            ' ' if !in_quotes => arguments.push(std::mem::take(&mut current)),
            _ => current.push(char),
        }
    }
    arguments.iter().map(|argument| argument.replace("QUEUE", queue)).collect()
}

/// The output without numbers, times, generated ids and counts of failed deliveries, which differ, and with its messages in the
/// order of their texts: brokers without order of released messages return them in another one.
fn normal(printed: &str, queue: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for line in printed.lines() {
        let line = normal_line(&line.replace(queue, "QUEUE"));
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => *block = format!("{block}\n{line}"),
            _ => blocks.push(line),
        }
    }
    blocks.sort();
    blocks.join("\n")
}

fn normal_line(line: &str) -> String {
    let mut normal = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('#') {
        normal.push_str(before);
        normal.push_str("#N");
        rest = after.trim_start_matches(|char: char| char.is_ascii_digit());
    }
    normal.push_str(rest);
    let mut line = normal.replace(", 1 failed delivery", "");
    if let Some(at) = line.find(ENQUEUED) {
        let after = &line[at + ENQUEUED.len() + "2026-11-26T12:00:00.000Z".len()..];
        let after = if after.ends_with(" ago") { "" } else { after };
        line = format!("{}{after}", &line[..at]);
    }
    let is_generated = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some((before, after)) = line.clone().split_once(", id ")
        && after.get(..32).is_some_and(is_generated)
    {
        // The id of a copy that is the same in each run has numbers behind it.
        let rest = after[32..].trim_start_matches(|char: char| char == '-' || char.is_ascii_digit());
        line = format!("{before}, id ID{rest}");
    }
    line
}
