//! The approval annotation, which definitions in API groups of the Kubernetes project must have. The value of the
//! annotation is the URL of an API review, or the reason why there was no review.

use std::mem::discriminant;

use pintle_apimachinery::validate::FieldError;
use pintle_json::Json;

pub(super) const APPROVAL_CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";
const APPROVAL: &str = "metadata.annotations[api-approved.kubernetes.io]";
const APPROVAL_RULES: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

enum Approval<'a> {
    Missing,
    Invalid(&'a str),
    Unapproved(&'a str),
    Approved(&'a str),
}

impl<'a> Approval<'a> {
    fn of(definition: &'a Json) -> Self {
        match definition.text("/metadata/annotations/api-approved.kubernetes.io") {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Unapproved(text),
            text if is_url(text) => Self::Approved(text),
            text => Self::Invalid(text),
        }
    }
}

/// Returns an error if a required approval annotation is missing or invalid. An update may leave a missing annotation
/// missing, or replace an invalid annotation with another invalid one.
pub(super) fn error(definition: &Json, old: Option<&Json>) -> Option<FieldError> {
    if !is_protected(definition.text("/spec/group")) {
        return None;
    }
    let approval = Approval::of(definition);
    if old.is_some_and(|old| discriminant(&Approval::of(old)) == discriminant(&approval)) {
        return None;
    }
    let needed = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    match approval {
        Approval::Missing => Some(FieldError::required(APPROVAL, &format!("{needed}, {APPROVAL_RULES}"))),
        Approval::Invalid(text) => {
            let why = format!("{needed} with either a URL or a reason starting with \"unapproved\", {APPROVAL_RULES}");
            Some(FieldError::invalid_text(APPROVAL, text, why))
        }
        Approval::Unapproved(_) | Approval::Approved(_) => None,
    }
}

/// Returns the status, reason and message of the approval condition, or `None` if the definition needs no approval.
pub(super) fn condition(definition: &Json) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(definition.text("/spec/group")) {
        return None;
    }
    let needed = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    Some(match Approval::of(definition) {
        Approval::Missing => ("False", "MissingAnnotation", format!("{needed}, {APPROVAL_RULES}")),
        Approval::Invalid(_) => {
            let why = format!("{needed} with either a URL or a reason starting with \"unapproved\", {APPROVAL_RULES}");
            ("False", "InvalidAnnotation", why)
        }
        Approval::Unapproved(text) => ("False", "UnapprovedAnnotation", format!("not approved: {text:?}")),
        Approval::Approved(text) => ("True", "ApprovedAnnotation", format!("approved in {text}")),
    })
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

/// Returns `true` if Go parses the text as a URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or("", |(_, port)| port);
    let is_host = !host.is_empty()
        && port.bytes().all(|digit| digit.is_ascii_digit())
        && !host.contains([' ', '%', '"', '<', '>', '^', '`', '{', '|', '}', '\\']);
    is_scheme && is_host && !text.bytes().any(|byte| byte.is_ascii_control()) && is_unescapable(path)
}

/// Returns `true` if two hexadecimal digits follow each `%` in the path of a URL, ignoring its query.
fn is_unescapable(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path.split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn definition(approval: &str) -> Json {
        json!({"metadata": {"annotations": {"api-approved.kubernetes.io": approval}}, "spec": {"group": "x.k8s.io"}})
    }

    #[test]
    fn approval_must_be_a_url_or_an_unapproved_reason() {
        for (text, expected) in [
            ("https://github.com/kubernetes/kubernetes/pull/1", true),
            ("a://b", true),
            ("https://[::1]:80/x?%zz", true),
            ("unapproved, because", true),
            ("", false),
            ("bogus", false),
            ("http://", false),
            ("/a", false),
            ("//a.b/c", false),
            ("mailto:a@b", false),
            (" https://a.b", false),
            ("https://a b/c", false),
            ("HTTPS://A.b:80x/c", false),
            ("https://user@/c", false),
            ("https:a.b/c", false),
            ("https://a%zz/c", false),
            ("https://a/%zz", false),
            ("1https://a/b", false),
        ] {
            assert_eq!(error(&definition(text), None).is_none(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_approval_may_stay_invalid_on_update() {
        assert!(error(&definition("bogus"), Some(&definition("other"))).is_none());
        assert!(error(&definition("bogus"), Some(&definition(""))).is_some());
        assert!(error(&definition(""), Some(&definition("unapproved"))).is_some());
    }
}
