use std::{
    io::{Read, Seek, SeekFrom, Write},
    time::Duration,
};

use consign_broker::{Broker, Queue};
use consign_core::{
    Message,
    administration::QueueSettings,
    transport::{ReceiverExt, Sender},
};
use serde_json::json;

use crate::support::{Shell, numbered, objects, text};

fn shell() -> Shell {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let lines = numbered(200).replace('\n', &format!(" {}\n", "x".repeat(500)));
    shell.with_input(lines, &["send", "orders"]);
    shell
}

#[test]
fn a_good_store_is_checked_compacted_and_backed_up() {
    let shell = shell();
    let checked = &shell.json(&["store", "check", "store"])[0];
    assert_eq!((&checked["messages"], &checked["damages"]), (&json!(200), &json!([])));
    assert_eq!(shell.json(&["store", "check", shell.url()])[0], *checked, "by its URL");
    shell.ok(&["receive", "orders", "-n", "150", "--no-body"]);
    let sizes = &shell.json(&["store", "compact", "store"])[0];
    assert!(sizes["after"].as_u64() <= sizes["before"].as_u64(), "{sizes}");
    shell.ok(&["store", "backup", "store", "--to", "copy"]);
    assert_eq!(shell.json(&["store", "check", "copy"])[0]["messages"], 50);
    let listed = shell.json(&["entities", "list", "--url", "file:copy"]);
    assert_eq!(listed[0]["counts"]["active"], 50);
    let exists = shell.fails(1, &["store", "backup", "store", "--to", "copy"]);
    assert!(exists.contains("exists already") && !exists.contains("not a store"), "{exists}");
    let inside = shell.fails(1, &["store", "backup", "store", "--to", "store/inner"]);
    assert!(inside.contains("is inside of the store") && !inside.contains("not a store"), "{inside}");
    assert_eq!(shell.json(&["store", "check", "store"])[0]["messages"], 50);
    let error = shell.fails(1, &["store", "backup", "store", "--to", "no/such/folder"]);
    assert!(error.contains("its parent folder does not exist"), "{error}");
    let error = shell.fails(5, &["peek", "orders", "--url", "file:no/such/store"]);
    assert!(error.contains("its parent folder does not exist") && !error.contains("disk"), "{error}");
}

#[test]
fn a_damaged_store_is_reported_and_salvaged() {
    let shell = shell();
    let path = shell.path("store").join("00000001.log");
    // A byte of a message.
    let mut bytes = Vec::new();
    std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(8).position(|window| window == b"xxxxxxxx").unwrap();
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(b"y").unwrap();
    drop(file);

    let ran = shell.run(&["store", "check", "store"]);
    assert!(ran.code == Some(8) && ran.err.contains("damaged"), "{ran:?}");
    let output = shell.path("salvaged.jsonl");
    let ran = shell.run(&["store", "salvage", "store", "--output", text(&output), "--json"]);
    let messages = objects(&ran.out)[0]["messages"].as_u64().unwrap();
    assert!(ran.code == Some(8) && (1..200).contains(&messages), "{ran:?}");
    shell.ok(&["entities", "create", "orders", "--url", "file:new"]);
    let imported = shell.json(&["import", "orders", text(&output), "--url", "file:new"]);
    assert_eq!(imported[0]["imported"], messages);
}

#[test]
fn a_salvage_is_imported_entity_by_entity() {
    let shell = Shell::on_a_store();
    for queue in ["orders", "bills"] {
        shell.ok(&["entities", "create", queue]);
        shell.with_input(format!("{queue} 1\n{queue} 2\n"), &["send", queue]);
    }
    shell.dead_letter("orders", 1, "Poison");
    let output = shell.path("salvaged.jsonl");
    shell.ok(&["store", "salvage", "store", "--output", text(&output)]);
    let other = ["--url", "file:new"];
    for queue in ["orders", "bills", "dead"] {
        shell.ok(&[&["entities", "create", queue], &other[..]].concat());
    }
    // Nothing of a file is sent; an input can only be read once.
    let error = shell.fails(2, &[&["import", "orders", text(&output)], &other[..]].concat());
    assert!(error.contains("orders/$deadletterqueue") && error.contains("--from"), "{error}");
    let listed = shell.json(&[&["entities", "list"], &other[..]].concat());
    assert!(listed.iter().all(|entity| entity["counts"]["active"] == 0), "{listed:?}");
    let lines = std::fs::read(&output).unwrap();
    let ran = shell.with_input(&lines, &["import", "orders", "--url", "file:piped"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    shell.ok(&["entities", "create", "orders", "--url", "file:piped"]);
    let ran = shell.with_input(&lines, &["import", "orders", "--url", "file:piped"]);
    assert!(ran.code == Some(6) && ran.err.contains("--from"), "{ran:?}");
    for (entity, from, skip, count) in
        [("orders", "orders", "0", 1), ("bills", "BILLS", "1", 1), ("dead", "orders/$deadletterqueue", "0", 1)]
    {
        let import = ["import", entity, text(&output), "--from", from, "--skip", skip];
        assert_eq!(shell.json(&[&import[..], &other].concat())[0]["imported"], count);
    }
    let shell = shell.with_url("file:new");
    let dead = &shell.json(&["peek", "dead"])[0]["properties"];
    assert_eq!(dead["x-original-dead-letter-reason"], "Poison", "{dead}");
    assert_eq!(dead["x-original-dead-letter-description"], "the first line\nthe second", "{dead}");
    for (entity, body) in [("orders", "orders 2"), ("bills", "bills 2"), ("dead", "orders 1")] {
        assert_eq!(shell.bodies(entity), [body]);
    }
}

/// A store whose one message was locked by a process that has died.
async fn locked(shell: &Shell) {
    let broker = Broker::options().hold_locks(true).open(shell.path("store")).unwrap();
    let queue =
        broker.create_queue("orders", QueueSettings::default().lock_duration(Duration::from_secs(300))).unwrap();
    queue.sender().unwrap().send(Message::new("locked")).await.unwrap();
    // Its drop would release it.
    std::mem::forget(queue.receiver().receive().await.unwrap());
    broker.close().await.unwrap();
}

/// Whether the first message of a store is locked, by a process that keeps locks.
async fn is_locked(shell: &Shell, store: &str) -> bool {
    let broker = Broker::options().hold_locks(true).open(shell.path(store)).unwrap();
    let queue: Queue = broker.queue("orders").unwrap();
    let locked = queue.counts().locked;
    broker.close().await.unwrap();
    locked == 1
}

/// Rules: D-03.
#[tokio::test]
async fn a_command_leaves_the_locks_that_outlive_a_process() {
    let shell = Shell::on_a_store();
    locked(&shell).await;
    assert!(is_locked(&shell, "store").await);
    for command in [
        &["peek", "orders"][..],
        &["send", "orders", "--body", "another"],
        &["receive", "orders", "-n", "1"],
        &["store", "compact", "store"],
        &["store", "backup", "store", "--to", "copy"],
    ] {
        shell.ok(command);
        assert!(is_locked(&shell, "store").await, "after {command:?}");
    }
    assert!(is_locked(&shell, "copy").await);
}

#[test]
fn a_folder_without_a_store_is_refused_and_stays_as_it_is() {
    let shell = Shell::on_a_store();
    for command in ["check", "compact"] {
        shell.fails(1, &["store", command, "nothing"]);
        assert!(!shell.path("nothing").exists());
        std::fs::create_dir_all(shell.path("empty")).unwrap();
        shell.fails(3, &["store", command, "empty"]);
        assert_eq!(std::fs::read_dir(shell.path("empty")).unwrap().count(), 0);
    }
    shell.write("other", "");
    std::fs::create_dir_all(shell.path("others")).unwrap();
    shell.write("others/file", "");
    for arguments in [
        &["store", "check", "others"][..],
        &["store", "compact", "others"],
        &["store", "backup", "others", "--to", "copy"],
        &["store", "salvage", "others", "--output", "lines"],
        &["peek", "orders", "--url", "file:others"],
    ] {
        shell.fails(5, arguments);
    }
    assert_eq!(std::fs::read_dir(shell.path("others")).unwrap().count(), 1);
}

#[test]
fn a_store_of_a_later_version_cannot_be_opened() {
    let shell = shell();
    let head = [b"csgnhead".as_slice(), &2_u32.to_le_bytes(), b"more"].concat();
    shell.write("store/head", [&head[..], &crc32(&head).to_le_bytes()].concat());
    for command in ["check", "compact"] {
        let error = shell.fails(5, &["store", command, "store"]);
        assert!(error.contains("format 2"), "{error}");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}
