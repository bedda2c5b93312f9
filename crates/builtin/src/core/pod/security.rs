//! Validates the security contexts of pods and containers.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::file_path;
use crate::go_struct::invalid_struct;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const ID: &str = "must be between 0 and 2147483647, inclusive";
const MAX_ID: i64 = i32::MAX as i64;
const SYSCTL: &str = "must have at most 253 characters and match regex \
                      ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

pub(super) fn of_pod(spec: &Json, path: &str) -> FieldErrors {
    let context = &spec["securityContext"];
    let field = format!("{path}.securityContext");
    let check = ids(Check::at(context, &field), &["fsGroup", "runAsUser", "runAsGroup"]);
    let groups = context.list("/supplementalGroups").enumerate();
    let odd = groups.filter(|(_, id)| id.as_i64().is_some_and(|id| !(0..=MAX_ID).contains(&id)));
    let odd = odd.map(|(at, id)| FieldError::invalid(format!("{field}.supplementalGroups[{at}]"), id, ID));
    let shares = spec.is_true("/shareProcessNamespace") && spec.is_true("/hostPID");
    let check = check
        .also(odd)
        .refuse(shares, || {
            let why = "ShareProcessNamespace and HostPID cannot both be enabled";
            FieldError::invalid("shareProcessNamespace", &true.into(), why)
        })
        .also(sysctls(spec, &field))
        .known("fsGroupChangePolicy", &["Always", "OnRootMismatch"])
        .also(profiles(context, &field))
        .known("supplementalGroupsPolicy", &["Merge", "Strict"])
        .known("seLinuxChangePolicy", &["Recursive"]);
    check.done()
}

pub(super) fn of_container(container: &Json, path: &str, host_users: bool) -> FieldErrors {
    let context = &container["securityContext"];
    if context.is_null() {
        return FieldErrors::default();
    }
    let field = format!("{path}.securityContext");
    let stays = context.get("allowPrivilegeEscalation").and_then(Json::as_bool) == Some(false);
    let unmasked = context.text("/procMount") == "Unmasked";
    ids(Check::at(context, &field), &["runAsUser", "runAsGroup"])
        .known("procMount", &["Default", "Unmasked"])
        .refuse(unmasked && host_users, || {
            FieldError::invalid_text("procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
        })
        .also(seccomp(context, &field))
        .refuse(stays && context.is_true("/privileged"), || {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            FieldError::invalid("", context, why)
        })
        .refuse(stays && context.texts("/capabilities/add").any(|capability| capability == "CAP_SYS_ADMIN"), || {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            FieldError::invalid("", context, why)
        })
        .also(windows(context, &field))
        .also(app_armor(context, &field))
        .done()
}

/// Reports host namespaces in a pod that has its own user namespace.
pub(super) fn own_users(spec: &Json, path: &str) -> FieldErrors {
    if spec.get("hostUsers").and_then(Json::as_bool) != Some(false) {
        return FieldErrors::default();
    }
    let why = "when `hostUsers` is false";
    Check::at(spec, path)
        .forbidden_if(spec.is_true("/hostNetwork"), "hostNetwork", why)
        .forbidden_if(spec.is_true("/hostPID"), "HostPID", why)
        .forbidden_if(spec.is_true("/hostIPC"), "HostIPC", why)
        .done()
}

fn ids<'a>(check: Check<'a>, fields: &[&str]) -> Check<'a> {
    fields.iter().fold(check, |check, field| check.within(field, 0, MAX_ID, ID))
}

fn profiles(context: &Json, path: &str) -> FieldErrors {
    seccomp(context, path).and(windows(context, path)).and(app_armor(context, path))
}

fn seccomp(context: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.seccompProfile");
    let all = Check::at(context, path).inside("seccompProfile", |check| {
        let profile = check.object();
        let own = profile.has("/localhostProfile");
        let local = profile.text("/type") == "Localhost";
        let file = file_path::relative(profile.text("/localhostProfile"), &format!("{field}.localhostProfile"));
        check
            .required_because("type", "type is required when seccompProfile is set")
            .one_of("type", PROFILES)
            .required_if(local && !own, "localhostProfile", "must be set when seccomp type is Localhost")
            .also(if local { file } else { FieldErrors::default() })
            .refuse(!local && own, || {
                let fields = [("type", "Type"), ("localhostProfile", "LocalhostProfile")];
                let why = "can only be set when seccomp type is Localhost";
                invalid_struct("localhostProfile", profile, &fields, why)
            })
    });
    all.done()
}

fn app_armor(context: &Json, path: &str) -> FieldErrors {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let all = Check::at(context, path).inside("appArmorProfile", |check| {
        let profile = check.object();
        let name = profile.text("/localhostProfile");
        let known = matches!(profile.text("/type"), "RuntimeDefault" | "Unconfined");
        let check = check
            .required_because("type", "type is required when appArmorProfile is set")
            .one_of("type", PROFILES)
            .refuse(known && profile.has("/localhostProfile"), || {
                FieldError::invalid_text("localhostProfile", name, "can only be set when AppArmor type is Localhost")
            });
        if profile.text("/type") != "Localhost" {
            return check;
        }
        check
            .required_if(name.is_empty(), "localhostProfile", MISSING)
            .invalid_text_if(name.trim() != name, "localhostProfile", name, "must not be padded with whitespace")
            .refuse(name.len() > 4095, || FieldError::too_long("localhostProfile", 4095))
    });
    all.done()
}

/// Returns a message for each rule for Windows user names that `name` violates. A Windows user name can start with a
/// domain.
fn user_name_faults(name: &str) -> Vec<&'static str> {
    const MAX_DOMAIN: usize = 256;
    const MAX_USER: usize = 104;
    match name.split('\\').collect::<Vec<_>>()[..] {
        [""] => vec![" cannot be an empty string"],
        _ if name.chars().any(|c| c.is_ascii_control()) => vec![" cannot contain control characters"],
        [.., domain, user] if name.matches('\\').count() == 1 => {
            let long = (domain.len() >= MAX_DOMAIN).then_some("'s Domain length must be under 256 characters");
            long.into_iter().chain(plain_user_faults(user, MAX_USER)).collect()
        }
        [user] => plain_user_faults(user, MAX_USER),
        _ => vec![" cannot contain more than one backslash"],
    }
}

fn plain_user_faults(user: &str, most: usize) -> Vec<&'static str> {
    let rules = [
        (user.is_empty(), "'s User cannot be empty"),
        (user.len() > most, "'s User length must not be longer than 104 characters"),
        (
            !user.is_empty() && user.chars().all(|c| c == '.' || c == ' '),
            "'s User cannot contain only periods or spaces",
        ),
        (
            user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)),
            "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, why)| why).collect()
}

fn windows(context: &Json, path: &str) -> FieldErrors {
    let all = Check::at(context, path).inside("windowsOptions", |check| {
        let options = check.object();
        let text = |key: &str| options.get(key).and_then(Json::as_str);
        let spec = text("gmsaCredentialSpecName");
        let why = spec.map(|name| name_errors(NameRule::Subdomain, name, false)).unwrap_or_default();
        let check = why.iter().fold(check, |check, why| {
            check.invalid_text_if(true, "gmsaCredentialSpecName", spec.unwrap_or_default(), why)
        });
        let empty = text("gmsaCredentialSpec") == Some("");
        let check =
            check.invalid_text_if(empty, "gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string");
        let user = text("runAsUserName").unwrap_or("x");
        let why = user_name_faults(user);
        why.iter()
            .fold(check, |check, why| check.invalid_text_if(true, "runAsUserName", user, format!("runAsUserName{why}")))
    });
    all.done()
}

/// Returns the pod field that makes a sysctl's namespace the same as on the node, such as `hostIPC`.
fn shared_namespace(spec: &Json, sysctl: &str) -> Option<&'static str> {
    const IPC: [&str; 4] = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
    let dotted = sysctl.replace('/', ".");
    match () {
        () if dotted.starts_with("net.") && spec.is_true("/hostNetwork") => Some("hostNetwork"),
        () if IPC.iter().any(|ipc| dotted.starts_with(ipc)) && spec.is_true("/hostIPC") => Some("hostIPC"),
        () => None,
    }
}

fn sysctls(spec: &Json, path: &str) -> FieldErrors {
    let context = &spec["securityContext"];
    let mut seen = HashSet::new();
    let duplicates: Vec<bool> = context.list("/sysctls").map(|sysctl| !seen.insert(sysctl.text("/name"))).collect();
    let all = Check::at(context, path).each("sysctls", |sysctl, at| {
        let name = sysctl.object().text("/name");
        let part = |part: &str| {
            let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
            let bytes = part.as_bytes();
            edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
        };
        let good = name.len() <= 253 && name.split(['.', '/']).all(part);
        let sysctl = sysctl.required("name").invalid_text_if(!name.is_empty() && !good, "name", name, SYSCTL);
        let shared = shared_namespace(spec, name);
        let why = format!("may not be specified when '{}' is true", shared.unwrap_or_default());
        sysctl.duplicate_if(good && duplicates[at], "name", &name.into()).invalid_text_if(
            shared.is_some(),
            "name",
            name,
            why,
        )
    });
    all.done()
}
