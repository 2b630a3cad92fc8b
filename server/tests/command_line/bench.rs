use crate::support::{Shell, text};

#[test]
fn rates_and_latencies_are_measured() {
    let shell = Shell::on_a_store();
    for url in ["memory:", shell.url()] {
        let figures = &shell.json(&["bench", "-n", "300", "--size", "64", "--url", url])[0];
        assert_eq!((&figures["sent"], &figures["received"]), (&300.into(), &300.into()), "{url}");
        assert!(figures["send_rate"].as_f64().unwrap() > 0.0, "{figures}");
        assert!(figures["delivered_us"]["p99"].as_u64() >= figures["delivered_us"]["p50"].as_u64(), "{figures}");
    }
    assert_eq!(shell.json(&["entities", "list"]).len(), 0, "its queue is deleted");
}

#[test]
fn a_measurement_is_drawn_and_printed() {
    let shell = Shell::on_a_store();
    let plot = shell.path("plot.svg");
    let printed = shell.ok(&["bench", "-n", "100", "--url", "memory:", "--plot", text(&plot)]);
    for text in ["100 messages of 256 B sent", "accepted after: min ", "p99.9", " #"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
}

#[test]
fn messages_of_others_end_a_measurement() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    shell.ok(&["send", "orders", "--body", "of another"]);
    let error = shell.fails(2, &["bench", "orders", "-n", "10"]);
    assert!(error.contains("messages of others"), "{error}");
    assert_eq!(shell.bodies("orders"), ["of another"], "nothing was sent");
    shell.fails(2, &["bench", "orders", "-n", "0"]);
}
