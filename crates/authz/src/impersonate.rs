//! Impersonation: parses the impersonation headers and checks the permissions to impersonate.

use http::{HeaderMap, HeaderValue};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::{ServiceAccountName, User};
use pintle_apimachinery::validate::{NameRule, name_errors};

use super::attributes::Attributes;
use super::authorize::{Decision, decide, forbidden};
use super::authorizer::Rbac;

const IMPERSONATE_USER: &str = "impersonate-user";
const IMPERSONATE_UID: &str = "impersonate-uid";
const IMPERSONATE_GROUP: &str = "impersonate-group";
const IMPERSONATE_EXTRA: &str = "impersonate-extra-";

/// Returns the user in the impersonation headers, or `None` if there are no such headers. The order of the headers does
/// not matter.
///
/// Invalid UTF-8 in a header is replaced instead of ignored, because otherwise the request would run with the client's
/// own permissions.
///
/// # Errors
///
/// Returns a 400 error if the request has other impersonation headers but no user name.
pub fn impersonated(headers: &HeaderMap) -> Outcome<Option<User>> {
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let groups = headers.get_all(IMPERSONATE_GROUP).iter().map(text).collect();
    let mut wanted = User { name: first(IMPERSONATE_USER), uid: first(IMPERSONATE_UID), groups, ..User::default() };
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix(IMPERSONATE_EXTRA) {
            wanted.extra.entry(extra_key(key)).or_default().push(text(value));
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == User::default() {
        Ok(None)
    } else {
        let why = format!("requested {} without impersonating a user name", go_text(&wanted));
        Err(Failure { early: true, ..Failure::bad_request(why) })
    }
}

/// Formats a user as Go prints a user.
fn go_text(user: &User) -> String {
    let list = |values: &[String]| match values {
        [] => "[]string(nil)".to_owned(),
        values => {
            format!("[]string{{{}}}", values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", "))
        }
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries = user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values)));
        format!("map[string][]string{{{}}}", entries.collect::<Vec<_>>().join(", "))
    };
    let User { name, uid, groups, .. } = user;
    format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{}, Extra:{extra}}}", list(groups))
}

/// Returns the impersonated user with the implied groups added. `user` needs a separate permission for each part of
/// `wanted`: the name, the uid, every group and every extra value.
pub fn impersonate(rbac: Rbac<'_>, user: &User, mut wanted: User, attributes: &Attributes<'_>) -> Outcome<User> {
    for path in parts(&wanted) {
        let right = Attributes::Resource { verb: "impersonate", path: &path, name: &path.name };
        match decide(rbac, user, &right) {
            Decision::Allowed(_) => (),
            Decision::NoOpinion(error) => return Err(refusal(rbac, user, &wanted, &right, attributes, error)),
        }
    }
    if let Some(account) = ServiceAccountName::of(&wanted)
        && wanted.groups.is_empty()
    {
        wanted.groups = account.groups().into();
    }
    Ok(wanted.with_implied_group())
}

/// Returns the resources on which the user needs the verb `impersonate`, one for each part of the impersonated user.
fn parts(wanted: &User) -> Vec<ResourcePath> {
    let right = |group: &str, resource: &str, name: &str| ResourcePath {
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        name: name.into(),
        ..ResourcePath::default()
    };
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let mut parts = vec![match ServiceAccountName::of(wanted) {
        Some(account) => {
            ResourcePath { namespace: account.namespace.into(), ..right("", "serviceaccounts", account.name) }
        }
        None => right("", "users", &wanted.name),
    }];
    if !wanted.uid.is_empty() {
        parts.push(right(AUTHENTICATION, "uids", &wanted.uid));
    }
    parts.extend(wanted.groups.iter().map(|group| right("", "groups", group)));
    for (key, values) in &wanted.extra {
        let extra =
            |value: &String| ResourcePath { subresource: key.clone(), ..right(AUTHENTICATION, "userextras", value) };
        parts.extend(values.iter().map(extra));
    }
    parts
}

/// Returns kube-apiserver's error for a rejected impersonation. If the caller has some permission to impersonate, the
/// error names the missing permission. For a caller without any permission to impersonate, the error names the verb
/// `impersonate-on:…`.
fn refusal(
    rbac: Rbac<'_>,
    user: &User,
    wanted: &User,
    right: &Attributes<'_>,
    attributes: &Attributes<'_>,
    error: Option<String>,
) -> Failure {
    let namespace = ServiceAccountName::of(wanted).map_or("", |account| account.namespace);
    let granted = rbac.granted(user, namespace);
    let impersonates = granted.rules().any(|rule| rule.verbs.iter().any(|verb| &**verb == "impersonate"));
    let Some(mode) = mode(wanted).filter(|_| !impersonates) else { return forbidden(user, right, error) };
    let on_behalf = |verb: &str| format!("impersonate-on:{mode}:{verb}");
    match attributes {
        Attributes::Resource { verb, path, name } => {
            forbidden(user, &Attributes::Resource { verb: &on_behalf(verb), path, name }, error)
        }
        Attributes::Path { verb, path } => forbidden(user, &Attributes::Path { verb: &on_behalf(verb), path }, error),
    }
}

/// Returns the mode of constrained impersonation that kube-apiserver uses for the impersonated user, if any. Nodes and
/// service accounts have a mode only if the request impersonates no uid, groups or extra values.
fn mode(wanted: &User) -> Option<&'static str> {
    let bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let node = wanted.name.strip_prefix("system:node:");
    if node.is_some_and(|name| name_errors(NameRule::Subdomain, name, false).is_empty()) {
        return bare.then_some("arbitrary-node");
    }
    match ServiceAccountName::of(wanted) {
        Some(_) => bare.then_some("serviceaccount"),
        None => Some("user-info"),
    }
}

/// Decodes the percent-encoded key of an extra header. Returns a key with an invalid escape sequence unchanged.
fn extra_key(encoded: &str) -> String {
    let mut escapes = encoded.split('%').skip(1);
    let is_escape = |text: &str| text.len() >= 2 && text.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    if !escapes.all(is_escape) {
        return encoded.to_owned();
    }
    percent_encoding::percent_decode_str(encoded).decode_utf8_lossy().into_owned()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn extra_key_is_decoded_unless_an_escape_is_invalid() {
        for (header, key) in [
            ("impersonate-extra-scopes", "scopes"),
            ("impersonate-extra-e.com%2fteam", "e.com/team"),
            ("impersonate-extra-%41", "A"),
            ("impersonate-extra-%c3%bc", "ü"),
            ("impersonate-extra-%41%zz", "%41%zz"),
            ("impersonate-extra-a%4", "a%4"),
            ("impersonate-extra-", ""),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IMPERSONATE_USER, HeaderValue::from_static("x"));
            headers.insert(http::HeaderName::from_static(header), HeaderValue::from_static("v"));
            let wanted = impersonated(&headers).ok().flatten().expect("a user");
            assert_eq!(wanted.extra, BTreeMap::from([(key.to_owned(), vec!["v".to_owned()])]));
        }
    }

    #[test]
    fn node_and_account_modes_need_a_bare_name() {
        let user = |name: &str, groups: &[&str]| User {
            name: name.into(),
            groups: groups.iter().copied().map(Into::into).collect(),
            ..User::default()
        };
        for (name, alone, in_a_group) in [
            ("x", Some("user-info"), Some("user-info")),
            ("system:node:n", Some("arbitrary-node"), None),
            ("system:node:N", Some("user-info"), Some("user-info")),
            ("system:serviceaccount:n:a", Some("serviceaccount"), None),
            ("system:serviceaccount:n:a:b", Some("user-info"), Some("user-info")),
        ] {
            assert_eq!(mode(&user(name, &[])), alone, "{name}");
            assert_eq!(mode(&user(name, &["g"])), in_a_group, "{name}");
        }
    }
}
