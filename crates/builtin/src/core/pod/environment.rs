//! Validates a container's environment variables.

use std::collections::HashMap;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::field_source;
use super::file_path;

const VARIABLE_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VARIABLE_SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const TOO_MANY: &str = "may not have more than one field specified at a time";

pub(super) fn errors(container: &Json, path: &str) -> FieldErrors {
    let one_by_one = Check::at(container, path).each("env", |variable, at| {
        let name = variable.object().text("/name");
        let value_from = &variable.object()["valueFrom"];
        let check = variable.required("name").invalid_text_if(is_invalid_name(name), "name", name, VARIABLE_NAME);
        if value_from.is_null() {
            return check;
        }
        let path = format!("{path}.env[{at}].valueFrom");
        check.also(source(
            value_from,
            &path,
            !container.list("/env").nth(at).is_some_and(|it| it.text("/value").is_empty()),
        ))
    });
    let all = one_by_one.each("envFrom", |from, at| {
        let object = from.object();
        let prefix = object.text("/prefix");
        let count = ["configMapRef", "secretRef"].iter().filter(|source| object.has(&format!("/{source}"))).count();
        let list = format!("{path}.envFrom");
        let wrong = match count {
            0 => Some("must specify one of: `configMapRef` or `secretRef`"),
            1 => None,
            _ => Some(TOO_MANY),
        };
        from.invalid_text_if(is_invalid_name(prefix), "prefix", prefix, VARIABLE_NAME)
            .also(map(object, "configMapRef", &format!("{list}[{at}]")))
            .also(map(object, "secretRef", &format!("{list}[{at}]")))
            .also(wrong.map(|why| FieldError::invalid_text(list, "", why)))
    });
    all.done()
}

/// Reports variables with a `fileKeyRef` to a missing volume or to a volume that is not an emptyDir.
pub(super) fn file_errors(volumes: &HashMap<&str, &Json>, container: &Json, path: &str) -> FieldErrors {
    let all = Check::at(container, path).each("env", |variable, _| {
        let name = variable.object().text("/valueFrom/fileKeyRef/volumeName");
        if !variable.object().has("/valueFrom/fileKeyRef") {
            return variable;
        }
        let volume = volumes.get(name);
        let field = "valueFrom.fileKeyRef.volumeName";
        variable
            .not_found_if(volume.is_none(), field, name)
            .refuse(volume.is_some_and(|volume| !volume.has("/emptyDir")), || {
                FieldError::invalid_text(field, name, "referenced volume must be of type emptyDir")
            })
    });
    all.done()
}

fn is_invalid_name(name: &str) -> bool {
    name.contains('=') || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

fn map(object: &Json, source: &str, path: &str) -> FieldErrors {
    if !object.has(&format!("/{source}")) {
        return FieldErrors::default();
    }
    let check = Check::at(&object[source], &format!("{path}.{source}")).required("name");
    let name = object[source].text("/name");
    let why = if name.is_empty() { Vec::new() } else { name_errors(NameRule::Subdomain, name, true) };
    why.iter().fold(check, |check, why| check.invalid_text_if(true, "name", name, why)).done()
}

fn source(from: &Json, path: &str, has_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let there: Vec<&str> = VARIABLE_SOURCES.iter().copied().filter(|source| from.has(&format!("/{source}"))).collect();
    for source in &there {
        let path = format!("{path}.{source}");
        let object = &from[*source];
        errors.extend(match *source {
            "fieldRef" => field_source::field(object, &path, VARIABLE_FIELDS),
            "resourceFieldRef" => field_source::resource(object, &path, false),
            "fileKeyRef" => file_key(object, &path),
            _ => key(object, &path),
        });
    }
    let wrong = match there.len() {
        0 => Some(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if has_value => Some("may not be specified when `value` is not empty"),
        1 => None,
        _ => Some(TOO_MANY),
    };
    errors.extend(wrong.map(|why| FieldError::invalid_text(path, "", why)));
    errors
}

fn key(object: &Json, path: &str) -> FieldErrors {
    let name = object.text("/name");
    let why = name_errors(NameRule::Subdomain, name, false);
    Check::at(object, path)
        .also(why.iter().map(|why| FieldError::invalid_text(format!("{path}.name"), name, why)))
        .required_name("key", NameRule::ConfigKey)
        .done()
}

fn file_key(object: &Json, path: &str) -> FieldErrors {
    let (key, file) = (object.text("/key"), object.text("/path"));
    Check::at(object, path)
        .required("key")
        .invalid_text_if(is_invalid_name(key), "key", key, VARIABLE_NAME)
        .required_name("volumeName", NameRule::Label)
        .required("path")
        .also(file_path::descending(file, &format!("{path}.path")))
        .done()
}
