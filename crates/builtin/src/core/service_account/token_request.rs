//! The subresource `/token`, which issues a service account token.

use std::sync::Arc;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, metadata_mut};
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, Task};
use pintle_kinds::{Bound, ISSUER, Kind, Named, Plain, RequestTarget, TokenGrant};
use pintle_meta::GroupResource;

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_TOKEN_SECONDS: i64 = 600;
const LONGEST_SECONDS: i64 = 1 << 32;

/// The strategy of TokenRequests in `authentication.k8s.io/v1`, which
/// are not stored. As in kube-apiserver, a dry run also issues a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRequest;

impl PostHandler for TokenRequest {
    fn body(&self, _: &RequestTarget, _: &str) -> Arc<Kind> {
        Arc::new(Kind::body_only(AUTHENTICATION_GROUP, "v1", "TokenRequest", Arc::new(Plain)))
    }

    fn defaults(&self, sent: &mut Json) {
        if let Some(spec) = sent.member("spec") {
            spec.set_default("expirationSeconds", DEFAULT_SECONDS);
        }
    }

    fn check(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json) -> Outcome<()> {
        let (name, namespace) = (metadata::name(sent), metadata::namespace(sent));
        for (field, said, own) in [("name", name, &target.name), ("namespace", namespace, &target.namespace)] {
            if !said.is_empty() && said != own {
                let why = format!("must match the service account {field} if specified");
                return Err(invalid(&target.name, FieldError::invalid_text(format!("metadata.{field}"), said, why)));
            }
        }
        let account = find(context, &target.kind.plural, &target.namespace, &target.name)?;
        let (uid, said) = (metadata::uid(&account), metadata::uid(sent));
        if !said.is_empty() && said != uid {
            let why =
                format!("the UID in the token request ({said}) does not match the UID of the service account ({uid})");
            return Err(Failure::conflict(
                &GroupResource::new(AUTHENTICATION_GROUP, "TokenRequest"),
                &target.name,
                &why,
            ));
        }
        seconds(sent).map(drop)
    }

    fn complete(&self, context: &Context<'_>, target: &RequestTarget, sent: &mut Json) -> Outcome<()> {
        let account = find(context, &target.kind.plural, &target.namespace, &target.name)?;
        let metadata = metadata_mut(sent);
        metadata.set("name", target.name.as_str());
        metadata.set("namespace", target.namespace.as_str());
        metadata.set("uid", metadata::uid(&account));
        metadata.set("creationTimestamp", context.time());
        if sent.list("/spec/audiences").next().is_none() {
            sent["spec"].set("audiences", json!([ISSUER]));
        }
        sent.set("status", json!({"token": "", "expirationTimestamp": null}));
        Ok(())
    }

    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, _: bool) -> Outcome<Task> {
        let account = find(context, &target.kind.plural, &target.namespace, &target.name)?;
        let seconds = seconds(sent)?;
        let namespace = target.namespace.clone();
        let mut bound = Bound { namespace, serviceaccount: named(&account), ..Bound::default() };
        let wanted = &sent["spec"]["boundObjectRef"];
        if !wanted.is_null() {
            bind(context, target, wanted, &mut bound)?;
        }
        let audiences = sent.texts("/spec/audiences").map(str::to_owned).collect();
        Ok(Task::Token(Box::new(TokenGrant { audiences, seconds, bound, answer: sent.clone() })))
    }
}

fn seconds(request: &Json) -> Outcome<i64> {
    let seconds = request.integer("/spec/expirationSeconds").unwrap_or_default();
    let why = match seconds {
        ..SHORTEST_TOKEN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > LONGEST_SECONDS => "may not specify a duration larger than 2^32 seconds",
        seconds => return Ok(seconds),
    };
    Err(invalid("", FieldError::invalid("spec.expirationSeconds", &seconds.into(), why)))
}

/// Binds the token to the object in the request, so the token becomes invalid when this object is
/// deleted.
fn bind(context: &Context<'_>, target: &RequestTarget, wanted: &Json, bound: &mut Bound) -> Outcome<()> {
    let (api_version, kind, name) = (wanted.text("/apiVersion"), wanted.text("/kind"), wanted.text("/name"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if group.is_empty() && matches!(kind, "Pod" | "Secret" | "Node") && name.is_empty() {
        return Err(Failure::bad_request("Name parameter required."));
    }
    let found = match (group, kind) {
        ("", "Pod") => {
            let pod = find(context, "pods", &target.namespace, name)?;
            if pod.text("/spec/serviceAccountName") != target.name {
                return Err(Failure::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    target.name
                )));
            }
            let node = pod.text("/spec/nodeName");
            if !node.is_empty() {
                let known = find(context, "nodes", "", node).ok();
                let absent = || Named { name: node.into(), ..Named::default() };
                bound.node = Some(known.map_or_else(absent, |node| named(&node)));
            }
            bound.pod.insert(named(&pod))
        }
        ("", "Secret") => bound.secret.insert(named(&*find(context, "secrets", &target.namespace, name)?)),
        ("", "Node") => bound.node.insert(named(&*find(context, "nodes", "", name)?)),
        _ => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Failure::bad_request(why));
        }
    };
    let uid = wanted.text("/uid");
    if !uid.is_empty() && uid != found.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Failure::conflict(&GroupResource::new(group, kind), name, &why));
    }
    Ok(())
}

fn find(context: &Context<'_>, plural: &str, namespace: &str, name: &str) -> Outcome<Arc<Json>> {
    let resource = GroupResource::new("", plural);
    context.cluster.object(&resource, namespace, name).ok_or_else(|| Failure::not_found(&resource, name))
}

fn named(object: &Json) -> Named {
    Named { name: metadata::name(object).into(), uid: metadata::uid(object).into() }
}

fn invalid(name: &str, error: FieldError) -> Failure {
    Failure::invalid_named(AUTHENTICATION_GROUP, "TokenRequest", name, FieldErrors::from([error]))
}
