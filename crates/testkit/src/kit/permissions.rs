//! Determines and restricts the permissions of an operator.

use super::{Kit, runs};
use crate::journal::Journal;
use crate::role::LeastRole;
use crate::violation::Violation;
use crate::world::{Settings, World};

const SHOWN: usize = 15;

impl<W: World> Kit<W> {
    /// Returns a role that contains only the permissions that the operator needs. This method runs all steps, stops the
    /// process gracefully, and starts a second process. The role allows all requests of both processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the operator does not become idle, or if a step fails. Returns [`Violation::NoEffect`] if
    /// the kit has steps and the operator changes nothing. Returns [`Violation::FailedCalls`] if reconciliations fail.
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn role(&self, name: &str) -> Result<LeastRole, Violation> {
        runs::one(&self.settings, async |journal| {
            let lab = self.lab(0, journal).await?;
            self.run_twice(&lab).await?;
            Ok(LeastRole::of(name, &lab.requests()))
        })
    }

    /// Restricts the operator to `role` in all checks and in [`run`](Self::run), which shows whether the role is
    /// sufficient. A check returns [`Violation::Forbidden`] if the role does not allow a request of the operator.
    pub fn restricted(mut self, role: &LeastRole) -> Self {
        self.settings.role = Some(role.clone());
        self
    }

    /// Allows the role of a [restricted](Self::restricted) operator to lack the permission for `verb` on `resource`, such
    /// as `configmaps` or `websites/status`. Use this method if the operator tolerates the missing permission, for
    /// example because an administrator installs its CustomResourceDefinitions.
    pub fn may_lack(mut self, verb: &str, resource: &str) -> Self {
        self.settings.may_lack.insert((verb.into(), resource.into()));
        self
    }
}

impl Settings {
    /// Returns an error if the server rejected a request because the operator's role does not allow the request.
    pub(super) fn check_role(&self, journal: &Journal) -> Result<(), Violation> {
        let Some(role) = &self.role else { return Ok(()) };
        let mut requests = journal.denied(&role.user());
        requests.retain(|request| !self.may_lack.contains(&request.permission()));
        requests.truncate(SHOWN);
        if requests.is_empty() {
            return Ok(());
        }
        Err(Violation::Forbidden { what: "without a disturbance".into(), name: role.name().into(), requests })
    }
}
