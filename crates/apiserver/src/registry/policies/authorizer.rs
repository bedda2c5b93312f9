//! The CEL variable `authorizer`.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::User;
use pintle_authz::Attributes;
use pintle_cel::{Authorizer, Decision, Question};
use pintle_storage::Db;

use super::namespace::namespace_of;
use crate::registry::Registry;
use crate::registry::admission_plugin::AdmissionRequest;

pub(super) struct UserAuthorizer {
    authorizer: Arc<pintle_authz::Authorizer>,
    db: Arc<Db>,
    user: User,
}

impl UserAuthorizer {
    pub(super) fn new(registry: &Registry, user: &User) -> Self {
        Self { authorizer: registry.authorizer.clone(), db: registry.db.clone(), user: user.clone() }
    }
}

impl Authorizer for UserAuthorizer {
    fn authorize(&self, question: &Question) -> Decision {
        let account = question.service_account.as_ref().map(|(namespace, name)| service_account(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let rbac = self.authorizer.rules_in(&self.db);
        let path = ResourcePath {
            group: question.group.clone(),
            version: "*".into(),
            namespace: question.namespace.clone(),
            resource: question.resource.clone(),
            subresource: question.subresource.clone(),
            name: question.name.clone(),
            ..ResourcePath::default()
        };
        let verb = question.verb.as_str();
        let attributes = match &question.path {
            Some(path) => Attributes::Path { verb, path },
            None => Attributes::Resource { verb, path: &path, name: &question.name },
        };
        match pintle_authz::decide(rbac, user, &attributes) {
            pintle_authz::Decision::Allowed(reason) => Decision { allowed: true, reason, error: None },
            pintle_authz::Decision::NoOpinion(error) => Decision { allowed: false, reason: String::new(), error },
        }
    }
}

fn service_account(namespace: &str, name: &str) -> User {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: String::new(),
        groups: groups.into_iter().collect(),
        extra: BTreeMap::new(),
    }
}

/// Returns an authorization [`Question`] about the request's resource, in which the verb is still empty.
pub(super) fn question(request: &AdmissionRequest<'_>) -> Question {
    let target = request.target;
    Question {
        group: target.kind.group.to_string(),
        resource: target.kind.plural.to_string(),
        subresource: target.subresource.name().into(),
        namespace: namespace_of(request).into(),
        name: request.name().into(),
        ..Question::default()
    }
}
