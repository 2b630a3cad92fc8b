//! The examples of `docs/command-line.md`.

use std::{fs, process::Command};

use crate::support::Shell;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md")).unwrap()
}

/// A command of the page, and the lines that it prints there.
struct Example {
    command: String,
    expected: Vec<String>,
}

/// The blocks of console sessions, in order. A line that ends in a backslash goes on in the next one.
fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let (mut in_block, mut goes_on) = (false, false);
    for line in page().lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if in_block && goes_on {
            let command = &mut examples.last_mut().unwrap().command;
            command.push('\n');
            command.push_str(line.trim_start());
            goes_on = line.ends_with('\\');
        } else if in_block {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    goes_on = command.ends_with('\\');
                    examples.push(Example { command: command.to_owned(), expected: Vec::new() });
                }
                None => examples.last_mut().unwrap().expected.push(line.to_owned()),
            }
        }
    }
    examples
}

/// Whether a line is as on the page, where `…` stands for any text.
fn is_like(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn the_examples_of_the_page_print_what_it_says() {
    let shell = Shell::on_a_store();
    let bin = shell.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_consign"), bin.join("consign")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let examples = examples();
    assert!(examples.len() > 20, "{}", examples.len());
    for Example { command, expected } in examples {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}\n")])
            .env("PATH", &path)
            .env("CONSIGN_URL", "file:store")
            .current_dir(shell.path(""))
            .output()
            .unwrap();
        let printed =
            format!("{}{}", String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let lines: Vec<_> = printed.lines().collect();
        let is_like = lines.len() == expected.len()
            && lines.iter().zip(&expected).all(|(line, expected)| is_like(expected, line));
        assert!(is_like, "$ {command}\n{printed}\nis not\n{}", expected.join("\n"));
    }
}

#[test]
fn the_page_has_every_command_and_exit_code() {
    let page = page();
    for command in
        ["entities", "send", "peek", "receive", "dead-letters", "decode", "export", "import", "store", "bench", "serve"]
    {
        assert!(page.contains(&format!("`{command}")), "{command}");
    }
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 8, 130, 141] {
        assert!(page.contains(&format!("| {code} |")), "{code}");
    }
}

#[test]
fn an_ellipsis_is_any_text() {
    assert!(is_like("a … b", "a 1 2 b") && is_like("…", "x") && is_like("a", "a"));
    assert!(!is_like("a … b", "a 1 c") && !is_like("a", "ab") && !is_like("…a…b", "xb"));
}
