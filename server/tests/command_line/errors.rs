use crate::support::{Shell, objects};

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
    shell.fails(2, &["peek", "a//b"]);
    shell.fails(3, &["peek", "orders"]);
    shell.fails(3, &["send", "orders", "--body", "x"]);
    shell.fails(5, &["peek", "orders", "--url", "nats://127.0.0.1:1"]);
    assert_eq!(shell.run(&["--version"]).code, Some(0));
}

#[test]
fn errors_are_objects_with_json() {
    let shell = Shell::on_a_store();
    let error = objects(&shell.fails(3, &["peek", "orders", "--json"])).remove(0);
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"EntityNotFound".into(), &3.into()));
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
    }
}

#[test]
fn a_store_in_use_is_reported() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let open = consign_broker::Broker::open(shell.path("store")).unwrap();
    let error = shell.fails(5, &["peek", "orders"]);
    assert!(error.contains("in use") || error.contains("open"), "{error}");
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
    let pid = process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(130));
}
