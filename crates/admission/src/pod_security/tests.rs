//! Tests of the Pod Security Standards and of the namespace labels that select them.

use pintle_json::{Json, json};

use super::*;

fn standard(text: &str) -> Standard {
    let (level, version) = text.split_once(':').expect("a level and a version");
    Standard { level: Level::parse(level).expect("a level"), version: Version::parse(version).expect("a version") }
}

/// Returns a pod that satisfies all standards, with extra fields for its spec and its container.
fn pod(spec: Json, container: Json) -> Json {
    let context = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let mut whole = json!({"name": "c", "image": "x", "securityContext": context});
    for (key, value) in container.members("") {
        match (key.as_str(), value.as_object()) {
            ("securityContext", Some(members)) => {
                let context = whole["securityContext"].as_object_mut().expect("a context");
                context.extend(members.clone());
            }
            _ => whole[key] = value.clone(),
        }
    }
    let mut pod = json!({"spec": {"containers": [whole]}});
    pod["spec"].as_object_mut().expect("a spec").extend(spec.as_object().cloned().unwrap_or_default());
    pod
}

fn violations(name: &str, pod: &Json) -> String {
    detailed(&standard(name).violations(pod))
}

#[test]
fn baseline_rules_report_their_violations() {
    let in_context = |context: Json| pod(json!({}), json!({"securityContext": context}));
    let profile = |name: &str| json!({name: {"type": "Unconfined"}});
    let handlers = json!({
        "livenessProbe": {"httpGet": {"host": "b"}},
        "lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}, "postStart": {"httpGet": {"port": 1}}},
    });
    for (pod, expected) in [
        (
            pod(
                json!({"securityContext": profile("appArmorProfile")}),
                json!({"securityContext": profile("appArmorProfile")}),
            ),
            r#"forbidden AppArmor profile (pod and container "c" must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            in_context(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}})),
            r#"non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            pod(json!({"hostIPC": true, "hostNetwork": true, "hostPID": false}), json!({})),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            pod(
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]}),
                json!({}),
            ),
            r#"hostPath volumes (volumes "v", "w")"#,
        ),
        (
            pod(
                json!({}),
                json!({"ports": [{"hostPort": 90}, {"hostPort": 800}, {"hostPort": 0}, {"containerPort": 1}]}),
            ),
            r#"hostPort (container "c" uses hostPorts 800, 90)"#,
        ),
        (pod(json!({}), handlers), r#"probe or lifecycle host (container "c" uses probe or lifecycle hosts "a", "b")"#),
        (
            in_context(json!({"privileged": true})),
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (
            in_context(json!({"procMount": "Unmasked"})),
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            in_context(json!({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}})),
            r#"seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)"#,
        ),
        (
            pod(json!({"securityContext": profile("seccompProfile")}), json!({})),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            pod(
                json!({"securityContext": {"sysctls": [{"name": "a"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "b"}]}}),
                json!({}),
            ),
            "forbidden sysctls (a, b)",
        ),
        (
            in_context(json!({"windowsOptions": {"hostProcess": true}})),
            r#"hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
    ] {
        assert_eq!(violations("baseline:latest", &pod), expected);
        assert_ne!(violations("restricted:latest", &pod), "");
        assert_eq!(violations("privileged:latest", &pod), "");
    }
}

#[test]
fn only_hardened_pods_satisfy_the_restricted_standard() {
    assert_eq!(violations("restricted:latest", &pod(json!({}), json!({}))), "");
    let plain = json!({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}});
    assert_eq!(violations("baseline:latest", &plain), "");
    assert_eq!(
        violations("restricted:latest", &plain),
        "allowPrivilegeEscalation != false (containers \"i\", \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (containers \"i\", \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or containers \"i\", \"c\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or containers \"i\", \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")"
    );
    for (spec, container, expected) in [
        (
            json!({}),
            json!({"securityContext": {"capabilities": {"add": ["CHOWN"]}}}),
            r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "nfs": {}}, {"name": "h", "hostPath": {}}]}),
            json!({}),
            r#"restricted volume types (volumes "w", "h" use restricted volume types "hostPath", "nfs")"#,
        ),
        (
            json!({"securityContext": {"runAsNonRoot": false}}),
            json!({"securityContext": {"runAsNonRoot": false}}),
            r#"runAsNonRoot != true (pod and container "c" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            json!({"securityContext": {"runAsUser": 0}}),
            json!({"securityContext": {"runAsUser": 1}}),
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
    ] {
        assert_eq!(violations("restricted:latest", &pod(spec, container)), expected);
    }
    let by_pod = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "Localhost"}}});
    let null = json!({"securityContext": {"runAsNonRoot": null, "seccompProfile": null}});
    assert_eq!(violations("restricted:latest", &pod(by_pod, null)), "");
}

#[test]
fn rules_apply_from_their_version_on() {
    let own_users = pod(
        json!({"hostUsers": false}),
        json!({"securityContext": {"procMount": "Unmasked", "runAsNonRoot": false, "runAsUser": 0}}),
    );
    let for_windows = json!({"spec": {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]}});
    let keepalive = pod(json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_keepalive_time"}]}}), json!({}));
    let engine = pod(json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}), json!({}));
    let probe = pod(json!({}), json!({"readinessProbe": {"tcpSocket": {"host": "h"}}}));
    let mut annotated = pod(json!({}), json!({}));
    annotated["metadata"] = json!({"annotations": {
        "container.seccomp.security.alpha.kubernetes.io/c": "unconfined", "container.seccomp.security.alpha.kubernetes.io/d": "unconfined",
    }});
    let is_fine = |name: &str, pod: &Json| standard(name).violations(pod).is_empty();
    for (pod, before, since, from) in [
        (&own_users, "baseline:v1.34", "baseline:v1.35", true),
        (&for_windows, "restricted:v1.24", "restricted:v1.25", true),
        (&keepalive, "baseline:v1.28", "baseline:v1.29", true),
        (&engine, "baseline:v1.30", "baseline:v1.31", true),
        (&probe, "baseline:v1.33", "baseline:v1.34", false),
        (&annotated, "baseline:v1.18", "baseline:v1.19", true),
    ] {
        assert_eq!((is_fine(before, pod), is_fine(since, pod)), (!from, from), "{before} {pod}");
        assert_eq!(
            is_fine(&since.replace(|c: char| c.is_ascii_digit() || c == '.', "").replace(":v", ":latest"), pod),
            from
        );
    }
    assert_eq!(
        violations("baseline:v1.0", &annotated),
        "seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/c=\"unconfined\")"
    );
    assert_eq!(
        violations("restricted:v1.35", &own_users),
        "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")"
    );
}

#[test]
fn app_armor_annotation_counts_as_a_profile() {
    let mut pod = pod(json!({}), json!({}));
    pod["metadata"] = json!({"annotations": {
        "container.apparmor.security.beta.kubernetes.io/c": "unconfined", "container.apparmor.security.beta.kubernetes.io/d": "localhost/x",
    }});
    assert_eq!(
        violations("baseline:latest", &pod),
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
         \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")"
    );
}

#[test]
fn enforced_standard_also_warns_unless_labels_differ() {
    for (labels, enforce, warn, errors) in [
        (json!({}), "privileged:latest", "privileged:latest", 0),
        (json!({"enforce": "baseline"}), "baseline:latest", "baseline:latest", 0),
        (json!({"enforce": "baseline", "enforce-version": "v1.30"}), "baseline:v1.30", "baseline:v1.30", 0),
        (json!({"enforce": "baseline", "warn-version": "v1.9"}), "baseline:latest", "baseline:v1.9", 0),
        (json!({"enforce": "restricted", "warn": "privileged"}), "restricted:latest", "privileged:latest", 0),
        (json!({"enforce-version": "v1.2", "warn": "baseline"}), "privileged:v1.2", "baseline:latest", 0),
        (json!({"enforce": "strict", "audit": "x", "warn": "y"}), "restricted:latest", "privileged:latest", 3),
        (
            json!({"enforce-version": "v1.01", "warn-version": "v1.+1", "audit-version": "1.2"}),
            "privileged:latest",
            "privileged:latest",
            3,
        ),
    ] {
        let of = |label: &str| labels.get(label.strip_prefix(POD_SECURITY_PREFIX)?)?.as_str();
        let (policy, found) = Policy::of(of);
        assert_eq!(
            (policy.enforce, policy.warn, found.into_iter().len()),
            (standard(enforce), standard(warn), errors),
            "{labels}"
        );
    }
}
