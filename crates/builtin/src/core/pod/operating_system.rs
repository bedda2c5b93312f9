//! Validates the fields of a pod spec that depend on the operating system, and HostProcess containers.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

/// Reports fields that the operating system in `spec.os` does not support.
pub(super) fn errors(spec: &Json, path: &str) -> FieldErrors {
    match spec.text("/os/name") {
        "linux" => linux(spec, path),
        "windows" => windows(spec, path),
        _ => FieldErrors::default(),
    }
}

/// Returns the containers and their paths in the order of kube-apiserver.
fn containers<'a>(spec: &'a Json, path: &str) -> impl Iterator<Item = (&'a Json, String)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |key| {
        let all = spec.list(&format!("/{key}")).enumerate();
        all.map(move |(at, container)| (container, format!("{path}.{key}[{at}]")))
    })
}

fn linux(spec: &Json, path: &str) -> FieldErrors {
    const WHY: &str = "windows options cannot be set for a linux pod";
    let all = std::iter::once((spec, path.to_owned())).chain(containers(spec, path));
    all.filter(|(part, _)| part.has("/securityContext/windowsOptions"))
        .map(|(_, path)| FieldError::forbidden(format!("{path}.securityContext.windowsOptions"), WHY))
        .collect()
}

fn windows(spec: &Json, path: &str) -> FieldErrors {
    const OF_POD: &[&str] = &[
        "securityContext.appArmorProfile",
        "securityContext.seLinuxOptions",
        "hostUsers",
        "hostPID",
        "hostIPC",
        "securityContext.seccompProfile",
        "securityContext.fsGroup",
        "securityContext.fsGroupChangePolicy",
        "securityContext.sysctls",
        "shareProcessNamespace",
        "securityContext.runAsUser",
        "securityContext.runAsGroup",
        "securityContext.supplementalGroups",
        "securityContext.supplementalGroupsPolicy",
        "securityContext.seLinuxChangePolicy",
    ];
    const OF_CONTAINER: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let is_set = |field: &&&str| match spec.at(&format!("/{}", field.replace('.', "/"))) {
        None | Some(Json::Null) => false,
        Some(value) if field.starts_with("hostP") || field.starts_with("hostI") => *value == true,
        Some(value) => !(field.ends_with("sysctls") && value.is_empty()),
    };
    let error = |field: String| FieldError::forbidden(field, "cannot be set for a windows pod");
    let of_pod = OF_POD.iter().filter(is_set).map(|field| error(format!("{path}.{field}")));
    let of_containers = containers(spec, path).flat_map(|(container, path)| {
        let set = OF_CONTAINER.iter().filter(move |field| container.has(&format!("/securityContext/{field}")));
        set.map(move |field| error(format!("{path}.securityContext.{field}")))
    });
    of_pod.chain(of_containers).collect()
}

/// Validates HostProcess containers. Either all containers of a pod must be HostProcess containers, or none.
pub(super) fn host_process_errors(spec: &Json, path: &str) -> FieldErrors {
    const HOST_PROCESS: &str = "/securityContext/windowsOptions/hostProcess";
    let setting = |part: &Json| part.at(HOST_PROCESS).and_then(Json::as_bool);
    let of_pod = setting(spec);
    let mut errors = FieldErrors::default();
    let (mut count, mut on_host) = (0, 0);
    for (container, path) in containers(spec, path) {
        count += 1;
        let own = setting(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.push(FieldError::invalid(
                format!("{path}.securityContext.windowsOptions.hostProcess"),
                &own.into(),
                why,
            ));
        }
        on_host += usize::from(own.or(of_pod) == Some(true));
    }
    if on_host > 0 && on_host != count {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid_text(path, "", why));
    }
    if on_host > 0 && !spec.is_true("/hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(format!("{path}.hostNetwork"), &false.into(), why));
    }
    errors
}
