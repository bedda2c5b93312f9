//! The restricted standard, which requires hardened pods.

use std::collections::BTreeSet;

use pintle_json::Json;

use super::baseline::{added_capabilities, seccomp_profiles, unmasked_proc};
use super::pod_view::{PodView, is_good_profile, named, plural, quoted, sets, uses};
use super::{Control, Version, Violation};

/// The rules of the restricted standard, in reporting order.
pub(super) const RESTRICTED: &[Control] = &[
    Control { since: 8, replaced: None, violation: privilege_escalation },
    Control { since: 22, replaced: None, violation: capabilities },
    Control { since: 35, replaced: None, violation: unmasked_proc },
    Control { since: 0, replaced: None, violation: volumes },
    Control { since: 0, replaced: None, violation: run_as_non_root },
    Control { since: 23, replaced: None, violation: run_as_user },
    Control { since: 19, replaced: None, violation: seccomp },
];

const RESTRICTED_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Returns `true` if the pod is exempt from the rules about Linux-only fields. Windows pods are exempt because
/// validation already rejects these fields in Windows pods.
fn is_exempt(pod: &PodView<'_>, version: Version) -> bool {
    version.is_since(25) && pod.is_for_windows()
}

fn privilege_escalation(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if is_exempt(pod, version) {
        return None;
    }
    const PLACE: &str = "/securityContext/allowPrivilegeEscalation";
    let containers = pod.container_names(|container| container.at(PLACE) != Some(&Json::Bool(false)));
    let containers = named("container", &containers)?;
    Some(Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{containers} must set securityContext.allowPrivilegeEscalation=false"),
    })
}

fn capabilities(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if is_exempt(pod, version) {
        return None;
    }
    let drops_all = |container: &Json| container.list("/securityContext/capabilities/drop").any(|name| name == "ALL");
    let keeping = named("container", &pod.container_names(|container| !drops_all(container)));
    let keeping =
        keeping.map(|containers| format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]"));
    let adding = added_capabilities(pod, |name| name == "NET_BIND_SERVICE");
    let details: Vec<_> = keeping.into_iter().chain(adding).collect();
    (!details.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn volumes(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in pod.volumes() {
        let members = volume.members("");
        let mut sources =
            members.filter(|(key, value)| *key != "name" && !value.is_null()).map(|(key, _)| key.as_str());
        let source = sources.next().unwrap_or("unknown");
        if !RESTRICTED_VOLUMES.contains(&source) {
            names.push(volume.text("/name"));
            types.insert(source);
        }
    }
    let (verb, what) = (uses(names.len()), plural("restricted volume type", types.len()));
    let names = named("volume", &names)?;
    Some(Violation { reason: "restricted volume types", detail: format!("{names} {verb} {what} {}", quoted(&types)) })
}

fn run_as_non_root(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if version.is_since(35) && pod.runs_in_user_namespace() {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let has_run_as_non_root = |context: &Json, wanted: bool| context.get("runAsNonRoot") == Some(&Json::Bool(wanted));
    let described = pod.describe_matching(|context| has_run_as_non_root(context, false));
    if !described.is_empty() {
        let detail = format!("{} must not set securityContext.runAsNonRoot=false", described.join(" and "));
        return Some(Violation { reason: REASON, detail });
    }
    if pod.whole.at("/spec/securityContext").is_some_and(|context| has_run_as_non_root(context, true)) {
        return None;
    }
    let containers = named("container", &pod.container_names(|container| !sets(container, "/runAsNonRoot")))?;
    let detail = format!("pod or {containers} must set securityContext.runAsNonRoot=true");
    Some(Violation { reason: REASON, detail })
}

fn run_as_user(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if version.is_since(35) && pod.runs_in_user_namespace() {
        return None;
    }
    let described = pod.describe_matching(|context| context.integer("/runAsUser") == Some(0));
    let detail = format!("{} must not set runAsUser=0", described.join(" and "));
    (!described.is_empty()).then_some(Violation { reason: "runAsUser=0", detail })
}

fn seccomp(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if is_exempt(pod, version) {
        return None;
    }
    let explicit = seccomp_profiles(pod);
    if explicit.is_some() || is_good_profile(pod.whole.text("/spec/securityContext/seccompProfile/type")) {
        return explicit;
    }
    let containers = named("container", &pod.container_names(|container| !sets(container, "/seccompProfile")))?;
    let detail = format!(
        "pod or {containers} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
    );
    Some(Violation { reason: "seccompProfile", detail })
}
