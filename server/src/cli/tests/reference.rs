//! The reference of the options in `docs/command-line.md`, which is generated from their definition.

use std::{env, fmt::Write, fs};

use clap::{Arg, Args, Command, CommandFactory, builder::PossibleValue};

use crate::cli::{options::CommandLine, target::Target};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/command-line.md");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str = "<!-- begin of the generated reference -->\n";
const END: &str = "<!-- end of the generated reference -->\n";

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn name(argument: &Arg) -> String {
    let values: Vec<_> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let Some(long) = argument.get_long() else { return values.join(" ") };
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let values = values.join(" ");
    let is_optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
    let values = match (argument.get_action().takes_values(), is_optional) {
        (true, true) => format!(" [{values}]"),
        (true, false) => format!(" {values}"),
        (false, _) => String::new(),
    };
    format!("{short}--{long}{values}")
}

fn rows(text: &mut String, command: &Command, leave_out: &[&str]) {
    let shown = command.get_arguments().filter(|argument| {
        let id = argument.get_id().as_str();
        !argument.is_hide_set() && id != "help" && id != "version" && !leave_out.contains(&id)
    });
    let mut shown: Vec<_> = shown.collect();
    // Those without a name first.
    shown.sort_by_key(|argument| argument.get_long().is_some());
    if shown.is_empty() {
        return;
    }
    text.push_str("| argument | meaning |\n|---|---|\n");
    for argument in shown {
        let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let values = argument.get_possible_values();
        let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).map(PossibleValue::get_name).collect();
        if argument.get_action().takes_values() && !values.is_empty() {
            write!(meaning, ": {}", values.join(", ")).unwrap();
        }
        let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let mut cell = cell(&meaning);
        if argument.get_action().takes_values() && !defaults.is_empty() {
            write!(cell, "; by default `{}`", defaults.join(",")).unwrap();
        }
        if let Some(variable) = argument.get_env() {
            write!(cell, "; or the environment variable `{}`", variable.to_string_lossy()).unwrap();
        }
        writeln!(text, "| `{}` | {cell} |", name(argument).replace('|', "\\|")).unwrap();
    }
    text.push('\n');
}

fn commands(text: &mut String, command: &Command, path: &str, of_target: &[&str]) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            commands(text, sub, &path, of_target);
            continue;
        }
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(text, "### {path}\n\n{}.\n", cell(&about)).unwrap();
        let is_on_a_broker = sub.get_arguments().any(|argument| argument.get_id() == "url");
        rows(text, sub, if is_on_a_broker { of_target } else { &[] });
    }
}

/// The reference of all commands.
fn reference() -> String {
    let target = Target::augment_args(Command::new("target"));
    let of_target: Vec<_> = target.get_arguments().map(|argument| argument.get_id().as_str()).collect();
    let mut text = String::from("\n### Every command on a broker\n\n");
    rows(&mut text, &target, &[]);
    let mut command = CommandLine::command();
    command.build();
    commands(&mut text, &command, "consign", &of_target);
    text
}

/// `CONSIGN_WRITE_REFERENCE=1` writes the page instead.
#[test]
fn the_page_has_the_options_of_all_commands() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let reference = reference();
    if env::var_os("CONSIGN_WRITE_REFERENCE").is_some() {
        fs::write(PAGE, format!("{before}{BEGIN}{reference}{END}{after}")).unwrap();
        return;
    }
    let differs = reference.lines().zip(written.lines()).find(|(line, written)| line != written);
    assert!(
        reference == written,
        "docs/command-line.md is not the definition of the options: {differs:?}; \
         CONSIGN_WRITE_REFERENCE=1 cargo test --package consign-server --features full reference writes it"
    );
}

#[test]
fn the_readme_has_the_options_of_the_server() {
    let readme = fs::read_to_string(README).unwrap();
    let command = CommandLine::command();
    let serve = command.find_subcommand("serve").unwrap();
    for long in serve.get_arguments().filter_map(Arg::get_long).filter(|long| !["help", "version"].contains(long)) {
        assert!(readme.contains(&format!("--{long}")), "server/README.md does not have --{long}");
    }
}
