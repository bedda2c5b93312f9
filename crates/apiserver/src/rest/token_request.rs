//! `/token` of a service account: a token that speaks for it.

use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};

use super::meta::{member, text};
use super::object::Place;
use crate::api::Api;
use crate::auth::{ServiceAccount, User};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource};
use crate::validate::FieldFault;

const AUDIENCE: &str = "https://kubernetes.default.svc";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_SECONDS: i64 = 600;
const LONGEST_SECONDS: i64 = 1 << 32;

impl Api {
    /// Makes a token for the service account at `place`. It holds as long as the account is there; it does not expire.
    pub(crate) fn request_token(&self, place: &Place, request: &Value, dry_run: bool) -> Outcome<Value> {
        let account = self.get(place)?;
        let name = text(request, "name");
        if !name.is_empty() && name != place.name {
            let why = "must match the service account name if specified";
            return Err(invalid(&place.name, FieldFault::invalid_text("metadata.name", name, why)));
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
        let bound = &request["spec"]["boundObjectRef"];
        self.check_bound(place, bound)?;
        let token = self.with_random(|random| format!("{:032x}{:032x}", random.u128(..), random.u128(..)));
        if !dry_run {
            let user = ServiceAccount::new(&place.namespace, &place.name).user(text(&account.value, "uid"));
            self.remember(&token, user);
        }
        let audiences = match &request["spec"]["audiences"] {
            Value::Array(audiences) if !audiences.is_empty() => audiences.clone(),
            _ => vec![AUDIENCE.into()],
        };
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let created = member(&account.value, "creationTimestamp").cloned().unwrap_or_default();
        Ok(json!({
            "metadata": {"name": place.name, "namespace": place.namespace, "creationTimestamp": created},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": self.clock.text_after(lasts)},
        }))
    }

    fn check_bound(&self, place: &Place, bound: &Value) -> Outcome<()> {
        if bound.is_null() {
            return Ok(());
        }
        let name = text_of(bound, "name");
        if text_of(bound, "kind") != "Pod" {
            let why =
                format!("cannot bind token for serviceaccount {:?} to object of type {}", place.name, bound["kind"]);
            return Err(Failure::bad_request(why));
        }
        let pods = GroupResource::new("", "pods");
        let pod = self.db.object(&pods, &place.namespace, name).ok_or_else(|| Failure::not_found(&pods, name))?;
        match pod["spec"]["serviceAccountName"].as_str() {
            Some(account) if account == place.name => Ok(()),
            account => Err(Failure::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod {name:?} running with different serviceaccount name {:?}.",
                place.name,
                account.unwrap_or_default()
            ))),
        }
    }

    fn remember(&self, token: &str, user: User) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        // Where everybody is an administrator no token is looked at.
        if let Some(tokens) = tokens.as_mut() {
            tokens.insert(token, user);
        }
    }
}

fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn invalid(name: &str, fault: FieldFault) -> Failure {
    Failure::invalid_named("authentication.k8s.io", "TokenRequest", name, vec![fault])
}
