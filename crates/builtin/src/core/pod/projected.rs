//! Validates projected volumes, downward API volumes, secret volumes and config map volumes.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::{field_source, file_path};

const PROJECTED_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const DOUBLE: &str = "conflicting duplicate paths";

/// Validates the items of a volume source, which map keys of a Secret or ConfigMap to file paths.
pub(super) fn items(object: &Json, path: &str) -> FieldErrors {
    let all = Check::at(object, path).each("items", |item, at| {
        let file = item.object().text("/path");
        let field = format!("{path}.items[{at}].path");
        file_path::mode(item.required("key").required("path").also(file_path::unreserved(file, &field)), "mode")
    });
    all.done()
}

pub(super) fn downward_file(item: &Json, path: &str) -> FieldErrors {
    let file = item.text("/path");
    let check = Check::at(item, path).required("path").also(file_path::unreserved(file, &format!("{path}.path")));
    let (field, resource) = (item.has("/fieldRef"), item.has("/resourceFieldRef"));
    let check = match (field, resource) {
        (true, _) => check
            .also(field_source::field(&item["fieldRef"], &format!("{path}.fieldRef"), PROJECTED_FIELDS))
            .refuse(resource, || {
                FieldError::invalid_text(
                    "",
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                )
            }),
        (false, true) => {
            check.also(field_source::resource(&item["resourceFieldRef"], &format!("{path}.resourceFieldRef"), true))
        }
        (false, false) => check.required_if(true, "", "one of fieldRef and resourceFieldRef is required"),
    };
    file_path::mode(check, "mode").done()
}

pub(super) fn sources(object: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut files = HashSet::new();
    for (at, source) in object.list("/sources").enumerate() {
        if errors.is_full() {
            break;
        }
        let own = format!("{path}.sources[{at}]");
        let mut count = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            if source.has(&format!("/{kind}")) {
                count += 1;
                errors.extend(part(&source[kind], kind, path, &format!("{own}.{kind}"), &mut files));
            }
        }
        errors.forbidden_if(count > 1, own, "may not specify more than 1 volume type per source");
    }
    errors
}

fn part<'a>(part: &'a Json, kind: &str, volume: &str, path: &str, files: &mut HashSet<&'a str>) -> FieldErrors {
    let check = Check::at(part, path);
    let mut take = |file: &'a str, shown: &str| {
        let double = !file.is_empty() && !files.insert(file);
        double.then(|| FieldError::invalid_text(volume, shown, DOUBLE))
    };
    match kind {
        "secret" | "configMap" => {
            let duplicates: Vec<_> =
                part.list("/items").filter_map(|item| take(item.text("/path"), part.text("/name"))).collect();
            check.required("name").also(items(part, path)).also(duplicates).done()
        }
        "downwardAPI" => {
            let mut errors = FieldErrors::default();
            for item in part.list("/items") {
                let file = item.text("/path");
                errors.extend(downward_file(item, path));
                errors.extend(take(file, file));
            }
            errors
        }
        _ => {
            let file = part.text("/path");
            let field = format!("{volume}.path");
            let seconds = part.integer("/expirationSeconds").unwrap_or(0);
            let check = check
                .refuse(seconds < 600, || {
                    let why = "may not specify a duration less than 10 minutes";
                    FieldError::invalid("expirationSeconds", &seconds.into(), why)
                })
                .refuse(seconds > 1 << 32, || {
                    let why = "may not specify a duration larger than 2^32 seconds";
                    FieldError::invalid("expirationSeconds", &seconds.into(), why)
                });
            match file {
                "" => check.also([FieldError::required(field, "")]).done(),
                file => check.also(file_path::unreserved(file, &field)).done(),
            }
        }
    }
}
