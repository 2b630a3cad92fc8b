//! Commands that wait for a pipe or read a store, and are interrupted.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use crate::support::{Ran, Shell, interrupt, text};

fn pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waits until a process handles Ctrl-C.
async fn handles_interrupts(process: &Child) {
    let status = format!("/proc/{}/status", process.id());
    loop {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0 {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// What a process printed, which ends. One that waits without an end is killed, and has no exit code.
async fn ended(mut process: Child) -> Ran {
    let ends = async {
        while process.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(Duration::from_secs(20), ends).await.is_err() {
        process.kill().unwrap();
    }
    process.wait_with_output().unwrap().into()
}

async fn interrupted(shell: &Shell, arguments: &[&str]) -> String {
    let process = shell.command(arguments).spawn().unwrap();
    handles_interrupts(&process).await;
    interrupt(&process);
    let ran = ended(process).await;
    assert_eq!(ran.code, Some(130), "{arguments:?}: {ran:?}");
    ran.err
}

fn with_a_pipe() -> Shell {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    pipe(shell.path("pipe"));
    shell
}

#[tokio::test]
async fn a_pipe_is_read_once() {
    let shell = with_a_pipe();
    let write = |path: &Path| std::fs::write(path, "{\"body\":{\"text\":\"1\"}}\n");
    for arguments in [&["import", "orders", "pipe"][..], &["send", "orders", "--file", "pipe"]] {
        let process = shell.command(arguments).spawn().unwrap();
        // It fails if the other end is closed, and then the process has no message.
        let written = write(&shell.path("pipe"));
        let ran = ended(process).await;
        assert_eq!((ran.code, written.is_ok()), (Some(0), true), "{arguments:?}: {ran:?}");
    }
    assert_eq!(shell.bodies("orders").len(), 2);
}

#[tokio::test]
async fn a_command_that_waits_for_a_pipe_is_interrupted() {
    let shell = with_a_pipe();
    for arguments in [
        &["import", "orders", "pipe"][..],
        &["import", "orders", "pipe", "--from", "orders"],
        &["send", "orders", "--file", "pipe"],
        &["dead-letters", "edit", "orders", "--body-file", "pipe"],
    ] {
        interrupted(&shell, arguments).await;
    }
}

/// One of some tries: a store may be read before the signal arrives. Returns the error, and the name of what was written.
async fn interrupted_in_time(shell: &Shell, arguments: &[&str], writes: bool) -> (String, String) {
    for attempt in 0..20 {
        let name = format!("{}-{attempt}", arguments[1]);
        let new: &[&str] = if writes { &[&name] } else { &[] };
        let process = shell.command(&[arguments, new].concat()).spawn().unwrap();
        handles_interrupts(&process).await;
        interrupt(&process);
        let ran = ended(process).await;
        if ran.code == Some(130) {
            return (ran.err, name);
        }
    }
    panic!("{arguments:?} was not interrupted");
}

#[tokio::test]
async fn a_command_that_reads_a_store_is_interrupted() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let large = shell.write("large", vec![b'x'; 200_000]);
    let sent: Vec<&str> = ["--file", text(&large)].into_iter().cycle().take(600).collect();
    shell.ok(&[&["send", "orders"], &sent[..]].concat());

    let (error, _) = interrupted_in_time(&shell, &["store", "check", "store"], false).await;
    assert_eq!(error, "error: interrupted\n");
    let (error, name) = interrupted_in_time(&shell, &["store", "salvage", "store", "--output"], true).await;
    assert_eq!(error, format!("error: interrupted; {name} may be incomplete\n"));
    let (error, name) = interrupted_in_time(&shell, &["store", "backup", "store", "--to"], true).await;
    let is_named = error == format!("error: interrupted; {name} may be incomplete\n");
    assert!(error == "error: interrupted\n" || is_named && shell.path(&name).exists(), "{error}");
}
