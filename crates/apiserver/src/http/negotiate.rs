//! Which representation an endpoint gives to a client.

use http::header::ACCEPT;

use super::Call;
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Routing};
use crate::registry::Transform;
use crate::request::accept::{self, Clause, Media, RequestedTransform};
use pintle_meta::{Reason, StatusDetails};

/// How an answer is to look.
#[derive(Clone, Debug)]
pub(crate) struct ResponseFormat {
    pub(crate) media: Media,
    pub(crate) pretty: bool,
    pub(crate) transform: Transform,
}

/// What an endpoint can answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// One object.
    Object,
    /// A list.
    List,
    /// A stream of events.
    Watch,
    /// An object that is computed and has no table.
    Transient,
    /// What the server tells of itself.
    Document,
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses a representation of what is of a kind, or tells that there is none.
pub(crate) fn negotiate(call: &Call, offer: Offer, kind: &Kind) -> Outcome<ResponseFormat> {
    choose(call, offer, kind.strategy.routing(), kind.has_protobuf())
}

/// The same of what the server tells of itself.
pub(crate) fn document(call: &Call, routing: Routing) -> Outcome<ResponseFormat> {
    choose(call, Offer::Document, routing, true)
}

fn choose(call: &Call, offer: Offer, routing: Routing, has_protobuf: bool) -> Outcome<ResponseFormat> {
    let clauses = accept::clauses(call.header(ACCEPT));
    if routing == Routing::PerMethod && !clauses.iter().any(routes_know) {
        let lists = matches!(offer, Offer::List | Offer::Watch);
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
            break;
        }
        let Some(transform) = transform(call, clause, offer, routing)? else { continue };
        if media == Media::Protobuf && !has_message(&transform, has_protobuf) {
            continue;
        }
        let pretty = is_pretty(call) || clause.pretty();
        return Ok(ResponseFormat { media, pretty, transform });
    }
    Err(not_acceptable())
}

/// Whether what is asked for can be written in protobuf: metadata always can, and no table.
fn has_message(transform: &Transform, has_protobuf: bool) -> bool {
    match transform {
        Transform::None => has_protobuf,
        Transform::Metadata { .. } => true,
        Transform::Table { .. } => false,
    }
}

/// What is answered where no clause can be served.
fn not_acceptable() -> Failure {
    Failure::new(406, Reason::NotAcceptable, format!("only the following media types are accepted: {MEDIA_TYPES}"))
}

/// What has routes does not understand `application/*` and looks no further than the media type.
fn routes_know(clause: &Clause) -> bool {
    let wildcard = clause.kind == "*" && clause.subtype == "*";
    wildcard && clause.media().is_some()
        || clause.kind == "application"
            && matches!(clause.subtype.as_str(), "json" | "yaml" | "vnd.kubernetes.protobuf")
}

/// What the clause wants the answer turned into; none where that is not offered.
fn transform(call: &Call, clause: &Clause, offer: Offer, routing: Routing) -> Outcome<Option<Transform>> {
    let asked = clause.transform();
    let RequestedTransform { name, group, version } = &asked;
    if name.is_empty() {
        return Ok((group.is_empty() && version.is_empty()).then_some(Transform::None));
    }
    let known = group == "meta.k8s.io" && matches!(version.as_str(), "v1" | "v1beta1");
    if !known || matches!(offer, Offer::Transient | Offer::Document) {
        return Ok(None);
    }
    let api_version = format!("meta.k8s.io/{version}");
    match (name.as_str(), offer) {
        ("Table", _) => Ok(Some(Transform::table(api_version, call.query.text("includeObject"))?)),
        ("PartialObjectMetadata", Offer::Object | Offer::Watch) => Ok(Some(Transform::Metadata { api_version })),
        ("PartialObjectMetadataList", Offer::List) => Ok(Some(Transform::Metadata { api_version })),
        ("PartialObjectMetadataList", Offer::Object) if routing == Routing::CatchAll => {
            Err(Failure::plain(500, "content is not a list"))
        }
        ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => Err(not_acceptable()),
        _ => Ok(None),
    }
}

/// Whether the output is indented: as `pretty` says, else for the tools that people read the output of.
pub(crate) fn is_pretty(call: &Call) -> bool {
    match call.query.first("pretty") {
        Some(text) if text == "1" || text == "true" => true,
        Some(text) if !text.is_empty() => false,
        _ => ["curl/", "Wget/", "Mozilla/5.0"].iter().any(|tool| call.user_agent().starts_with(tool)),
    }
}

/// How an error looks: as asked, without any transform; JSON where nothing fits.
pub(crate) fn for_errors(call: &Call) -> (Media, bool) {
    let clauses = accept::clauses(call.header(ACCEPT));
    let clause =
        clauses.iter().find(|clause| clause.media().is_some() && clause.transform() == RequestedTransform::default());
    let media = clause.and_then(Clause::media).unwrap_or(Media::Json);
    (media, is_pretty(call) || clause.is_some_and(Clause::pretty))
}
