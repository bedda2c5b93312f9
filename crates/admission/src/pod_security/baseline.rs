//! The baseline standard, which prevents known privilege escalations.

use std::collections::{BTreeSet, HashSet};

use pintle_apimachinery::failure;

use super::pod_view::{PodView, named, plural, quoted, uses};
use super::{Control, Version, Violation};

/// The rules of the baseline standard, in reporting order.
pub(super) const BASELINE: &[Control] = &[
    Control { since: 0, replaced: None, violation: app_armor },
    Control { since: 0, replaced: Some(22), violation: capabilities },
    Control { since: 0, replaced: None, violation: host_namespaces },
    Control { since: 0, replaced: Some(0), violation: host_path },
    Control { since: 0, replaced: None, violation: host_ports },
    Control { since: 34, replaced: None, violation: probe_hosts },
    Control { since: 0, replaced: None, violation: privileged },
    Control { since: 0, replaced: Some(35), violation: proc_mount },
    Control { since: 0, replaced: None, violation: se_linux },
    Control { since: 0, replaced: Some(19), violation: seccomp },
    Control { since: 0, replaced: None, violation: sysctls },
    Control { since: 0, replaced: None, violation: windows_host_process },
];

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The safe sysctls, each with the first minor Kubernetes version that allows it.
const SYSCTLS: &[(&str, u64)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// The safe SELinux types, each with the first minor Kubernetes version that allows it.
const SE_LINUX_TYPES: &[(&str, u64)] =
    &[("", 0), ("container_t", 0), ("container_init_t", 0), ("container_kvm_t", 0), ("container_engine_t", 31)];

fn is_known(known: &[(&str, u64)], name: &str, version: Version) -> bool {
    known.iter().any(|(known, since)| *known == name && version.is_since(*since))
}

fn app_armor(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let mut described = pod.describe_restricted_profiles("appArmorProfile", &mut types);
    let is_bad = |(key, value): &(&str, &str)| {
        key.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !(matches!(*value, "" | "runtime/default") || value.starts_with("localhost/"))
    };
    let annotations: BTreeSet<_> = pod.annotations().filter(is_bad).map(annotation_text).collect();
    if !annotations.is_empty() {
        described.push(plural("annotation", annotations.len()));
    }
    let values: Vec<_> = types.into_iter().chain(annotations).collect();
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    (!described.is_empty()).then(|| Violation {
        reason,
        detail: format!("{} must not set AppArmor profile type to {}", described.join(" and "), quoted(&values)),
    })
}

fn annotation_text((key, value): (&str, &str)) -> String {
    format!("{key}={}", failure::quoted(value))
}

pub(super) fn added_capabilities<'a>(pod: &PodView<'a>, is_fine: impl Fn(&str) -> bool) -> Option<String> {
    let mut added = BTreeSet::new();
    let containers = pod.container_names(|container| {
        let names = container.texts("/securityContext/capabilities/add");
        let bad: Vec<_> = names.filter(|name| !is_fine(name)).map(str::to_owned).collect();
        let has_bad = !bad.is_empty();
        added.extend(bad);
        has_bad
    });
    let containers = named("container", &containers)?;
    Some(format!("{containers} must not include {} in securityContext.capabilities.add", quoted(&added)))
}

fn capabilities(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let detail = added_capabilities(pod, |name| CAPABILITIES.contains(&name))?;
    Some(Violation { reason: "non-default capabilities", detail })
}

fn host_namespaces(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let set =
        ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| pod.whole["spec"].is_true(&format!("/{name}")));
    let set: Vec<_> = set.map(|name| format!("{name}=true")).collect();
    (!set.is_empty()).then(|| Violation { reason: "host namespaces", detail: set.join(", ") })
}

fn host_path(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let volumes = pod.volumes().filter(|volume| volume.has("/hostPath")).map(|volume| volume.text("/name"));
    let detail = named("volume", &volumes.collect::<Vec<_>>())?;
    Some(Violation { reason: "hostPath volumes", detail })
}

fn host_ports(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let containers = pod.container_names(|container| {
        let of_host = container.list("/ports").filter_map(|port| port.integer("/hostPort"));
        let of_host: Vec<_> = of_host.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let has_host_port = !of_host.is_empty();
        ports.extend(of_host);
        has_host_port
    });
    let count = ports.len();
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    let (verb, what) = (uses(containers.len()), plural("hostPort", count));
    let containers = named("container", &containers)?;
    Some(Violation { reason: "hostPort", detail: format!("{containers} {verb} {what} {ports}") })
}

/// Returns a violation if a probe or lifecycle handler specifies a host. If a probe specifies a host, the kubelet
/// contacts this host from the node's network.
fn probe_hosts(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    let mut hosts = BTreeSet::new();
    let containers = pod.container_names(|container| {
        let handlers = HANDLERS.iter().filter_map(|pointer| container.at(pointer));
        let named = handlers.flat_map(|handler| [handler.text("/httpGet/host"), handler.text("/tcpSocket/host")]);
        let named: Vec<_> = named.filter(|host| !host.is_empty()).map(str::to_owned).collect();
        let has_host = !named.is_empty();
        hosts.extend(named);
        has_host
    });
    let containers: Vec<_> = BTreeSet::from_iter(containers).into_iter().collect();
    let (verb, what) = (uses(containers.len()), plural("probe or lifecycle host", hosts.len()));
    let containers = named("container", &containers)?;
    let detail = format!("{containers} {verb} {what} {}", quoted(&hosts));
    Some(Violation { reason: "probe or lifecycle host", detail })
}

fn privileged(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let containers =
        named("container", &pod.container_names(|container| container.is_true("/securityContext/privileged")))?;
    Some(Violation {
        reason: "privileged",
        detail: format!("{containers} must not set securityContext.privileged=true"),
    })
}

fn proc_mount(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if version.is_since(35) && pod.runs_in_user_namespace() { None } else { unmasked_proc(pod, version) }
}

pub(super) fn unmasked_proc(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let mut mounts = BTreeSet::new();
    let containers = pod.container_names(|container| {
        let mount = container.text("/securityContext/procMount").to_owned();
        let is_bad = !matches!(&*mount, "" | "Default");
        if is_bad {
            mounts.insert(mount);
        }
        is_bad
    });
    let containers = named("container", &containers)?;
    let detail = format!("{containers} must not set securityContext.procMount to {}", quoted(&mounts));
    Some(Violation { reason: "procMount", detail })
}

fn se_linux(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    let (mut types, mut sets_user, mut sets_role) = (BTreeSet::new(), false, false);
    let described = pod.describe_matching(|context| {
        let option_text = |member: &str| context.text(&format!("/seLinuxOptions/{member}"));
        let (user, role) = (!option_text("user").is_empty(), !option_text("role").is_empty());
        let has_bad_type = !is_known(SE_LINUX_TYPES, option_text("type"), version);
        if has_bad_type {
            types.insert(option_text("type").to_owned());
        }
        sets_user |= user;
        sets_role |= role;
        has_bad_type || user || role
    });
    let types: Vec<_> = types.iter().map(String::as_str).collect();
    let details = [
        named("type", &types),
        sets_user.then(|| "user may not be set".to_owned()),
        sets_role.then(|| "role may not be set".to_owned()),
    ];
    let details: Vec<_> = details.into_iter().flatten().collect();
    (!described.is_empty()).then(|| Violation {
        reason: "seLinuxOptions",
        detail: format!(
            "{} set forbidden securityContext.seLinuxOptions: {}",
            described.join(" and "),
            details.join("; ")
        ),
    })
}

fn seccomp(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    if version.is_since(19) { seccomp_profiles(pod) } else { seccomp_annotations(pod) }
}

pub(super) fn seccomp_profiles(pod: &PodView<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let described = pod.describe_restricted_profiles("seccompProfile", &mut types);
    (!described.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            described.join(" and "),
            quoted(&types)
        ),
    })
}

/// Returns a violation if an annotation disables seccomp. Older Kubernetes versions used annotations instead of fields
/// to configure seccomp.
fn seccomp_annotations(pod: &PodView<'_>) -> Option<Violation> {
    const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let containers: HashSet<_> = pod.container_names(|_| true).into_iter().collect();
    let is_bad = |(key, value): &(&str, &str)| {
        let is_seccomp = *key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.strip_prefix(OF_CONTAINER).is_some_and(|name| containers.contains(name));
        is_seccomp && !(matches!(*value, "runtime/default" | "docker/default") || value.starts_with("localhost/"))
    };
    let annotations: BTreeSet<_> = pod.annotations().filter(is_bad).map(annotation_text).collect();
    let what = plural("annotation", annotations.len());
    let list = annotations.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    (!annotations.is_empty())
        .then(|| Violation { reason: "seccompProfile", detail: format!("forbidden {what} {list}") })
}

fn sysctls(pod: &PodView<'_>, version: Version) -> Option<Violation> {
    let set = pod.whole.list("/spec/securityContext/sysctls").map(|sysctl| sysctl.text("/name"));
    let bad: Vec<_> = set.filter(|name| !is_known(SYSCTLS, name, version)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

fn windows_host_process(pod: &PodView<'_>, _: Version) -> Option<Violation> {
    let described = pod.describe_matching(|context| context.is_true("/windowsOptions/hostProcess"));
    (!described.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{} must not set securityContext.windowsOptions.hostProcess=true", described.join(" and ")),
    })
}
