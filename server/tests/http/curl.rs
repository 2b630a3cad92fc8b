//! The requests of the README, by curl.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::Harness;

/// Runs curl, and returns the status, the headers and the body.
async fn curl(options: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--noproxy", "*", "--max-time", "60"]).args(options);
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim_end)
}

async fn is_missing() -> bool {
    let missing = Command::new("curl").arg("--version").stdout(Stdio::null()).status().await.is_err();
    assert!(!(missing && std::env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_some()), "there is no curl");
    if missing {
        eprintln!("LEFT OUT: there is no curl");
    }
    missing
}

/// Rules: HT-01, HT-02, HT-03, HT-04, HT-05, HT-06, HT-07.
#[tokio::test]
async fn every_operation_works_with_curl() {
    if is_missing().await {
        return;
    }
    let harness = Harness::with(|builder| builder).await;
    let url = format!("http://{}", harness.address);
    let messages = format!("{url}/orders/messages");
    let head = format!("{messages}/head?timeout=5");
    let json = "Content-Type: application/json";
    let broker = "BrokerProperties: {\"Label\":\"order.created\"}";
    let sent =
        curl(&[&messages, "--header", json, "--header", broker, "--header", "Priority: High", "--data", "{}"]).await;
    assert!(sent.contains("201 Created"), "{sent}");
    let received = curl(&["--request", "DELETE", &head]).await;
    assert!(received.contains("200 OK") && received.ends_with("{}"), "{received}");
    assert_eq!(header(&received, "priority"), Some("\"High\""));

    let batch = "Content-Type: application/vnd.microsoft.servicebus.json";
    let sent = curl(&[&messages, "--header", batch, "--data", r#"[{"Body":"1"},{"Body":"2"}]"#]).await;
    assert!(sent.contains("201 Created"), "{sent}");
    let chunked = curl(&[&messages, "--header", "Transfer-Encoding: chunked", "--data", "3"]).await;
    assert!(chunked.contains("201 Created"), "{chunked}");
    let locked = curl(&["--request", "POST", &head]).await;
    let location = header(&locked, "location").unwrap();
    for method in ["POST", "PUT"] {
        assert!(curl(&["--request", method, location]).await.contains("200 OK"));
    }
    for body in ["1", "2", "3"] {
        let locked = curl(&["--request", "POST", &head]).await;
        assert!(locked.contains("201 Created") && locked.ends_with(body), "{locked}");
        assert!(curl(&["--request", "DELETE", header(&locked, "location").unwrap()]).await.contains("200 OK"));
    }
    let empty = curl(&["--request", "DELETE", &format!("{messages}/head?timeout=0")]).await;
    assert!(empty.contains("204 No Content"), "{empty}");

    let created = curl(&[
        "--request",
        "PUT",
        &format!("{url}/created"),
        "--data",
        "<entry><content><QueueDescription/></content></entry>",
    ])
    .await;
    assert!(created.contains("201 Created"), "{created}");
    let listed = curl(&[&format!("{url}/$Resources/queues")]).await;
    assert!(listed.contains(">created<") && listed.contains(">orders<"), "{listed}");
    assert!(curl(&["--request", "DELETE", &format!("{url}/created")]).await.contains("200 OK"));
}
