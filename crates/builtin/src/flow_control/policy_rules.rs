//! Validates the rules of a FlowSchema.

use pintle_apimachinery::validate::{FieldError, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// The kinds of subjects, and the fields that describe them.
const SUBJECTS: &[(&str, &str)] = &[("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

pub(super) fn errors(rule: Check<'_>) -> Check<'_> {
    let empty = |field: &str| rule.object().get(field).is_none_or(Json::is_empty);
    let nothing = empty("resourceRules") && empty("nonResourceRules");
    rule.required_because("subjects", "subjects must contain at least one value")
        .each("subjects", |subject, _| subject_errors(subject))
        .refuse(nothing, || {
            FieldError::required("", "at least one of resourceRules and nonResourceRules has to be non-empty")
        })
        .each("resourceRules", |rule, _| resource_rule_errors(rule))
        .each("nonResourceRules", |rule, _| non_resource_rule_errors(rule))
}

fn subject_errors(subject: Check<'_>) -> Check<'_> {
    let kind = subject.object().text("/kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return subject.unsupported_if(true, "kind", &kind.into(), &["Group", "ServiceAccount", "User"]);
    };
    let there = subject.object().has(&format!("/{own}"));
    let subject = subject
        .required_if(!there, *own, &format!("{own} is required when subject kind is '{kind}'"))
        .inside(own, |own| if kind == "ServiceAccount" { service_account_errors(own) } else { own.required("name") });
    // As in kube-apiserver, the error about the service account comes first.
    let others = ["serviceAccount", "user", "group"].into_iter().filter(|field| field != own);
    others.fold(subject, |subject, field| {
        let (other, _) = SUBJECTS.iter().find(|(_, known)| *known == field).unwrap_or(&SUBJECTS[0]);
        let there = subject.object().has(&format!("/{field}"));
        subject.forbidden_if(there, field, format!("{field} is forbidden when subject kind is not '{other}'"))
    })
}

fn service_account_errors(account: Check<'_>) -> Check<'_> {
    let account = account.required("name");
    let account =
        if account.object().text("/name") == "*" { account } else { account.name("name", NameRule::Subdomain) };
    account
        .required_because("namespace", "must specify namespace for service account")
        .name("namespace", NameRule::Label)
}

fn resource_rule_errors(rule: Check<'_>) -> Check<'_> {
    let in_cluster = rule.object()["clusterScope"] == true;
    let rule = ["apiGroups", "resources"].into_iter().fold(verb_errors(rule), |rule, field| {
        let (one, many) = if field == "apiGroups" { ("api group", "api groups") } else { ("resource", "resources") };
        let rule = rule.required_because(field, &format!("resource rules must supply at least one {one}"));
        lonely_wildcard(rule, field, many)
    });
    let namespaces: Vec<&str> = texts(rule.object(), "namespaces");
    let has_wildcard = namespaces.contains(&"*");
    let wrong = namespaces.iter().enumerate().filter(|_| !has_wildcard);
    let wrong: Vec<_> = wrong
        .flat_map(|(at, namespace)| {
            let field = rule.path(&format!("namespaces[{at}]"));
            let why = name_errors(NameRule::Label, namespace, false);
            why.into_iter().map(move |why| {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                FieldError::invalid_text(field.as_str(), namespace, why)
            })
        })
        .collect();
    let missing = namespaces.is_empty() && !in_cluster;
    let why = "resource rules that are not cluster scoped must supply at least one namespace";
    lonely_wildcard(rule.required_if(missing, "namespaces", why), "namespaces", "namespaces").also(wrong)
}

fn non_resource_rule_errors(rule: Check<'_>) -> Check<'_> {
    const URLS: &str = "nonResourceURLs";
    let rule = verb_errors(rule).required_because(URLS, "nonResourceURLs must contain at least one value");
    let rule = lonely_wildcard(rule, URLS, "non-resource URLs");
    let paths: Vec<&str> = texts(rule.object(), URLS);
    let has_wildcard = paths.contains(&"*");
    let wrong: Vec<_> = paths
        .iter()
        .enumerate()
        .filter(|_| !has_wildcard)
        .filter_map(|(at, path)| {
            let field = rule.path(&format!("{URLS}[{at}]"));
            path_error(path).map(|why| FieldError::invalid_text(field, path, why))
        })
        .collect();
    rule.also(wrong)
}

fn path_error(path: &str) -> Option<&'static str> {
    let wildcards = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if wildcards > 1 || wildcards == 1 && !path.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn verb_errors(rule: Check<'_>) -> Check<'_> {
    let verbs = rule.object()["verbs"].clone();
    let known = verbs.texts("").all(|verb| verb == "*" || VERBS.contains(&verb));
    let rule = rule.required_because("verbs", "verbs must contain at least one value");
    let rule = lonely_wildcard(rule, "verbs", "verbs");
    rule.unsupported_if(!known && !verbs.texts("").any(|verb| verb == "*"), "verbs", &verbs, VERBS)
}

fn lonely_wildcard<'a>(rule: Check<'a>, field: &str, what: &str) -> Check<'a> {
    let values = &rule.object()[field];
    let (several, any) = (values.texts("").count() > 1, values.texts("").any(|value| value == "*"));
    rule.invalid_if(several && any, field, values, format!("if '*' is present, must not specify other {what}"))
}

/// Returns the strings in a list. A null item counts as an empty string, as in kube-apiserver.
fn texts<'a>(object: &'a Json, field: &str) -> Vec<&'a str> {
    object[field].as_array().into_iter().flatten().map(|value| value.as_str().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_json::json;

    #[test]
    fn rules_are_validated_as_by_kube_apiserver() {
        let group = json!({"kind": "Group", "group": {"name": "g"}});
        let check = |subject: Json, resources: Json, paths: Json, expected: &[&str]| {
            let rule = json!({"subjects": [subject], "resourceRules": resources, "nonResourceRules": paths});
            let errors = errors(Check::at(&rule, "r")).done();
            let found: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(found, expected, "{rule}");
        };
        let path = |url: &str| json!([{"verbs": ["get"], "nonResourceURLs": [url]}]);
        for (url, valid) in [("/", true), ("/a/*", true), ("*", true), ("a", false), ("/a//b", false), ("/a*", false)] {
            let expected: &[&str] = if valid { &[] } else { &["r.nonResourceRules[0].nonResourceURLs[0]"] };
            check(group.clone(), json!([]), path(url), expected);
        }
        let of = |subject: Json, expected: &[&str]| check(subject, json!([]), path("/"), expected);
        of(json!({"kind": "Robot"}), &["r.subjects[0].kind"]);
        of(json!({"kind": "User"}), &["r.subjects[0].user"]);
        of(
            json!({"kind": "User", "user": {"name": ""}, "group": {}}),
            &["r.subjects[0].user.name", "r.subjects[0].group"],
        );
        let account = json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": ""}});
        of(account, &["r.subjects[0].serviceAccount.namespace"]);
        let full = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["a"]});
        for (field, value) in [
            ("verbs", json!(["make"])),
            ("verbs", json!(["*", "get"])),
            ("apiGroups", json!([])),
            ("resources", json!(["*", "pods"])),
            ("namespaces", json!([])),
            ("namespaces", json!(["*", "a"])),
        ] {
            let mut rule = full.clone();
            rule[field] = value;
            check(group.clone(), json!([rule]), json!([]), &[&format!("r.resourceRules[0].{field}")]);
        }
    }
}
