//! Stub implementations for a struct with invalid attributes.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::{DeriveInput, Meta, Path, parse_quote, parse2};

/// Returns stub implementations of the derived traits. Without the stubs, the compiler would report an error at
/// each use of the type. Errors at each use would hide the error about the attribute.
pub(crate) fn stubs(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() {
        return TokenStream::new();
    }
    let (name, root) = (&input.ident, root(input));
    let is_cluster = words(input).any(|word| matches!(word, TokenTree::Ident(word) if word == "cluster"));
    let scope = if is_cluster { quote!(ClusterScope) } else { quote!(NamespaceScope) };
    quote! {
        #[automatically_derived]
        impl #root::__private::Object for #name {
            fn metadata(&self) -> &dyn #root::__private::Metadata {
                ::core::unreachable!()
            }
        }

        #[automatically_derived]
        impl #root::__private::Resource for #name {
            type Scope = #root::__private::#scope;
            const API_VERSION: &'static str = "v1";
            const KIND: &'static str = "";
            const PLURAL: &'static str = "";
        }

        #[automatically_derived]
        impl #root::CustomResource for #name {
            const DECLARATION: #root::Declaration = #root::__private::NO_DECLARATION;
        }
    }
}

/// Returns the path from the `crate` attribute, even if other attributes are invalid.
fn root(input: &DeriveInput) -> Path {
    let mut words = words(input).skip_while(|word| !matches!(word, TokenTree::Ident(word) if word == "crate")).skip(2);
    let path = words.by_ref().take_while(|word| !matches!(word, TokenTree::Punct(mark) if mark.as_char() == ','));
    parse2(path.collect()).unwrap_or_else(|_| parse_quote!(::pintle::crd))
}

fn words(input: &DeriveInput) -> impl Iterator<Item = TokenTree> {
    let attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource"));
    attributes.flat_map(|attribute| match &attribute.meta {
        Meta::List(list) => list.tokens.clone().into_iter().chain([comma()]).collect(),
        _ => Vec::new(),
    })
}

fn comma() -> TokenTree {
    TokenTree::Punct(proc_macro2::Punct::new(',', proc_macro2::Spacing::Alone))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::parse_str;

    use super::*;

    #[test]
    fn wrong_attributes_leave_the_traits_implemented() {
        for (attributes, root, scope) in [
            ("#[resource(colour = 1)]", ":: pintle :: crd", "NamespaceScope"),
            ("#[resource(colour = 1, crate = my::crd)]", "my :: crd", "NamespaceScope"),
            ("#[resource(crate = my::crd)] #[resource(cluster, colour)]", "my :: crd", "ClusterScope"),
            ("#[resource]", ":: pintle :: crd", "NamespaceScope"),
        ] {
            let input: DeriveInput = parse_str(&format!("{attributes} struct A {{ spec: Spec }}")).expect("Rust");
            assert_eq!(self::root(&input).to_token_stream().to_string(), root, "{attributes}");
            let stubs = stubs(&input).to_string();
            for part in ["__private :: Object", "__private :: Resource", "CustomResource"] {
                assert!(stubs.contains(&format!("impl {root} :: {part} for A")), "{attributes}: {stubs}");
            }
            assert!(stubs.contains(&format!("type Scope = {root} :: __private :: {scope}")), "{attributes}: {stubs}");
        }
        let generic = parse_str("struct A<T> { metadata: T }").expect("Rust");
        assert!(stubs(&generic).is_empty(), "the traits require more of `T`");
    }
}
