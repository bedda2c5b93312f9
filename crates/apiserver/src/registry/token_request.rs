//! `/token` of a service account: a token that speaks for it.

use std::time::Duration;

use pintle_json::{Json, json};

use super::Registry;
use crate::auth::{Bound, Claims, ISSUER, Named};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource, Place};
use crate::object::metadata;
use crate::validate::{Faults, FieldFault};

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_SECONDS: i64 = 600;
const LONGEST_SECONDS: i64 = 1 << 32;

impl Registry {
    /// Makes a token for the service account at `place`. Nothing of it is kept, so a dry run makes one too, as on a real server.
    pub(crate) fn request_token(&self, place: &Place, request: &Json) -> Outcome<Json> {
        for (field, url, why) in [
            ("name", &place.name, "must match the service account name if specified"),
            ("namespace", &place.namespace, "must match the service account namespace if specified"),
        ] {
            let said = request["metadata"][field].text("");
            if !said.is_empty() && said != url {
                let fault = FieldFault::invalid_text(format!("metadata.{field}"), said, why);
                return Err(invalid(&place.name, fault));
            }
        }
        let namespaces = GroupResource::new("", "namespaces");
        if self.db.object(&namespaces, "", &place.namespace).is_none() {
            return Err(Failure::not_found(&namespaces, &place.namespace));
        }
        let account = self.get(place)?.tree();
        let (uid, said) = (metadata::uid(&account), metadata::uid(request));
        if !said.is_empty() && said != uid {
            let why =
                format!("the UID in the token request ({said}) does not match the UID of the service account ({uid})");
            return Err(Failure::conflict(&GroupResource::new(GROUP, "TokenRequest"), &place.name, &why));
        }
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        let why = match seconds {
            ..SHORTEST_SECONDS => Some("may not specify a duration less than 10 minutes"),
            seconds if seconds > LONGEST_SECONDS => Some("may not specify a duration larger than 2^32 seconds"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(invalid("", FieldFault::invalid("spec.expirationSeconds", &seconds.into(), why)));
        }
        let mut bound =
            Bound { namespace: place.namespace.clone(), serviceaccount: named(&account), ..Bound::default() };
        let wanted = &request["spec"]["boundObjectRef"];
        if !wanted.is_null() {
            self.bind_token(place, wanted, &mut bound)?;
        }
        let audiences: Vec<String> = match request["spec"]["audiences"].as_array() {
            Some(audiences) if !audiences.is_empty() => {
                audiences.iter().filter_map(Json::as_str).map(str::to_owned).collect()
            }
            _ => vec![ISSUER.into()],
        };
        let now = self.clock.now().as_second();
        let claims = Claims {
            aud: audiences.clone(),
            exp: now.saturating_add(seconds),
            iat: now,
            iss: ISSUER.into(),
            jti: self.uuid(),
            bound,
            nbf: now,
            sub: format!("system:serviceaccount:{}:{}", place.namespace, place.name),
        };
        let token = self.authenticator.accounts.sign(&claims);
        let token = token.ok_or_else(|| Failure::internal("failed to generate token: no randomness"))?;
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok(json!({
            "metadata": {
                "name": place.name,
                "namespace": place.namespace,
                "uid": uid,
                "creationTimestamp": self.clock.now_text(),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": wanted},
            "status": {"token": token, "expirationTimestamp": self.clock.text_after(lasts)},
        }))
    }

    /// Binds a token to the object that its request names: it dies with that.
    fn bind_token(&self, place: &Place, wanted: &Json, bound: &mut Bound) -> Outcome<()> {
        let (api_version, kind, name) = (wanted.text("/apiVersion"), wanted.text("/kind"), wanted.text("/name"));
        let find = |plural: &str, namespace: &str, name: &str| {
            let resource = GroupResource::new("", plural);
            self.db.object(&resource, namespace, name).ok_or_else(|| Failure::not_found(&resource, name))
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = match (group, kind) {
            ("", "Pod") => {
                let pod = find("pods", &place.namespace, name)?;
                let account = pod.text("/spec/serviceAccountName");
                if account != place.name {
                    return Err(Failure::bad_request(format!(
                        "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                        place.name
                    )));
                }
                if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                    let known = find("nodes", "", node).ok();
                    let absent = || Named { name: node.into(), ..Named::default() };
                    bound.node = Some(known.map_or_else(absent, |node| named(&node)));
                }
                bound.pod.insert(named(&pod))
            }
            ("", "Secret") => bound.secret.insert(named(&*find("secrets", &place.namespace, name)?)),
            ("", "Node") => bound.node.insert(named(&*find("nodes", "", name)?)),
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
}

fn named(object: &Json) -> Named {
    Named { name: metadata::name(object).into(), uid: metadata::uid(object).into() }
}

fn invalid(name: &str, fault: FieldFault) -> Failure {
    Failure::invalid_named(GROUP, "TokenRequest", name, Faults::from([fault]))
}
