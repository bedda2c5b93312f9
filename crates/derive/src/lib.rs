//! The derive macro `Resource`. Use it through `pintle_crd::Resource` or `pintle::crd::Resource`, which have the documentation.

mod attributes;
mod expand;
mod plural;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Object`, `Resource` and `CustomResource` for a struct with the fields `metadata`, `spec` and `status`.
///
/// The page of `pintle-crd` has the attributes and an example.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
