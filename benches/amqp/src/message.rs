//! A message as Service Bus delivers it, decoded and encoded.

use consign_amqp::codec;

use crate::{
    Suite,
    sample::{decode, peer_decode, peer_encode, sections},
};

pub(crate) fn add(suite: &mut Suite) {
    let sections = sections();
    let bytes = codec::encode(&sections).expect("a message");
    let peer = peer_decode(&bytes);
    assert_eq!(decode(&bytes), sections);
    assert_eq!(decode(&peer_encode(&peer).into()), sections, "the other library writes what it has read");

    let input = bytes.clone();
    suite.add("decode/ours", move || decode(&input));
    let input = bytes.clone();
    suite.add("decode/fe2o3-amqp", move || peer_decode(&input));
    suite.add("encode/ours", move || codec::encode(&sections).expect("a message"));
    suite.add("encode/fe2o3-amqp", move || peer_encode(&peer));
}
