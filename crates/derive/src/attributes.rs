//! `#[resource(…)]` attributes.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::token::Paren;
use syn::{DeriveInput, Error, Ident, LitBool, LitInt, LitStr, Meta, Path, Result, Token, parenthesized, parse_quote};

pub(crate) struct Attributes {
    pub(crate) group: LitStr,
    pub(crate) version: LitStr,
    pub(crate) kind: Option<LitStr>,
    pub(crate) plural: Option<LitStr>,
    pub(crate) singular: Option<LitStr>,
    pub(crate) short_names: Vec<LitStr>,
    pub(crate) categories: Vec<LitStr>,
    pub(crate) cluster: bool,
    pub(crate) status: Option<bool>,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<LitStr>,
    pub(crate) rules: Vec<(LitStr, Option<LitStr>)>,
    pub(crate) deprecated: Option<Option<LitStr>>,
    pub(crate) served: bool,
    pub(crate) stored: bool,
    pub(crate) root: Path,
}

pub(crate) struct Scale {
    pub(crate) spec: LitStr,
    pub(crate) status: LitStr,
    pub(crate) selector: Option<LitStr>,
}

pub(crate) struct Column {
    pub(crate) name: LitStr,
    pub(crate) path: LitStr,
    pub(crate) column_type: Option<LitStr>,
    pub(crate) format: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) priority: Option<LitInt>,
}

/// The attributes read so far, of which the required `group` and `version` may still be missing.
struct Found {
    group: Option<LitStr>,
    version: Option<LitStr>,
    rest: Attributes,
}

impl Attributes {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let empty = LitStr::new("", Span::call_site());
        let rest = Self {
            group: empty.clone(),
            version: empty,
            kind: None,
            plural: None,
            singular: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            cluster: false,
            status: None,
            scale: None,
            columns: Vec::new(),
            selectable: Vec::new(),
            rules: Vec::new(),
            deprecated: None,
            served: true,
            stored: true,
            root: parse_quote!(::pintle::crd),
        };
        let mut found = Found { group: None, version: None, rest };
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")) {
            if !matches!(attribute.meta, Meta::List(_)) {
                let advice = "write #[resource(group = \"example.com\", version = \"v1\")]";
                return Err(Error::new_spanned(attribute, advice));
            }
            attribute.parse_nested_meta(|meta| found.add(&meta))?;
        }
        let missing = |name: &str, example: &str| {
            let why = format!("`{name}` is missing: add #[resource({name} = {example:?})]");
            Error::new_spanned(&input.ident, why)
        };
        let group = found.group.ok_or_else(|| missing("group", "example.com"))?;
        let version = found.version.ok_or_else(|| missing("version", "v1"))?;
        let names = found.rest.plural.iter().chain(&found.rest.singular).chain(&found.rest.short_names);
        for name in names.chain(&found.rest.categories) {
            if !is_label(&name.value()) {
                return Err(Error::new(name.span(), "a name for kubectl is a DNS label, such as \"websites\""));
            }
        }
        Ok(Self { group: checked_group(group)?, version: checked_version(version)?, ..found.rest })
    }
}

impl Found {
    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(name) = meta.path.get_ident().map(Ident::to_string) else {
            return Err(meta.error("expected the name of an attribute"));
        };
        let rest = &mut self.rest;
        match name.as_str() {
            "group" => self.group = Some(text(meta)?),
            "version" => self.version = Some(text(meta)?),
            "kind" => rest.kind = Some(text(meta)?),
            "plural" => rest.plural = Some(text(meta)?),
            "singular" => rest.singular = Some(text(meta)?),
            "short" => rest.short_names.extend(texts(meta)?),
            "category" => rest.categories.extend(texts(meta)?),
            "cluster" => rest.cluster = flag(meta)?,
            "status" => rest.status = Some(flag(meta)?),
            "scale" => rest.scale = Some(scale(meta)?),
            "column" => rest.columns.push(column(meta)?),
            "selectable" => rest.selectable.extend(texts(meta)?),
            "rule" => {
                let mut given = texts(meta)?.into_iter();
                let rule = given.next().ok_or_else(|| meta.error("a rule needs a CEL expression"))?;
                rest.rules.push((rule, given.next()));
                if let Some(extra) = given.next() {
                    return Err(Error::new(extra.span(), "a rule has a CEL expression and a message"));
                }
            }
            "deprecated" => {
                rest.deprecated = Some(if meta.input.peek(Token![=]) { Some(text(meta)?) } else { None });
            }
            "served" => rest.served = flag(meta)?,
            "stored" => rest.stored = flag(meta)?,
            "crate" => rest.root = meta.value()?.call(Path::parse_mod_style)?,
            _ => return Err(meta.error(unknown(&name))),
        }
        Ok(())
    }
}

fn unknown(name: &str) -> String {
    let attribute = match name {
        "short_name" | "short_names" | "shortname" | "shortnames" => "short(\"ws\")",
        "categories" => "category(\"all\")",
        "columns" | "print_column" | "printcolumn" | "printer_column" => "column(\"URL\", \".status.url\")",
        "rules" | "validation" | "validations" => "rule(\"self.spec.replicas < 9\", \"too many\")",
        "selectable_field" | "selectable_fields" => "selectable(\".spec.domain\")",
        "storage" => "stored = false",
        "name" => "kind = \"Website\"",
        "scope" | "namespaced" => {
            return format!("unknown attribute `{name}`; a resource is namespaced unless you write `cluster`");
        }
        "derive" | "schema" => {
            return format!(
                "unknown attribute `{name}`; add #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)] to the struct"
            );
        }
        _ => "",
    };
    if !attribute.is_empty() {
        return format!("unknown attribute `{name}`; write {attribute}");
    }
    format!(
        "unknown attribute `{name}`; the attributes are group, version, kind, plural, singular, short, category, \
         cluster, status, scale, column, selectable, rule, deprecated, served, stored and crate"
    )
}

fn name_of(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(Ident::to_string).unwrap_or_default()
}

/// Parses `name = "text"`.
fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let value = meta.value().and_then(|value| value.parse());
    value.map_err(|error| Error::new(error.span(), format!("`{0}` has a text: write {0} = \"…\"", name_of(meta))))
}

/// Parses `name = true` or the short form `name`.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    let value = meta.value().and_then(|value| value.parse::<LitBool>());
    let advice = |error: Error| {
        let name = name_of(meta);
        let status = match name.as_str() {
            "status" => "; the type of the status is the type of the field `status` of the struct",
            _ => "",
        };
        Error::new(error.span(), format!("`{name}` is true or false: write {name} = false{status}"))
    };
    Ok(value.map_err(advice)?.value)
}

/// Parses `name("a", "b")`.
fn texts(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let parse = || {
        let content;
        parenthesized!(content in meta.input);
        Punctuated::<LitStr, Token![,]>::parse_terminated(&content)
    };
    let advice = |error: Error| {
        Error::new(error.span(), format!("`{0}` has texts in parentheses: write {0}(\"…\")", name_of(meta)))
    };
    Ok(parse().map_err(advice)?.into_iter().collect())
}

/// Parses `scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector")`.
fn scale(meta: &ParseNestedMeta<'_>) -> Result<Scale> {
    const EXAMPLE: &str = "scale(spec = \".spec.replicas\", status = \".status.replicas\")";
    let (mut spec, mut status, mut selector) = (None, None, None);
    if !meta.input.peek(Paren) {
        return Err(meta.error(format!("`scale` has JSON paths in parentheses: write {EXAMPLE}")));
    }
    meta.parse_nested_meta(|meta| {
        let field = match () {
            () if meta.path.is_ident("spec") => &mut spec,
            () if meta.path.is_ident("status") => &mut status,
            () if meta.path.is_ident("selector") => &mut selector,
            () => return Err(meta.error("`scale` has `spec`, `status` and `selector`")),
        };
        *field = Some(text(&meta)?);
        Ok(())
    })?;
    match (spec, status) {
        (Some(spec), Some(status)) => Ok(Scale { spec, status, selector }),
        _ => Err(meta.error(format!("`scale` needs `spec` and `status`, such as {EXAMPLE}"))),
    }
}

const COLUMN: &str = "column(\"URL\", \".status.url\")";

/// Parses `column("Name", ".path", type = "string", format = "date", description = "…", priority = 1)`.
fn column(meta: &ParseNestedMeta<'_>) -> Result<Column> {
    let content;
    if !meta.input.peek(Paren) {
        return Err(meta.error(format!("a column has a name and a JSON path in parentheses: write {COLUMN}")));
    }
    parenthesized!(content in meta.input);
    let advice =
        |error: Error| Error::new(error.span(), format!("a column begins with a name and a JSON path: write {COLUMN}"));
    let name = content.parse().map_err(advice)?;
    content.parse::<Token![,]>().map_err(advice)?;
    let path: LitStr = content.parse().map_err(advice)?;
    if !path.value().starts_with(['.', '[']) {
        return Err(Error::new(path.span(), format!("the JSON path of a column begins with a dot: write {COLUMN}")));
    }
    let mut column = Column { name, path, column_type: None, format: None, description: None, priority: None };
    while !content.is_empty() {
        content.parse::<Token![,]>()?;
        if content.is_empty() {
            break;
        }
        column_option(&content, &mut column)?;
    }
    Ok(column)
}

fn column_option(content: ParseStream<'_>, column: &mut Column) -> Result<()> {
    use syn::ext::IdentExt;
    let name = content.call(Ident::parse_any)?;
    content.parse::<Token![=]>()?;
    match name.to_string().as_str() {
        "type" => column.column_type = Some(content.parse()?),
        "format" => column.format = Some(content.parse()?),
        "description" => column.description = Some(content.parse()?),
        "priority" => column.priority = Some(content.parse()?),
        _ => return Err(Error::new(name.span(), "a column has `type`, `format`, `description` and `priority`")),
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !label.is_empty() && label.bytes().all(letters) && !label.starts_with('-') && !label.ends_with('-')
}

/// Returns `true` if the API server accepts `kind` as the name of a kind. In lower case, the name must be a DNS label
/// that begins with a letter.
pub(crate) fn is_kind(kind: &str) -> bool {
    let label = kind.to_lowercase();
    is_label(&label) && label.len() <= 63 && label.starts_with(|first: char| first.is_ascii_lowercase())
}

fn checked_group(group: LitStr) -> Result<LitStr> {
    let text = group.value();
    if text.contains('.') && text.split('.').all(is_label) {
        Ok(group)
    } else {
        Err(Error::new(group.span(), "a group is a DNS name in lower case, such as \"example.com\""))
    }
}

fn checked_version(version: LitStr) -> Result<LitStr> {
    let text = version.value();
    if is_label(&text) && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        Ok(version)
    } else {
        Err(Error::new(version.span(), "a version is a DNS label, such as \"v1\" or \"v1alpha1\""))
    }
}
