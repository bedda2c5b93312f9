//! What is posted to be done, and not to be stored: its kind says what that is.

use std::time::Duration;

use pintle_json::{Json, json};

use super::Registry;
use super::admission_chain;
use super::admission_plugin::{AdmissionRequest, Operation};
use super::object_write::Write;
use crate::auth::{self, Attributes, Claims, Decision, ISSUER};
use crate::failure::{Failure, Outcome};
use crate::kinds::posting::{Posting, PostingStep, Question, Task};
use crate::kinds::{Place, TokenGrant, access_status, rules_status, token_status};
use crate::registry::Writer;
use crate::request::Part;
use crate::request::options::How;
use crate::request::user::{ServiceAccountName, User};

impl Registry {
    /// Does what was posted to `place`. Answers an object; none where all that is to be said is that it is done.
    pub(crate) fn post(
        &self,
        posting: &dyn Posting,
        place: &Place,
        sent: Json,
        by: &Writer<'_>,
    ) -> Outcome<Option<Json>> {
        let sent = if place.part == Part::Object { tracked(place, sent, by) } else { sent };
        let request = AdmissionRequest {
            operation: Operation::Connect,
            place,
            old: None,
            new: Some(&sent),
            user: by.user(),
            dry_run: by.options.dry_run,
        };
        admission_chain::admit(self, &request)?;
        match posting.task(&self.context(by.user()), place, &sent, by.options.dry_run)? {
            Task::Steps { steps, dry_run } => {
                let mut own = None;
                steps
                    .into_iter()
                    .try_for_each(|step| self.take(place, step, dry_run, &mut own, by.user()))
                    .map(|()| None)
            }
            Task::Answer(answer) => Ok(Some(answer)),
            Task::Ask(question, mut answer) => {
                answer["status"] = self.find_out(*question, by.user());
                Ok(Some(answer))
            }
            Task::Token(grant) => self.make_token(place, *grant).map(Some),
        }
    }

    /// `own` is the revision at which a step before this one wrote the object itself: what it is to be like still is like that.
    fn take(&self, place: &Place, step: PostingStep, dry_run: bool, own: &mut Option<u64>, user: &User) -> Outcome<()> {
        match step {
            PostingStep::Rewrite { resource, namespace, name, change } => {
                let kinds = self.kinds();
                let kind = kinds.store(&resource).ok_or_else(Failure::no_such_resource)?;
                let written = self.rewrite(&Place::new(kind.clone(), &namespace, &name), dry_run, change)?;
                if resource == place.kind.resource()
                    && (namespace, name) == (place.namespace.clone(), place.name.clone())
                {
                    *own = written.or(*own);
                }
                Ok(())
            }
            PostingStep::Delete(mut options) => {
                if let (Some(version), Some(own)) = (&mut options.resource_version, own) {
                    *version = own.to_string();
                }
                self.delete(&Place { part: Part::Object, ..place.clone() }, &options, user).map(drop)
            }
        }
    }

    fn find_out(&self, question: Question, user: &User) -> Json {
        match question {
            Question::Token { token, mut audiences } => {
                if audiences.is_empty() {
                    audiences.push(ISSUER.into());
                }
                let found = self.authenticator.user(&self.db, &token, &audiences, self.clock.now().as_second());
                token_status(found.map_err(|unknown| unknown.to_string()))
            }
            Question::Rules { namespace } => {
                let granted = auth::rules(self.rbac(), user, &namespace);
                rules_status(granted.rules().map(|rule| rule.value()), granted.wrong())
            }
            Question::Path { who, verb, path } => self.access(&who, &Attributes::Path { verb: &verb, path: &path }),
            Question::Resource { who, verb, path } => {
                self.access(&who, &Attributes::Resource { verb: &verb, path: &path, name: &path.name })
            }
        }
    }

    fn access(&self, who: &User, attributes: &Attributes<'_>) -> Json {
        match auth::decide(self.rbac(), who, attributes) {
            Decision::Allowed(reason) => access_status(true, &reason),
            Decision::NoOpinion(wrong) => access_status(false, wrong.as_deref().unwrap_or_default()),
        }
    }

    fn make_token(&self, place: &Place, grant: TokenGrant) -> Outcome<Json> {
        let TokenGrant { mut audiences, seconds, bound, mut answer } = grant;
        if audiences.is_empty() {
            audiences.push(ISSUER.into());
        }
        let now = self.clock.now().as_second();
        let claims = Claims {
            aud: audiences.clone(),
            exp: now.saturating_add(seconds),
            iat: now,
            iss: ISSUER.into(),
            jti: self.uuid(),
            bound,
            nbf: now,
            sub: ServiceAccountName::new(&place.namespace, &place.name).user("").name,
        };
        let token = self.authenticator.accounts.sign(&claims);
        let token = token.ok_or_else(|| Failure::internal("failed to generate token: no randomness"))?;
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        answer["spec"]["audiences"] = json!(audiences);
        answer["status"] = json!({"token": token, "expirationTimestamp": self.clock.text_after(lasts)});
        Ok(answer)
    }
}

/// What was posted with its owners, which is all that it has in common with what is stored.
fn tracked(place: &Place, mut new: Json, by: &Writer<'_>) -> Json {
    new.unset("status");
    let mut write = Write { place, old: None, new, by, how: How::Post };
    write.track();
    write.new
}
