//! `foreign-servicebus FOLDER [--json]`: SDKs of Azure Service Bus beside the program `consign`.
//!
//! FOLDER is what `scripts/foreign` prints. The client in Python and the one for Node run their scenarios, each on a server of its
//! own with shared access keys, TLS and WebSocket. With `CONSIGN_SERVICEBUS=all` it is every client, also those of Rust, each on a
//! server in memory and on one with a store. The process fails if a scenario does, unless it is one of [`KNOWN`].
#![forbid(unsafe_code)]

mod server;

use std::{
    env,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::server::{Server, program};

type Failure = Box<dyn std::error::Error>;

/// A program that runs all scenarios of a client.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    command: fn(&Path, &Path) -> Command,
}

const CLIENTS: [Client; 7] = [
    Client { name: "azure-servicebus", command: |folder, settings| python(folder, settings, "sync") },
    Client { name: "@azure/service-bus", command: node },
    Client { name: "azure-servicebus, async", command: |folder, settings| python(folder, settings, "async") },
    Client {
        name: "azure-servicebus 7.14.3",
        command: |folder, settings| previous(folder, python(folder, settings, "sync")),
    },
    Client {
        name: "azure-servicebus 7.14.3, async",
        command: |folder, settings| previous(folder, python(folder, settings, "async")),
    },
    Client { name: "azservicebus", command: |_, settings| with(rust(RUST[0]), settings) },
    Client { name: "fe2o3-amqp", command: |_, settings| with(rust(RUST[1]), settings) },
];

/// The programs of Rust, each of a workspace of its own.
const RUST: [&str; 2] = ["foreign-azservicebus", "servicebus"];

/// The clients that are run without `CONSIGN_SERVICEBUS`.
const FEW: usize = 2;

/// Scenarios that fail, with the start of the client's name, and why.
const KNOWN: [(&str, &str, &str); 2] = [
    ("azure-servicebus 7.14.3, async", "over_tls", "the client sets an option of its socket that is refused"),
    (
        "azure-servicebus 7.14.3",
        "locked_over_http_and_settled_by_the_client",
        "this version does not wait for the outcome of a settlement",
    ),
];

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), name].iter().collect()
}

fn python(folder: &Path, settings: &Path, mode: &str) -> Command {
    let mut command = Command::new(folder.join("venv/bin/python"));
    command.arg(script("python/run.py")).arg(mode).arg(settings);
    // The administration client of 7.14.3 ignores the option for its authorities.
    let certificate = settings.with_file_name("certificate.pem");
    command.env("REQUESTS_CA_BUNDLE", &certificate).env("SSL_CERT_FILE", certificate);
    command
}

fn previous(folder: &Path, mut command: Command) -> Command {
    command.env("PYTHONPATH", folder.join("servicebus-previous"));
    command
}

fn node(folder: &Path, settings: &Path) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_MODULES", folder).env("NODE_EXTRA_CA_CERTS", settings.with_file_name("certificate.pem"));
    command.arg(script("node/run.mjs")).arg(settings);
    command
}

fn rust(name: &str) -> Command {
    Command::new(program(name))
}

fn with(mut command: Command, settings: &Path) -> Command {
    command.arg(settings);
    command
}

/// What became of the scenarios of a client.
#[derive(Default)]
struct Report {
    on: String,
    passed: usize,
    known: Vec<String>,
    failed: Vec<String>,
    /// Scenarios of [`KNOWN`] that passed.
    passes_now: Vec<&'static str>,
}

fn read(on: String, output: &str, succeeded: bool) -> Report {
    let mut report = Report { on, ..Report::default() };
    let known = |on: &str, name: &str| {
        KNOWN.iter().find(|(client, known, _)| on.starts_with(client) && *known == name).copied()
    };
    let (mut failures, mut skipped, mut closing) = (0, 0, None);
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("pass ") {
            report.passed += 1;
            report.passes_now.extend(known(&report.on, name).map(|(_, name, _)| name));
        } else if let Some(failure) = line.strip_prefix("FAIL ") {
            failures += 1;
            let name = failure.split(':').next().unwrap_or_default();
            match known(&report.on, name) {
                Some((_, name, reason)) => report.known.push(format!("{name}: {reason}")),
                None => report.failed.push(failure.to_owned()),
            }
        } else if let Some(reason) = line.strip_prefix("skip ") {
            skipped += 1;
            report.known.push(reason.to_owned());
        } else if let Some((scenarios, failed)) = line.split_once(" scenario(s), ") {
            let failed = failed.strip_suffix(" failed").and_then(|failed| failed.parse::<usize>().ok());
            closing = scenarios.parse::<usize>().ok().zip(failed);
        }
    }
    // A program that fails has a scenario that does, or has not run to its end.
    match closing {
        Some((scenarios, failed)) if failed == failures && (succeeded || failures > 0) => {
            if report.passed == 0 || report.passed + failures + skipped < scenarios {
                report.failed.push(format!("{} of {scenarios} scenario(s) passed", report.passed));
            }
        }
        _ => report.failed.push("the program did not run to its end".to_owned()),
    }
    report
}

async fn run(client: Client, folder: &Path, server: &Server) -> Report {
    let mut command = (client.command)(folder, server.settings());
    let on = format!("{} on {}", client.name, server.kind());
    match command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output().await {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            read(on, &text, output.status.success())
        }
        Err(error) => Report { on, failed: vec![error.to_string()], ..Report::default() },
    }
}

/// The entities of the programs that are run, in one configuration.
async fn entities(folder: &Path, all: bool) -> Result<Value, Failure> {
    let mut python = Command::new(folder.join("venv/bin/python"));
    python.arg(script("python/run.py"));
    let mut node = Command::new("node");
    node.env("NODE_MODULES", folder).arg(script("node/run.mjs"));
    let others = [node].into_iter().chain(RUST.into_iter().filter(|_| all).map(rust));
    let mut config: Value = serde_json::from_slice(&python.arg("entities").output().await?.stdout)?;
    for mut program in others {
        let more: Value = serde_json::from_slice(&program.arg("entities").output().await?.stdout)?;
        for kind in ["Queues", "Topics"] {
            let path = format!("/UserConfig/Namespaces/0/{kind}");
            let more = more.pointer(&path).and_then(Value::as_array).cloned().unwrap_or_default();
            let entities = config.pointer_mut(&path).and_then(Value::as_array_mut);
            entities.ok_or("a configuration without entities")?.extend(more);
        }
    }
    Ok(config)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run_all().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_all() -> Result<ExitCode, Failure> {
    let mut arguments = env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("the folder of the packages is missing")?);
    let is_json = arguments.next().is_some_and(|argument| argument == "--json");
    let all = env::var("CONSIGN_SERVICEBUS").is_ok_and(|part| part == "all");
    let config = entities(&folder, all).await?;

    let mut reports = Vec::new();
    if all {
        // The entities of a client are used once: each has a server of its own.
        for (number, (client, durable)) in
            (0..).zip(CLIENTS.iter().flat_map(|client| [(client, false), (client, true)]))
        {
            let server = Server::start(number, &config, durable).await?;
            reports.push(run(*client, &folder, &server).await);
        }
    } else {
        // A list of entities passes some over while the other client deletes one.
        let few = (0..).zip(&CLIENTS[..FEW]).map(async |(number, client)| {
            let server = Server::start(number, &config, false).await?;
            Ok::<_, Failure>(run(*client, &folder, &server).await)
        });
        reports = futures_util::future::try_join_all(few).await?;
    }
    print(&reports, is_json);
    let failed = reports.iter().any(|report| !report.failed.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(reports: &[Report], is_json: bool) {
    if is_json {
        let json = |report: &Report| {
            let Report { on, passed, known, failed, passes_now } = report;
            json!({ "client": on, "passed": passed, "known": known, "failed": failed, "passes_now": passes_now })
        };
        println!("{}", reports.iter().map(json).collect::<Value>());
        return;
    }
    for report in reports {
        for failure in &report.failed {
            println!("FAIL  {}: {failure}", report.on);
        }
        for known in &report.known {
            println!("known {}: {known}", report.on);
        }
        for name in &report.passes_now {
            println!("known {}: {name} passes, though KNOWN has it", report.on);
        }
        let (known, failed) = (report.known.len(), report.failed.len());
        println!("{}: {} passed, {known} known, {failed} failed", report.on, report.passed);
    }
}
