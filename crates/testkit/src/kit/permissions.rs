//! Determines and restricts the permissions of an operator.

use pintle_meta::Impersonate;

use super::{Kit, runs};
use crate::role::LeastRole;
use crate::violation::Violation;
use crate::world::World;

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
        runs::one(self.settings.stall_limit, async |journal| {
            let lab = self.lab(0, journal).await?;
            self.run_twice(&lab).await?;
            Ok(LeastRole::of(name, &lab.requests()))
        })
    }

    /// Restricts the operator to `role` in all checks, which shows whether the role is sufficient.
    pub fn restricted(mut self, role: &LeastRole) -> Self {
        let user = Impersonate { user: role.user(), ..Impersonate::default() };
        self.settings.permissions = Some((user, role.to_string()));
        self
    }
}
