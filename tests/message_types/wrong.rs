//! Routers and tables that are wrong, each with one error.

use consign::{
    BuildError, BuildErrorKind,
    codecs::{CodecSet, Codecs},
    message_types::{Incoming, MessageType, MessageTypes, ReceiveTypes, TypeError, TypeTable},
    routing::{Ignore, Router, Typed},
};

/// An enum with this table, which is never read.
macro_rules! tables {
    ($($name:ident: $table:expr;)*) => {$(
        struct $name;

        impl MessageTypes for $name {
            const TYPES: TypeTable = $table;
        }

        impl ReceiveTypes for $name {
            fn read<C: CodecSet>(_: usize, incoming: &Incoming<'_, C>) -> Result<Self, TypeError> {
                Err(incoming.unknown())
            }
        }
    )*};
}

const fn of(name: &'static str) -> MessageType {
    MessageType::new(name)
}

tables! {
    Good: TypeTable::new("Good", &[of("a").aliases(&["A"]), of("b").versions(&[2, 3])]);
    Other: TypeTable::new("Other", &[of("c")]);
    Elsewhere: TypeTable::new("Elsewhere", &[of("d")]).by_property("type");
    Empty: TypeTable::new("Empty", &[]);
    Path: TypeTable::new("Path", &[of("my crate, a::b")]);
    Nameless: TypeTable::new("Nameless", &[of("a").aliases(&[""])]);
    SameName: TypeTable::new("SameName", &[of("a"), of("b"), of("a")]);
    AliasOfName: TypeTable::new("AliasOfName", &[of("a").aliases(&["b"]), of("b")]);
    AliasTwice: TypeTable::new("AliasTwice", &[of("a").aliases(&["x"]), of("b").aliases(&["x"])]);
    Zero: TypeTable::new("Zero", &[of("a").versions(&[0, 1])]);
    Twice: TypeTable::new("Twice", &[of("a").versions(&[1, 2, 2])]);
    Cycle: TypeTable::new("Cycle", &[of("a").versions(&[1, 2, 1])]);
    Gap: TypeTable::new("Gap", &[of("a").versions(&[1, 3])]);
    SameProperty: TypeTable::new("SameProperty", &[of("a")]).by_property("p").version_property("p");
    NoProperty: TypeTable::new("NoProperty", &[of("a")]).by_property("");
    NoCodec: TypeTable::new("NoCodec", &[of("a").codec("xml")]);
}

fn built<E: ReceiveTypes + 'static>() -> Result<(), BuildError> {
    Router::new(Codecs::json()).types(async |_: Typed<E>| {}).build().map(drop)
}

/// Of a handler of everything too, and with one error that says what to do.
#[track_caller]
fn refused<E: ReceiveTypes + 'static>(kind: BuildErrorKind, says: &str) {
    let everything = Router::new(Codecs::json()).fallback(async |_: Typed<E>| {}).build().map(drop);
    for built in [built::<E>(), everything] {
        let error = built.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!((error.to_string(), error.name()), (says.to_owned(), E::TYPES.name()));
    }
}

/// Rules: J-10.
#[test]
fn a_table_that_keeps_every_rule_is_built() {
    built::<Good>().unwrap();
    built::<Elsewhere>().unwrap();
}

/// Rules: J-10.
#[test]
fn an_enum_without_types_is_refused() {
    refused::<Empty>(BuildErrorKind::NoType, "`Empty` has no type: add one");
}

/// Rules: J-10.
#[test]
fn a_name_that_is_none_is_refused() {
    let says = "`Path` calls a type \"my crate, a::b\": use 1 to 128 of the characters A-Z a-z 0-9 . _ : / -";
    refused::<Path>(BuildErrorKind::InvalidName, says);
    let says = "`a` is also called \"\": use 1 to 256 bytes without control characters";
    refused::<Nameless>(BuildErrorKind::InvalidName, says);
}

/// Rules: J-10.
#[test]
fn two_types_of_one_name_are_refused() {
    let says = "two types of `SameName` are called `a`: give one of them another name";
    refused::<SameName>(BuildErrorKind::DuplicateName, says);
}

/// Rules: J-10.
#[test]
fn an_alias_that_is_taken_is_refused() {
    let says = "`a` is also called `b`, and so is `b`: leave it to one";
    refused::<AliasOfName>(BuildErrorKind::DuplicateAlias, says);
    let says = "`b` is also called `x`, and so is `a`: leave it to one";
    refused::<AliasTwice>(BuildErrorKind::DuplicateAlias, says);
}

/// Rules: J-11.
#[test]
fn versions_that_are_not_one_after_the_other_are_refused() {
    refused::<Zero>(BuildErrorKind::InvalidVersion, "`a` has a version 0: begin with 1");
    refused::<Twice>(BuildErrorKind::DuplicateVersion, "`a` has the version 2 twice: leave one");
    let says = "a step of `a` leads back from version 2 to 1: order them upwards";
    refused::<Cycle>(BuildErrorKind::VersionOrder, says);
    refused::<Gap>(BuildErrorKind::VersionGap, "no step of `a` leads from version 1 to 2: add it");
}

/// Rules: J-10.
#[test]
fn properties_that_are_none_or_the_same_are_refused() {
    let says = "`SameProperty` has type and version in the property `p`: give them two";
    refused::<SameProperty>(BuildErrorKind::InvalidProperty, says);
    let says = "`NoProperty` names a property \"\": use 1 to 128 bytes without control characters";
    refused::<NoProperty>(BuildErrorKind::InvalidProperty, says);
}

/// Rules: J-10.
#[test]
fn a_codec_that_the_set_has_not_is_refused() {
    refused::<NoCodec>(
        BuildErrorKind::UnknownCodec,
        "`a` is written by `xml`, which is not a codec of the set: add it",
    );
}

#[track_caller]
fn clash<R>(built: Result<R, BuildError>, kind: BuildErrorKind, says: &str) {
    let error = built.map(drop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, says.to_owned()));
}

/// Rules: J-12.
#[test]
fn routes_that_take_one_message_twice_are_refused() {
    let router = || Router::new(Codecs::json());
    let says = "two routes have the subject \"a\"; remove one of them";
    clash(router().route("a", Ignore).route("a", Ignore).build(), BuildErrorKind::DuplicateRoute, says);
    let says = "a route has the subject `A`, which is a type of `Good`: remove one of them";
    let both = router().types(async |_: Typed<Good>| {}).route("A", Ignore).build();
    clash(both, BuildErrorKind::TypeTakenTwice, says);
    let says = "`Good` and `Good` both have the type `a`: remove it from one";
    let both = router().types(async |_: Typed<Good>| {}).types(async |_: Typed<Good>| {}).build();
    clash(both, BuildErrorKind::TypeTakenTwice, says);
    router().types(async |_: Typed<Good>| {}).types(async |_: Typed<Other>| {}).build().unwrap();
}

/// Rules: J-12.
#[test]
fn handlers_without_one_enum_of_types_are_refused() {
    let router = || Router::new(Codecs::json());
    let says = "a handler of `types` has no argument that derives `MessageTypes`: add one";
    clash(router().types(async || {}).build(), BuildErrorKind::NoTypes, says);
    let says = "a handler takes both `Good` and `Other`, but a message has one type: take one of them";
    let both = router().types(async |_: Typed<Good>, _: Typed<Other>| {}).build();
    clash(both, BuildErrorKind::SeveralTypes, says);
    let says = "`Good` and `Elsewhere` read the type from different properties: use one";
    let both = router().types(async |_: Typed<Good>| {}).types(async |_: Typed<Elsewhere>| {}).build();
    clash(both, BuildErrorKind::SeveralProperties, says);
}
