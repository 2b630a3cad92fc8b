//! From an enum to the traits.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Data, DeriveInput, Error, Fields, Ident, LitInt, Result, Type, ext::IdentExt, parse_quote, spanned::Spanned,
};

use crate::attributes::{Attributes, From};

/// One type of message.
struct Typed<'a> {
    attributes: Attributes,
    holds: Holds<'a>,
}

/// Where the body is.
enum Holds<'a> {
    /// In a variant with one field.
    Field(&'a Ident, &'a Type),
    /// Nowhere: a variant without a field.
    Nothing(&'a Ident),
    /// It is the struct itself.
    Itself,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "an enum of types of messages has no parameters"));
    }
    let attributes = Attributes::read(&input.attrs)?;
    let (types, all) = match &input.data {
        Data::Enum(data) => {
            attributes.refuse(true, false, &input.ident)?;
            if data.variants.is_empty() {
                let text =
                    "an enum of message types without a type: add a variant with `#[message(\"order.created\")]`";
                return Err(Error::new(input.ident.span(), text));
            }
            let mut types = Vec::new();
            for variant in &data.variants {
                let of = Attributes::read(&variant.attrs)?;
                of.refuse(false, true, &variant.ident)?;
                if of.name.is_none() {
                    let text = "a name that the message travels under: `#[message(\"order.created\")]`";
                    return Err(Error::new(variant.ident.span(), text));
                }
                let holds = match &variant.fields {
                    Fields::Unit => Holds::Nothing(&variant.ident),
                    Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                        Holds::Field(&variant.ident, &fields.unnamed[0].ty)
                    }
                    _ => {
                        let text = "a variant holds one body or none: put its fields into a type of their own";
                        return Err(Error::new(variant.fields.span(), text));
                    }
                };
                types.push(Typed { attributes: of, holds });
            }
            (types, attributes)
        }
        Data::Struct(_) => {
            if attributes.name.is_none() {
                let text = "a name that the message travels under: `#[message(\"order.created\")]`";
                return Err(Error::new(input.ident.span(), text));
            }
            let all = Attributes::read(&input.attrs)?;
            (vec![Typed { attributes, holds: Holds::Itself }], all)
        }
        Data::Union(_) => return Err(Error::new(input.ident.span(), "a union is no message")),
    };
    for of in &types {
        if let (None, Some(from)) = (&of.attributes.version, of.attributes.from.first()) {
            let text = "`from` needs `version`: the version that the last step leads to";
            return Err(Error::new(from.version.span(), text));
        }
    }
    Ok(write(&input.ident, &all, &types))
}

fn write(name: &Ident, all: &Attributes, types: &[Typed<'_>]) -> TokenStream {
    let root = all.root.clone().unwrap_or_else(|| parse_quote!(::consign));
    let (is_received, is_sent) = (all.receive || !all.send, all.send || !all.receive);
    let table = table(&root, name, all, types);
    let mut written = quote! {
        #[automatically_derived]
        impl #root::message_types::MessageTypes for #name {
            const TYPES: #root::message_types::TypeTable = #table;
        }
    };
    if is_received {
        let reads = types.iter().enumerate().map(|(index, of)| {
            let value = of.read();
            quote! { #index => { #value } }
        });
        written.extend(quote! {
            #[automatically_derived]
            impl #root::message_types::ReceiveTypes for #name {
                fn read<__C: #root::codecs::CodecSet>(
                    index: usize,
                    incoming: &#root::message_types::Incoming<'_, __C>,
                ) -> ::core::result::Result<Self, #root::message_types::TypeError> {
                    match index {
                        #(#reads)*
                        _ => ::core::result::Result::Err(incoming.unknown()),
                    }
                }
            }

            #[automatically_derived]
            impl<__S, __C: #root::codecs::CodecSet> #root::routing::FromMessage<__S, __C> for #name {
                type Rejection = #root::message_types::TypeError;

                fn from_message(
                    message: &#root::Message,
                    cx: &#root::routing::Context<__S, __C>,
                ) -> ::core::result::Result<Self, #root::message_types::TypeError> {
                    #root::message_types::read(message, cx.codecs())
                }

                fn type_table() -> ::core::option::Option<&'static #root::message_types::TypeTable> {
                    ::core::option::Option::Some(const { &<Self as #root::message_types::MessageTypes>::TYPES })
                }
            }
        });
    }
    if is_sent {
        let indices = types.iter().enumerate().map(|(index, of)| {
            let pattern = of.pattern(false);
            quote! { #pattern => #index, }
        });
        let bodies = types.iter().map(|of| {
            let (pattern, body) = (of.pattern(true), of.body());
            quote! { #pattern => outlet.body(#body), }
        });
        written.extend(quote! {
            #[automatically_derived]
            impl #root::message_types::SendTypes for #name {
                fn index(&self) -> usize {
                    match *self {
                        #(#indices)*
                    }
                }

                fn write<__C: #root::codecs::CodecSet>(
                    &self,
                    outlet: &#root::message_types::Outlet<'_, __C>,
                ) -> ::core::result::Result<#root::codecs::Encoded, #root::codecs::EncodeError> {
                    match self {
                        #(#bodies)*
                    }
                }
            }
        });
    }
    written
}

fn table(root: &syn::Path, name: &Ident, all: &Attributes, types: &[Typed<'_>]) -> TokenStream {
    let shown = name.unraw().to_string();
    let rows = types.iter().map(|of| {
        let Attributes { name, aliases, codec, .. } = &of.attributes;
        let versions = of.versions();
        let versions = (!versions.is_empty()).then(|| quote! { .versions(&[#(#versions),*]) });
        let codec = codec.as_ref().map(|codec| quote! { .codec(#codec) });
        quote! { #root::message_types::MessageType::new(#name).aliases(&[#(#aliases),*]) #versions #codec }
    });
    let property = all.property.as_ref().map(|property| quote! { .by_property(#property) });
    let version = all.version_property.as_ref().map(|property| quote! { .version_property(#property) });
    quote! { #root::message_types::TypeTable::new(#shown, &[#(#rows),*]) #property #version }
}

impl Typed<'_> {
    fn versions(&self) -> Vec<&LitInt> {
        self.attributes.from.iter().map(|from| &from.version).chain(&self.attributes.version).collect()
    }

    /// Reads the value of the enum.
    fn read(&self) -> TokenStream {
        let newest: Type = match &self.holds {
            Holds::Field(_, body) => (*body).clone(),
            Holds::Nothing(_) => parse_quote!(()),
            Holds::Itself => parse_quote!(Self),
        };
        let mut steps: Option<TokenStream> = None;
        for From { version, body } in &self.attributes.from {
            steps = Some(match steps {
                None => quote_spanned! { body.span() => incoming.from_version::<#body>(#version)? },
                Some(steps) => quote_spanned! { body.span() => #steps.then::<#body>(#version)? },
            });
        }
        let version = &self.attributes.version;
        let body = match steps {
            None => quote_spanned! { newest.span() => incoming.body::<#newest>()? },
            Some(steps) => quote_spanned! { newest.span() => #steps.then::<#newest>(#version)?.finish()? },
        };
        let value = match &self.holds {
            Holds::Field(variant, _) => quote! { Self::#variant(#body) },
            Holds::Nothing(variant) => quote! { { let () = #body; Self::#variant } },
            Holds::Itself => body,
        };
        quote! { ::core::result::Result::Ok(#value) }
    }

    fn pattern(&self, is_bound: bool) -> TokenStream {
        match &self.holds {
            Holds::Field(variant, _) if is_bound => quote! { Self::#variant(body) },
            Holds::Field(variant, _) => quote! { Self::#variant(..) },
            Holds::Nothing(variant) => quote! { Self::#variant },
            Holds::Itself => quote! { _ },
        }
    }

    /// What is written of what the pattern binds.
    fn body(&self) -> TokenStream {
        match &self.holds {
            Holds::Field(..) => quote! { body },
            Holds::Nothing(_) => quote! { &() },
            Holds::Itself => quote! { self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_without_variants_is_an_error_that_says_to_add_a_type() {
        let error = expand(&parse_quote! { enum Event {} }).unwrap_err();
        assert!(error.to_string().contains("add a variant"), "{error}");
    }

    #[test]
    fn a_raw_name_is_shown_without_its_prefix() {
        let written = expand(&parse_quote! { #[message("order.created")] struct r#type; }).unwrap().to_string();
        assert!(written.contains("TypeTable :: new (\"type\""), "{written}");
    }
}
