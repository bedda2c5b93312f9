//! The core `Event` kind. The server stores all events as core events, and converts events of `events.k8s.io` to and
//! from this form.

mod events_api;

use pintle_json::Json;

use jiff::Timestamp;
use pintle_apimachinery::object::{metadata, text};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};

pub(crate) use events_api::Event;

pub(crate) struct CoreEvent;

impl Strategy for CoreEvent {
    fn validate_create(&self, event: &Json) -> FieldErrors {
        errors(event, "reportingComponent")
    }

    fn validate_update(&self, new: &Json, _: &Json, _: Subresource) -> FieldErrors {
        errors(new, "reportingComponent")
    }

    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        match label {
            "source" => vec!["source.component", "reportingComponent"],
            label => vec![label],
        }
    }

    fn field(&self, event: &Json, label: &str) -> Option<String> {
        if label == "source" {
            let component = event.text("/source/component");
            let component = if component.is_empty() { event.text("/reportingComponent") } else { component };
            return Some(component.into());
        }
        Some(text(event.at(&format!("/{}", label.replace('.', "/")))))
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Last Seen", Cell::Timed(last_seen)),
            ("Object", Cell::Computed(involved_object)),
            ("Source", Cell::Computed(source)),
            ("Message", Cell::Computed(|event| event.text("/message").trim().into())),
            ("First Seen", Cell::Timed(first_seen)),
            ("Count", Cell::Computed(count)),
        ]
    }
}

fn first_seen(event: &Json, now: Timestamp) -> Json {
    let time = if event.has("/firstTimestamp") { "/firstTimestamp" } else { "/eventTime" };
    Cell::Since(time, "<unknown>").of(event, now)
}

fn last_seen(event: &Json, now: Timestamp) -> Json {
    let times = ["/series/lastObservedTime", "/lastTimestamp"];
    match times.into_iter().find(|time| event.has(time)) {
        Some(time) => Cell::Since(time, "<unknown>").of(event, now),
        None => first_seen(event, now),
    }
}

fn count(event: &Json) -> Json {
    let single = || event.integer("/count").filter(|count| *count != 0).unwrap_or(1);
    event.integer("/series/count").unwrap_or_else(single).into()
}

fn involved_object(event: &Json) -> Json {
    let kind = event.text("/involvedObject/kind").to_lowercase();
    match event.text("/involvedObject/name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(event: &Json) -> Json {
    let (component, instance) = match event.text("/source/component") {
        "" => (event.text("/reportingComponent"), event.text("/reportingInstance")),
        component => (component, event.text("/source/host")),
    };
    if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() }
}

/// Validates the namespace of an event's `involvedObject`. The event must be in its stored form, which is a core event.
fn namespace_errors(event: &Json) -> FieldErrors {
    let involved = event.text("/involvedObject/namespace");
    let namespace = metadata::namespace(event);
    // An event with an `eventTime` can refer to an object in any namespace. If the object is cluster-scoped, the event
    // must be in `default` or `kube-system`.
    let fits = match (involved, event.has("/eventTime")) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "default" | ""),
        (_, true) => true,
        (involved, false) => involved == namespace,
    };
    if fits {
        FieldErrors::default()
    } else {
        FieldErrors::from([FieldError::invalid_text(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        )])
    }
}

/// Returns the validation errors that are common to both API groups. The event must be in its stored form, as a core
/// event. Events with an `eventTime` must satisfy additional rules. `controller` is the name of the field for the
/// reporting controller, which depends on the API group.
fn errors(event: &Json, controller: &str) -> FieldErrors {
    let found = namespace_errors(event);
    if !event.has("/eventTime") {
        return found;
    }
    let reporting = event.text("/reportingComponent");
    let wrong = qualified_name_faults(reporting);
    Check::of(event)
        .also(found)
        .required_if(reporting.is_empty(), controller, "")
        .also(wrong.iter().map(|why| FieldError::invalid_text(controller, reporting, why)))
        .required("reportingInstance")
        .also(too_long(event, "reportingInstance", MAX_TEXT))
        .required("action")
        .also(too_long(event, "action", MAX_TEXT))
        .required("reason")
        .also(too_long(event, "reason", MAX_TEXT))
        .also(too_long(event, "message", MAX_NOTE))
        .done()
}

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

fn too_long(event: &Json, key: &str, most: usize) -> Option<FieldError> {
    let long = event.text(&format!("/{key}")).len() > most;
    long.then(|| FieldError::invalid_text(key, "", format!("can have at most {most} characters")))
}
