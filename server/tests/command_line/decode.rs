use serde_json::json;

use crate::support::{Shell, objects, text};

#[test]
fn the_codec_that_reads_a_body_is_named_and_others_give_their_reasons() {
    let shell = Shell::on_a_store();
    let ran = shell.with_input(b"\x82\xa3sku\xa5screw\xa5count\x05", &["decode", "--content-type", "application/json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for text in [
        "18 B, application/json\nread by msgpack (fallback)\n  tried json (exact): not valid text in its charset",
        "  msgpack: reads it: {\"sku\":\"screw\",\"count\":5}\n",
        "  cbor: cbor: ",
        "  text: text: ",
        "body by msgpack (fallback):\n{\n  \"sku\": \"screw\",\n  \"count\": 5\n}\n",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let file = shell.write("body", "{\"a\":1}");
    let object = &shell.json(&["decode", text(&file), "--content-type", "application/json"])[0];
    assert_eq!((&object["read_by"], &object["chosen"]), (&json!("json"), &json!("exact")));
    assert_eq!(object["body"]["decoded"]["value"], json!({"a": 1}));
}

#[test]
fn a_body_that_no_codec_reads_has_an_exit_code_of_its_own() {
    let shell = Shell::on_a_store();
    let ran = shell.with_input("{\"a\":", &["decode", "--content-type", "application/json", "--json"]);
    assert_eq!((ran.code, &objects(&ran.out)[0]["reason"]), (Some(8), &json!("DeserializationFailed")), "{ran:?}");
    let ran = shell.with_input("x", &["decode", "--codec", "json"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    shell.fails(1, &["decode", "nothing"]);
}
