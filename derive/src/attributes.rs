//! What stands in `#[message(..)]`.

use syn::{
    Attribute, Error, Ident, LitInt, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
};

/// All that may stand there, on an enum, a variant or a struct.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) from: Vec<From>,
    pub(crate) codec: Option<LitStr>,
    pub(crate) property: Option<LitStr>,
    pub(crate) version_property: Option<LitStr>,
    pub(crate) receive: bool,
    pub(crate) send: bool,
    pub(crate) root: Option<Path>,
}

/// A version before the newest.
pub(crate) struct From {
    pub(crate) version: LitInt,
    pub(crate) body: Type,
}

enum Item {
    Name(LitStr),
    Alias(LitStr),
    Version(LitInt),
    From(Vec<From>),
    Codec(LitStr),
    Property(LitStr),
    VersionProperty(LitStr),
    Receive,
    Send,
    Root(Path),
}

impl Attributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("message")) {
            let items = attribute.parse_args_with(Punctuated::<Item, Token![,]>::parse_terminated)?;
            for item in items {
                read.take(item, attribute)?;
            }
        }
        Ok(read)
    }

    fn take(&mut self, item: Item, at: &Attribute) -> Result<()> {
        let once = |is_there: bool, what: &str| {
            if is_there { Err(Error::new(at.span(), format!("{what} stands here twice"))) } else { Ok(()) }
        };
        match item {
            Item::Name(name) => {
                once(self.name.is_some(), "the name")?;
                self.name = Some(name);
            }
            Item::Alias(alias) => self.aliases.push(alias),
            Item::Version(version) => {
                once(self.version.is_some(), "`version`")?;
                self.version = Some(version);
            }
            Item::From(from) => {
                once(!self.from.is_empty(), "`from`")?;
                self.from = from;
            }
            Item::Codec(codec) => {
                once(self.codec.is_some(), "`codec`")?;
                self.codec = Some(codec);
            }
            Item::Property(property) => {
                once(self.property.is_some(), "`property`")?;
                self.property = Some(property);
            }
            Item::VersionProperty(property) => {
                once(self.version_property.is_some(), "`version_property`")?;
                self.version_property = Some(property);
            }
            Item::Receive => self.receive = true,
            Item::Send => self.send = true,
            Item::Root(root) => {
                once(self.root.is_some(), "`crate`")?;
                self.root = Some(root);
            }
        }
        Ok(())
    }

    /// Refuses on a variant what belongs on its enum, and the other way round.
    pub(crate) fn refuse(&self, of_type: bool, of_enum: bool, at: &impl Spanned) -> Result<()> {
        let has_type = self.name.is_some()
            || !self.aliases.is_empty()
            || self.version.is_some()
            || !self.from.is_empty()
            || self.codec.is_some();
        if of_type && has_type {
            return Err(Error::new(at.span(), "a name, an alias, a version and a codec stand on a variant"));
        }
        let has_enum = self.property.is_some() || self.version_property.is_some() || self.root.is_some();
        if of_enum && (has_enum || self.receive || self.send) {
            return Err(Error::new(at.span(), "`property`, `receive`, `send` and `crate` stand on the enum"));
        }
        Ok(())
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Name(input.parse()?));
        }
        let key = input.call(Ident::parse_any)?;
        let text = || -> Result<LitStr> {
            input.parse::<Token![=]>()?;
            input.parse()
        };
        match key.to_string().as_str() {
            "alias" => Ok(Self::Alias(text()?)),
            "codec" => Ok(Self::Codec(text()?)),
            "property" => Ok(Self::Property(text()?)),
            "version_property" => Ok(Self::VersionProperty(text()?)),
            "crate" => Ok(Self::Root(text()?.parse()?)),
            "receive" => Ok(Self::Receive),
            "send" => Ok(Self::Send),
            "version" => {
                input.parse::<Token![=]>()?;
                Ok(Self::Version(input.parse()?))
            }
            "from" => {
                let steps;
                parenthesized!(steps in input);
                let steps = Punctuated::<From, Token![,]>::parse_terminated(&steps)?;
                if steps.is_empty() {
                    return Err(Error::new(key.span(), "`from` names no version: `from(1 = CreatedV1)`"));
                }
                Ok(Self::From(steps.into_iter().collect()))
            }
            _ => Err(Error::new(
                key.span(),
                "one of a name in quotes, `alias`, `version`, `from`, `codec`, `property`, `version_property`, `receive`, \
                 `send`, `crate`",
            )),
        }
    }
}

impl Parse for From {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let version = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { version, body: input.parse()? })
    }
}
