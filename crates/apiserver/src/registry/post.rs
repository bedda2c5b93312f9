//! What is posted to be done, and not to be stored: its kind says what that is.

use std::time::Duration;

use pintle_json::{Json, json};

use super::Registry;
use super::admission_chain;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};
use super::object_write::Write;
use crate::auth::{self, Attributes, Claims, Decision, ISSUER};
use crate::failure::{Failure, Outcome};
use crate::kinds::posting::{Posting, PostingStep, Question, Task};
use crate::kinds::{RequestTarget, TokenGrant, access_status, rules_status, token_status};
use crate::registry::{OWN_MANAGER, UpdateSource, Writer};
use crate::request::Subresource;
use crate::request::options::{How, WriteOptions};
use crate::request::user::{ServiceAccountName, User};

/// How often it is found out anew what is to be done, because the object has changed since it was looked at.
const POSTING_TRIES: usize = 64;

impl Registry {
    /// Does what was posted to `target`. Answers an object; none where all that is to be said is that it is done.
    pub(crate) fn post(
        &self,
        posting: &dyn Posting,
        target: &RequestTarget,
        sent: Json,
        by: &Writer<'_>,
    ) -> Outcome<Option<Json>> {
        let mut sent = if target.subresource == Subresource::None { tracked(target, sent, by) } else { sent };
        if target.kind.namespaced() && !posting.is_question() {
            self.check_namespace_is_open(&target.kind, &target.namespace, &target.name)?;
        }
        posting.defaults(&mut sent);
        admission_chain::admit(self, &mut posted(target, &mut sent, by))?;
        let user = &by.requester().user;
        let context = self.context(user);
        posting.check(&context, target, &sent)?;
        admission_chain::validate(self, &posted(target, &mut sent, by))?;
        let mut tries = POSTING_TRIES;
        loop {
            tries -= 1;
            return match posting.task(&self.context(user), target, &sent, by.options.dry_run)? {
                Task::Steps { steps, dry_run, only_as_seen } => match self.take_all(target, steps, dry_run) {
                    Err(failure) if failure.is_conflict() && only_as_seen && tries > 0 => continue,
                    taken => taken.map(|()| None),
                },
                Task::Answer(answer) => Ok(Some(answer)),
                Task::Ask(question, mut answer) => {
                    answer["status"] = self.find_out(*question, user);
                    Ok(Some(answer))
                }
                Task::Token(grant) => self.make_token(target, *grant).map(Some),
            };
        }
    }

    fn take_all(&self, target: &RequestTarget, steps: Vec<PostingStep>, dry_run: bool) -> Outcome<()> {
        let mut own = None;
        steps.into_iter().try_for_each(|step| self.take(target, step, dry_run, &mut own))
    }

    /// `own` is the revision at which a step before this one wrote the object itself: what it is to be like still is like that.
    fn take(&self, target: &RequestTarget, step: PostingStep, dry_run: bool, own: &mut Option<u64>) -> Outcome<()> {
        match step {
            PostingStep::Rewrite { resource, namespace, name, change } => {
                let kinds = self.kinds();
                let kind = kinds.store(&resource).ok_or_else(Failure::no_such_resource)?;
                let written = self.rewrite(&RequestTarget::new(kind.clone(), &namespace, &name), dry_run, change)?;
                if resource == target.kind.resource()
                    && (namespace, name) == (target.namespace.clone(), target.name.clone())
                {
                    *own = written.or(*own);
                }
                Ok(())
            }
            PostingStep::Update { resource, namespace, name, subresource, change } => {
                let kinds = self.kinds();
                let kind = kinds.store(&resource).ok_or_else(Failure::no_such_resource)?;
                let target = RequestTarget { subresource, ..RequestTarget::new(kind.clone(), &namespace, &name) };
                if dry_run {
                    return self.rewrite(&target, true, change).map(drop);
                }
                let make = |live: Option<&Json>| {
                    let mut new = live.cloned().unwrap_or_default();
                    change(&mut new).map(|()| new)
                };
                let options = WriteOptions::default();
                let by = Writer::new(&options, OWN_MANAGER, self.clock.now_text());
                self.update(&target, &UpdateSource::Patch(&make), &by).map(drop)
            }
            PostingStep::Delete(mut options) => {
                if let (Some(version), Some(own)) = (&mut options.resource_version, own) {
                    *version = own.to_string();
                }
                // Who was asked about what was posted is not asked about what it takes.
                self.delete_if(
                    &RequestTarget { subresource: Subresource::None, ..target.clone() },
                    &options,
                    |_| Ok(()),
                )
                .map(drop)
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
                rules_status(granted.rules().map(|rule| rule.value()), granted.resolution_error())
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

    fn make_token(&self, target: &RequestTarget, grant: TokenGrant) -> Outcome<Json> {
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
            sub: ServiceAccountName::new(&target.namespace, &target.name).user("").name,
        };
        let token = self.authenticator.accounts.sign(&claims);
        let token = token.ok_or_else(|| Failure::internal("failed to generate token: no randomness"))?;
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        answer["spec"]["audiences"] = json!(audiences);
        answer["status"] = json!({"token": token, "expirationTimestamp": self.clock.text_after(lasts)});
        Ok(answer)
    }
}

/// What admission is told of what was posted.
fn posted<'a>(target: &'a RequestTarget, sent: &'a mut Json, by: &'a Writer<'_>) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: Operation::Create,
        target,
        old: None,
        new: Some(sent),
        options: AdmissionOptions::Write(by.options),
        by: by.requester(),
    }
}

/// What was posted with its owners, which is all that it has in common with what is stored.
fn tracked(target: &RequestTarget, mut new: Json, by: &Writer<'_>) -> Json {
    new.unset("status");
    let mut write = Write { target, old: None, new, by, how: How::Post, labelled: false };
    write.track();
    write.new
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::kinds::{Context, Kind};
    use crate::store::Expect;

    /// Finds out what is to be done, and then the pod changes before it is.
    struct Overtaken<'a> {
        posting: &'a dyn Posting,
        registry: &'a Registry,
        becomes: Json,
        asked: AtomicUsize,
    }

    impl Posting for Overtaken<'_> {
        fn body(&self, target: &RequestTarget, api_version: &str) -> Arc<Kind> {
            self.posting.body(target, api_version)
        }

        fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task> {
            let task = self.posting.task(context, target, sent, dry_run);
            if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
                let stored = self.registry.db.get("pods", "default/p").expect("it is there");
                let mut pod = stored.decode();
                pod["status"] = self.becomes.clone();
                let put = self.registry.db.put(&"pods".into(), "default/p", Expect::At(stored.revision()), pod);
                put.expect("nobody else writes");
            }
            task
        }
    }

    fn ready() -> Json {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    /// Has a pod with that status evicted, under a budget that allows so many disruptions, while it becomes something else. Answers what comes of it,
    /// whether the pod is there, and what the budget allows then.
    fn evict(status: Json, becomes: Json, allowed: i64) -> (Option<u16>, bool, i64) {
        let registry = Registry::new(ApiServerConfig::default(), None);
        let labels = json!({"a": "b"});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "1", "labels": labels}, "status": status,
        });
        let budget = json!({
            "metadata": {"name": "b", "namespace": "default", "uid": "2"},
            "spec": {"selector": {"matchLabels": labels}, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
            "status": {"disruptionsAllowed": allowed},
        });
        let namespace = json!({"metadata": {"name": "default"}});
        for (resource, key, object) in [
            ("namespaces", "default", namespace),
            ("pods", "default/p", pod),
            ("poddisruptionbudgets.policy", "default/b", budget),
        ] {
            registry.db.put(&resource.into(), key, Expect::Absent, object).expect("absent");
        }
        let kinds = registry.kinds();
        let pods = kinds.resource("", "v1", "pods").expect("a built-in kind");
        let mut target = RequestTarget::new(pods.clone(), "default", "p");
        target.subresource = Subresource::Eviction;
        let posting = pods.strategy.posting(Subresource::Eviction).expect("pods can be evicted");
        let overtaken = Overtaken { posting, registry: &registry, becomes, asked: AtomicUsize::new(0) };
        let options = WriteOptions::default();
        let by = Writer::new(&options, "", registry.clock.now_text());
        let outcome = registry.post(&overtaken, &target, json!({"metadata": {"name": "p"}}), &by);
        let budget = registry.db.get("poddisruptionbudgets.policy", "default/b").expect("it is there").decode();
        let left = budget.integer("/status/disruptionsAllowed").expect("a number");
        (outcome.err().map(|failure| failure.code()), registry.db.get("pods", "default/p").is_some(), left)
    }

    #[test]
    fn a_pod_that_comes_to_count_while_it_is_evicted_is_charged_to_its_budget() {
        let unready = json!({"phase": "Running"});
        for spared in [json!({"phase": "Pending"}), unready.clone()] {
            assert_eq!(evict(spared.clone(), ready(), 0), (Some(429), true, 0), "{spared}");
            assert_eq!(evict(spared.clone(), ready(), 1), (None, false, 0), "{spared}");
            // What changes and stays spared goes.
            assert_eq!(
                evict(spared.clone(), json!({"phase": "Pending", "reason": "r"}), 0),
                (None, false, 0),
                "{spared}"
            );
        }
        assert_eq!(evict(ready(), unready, 1), (None, false, 0), "what was charged is not charged again");
    }
}
