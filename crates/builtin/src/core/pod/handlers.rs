//! Validates a container's probes and lifecycle handlers.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::port_names::{PORT_RANGE, port_name_errors};

const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
                      validation is '[-A-Za-z0-9]+')";
const NOT_AT_INIT: &str = "may not be set for init containers without restartPolicy=Always";
const WITH_HANDLERS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn errors(spec: &Json, container: &Json, path: &str) -> FieldErrors {
    let grace = spec.integer("/terminationGracePeriodSeconds");
    let check = Check::at(container, path).inside("lifecycle", |check| {
        let lifecycle = check.object();
        ["postStart", "preStop"]
            .iter()
            .filter(|key| lifecycle.has(&format!("/{key}")))
            .fold(check, |check, key| check.also(handler(&lifecycle[*key], &format!("{path}.lifecycle.{key}"), grace)))
    });
    let check = WITH_HANDLERS[1..].iter().fold(check, |check, name| {
        check.inside(name, |probe| {
            let object = probe.object();
            let once = *name != "readinessProbe";
            let successes = object.integer("/successThreshold").unwrap_or(1);
            let grace_field = "terminationGracePeriodSeconds";
            let own_grace = object.integer(&format!("/{grace_field}"));
            let value = own_grace.unwrap_or_default().into();
            probe
                .also(handler(object, &format!("{path}.{name}"), grace))
                .not_negative(&[
                    "initialDelaySeconds",
                    "timeoutSeconds",
                    "periodSeconds",
                    "successThreshold",
                    "failureThreshold",
                ])
                .invalid_if(own_grace.is_some_and(|grace| grace <= 0), grace_field, &value, "must be greater than 0")
                .invalid_if(once && successes != 1, "successThreshold", &successes.into(), "must be 1")
                .invalid_if(!once && own_grace.is_some(), grace_field, &value, "must not be set for readinessProbes")
        })
    });
    check.done()
}

/// Reports probes and lifecycle handlers of ordinary init containers, which cannot have them.
pub(super) fn forbidden_at_init(container: &Json, path: &str) -> FieldErrors {
    let there = WITH_HANDLERS.iter().filter(|member| container.has(&format!("/{member}")));
    there.map(|member| FieldError::forbidden(format!("{path}.{member}"), NOT_AT_INIT)).collect()
}

fn handler(object: &Json, path: &str, grace: Option<i64>) -> FieldErrors {
    let mut there = HANDLERS.iter().filter(|handler| object.has(&format!("/{handler}")));
    let Some(first) = there.next() else {
        return FieldErrors::from([FieldError::required(path, "must specify a handler type")]);
    };
    let mut errors = action(&object[*first], first, &format!("{path}.{first}"), grace);
    errors.extend(
        there.map(|more| FieldError::forbidden(format!("{path}.{more}"), "may not specify more than 1 handler type")),
    );
    errors
}

fn action(object: &Json, kind: &str, path: &str, grace: Option<i64>) -> FieldErrors {
    let check = Check::at(object, path);
    match kind {
        "exec" => check.required("command").done(),
        "httpGet" => {
            let headers = object.list("/httpHeaders").map(|header| header.text("/name"));
            let odd = headers.filter(|name| {
                name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            });
            let field = format!("{path}.httpHeaders");
            check
                .required("path")
                .also(port(&object["port"], path))
                .known("scheme", &["HTTP", "HTTPS"])
                .also(odd.map(|name| FieldError::invalid_text(field.as_str(), name, HEADER_NAME)))
                .done()
        }
        "sleep" => {
            let seconds = object.integer("/seconds").unwrap_or(0);
            let most = grace.unwrap_or(i64::MAX);
            check
                .refuse(grace.is_some() && !(0..=most).contains(&seconds), || {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({most})");
                    FieldError::invalid("", &seconds.into(), why)
                })
                .done()
        }
        _ => check.also(port(&object["port"], path)).done(),
    }
}

fn port(port: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.port");
    match port.as_str() {
        Some(name) => {
            port_name_errors(name).iter().map(|why| FieldError::invalid_text(field.as_str(), name, why)).collect()
        }
        None => {
            let number = port.as_i64().unwrap_or(0);
            let odd = !(1..=65535).contains(&number);
            odd.then(|| FieldError::invalid(field, &number.into(), PORT_RANGE)).into_iter().collect()
        }
    }
}
