//! Handles POST requests that perform an action, such as an eviction, instead of storing an object.

use std::time::Duration;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_apimachinery::request::user::{ServiceAccountName, User};
use pintle_authz::{Attributes, Claims, Decision};
use pintle_builtin::{access_status, rules_status, token_status};
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, PostStep, Question, Task};
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_kinds::{ISSUER, RequestTarget, TokenGrant};

use super::Registry;
use super::admission_chain;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};
use crate::registry::UpdateSource;

/// The maximum number of attempts to perform the action of a POST request. The server retries the action after each
/// conflict with another write.
const POST_TRIES: usize = 64;

impl Registry {
    /// Performs the action of a POST request to `target`. Returns the response object, or `None` for a success status
    /// without details.
    pub(crate) fn post(
        &self,
        post_handler: &dyn PostHandler,
        target: &RequestTarget,
        sent: Json,
        by: &Writer<'_>,
    ) -> Outcome<Option<Json>> {
        let mut sent = sent;
        target.settle_namespace(&mut sent)?;
        post_handler.defaults(&mut sent);
        let body = post_handler.body(target, sent.text("/apiVersion"));
        by.track(&body, None, &mut sent, target.subresource);
        if target.kind.is_namespaced() && !post_handler.is_read_only() {
            self.check_namespace_is_open(&target.kind, &target.namespace, &target.name)?;
        }
        admission_chain::admit(self, &mut attributes_of(target, &mut sent, by))?;
        let user = &by.requester().user;
        // Each attempt must complete the same object, because a different object needs another review.
        let context = Context { now: by.requester().now(|| self.clock.now()), ..self.context(user) };
        post_handler.check(&context, target, &sent)?;
        post_handler.complete(&context, target, &mut sent)?;
        admission_chain::validate(self, &attributes_of(target, &mut sent, by))?;
        let mut tries = POST_TRIES;
        loop {
            tries -= 1;
            by.requester().check_time()?;
            return match post_handler.task(&self.context(user), target, &sent, by.options.dry_run)? {
                Task::Steps { steps, dry_run, only_if_unchanged } => match self.run_steps(target, steps, dry_run) {
                    Err(failure) if failure.is_conflict() && only_if_unchanged && tries > 0 => continue,
                    result => result.map(|()| None),
                },
                Task::Answer(answer) => Ok(Some(answer)),
                Task::Ask(question, mut answer) => {
                    answer["status"] = self.answer_question(*question, user);
                    Ok(Some(answer))
                }
                Task::Token(grant) => self.make_token(target, *grant).map(Some),
            };
        }
    }

    fn run_steps(&self, target: &RequestTarget, steps: Vec<PostStep>, dry_run: bool) -> Outcome<()> {
        let mut own = None;
        steps.into_iter().try_for_each(|step| self.run_step(target, step, dry_run, &mut own))
    }

    /// Runs one step of a POST request's action. `own` is the revision at which an earlier step wrote the target
    /// object, if any. A step that deletes the object fails if the object no longer has this revision.
    fn run_step(&self, target: &RequestTarget, step: PostStep, dry_run: bool, own: &mut Option<u64>) -> Outcome<()> {
        match step {
            PostStep::Rewrite { resource, namespace, name, change } => {
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
            PostStep::Update { resource, namespace, name, subresource, change } => {
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
            PostStep::Delete(mut options) => {
                if let (Some(version), Some(own)) = (&mut options.resource_version, own) {
                    *version = own.to_string();
                }
                // The deletion of the pod skips admission, because admission has already checked the object in the
                // request.
                self.delete_if(
                    &RequestTarget { subresource: Subresource::None, ..target.clone() },
                    &options,
                    |_| Ok(()),
                )
                .map(drop)
            }
        }
    }

    fn answer_question(&self, question: Question, user: &User) -> Json {
        match question {
            Question::Token { token, mut audiences } => {
                if audiences.is_empty() {
                    audiences.push(ISSUER.into());
                }
                let found = self.authenticator.user(&*self.db, &token, &audiences, self.clock.now().as_second());
                token_status(found.map_err(|unknown| unknown.to_string()))
            }
            Question::Rules { namespace } => {
                let granted = pintle_authz::rules(self.rbac(), user, &namespace);
                rules_status(granted.rules().map(|rule| rule.value()), granted.resolution_error())
            }
            Question::Path { user, verb, path } => self.access(&user, &Attributes::Path { verb: &verb, path: &path }),
            Question::Resource { user, verb, path } => {
                self.access(&user, &Attributes::Resource { verb: &verb, path: &path, name: &path.name })
            }
        }
    }

    fn access(&self, user: &User, attributes: &Attributes<'_>) -> Json {
        match pintle_authz::decide(self.rbac(), user, attributes) {
            Decision::Allowed(reason) => access_status(true, &reason),
            Decision::NoOpinion(wrong) => access_status(false, wrong.as_deref().unwrap_or_default()),
        }
    }

    fn make_token(&self, target: &RequestTarget, grant: TokenGrant) -> Outcome<Json> {
        let TokenGrant { audiences, seconds, bound, mut answer } = grant;
        let now = self.clock.now().as_second();
        let claims = Claims {
            aud: audiences,
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
        answer["status"] = json!({"token": token, "expirationTimestamp": self.clock.text_after(lasts)});
        Ok(answer)
    }
}

fn attributes_of<'a>(target: &'a RequestTarget, sent: &'a mut Json, by: &'a Writer<'_>) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: Operation::Create,
        target,
        old: None,
        new: Some(sent),
        options: AdmissionOptions::Write(by.options),
        by: by.requester(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pintle_apimachinery::cluster::Context;
    use pintle_apimachinery::request::Requester;
    use pintle_kinds::Kind;
    use pintle_storage::{Charge, Expect};
    use tokio::time::Instant;

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::registry::Plugin;

    struct ConflictingPostHandler<'a> {
        post_handler: &'a dyn PostHandler,
        registry: &'a Registry,
        becomes: Json,
        calls: AtomicUsize,
    }

    impl PostHandler for ConflictingPostHandler<'_> {
        fn body(&self, target: &RequestTarget, api_version: &str) -> Arc<Kind> {
            self.post_handler.body(target, api_version)
        }

        fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task> {
            let task = self.post_handler.task(context, target, sent, dry_run);
            if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
                let stored = self.registry.db.get("pods", "default/p").expect("the pod exists");
                let mut pod = stored.decode();
                pod["status"] = self.becomes.clone();
                let put = self.registry.db.put(&"pods".into(), "default/p", Expect::At(stored.revision()), pod);
                put.expect("no other writer");
            }
            task
        }
    }

    fn ready() -> Json {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    /// Evicts a pod with the status `status`, while another request sets the status to `becomes`. The pod's disruption
    /// budget allows `allowed` disruptions. Returns the error code, whether the pod still exists, and the number of
    /// remaining disruptions.
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
        let post_handler = pods.strategy.post_handler(Subresource::Eviction).expect("pods can be evicted");
        let conflicting =
            ConflictingPostHandler { post_handler, registry: &registry, becomes, calls: AtomicUsize::new(0) };
        let options = WriteOptions::default();
        let by = Writer::new(&options, "", registry.clock.now_text());
        let outcome = registry.post(&conflicting, &target, json!({"metadata": {"name": "p"}}), &by);
        let budget = registry.db.get("poddisruptionbudgets.policy", "default/b").expect("the budget exists").decode();
        let left = budget.integer("/status/disruptionsAllowed").expect("a number");
        (outcome.err().map(|failure| failure.code()), registry.db.get("pods", "default/p").is_some(), left)
    }

    /// Evaluates a request until its deadline has passed.
    #[derive(Debug)]
    struct SlowAdmission;

    impl Plugin for SlowAdmission {
        fn validate(&self, _: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
            while request.by.deadline.is_some() && !request.by.is_timed_out() {
                std::hint::spin_loop();
            }
            Ok(Vec::new())
        }
    }

    #[test]
    fn post_action_changes_nothing_after_its_deadline() {
        let mut registry = Registry::new(ApiServerConfig::default(), None);
        registry.admission_chain.push(Arc::new(SlowAdmission));
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "1"}});
        for (resource, key, object) in
            [("namespaces", "default", json!({"metadata": {"name": "default"}})), ("pods", "default/p", pod)]
        {
            registry.db.put(&resource.into(), key, Expect::Absent, object).expect("absent");
        }
        let kinds = registry.kinds();
        let pods = kinds.resource("", "v1", "pods").expect("a built-in kind");
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        for (subresource, sent) in
            [(Subresource::Binding, binding), (Subresource::Eviction, json!({"metadata": {"name": "p"}}))]
        {
            let post = |deadline: Option<Instant>| {
                let target = RequestTarget { subresource, ..RequestTarget::new(pods.clone(), "default", "p") };
                let mut by = Requester::new(User::server());
                by.deadline = deadline;
                let options = WriteOptions { dry_run: deadline.is_none(), ..WriteOptions::default() };
                let writer = Writer::new(&options, "", registry.clock.now_text()).with_requester(by);
                let handler = pods.strategy.post_handler(subresource).expect("pods support the action");
                let written = registry.post(handler, &target, sent.clone(), &writer);
                written.err().map(|failure| failure.code())
            };
            let before = registry.db.revision();
            assert_eq!(post(Some(Instant::now() + Duration::from_millis(20))), Some(504), "{subresource:?}");
            assert_eq!(registry.db.revision(), before, "{subresource:?}");
            assert_eq!(post(None), None, "{subresource:?}");
        }
    }

    #[test]
    fn pod_that_becomes_ready_during_eviction_uses_its_budget() {
        let unready = json!({"phase": "Running"});
        for spared in [json!({"phase": "Pending"}), unready.clone()] {
            assert_eq!(evict(spared.clone(), ready(), 0), (Some(429), true, 0), "{spared}");
            assert_eq!(evict(spared.clone(), ready(), 1), (None, false, 0), "{spared}");
            // The eviction succeeds if a concurrent write changes only fields that are irrelevant for the disruption
            // budget.
            assert_eq!(
                evict(spared.clone(), json!({"phase": "Pending", "reason": "r"}), 0),
                (None, false, 0),
                "{spared}"
            );
        }
        assert_eq!(evict(ready(), unready, 1), (None, false, 0), "a pod is charged only once");
    }
}
