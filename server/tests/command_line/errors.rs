use std::io::Write as _;

use crate::{
    served::serve,
    support::{Shell, interrupt, objects},
};

/// Rules: L-28.
#[test]
fn no_output_has_a_password() {
    let shell = Shell::on_a_store();
    let secret = "s3cretpw";
    for url in [
        format!("nats://me:{secret}@127.0.0.1:1"),
        format!("amqp://me:{secret}@127.0.0.1:1/%2f"),
        format!("amqp10://me:{secret}@127.0.0.1:1"),
        format!("postgres://me:{secret}@127.0.0.1:1/none"),
        format!("unknown://me:{secret}@127.0.0.1"),
        format!("nats://me:{secret}@127.0.0.1:1?other={secret}"),
    ] {
        for arguments in [
            &["peek", "orders", "--connect-timeout", "5s", "--url", &url][..],
            &["dead-letters", "list", "orders", "--json", "--connect-timeout", "5s", "--url", &url],
            // In the place of another argument.
            &["peek", &url],
            &["peek", "orders", &url],
            &["peek", "orders", "--from", &url],
            &["entities", "create", "orders", "--kind", &url],
            &["store", "check", &url],
            &["send", "orders", "--at", &url],
        ] {
            let ran = shell.run(arguments);
            assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{arguments:?}: {ran:?}");
            assert!(matches!(ran.code, Some(1 | 2 | 5)), "{arguments:?}: {ran:?}");
        }
    }
    let (quoted, separate) = (format!("amqp://me:it's-{secret}@h/"), format!("amqp://me:a` \"{secret}\" '{secret}@h/"));
    for url in [&quoted, &separate] {
        for arguments in [
            &["peek", "orders", url][..],
            &["peek", "orders", "--json", url],
            &["peek", "orders", &format!("--from={url}")],
            &["store", "check", url],
            &["serve", "--transport", url, url],
        ] {
            let err = shell.fails(2, arguments);
            assert!(!err.contains(secret), "{arguments:?}: {err}");
        }
    }
    let help = shell.command(&["peek", "--help"]).env("CONSIGN_URL", format!("nats://me:{secret}@h")).output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains(secret));
}

#[test]
fn failures_have_exit_codes() {
    let shell = Shell::on_a_store();
    shell.fails(2, &["peek"]);
    shell.fails(2, &["unknown"]);
    shell.fails(2, &["peek", "orders", "--url", "unknown:"]);
    shell.fails(2, &["peek", "orders", "--url", "file:store?other=1"]);
    for url in ["file:store#a", "file:store#", "file://store", "nats://127.0.0.1:1#a", "servicebus://a:b@h#"] {
        shell.fails(2, &["peek", "orders", "--url", url]);
    }
    for store in ["file:store#a", "file:store?a=1", "file://store"] {
        shell.fails(2, &["store", "check", store]);
    }
    shell.fails(2, &["peek", "a//b"]);
    shell.fails(3, &["peek", "orders"]);
    shell.fails(3, &["send", "orders", "--body", "x"]);
    shell.fails(3, &["dead-letters", "purge", "orders"]);
    shell.fails(3, &["dead-letters", "purge", "orders", "--apply"]);
    shell.fails(5, &["peek", "orders", "--url", "nats://127.0.0.1:1"]);
    assert_eq!(shell.run(&["--version"]).code, Some(0));
}

#[test]
fn errors_are_objects_with_json() {
    let shell = Shell::on_a_store();
    let error = objects(&shell.fails(3, &["peek", "orders", "--json"])).remove(0);
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"EntityNotFound".into(), &3.into()));
    let error = objects(&shell.fails(2, &["peek", "--json", "--from", "x", "orders"])).remove(0);
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"Usage".into(), &2.into()));
}

#[test]
fn a_broker_in_memory_is_refused_where_it_would_be_empty() {
    let shell = Shell::on_a_store();
    for command in [
        &["entities", "list"][..],
        &["send", "orders", "--body", "x"],
        &["peek", "orders"],
        &["receive", "orders"],
        &["export", "orders"],
        &["import", "orders"],
        &["dead-letters", "purge", "orders", "--apply"],
    ] {
        let error = shell.fails(2, &[command, &["--url", "memory:"]].concat());
        assert!(error.contains("memory: is a broker in this process"), "{error}");
        assert!(error.contains(" servicebus://any:any@127.0.0.1:5672?emulator=true"), "{error}");
    }
}

#[test]
fn a_store_in_use_is_reported() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let open = consign_broker::Broker::open(shell.path("store")).unwrap();
    for arguments in [&["peek", "orders"][..], &["store", "check", "store"], &["store", "compact", "store"]] {
        let error = shell.fails(5, arguments);
        assert!(error.contains("in use") || error.contains("open"), "{error}");
    }
    drop(open);
}

#[test]
fn completions_have_the_commands() {
    let shell = Shell::on_a_store();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.ok(&["completions", name]);
        assert!(script.contains("dead-letters") && script.contains("resubmit"), "{name}");
    }
}

#[tokio::test]
async fn an_interrupt_has_an_exit_code() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    shell.ok(&["send", "orders", "--body", "first"]);
    let mut process = shell.command(&["receive", "orders", "-n", "2", "--timeout", "60s"]).spawn().unwrap();
    // It waits for the second message when it has printed the first.
    let mut line = [0];
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut line).unwrap();
    interrupt(&process);
    assert_eq!(process.wait().unwrap().code(), Some(130));
}

/// The standard input stays open without an end.
#[tokio::test]
async fn a_command_that_waits_for_its_input_sends_and_is_interrupted() {
    let server = serve();
    let shell = Shell::on(&server.url);
    let mut process = shell.command(&["send", "orders"]).spawn().unwrap();
    process.stdin.as_mut().unwrap().write_all(b"one\n").unwrap();
    let received = shell.json(&["receive", "orders", "--timeout", "60s"]);
    assert_eq!(received[0]["body"]["text"], "one");
    interrupt(&process);
    assert_eq!(process.wait().unwrap().code(), Some(130));
}

/// Interrupts a measurement when this is in the log of the store, and returns its errors.
async fn interrupted_bench(shell: &Shell, arguments: &[&str], logged: &[u8]) -> String {
    let process = shell.command(&[&["bench", "-n", "10000000"], arguments].concat()).spawn().unwrap();
    // The log of the store grows while it sends.
    let log = shell.path("store").join("00000001.log");
    while !std::fs::read(&log).is_ok_and(|bytes| bytes.windows(logged.len()).any(|bytes| bytes == logged)) {
        tokio::task::yield_now().await;
    }
    interrupt(&process);
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn an_interrupted_measurement_deletes_its_queue() {
    let shell = Shell::on_a_store();
    interrupted_bench(&shell, &[], b"consign-bench-").await;
    assert_eq!(shell.json(&["entities", "list"]).len(), 0);
}

#[tokio::test]
async fn an_interrupted_measurement_reports_what_is_left_in_a_queue() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let error = interrupted_bench(&shell, &["orders"], b"x-bench-sent").await;
    assert!(error.contains("interrupted; up to ") && error.contains("`x-bench-sent`, are in orders"), "{error}");
}

/// A server that accepts connections and never answers.
#[tokio::test]
async fn a_web_ui_that_connects_ends_by_a_signal() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("amqp://127.0.0.1:{}/%2f", silent.local_addr().unwrap().port());
    for signal in ["-INT", "-TERM"] {
        let mut process = Shell::on(&url).command(&["serve", "--http-port", "0", "--transport", &url]).spawn().unwrap();
        let _connection = silent.accept().unwrap();
        let pid = process.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(process.wait().unwrap().code(), Some(0), "{signal}");
    }
}

/// What reads the log reads why the server did not start.
#[test]
fn a_server_that_does_not_start_reports_it_in_the_form_of_its_log() {
    let shell = Shell::on_a_store();
    for more in [&[][..], &["--transport", "file:store"]] {
        let error = shell.fails(2, &[&["serve", "--host", "0.0.0.0", "--log-format", "json"], more].concat());
        let error = &objects(&error)[0]["error"];
        assert!(error["message"].as_str().unwrap().contains("is not a loopback address"), "{error}");
    }
}
