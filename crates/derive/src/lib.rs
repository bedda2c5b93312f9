//! The derive macro for custom resources.
//!
//! Use this macro through the `pintle-crd` or `pintle` crate. The documentation of `pintle-crd` describes the
//! attributes of the macro.
//!
//! - [`macro@Resource`] implements `Object`, `Resource` and `CustomResource`.

mod attributes;
mod expand;
mod plural;
mod status;
mod stubs;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Object`, `Resource` and `CustomResource` for a struct with a `metadata` field.
///
/// The documentation of `pintle-crd` describes the attributes and contains an example.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input);
    expanded.unwrap_or_else(|error| [error.into_compile_error(), stubs::stubs(&input)].into_iter().collect()).into()
}
