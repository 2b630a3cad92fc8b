use std::io::{Read, Seek, SeekFrom, Write};

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
    shell.fails(1, &["store", "backup", "store", "--to", "copy"]);
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
