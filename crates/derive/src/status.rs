//! Validates the type of the `status` field.

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{Attribute, DeriveInput, Error, Field, Meta, Result, Type};

/// Checks that the status type can represent a missing status, because the API server accepts
/// objects without a status.
pub(crate) fn check_status(input: &DeriveInput, status: &Field) -> Result<()> {
    if is_option(&status.ty) || has_default(&status.attrs) || has_default(&input.attrs) {
        return Ok(());
    }
    let found = status.ty.to_token_stream().to_string().replace(' ', "");
    let advice = format!("an object has no status before its operator sets it: write `status: Option<{found}>`");
    Err(Error::new_spanned(&status.ty, advice))
}

fn is_option(found: &Type) -> bool {
    match found {
        Type::Path(found) => found.path.segments.last().is_some_and(|last| last.ident == "Option"),
        // Look inside the group that surrounds a type from a `macro_rules!` macro.
        Type::Group(found) => is_option(&found.elem),
        Type::Paren(found) => is_option(&found.elem),
        _ => false,
    }
}

/// Returns `true` if serde uses a default for a missing field.
fn has_default(attributes: &[Attribute]) -> bool {
    let serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let mut words = serde.filter_map(|attribute| match &attribute.meta {
        Meta::List(list) => Some(list.tokens.clone()),
        _ => None,
    });
    words.any(|tokens| {
        let is_default = |token: TokenTree| {
            matches!(&token, TokenTree::Ident(word) if word == "default" || word == "skip" || word == "skip_deserializing")
        };
        tokens.into_iter().any(is_default)
    })
}
