//! Negotiates the format of a response from the `Accept` header.

use http::header::ACCEPT;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::accept::{self, Clause, Media, RequestedTransform};
use pintle_kinds::{Kind, RequestTarget, Routing};
use pintle_meta::{Reason, StatusDetails};

use super::call::RequestHead;
use crate::registry::Transform;

#[derive(Clone, Debug)]
pub(crate) struct ResponseFormat {
    pub(crate) media: Media,
    pub(crate) pretty: bool,
    pub(crate) transform: Transform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Object,
    /// An object whose kind has no table form in the subresource of the request.
    ObjectWithoutTable,
    List,
    Watch,
    /// An object without a table form, which the server creates only for the response.
    Transient,
    Document,
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the format of a response with objects of a kind. Returns a 406 failure if no format is acceptable.
pub(crate) fn negotiate(head: &RequestHead, offer: Offer, kind: &Kind) -> Outcome<ResponseFormat> {
    choose(head, offer, kind.strategy.routing(), Some(kind))
}

/// Like [`negotiate`], for a response with the object of a request target.
pub(crate) fn object(head: &RequestHead, target: &RequestTarget) -> Outcome<ResponseFormat> {
    let has_table = target.subresource != Subresource::Status || !target.kind.flags.status_has_no_table;
    negotiate(head, if has_table { Offer::Object } else { Offer::ObjectWithoutTable }, &target.kind)
}

pub(crate) fn document(head: &RequestHead, routing: Routing) -> Outcome<ResponseFormat> {
    choose(head, Offer::Document, routing, None)
}

fn choose(head: &RequestHead, offer: Offer, routing: Routing, kind: Option<&Kind>) -> Outcome<ResponseFormat> {
    let has_protobuf = kind.is_none_or(Kind::has_protobuf);
    let clauses = accept::clauses(head.header(ACCEPT));
    if routing == Routing::PerMethod && !clauses.iter().any(is_known_to_routes) {
        let lists = matches!(offer, Offer::List | Offer::Watch) && head.method != "DELETE";
        let types = if lists { format!("{MEDIA_TYPES}, {STREAMS}") } else { MEDIA_TYPES.to_owned() };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
        return Err(Failure::new(406, Reason::NotAcceptable, message).with(StatusDetails::default()));
    }
    for clause in &clauses {
        let Some(media) = clause.media() else { continue };
        if offer == Offer::Watch && clause.parameter("stream").is_some_and(|stream| stream != "watch") {
            continue;
        }
        if offer == Offer::Watch && media == Media::Yaml {
            return Err(not_acceptable(STREAMS));
        }
        let Some(transform) = transform(head, clause, offer, routing, kind)? else { continue };
        if media == Media::Protobuf && !has_message(&transform, has_protobuf) {
            continue;
        }
        let pretty = is_pretty(head) || clause.pretty();
        return Ok(ResponseFormat { media, pretty, transform });
    }
    Err(not_acceptable(MEDIA_TYPES))
}

/// Returns `true` if a response in this format can be encoded as protobuf. Metadata always has a protobuf encoding, and
/// a table never has one.
fn has_message(transform: &Transform, has_protobuf: bool) -> bool {
    match transform {
        Transform::None => has_protobuf,
        Transform::Metadata { .. } => true,
        Transform::Table { .. } => false,
    }
}

/// Returns the error for metadata of an object if the response is a list, or the other way round.
fn wrong_shape(wanted: &str, offer: Offer, kind: &Kind) -> Failure {
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    let (found, suffix) = if offer == Offer::List { ("a list", "List") } else { ("not a list", "") };
    let message =
        format!("you requested {wanted}, but the requested object is {found} (*{package}.{}{suffix})", kind.kind);
    Failure::new(406, Reason::NotAcceptable, message)
}

fn not_acceptable(types: &str) -> Failure {
    Failure::new(406, Reason::NotAcceptable, format!("only the following media types are accepted: {types}"))
}

/// Returns `true` if kube-apiserver's per-method routes accept this `Accept` clause. The per-method routes reject
/// `application/*` and ignore the parameters of clauses.
fn is_known_to_routes(clause: &Clause) -> bool {
    let wildcard = clause.kind == "*" && clause.subtype == "*";
    wildcard && clause.media().is_some()
        || clause.kind == "application"
            && matches!(clause.subtype.as_str(), "json" | "yaml" | "vnd.kubernetes.protobuf")
}

fn transform(
    head: &RequestHead,
    clause: &Clause,
    offer: Offer,
    routing: Routing,
    kind: Option<&Kind>,
) -> Outcome<Option<Transform>> {
    let requested = clause.transform();
    let RequestedTransform { name, group, version } = &requested;
    if name.is_empty() {
        return Ok((group.is_empty() && version.is_empty()).then_some(Transform::None));
    }
    let known = group == "meta.k8s.io" && matches!(version.as_str(), "v1" | "v1beta1");
    if !known || matches!(offer, Offer::Transient | Offer::Document) {
        return Ok(None);
    }
    let api_version = format!("meta.k8s.io/{version}");
    match (name.as_str(), offer) {
        ("Table", Offer::ObjectWithoutTable) => Ok(None),
        ("Table", _) => Ok(Some(Transform::table(api_version, head.query.text("includeObject"))?)),
        ("PartialObjectMetadata", Offer::Object | Offer::ObjectWithoutTable | Offer::Watch) => {
            Ok(Some(Transform::Metadata { api_version }))
        }
        ("PartialObjectMetadataList", Offer::List) => Ok(Some(Transform::Metadata { api_version })),
        ("PartialObjectMetadataList", Offer::Object) if routing == Routing::CatchAll => {
            Err(Failure::plain(500, "content is not a list"))
        }
        ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => Err(match (offer, kind) {
            (Offer::Object | Offer::ObjectWithoutTable | Offer::List, Some(kind)) => wrong_shape(name, offer, kind),
            _ => not_acceptable(MEDIA_TYPES),
        }),
        _ => Ok(None),
    }
}

/// Returns `true` if the query parameter `pretty` requests indented output.
/// Without the parameter, output for curl, Wget and browsers is indented.
pub(crate) fn is_pretty(head: &RequestHead) -> bool {
    match head.query.first("pretty") {
        Some(text) if text == "1" || text == "true" => true,
        Some(text) if !text.is_empty() => false,
        _ => ["curl/", "Wget/", "Mozilla/5.0"].iter().any(|tool| head.user_agent().starts_with(tool)),
    }
}

/// Returns the media type of an error response, and `true` if the response is indented. Error responses do not support
/// transformations such as tables. If no media type in the `Accept` header is acceptable, returns JSON.
pub(crate) fn for_errors(head: &RequestHead) -> (Media, bool) {
    let clauses = accept::clauses(head.header(ACCEPT));
    let clause =
        clauses.iter().find(|clause| clause.media().is_some() && clause.transform() == RequestedTransform::default());
    let media = clause.and_then(Clause::media).unwrap_or(Media::Json);
    (media, is_pretty(head) || clause.is_some_and(Clause::pretty))
}
