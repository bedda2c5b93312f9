//! Generates the derive macro's code.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Result};

use crate::attributes::{Attributes, Column, Scale, is_kind};
use crate::plural::plural;
use crate::status::check_status;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let status = check_shape(input)?;
    let attributes = Attributes::read(input)?;
    let has_status = attributes.status.unwrap_or(status.is_some());
    if let Some(status) = status.filter(|_| has_status) {
        check_status(input, status)?;
    }
    let name = &input.ident;
    let kind = attributes.kind.as_ref().map_or_else(|| name.unraw().to_string(), LitStr::value);
    if !is_kind(&kind) {
        let span = attributes.kind.as_ref().map_or_else(|| name.span(), LitStr::span);
        let advice =
            "a kind has ASCII letters and digits and begins with a letter; set #[resource(kind = \"Website\")]";
        return Err(Error::new(span, advice));
    }
    let plural = attributes.plural.as_ref().map_or_else(|| plural(&kind), LitStr::value);
    let api_version = format!("{}/{}", attributes.group.value(), attributes.version.value());
    let scope = if attributes.cluster { quote!(Cluster) } else { quote!(Namespaced) };
    let root = &attributes.root;
    let declaration = declaration(&attributes, &kind, has_status);
    Ok(quote! {
        #root::__private::resource!(#name, #api_version, #kind, #plural, #scope);

        #[automatically_derived]
        impl #root::CustomResource for #name {
            const DECLARATION: #root::Declaration = #declaration;
        }
    })
}

/// Checks that the type is a struct with a `metadata` field, and returns its `status` field, if
/// any.
fn check_shape(input: &DeriveInput) -> Result<Option<&Field>> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a resource has no type parameters or lifetimes"));
    }
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => return Err(Error::new_spanned(&input.ident, "a resource is a struct with named fields")),
        },
        _ => return Err(Error::new_spanned(&input.ident, "a resource is a struct")),
    };
    let find = |name: &str| fields.iter().find(|field| field.ident.as_ref().is_some_and(|ident| ident == name));
    match find("metadata") {
        Some(_) => Ok(find("status")),
        None => Err(Error::new_spanned(&input.ident, "a resource has a field `metadata: ObjectMeta`")),
    }
}

fn declaration(attributes: &Attributes, kind: &str, has_status: bool) -> TokenStream {
    let root = &attributes.root;
    let singular = attributes.singular.as_ref().map_or_else(|| kind.to_lowercase(), LitStr::value);
    let (short_names, categories) = (&attributes.short_names, &attributes.categories);
    let scale = option(attributes.scale.as_ref().map(|scale| scale_of(root, scale)));
    let columns = attributes.columns.iter().map(|column| column_of(root, column));
    let selectable = &attributes.selectable;
    let rules = attributes.rules.iter().map(|(rule, message)| {
        let message = option(message.as_ref());
        quote!((#rule, #message))
    });
    let is_deprecated = attributes.deprecated.is_some();
    let warning = option(attributes.deprecated.as_ref().and_then(Option::as_ref));
    let (served, stored) = (attributes.served, attributes.stored);
    quote! {
        #root::Declaration {
            singular: #singular,
            short_names: &[#(#short_names),*],
            categories: &[#(#categories),*],
            has_status: #has_status,
            scale: #scale,
            columns: &[#(#columns),*],
            selectable_fields: &[#(#selectable),*],
            rules: &[#(#rules),*],
            is_deprecated: #is_deprecated,
            deprecation_warning: #warning,
            is_served: #served,
            is_stored: #stored,
            package_version: ::core::option_env!("CARGO_PKG_VERSION"),
        }
    }
}

fn scale_of(root: &syn::Path, scale: &Scale) -> TokenStream {
    let Scale { spec, status, selector } = scale;
    let selector = option(selector.as_ref());
    quote!(#root::Scale { spec_replicas: #spec, status_replicas: #status, label_selector: #selector })
}

fn column_of(root: &syn::Path, column: &Column) -> TokenStream {
    let Column { name, path, column_type, format, description, priority } = column;
    let (column_type, format, description) =
        (option(column_type.as_ref()), option(format.as_ref()), option(description.as_ref()));
    let priority = priority.as_ref().map_or_else(|| quote!(0), ToTokens::to_token_stream);
    quote! {
        #root::Column {
            name: #name,
            json_path: #path,
            column_type: #column_type,
            format: #format,
            description: #description,
            priority: #priority,
        }
    }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::expand;

    const VERSIONED: &str = "group = \"e.com\", version = \"v1\"";

    #[test]
    fn derive_error_names_the_fix() {
        let body = "struct A { metadata: ObjectMeta }";
        for (input, expected) in [
            (body.to_owned(), "`group` is missing: add #[resource(group = \"example.com\")]"),
            (
                format!("#[resource(group = \"e.com\")] {body}"),
                "`version` is missing: add #[resource(version = \"v1\")]",
            ),
            (format!("#[resource(group = \"e\", version = \"v1\")] {body}"), "a group is a DNS name"),
            (format!("#[resource(group = \"e.com\", version = \"V1\")] {body}"), "a version is a DNS label"),
            (
                format!("#[resource(colour = 1)] {body}"),
                "unknown attribute `colour`; the attributes are group, version",
            ),
            (format!("#[resource(column(\"A\", \".b\", kind = 1))] {body}"), "a column has `type`, `format`"),
            (
                format!("#[resource(column(\"A\"))] {body}"),
                "a column begins with a name and a JSON path: write column(\"URL\", \".status.url\")",
            ),
            (format!("#[resource(column = \"A\")] {body}"), "a column has a name and a JSON path in parentheses"),
            (format!("#[resource(column(name = \"A\"))] {body}"), "a column begins with a name and a JSON path"),
            (format!("#[resource(column(\"A\", \"spec.a\"))] {body}"), "the JSON path of a column begins with a dot"),
            (format!("#[resource(short = \"ws\")] {body}"), "`short` has texts in parentheses: write short(\"…\")"),
            (format!("#[resource(short(ws))] {body}"), "`short` has texts in parentheses: write short(\"…\")"),
            (format!("#[resource(short_name = \"ws\")] {body}"), "unknown attribute `short_name`; write short(\"ws\")"),
            (format!("#[resource(shortname = \"ws\")] {body}"), "unknown attribute `shortname`; write short(\"ws\")"),
            (format!("#[resource(printcolumn = \"{{}}\")] {body}"), "unknown attribute `printcolumn`; write column("),
            (
                format!("#[resource(namespaced)] {body}"),
                "unknown attribute `namespaced`; a resource is namespaced unless",
            ),
            (format!("#[resource(group(\"e.com\"))] {body}"), "`group` has a text: write group = \"…\""),
            (format!("#[resource(version = 1)] {body}"), "`version` has a text: write version = \"…\""),
            (
                format!("#[resource(status = \"Status\")] {body}"),
                "`status` is true or false: write status = false; the type",
            ),
            (format!("#[resource(cluster = 1)] {body}"), "`cluster` is true or false"),
            (format!("#[resource(scale = \".spec.n\")] {body}"), "`scale` has JSON paths in parentheses: write scale("),
            (format!("#[resource] {body}"), "write #[resource(group = \"example.com\", version = \"v1\")]"),
            (format!("#[resource = \"v1\"] {body}"), "write #[resource(group = \"example.com\", version = \"v1\")]"),
            (format!("#[resource(scale(spec = \".spec.n\"))] {body}"), "`scale` needs `spec` and `status`"),
            (format!("#[resource(rule())] {body}"), "a rule needs a CEL expression"),
            (
                format!("#[resource(group = \"e.com\", version = \"v1\", short(\"WS\"))] {body}"),
                "a name for kubectl is a DNS label",
            ),
            (
                format!("#[resource(group = \"e.com\", version = \"v1\", kind = \"web site\")] {body}"),
                "a kind has ASCII letters and digits",
            ),
            (
                "#[resource(group = \"e.com\", version = \"v1\")] struct A_B { metadata: ObjectMeta }".to_owned(),
                "a kind has ASCII letters and digits",
            ),
            (format!("#[resource(rule(\"a\", \"b\", \"c\"))] {body}"), "a rule has a CEL expression and a message"),
            ("struct A { spec: u32 }".to_owned(), "a resource has a field `metadata: ObjectMeta`"),
            (
                format!("#[resource({VERSIONED})] struct A {{ metadata: ObjectMeta, status: crate::Status }}"),
                "an object has no status before its operator sets it: write `status: Option<crate::Status>`",
            ),
            (
                format!(
                    "#[resource({VERSIONED})] struct A {{ metadata: ObjectMeta, #[serde(flatten)] status: Vec<u8> }}"
                ),
                "an object has no status before its operator sets it: write `status: Option<Vec<u8>>`",
            ),
            ("struct A(u32);".to_owned(), "a resource is a struct with named fields"),
            ("enum A { B }".to_owned(), "a resource is a struct"),
            ("struct A<T> { metadata: T }".to_owned(), "a resource has no type parameters"),
        ] {
            let parsed = parse_str(&input).expect("Rust");
            let error = expand(&parsed).expect_err(&input).to_string();
            assert!(error.starts_with(expected), "{input}: {error}");
        }
    }

    #[test]
    fn status_that_can_be_absent_is_accepted() {
        for (attributes, status) in [
            ("", "status: Option<Status>"),
            ("", "status: std::option::Option<Status>"),
            ("", "#[serde(default)] status: Status"),
            ("", "#[serde(rename = \"status\", default = \"empty\")] status: Status"),
            ("#[serde(rename_all = \"camelCase\", default)]", "status: Status"),
            ("#[resource(status = false)]", "status: Status"),
        ] {
            let input = format!("{attributes} #[resource({VERSIONED})] struct A {{ metadata: ObjectMeta, {status} }}");
            expand(&parse_str(&input).expect("Rust")).expect(&input);
        }
    }

    #[test]
    fn path_of_the_facade_is_the_default() {
        let parsed = parse_str("#[resource(group = \"e.com\", version = \"v1\")] struct A { metadata: M }");
        let expanded = expand(&parsed.expect("Rust")).expect("a resource").to_string();
        assert!(expanded.contains(":: pintle :: crd :: CustomResource for A"), "{expanded}");
        assert!(expanded.contains("\"e.com/v1\" , \"A\" , \"as\" , Namespaced"), "{expanded}");
    }
}
